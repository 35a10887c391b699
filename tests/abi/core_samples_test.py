"""The samples score, likely, beams, turns and dlopen, with good arguments and with every mistake a user can make.

They need no real model, so that they are tested wherever the library is.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ARGUMENTS = argparse.Namespace()


class Sample(unittest.TestCase):
    program = ""

    def run_it(self, *arguments, stdin="") -> subprocess.CompletedProcess:
        command = [Path(ARGUMENTS.samples) / self.program, *arguments]
        return subprocess.run([str(part) for part in command], input=stdin, capture_output=True, text=True, timeout=120)

    def ok(self, *arguments, stdin="") -> str:
        done = self.run_it(*arguments, stdin=stdin)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def refused(self, code: int, *arguments, says=(), stdin="") -> str:
        """Ends with this code and one line on stderr that says what was wrong."""
        done = self.run_it(*arguments, stdin=stdin)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertTrue(done.stderr.startswith(f"{self.program}: "), done.stderr)
        for part in says:
            self.assertIn(part, done.stderr)
        return done.stdout


class WithModel(Sample):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = f"{cls.folder.name}/model"
        subprocess.run([ARGUMENTS.checkpoint, "tiny", cls.model], check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()


class Likely(WithModel):
    program = "likely"

    def test_ranks_by_the_sums_of_score(self) -> None:
        self.assertIn("usage: likely MODEL PREFIX", self.ok("--help"))
        ranked = [line.split() for line in self.ok(self.model, "1,15,27,9", "4,8", "4,9", "16").splitlines()]
        self.assertEqual({row[1] for row in ranked}, {"4,8", "4,9", "16"})
        self.assertEqual(ranked, sorted(ranked, key=lambda row: -float(row[0])))

    def test_what_fails_has_no_place_and_is_told(self) -> None:
        shown = self.refused(1, self.model, "1,2", "3", "999", says=("request 1", "999", "131"))
        self.assertEqual([line.split()[1] for line in shown.splitlines()], ["3"])
        self.refused(1, "/nowhere", "1", "2", says=("/nowhere", "PREFIX_ERR_NOT_FOUND"))
        self.refused(2, self.model, "1,x", "2", says=("1,x",))
        self.refused(2, self.model, says=("too few arguments",))


class Beams(WithModel):
    program = "beams"
    prompt = ",".join(str(token) for token in range(1, 41))
    # Items of one to four tokens; some begin as others do, some are the beginning of others.
    items = sorted({",".join(str((i * i * (level + 3) + 7 * level) % (4 + 9 * level)) for level in range(1 + i % 4))
                    for i in range(60)})

    def catalogue(self, text: str) -> Path:
        path = Path(self.folder.name) / "catalogue.txt"
        path.write_text(text)
        return path

    def beams(self, width: int) -> list[str]:
        return [line.split()[1] for line in self.ok(self.model, self.prompt, width, self.catalogue("\n".join(self.items))).splitlines()]

    def in_order(self) -> list[str]:
        done = subprocess.run([Path(ARGUMENTS.samples) / "likely", self.model, self.prompt, *self.items], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line.split()[1] for line in done.stdout.splitlines()]

    def test_as_many_beams_as_items_give_the_order_of_all(self) -> None:
        self.assertGreater(len(self.items), 30)
        self.assertEqual(self.beams(len(self.items)), self.in_order())

    def test_fewer_beams_find_no_more_than_their_width(self) -> None:
        best, one = self.in_order(), self.beams(1)
        self.assertEqual(len(one), 1)
        found = self.beams(8)
        self.assertEqual(len(found), 8)
        self.assertEqual(found, [item for item in best if item in found])
        self.assertEqual(found[0], best[0])

    def test_mistakes(self) -> None:
        self.assertIn("usage: beams MODEL PROMPT WIDTH", self.ok("--help"))
        good = self.catalogue("4,8\n\n5\n")
        self.assertEqual(len(self.ok(self.model, "1,2", 5, good).splitlines()), 2)
        self.refused(2, self.model, says=("1 arguments",))
        self.refused(2, self.model, "1,x", 2, good, says=("1,x",))
        for width in ("0", "-1", "2x", ""):
            self.refused(2, self.model, "1", width, good, says=("from 1", width))
        self.refused(2, self.model, "1", 2, "/nowhere", says=("/nowhere",))
        self.refused(2, self.model, "1", 2, self.catalogue("\n"), says=("has no items",))
        self.refused(1, self.model, "1", 2, self.catalogue("4,999"), says=("999", "131"))


class Turns(WithModel):
    program = "turns"
    # Short and longer than a page of 32 tokens, with ends in the middle of pages.
    messages = ("1,15,27,9", "4,8", ",".join(str(token) for token in range(1, 71)), "33,7,21", "5")

    def turns(self, model, *arguments):
        return [json.loads(line) for line in self.ok(model, *self.messages, "--json", *arguments).splitlines()]

    def hybrids(self):
        for shape in ("tiny-granite-h", "tiny-qwen3.5"):
            model = Path(self.folder.name) / shape
            if not model.exists():
                subprocess.run([ARGUMENTS.checkpoint, shape, model], check=True, capture_output=True)
            yield model

    def test_a_turn_computes_its_own_tokens_only(self) -> None:
        for model in self.hybrids():
            turns = self.turns(model, "--max-tokens", 9)
            self.assertEqual(len(turns), len(self.messages))
            before = 0  # tokens that were run: of an answer all but the last
            for message, turn in zip(self.messages, turns):
                self.assertEqual(turn["cached"], before)
                self.assertEqual(turn["computed"], len(message.split(",")) + (1 if before else 0))
                self.assertEqual(turn["prompt"], turn["cached"] + turn["computed"])
                before = turn["prompt"] + len(turn["answer"]) - 1
                self.assertEqual(len(turn["answer"]), 9)

    def test_the_answers_are_those_without_a_cache(self) -> None:
        for model in self.hybrids():
            cold = self.turns(model, "--cold")
            self.assertEqual([turn["cached"] for turn in cold], [0] * len(cold))
            self.assertEqual([turn["answer"] for turn in cold], [turn["answer"] for turn in self.turns(model)])

    def test_table(self) -> None:
        for model in self.hybrids():
            lines = self.ok(model, "1,15,27,9", "4,8").splitlines()
            self.assertEqual(lines[0].split(), ["turn", "prompt", "cached", "computed", "generated"])
            self.assertEqual([line.split() for line in lines[1:3]], [["1", "4", "0", "4", "16"], ["2", "22", "19", "3", "16"]])
            self.assertEqual(lines[-1], "in the cache: 37 tokens, and the state of the recurrent layers after 4 of them")
        self.assertNotIn("state", self.ok(self.model, "1,15,27,9"))

    def test_mistakes(self) -> None:
        self.assertIn("usage: turns MODEL MESSAGE", self.ok("--help"))
        self.refused(2, self.model, says=("MODEL and a MESSAGE",))
        self.refused(2, self.model, "1,x", says=("1,x",))
        self.refused(2, self.model, "1", "--fast", says=("--fast", "--help"))
        self.refused(2, self.model, "1", "--max-tokens", says=("--max-tokens",))
        self.refused(1, self.model, "1,999", says=("999", "131"))
        self.refused(1, "/nowhere", "1", says=("/nowhere", "PREFIX_ERR_NOT_FOUND"))


class Score(WithModel):
    program = "score"

    def test_help(self) -> None:
        self.assertIn("usage: score MODEL PREFIX", self.ok("--help"))

    def test_table(self) -> None:
        lines = self.ok(self.model, "1,15,27,9", "4,8", "4 9", "16").splitlines()
        self.assertEqual(lines[0].split(), ["number", "tokens", "log-prob", "per", "token", "status"])
        self.assertEqual([line.split()[:2] for line in lines[1:4]], [["1", "2"], ["2", "2"], ["3", "1"]])
        self.assertEqual(lines[-2].split(), ["given", "cached", "shared", "computed", "seconds", "tokens/s"])
        # The prefix of four is computed once and the 4 that two continuations begin with, too.
        self.assertEqual(lines[-1].split()[:4], ["17", "0", "9", "8"])

    def test_json_has_the_same_numbers(self) -> None:
        found = json.loads(self.ok(self.model, "1,15,27,9", "4,8", "4,9", "16", "--json"))
        self.assertEqual([c["tokens"] for c in found["continuations"]], [2, 2, 1])
        tokens = found["tokens"]
        self.assertEqual(tokens["given"], tokens["cached"] + tokens["shared"] + tokens["computed"])
        for continuation in found["continuations"]:
            self.assertLess(continuation["logprob"], 0)
        table = self.ok(self.model, "1,15,27,9", "4,8", "4,9", "16").splitlines()
        for row, continuation in zip(table[1:4], found["continuations"]):
            self.assertAlmostEqual(float(row.split()[2]), continuation["logprob"], places=3)

    def test_continuations_from_a_file(self) -> None:
        arguments = json.loads(self.ok(self.model, "1,2", "4,8", "5", "--json"))["continuations"]
        text = "4 8\n\n  \n5"  # blank lines are none, the last needs no end
        path = Path(self.folder.name) / "continuations.txt"
        path.write_text(text)
        for source, stdin in ((path, ""), ("-", text)):
            found = json.loads(self.ok(self.model, "1,2", "--file", source, "--json", stdin=stdin))
            self.assertEqual([c["logprob"] for c in found["continuations"]], [c["logprob"] for c in arguments])

    def test_options_reach_the_engine(self) -> None:
        self.ok(self.model, "1,2", "3", "--set", "threads=1", "--set", "cache_bytes=1M", "--set", "namespace=x")
        self.refused(1, self.model, "1,2", "3", "--set", "cache_byte=1M", says=["cache_bytes", "UNKNOWN_OPTION"])
        self.refused(1, self.model, "1,2", "3", "--set", "rows=0", says=["rows", "OUT_OF_RANGE"])
        self.refused(2, self.model, "1,2", "3", "--set", "rows", says=["KEY=VALUE"])

    def test_a_bad_continuation_fails_alone(self) -> None:
        out = self.refused(1, self.model, "1,2", "3", "4,999", "5", says=["continuation 2", "999", "131"])
        rows = [line.split() for line in out.splitlines()[1:4]]
        self.assertEqual([row[-1] for row in rows], ["ok", "PREFIX_ERR_OUT_OF_RANGE", "ok"])
        found = json.loads(self.refused(1, self.model, "1,2", "3", "4,999", "5", "--json"))
        self.assertEqual(found["continuations"][1], {"status": "PREFIX_ERR_OUT_OF_RANGE"})

    def test_mistakes_in_the_arguments(self) -> None:
        self.refused(2, says=["MODEL and PREFIX"])
        self.refused(2, self.model, says=["MODEL and PREFIX"])
        self.refused(2, self.model, "1,2", says=["no continuations"])
        self.refused(2, self.model, "1,2", "--file", "-", says=["no continuations"])
        self.refused(2, self.model, "1,x", "3", says=["1,x"])
        self.refused(2, self.model, "1,2", "3;4", says=["3;4"])
        self.refused(2, self.model, "1,2", "99999999999", says=["99999999999"])
        self.refused(2, self.model, "1,2", "3", "--fast", says=["--fast", "--help"])
        self.refused(2, self.model, "1,2", "3", "--file", says=["--file"])
        self.refused(2, self.model, "1,2", "--file", "/nowhere/at/all", says=["/nowhere/at/all"])

    def test_models_that_cannot_be_loaded(self) -> None:
        self.refused(1, "/nowhere", "1", "2", says=["/nowhere", "PREFIX_ERR_NOT_FOUND"])
        self.refused(1, self.folder.name, "1", "2", says=["config.json"])
        self.refused(1, f"{self.model}/config.json", "1", "2", says=["PREFIX_ERR_FORMAT"])


class Dlopen(Sample):
    program = "dlopen"

    def test_help(self) -> None:
        self.assertIn("usage: dlopen", self.ok("--help"))

    def test_prints_what_is_there(self) -> None:
        text = self.ok(ARGUMENTS.library)
        for part in ("libprefix ", "features: cpu", "devices:", "cpu "):
            self.assertIn(part, text)
        found = json.loads(self.ok(ARGUMENTS.library, "--json"))
        self.assertEqual(found["abi"], 1)
        self.assertIn(found["version"], text)
        self.assertEqual(sum(device["chosen"] for device in found["devices"]), 1)

    def test_missing_library(self) -> None:
        self.refused(1, "/nowhere/libprefix.so", says=["/nowhere/libprefix.so", "LD_LIBRARY_PATH"])
        self.refused(1, __file__, says=["cannot load"])

    def test_another_library(self) -> None:
        self.refused(1, "libm.so.6", says=["not libprefix", "libm.so.6"])

    def test_library_that_is_too_old(self) -> None:
        self.refused(1, ARGUMENTS.old, says=["ABI 0", "at least 1"])

    def test_library_without_a_function(self) -> None:
        self.refused(1, ARGUMENTS.damaged, says=["lacks prefix_version"])

    def test_mistakes_in_the_arguments(self) -> None:
        self.refused(2, "--fast", says=["--fast"])
        self.refused(2, "one", "two", says=["two"])


if __name__ == "__main__":
    del Sample  # only what is below it runs by itself
    parser = argparse.ArgumentParser()
    for name in ("samples", "checkpoint", "library", "old", "damaged"):
        parser.add_argument(f"--{name}", required=True)
    rest = parser.parse_known_args(namespace=ARGUMENTS)[1]
    unittest.main(argv=[sys.argv[0], *rest])
