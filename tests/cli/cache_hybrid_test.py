#!/usr/bin/env python3
"""Tests of `prefix cache-sim --hybrid`, from outside: cache_hybrid_test.py [--bin DIR] [unittest arguments].

hybrid_golden.txt has what two independent simulations of Marconi's experiments reused, request by request, as a
digest: the first 12 hex digits of the SHA-256 over the counts of all requests, joined by commas.
"""

import hashlib
import itertools
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

from outside import ROOT, SHARED, main, prefix

GOLDEN = [line.split() for line in (Path(__file__).parent / "hybrid_golden.txt").read_text().splitlines()[1:]]
STATE, TOKEN = 26_787_840, 65_536  # bytes, of default7b


def trace(workload):
    path = SHARED["folder"] / f"{workload}.jsonl"
    if not path.exists():
        subprocess.run([ROOT / "tools/traces/make_traces", workload, "--encoding", "runs", "--out", path], check=True)
    return path


def write(name, requests):
    path = SHARED["folder"] / name
    with open(path, "w", encoding="ascii") as file:
        for i, (prompt, answer) in enumerate(requests):
            file.write(json.dumps({"session_id": i, "turn_id": 0, "ts": i, "input_tokens": prompt, "output_tokens": answer}) + "\n")
    return path


def cache_sim(path, *args):
    return prefix("cache-sim", "--hybrid", "--trace", path, *args)


def replay(path, *args):
    """Results of every run, with the reused tokens of each of its requests."""
    each = SHARED["folder"] / "each.jsonl"
    done = cache_sim(path, *args, "--per-request", each)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    counts = [json.loads(line)["reused"] for line in each.read_text().splitlines()]
    for i, row in enumerate(rows):
        row["each"] = counts[i * row["requests"]:(i + 1) * row["requests"]]
    return rows


def groups(cells, key):
    """Cells that one run replays. Builds that are slow take every fourth: PREFIX_TEST_QUICK."""
    found = [(name, list(of)) for name, of in itertools.groupby(cells, key=key)]
    return found[::4] if "PREFIX_TEST_QUICK" in os.environ else found


def digest(row):
    return hashlib.sha256(",".join(map(str, row["each"])).encode()).hexdigest()[:12]


class MarconisExperiments(unittest.TestCase):
    def test_every_digest(self):
        self.assertEqual(len(GOLDEN), 145)
        for (workload, gigabytes, cost, prompt, pitfall), cells in groups(GOLDEN, lambda cell: cell[:5]):
            flags = ["--compat", "marconi", "--model-cost", cost, "--policy", ",".join(cell[5] for cell in cells)]
            flags += ["--capacity", gigabytes + "000000000"] if gigabytes != "0" else []
            flags += ["--admission", "branch,end,prompt"] if prompt == "1" else []
            flags += ["--pitfalls", "3,9"] if pitfall == "1" else []
            for cell, row in zip(cells, replay(trace(workload), *flags), strict=True):
                self.assertEqual((row["reused_tokens"], digest(row)), (int(cell[6]), cell[7]), cell)

    def test_what_the_tuner_adopts(self):
        for workload, gigabytes, alpha, window in [("chat", 5, 0.5, 430), ("few", 10, 0.1, 170), ("few", 30, 0.3, 975),
                                                   ("swe", 40, 0, 2195), ("chat", 20, 0, 1820)]:
            row, = replay(trace(workload), "--compat", "marconi", "--policy", "marconi", "--capacity", f"{gigabytes}000000000")
            tuned = window <= row["requests"]  # else the trace ends before it
            self.assertEqual((row["alpha"], row["window"]), (alpha, window if tuned else 0), (workload, gigabytes))

    def test_toy(self):
        toy = [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 6, 5], [0, 1, 2, 3, 7, 8], [0, 2, 3, 9], [10, 1, 2], [0, 1, 2, 3, 7, 11]]
        row, = replay(write("toy.jsonl", [(t, []) for t in toy]), "--compat", "marconi", "--policy", "leaf-lru", "--capacity", "10000000000")
        self.assertEqual((row["each"], row["states"], row["bytes"]), ([0, 0, 4, 0, 0, 4], 9, 242_204_672))
        self.assertEqual(digest(row), "f0a935c76083")

    def test_pitfalls_are_switches(self):
        path = write("partial.jsonl", [([1, 2, 3, 4], []), ([1, 2, 3, 4, 9, 9], []), ([1, 2, 9, 9, 5], [])])
        for pitfalls, reused in [("9", [0, 4, 0]), ("5,9", [0, 4, 4])]:
            row, = replay(path, "--compat", "marconi", "--policy", "gds", "--pitfalls", pitfalls)
            self.assertEqual(row["each"], reused)
        for one, other in [("9", "3"), ("9", "3,9"), ("9", "4,9")]:
            rows = [replay(trace("few"), "--compat", "marconi", "--policy", "marconi=1", "--capacity", "10000000000", "--pitfalls", p)[0]
                    for p in (one, other)]
            self.assertNotEqual(digest(rows[0]), digest(rows[1]), other)


