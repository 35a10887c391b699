"""Test programs of tools/run_tests: what CMake's add_test knows of a build folder, run side by side and counted one by one."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import silence
import test_steps
from test_counts import Count, count_google_test, count_unittest_failures, count_unittest_summary
from test_steps import ROOT, Progress

JOBS = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(os.cpu_count() or 2)

# Under a sanitizer a test takes 5 to 20 times as long, so these runs are bounded: programs that match but for
# those `without`, with a GoogleTest filter for the ones whose full length adds no new code path.
# PREFIX_TEST_QUICK=1 asks property tests for a tenth of their cases.
SANITIZERS = {
    "asan": {
        "preset": "asan",
        "links_plain_tests": True,
        "programs": r".*",
        # The simulators and the accounts of memory have tests of their own, which take seconds, and what the real
        # model computes is what tiny ones of its kind do. Gates of the interface look into files alone.
        "without": {"baseline_test", "cache_hybrid_test", "cache_sim_test", "gates_test", "hour_test", "smollm2_test"},
        "filters": {
            "architectures_invariance_test": "*_base*",
            "embedding_test": "-*CompanyThreadsAndOrder*",
            "golden_test": "-*BestTokenAt99Percent*:*Bf16IsAsNear*",
            "invariance_test": "-*scalar*",
            "kernels_attention_test": "*f32*",
            "kernels_budget_test": "-*NothingIsAllocatedAfter*",
            "kernels_device_test": "-*PagesThatCannotLeaveStay*:*SmallStepsGoToClusters*",
            "kv_int8_test": "-*LongPaths*",
            "levels_test": "*qwen3_base:*granite_h_base:*gpt_oss_base",
            "model_files_test": "-Dequant.EqualsThePackageOnWholeModels",
            "order_test": "-*NotBelowGreedyGroupRecursion*",
            # Memory that was given back stays in the sanitizer's quarantine.
            "packed_model_test": "Packed.*:*_base*-*GivesMemoryBack",
            "recurrent_test": "-*scalar*",
            "store_test": "-*StateRestore*/qwen:*StateRestore*/nemotron",
            "window_memory_test": "-*APromptOf32kTokens*",
            "window_test": "*amx*bf16:*avx2*bf16",
        },
    },
    "tsan": {
        "preset": "tsan",
        "links_plain_tests": False,
        "programs": r"engine_test|stress_test|threads_test|abi_.*|.*concurrency.*",
        "without": set(),
        "filters": {},
    },
}
SANITIZER_OPTIONS = {
    # No detect_stack_use_after_return: with it g++ 12 misaligns 64-byte vectors on the stack (GCC bug 110027).
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


def count_program(program: silence.Command, reports: Path, count: Count) -> None:
    """Adds what one program did: its tests where it reports them, otherwise the program as one."""
    count.programs.add(program.name)
    before = count.failed
    report = reports / f"{program.name}.json"
    passed = program.code == 0 and not program.silent
    if report.exists():
        tests = count.passed + count.failed + count.skipped
        count_google_test(program.name, report, count)
        if count.passed + count.failed + count.skipped == tests:
            count.add_failure(f"{program.name}: it has none of the tests that were chosen")
    elif passed:
        unittest = re.search(r"^Ran (\d+) tests? in .*?^(?:OK|FAILED)(.*?)$", program.output, re.M | re.S)
        if unittest:
            count_unittest_summary(program.name, unittest, count)
        else:
            count.add_pass()
    if program.silent:
        count.add_failure(f"{program.name}: stopped, no output for {test_steps.QUIET_MINUTES} minutes")
    elif not passed and not report.exists():
        count_unittest_failures(program.name, program.output, count)
    if not passed and count.failed == before:
        count.add_failure(f"{program.name}: the program ended with code {program.code}")


def known_programs(folder: Path, select: str) -> list[dict]:
    """What CMake's add_test says of the programs of a build folder."""
    done = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1", "-R", select],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return json.loads(done.stdout)["tests"] if done.returncode == 0 and done.stdout.strip() else []


