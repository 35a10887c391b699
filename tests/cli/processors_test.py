#!/usr/bin/env python3
"""The prefix command on processors that this machine is not: processors_test.py [--bin DIR] [unittest arguments].

An emulator refuses every instruction that its processor lacks, so code of a level that is run where it must not be ends the
program here, as it would there. The last line is "N passed, N failed, N skipped".
"""

import json
import shutil
import subprocess
import sys
import unittest

from outside import BIN, SHARED, lines, main

EMULATOR = "qemu-x86_64"
# A name that it knows, and the level that is the fastest there. The first is what every x86-64 processor has.
PROCESSORS = (("qemu64", "scalar"), ("Nehalem", "scalar"), ("max", "avx2"))
SETTINGS = ({}, {"compute": "int8", "kv": "int8"}, {"dtype": "f32", "kv": "int8"})
REQUESTS = lines([
    {"tokens": list(range(1, 41)), "task": "generate", "max_tokens": 3, "ignore_eos": True},
    {"tokens": [*range(1, 35), 7], "task": "embed"},
])


def run(settings, level, *emulator):
    """The results and the level that computed them."""
    summary = SHARED["folder"] / "summary.json"
    summary.unlink(missing_ok=True)
    options = [word for key, value in {**settings, **level}.items() for word in ("--option", f"{key}={value}")]
    command = [*emulator, BIN / "prefix", "run", "--model", SHARED["model"], "--summary", summary, *options]
    done = subprocess.run(command, input=REQUESTS, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: exit code {done.returncode}: {done.stderr}"
    return [json.loads(line) for line in done.stdout.splitlines()], json.loads(summary.read_text())["isa"]


class Processors(unittest.TestCase):
    @unittest.skipUnless(shutil.which(EMULATOR), f"needs {EMULATOR} (qemu-user)")
    def test_bits_are_those_of_the_same_level_here(self):
        for processor, fastest in PROCESSORS:
            for settings in SETTINGS:
                with self.subTest(processor=processor, settings=settings):
                    there, level = run(settings, {}, EMULATOR, "-cpu", processor)
                    self.assertEqual(level, fastest)
                    here, level = run(settings, {"isa": fastest})
                    self.assertEqual(level, fastest)
                    self.assertEqual(len(here), 2)
                    self.assertEqual(there, here)


if __name__ == "__main__":
    sys.exit(main())
