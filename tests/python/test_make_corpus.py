"""The first inputs of the fuzz targets are those that tests/fuzz/make_corpus.py writes."""

import sys
import unittest
from pathlib import Path

FUZZ = Path(__file__).resolve().parents[1] / "fuzz"
sys.dont_write_bytecode = True
sys.path.insert(0, str(FUZZ))
import make_corpus  # noqa: E402


class CorpusTest(unittest.TestCase):
    def test_what_is_written_is_what_is_there(self) -> None:
        for target, make in make_corpus.TARGETS.items():
            for name, content in make().items():
                with self.subTest(target=target, input=name):
                    path = FUZZ / "corpus" / target / name
                    self.assertTrue(path.exists(), "run tests/fuzz/make_corpus.py")
                    self.assertTrue(path.read_bytes() == content, "run tests/fuzz/make_corpus.py")


if __name__ == "__main__":
    unittest.main()