def command_of(program: dict, environment: dict) -> silence.Command | str:
    """How to run a program of known_programs; a text says why it cannot be run."""
    if "command" not in program:
        return "it is not built"
    properties = {entry["name"]: entry["value"] for entry in program.get("properties", [])}
    # TIMEOUT is for those who run ctest by hand. What else there may be must not be passed over in silence.
    other = set(properties) - {"ENVIRONMENT", "WORKING_DIRECTORY", "TIMEOUT"}
    if other:
        return f"tools/run_tests knows nothing of the test property {', '.join(sorted(other))}"
    own = dict(entry.split("=", 1) for entry in properties.get("ENVIRONMENT", []))
    return silence.Command(program["command"], Path(properties.get("WORKING_DIRECTORY", ROOT)),
                           {**environment, **own}, program["name"])


@contextmanager
def files_in_memory(memory: Path = Path("/dev/shm"), room: int = 8 << 30) -> Iterator[dict]:
    """The environment of programs whose files are in memory, where the system has a folder with room for that: a disk
    takes longer to make and to delete the small files of a cache than a test takes to compute them. Tests load libraries
    that they have written, so it must let programs run."""
    if ("TMPDIR" in os.environ or not memory.is_dir() or shutil.disk_usage(memory).free < room
            or os.statvfs(memory).f_flag & os.ST_NOEXEC):
        yield {}
        return
    folder = tempfile.mkdtemp(prefix="prefix-tests-", dir=memory)
    try:
        yield {"TMPDIR": folder}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_programs(label: str, folder: Path, select: str, environment: dict, filters: dict | None = None,
                 without: frozenset | set = frozenset()) -> Count:
    """Runs test programs, JOBS at a time; the output of each is in build/test-logs/LABEL/, that of failed ones in
    LABEL.log too. `filters` has the tests to choose of some programs, `without` the programs to skip."""
    count = Count()
    reports = test_steps.LOGS / label
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    commands = []
    for program in known_programs(folder, select):
        name = program["name"]
        if name in without:
            count.add_skip(f"{name} (the plain build runs it)")
            continue
        chosen = {"GTEST_FILTER": filters[name]} if name in (filters or {}) else {}
        command = command_of(program, {**environment, "GTEST_OUTPUT": f"json:{reports}/", **chosen})
        if isinstance(command, str):
            count.add_failure(f"{name}: {command}")
        else:
            commands.append(command)
    progress = Progress(label, r"^\S+: Failure$|Sanitizer")
    ended = 0
    with open(test_steps.LOGS / f"{label}.log", "a") as log:

        def line(program: silence.Command, text: str) -> None:
            with open(reports / f"{program.name}.log", "a") as own:
                own.write(text + "\n")
            progress.line(text, f"{program.name}: ")

        def end(program: silence.Command) -> None:
            nonlocal ended
            ended += 1
            before = len(count.failures)
            count_program(program, reports, count)
            failures = count.failures[before:]
            verdict = "***Failed" if failures else "Passed"
            text = f"{ended:>3}/{len(commands)} {program.name + ' ':.<36} {verdict:>10} {program.seconds:>8.2f} sec"
            # At once, too: the list at the end is lost where the whole run is stopped.
            for what in (text, *failures):
                progress.print(what)
            log.write(text + "\n" + (program.output if failures else ""))
            log.flush()

        with files_in_memory() as their_folder:
            for command in commands:
                command.environment.update(their_folder)
            silence.run_all(commands, int(JOBS), test_steps.QUIET_MINUTES * 60, line, end)
    if not commands and not count.failed:
        count.add_failure(f"{label}: no test programs")
    return count


def check_all_ran(label: str, folder: Path, count: Count) -> None:
    """A GoogleTest program without add_test is a suite that silently went missing."""
    built = (folder / "bin" / "tests").glob("*")
    programs = {path.name for path in built if path.is_file() and os.access(path, os.X_OK)}
    for name in sorted(programs - count.programs):
        count.add_failure(f"{label}: {name} was built but not run")
    if not programs:
        count.add_failure(f"{label}: no test program was built")


def link_models(folder: Path) -> None:
    """Lets the tests of another build folder read the models that suite_models put into build/."""
    for name in ("models", "golden-models"):
        link = folder / name
        if not link.exists() and not link.is_symlink():
            folder.mkdir(exist_ok=True)
            link.symlink_to(ROOT / "build" / name)
