"""The test programs on the GPU, plain and under compute-sanitizer, judged by GoogleTest's own reports.

An exit code of 0 proves nothing: a program whose tests were all skipped ends with it, too. What counts is the
number of tests that used the GPU and passed.
"""

import json
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from .clock import Clock, Ended
from .report import MET, MISSED, Check, not_run


@dataclass(frozen=True)
class Program:
    name: str
    what: str
    on_gpu: str  # a regular expression: names of the tests that use the GPU; '' for programs that need none
    may_skip: str = "$^"  # names
    may_skip_because: str = "$^"  # of reasons that tests give
    environment: dict = field(default_factory=dict)
    seconds: float = 120  # all run at once
    arguments: tuple = ("--gtest_filter=-*emulated*",)
    variant: str = ""  # tells programs apart that run the same tests in another environment

    @property
    def golden(self) -> bool:
        """Whether it needs the golden models."""
        return self.name == "kernels_golden_test"

    @property
    def label(self) -> str:
        """What its log, report and check are called."""
        return f"{self.name}-{self.variant}" if self.variant else self.name


REAL = {"PREFIX_TEST_REAL_GPU": "1"}
SHARDS = 4  # of programs that take long: each does a part of their tests


def parts(name: str, what: str, on_gpu: str, variant: str = "", environment: dict | None = None, **other) -> list[Program]:
    return [Program(name, f"{what}, part {i + 1}", on_gpu, variant=f"{variant}{'-' * bool(variant)}{i + 1}",
                    environment={**(environment or {}), "GTEST_TOTAL_SHARDS": str(SHARDS), "GTEST_SHARD_INDEX": str(i)},
                    **other) for i in range(SHARDS)]


def golden(way: str) -> list[Program]:
    """By cuda_attention=`way`, where "" is `invariant`, which has a way of its own and does f32 as well."""
    return parts("kernels_golden_test", f"golden models, {'cuda_attention=' * bool(way)}{way or 'invariant'}", r".",
                 way or "invariant", {**REAL, **({"PREFIX_TEST_CUDA_ATTENTION": way} if way else {})},
                 may_skip_because=r'such models run on device "cpu" only',
                 arguments=("--gtest_filter=*Bf16*" if way else "--gtest_filter=*",))


PROGRAMS = [
    Program("kernels_rows_test", "row operations against float64", r"/cuda_"),
    Program("kernels_heads_test", "what heads read of logits, against float64 and a sort", r"/cuda"),
    Program("kernels_attention_test", "attention against float64, rel-L2 <= 3e-3 in bf16", r"/cuda_",
            r"ManyItemsAreMerged/cuda_f32"),  # f32 has no items
    Program("kernels_hopper_test", "wide attention by warpgroups against float64 (capability 9.0)", r"cuda_bf16",
            arguments=("--gtest_filter=*cuda_bf16*",)),
    Program("kernels_decode_test", "attention of small steps by clusters against float64 (capability 9.0)", r"cuda_bf16",
            arguments=("--gtest_filter=*cuda_bf16*",)),
    *parts("kernels_products_test", "matrix products at 1..128 rows, their invariance at 1..257", r"/cuda_"),
    Program("kernels_plugin_test", "the plugin", "", r"LoadsWithoutADriver|AnEngineSaysWhatIsMissing"),
    # Every way of attention, the default among them.
    *(program for way in ("", "auto", "mma") for program in golden(way)),
    Program("kernels_engine_test", "the engine's own tests", r".",
            r"TheEstimateIsWhatTheEngineTakes", environment=REAL),  # kernels_budget_test says it of a GPU
    Program("kernels_invariance_test", "same bits in any company", r".",
            environment={**REAL, "PREFIX_TEST_QUICK": "1"}, arguments=("--gtest_filter=*scalar_bf16*",)),
]
# Line 5 counts launches where they can be counted: on the emulator.
LAUNCHES = Program("kernels_device_test", "one launch a layer (counted by the emulator)", "",
                   arguments=("--gtest_filter=*OneAttentionLaunchALayer*",))
