"""tools/gpu_check tells the truth: nothing that did not run is "met", and no failure goes missing."""

import importlib.machinery
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from fnmatch import fnmatchcase
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "python")]
from fast_gpu import figures_of_a_fast_gpu, text_of  # noqa: E402
from gpu import figures, machine, programs, stages, verdicts  # noqa: E402
from gpu.clock import Clock, Ended  # noqa: E402
from gpu.report import LINES, MET, MISSED, NOT_RUN, Report  # noqa: E402


def load_program():
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(ROOT / "tools" / "gpu_check"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


GPU_CHECK = load_program()
NAMES = {"kernels_rows_test": "Backends/GpuRows.Norms/cuda_bf16", "kernels_attention_test": "B/GpuAttention.F64/cuda_bf16",
         "kernels_products_test": "B/GpuProducts.Rows/cuda_bf16",
         "kernels_heads_test": "Devices/Heads.MostLikelyTokensInOrder/cuda",
         "kernels_hopper_test": "HopperOnGpu.AgreesWithFloat64_cuda_bf16",
         "kernels_decode_test": "HopperOnGpu.DecodingAgreesWithFloat64_cuda_bf16"}


def report_of(*results: tuple[str, str]) -> str:
    """A GoogleTest report with these (suite.name, result)."""
    tests = []
    for name, result in results:
        test = {"name": name.split(".", 1)[1], "status": "RUN", "result": "SKIPPED" if result == "skipped" else "COMPLETED"}
        if result == "failed":
            test["failures"] = [{"failure": "wrong"}]
        tests.append({"name": name.split(".", 1)[0], "testsuite": [test]})
    return json.dumps({"testsuites": tests})


def test_of(program: str) -> str:
    return NAMES.get(program, "Suite.Test")


PASSED = {p.name: (0, "", "", report_of((test_of(p.name), "passed"))) for p in (*programs.PROGRAMS, programs.LAUNCHES)}


def selects(arguments: list[str], name: str) -> bool:
    """What --gtest_filter=A:B-C:D does."""
    filters = [a.split("=", 1)[1] for a in arguments if a.startswith("--gtest_filter=")]
    keep, _, drop = (filters or ["*"])[0].partition("-")
    return (any(fnmatchcase(name, p) for p in (keep or "*").split(":"))
            and not any(fnmatchcase(name, p) for p in drop.split(":") if p))


CLEAN = "========= ERROR SUMMARY: 0 errors\n"


class FakeClock(Clock):
    """Answers for programs by their names: (code, output, why it was stopped, report or None)."""

    def __init__(self, answers: dict):
        super().__init__(9)
        self.answers, self.started = answers, []

    def run(self, command, most_seconds, environment=None):
        words = [Path(str(part)).name for part in command]
        name = words[0] if words[0] != "compute-sanitizer" else words[2]
        if words[0] == Path(sys.executable).name:
            name = words[1] if words[1].endswith(".py") else "python"
        self.started.append(name)
        code, text, why, report = self.answers.get(name, (127, "", f"cannot be started: no {name}", None))
        if name == "gpu_peers.py" and code == 0 and name in self.started[:-1]:
            text = ""  # all of its figures came at once
        if name == "gpu_bench":  # prints what it was asked for
            wanted = {"--attention": "attention", "--gemm": "gemm", "--device": "device"}.get(words[-1], words[-1])
            text = "".join(line for line in text.splitlines(True) if f'"{wanted}"' in line or "_run" in line or line[0] != "{")
        if name in NAMES and not selects([str(part) for part in command], NAMES[name]):
            report = report and report_of()
        if report is not None and "GTEST_OUTPUT" in (environment or {}):
            Path(environment["GTEST_OUTPUT"].removeprefix("json:")).write_text(report)
        return Ended(code, text, why)


class BuiltProgramsTest(unittest.TestCase):
    """The names of tests that gpu_check counts on are names of tests that were built."""

    def names_in(self, program: str) -> list[str]:
        path = ROOT / "build" / "bin" / "tests" / program
        if not path.exists():
            self.skipTest(f"{program} is not built")
        text = subprocess.run([path, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
        names, suite = [], ""
        for line in text.splitlines():
            word = line.split("#")[0].strip()
            if line.startswith(" "):
                names.append(suite + word)
            else:
                suite = word
        return names

    def test_filters_leave_tests_that_use_the_gpu(self) -> None:
        for program in programs.PROGRAMS:
            names = [n for n in self.names_in(program.name) if selects(list(program.arguments), n)]
            self.assertTrue([n for n in names if programs.re.search(program.on_gpu or ".", n)], program.name)
        for program in programs.CHECKED:
            self.assertTrue([n for n in self.names_in(program) if selects([programs.CHECKED_TESTS], n)], program)

    def test_what_may_be_skipped_exists(self) -> None:
        for program in programs.PROGRAMS:
            if program.may_skip != "$^":
                self.assertTrue([n for n in self.names_in(program.name) if programs.re.search(program.may_skip, n)],
                                program.name)


class WholeRunTest(unittest.TestCase):
    """main() with made-up programs instead of a GPU, a compiler and a build."""

    def check(self, answers: dict, arguments: tuple = (), sanitizer: bool = True, missing: tuple = (),
              tools: tuple = ()) -> tuple[int, dict, str]:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        build = Path(folder.name)
        clock = FakeClock(answers)
        here = (*tools, *(("compute-sanitizer",) if sanitizer else ()))
        with mock.patch.object(machine, "BUILD", build), mock.patch.object(GPU_CHECK, "Clock", lambda minutes: clock), \
                mock.patch.object(programs, "find_tool", lambda name: name if name in here else ""), \
                mock.patch.object(machine, "golden_models", lambda clock: (list(missing), "no gguf")), \
                redirect_stdout(io.StringIO()) as out:
            code = GPU_CHECK.main(list(arguments))
        self.started = clock.started
        whole = json.loads((build / "gpu_check.json").read_text())
        text = (build / "gpu_check.txt").read_text()
        self.assertIn(text, out.getvalue())
        for line in whole["lines"]:  # the two files say the same
            self.assertRegex(text, rf"(?m)^line {line['line']}: {line['state']}(:|$)")
        return code, whole, text

    def states(self, whole: dict) -> dict:
        return {line["line"]: line["state"] for line in whole["lines"]}

    def machine_with_gpu(self, **changes) -> dict:
        bench, peers = figures_of_a_fast_gpu()
        bench.append({"bench": "device", "name": "NVIDIA H200", "clusters": [132, 66, 42, 31, 23, 19, 16, 15]})
        sanitized = {tool: (0, CLEAN, "", report_of(*((name, "passed") for name in NAMES.values()))) for tool in ("memcheck", "racecheck")}
        return {"nvidia-smi": (0, "NVIDIA H200, 580, 143771 MiB\n", "", None), "cuda_toolchain": (0, "/cuda\n", "", None),
                "cmake": (0, "", "", None), "ninja": (0, "", "", None), "python": (0, "libcublasLt.so.13\n", "", None),
                "gpu_bench": (0, text_of(bench), "", None), "gpu_peers.py": (0, text_of(peers), "", None),
                **PASSED, **sanitized, **changes}

    def test_everything_passed(self) -> None:
        code, whole, _ = self.check(self.machine_with_gpu())
        self.assertEqual(self.states(whole), dict.fromkeys(LINES, MET), whole)
        self.assertEqual(code, 0)
        self.assertIn("NVIDIA H200", whole["machine"]["gpu"])
        self.assertEqual(whole["failures"], [])

    def test_clusters_come_first(self) -> None:
        _, whole, text = self.check(self.machine_with_gpu())
        first = next(name for name in self.started if name not in ("nvidia-smi", "cuda_toolchain", "cmake", "ninja", "python"))
        self.assertEqual(first, "gpu_bench")
        self.assertEqual(whole["machine"]["clusters"], [132, 66, 42, 31, 23, 19, 16, 15])
        self.assertIn("clusters of 1 to 8 blocks that run at once: 132 66 42 31 23 19 16 15", text)
        refused = text_of([{"bench": "gpu", "not_run": "no plugin"}])
        _, whole, text = self.check(self.machine_with_gpu(gpu_bench=(0, refused, "", None)))
        self.assertNotIn("clusters", whole["machine"])
        self.assertIn("note: clusters not known: no plugin", text)
        _, _, text = self.check(self.machine_with_gpu(gpu_bench=(0, "", "", None)))
        self.assertIn("note: clusters not known: gpu_bench did not say", text)

    def test_profiles(self) -> None:
        for answer, said in (((0, "gpu_bench ... report", "", None), "profile of attention_decode, decode 32x2048: "),
                             ((0, "==WARNING== No kernels were profiled.", "", None), "not run: no such kernel was launched"),
                             ((1, "==ERROR== ERR_NVGPUCTRPERM", "", None), "not run: ended with code 1 .*ERR_NVGPUCTRPERM"),
                             ((124, "", "stopped after 40 s", None), "not run: stopped after 40 s")):
            code, whole, text = self.check(self.machine_with_gpu(ncu=answer), tools=("ncu",))
            self.assertRegex(text, said)
            self.assertEqual(self.started.count("ncu"), len(stages.PROFILES))
            self.assertEqual((code, whole["failures"]), (0, []))  # nothing depends on it
        _, _, text = self.check(self.machine_with_gpu())
        self.assertIn("profile not run: ncu is not here", text)

    def nothing_ran(self, answers: dict, why: str, arguments: tuple = ()) -> None:
        code, whole, text = self.check(answers, arguments)
        self.assertEqual(self.states(whole), dict.fromkeys(LINES, NOT_RUN))
        for line in LINES:
            self.assertRegex(text, rf"(?m)^line {line}: not run: .*{why}")
        self.assertEqual([c["state"] for line in whole["lines"] for c in line["checks"]], [NOT_RUN] * len(LINES))
        self.assertEqual(code, 1 if whole["failures"] else 0)
        self.assertNotIn("kernels_rows_test", self.started)

    def test_no_gpu(self) -> None:
        self.nothing_ran({}, "no GPU: nvidia-smi is not here")
        self.nothing_ran({"nvidia-smi": (9, "couldn't communicate with the NVIDIA driver", "", None)}, "no GPU.*driver")
        self.nothing_ran({"nvidia-smi": (0, "", "", None)}, "no GPU")

    def test_no_nvcc_starts_no_build_and_no_pip(self) -> None:
        self.nothing_ran(self.machine_with_gpu(cuda_toolchain=(3, "", "", None)), "no nvcc of CUDA 13.0 or newer here")
        self.assertNotIn("cmake", self.started)

    def test_a_build_that_fails_is_a_failure(self) -> None:
        self.nothing_ran(self.machine_with_gpu(ninja=(1, "error: no", "", None)), "the build failed")
        self.nothing_ran(self.machine_with_gpu(cmake=(1, "no gtest", "", None)), "configuring failed: no gtest")
        self.nothing_ran(self.machine_with_gpu(ninja=(124, "", "stopped after 9 s", None)), "the build was stopped")

    def test_what_was_built_elsewhere(self) -> None:
        self.nothing_ran(self.machine_with_gpu(), "--built, but there is no .*lib/libprefix_cuda.so", ("--built",))
        self.assertNotIn("cmake", self.started)
        with mock.patch.object(machine, "find_built", lambda: ""):
            _, whole, _ = self.check(self.machine_with_gpu(cmake=(1, "", "", None)), ("--built",))
        self.assertEqual(self.states(whole), dict.fromkeys(LINES, MET))
        self.assertNotIn("cmake", self.started)

    def test_skipped_failed_crashed_and_stopped_programs(self) -> None:
        for test in (programs.PROGRAMS[0], programs.PROGRAMS[-1]):
            name = test_of(test.name)
            skips = (0, "x.h:1: Skipped\nno libcublasLt\n\n", "", report_of((name, "skipped"), ("Cpu.Only", "passed")))
            for answer, state, why in (
                (skips, NOT_RUN, "SKIPPED: no libcublasLt"),
                ((1, "", "", report_of((name, "failed"), (name, "passed"))), MISSED, "1 FAILED"),
                ((-11, "Segmentation fault", "", None), MISSED, "crashed: ended by signal 11"),
                ((0, "", "", None), MISSED, "crashed"),  # an end in peace without a report
                ((0, "", "", '{"testsuites": [{"na'), MISSED, "crashed"),
                ((1, "", "", report_of((name, "passed"))), MISSED, "ended with code 1"),  # a leak, say
                ((124, "[ RUN      ] x", "stopped after 60 s", None), NOT_RUN, "stopped after 60 s"),
                ((124, f"[  FAILED  ] {name} (3 ms)\n", "stopped", None), MISSED, "1 FAILED"),
                ((124, "", "out of time: not started", None), NOT_RUN, "out of time"),
                ((0, "", "", report_of()), NOT_RUN, "no test used the GPU"),
                ((127, "", "cannot be started", None), NOT_RUN, "cannot be started"),
            ):
                with self.subTest(program=test.name, answer=answer):
                    code, whole, text = self.check(self.machine_with_gpu(**{test.name: answer}))
                    self.assertEqual(self.states(whole)[2], state)
                    self.assertRegex(text, f"(?m)^line 2: {state}: .*{why}")
                    self.assertEqual(code, 1 if state == MISSED else 0)

    def test_tests_of_the_cpu_do_not_count(self) -> None:
        answer = (0, "", "", report_of(("GpuGemm.SlowKernel", "passed"), ("Backends/GpuRows.Norms/emulated_bf16", "passed")))
        _, whole, _ = self.check(self.machine_with_gpu(kernels_rows_test=answer))
        self.assertEqual(self.states(whole)[2], NOT_RUN)

    def test_the_plugin_may_skip_what_needs_a_machine_without_gpu(self) -> None:
        both = ("CudaPlugin.Exports", "passed"), ("CudaPlugin.LoadsWithoutADriverAndSaysSo", "skipped")
        _, whole, _ = self.check(self.machine_with_gpu(kernels_plugin_test=(0, "", "", report_of(*both))))
        self.assertEqual(self.states(whole)[2], MET)

    def test_relative_errors_are_shown(self) -> None:
        report = json.loads(report_of(("B/GpuAttention.F64/cuda_bf16", "passed"), ("B/GpuAttention.F64/cuda_f32", "passed")))
        for suite, relative in zip(report["testsuites"], ("0.0017", "0.5")):
            suite["testsuite"][0]["relative"] = relative  # as GoogleTest writes RecordProperty()
        _, _, text = self.check(self.machine_with_gpu(kernels_attention_test=(0, "", "", json.dumps(report))))
        self.assertIn("2 passed, relative error up to 1.7e-03 in bf16", text)

    def test_golden_models_that_are_not_here(self) -> None:
        _, whole, text = self.check(self.machine_with_gpu(), missing=("llama-gguf-q4_0",))
        self.assertEqual(self.states(whole)[2], NOT_RUN)
        self.assertIn("1 of them are not here: no gguf", text)
        every, bf16 = programs.golden("")[0], programs.golden("mma")[0]
        self.assertEqual(stages.golden_arguments(every, ["a-b.c"]), ("--gtest_filter=*-*/a_b_c:*99Percent*",))
        self.assertEqual(stages.golden_arguments(bf16, ["a-b.c", "d"]), ("--gtest_filter=*Bf16*-*/a_b_c:*/d:*99Percent*",))
        self.assertEqual(stages.golden_arguments(bf16, []), bf16.arguments)

    def test_models_that_no_gpu_runs_are_refused(self) -> None:
        refused = 'x.cc:9: Skipped\nlayer 1 has a window; such models run on device "cpu" only\n\n'
        report = report_of(("All/GoldenModel.F32/a", "passed"), ("All/GoldenModel.F32/b", "skipped"))
        _, whole, text = self.check(self.machine_with_gpu(kernels_golden_test=(0, refused, "", report)))
        self.assertEqual(self.states(whole)[2], MET)
        self.assertIn("1 passed, 1 refused as they should be", text)
        # One more that says nothing, or something else, is a test that did not run.
        report = report_of(("A.B/a", "passed"), ("A.B/b", "skipped"), ("A.B/c", "skipped"))
        for more, why in (("", "does not say why"), ("x.cc:9: Skipped\nno driver\n", "no driver")):
            _, whole, text = self.check(self.machine_with_gpu(kernels_golden_test=(0, refused + more, "", report)))
            self.assertEqual(self.states(whole)[2], NOT_RUN)
            self.assertIn(f"1 tests SKIPPED: {'the program ' * (not more)}{why}", text)

    def test_shards_are_the_whole(self) -> None:
        for way in ("", "auto", "mma"):
            parts = [p.environment for p in programs.PROGRAMS if p.golden and p.environment.get("PREFIX_TEST_CUDA_ATTENTION", "") == way]
            self.assertEqual({e["GTEST_TOTAL_SHARDS"] for e in parts}, {str(len(parts))})
            self.assertEqual([e["GTEST_SHARD_INDEX"] for e in parts], [str(i) for i in range(len(parts))])
        labels = [p.label for p in programs.PROGRAMS]
        self.assertEqual(len(labels), len(set(labels)))  # else their reports would overwrite each other

    def test_sanitizers(self) -> None:
        name = NAMES["kernels_rows_test"]
        ran = report_of(*((n, "passed") for n in NAMES.values()))
        skipped = report_of((name, "skipped"))
        for answer, state in (
            ((0, CLEAN, "", skipped), NOT_RUN),
            ((0, CLEAN, "", None), NOT_RUN),
            ((0, "", "", ran), NOT_RUN),
            ((9, "========= ERROR SUMMARY: 3 errors", "", ran), MISSED),
            ((0, "========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)", "", ran), MISSED),
            ((0, "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", "", ran), MET),
            ((1, "========= Error: Device not supported", "", None), NOT_RUN),
            ((124, "", "stopped after 45 s", None), NOT_RUN),
            ((1, CLEAN, "", report_of((name, "failed"))), MISSED),
            ((-11, CLEAN, "", ran), MISSED),
        ):
            with self.subTest(answer=answer):
                _, whole, _ = self.check(self.machine_with_gpu(racecheck=answer))
                self.assertEqual(self.states(whole)[2], state)
        _, whole, text = self.check(self.machine_with_gpu(), sanitizer=False)
        self.assertEqual(self.states(whole)[2], NOT_RUN)
        self.assertIn("compute-sanitizer is not here", text)

    def test_hazards_of_asynchronous_kernels_are_read_before_they_count(self) -> None:
        hazard = ("========= COMPUTE-SANITIZER\n"
                  "========= Error: Race reported between Write access at attention_decode_kernel+0x10 in attention_decode.h:90\n"
                  "=========     and Read access at attention_decode_kernel+0x90 in attention_decode.h:180 [96 hazards]\n"
                  "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n")
        ended = Ended(9, hazard)
        for program in programs.CHECKED:
            for passed, failed in ((1, []), (1, ["A.B"])):
                tests = programs.Tests(passed=passed, failed=failed, complete=True)
                check = programs.judge_sanitizer("racecheck", program, ended, tests)
                unread = program in programs.ASYNCHRONOUS and not failed
                self.assertEqual(check.state, NOT_RUN if unread else MISSED, program)
                if unread:
                    self.assertIn("Race reported between Write access at attention_decode_kernel", check.text)
                    self.assertIn("and Read access", check.text)
            # memcheck has no such excuse
            memory = Ended(9, hazard.replace("RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)", "ERROR SUMMARY: 1 error"))
            self.assertEqual(programs.judge_sanitizer("memcheck", program, memory, programs.Tests(passed=1, complete=True)).state, MISSED)
        self.assertLessEqual(set(programs.ASYNCHRONOUS), set(programs.CHECKED))
        self.assertEqual(programs.first_hazard("nothing"), "its text is in the log")

    def test_no_figures(self) -> None:
        refused = text_of([{"bench": "gpu", "not_run": "no plugin"}])
        for bench, failures in (((0, refused, "", None), 0), ((1, "gpu_bench: out of memory", "", None), 1),
                                ((-6, "", "", None), 1), ((124, "", "stopped after 60 s", None), 0), ((0, "", "", None), 0)):
            with self.subTest(bench=bench):
                code, whole, text = self.check(self.machine_with_gpu(gpu_bench=bench))
                self.assertEqual([self.states(whole)[line] for line in (3, 4, 5, 6, 7)], [NOT_RUN] * 5)
                self.assertEqual(code, 1 if failures else 0)
                self.assertRegex(text, "(?m)^line 3: not run: .*no figure of ours: .+")

    def test_no_peers(self) -> None:
        refused = text_of([{"peer": "torch", "not_run": "No module named 'torch'"}])
        code, whole, text = self.check(self.machine_with_gpu(**{"gpu_peers.py": (0, refused, "", None)}))
        self.assertEqual(self.states(whole), {2: MET, 3: NOT_RUN, 4: NOT_RUN, 5: NOT_RUN, 6: MET, 7: NOT_RUN})
        self.assertIn("No module named 'torch'", text)
        self.assertEqual(code, 0)

    def test_half_lines_of_a_program_that_was_stopped(self) -> None:
        bench, _ = figures_of_a_fast_gpu()
        half = text_of(bench[:1]) + json.dumps(bench[1])[:40]
        _, whole, text = self.check(self.machine_with_gpu(gpu_bench=(124, half, "stopped after 60 s", None)))
        self.assertEqual(self.states(whole)[3], NOT_RUN)
        self.assertIn("stopped after 60 s", text)

    def test_only_some_stages(self) -> None:
        _, whole, text = self.check(self.machine_with_gpu(), ("--minutes", "2.5", "--only", "products,memcheck"))
        self.assertEqual(self.states(whole), {2: NOT_RUN, 3: NOT_RUN, 4: NOT_RUN, 5: NOT_RUN, 6: NOT_RUN, 7: MET})
        self.assertIn("--only left out", text)
        self.assertNotIn("kernels_rows_test", self.started)

    def test_preparing(self) -> None:
        for target, gathered, built, code, asked in (("", 0, ("", ""), 0, []), ("90a", 0, ("", ""), 0, ["90a"]),
                                                     ("90a", 0, ("", "the build failed"), 1, ["90a"]),
                                                     ("90a", 0, ("no nvcc", "no nvcc"), 1, ["90a"]), ("90a", 1, ("", ""), 1, [])):
            targets = []
            with mock.patch.object(GPU_CHECK.carry, "prepare", lambda: gathered), redirect_stdout(io.StringIO()), \
                    redirect_stderr(io.StringIO()), \
                    mock.patch.object(machine, "build", lambda clock, seconds, target: targets.append(target) or built):
                self.assertEqual(GPU_CHECK.main(["--prepare", target] if target else ["--prepare"]), code)
            self.assertEqual(targets, asked)

    def test_wrong_arguments(self) -> None:
        for words in (["--minutes"], ["--minutes", "x"], ["--only", "lunch"], ["--only"], ["all"], ["--minutes", "0"]):
            self.assertIsNone(GPU_CHECK.parse(words), words)

    def test_a_fault_of_its_own_is_written_down(self) -> None:
        with mock.patch.dict(stages.STAGES, {"attention": mock.Mock(side_effect=KeyError("x"))}), self.assertRaises(KeyError), \
                mock.patch.object(Report, "write", autospec=True) as write:
            self.check(self.machine_with_gpu())
        report = write.call_args.args[0]
        self.assertEqual(report.exit_code(), 1)
        self.assertIn("gpu_check itself: KeyError", report.failures[0])
        self.assertNotIn(MET, [report.state(line) for line in LINES])
        self.assertIn("not run memcheck; racecheck: not reached", report.text())  # what was found before it is there
        self.assertIn("met     row operations", report.text())


class ClockTest(unittest.TestCase):
    def test_ends_children_with_the_program(self) -> None:
        ended = Clock(1).run(["sh", "-c", "echo begun; tail -f /dev/null & tail -f /dev/null"], 1.1)
        self.assertEqual((ended.code, ended.text, ended.good), (124, "begun\n", False))
        self.assertIn("stopped after", ended.why)

    def test_leaves_no_program_behind_when_it_is_told_to_end(self) -> None:
        told = mock.patch.object(subprocess.Popen, "communicate", side_effect=SystemExit(143))
        with told, mock.patch("os.killpg", wraps=os.killpg) as killed, self.assertRaises(SystemExit):
            Clock(1).run(["tail", "-f", "/dev/null"], 50)
        killed.assert_called_once()

    def test_programs_together(self) -> None:
        clock = Clock(1)
        words = [str(i) for i in range(5)]
        ended = clock.together([lambda w=w: clock.run(["echo", w], 30) for w in words])
        self.assertEqual([e.text.strip() for e in ended], words)  # in their order
        self.assertEqual((clock.running, clock.together([])), (set(), []))

        def told_to_end() -> None:
            while len(clock.running) < 2:
                pass
            raise SystemExit(143)
        with self.assertRaises(SystemExit):  # and the others are not waited for, nor any begun
            clock.together([told_to_end, *[lambda: clock.run(["tail", "-f", "/dev/null"], 50)] * 2])
        self.assertIn("not started", clock.run(["true"], 30).why)
        self.assertEqual(clock.running, set())

    def test_reasons(self) -> None:
        clock = Clock(1)
        self.assertIn("ended with code 3 (bye)", clock.run(["sh", "-c", "echo bye; exit 3"], 30).reason())
        self.assertIn("signal 9", clock.run(["sh", "-c", "kill -9 $$"], 30).reason())
        self.assertEqual(clock.run(["/nowhere/program"], 30).code, 127)
        self.assertIn("not started", Clock(0).run(["true"], 30).why)

    def test_json_lines(self) -> None:
        self.assertEqual(figures.json_lines('x\n{"a": 1}\n{"a": \n[1]\n{"b": 2}'), [{"a": 1}, {"b": 2}])


class MachineTest(unittest.TestCase):
    def test_models_that_came_out_otherwise(self) -> None:
        text = "make_models: hash differs: 3ab  granite-base.gguf\nmake_models: hash differs: 77  gemma-base/model.safetensors\n"
        self.assertEqual(machine.differing_models(text), {"granite-base.gguf", "gemma-base"})
        self.assertEqual(machine.differing_models("No module named 'yaml'"), set())
        clock = FakeClock({"make_models.py": (1, text, "", None)})
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(machine, "BUILD", Path(folder)):
            models = Path(folder) / "golden-models"
            for index in (ROOT / "tests" / "golden" / "logits").glob("*.json"):
                (models / json.loads(index.read_text())["path"]).mkdir(parents=True, exist_ok=True)
            self.assertEqual(machine.golden_models(clock), ([], ""))  # all are there: nothing is written
            (models / "qwen3-five").rmdir()
            for _ in range(2):
                missing, why = machine.golden_models(clock)
                self.assertEqual((missing, why), (["gemma-base", "granite-base-gguf", "qwen3-five"], "their hashes differ"))

    def test_targets(self) -> None:
        self.assertEqual([machine.target_of(c) for c in ("8.0", "8.9", "9.0", "10.0", "", "N/A")], ["80", "89", "90a", "100a", "", ""])

    def test_the_programs_are_those_of_the_build(self) -> None:
        listed = (ROOT / "tests" / "kernels" / "CMakeLists.txt").read_text()
        for program in machine.TARGETS[3:]:
            # Those of other rooms by their names there: foreach(name golden_test ...).
            plain = program.removeprefix("kernels_")
            self.assertRegex(listed, rf"\({program} |foreach\(name [^)]*\b{plain}\b")

    def test_shapes_are_those_of_the_benchmarks(self) -> None:
        text = (ROOT / "bench" / "gpu" / "attention.cc").read_text()
        for shape in verdicts.CAUSAL + verdicts.SUFFIX + verdicts.DECODE:
            self.assertIn(f'"{shape}"', text)
        text = (ROOT / "bench" / "gpu" / "products.cc").read_text()
        for model, layer, _ in verdicts.PRODUCTS:
            self.assertIn(f'{{"{model}", "{layer}"', text)


if __name__ == "__main__":
    unittest.main()
