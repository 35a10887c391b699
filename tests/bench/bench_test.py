#!/usr/bin/env python3
"""The programs of bench/ from outside: bench_test.py BUILD_FOLDER PROGRAM...

The build names the programs, and each names its options and an example, with --help. So a new program or option is tested
as soon as it is there.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv[1]).resolve()
PROGRAMS = [Path(path) for path in sys.argv[2:]]
# "  --threads N   of the engine (1 to 1024, default 2)"
OPTION = re.compile(r"^  (\S+)(?: (\S+))?  +(\S.*)$", re.M)
LIMITS = re.compile(r"\((-?\d+) to (\d+), default ")


def run(program, *arguments, **options):
    options = {"stdout": subprocess.PIPE, **options}
    return subprocess.run([program, *map(str, arguments)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=600,
                          **options)


def full_pipe():
    """A pipe that takes nothing until somebody reads from it."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, bytes(1 << 16))
    except BlockingIOError:
        os.set_blocking(writer, True)
    return reader, writer


def strict(text):
    """JSON without the words that only Python takes."""
    def refuse(word):
        raise ValueError(f"{word} is no JSON")
    return json.loads(text, parse_constant=refuse)


class Programs(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="prefix-bench-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)

    def each(self, test):
        self.assertGreater(len(PROGRAMS), 10)
        for program in PROGRAMS:
            with self.subTest(program.name):
                test(program)

    def help_of(self, program):
        done = run(program, "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def example_of(self, program):
        """The arguments of the last line of --help, of files that are there."""
        words = self.help_of(program).splitlines()[-1].split()
        self.assertEqual(words[0], f"build/bin/bench/{program.name}")
        model, trace = self.folder / "model", self.folder / "trace.jsonl"
        if "MODEL" in words and not model.exists():
            made = run(BUILD / "bin" / "prefix-random-checkpoint", "tiny", model)
            self.assertEqual(made.returncode, 0, made.stderr)
        if "TRACE" in words and not trace.exists():
            made = run(ROOT / "tools" / "traces" / "make_traces", "chat", "--sessions", 4, "--encoding", "runs", "--out", trace)
            self.assertEqual(made.returncode, 0, made.stderr)
        return [str({"MODEL": model, "TRACE": trace}.get(word, word)) for word in words[1:]]

    def refused(self, program, arguments, *said, **options):
        """Exit code 2 and one sentence that says these things."""
        done = run(program, *arguments, **options)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, rf"\A{program.name}: .+\n\Z")
        for part in said:
            self.assertIn(part, done.stderr)
        self.assertFalse(done.stdout)

    def test_help_says_what_is_measured_and_which_options_there_are(self):
        def test(program):
            text = self.help_of(program)
            self.assertTrue(text.startswith(f"{program.name} - "), text)
            self.assertIn(f"\nusage: {program.name} ", text)
            self.assertIn("--help", [name for name, _, _ in OPTION.findall(text)])
            self.assertLessEqual(max(map(len, text.splitlines())), 120, text)
            self.assertEqual(run(program, "-h").stdout, text)

        self.each(test)

    def test_what_a_program_does_not_know_is_refused(self):
        def test(program):
            self.refused(program, ["--no-such"], '"--no-such"', f"see {program.name} --help")
            self.refused(program, ["--no-such=1"], '"--no-such=1"')
            for name, value, _ in OPTION.findall(self.help_of(program)):
                if name.startswith("--") and value:
                    self.refused(program, [name], name, "needs a value", value)

        self.each(test)

    def test_what_must_be_given_is_asked_for(self):
        needed = []
        make_bench = (ROOT / "tools" / "run_bench").read_text()

        def test(program):
            usage = re.search(r"^usage: \S+ (.*)$", self.help_of(program), re.M).group(1)
            for argument in re.findall(r"(?<!\S)[A-Z]+(?!\S)", usage):
                self.refused(program, [], argument, "is missing")
                self.assertIn(f"\n    {program.name})", make_bench, "tools/run_bench does not give it what it needs")
                needed.append(argument)

        self.each(test)
        self.assertGreater(len(needed), 5)

    def test_numbers_have_limits(self):
        limits = []

        def test(program):
            for name, _, said in OPTION.findall(self.help_of(program)):
                for least, most in LIMITS.findall(said):
                    for value in (int(least) - 1, int(most) + 1, 10 ** 30):
                        self.refused(program, [name, value], name, f'"{value}"', f"[{least}, {most}]")
                    for value in ("", "2x", "1.5", "1e3"):
                        self.refused(program, [name, value], name, f'"{value}"', "not a whole number")
                    limits.append(name)

        self.each(test)
        self.assertGreater(len(limits), 20)

    def test_a_value_that_is_none_of_those_is_refused(self):
        def test(program):
            for name, value, _ in OPTION.findall(self.help_of(program)):
                if "|" in value:
                    self.refused(program, [name, "nonsense"], name, '"nonsense"', value)
                    self.refused(program, [name, value], name)
                if name in ("--prefill", "--decode"):
                    parts = 3 if name == "--prefill" else 4
                    for shape in ("", "1", "1,2,x,4", "0,1,1,1", "1,-1,1,1", "1,1,1,1,1"):
                        self.refused(program, [name, ",".join(shape.split(",")[:parts + 1 if shape.count(",") > 3 else parts])], name)

        self.each(test)

    def test_a_model_that_is_not_there_is_named(self):
        models = []

        def test(program):
            words = self.example_of(program)
            if str(self.folder / "model") in words:
                missing = self.folder / "no-such-model"
                self.refused(program, [missing if word == str(self.folder / "model") else word for word in words], str(missing))
                models.append(program)

        self.each(test)
        self.assertGreater(len(models), 3)

    def test_standard_output_that_takes_nothing(self):
        def test(program):
            with open("/dev/full", "w") as full:
                self.refused(program, ["--help"], "No space left on device", stdout=full)
            command = ["sh", "-c", 'exec "$@" >&-', "sh", program]
            for arguments in (["--help"], self.example_of(program)):
                done = run(command[0], *command[1:], *arguments)
                self.assertEqual((done.returncode, done.stderr), (2, f"{program.name}: standard output is closed\n"))

        self.each(test)
        plan = next(program for program in PROGRAMS if program.name == "plan_bench")
        with open("/dev/full", "w") as full:  # at the first line, not behind the last
            self.refused(plan, [], "cannot write to standard output: No space left on device", stdout=full)

    def test_documents_name_programs_and_options_that_are_there(self):
        helps = {program.name: self.help_of(program) for program in PROGRAMS}
        documented = []
        for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "bench").rglob("*.md"), *(ROOT / "tools").glob("*.md")]:
            for name, arguments in re.findall(r"`(?:build/bin/bench/)?((?!run_)[a-z]+_bench)\b([^`]*)`", page.read_text()):
                with self.subTest(f"{page.name}: {name}{arguments}"):
                    self.assertIn(name, helps)
                    options = {option for option, _, _ in OPTION.findall(helps[name])}
                    self.assertEqual([word for word in arguments.split() if word.startswith("--") and word not in options], [])
                    documented.append(name)
        self.assertGreater(len(documented), 20)

    def test_a_signal_that_ends_a_program_leaves_no_folder_behind(self):
        for name in ("adapter_bench", "cache_bench"):
            program = next(program for program in PROGRAMS if program.name == name)
            arguments = self.example_of(program)
            for number in (signal.SIGINT, signal.SIGTERM):
                with self.subTest(name, signal=number), tempfile.TemporaryDirectory(dir=self.folder) as temporary:
                    reader, writer = full_pipe()  # where the first line holds the program up
                    # What shells start in the background ignores SIGINT, and so would the program.
                    running = subprocess.Popen([program, *arguments], stdin=subprocess.DEVNULL, stdout=writer,
                                               env={**os.environ, "TMPDIR": temporary},
                                               preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))  # noqa: B023
                    os.close(writer)
                    while running.poll() is None and not os.listdir(temporary):
                        os.sched_yield()
                    self.assertRegex("".join(os.listdir(temporary)), r"\Aprefix-bench-\w{6}\Z")
                    running.send_signal(number)
                    self.assertEqual(running.wait(), -number)
                    self.assertEqual(os.listdir(temporary), [])
                    os.close(reader)

    def test_examples_print_figures(self):
        def test(program):
            done = run(program, *self.example_of(program))
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = [strict(line) for line in done.stdout.splitlines()]
            self.assertTrue(lines)
            computes = "--threads N" in self.help_of(program)
            for line in lines:
                self.assertTrue(line["bench"])
                self.assertIn("machine", line)
                self.assertNotIn(None, line.values(), line)
                if computes:
                    self.assertTrue(line["isa"] and ("skipped" in line or line["threads"] > 0), line)
                for name, value in line.items():
                    if name.endswith("share") or name in ("speedup", "speed", "hit", "seconds"):
                        self.assertGreaterEqual(value, 0, line)

        self.each(test)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