# Their barriers of shared memory and copies of whole pages are what racecheck has had false hazards about: its hazards there
# are to be read before they decide anything.
ASYNCHRONOUS = ("kernels_hopper_test", "kernels_decode_test")
# Under a sanitizer.
CHECKED = ["kernels_rows_test", "kernels_heads_test", "kernels_attention_test", "kernels_hopper_test",
           "kernels_decode_test"]
CHECKED_TESTS = "--gtest_filter=*cuda*-*cuda_f32*"


@dataclass
class Tests:
    """What a GoogleTest report says. Of tests that use the GPU: passed; of all: failed and skipped."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    relative: float = 0  # the largest relative L2 error that a bf16 test recorded
    message: str = ""  # of the first failure
    complete: bool = False


def read_report(path: Path, on_gpu: str) -> Tests:
    """A report that is missing or cut off gives no passes: the program did not come to its end."""
    tests = Tests()
    try:
        suites = json.loads(path.read_text())["testsuites"]
        for suite in suites:
            for test in suite["testsuite"]:
                name = f"{suite['name']}.{test['name']}"
                if test.get("status") == "NOTRUN" or test.get("result") == "SUPPRESSED":
                    continue
                if test.get("failures"):
                    tests.failed.append(name)
                    tests.message = tests.message or " ".join(str(test["failures"][0].get("failure", "")).split())[:200]
                elif test.get("result") == "SKIPPED":
                    tests.skipped.append(name)
                elif test.get("result") == "COMPLETED" and re.search(on_gpu or ".", name):
                    tests.passed += 1
                    if "bf16" in name.lower():
                        tests.relative = max(tests.relative, float(test.get("relative", 0)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Tests()
    tests.complete = True
    return tests


def failed_tests(ended: Ended, tests: Tests) -> list[str]:
    """Failures of the report, or of the output where the program did not live to write one."""
    return tests.failed or sorted(set(re.findall(r"^\[  FAILED  \] (\w\S*\.\S+?),? ", ended.text + " ", re.M)))


def skip_reasons(text: str) -> list[str]:
    """The messages of GTEST_SKIP() in the output."""
    return [why.strip()[:200] for why in re.findall(r": Skipped\n([^\n]*)", text) if why.strip()]


def skip_reason(text: str, excused: str = "$^") -> str:
    """The first of them that is no excuse."""
    left = [why for why in skip_reasons(text) if not re.search(excused, why)]
    return left[0] if left else "the program does not say why"


def judge(program: Program, ended: Ended, tests: Tests) -> Check:
    """What one program proved."""
    skipped = [name for name in tests.skipped if not re.search(program.may_skip, name)]
    excused = sum(bool(re.search(program.may_skip_because, why)) for why in skip_reasons(ended.text))
    label = f"{program.what} ({program.label})"
    failed = failed_tests(ended, tests)
    if failed:
        message = f" ({tests.message})" if tests.message else ""
        return Check(label, MISSED, f"{len(failed)} FAILED: {', '.join(failed[:3])}{message}; {tests.passed} passed")
    if ended.code == 127 or "not started" in ended.why:
        return not_run(label, ended.why or ended.reason())
    if ended.why:
        return not_run(label, f"{ended.why}, {tests.passed} passed until then")
    if not tests.complete or ended.code != 0:
        return Check(label, MISSED, f"it crashed: {ended.reason()}")
    if len(skipped) > excused:
        why = skip_reason(ended.text, program.may_skip_because)
        return not_run(label, f"{len(skipped) - excused} tests SKIPPED: {why}")
    if tests.passed == 0:
        return not_run(label, "no test used the GPU")
    relative = f", relative error up to {tests.relative:.1e} in bf16" if tests.relative else ""
    refused = f", {excused} refused as they should be" if excused else ""
    return Check(label, MET, f"{tests.passed} passed{relative}{refused}")


class Runner:
    """Starts programs of the build folder and keeps their output and reports in BUILD/logs."""

    def __init__(self, clock: Clock, build: Path, environment: dict):
        self.clock, self.build, self.environment = clock, build, environment
        self.logs = build / "logs"

    def run(self, name: str, command: list, seconds: float, environment: dict | None = None) -> Ended:
        ended = self.clock.run(command, seconds, {**self.environment, **(environment or {})})
        self.logs.mkdir(parents=True, exist_ok=True)
        (self.logs / f"{name}.log").write_text(ended.text + (f"\n{ended.why}\n" if ended.why else ""))
        return ended

    def test(self, program: Program, before: tuple = (), name: str = "", arguments: tuple | None = None,
             environment: dict | None = None, seconds: float = 0) -> tuple[Ended, Tests]:
        name = name or program.label
        report = self.logs / f"{name}.json"
        report.parent.mkdir(parents=True, exist_ok=True)
        report.unlink(missing_ok=True)
        command = [*before, self.build / "bin" / "tests" / program.name,
                   *(program.arguments if arguments is None else arguments)]
        ended = self.run(name, command, seconds or program.seconds,
                         {**program.environment, **(environment or {}), "GTEST_OUTPUT": f"json:{report}"})
        return ended, read_report(report, program.on_gpu)

    def check(self, program: Program, **other) -> Check:
        return judge(program, *self.test(program, **other))


def judge_sanitizer(tool: str, program: str, ended: Ended, tests: Tests) -> Check:
    """Clean: the tool's own summary says so, after tests that ran on the GPU."""
    label = f"{tool} of {program}"
    failed = failed_tests(ended, tests)
    if ended.code == 127 or (ended.why and not failed):
        return not_run(label, ended.why or ended.reason())
    if re.search(r"not supported|Unable to (find|load)|failed to initialize", ended.text, re.I) and not tests.passed:
        return not_run(label, f"compute-sanitizer does not work here: {ended.reason()}")
    # memcheck: "ERROR SUMMARY: 0 errors"; racecheck: "RACECHECK SUMMARY: 0 hazards displayed (0 errors, ...)"
    summary = re.search(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:errors?|hazards?)[^\n]*", ended.text)
    if summary and int(summary[1]) > 0:
        if tool == "racecheck" and program in ASYNCHRONOUS and not failed:
            return not_run(label, f"hazards that nobody has read yet: {summary[0]}; the first: {first_hazard(ended.text)}")
        return Check(label, MISSED, summary[0])
    if failed:
        return Check(label, MISSED, f"FAILED under it: {', '.join(failed[:3])}")
    if tests.skipped or tests.passed == 0:
        return not_run(label, f"its GPU tests did not run: {skip_reason(ended.text)}")
    if ended.code != 0:
        return Check(label, MISSED, ended.reason())
    if not summary:
        return not_run(label, "compute-sanitizer printed no summary")
    return Check(label, MET, f"clean, {tests.passed} tests")


