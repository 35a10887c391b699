"""Programs under a deadline: each gets what is left of the minutes, and nothing survives its end."""

import os
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ended:
    """How a program ended. `why` is empty when it ended by itself, whatever its code."""

    code: int
    text: str = ""
    why: str = ""

    @property
    def good(self) -> bool:
        return self.code == 0 and not self.why

    def reason(self) -> str:
        """One line for a person, also about a program that is not `good` and said nothing."""
        last = (self.text.strip().splitlines() or ["it printed nothing"])[-1][:200]
        if self.why:
            return self.why
        if self.code < 0:
            return f"ended by signal {-self.code} ({last})"
        return f"ended with code {self.code} ({last})"


class Clock:
    def __init__(self, minutes: float):
        self.begin = time.monotonic()
        self.seconds = minutes * 60
        self.lock = threading.Lock()
        self.running: set[subprocess.Popen] = set()
        self.ended = False

    def passed(self) -> float:
        return time.monotonic() - self.begin

    def left(self) -> float:
        return self.seconds - self.passed()

    def run(self, command: list, most_seconds: float, environment: dict | None = None) -> Ended:
        """Runs a program with its children in a session of its own, which ends with the time."""
        seconds = min(most_seconds, self.left())
        if seconds <= 1:
            return Ended(124, "", "out of time: not started")
        with self.lock:  # so that end_all() misses none
            if self.ended:
                return Ended(124, "", "gpu_check ends: not started")
            try:
                process = subprocess.Popen(
                    [str(part) for part in command], cwd=ROOT, env={**os.environ, **(environment or {})},
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                    start_new_session=True)
            except OSError as error:
                return Ended(127, "", f"cannot be started: {error.strerror or error}")
            self.running.add(process)
        with process:
            try:
                text, _ = process.communicate(timeout=seconds)
                return Ended(process.returncode, text or "")
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                text, _ = process.communicate()
                return Ended(124, text or "", f"stopped after {seconds:.0f} s")
            except BaseException:  # gpu_check itself is told to end
                os.killpg(process.pid, signal.SIGKILL)
                raise
            finally:
                with self.lock:
                    self.running.discard(process)

    def together(self, works: list) -> list:
        """What these functions return, which run programs by this clock: all at once, each in a thread."""
        with ThreadPoolExecutor(max(1, len(works))) as pool:
            try:
                return list(pool.map(lambda work: work(), works))
            except BaseException:
                self.end_all()  # else the threads would wait for them
                raise

    def end_all(self) -> None:
        with self.lock:
            self.ended = True
            for process in self.running:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
