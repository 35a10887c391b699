"""What the tests of the prefix command share: TEST.py [--bin DIR] [unittest arguments]."""

import json
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "bin"
if sys.argv[1:2] == ["--bin"]:
    BIN = Path(sys.argv[2]).resolve()
    del sys.argv[1:3]
TEXT_LIBRARY = BIN.parent / "lib" / "libprefix_text.so.1"  # builds with sanitizers have none
SHARED = {}  # filled once: the folder and the model that all tests use


def prefix(*args, stdin="", binary=None):
    command = [str(binary or BIN / "prefix"), *map(str, args)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=300)


def tokens(n, seed):
    generator = random.Random(seed)
    return [generator.randrange(1, 128) for _ in range(n)]


def lines(requests):
    """JSON lines of objects; a text is a line as it stands."""
    return "".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in requests)


def run(requests, *flags, code=0):
    """Results of `prefix run` as objects; the exit code must be as said."""
    done = prefix("run", "--model", SHARED["model"], *flags, stdin=lines(requests))
    assert done.returncode == code, f"exit code {done.returncode}, expected {code}: {done.stderr}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    """Runs the tests of the program that calls it; the last line is "N passed, N failed, N skipped"."""
    with tempfile.TemporaryDirectory() as folder:
        SHARED["folder"] = Path(folder)
        SHARED["model"] = Path(folder) / "tiny"
        subprocess.run([BIN / "prefix-random-checkpoint", "tiny", SHARED["model"]], check=True)
        program = unittest.main(module="__main__", argv=sys.argv, exit=False, verbosity=2)
    result = program.result
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0
