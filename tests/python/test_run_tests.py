"""tools/run_tests counts what the runners report, and misses nothing that went wrong."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]


def load_runner():
    loader = importlib.machinery.SourceFileLoader("run_tests", str(ROOT / "tools" / "run_tests"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", loader))
    sys.modules["run_tests"] = module  # dataclasses look their module up
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


RUNNER = load_runner()
PROGRAMS = sys.modules["test_programs"]


def google_test(**results: str) -> str:
    tests = []
    for name, result in results.items():
        test = {"name": name, "status": "RUN", "result": "SKIPPED" if result == "skipped" else "COMPLETED"}
        if result == "failed":
            test["failures"] = [{"failure": "no"}]
        tests.append(test)
    return json.dumps({"testsuites": [{"name": "Suite", "testsuite": tests}]})


class WantedTest(unittest.TestCase):
    def test_sanitizers_run_where_ci_is_set_and_when_asked_for(self) -> None:
        def suites(lanes: list[list[list[str]]]) -> list[str]:
            return sorted(name for stage in lanes for lane in stage for name in lane)

        plain = RUNNER.wanted_lanes([], {})
        everything = RUNNER.wanted_lanes([], {"CI": "true"})
        self.assertEqual(suites(everything), sorted(set(RUNNER.SUITES) - {"clang"}))
        self.assertEqual(sorted(suites(plain) + RUNNER.CI_TOO), suites(everything))
        self.assertEqual(plain[0], everything[0], "what the others need is a stage of its own")
        self.assertEqual(RUNNER.wanted_lanes(["asan", "tsan"], {}), [[["asan", "tsan"]]])


class LanesTest(unittest.TestCase):
    """Lanes of suites that are functions here."""

    def run_lanes(self, lanes: list[list[str]], **suites) -> list:
        table: list = []
        self.addCleanup(RUNNER.silence.STOP.clear)
        with mock.patch.dict(RUNNER.SUITES, suites), contextlib.redirect_stdout(io.StringIO()):
            RUNNER.run_lanes(lanes, table)
        return [name for name, _, _ in table]

    def test_lanes_run_side_by_side_and_suites_of_one_in_order(self) -> None:
        met = threading.Barrier(2, timeout=60)

        def meets() -> object:
            met.wait()
            return RUNNER.Count()

        names = self.run_lanes([["a", "b"], ["c", "d"]], a=meets, b=meets, c=meets, d=meets)
        self.assertEqual(sorted(names), ["a", "b", "c", "d"])
        self.assertLess(names.index("a"), names.index("b"))
        self.assertLess(names.index("c"), names.index("d"))

    def test_what_one_lane_raises_ends_the_programs_of_the_other(self) -> None:
        runs = threading.Event()

        def fails() -> object:
            self.assertTrue(runs.wait(60))
            raise OSError("no space left")

        ended = []

        def takes_a_minute() -> object:
            program = RUNNER.silence.Command([sys.executable, "-c", "print(1, flush=True); import time; time.sleep(60)"], ROOT)
            RUNNER.silence.run_all([program], 1, 1e6, lambda *_: runs.set())
            ended.append(program)
            return RUNNER.Count()

        with self.assertRaisesRegex(OSError, "no space left"):
            self.run_lanes([["a"], ["b"]], a=takes_a_minute, b=fails)
        self.assertEqual(ended, [])

    def test_without_a_build_nothing_else_runs(self) -> None:
        failed = RUNNER.Count()
        failed.add_failure("build: the release build")
        self.assertEqual(self.run_lanes([["build", "b"]], build=lambda: failed, b=RUNNER.Count), ["build"])


class CountTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.reports = Path(folder.name)

    def program(self, name: str, code: int, output: str = "", silent: bool = False):
        count = RUNNER.Count()
        program = RUNNER.silence.Command([], self.reports, name=name, code=code, output=output, silent=silent)
        PROGRAMS.count_program(program, self.reports, count)
        return count

    def test_counts_each_test_of_a_program(self) -> None:
        (self.reports / "a_test.json").write_text(google_test(one="ok", two="failed", three="skipped"))
        count = self.program("a_test", 1)
        self.assertEqual((count.passed, count.failed, count.skipped), (1, 1, 1))
        self.assertEqual(count.failures, ["a_test: Suite.two"])
        self.assertEqual(count.skips, ["a_test: Suite.three"])

    def test_counts_each_test_of_a_python_program(self) -> None:
        count = self.program("cli_test", 0, "...s\n---\nRan 4 tests in 0.1s\n\nOK (skipped=1)\n")
        self.assertEqual((count.passed, count.failed, count.skipped), (3, 0, 1))

    def test_what_was_filtered_out_counts_for_nothing(self) -> None:
        report = json.loads(google_test(one="ok", two="ok", three="ok"))
        tests = report["testsuites"][0]["testsuite"]
        tests[1]["status"], tests[2]["result"] = "NOTRUN", "SUPPRESSED"
        (self.reports / "a_test.json").write_text(json.dumps(report))
        count = self.program("a_test", 0)
        self.assertEqual((count.passed, count.failed, count.skipped), (1, 0, 0))

    def test_a_program_without_report_counts_once(self) -> None:
        count = self.program("header_c90", 0)
        self.assertEqual((count.passed, count.failed), (1, 0))
        self.assertEqual(count.programs, {"header_c90"})

    def test_a_crash_is_a_failure_even_when_all_reported_tests_passed(self) -> None:
        (self.reports / "a_test.json").write_text(google_test(one="ok"))
        count = self.program("a_test", -11)
        self.assertEqual((count.passed, count.failed), (1, 1))
        self.assertEqual(self.program("b_test", 1).failures, ["b_test: the program ended with code 1"])

    def test_a_silent_program_is_a_failure_whatever_its_code(self) -> None:
        self.assertEqual(self.program("a_test", 0, silent=True).failures, ["a_test: stopped, no output for 30 minutes"])

    def test_a_program_that_nobody_runs_is_a_failure(self) -> None:
        programs = self.reports / "bin" / "tests"
        programs.mkdir(parents=True)
        for name in ("known_test", "forgotten_test"):
            (programs / name).touch(mode=0o755)
        count = self.program("known_test", 0)
        PROGRAMS.check_all_ran("programs", self.reports, count)
        self.assertEqual(count.failures, ["programs: forgotten_test was built but not run"])

    def test_what_failed_in_a_python_program_is_named_with_its_reason(self) -> None:
        output = ("test_a (__main__.One.test_a) ... FAIL\ntest_b (__main__.One.test_b) ... ok\n\n" + "=" * 70 +
                  "\nFAIL: test_a (__main__.One.test_a)\n" + "-" * 70 + "\nTraceback (most recent call last):\n"
                  "  File \"one.py\", line 3, in test_a\nAssertionError: 23 != 2 : ('run',)\n\n" + "=" * 70 +
                  "\nERROR: test_c (__main__.One.test_c)\n" + "-" * 70 + "\nTraceback (most recent call last):\n"
                  "subprocess.TimeoutExpired: Command 'x' timed out\n\n" + "-" * 70 +
                  "\nRan 3 tests in 0.100s\n\nFAILED (failures=1, errors=1)\n")
        count = self.program("one", 1, output)
        self.assertEqual(count.failures, ["one: test_a (AssertionError: 23 != 2 : ('run',))",
                                          "one: test_c (subprocess.TimeoutExpired: Command 'x' timed out)"])
        self.assertEqual(self.program("one", 1, "no test").failures, ["one: the program ended with code 1"])


class ProgramsTest(unittest.TestCase):
    """Test programs of a build folder: what CMake writes about them, run and counted."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        logs = mock.patch.object(RUNNER.test_steps, "LOGS", self.folder / "logs")
        logs.start()
        self.addCleanup(logs.stop)
        (self.folder / "logs").mkdir()

    def run_programs(self, file: str, **arguments):
        (self.folder / "CTestTestfile.cmake").write_text(file)
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            count = PROGRAMS.run_programs("programs", self.folder, ".*", {"GREETING": "hello"}, **arguments)
        return count, shown.getvalue()

    def test_each_runs_in_its_folder_and_environment(self) -> None:
        count, shown = self.run_programs("""
            add_test(good bash -c "[ $OWN-$GREETING-$GTEST_FILTER = yes-hello-*F32* ]")
            set_tests_properties(good PROPERTIES ENVIRONMENT "OWN=yes" TIMEOUT 1)
            add_test(bad bash -c "echo words of a failure; pwd; exit 3")
        """, filters={"good": "*F32*"})
        self.assertEqual((count.passed, count.failures), (1, ["bad: the program ended with code 3"]))
        self.assertRegex(shown, r"1/2 \S+ \.+ +Passed +\d+\.\d\d sec|2/2 good \.+ +Passed")
        self.assertIn("  programs: bad: the program ended with code 3\n", shown)  # at once: the end of a run may never come
        self.assertIn("words of a failure", (self.folder / "logs/programs.log").read_text())
        self.assertIn(str(self.folder), (self.folder / "logs/programs/bad.log").read_text())

    def test_files_are_in_memory_where_it_has_room_and_go_with_the_programs(self) -> None:
        with mock.patch.dict(os.environ):
            os.environ.pop("TMPDIR", None)
            with PROGRAMS.files_in_memory(self.folder, room=1) as environment:
                folder = Path(environment["TMPDIR"])
                self.assertEqual(folder.parent, self.folder)
                (folder / "left").write_text("by a program that was killed")
            self.assertFalse(folder.exists())
            for memory, room in ((self.folder, 1 << 60), (self.folder / "nowhere", 1)):
                with PROGRAMS.files_in_memory(memory, room) as environment:
                    self.assertEqual(environment, {})
            os.environ["TMPDIR"] = "chosen"
            with PROGRAMS.files_in_memory(self.folder, room=1) as environment:
                self.assertEqual(environment, {})
        memory = contextlib.nullcontext({"TMPDIR": "memory"})
        with mock.patch.object(PROGRAMS, "files_in_memory", return_value=memory):
            count, _ = self.run_programs('add_test(asks bash -c "[ $TMPDIR = memory ]")')
        self.assertEqual(count.failures, [])

    def test_one_that_is_left_out_is_a_skip(self) -> None:
        count, _ = self.run_programs("""
            add_test(long false)
            add_test(short true)
        """, without={"long"})
        self.assertEqual((count.passed, count.failures), (1, []))
        self.assertEqual(count.skips, ["long (the plain build runs it)"])

    def test_what_cannot_be_run_as_it_says_is_a_failure(self) -> None:
        count, _ = self.run_programs("""
            add_test(odd true)
            set_tests_properties(odd PROPERTIES WILL_FAIL TRUE)
            add_test(absent "/nowhere/absent_test")
        """)
        self.assertEqual(count.passed, 0)
        self.assertEqual(sorted(count.failures),
                         ["absent: it is not built", "odd: tools/run_tests knows nothing of the test property WILL_FAIL"])

    def test_no_program_is_a_failure(self) -> None:
        self.assertEqual(self.run_programs("")[0].failures, ["programs: no test programs"])

    def test_a_program_that_hangs_ends_when_it_has_been_silent(self) -> None:
        os.mkfifo(self.folder / "never")
        end = os.open(self.folder / "never", os.O_RDWR)
        self.addCleanup(os.close, end)
        with mock.patch.object(RUNNER.test_steps, "QUIET_MINUTES", 0), mock.patch.object(RUNNER.silence, "LAST_WORDS", 0):
            count, _ = self.run_programs(f'add_test(hangs bash -c "read -r x <{self.folder}/never")')
        self.assertEqual(count.failures, ["hangs: stopped, no output for 0 minutes"])

    def test_unittest_is_counted_by_its_lines(self) -> None:
        (self.folder / "test_noise.py").write_text(
            "import sys, unittest\n"
            "class Noise(unittest.TestCase):\n"
            "    def test_fine(self): pass\n"
            "    def test_left_out(self): self.skipTest('no reason')\n"
            "    def test_wrong(self): self.fail()\n"
            "    def test_talks(self): print('a word', file=sys.stderr)\n")
        count = RUNNER.Count()
        with contextlib.redirect_stdout(io.StringIO()):
            RUNNER.run_unittest("noise", sys.executable, self.folder, count)
        self.assertEqual((count.passed, count.skips), (1, ["noise: test_left_out (test_noise.Noise.test_left_out) 'no reason'"]))
        self.assertEqual(count.failures, ["noise: test_wrong (test_noise.Noise.test_wrong)",
                                          "noise: 1 of 4 tests have no line of their own in the output"])
        (self.folder / "test_noise.py").write_text(
            (self.folder / "test_noise.py").read_text().replace("self.fail()", "pass"))
        count = RUNNER.Count()
        with contextlib.redirect_stdout(io.StringIO()):
            RUNNER.run_unittest("noise", sys.executable, self.folder, count)
        self.assertEqual((count.passed, len(count.skips), count.failures), (3, 1, []))

    def test_a_step_that_is_silent_fails_and_says_so(self) -> None:
        def silent(commands, *_) -> None:
            commands[0].silent, commands[0].code, commands[0].output = True, 0, "one\n"

        with mock.patch.object(RUNNER.silence, "run_all", silent):
            code, output = RUNNER.run("step", ["true"])
        self.assertNotEqual(code, 0)
        self.assertEqual(output, "one\nstopped: no output for 30 minutes\n")
        self.assertIn("stopped: no output", (self.folder / "logs/step.log").read_text())



if __name__ == "__main__":
    unittest.main()
