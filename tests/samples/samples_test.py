#!/usr/bin/env python3
"""Runs every sample as its reader would: samples_test.py BUILD_FOLDER."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv.pop(1)).resolve()
MODEL = BUILD / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
DOCUMENTS = ["The moon orbits the earth in 27 days.", "Bread is baked from flour, water and yeast.", "Paris lies on the Seine."]


def run(name, *arguments, stdin=""):
    command = [BUILD / "bin" / "samples" / name]
    if name.endswith(".py"):
        command = [sys.executable, ROOT / "samples" / "python" / name]
    return subprocess.run([str(part) for part in (*command, *arguments)], input=stdin, capture_output=True, text=True, timeout=300)


class Samples(unittest.TestCase):
    def setUp(self):
        if not MODEL.exists():
            self.skipTest(f"{MODEL.name} was not fetched")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "documents.txt"
        self.file.write_text("\n".join(DOCUMENTS) + "\n")

    def ok(self, name, *arguments, stdin=""):
        done = run(name, *arguments, stdin=stdin)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")  # progress is for terminals
        return done.stdout

    def json(self, name, *arguments, stdin=""):
        return json.loads(self.ok(name, *arguments, "--json", stdin=stdin))

    def test_rerank(self):
        found = self.json("rerank", MODEL, "How is bread made?", self.file, "--top", 2)
        self.assertEqual(found["ranking"][0]["index"], 1)
        self.assertEqual(len(found["ranking"]), 2)
        tokens = found["tokens"]
        self.assertEqual(tokens["given"], tokens["cached"] + tokens["shared"] + tokens["computed"])
        text = self.ok("rerank", MODEL, "How is bread made?", stdin="\n".join(DOCUMENTS))
        self.assertIn(DOCUMENTS[1], text.splitlines()[0])
        self.assertIn("tokens/s", text)

    def test_python_gives_the_scores_of_c(self):
        ranking = self.json("rerank", MODEL, "How is bread made?", self.file)["ranking"]
        same = self.json("prefix_ctypes.py", MODEL, "How is bread made?", self.file, "--library", BUILD / "lib")["ranking"]
        self.assertEqual([entry["index"] for entry in same], [entry["index"] for entry in ranking])
        for a, b in zip(ranking, same):
            self.assertAlmostEqual(a["score"], b["score"], places=6)

    def test_cpp_gives_the_order_of_c(self):
        ranking = self.json("rerank", MODEL, "How is bread made?", self.file)["ranking"]
        lines = self.ok("rerank_cpp", MODEL, "How is bread made?", stdin="\n".join(DOCUMENTS)).splitlines()
        self.assertEqual([line.split("  ", 1)[1] for line in (line.strip() for line in lines)],
                         [DOCUMENTS[entry["index"]] for entry in ranking])

    def test_answers_are_shown_as_they_are_written(self):
        self.file.write_text("This is one long sentence about bread. " * 3)
        found = self.json("qa", MODEL, self.file, "Repeat the text.", "--max-tokens", 200, "--recipe", "extractive-qa")
        shown = self.ok("qa", MODEL, self.file, "Repeat the text.", "--max-tokens", 200, "--recipe", "extractive-qa")
        self.assertEqual(shown.splitlines()[1].removeprefix("A  "), found["answers"][0])

    def test_qa(self):
        found = self.json("qa", MODEL, self.file, "What orbits the earth?", "Which river does Paris lie on?")
        self.assertIn("moon", found["answers"][0].lower())
        self.assertIn("Seine", found["answers"][1])
        self.assertGreater(found["tokens"]["shared"], 0)

    def test_embed(self):
        found = self.json("embed", MODEL, self.file, "--dimensions", 8)
        for vector in found["embeddings"]:
            self.assertEqual(len(vector), 8)
            self.assertAlmostEqual(sum(x * x for x in vector), 1, places=5)
        self.assertEqual(len(self.ok("embed", MODEL, self.file).splitlines()), len(DOCUMENTS) + 3)

    def test_chat_finds_earlier_turns_in_the_cache(self):
        out = self.ok("chat", MODEL, "--max-tokens", 12, "--json", stdin="What is bread made of?\n\nAnd cake?\n")
        first, second = (json.loads(line) for line in out.splitlines())
        self.assertEqual(first["cached"], 0)
        self.assertGreaterEqual(second["cached"], first["prompt"] - 4)
        self.assertGreater(first["generated"], 0)
        self.assertIn("from the cache", self.ok("chat", MODEL, "--max-tokens", 4, "--system", "Be brief.", stdin="Hi\n"))

    def test_mistakes_are_named(self):
        for name in ("rerank", "rerank_cpp", "qa", "embed", "chat", "prefix_ctypes.py"):
            self.assertIn("usage", self.ok(name, "--help"))
            done = run(name)
            self.assertEqual(done.returncode, 2, name)
            self.assertTrue(done.stderr)
        for name, arguments in (("rerank", ["/absent", "q", self.file]), ("chat", ["/absent"]), ("embed", ["/absent", self.file]),
                                ("qa", ["/absent", self.file, "q"]), ("prefix_ctypes.py", ["/absent", "q", self.file, "--library", BUILD / "lib"])):
            done = run(name, *arguments)
            self.assertEqual(done.returncode, 1, name)
            self.assertIn("/absent", done.stderr)
        done = run("rerank", MODEL, "q", self.file, "--recipe", "absent")
        self.assertEqual(done.returncode, 1)
        self.assertIn("query-likelihood", done.stderr)
        done = run("prefix_ctypes.py", MODEL, "q", self.file, "--library", "/absent")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--library", done.stderr)
        self.assertEqual(run("rerank", MODEL, "q", "--wrong").returncode, 2)


if __name__ == "__main__":
    os.environ.pop("LD_LIBRARY_PATH", None)
    unittest.main()
