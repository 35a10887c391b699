"""Commands of tools/run_tests: each into a log of its suite, shown while it runs, and ended when it says nothing any more."""

import re
import subprocess
import sys
import time
from pathlib import Path

import silence
from test_counts import Count

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "test-logs"
# Longer than any single compilation, link or test is silent, also on a machine ten times slower than ours.
QUIET_MINUTES = 30


def say(text: str) -> None:
    """Prints lines in one piece, since suites that run side by side print at the same time."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Progress:
    """Shows lines that match a pattern as they come; otherwise the newest one every 30 seconds, so that nobody
    wonders whether a long step still lives."""

    def __init__(self, suite: str, show: str = "") -> None:
        self.suite = suite
        self.show = re.compile(show) if show else None
        self.last_shown = time.monotonic()

    def line(self, text: str, where: str = "") -> None:
        if (self.show and self.show.search(text)) or time.monotonic() - self.last_shown > 30:
            self.print(where + text.rstrip()[:110])

    def print(self, text: str) -> None:
        say(f"  {self.suite}: {text}")
        self.last_shown = time.monotonic()


def run(name: str, command: list, show: str = "", environment: dict | None = None) -> tuple[int, str]:
    """Runs a command into build/test-logs/NAME.log; returns its exit code and output."""
    progress = Progress(name, show)
    wanted = silence.Command(command, ROOT, environment or {})
    with open(LOGS / f"{name}.log", "a") as log:
        log.write(f"$ {' '.join(str(part) for part in command)}\n")

        def line(_: silence.Command, text: str) -> None:
            log.write(text + "\n")
            log.flush()
            progress.line(text)

        silence.run_all([wanted], 1, QUIET_MINUTES * 60, line)
        if wanted.silent:
            wanted.output += f"stopped: no output for {QUIET_MINUTES} minutes\n"
            log.write(wanted.output.splitlines()[-1] + "\n")
    return (wanted.code or 1) if wanted.silent else wanted.code, wanted.output


def tail(output: str, lines: int = 25) -> None:
    say("\n".join(f"    {line}" for line in output.splitlines()[-lines:]))


def one_step(name: str, command: list, environment: dict | None = None) -> tuple[bool, str]:
    """A step that must succeed but is no test; shows the end of its output when it fails."""
    code, output = run(name, command, environment=environment)
    if code != 0:
        tail(output)
    return code == 0, output


def counted_step(count: Count, suite: str, title: str, command: list, environment: dict | None = None, needs: str = "",
                 skip_code: int | None = None) -> bool:
    """A step that counts as a test: skipped without the part of cargo that it needs, or with this exit code; shows the end
    of its output when it fails."""
    if needs and subprocess.run(["cargo", needs, "--version"], capture_output=True).returncode != 0:
        count.add_skip(f"{suite}: {title} (cargo {needs} is not installed)")
        return False
    code, output = run(suite, command, environment=environment)
    if code == 0:
        count.add_pass()
    elif code == skip_code:
        count.add_skip(f"{suite}: {title} ({output.strip().splitlines()[-1]})")
    else:
        tail(output)
        count.add_failure(f"{suite}: {title}")
    return code == 0
