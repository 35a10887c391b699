"""bindings/golden_texts.txt: texts in, bits of scores out, equal in every language. bindings/make_golden says what its
lines mean."""

import struct
import unittest

import libprefix
from support import MODELS, ROOT


def lines(part, word):
    """The rests of those that begin with the word."""
    return [line[len(word) + 1:] for line in part.split("\n") if line.startswith(word + " ")]


def settings(part, word):
    return dict(line.split("=", 1) for line in lines(part, word))


class GoldenTexts(unittest.TestCase):
    def test_bit_for_bit(self):
        text = (ROOT / "bindings" / "golden_texts.txt").read_text(encoding="utf-8")
        head, *parts = text.split("\ntask ")
        self.assertGreaterEqual(len(parts), 5)
        path = MODELS / lines(head, "model")[0]
        with libprefix.Engine(path, **settings(head, "engine")) as engine, libprefix.Tokenizer(path) as tokenizer:
            for part in parts:
                kind = part.split("\n", 1)[0]
                with self.subTest(kind), libprefix.Task(engine, tokenizer, kind, **settings(part, "option")) as task:
                    if lines(part, "label"):
                        task.set_labels(lines(part, "label"))
                    task.add(lines(part, "text"))
                    self.assertEqual([" ".join(map(str, task.tokens(0)))], lines(part, "tokens"))
                    task.submit()
                    self.assertTrue(task.wait())
                    failures = task.failures()
                    statuses = [failures[item].code if item in failures else 0 for item in range(task.count)]
                    self.assertEqual([" ".join(map(str, statuses))], lines(part, "statuses"))
                    written = lines(part, "written")
                    self.assertEqual([task.text(item) for item in range(len(written))], written)
                    if not written:
                        bits = [struct.unpack("<I", struct.pack("<f", v))[0] for v in task.values().ravel().tolist()]
                        self.assertEqual([" ".join(f"{b:08x}" for b in bits)], lines(part, "bits"))


if __name__ == "__main__":
    unittest.main()
