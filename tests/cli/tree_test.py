#!/usr/bin/env python3
"""Tests of `prefix tree`, from outside: tree_test.py [--bin DIR] [unittest arguments].

Pictures of requests, and of an engine's cache. The last line is "N passed, N failed, N skipped".
"""

import json
import random
import subprocess
import sys
import unittest
import xml.etree.ElementTree as xml

from outside import BIN, SHARED, lines, main, prefix, run, tokens


class Tree(unittest.TestCase):
    def picture(self, requests, *flags):
        done = prefix("tree", *flags, stdin=lines(requests))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_small_text(self):
        text = self.picture([{"tokens": [1, 2, 3, 4]}, {"tokens": [1, 2, 3, 9]}, {"tokens": [1, 2, 3]}])
        self.assertIn("3 tokens x 3, saves 6, 1 end here", text)
        self.assertIn("3 requests, 11 tokens given, 5 computed, 6 saved (54.5 %)", text)

    def test_large_picture_is_folded_and_counted(self):
        shared = tokens(200, 1)
        requests = [{"tokens": shared + tokens(40, 2 + i)} for i in range(300)]
        svg = self.picture(requests, "--format", "svg", "--bars", "20")
        root = xml.fromstring(svg)
        self.assertLess(float(root.get("height")), 700)
        self.assertIn("branches folded", svg)
        self.assertIn("300 requests", svg)
        text = self.picture(requests, "--bars", "20")
        self.assertIn("saves 59,800", text)
        self.assertLess(len(text.splitlines()), 45)

    def test_what_is_not_drawn_is_counted(self):
        shared = tokens(200, 1)
        text = self.picture([{"tokens": shared + [3 + i, 5, 6]} for i in range(100)], "--bars", "20")
        drawn = text.count(" 3 tokens  [")
        self.assertGreater(drawn, 10)
        self.assertIn(f"+ {100 - drawn} branches folded: {100 - drawn} sequences", text)

    def test_numbers_are_those_of_the_run(self):
        requests = [{"tokens": tokens(10, 1) + tokens(5, i % 4), "task": "embed"} for i in range(9)]
        text = self.picture(requests)
        computed = sum(r["usage"]["computed"] for r in run(requests))
        self.assertIn(f" {computed} computed, ", text)
        self.assertNotIn("scored", text)

    def test_tokens_that_are_only_scored_are_in_no_bar(self):
        prompt = tokens(10, 1)
        scored = [{"tokens": prompt + tokens(3, i), "task": "logprobs"} for i in range(3)]
        requests = [*scored, {"tokens": prompt, "task": "choices", "choices": [[1], [2], [3, 4]]}]
        text = self.picture(requests)
        computed = sum(r["usage"]["computed"] for r in run(requests))
        self.assertIn(f"4 requests, {3 * 13 + 10 + 4} tokens given, {computed} computed, 6 of them only scored, ", text)
        self.assertIn("10 tokens x 6, saves 50, 2 end here", text)

    def test_formats_by_file_name(self):
        for name, start in [("t.svg", "<svg"), ("t.dot", "digraph"), ("t.txt", "└─")]:
            path = SHARED["folder"] / name
            self.picture([{"tokens": [1, 2]}], "--out", path)
            self.assertTrue(path.read_text().startswith(start), name)

    def test_empty_and_bad(self):
        self.assertIn("0 requests", self.picture([]))
        done = prefix("tree", stdin=lines(["x", {"tokens": [1]}]))
        self.assertEqual(done.returncode, 1)
        self.assertIn("line 1", done.stderr)
        done = prefix("tree", stdin=lines([{"text": "a"}]))
        self.assertEqual(done.returncode, 1)
        self.assertIn("line 1: text needs a tokenizer; --model", done.stderr)


