"""tools/run_tests counts what the runners report, and misses nothing that went wrong."""

import importlib.machinery
import importlib.util
import json
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def load_runner():
    loader = importlib.machinery.SourceFileLoader("run_tests", str(ROOT / "tools" / "run_tests"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", loader))
    sys.modules["run_tests"] = module  # dataclasses look their module up
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


RUNNER = load_runner()


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
        every = set(RUNNER.DEFAULT) | set(RUNNER.CI_TOO)
        self.assertEqual(every | {"clang"}, set(RUNNER.SUITES))
        self.assertEqual(RUNNER.wanted_suites([], {}), RUNNER.DEFAULT)
        self.assertEqual(set(RUNNER.wanted_suites([], {"CI": "true"})), every)
        self.assertEqual(RUNNER.wanted_suites(["asan"], {}), ["asan"])


class CountTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.reports = Path(folder.name)

    def ctest(self, code: int, **cases: str):
        body = "".join(
            f'<testcase name="{name}" status="{"run" if status == "ok" else "fail"}"/>' for name, status in cases.items()
        )
        (self.reports / "ctest.xml").write_text(f"<testsuite>{body}</testsuite>")
        return RUNNER.count_ctest("programs", self.reports, code)

    def test_counts_each_test_of_a_program(self) -> None:
        (self.reports / "a_test.json").write_text(google_test(one="ok", two="failed", three="skipped"))
        count = self.ctest(8, a_test="fail")
        self.assertEqual((count.passed, count.failed, count.skipped), (1, 1, 1))
        self.assertEqual(count.failures, ["a_test: Suite.two"])
        self.assertEqual(count.skips, ["a_test: Suite.three"])

    def test_what_was_filtered_out_counts_for_nothing(self) -> None:
        report = json.loads(google_test(one="ok", two="ok", three="ok"))
        tests = report["testsuites"][0]["testsuite"]
        tests[1]["status"], tests[2]["result"] = "NOTRUN", "SUPPRESSED"
        (self.reports / "a_test.json").write_text(json.dumps(report))
        count = self.ctest(0, a_test="ok")
        self.assertEqual((count.passed, count.failed, count.skipped), (1, 0, 0))

    def test_a_program_without_report_counts_once(self) -> None:
        count = self.ctest(0, header_c90="ok")
        self.assertEqual((count.passed, count.failed), (1, 0))

    def test_a_crash_is_a_failure_even_when_all_reported_tests_passed(self) -> None:
        (self.reports / "a_test.json").write_text(google_test(one="ok"))
        count = self.ctest(8, a_test="fail", b_test="fail")
        self.assertEqual((count.passed, count.failed), (1, 2))

    def test_a_missing_report_and_a_bad_exit_code_are_failures(self) -> None:
        self.assertEqual(RUNNER.count_ctest("programs", self.reports, 0).failed, 1)
        self.assertEqual(self.ctest(1, a_test="ok").failed, 1)

    def test_a_program_that_ctest_does_not_know_is_a_failure(self) -> None:
        programs = self.reports / "bin" / "tests"
        programs.mkdir(parents=True)
        for name in ("known_test", "forgotten_test"):
            (programs / name).touch(mode=0o755)
        count = self.ctest(0, known_test="ok")
        RUNNER.check_all_ran("programs", self.reports, count)
        self.assertEqual(count.failures, ["programs: forgotten_test was built but not run"])


if __name__ == "__main__":
    unittest.main()
