"""tools/fuzz counts what the fuzzers report, keeps what they find, and fails when they find something."""

import contextlib
import importlib.machinery
import importlib.util
import io
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def load_tool():
    loader = importlib.machinery.SourceFileLoader("fuzz", str(ROOT / "tools" / "fuzz"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("fuzz", loader))
    sys.modules["fuzz"] = module  # dataclasses look their module up
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


FUZZ = load_tool()


class FuzzTest(unittest.TestCase):
    """With shell scripts in place of the fuzzers: what the tool calls, reads and says."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for path in ("build/bin/fuzz", "source"):
            (self.root / path).mkdir(parents=True)
        (self.root / "source" / "targets.txt").write_text("# name, longest\ngood 10 - -\nbad 20 json -\n")
        before = FUZZ.ROOT, FUZZ.SOURCES, FUZZ.BUILD
        self.addCleanup(lambda: setattr(FUZZ, "ROOT", before[0]) or setattr(FUZZ, "SOURCES", before[1]) or
                        setattr(FUZZ, "BUILD", before[2]))
        FUZZ.ROOT, FUZZ.SOURCES, FUZZ.BUILD = self.root, self.root / "source", self.root / "build"

    def write(self, name: str, script: str) -> None:
        path = self.root / "build" / "bin" / "fuzz" / f"fuzz_{name}"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run_tool(self, *arguments: str) -> tuple[int, str]:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            sys.argv = ["fuzz", *arguments]
            code = FUZZ.main()
        return code, out.getvalue()

    def test_executions_and_new_paths_are_added_up(self) -> None:
        self.write("good", 'touch corpus/good/new1 corpus/good/new2; echo "$@" > arguments; '
                           'printf "#7\\tNEW\\nstat::number_of_executed_units: 1234567\\n"')
        self.write("bad", 'printf "stat::number_of_executed_units: 1\\n"')
        code, output = self.run_tool("--minutes", "0.1")
        self.assertEqual(code, 0, output)
        self.assertEqual(output.splitlines()[-1], "1,234,568 executions, 2 new paths, 0 findings")
        arguments = (self.root / "build" / "arguments").read_text()
        self.assertIn("-max_len=10 ", arguments)
        self.assertIn("-max_total_time=3 ", arguments)  # an equal share

    def test_a_finding_is_named_with_its_command_and_fails(self) -> None:
        # Without the statistics at the end, as where the process was killed.
        self.write("bad", 'printf "#512\\tpulse\\nTest unit written to $PWD/findings/bad-crash-1\\n"; exit 77')
        code, output = self.run_tool("--minutes", "0.05", "bad")
        self.assertEqual(code, 1, output)
        self.assertIn("FINDING build/findings/bad-crash-1; again: ", output)
        self.assertIn("fuzz_bad -max_len=20", output)
        # It went on, and found the same again.
        self.assertEqual(output.splitlines()[-1], "1,024 executions, 0 new paths, 1 findings")

    def test_one_that_dies_without_an_input_is_a_finding(self) -> None:
        self.write("bad", "exit 1")
        code, output = self.run_tool("--minutes", "0.1", "bad")
        self.assertEqual(code, 1, output)
        self.assertEqual(output.splitlines()[-1], "0 executions, 0 new paths, 1 findings")

    def test_a_slow_input_is_only_a_note(self) -> None:
        self.write("good", "echo artifact; echo Test unit written to $PWD/findings/good-slow-unit-1")
        self.assertEqual(self.run_tool("--minutes", "0.1", "good")[0], 0)

    def test_unknown_targets_and_times_are_refused(self) -> None:
        self.assertEqual(self.run_tool("goood")[0], 2)
        self.assertEqual(self.run_tool("--minutes", "0", "good")[0], 2)

    def test_every_target_has_its_source_and_its_corpus(self) -> None:
        FUZZ.SOURCES = ROOT / "tests" / "fuzz"
        names = {target.name for target in FUZZ.read_targets()}
        self.assertEqual(names, {path.stem[5:] for path in FUZZ.SOURCES.glob("fuzz_*.cc")})
        self.assertEqual(names, {path.name for path in (FUZZ.SOURCES / "corpus").iterdir()})
        self.assertLessEqual({path.name for path in (FUZZ.SOURCES / "dictionaries").iterdir()}, names)
        longest = {target.name: target.longest for target in FUZZ.read_targets()}
        for path in (FUZZ.SOURCES / "corpus").glob("*/*"):
            self.assertLessEqual(path.stat().st_size, longest[path.parent.name], path)


if __name__ == "__main__":
    unittest.main()