class OurRules(unittest.TestCase):
    def test_close_to_marconis_and_never_over_capacity(self):
        """Pins, an exact need and the token that is always computed cost next to nothing."""
        limits = {"leaf-lru": 0.25, "marconi=0": 0.25, "gds": 0.25, "gdsf": 0.25, "block": 0.25}
        for (workload, gigabytes, cost, prompt, pitfall), cells in groups(GOLDEN, lambda cell: cell[:5]):
            cells = [cell for cell in cells if cell[5] in limits]
            if (cost, prompt, pitfall) != ("default7b", "0", "0") or gigabytes == "0":
                continue
            policies = ",".join(cell[5] for cell in cells)
            for cell, row in zip(cells, replay(trace(workload), "--policy", policies, "--capacity", gigabytes + "000000000"), strict=True):
                self.assertAlmostEqual(100 * row["reused_tokens"] / row["input_tokens"], 100 * int(cell[6]) / row["input_tokens"],
                                       delta=limits[cell[5]], msg=cell)
                self.assertLessEqual(row["peak_bytes"], row["capacity"], cell)
                self.assertEqual(row["refused"], 0)

    def test_auto_is_never_far_behind(self):
        """At most a point below the best of what Marconi offers, and far above it where much is to gain."""
        targets = {("few", "10"): 65, ("swe", "40"): 30}
        for (workload, gigabytes), cells in groups([c for c in GOLDEN if c[2:5] == ["default7b", "0", "0"]], lambda c: (c[0], c[1])):
            reused = {cell[5]: int(cell[6]) for cell in cells}
            if gigabytes == "0" or "marconi" not in reused:
                continue
            capacity = ["--capacity", gigabytes + "000000000"]
            row, = replay(trace(workload), *capacity)
            tuned, = replay(trace(workload), "--compat", "marconi", "--policy", "marconi", *capacity)
            best = max(reused[name] for name in ("leaf-lru", "marconi=0", "marconi"))
            self.assertGreaterEqual(row["reused_tokens"], best - 0.01 * row["input_tokens"], (workload, gigabytes))
            self.assertGreaterEqual(100 * row["token_hit_rate"], targets.get((workload, gigabytes), 0))
            self.assertGreaterEqual(row["flops_saved"], 0.99 * tuned["flops_saved"], (workload, gigabytes))
            self.assertLessEqual(row["peak_bytes"], row["capacity"])

    def test_end_of_prompt(self):
        """A template that drops the thinking from the history: only the prompt is a prefix of the next."""
        flags = ["--model-cost", "qwen3.5-4b", "--policy", "lru"]
        for capacity, gain in [(["--capacity", "10000000000"], 0.15), ([], 0.09)]:
            without, = replay(trace("think"), *flags, *capacity)
            with_it, = replay(trace("think"), *flags, *capacity, "--admission", "branch,end,prompt")
            self.assertGreaterEqual(with_it["token_hit_rate"] - without["token_hit_rate"], gain, capacity)

    def test_placed_states(self):
        """Where requests part is learned: at the end of prompts on think, before the question on few."""
        for workload, cost, capacity in [("think", "qwen3.5-4b", "10000000000"), ("few", "default7b", "10000000000"), ("few", "default7b", "30000000000")]:
            flags = ["--model-cost", cost, "--policy", "gdsf", "--capacity", capacity]
            without, = replay(trace(workload), *flags)
            with_it, = replay(trace(workload), *flags, "--admission", "branch,end,placed")
            self.assertGreaterEqual(with_it["token_hit_rate"] - without["token_hit_rate"], 0.02, workload)
            self.assertLessEqual(with_it["peak_bytes"], with_it["capacity"])

    def test_last_token_is_computed_and_the_sampled_one_not_kept(self):
        path = write("last.jsonl", [([1, 2, 3], [4, 5]), ([1, 2, 3, 4], []), ([1, 2, 3, 4, 5, 6], [])])
        row, = replay(path, "--policy", "lru")
        self.assertEqual(row["each"], [0, 0, 4])
        self.assertEqual((row["hits"], row["states"], row["tokens"]), (1, 2, 6))
        self.assertEqual(row["bytes"], 2 * STATE + 6 * TOKEN)

    def test_too_large_is_refused(self):
        path = write("large.jsonl", [(list(range(100)), []), ([1] * 2000, []), (list(range(101)), [])])
        row, = replay(path, "--policy", "lru", "--capacity", 3 * STATE)
        self.assertEqual((row["each"], row["refused"], row["evictions"]), ([0, 0, 100], 1, 0))

    def test_costs(self):
        path = write("costs.jsonl", [([1, 2, 3], []), ([1, 2, 3, 4], [])])
        row, = replay(path, "--model-cost",
                      "recurrent_layers=2,attention_layers=3,mlp_layers=5,recurrent_flops=7,attention_flops=11,"
                      "attention_flops_squared=13,mlp_flops=17,state_bytes=1000,kv_bytes=10")
        self.assertEqual(row["flops_saved"], 3 * (2 * 7 + 3 * 11 + 5 * 17) + 9 * 3 * 13)
        self.assertEqual(row["bytes"], 2 * 1000 + 4 * 10)
        row, = replay(path, "--bytes-per-checkpoint", "500", "--bytes-per-token", "1")
        self.assertEqual(row["bytes"], 2 * 500 + 4)

    def test_costs_from_a_model(self):
        path, model = write("model.jsonl", [([1, 2, 3], []), ([1, 2, 3, 4], [])]), ROOT / "build" / "golden-models" / "granite-h-base"
        info = json.loads(prefix("info", model, "--json").stdout)["model"]
        row, = replay(path, "--model", model)
        self.assertEqual(row["bytes"], 2 * info["state_bytes"] + 4 * info["kv_bytes_per_token"])
        attention = info["sizes"]["layers"] - info["sizes"]["recurrent_layers"]
        scores = 2 * info["sizes"]["heads"] * info["sizes"]["head_dim"]
        self.assertEqual(row["flops_saved"], 3 * info["flops_per_token"] + 9 * attention * scores)

    def test_states_of_a_path(self):
        path = write("path.jsonl", [(list(range(n)), []) for n in range(1, 9)])
        self.assertEqual([replay(path, "--max-states", n)[0]["states"] for n in (1, 3, 99)], [1, 3, 8])

    def test_table(self):
        done = cache_sim(trace("few"), "--policy", "lru,marconi=0.5", "--capacity", "10G", "--table")
        header, *rows = done.stdout.splitlines()
        self.assertIn("TFLOP saved", header)
        self.assertEqual([row.split()[:2] for row in rows], [["lru", "10G"], ["marconi=0.5", "10G"]])