class CacheTree(unittest.TestCase):
    """prefix tree --from: the cache of an engine, painted from its JSON."""

    @classmethod
    def setUpClass(cls):
        cls.path = SHARED["folder"] / "cache.json"

    def write(self, nodes):
        """Nodes are (number, parent, tokens) or (number, namespace)."""
        out = []
        for node, parent, *rest in nodes:
            root = isinstance(parent, str)
            out.append({"node": node, "parent": -1 if root else parent, "start": 0, "tokens": 0 if root else rest[0],
                        "computed": 0 if root else rest[0], "held": 0, "uses": 2, **({"namespace": parent} if root else {})})
        self.path.write_text(json.dumps({"tokens": sum(n["tokens"] for n in out), "nodes": out}))

    def picture(self, *flags):
        done = prefix("tree", "--from", self.path, *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_what_a_run_leaves(self):
        shared = tokens(40, 1)
        requests = [{"tokens": shared + tokens(10, i), "task": "logits", "ids": [1], "namespace": name}
                    for name in ("a", "<b> & \"c\"") for i in range(3)]
        run(requests, "--tree", str(self.path))
        tree = json.loads(self.path.read_text())
        text = self.picture()
        self.assertIn(f"{tree['tokens']} tokens in ", text)
        self.assertIn(", 2 namespaces", text)
        self.assertIn("─ a: ", text)
        self.assertIn("tokens at 0, used ", text)
        svg = self.picture("--format", "svg")
        texts = [e.text for e in xml.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("a", texts)
        self.assertIn("Prefix tree of the cache", texts)
        dot = self.picture("--format", "dot")
        self.assertTrue(dot.startswith("digraph") and dot.endswith("}\n"))
        for line in dot.splitlines():
            self.assertEqual(len(line.replace("\\\\", "").replace('\\"', "").split('"')) % 2, 1, line)

    def test_names_cannot_move_a_cursor(self):
        self.write([(0, "\x1b[2J\x7f\u009bé")])
        self.assertIn("─  [2J  é: 0 tokens\n", self.picture())

    def test_an_empty_cache(self):
        self.write([(0, "(default)")])
        self.assertEqual(self.picture(), "└─ (default): 0 tokens\n0 tokens in 0 nodes, 1 namespace\n")
        self.write([])
        self.assertEqual(self.picture(), "0 tokens in 0 nodes, 0 namespaces\n")

    def test_all_of_any_tree_is_drawn_or_counted(self):
        generator = random.Random(7)
        shapes = {
            "a chain": [(0, "x")] + [(i, i - 1, 1) for i in range(1, 20000)],
            "a fan": [(0, "x")] + [(i, 0, 1 + i % 50) for i in range(1, 20000)],
            "namespaces": [(i, f"n{i}") for i in range(5000)] + [(5000 + i, i, 3) for i in range(5000)],
            "parents last": [(i, i + 1, 2) for i in range(100)] + [(100, "x")],
            "anything": [(0, "x")] + [(i, generator.randrange(i), generator.randrange(1, 99)) for i in range(1, 3000)],
        }
        for name, nodes in shapes.items():
            self.write(nodes)
            for bars in (1, 3, 40):
                lines_ = self.picture("--bars", str(bars)).splitlines()
                self.assertLessEqual(len(lines_), 300 + bars * 300)
                drawn = sum(int(words.split(" token")[0].split()[-1].replace(",", ""))
                            for words in lines_[:-1] if ": " not in words)
                self.assertEqual(drawn, sum(n[2] for n in nodes if len(n) == 3), (name, bars))
            height = float(xml.fromstring(self.picture("--format", "svg")).get("height"))
            self.assertLess(height, 1100, name)

    def test_what_is_no_tree_is_refused(self):
        node = {"node": 0, "parent": -1, "start": 0, "tokens": 0, "computed": 0, "held": 0, "uses": 0, "namespace": ""}
        bad = ["", "[", "[]", "{}", '{"nodes": 3}', '{"nodes": [3]}', "\ufeff" + '{"nodes": []}', "[" * 100000]
        for change in ({"tokens": 1.5}, {"tokens": -2}, {"tokens": 1 << 40}, {"namespace": 3}, {"parent": 0}, {"parent": 7},
                       {"uses": None}):
            bad.append(json.dumps({"nodes": [{**node, **change}]}))
        bad.append(json.dumps({"nodes": [node, node]}))
        for text in bad:
            self.path.write_text(text)
            done = prefix("tree", "--from", self.path)
            self.assertEqual((done.returncode, done.stdout), (2, ""), text[:200])
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr[:500])
            self.assertIn("--from", done.stderr)
            self.assertNotIn("json.exception", done.stderr)
            self.assertLess(len(done.stderr), 1000)
        for flags in (["--in", self.path], ["--model", SHARED["model"]], ["--out", self.path]):
            done = prefix("tree", "--from", self.path, *flags)
            self.assertEqual(done.returncode, 2)
            self.assertIn(flags[0], done.stderr)

    def test_what_is_not_read_may_be_written(self):
        self.write([(0, "a")])
        out = SHARED["folder"] / "picture.txt"
        out.write_text("old\n")
        with open(out) as source:
            done = subprocess.run([BIN / "prefix", "tree", "--from", self.path, "--out", out], stdin=source, capture_output=True)
        self.assertEqual((done.returncode, out.read_text()), (0, "└─ a: 0 tokens\n0 tokens in 0 nodes, 1 namespace\n"))


if __name__ == "__main__":
    sys.exit(main())
