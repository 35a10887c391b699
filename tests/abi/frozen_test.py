"""Programs compiled with each frozen header run with the newest libraries: frozen_test.py --programs FOLDER ..."""

import argparse
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ARGUMENTS = argparse.Namespace()


class Frozen(unittest.TestCase):
    """test_core_N and test_text_N are added below for each interface N."""

    def run_it(self, *command) -> None:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def core(self, program: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([ARGUMENTS.checkpoint, "tiny", f"{folder}/model"], check=True, capture_output=True)
            self.run_it(program, f"{folder}/model", folder)

    def text(self, program: Path) -> None:
        if not program.exists():
            self.skipTest("libprefix_text is not built")
        if not Path(ARGUMENTS.words).exists():
            self.skipTest(f"{ARGUMENTS.words} is not there; tools/run_tests models writes it")
        self.run_it(program, ARGUMENTS.words)


def add_test(library: str, number: str) -> None:
    program = Path(ARGUMENTS.programs) / f"frozen_{library}_{number}"
    setattr(Frozen, f"test_{library}_{number}", lambda self: getattr(self, library)(program))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True, help="the folder of frozen_core_N and frozen_text_N")
    parser.add_argument("--checkpoint", required=True, help="what writes a tiny model")
    parser.add_argument("--words", required=True, help="a model that reads text")
    parser.add_argument("--frozen", required=True, nargs="+", help="the numbers N")
    parser.parse_args(namespace=ARGUMENTS)
    for each in ARGUMENTS.frozen:
        add_test("core", each)
        add_test("text", each)
    unittest.main(argv=sys.argv[:1])
