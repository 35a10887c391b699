"""What test runners report, counted: one function for each way in which tests say how they ended."""

import json
import re
import xml.etree.ElementTree as xml
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)
    skips: list[str] = field(default_factory=list)
    programs: set[str] = field(default_factory=set)  # that were run

    def add_pass(self) -> None:
        self.passed += 1

    def add_failure(self, name: str) -> None:
        self.failed += 1
        self.failures.append(name)

    def add_skip(self, name: str) -> None:
        self.skipped += 1
        self.skips.append(name)

    def add(self, other: "Count") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures
        self.skips += other.skips


def count_google_test(name: str, report: Path, count: Count) -> None:
    """Adds the tests of one program from its JSON report, in which each test has a status and a result."""
    for suite in json.loads(report.read_text())["testsuites"]:
        for test in suite["testsuite"]:
            full = f"{name}: {suite['name']}.{test['name']}"
            if test.get("result") == "SUPPRESSED" or test.get("status") == "NOTRUN":
                continue  # filtered out
            if test.get("failures"):
                count.add_failure(full)
            elif test.get("result") == "SKIPPED":
                count.add_skip(full)
            else:
                count.add_pass()


def count_unittest_summary(name: str, summary: re.Match, count: Count) -> None:
    """Adds the tests of a Python program that passed, from the last lines that unittest prints."""
    skipped = int((re.search(r"skipped=(\d+)", summary.group(2)) or [0, 0])[1])
    count.passed += int(summary.group(1)) - skipped
    for _ in range(skipped):
        count.add_skip(f"{name}: a test (its output is in the log)")


def count_unittest_failures(name: str, output: str, count: Count) -> None:
    """Adds the tests of a Python program that failed, from what unittest prints of each at the end: its name and why."""
    for block in re.split(r"^={20,}$", output, flags=re.MULTILINE)[1:]:
        title = re.match(r"\n(?:FAIL|ERROR): (\S+)", block)
        if title:
            why = re.search(r"^[\w.]+(?:Error|Exception|Expired|Interrupt)\b.*", block, re.MULTILINE)
            count.add_failure(f"{name}: {title[1]}" + (f" ({why[0][:300]})" if why else ""))


def count_unittest_lines(suite: str, output: str, ended_well: bool, count: Count) -> None:
    """Adds the tests of `python -m unittest -v`, which prints a line for each."""
    said = 0
    for name, result, why in re.findall(r"^(\w+ \(\S+\))(?:\n.*?)? \.\.\. (ok|FAIL|ERROR|skipped)(.*)", output, re.MULTILINE):
        said += 1
        if result == "ok":
            count.add_pass()
        elif result == "skipped":
            count.add_skip(f"{suite}: {name}{why}")
        else:
            count.add_failure(f"{suite}: {name}")
    # What else is printed into the line of a test hides how it ended, which the last line tells of all.
    total = re.search(r"^Ran (\d+) tests?", output, re.MULTILINE)
    hidden = max(0, int(total[1]) - said) if total else 0
    if ended_well:
        count.passed += hidden
    elif hidden:
        count.add_failure(f"{suite}: {hidden} of {total[1]} tests have no line of their own in the output")


def count_cargo_test(suite: str, output: str, count: Count, of: str = "") -> int:
    """Adds the tests of cargo test, which prints a line for each; `of` follows their names. How many there were."""
    results = re.findall(r"^test (.+?) \.\.\. (ok|FAILED|ignored)", output, re.MULTILINE)
    for name, result in results:
        if result == "ok":
            count.add_pass()
        elif result == "FAILED":
            count.add_failure(f"{suite}: {name}{of}")
        else:
            count.add_skip(f"{suite}: {name}{of}")
    return len(results)


def count_go_test(suite: str, output: str, count: Count, suffix: str = "") -> None:
    """Adds the tests of go test -json, an event in each line."""
    for line in output.splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        if "Test" not in event:
            continue
        name = f"{suite}: {event['Test']}{suffix}"
        if event["Action"] == "pass":
            count.add_pass()
        elif event["Action"] == "fail":
            count.add_failure(name)
        elif event["Action"] == "skip":
            count.add_skip(name)


def count_surefire(suite: str, reports: Path, count: Count, suffix: str = "") -> None:
    """Adds the tests of Maven's reports."""
    for report in sorted(reports.glob("TEST-*.xml")):
        for case in xml.parse(report).getroot().iter("testcase"):
            name = f"{suite}: {case.get('classname')}.{case.get('name')}{suffix}"
            if case.find("failure") is not None or case.find("error") is not None:
                count.add_failure(name)
            elif case.find("skipped") is not None:
                count.add_skip(name)
            else:
                count.add_pass()
