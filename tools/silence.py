"""Runs commands and ends those that say nothing for too long.

A limit of time fails work that is right but on a slow or busy machine. So a limit here counts silence: as long as a
command prints, it lives. One that is silent for too long is asked with SIGQUIT to say where it hangs, which Go and
Java do, and killed a little later with everything it has started.
"""

import codecs
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

LAST_WORDS = 10  # seconds between SIGQUIT and SIGKILL, and for the children of a command that has ended
STOP = threading.Event()  # ends what runs in every thread: run_all raises Stopped


class Stopped(Exception):
    """Another thread has set STOP."""


@dataclass
class Command:
    arguments: list
    folder: Path
    environment: dict = field(default_factory=dict)  # on top of that of this process
    name: str = ""
    # What came of it:
    code: int | None = None
    silent: bool = False  # it was ended because it said nothing
    seconds: float = 0
    output: str = ""


class _Running:
    """A command that was started: the leader of a session, so that its children can be ended with it."""

    def __init__(self, command: Command, clock: Callable[[], float]) -> None:
        self.command = command
        self.clock = clock
        self.begin = self.heard = clock()
        self.asked: float | None = None  # when it got SIGQUIT
        self.closed = False  # the output is at its end
        self.abandoned = False  # the process is over, a child that it left holds the output
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.chunks: list[str] = []
        self.line = ""  # begun, not ended
        self.process = subprocess.Popen(
            [str(part) for part in command.arguments], cwd=command.folder, env={**os.environ, **command.environment},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def read(self, on_line: Callable[[Command, str], None]) -> None:
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        self.heard = self.clock()
        text = self.decoder.decode(data, final=not data)
        self.chunks.append(text)
        *lines, self.line = (self.line + text).split("\n")
        if not data and self.line:
            lines.append(self.line)
        for line in lines:
            on_line(self.command, line)
        self.closed = not data

    def signal(self, number: int) -> None:
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass  # it has just ended

    def ended(self) -> bool:
        """Whether the process is over; its output is by then, or was left open by a child."""
        code = self.process.poll()
        if code is None or not (self.closed or self.abandoned):
            return False
        self.command.code = code
        self.command.seconds = self.clock() - self.begin
        self.command.output = "".join(self.chunks)
        return True

    def check(self, quiet_seconds: float) -> None:
        silence = self.clock() - self.heard
        if self.process.poll() is not None:
            if not self.closed and silence > LAST_WORDS:
                self.signal(signal.SIGKILL)
                self.abandoned = True
        elif self.asked is not None:
            if self.clock() - self.asked > LAST_WORDS:
                self.signal(signal.SIGKILL)
        elif silence > quiet_seconds:
            self.command.silent = True
            self.asked = self.clock()
            self.signal(signal.SIGQUIT)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


def run_all(
    commands: Iterable[Command], parallel: int, quiet_seconds: float,
    on_line: Callable[[Command, str], None] = lambda *_: None, on_end: Callable[[Command], None] = lambda *_: None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Runs commands, some at the same time; `on_line` hears every line as it comes, `on_end` every end.

    An exception, such as that of Ctrl-C, ends those that run; so does STOP, which is for the other threads.
    """
    waiting = list(reversed(list(commands)))
    running: list[_Running] = []
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or running:
                if STOP.is_set():
                    raise Stopped
                while waiting and len(running) < parallel:
                    started = _Running(waiting.pop(), clock)
                    running.append(started)
                    selector.register(started.process.stdout, selectors.EVENT_READ, started)
                # A process ends just after its output: look again soon.
                soon = any(one.closed for one in running)
                for key, _ in selector.select(timeout=0.01 if soon else 0.2):
                    key.data.read(on_line)
                    if key.data.closed:
                        selector.unregister(key.fileobj)
                for one in [one for one in running if one.ended()]:
                    if not one.closed:
                        selector.unregister(one.process.stdout)
                    one.process.stdout.close()
                    running.remove(one)
                    on_end(one.command)
                for one in running:
                    one.check(quiet_seconds)
        finally:
            for one in running:
                one.kill()