def first_hazard(text: str) -> str:
    """What racecheck says of the first one, with where it is."""
    lines = [line.lstrip("= ").strip() for line in text.splitlines() if line.startswith("=========")]
    at = next((i for i, line in enumerate(lines) if re.match(r"(Error|Warning|Info)\b.*(hazard|[Rr]ace)|Race reported", line)), None)
    return "its text is in the log" if at is None else " ".join(lines[at:at + 3])[:400]


def find_tool(name: str) -> str:
    """A program of the CUDA toolkit; '' where it is not."""
    usual = Path("/usr/local/cuda/bin") / name
    return shutil.which(name) or (str(usual) if usual.exists() else "")


def sanitize(runner: Runner, tool: str, seconds: float) -> list[Check]:
    program = find_tool("compute-sanitizer")
    if not program:
        return [not_run(tool, "compute-sanitizer is not here")]

    def check(name: str) -> Check:
        ended, tests = runner.test(
            next(p for p in PROGRAMS if p.name == name), before=(program, "--tool", tool, "--error-exitcode", "9"),
            name=f"{tool}_{name}", arguments=(CHECKED_TESTS,), environment={"PREFIX_TEST_QUICK": "1"},
            seconds=seconds)
        return judge_sanitizer(tool, name, ended, tests)
    return runner.clock.together([lambda name=name: check(name) for name in CHECKED])