class Report(unittest.TestCase):
    def test_its_figures_are_those_of_this_program(self):
        report = (ROOT / "docs/hybrid-cache-report.md").read_text()
        capacities = ",".join(f"{n}000000000" for n in (5, 10, 15, 20, 30, 40))
        limit, = replay(trace("few"), "--policy", "lru")
        for policy in ("gdsf", "auto"):
            rates = [row["token_hit_rate"] for row in replay(trace("few"), "--policy", policy, "--capacity", capacities)]
            line = " | ".join([policy, *(f"{100 * rate:.1f}" for rate in [*rates, limit["token_hit_rate"]])])
            self.assertIn(f"| {line} |", report)
        self.assertNotIn("**miss**", report)


class Usage(unittest.TestCase):
    def test_errors_are_one_line_with_value_and_limit(self):
        path = write("usage.jsonl", [([1], [])])
        hybrid = ["--hybrid", "--trace", path]
        for arguments, needles in [
            (["--hybrid", "--ops", "-"], ["--ops", "--hybrid"]), ([*hybrid, "--page", "2"], ["--page"]), ([*hybrid, "--model", "/nowhere"], ["/nowhere"]),
            ([*hybrid, "--model", SHARED["model"]], ["no recurrent layers"]), ([*hybrid, "--model", "x", "--model-cost", "default7b"], ["--model-cost"]),
            (["--trace", path, "--model-cost", "default7b"], ["--model-cost", "--hybrid"]), (["--trace", path, "--pitfalls", "3"], ["--hybrid"]),
            ([*hybrid, "--policy", "best"], ["best", "auto, lru, leaf-lru"]), ([*hybrid, "--policy", "marconi=x"], ["marconi=x", "alpha"]),
            ([*hybrid, "--policy", "marconi=-1"], ["alpha", "-1", "[0, 1e+06]"]), ([*hybrid, "--policy", "gds=1"], ["alpha", "gds"]),
            ([*hybrid, "--compat", "sglang"], ["sglang", "marconi"]), ([*hybrid, "--model-cost", "gpt"], ["gpt", "default7b", "granite-h-1b"]),
            ([*hybrid, "--model-cost", "width=0"], ["width", "0", "[1, 262144]"]), ([*hybrid, "--model-cost", "height=1"], ["height", "width"]),
            ([*hybrid, "--model-cost", "width=1,width=2"], ["width", "twice"]), ([*hybrid, "--model-cost", "width=x"], ["width", "x"]),
            ([*hybrid, "--model-cost", "recurrent_layers=0,attention_layers=0"], ["memory"]),
            ([*hybrid, "--bytes-per-token", "268435457"], ["kv_bytes", "268435457", "268435456"]),
            ([*hybrid, "--model-cost", "recurrent_layers=4096,width=262144,state_width=262144"], ["562984313159680", "68719476736"]),
            ([*hybrid, "--admission", "branch,leaf"], ["leaf", "branch, end, prompt, placed"]), ([*hybrid, "--max-states", "0"], ["--max-states", "0"]),
            ([*hybrid, "--pitfalls", "3"], ["pitfalls", "marconi"]), ([*hybrid, "--compat", "marconi", "--pitfalls", "6"], ["6", "3, 4, 5, 9"]),
            ([*hybrid, "--compat", "marconi", "--admission", "end"], ["branch"]),
            ([*hybrid, "--max-placed", "2"], ["max_placed", "placed"]), ([*hybrid, "--admission", "placed", "--max-placed", "17"], ["17", "16"]),
            ([*hybrid, "--compat", "marconi", "--admission", "branch,end,placed"], ["marconi", "prompt"]),
            ([*hybrid, "--capacity", "1K"], ["1024", str(STATE + TOKEN)]),
        ]:
            done = prefix("cache-sim", *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            for needle in needles:
                self.assertIn(needle, done.stderr, arguments)

    def test_more_tokens_than_can_be_counted(self):
        path = SHARED["folder"] / "long.jsonl"
        path.write_text('{"session_id":0,"turn_id":0,"ts":0,"input_runs":[[1,16000000]],"output_runs":[]}\n')
        done = cache_sim(path)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("16000000", done.stderr)


if __name__ == "__main__":
    sys.exit(main())
