#!/usr/bin/env python3
"""Tests of `prefix cache-sim`, from outside: cache_sim_test.py [--bin DIR] [unittest arguments].

Expected numbers are worked out by hand in the comments. The last line is "N passed, N failed, N skipped".
"""

import json
import os
import subprocess
import sys
import unittest
import xml.etree.ElementTree as xml

from outside import BIN, ROOT, SHARED, lines, main, prefix

POLICIES = ["lru", "lfu", "fifo", "mru", "filo", "slru", "priority", "gdsf", "gds"]


def cache_sim(*args, stdin=""):
    return prefix("cache-sim", *args, stdin=stdin)


def ops(operations, *flags, code=0):
    """Results of operations, which are objects or lines as they stand."""
    done = cache_sim("--ops", "-", *flags, stdin=lines(operations))
    assert done.returncode == code, f"exit code {done.returncode}, expected {code}: {done.stderr}{done.stdout}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def insert(*tokens, **fields):
    return {"op": "insert", "tokens": list(tokens), **fields}


def match(*tokens, **fields):
    return {"op": "match", "tokens": list(tokens), **fields}


def evict(n):
    return {"op": "evict", "n": n}


class Operations(unittest.TestCase):
    def test_each_operation_with_its_fields(self):
        results = ops([
            insert(1, 2, 3, 4), insert(1, 2, 5, ns=""), match(1, 2, 3, 9), match(1, 2, ns="other"),
            {"op": "lock", "tokens": [1, 2, 5]}, evict(100), {"op": "unlock", "tokens": [1, 2, 5]}, {"op": "dump"},
            {"op": "stats"}, {"op": "reset"}, {"op": "dump"}])
        for result in results:
            self.assertLessEqual({"evictable", "protected", "total", "tick"}, set(result))
            self.assertEqual(result["total"], result["evictable"] + result["protected"])
        self.assertEqual([r["matched"] for r in results[:4]], [0, 2, 3, 0])
        self.assertEqual((results[2]["slots"], results[3]["slots"]), ([0, 1, 2], []))
        self.assertEqual((results[4]["slots"], results[4]["protected"], results[4]["evictable"]), ([0, 1, 4], 3, 2))
        self.assertEqual(results[5]["freed"], [2, 3])  # what nobody holds
        self.assertEqual(results[6]["protected"], 0)
        # [1, 2] was split off when [5] came; what hung below it before is gone.
        nodes = [(n["path"], n["namespace"], n["slots"], n["lock"]) for n in results[7]["nodes"]]
        self.assertEqual(nodes, [([1, 2], "", [0, 1], 0), ([1, 2, 5], "", [4], 0)])
        self.assertLessEqual({"hits", "priority", "last_use", "created"}, set(results[7]["nodes"][0]))
        self.assertEqual((results[8]["nodes"], results[8]["evictions"]), (2, 1))
        self.assertEqual((results[9]["total"], results[10]["nodes"]), (0, []))

    def test_look_ups_leave_the_tree_alone(self):
        before, _, after = ops([insert(1, 2, 3, 4), match(1, 2, 9), {"op": "dump"}])[0:3]
        self.assertEqual([n["path"] for n in after["nodes"]], [[1, 2, 3, 4]])
        self.assertEqual(before["tick"], after["tick"])

    def test_ticks_and_victims_of_sglang(self):
        # Reads of the clock: 2 for the root, 1 for each insertion and lookup with a key, 2 for each new node.
        results = ops([
            insert(1, 2, 3, 4),  # 2 + 1 + leaf 2 = 5
            insert(1, 2, 5),     # + 1 + split [1 2] 2 + leaf 2 = 10
            match(1, 2, 3, 9),   # + 1 + split [3] 2 = 13
            match(),             # no key: none
            match(7),            # + 1
            insert(),            # + 1
            evict(1), evict(1), evict(2), {"op": "dump"},
        ], "--compat", "sglang")
        self.assertEqual([r["tick"] for r in results], [5, 10, 13, 13, 14, 15, 15, 15, 15, 15])
        self.assertEqual([r.get("matched") for r in results[:6]], [0, 2, 3, 0, 0, 0])
        # Leaves: [5], created and last used at 8, and [4], refreshed at 10 by the lookup that split it. Then [3] is a
        # leaf, and [1 2] after it goes too, although one token would do: whole nodes go.
        self.assertEqual([r["freed"] for r in results[6:9]], [[4], [3], [2, 0, 1]])
        self.assertEqual(results[9]["nodes"], [])

    def test_victims_of_every_policy(self):
        # a, b, c are inserted; a once more; b is looked up. So by last use c a b, by creation a b c; a has two uses.
        operations = [insert(1), insert(2), insert(3, priority=5), insert(1), match(2), evict(1), evict(1), evict(1)]
        orders = {"lru": [2, 0, 1], "lfu": [2, 1, 0], "fifo": [0, 1, 2], "mru": [1, 0, 2], "filo": [2, 1, 0],
                  "slru": [2, 1, 0], "priority": [0, 1, 2]}
        for policy, order in orders.items():
            results = ops(operations, "--policy", policy, "--compat", "sglang")
            self.assertEqual([r["freed"] for r in results[5:]], [[slot] for slot in order], policy)
        gdsf = ops(operations, "--policy", "gdsf")
        self.assertEqual(sorted(sum((r["freed"] for r in gdsf[5:]), [])), [0, 1, 2])

    def test_split_copies_priority_uses_and_locks_of_sglang(self):
        results = ops([insert(1, 2, 3, priority=7), {"op": "lock", "tokens": [1, 2, 3]}, insert(1, 2, 4, priority=1), {"op": "dump"}],
                      "--compat", "sglang")
        nodes = {tuple(n["path"]): n for n in results[3]["nodes"]}
        self.assertEqual([(p, n["priority"], n["hits"], n["lock"]) for p, n in sorted(nodes.items())],
                         [((1, 2), 7, 2, 1), ((1, 2, 3), 7, 1, 1), ((1, 2, 4), 1, 1, 0)])
        self.assertEqual((results[3]["protected"], results[3]["evictable"]), (3, 1))

    def test_pages(self):
        results = ops([insert(1, 2, 3, 4, 5), match(1, 2, 3, 4, 5), match(1, 2, 3), match(1), insert(1, 2, 9, 9)], "--page", "2")
        self.assertEqual([r["matched"] for r in results], [0, 4, 2, 0, 2])
        self.assertEqual(results[1]["slots"], [0, 1, 2, 3])
        self.assertEqual(results[4]["total"], 6)

    def test_bigrams(self):
        # 4 tokens are the pairs (1 2)(2 3)(3 4); a path shows the tokens.
        results = ops([insert(1, 2, 3, 4), match(1, 2, 3), match(1), match(2, 3, 4), {"op": "dump"}], "--bigram")
        self.assertEqual([r["matched"] for r in results[:4]], [0, 2, 0, 0])
        self.assertEqual(results[0]["total"], 3)
        self.assertEqual(results[4]["nodes"][0]["path"], [1, 2, 3, 4])

    def test_slots_may_be_given(self):
        results = ops([insert(1, 2, 3, slots=[70, 80, 90]), insert(1, 2, 4, slots=[1, 2, 33]), match(1, 2, 4)])
        self.assertEqual(results[2]["slots"], [70, 80, 33])

    def test_capacity(self):
        results = ops([insert(*range(0, 40)), insert(*range(100, 140))], "--capacity", "64")
        self.assertLessEqual(results[1]["total"], 64)
        self.assertEqual(len(results[1]["freed"]), 80 - results[1]["total"])
        self.assertLess(max(results[1]["freed"]), 40)
        results = ops([insert(1, 2, 3), insert(1, 2, 4, 5), insert(9, 9)], "--capacity", "5", "--compat", "sglang")
        # Two tokens are to go: the oldest leaf has one, and the next goes whole.
        self.assertEqual([r["freed"] for r in results], [[], [], [2, 3, 4]])

    def test_capacity_is_in_tokens_for_every_page(self):
        many = [insert(*range(100 * i, 100 * i + 32)) for i in range(200)]
        for page, full in [(1, 1000), (16, 992), (7, 994), (32, 992)]:
            totals = [r["total"] for r in ops(many, "--page", page, "--capacity", "1000")]
            self.assertEqual(max(totals), full, page)  # whole pages, and nothing is lost beside
            self.assertEqual(totals[-1], full, page)
        failed = ops([insert(*range(40)), insert(*range(100, 200)), insert(*range(50, 60))], "--capacity", "64", code=1)
        self.assertEqual((failed[1]["error"], failed[2]["total"]), ("PREFIX_ERR_CACHE_FULL", 50))
        for needle in ("100 tokens", "capacity of 64"):
            self.assertIn(needle, failed[1]["message"])

    def test_evictions_go_on_at_a_reset(self):
        stats, reset = {"op": "stats"}, {"op": "reset"}
        for flags in ([], ["--compat", "sglang"]):
            results = ops([insert(1, 2), evict(2), stats, reset, stats], *flags)
            self.assertEqual([r["evictions"] for r in (results[2], results[4])], [1, 1])
            self.assertGreaterEqual(results[4]["tick"], results[2]["tick"])

    def test_bad_lines_fail_alone(self):
        bad = {
            "\ufeff{}": "byte order mark", "{nonsense": "JSON", "[1]": "list", "{}": "op", '{"op":"find"}': "find", '{"op":"match"}': "tokens",
            '{"op":"match","tokens":[1],"token":[1]}': "token", '{"op":"match","tokens":[-1]}': "-1",
            '{"op":"match","tokens":[1.5]}': "1.5", '{"op":"match","tokens":"1"}': "tokens",
            '{"op":"insert","tokens":[1],"slots":[1,2,3]}': "slots", '{"op":"insert","tokens":[1],"priority":99999}': "99999",
            '{"op":"evict"}': "n", '{"op":"evict","n":-1}': "-1", '{"op":"evict","n":"1"}': "integer",
            '{"op":"unlock","tokens":[1,2]}': "lock", '{"op":"dump","op":"dump"}': "twice", '{"op":"match","tokens":[1],"ns":3}': "ns",
            "[" * 100 + "]" * 100: "deep", '{"op":"match","tokens":[],"ns":"\\ud800"}': "JSON",
        }
        good = insert(1, 2)
        lines = [good]
        for line in bad:
            lines += [line, match(1, 2)]
        results = ops(lines, code=1)
        self.assertEqual(len(results), len(lines))
        state = {k: results[0][k] for k in ("evictable", "protected", "total")}
        for i, word in enumerate(bad.values()):
            failed, after = results[1 + 2 * i], results[2 + 2 * i]
            self.assertEqual(list(failed), ["error", "message"])
            self.assertRegex(failed["error"], r"^PREFIX_ERR_[A-Z_]+$")
            self.assertIn(word, failed["message"])
            self.assertEqual({k: after[k] for k in state}, state, word)
        self.assertEqual(results[1]["error"], "PREFIX_ERR_INVALID_ARGUMENT")
        self.assertEqual([r["error"] for r in results if "-1" in r.get("message", "")], ["PREFIX_ERR_OUT_OF_RANGE"] * 2)
        self.assertEqual([r["error"] for r in results if "lock" in r.get("message", "") and "one of" not in r["message"]],
                         ["PREFIX_ERR_MISUSE"])

    def test_a_list_that_is_broken_fails_alone(self):
        one, two = json.dumps(insert(1, 2)), json.dumps(match(1, 2))
        first, failed, second, third = ops([f"[{one}", f" {two}]", two], code=1)
        self.assertEqual(failed, {"error": "PREFIX_ERR_INVALID_ARGUMENT",
                                  "message": "line 2: the list that begins in line 1 has no comma in front of this object"})
        self.assertEqual([first["total"], second["matched"], third["matched"]], [2, 2, 2])
        _, ended, last = ops([f"[{one}, 7", two], code=1)
        self.assertIn("line 1: the list that begins in line 1 ends with what is no object", ended["message"])
        self.assertEqual(last["matched"], 2)
        _, unclosed = ops([f"[{one}"], code=1)
        self.assertIn("not closed", unclosed["message"])

    def test_bytes_that_are_no_text(self):
        done = subprocess.run([BIN / "prefix", "cache-sim", "--ops", "-"], input=b'{"op":"\xff"}\n\x00\n', capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertEqual([json.loads(line)["error"] for line in done.stdout.splitlines()],
                         ["PREFIX_ERR_INVALID_UTF8", "PREFIX_ERR_INVALID_ARGUMENT"])

    def test_results_come_while_the_program_waits(self):
        with subprocess.Popen([BIN / "prefix", "cache-sim", "--ops", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
            for i in range(3):
                run.stdin.write(json.dumps(insert(i)) + "\n")
                run.stdin.flush()
                self.assertEqual(json.loads(run.stdout.readline())["total"], i + 1)
            run.stdin.close()
            self.assertEqual(run.wait(60), 0)

    def test_file_and_empty_lines(self):
        path = SHARED["folder"] / "ops.jsonl"
        path.write_text("\n" + json.dumps(insert(1, 2)) + "\r\n \n")
        done = cache_sim("--ops", path)
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 1))
        self.assertEqual((cache_sim("--ops", "-").returncode, cache_sim("--ops", "-").stdout), (0, ""))


def turn(session, number, prompt, answer, **fields):
    return {"session_id": session, "turn_id": number, "ts": 0.5 * session, "input_tokens": prompt, "output_tokens": answer, **fields}


def write_trace(name, requests):
    path = SHARED["folder"] / name
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in requests))
    return path


def replay(path, *flags, code=0):
    done = cache_sim("--trace", path, *flags)
    assert done.returncode == code, f"exit code {done.returncode}, expected {code}: {done.stderr}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def made(name, *arguments):
    path = SHARED["folder"] / name
    subprocess.run([ROOT / "tools/traces/make_traces", *map(str, arguments), "--out", path], check=True, timeout=120)
    return path


class Traces(unittest.TestCase):
    SMALL = [
        turn(0, 0, [1, 2, 3, 4], [5, 6]),              # nothing is there
        turn(0, 1, [1, 2, 3, 4, 5, 6, 7, 8], [9]),     # prompt and answer of the first turn: 6
        turn(1, 0, [1, 2, 30], [31]),                  # 2
        turn(1, 1, [1, 2], []),                        # all of it, but the last token is computed: 1
        turn(2, 0, [1, 2, 3], [4], namespace="other"),  # nobody shares with another namespace
    ]

    def test_counts(self):
        path, each = write_trace("small.jsonl", self.SMALL), SHARED["folder"] / "each.jsonl"
        result, = replay(path, "--per-request", each)
        self.assertEqual({k: result[k] for k in ("policy", "capacity", "requests", "hits", "input_tokens", "reused_tokens", "evictions")},
                         {"policy": "lru", "capacity": None, "requests": 5, "hits": 3, "input_tokens": 20, "reused_tokens": 9,
                          "evictions": 0})
        self.assertAlmostEqual(result["token_hit_rate"], 9 / 20)
        self.assertGreaterEqual(result["seconds"], 0)
        self.assertNotIn("flops_saved", result)
        requests = [json.loads(line) for line in each.read_text().splitlines()]
        self.assertEqual([r["reused"] for r in requests], [0, 6, 2, 1, 0])
        self.assertEqual(requests[1], {"policy": "lru", "capacity": None, "session_id": 0, "turn_id": 1, "input": 8, "reused": 6})

    def test_any_stream_of_json_is_read(self):
        expected = replay(write_trace("lines.jsonl", self.SMALL))[0]
        for name, text in {"list": json.dumps(self.SMALL), "pretty": "\n".join(json.dumps(r, indent=2) for r in self.SMALL)}.items():
            found = replay(write_trace(name, [text]))[0]
            self.assertEqual({**found, "seconds": 0}, {**expected, "seconds": 0}, name)
        self.assertEqual(ops([json.dumps([insert(1, 2), match(1, 2)], indent=1)]), ops([insert(1, 2), match(1, 2)]))

    def test_runs_are_their_tokens(self):
        # The published numbers of the generator: seed 7 begins 22487 11804 25346 203 19674.
        first = [22487, 11804, 25346, 203, 19674]
        path = write_trace("runs.jsonl", [
            {"session_id": 0, "turn_id": 0, "ts": 0, "input_runs": [[7, 5], [9, 2]], "output_runs": []},
            turn(1, 0, [*first, 1], [2])])
        self.assertEqual(replay(path)[0]["reused_tokens"], 5)

    def test_both_encodings_are_equal(self):
        for workload in ("chat", "swe", "few", "think"):
            small = ["--sessions", 3, "--requests", 30]
            results = []
            for encoding in ("runs", "tokens"):
                path = made(f"{workload}.{encoding}", workload, *small, "--encoding", encoding)
                each = SHARED["folder"] / f"{workload}.{encoding}.each"
                rows = replay(path, "--policy", "all", "--capacity", "1M,20M", "--bytes-per-token", "1024", "--per-request", each)
                self.assertEqual([r["policy"] for r in rows], [p for p in POLICIES for _ in range(2)])
                results.append(([{k: v for k, v in r.items() if k != "seconds"} for r in rows], each.read_text()))
            self.assertEqual(results[0], results[1], workload)

    def test_without_a_limit_every_shared_token_is_found(self):
        for workload in ("chat", "swe", "few", "think"):
            path = made("oracle.jsonl", workload, "--sessions", 3, "--requests", 40, "--encoding", "tokens")
            tree, requests, hits, reused = {}, 0, 0, 0
            for line in path.read_text().splitlines():
                request = json.loads(line)
                prompt, node, found = request["input_tokens"], tree, 0
                while found < len(prompt) and prompt[found] in node:
                    node = node[prompt[found]]
                    found += 1
                found = min(found, len(prompt) - 1)
                requests, hits, reused = requests + 1, hits + (found > 0), reused + found
                node = tree
                for token in prompt + request["output_tokens"]:
                    node = node.setdefault(token, {})
            for flags in ([], ["--compat", "sglang"], ["--capacity", "1T", "--bytes-per-token", "1"]):
                result, = replay(path, *flags)
                self.assertEqual((result["requests"], result["hits"], result["reused_tokens"]), (requests, hits, reused), workload)

    def test_a_small_cache_keeps_what_is_used(self):
        # 48 tokens of room; A and B have 32 each. Without room for both nothing is found again, with it 31 tokens are.
        a, b = list(range(1, 33)), list(range(101, 133))
        path = write_trace("tight.jsonl", [turn(i, 0, p, []) for i, p in enumerate([a, b, a, b, a, b])])
        small, large = replay(path, "--capacity", "480,640", "--bytes-per-token", "10")
        self.assertEqual((large["reused_tokens"], large["evictions"]), (4 * 31, 0))
        self.assertLess(small["reused_tokens"], large["reused_tokens"])
        self.assertGreater(small["evictions"], 0)
        self.assertEqual((small["capacity"], small["capacity_tokens"]), (480, 48))

    def test_more_memory_than_is_kept_is_read_again(self):
        # 5 x 64 MB of tokens, none of which fits the cache; then the same turn twice.
        huge = [{"session_id": 9, "turn_id": i, "ts": 0, "input_runs": [[i, 16_000_000]], "output_runs": []} for i in range(5)]
        path = write_trace("again.jsonl", [*huge, turn(0, 0, [1, 2, 3], []), turn(0, 1, [1, 2, 3], [])])
        results = replay(path, "--policy", "lru,lfu", "--capacity", "1000", "--bytes-per-token", "1")
        self.assertEqual([(r["requests"], r["reused_tokens"]) for r in results], [(7, 2)] * 2)

    def test_costs_from_a_model(self):
        path, model = write_trace("model.jsonl", self.SMALL), SHARED["model"]
        info = json.loads(subprocess.run([BIN / "prefix", "info", model, "--json"], capture_output=True, text=True, check=True).stdout)
        per_token, flops = info["model"]["kv_bytes_per_token"], info["model"]["flops_per_token"]
        result, = replay(path, "--model", model, "--capacity", 1000 * per_token)
        self.assertEqual((result["capacity_tokens"], result["flops_saved"]), (1000, 9 * flops))

    def test_table(self):
        path = write_trace("table.jsonl", self.SMALL)
        done = cache_sim("--trace", path, "--policy", "lru,gdsf", "--capacity", "1K", "--bytes-per-token", "4", "--table")
        header, *rows = done.stdout.splitlines()
        self.assertIn("hit %", header)
        self.assertEqual([row.split()[:3] for row in rows], [["lru", "1K", "256"], ["gdsf", "1K", "256"]])
        self.assertTrue(all(" 45.00 " in row for row in rows), rows)

    def test_bad_lines_are_named(self):
        good = turn(0, 0, [1], [2])
        head = '"session_id":0,"turn_id":0,'
        bad = {
            "{": "JSON", "7": "object", "[1]": "object", '{"session_id":0}': "turn_id", '{"session_id":0,"turn_id":0}': "input_tokens",
            f"{{{head}\"input_tokens\":[1]}}": "output_tokens", f"{{{head}\"input_tokens\":[],\"output_tokens\":[]}}": "prompt",
            f"{{{head}\"input_tokens\":[1],\"input_runs\":[[1,2]],\"output_tokens\":[]}}": "both",
            f"{{{head}\"input_tokens\":[-1],\"output_tokens\":[]}}": "-1", f"{{{head}\"input_tokens\":[1.5]}}": "1.5",
            f"{{{head}\"input_tokens\":[2147483648]}}": "2147483647", f"{{{head}\"input_tokens\":[[1]]}}": "list",
            f"{{{head}\"input_runs\":[1]}}": "run", f"{{{head}\"input_runs\":[[1]]}}": "1 numbers",
            f"{{{head}\"input_runs\":[[1,2,3]]}}": "3 numbers", f"{{{head}\"input_runs\":[[1,99999999999]]}}": "16777216",
            f"{{{head}\"colour\":1}}": "colour", '{"session_id":0,"session_id":0}': "twice", '{"session_id":-1}': "-1",
            '{"session_id":"a"}': "session_id", '{"session_id":null}': "null", '{"namespace":1}': "string", '{"ts":"now"}': "ts",
            f"{json.dumps(turn(0, 1, [1], []))} x": "JSON", json.dumps(good): "second time",
        }
        for line, word in bad.items():
            path = write_trace("bad.jsonl", [good, "", line])
            done = cache_sim("--trace", path)
            self.assertEqual((done.returncode, done.stdout), (2, ""), line)
            self.assertIn("line 3", done.stderr)
            self.assertIn(word, done.stderr, line)
            self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_progress(self):
        path = write_trace("progress.jsonl", self.SMALL)
        self.assertEqual(cache_sim("--trace", path).stderr, "")
        self.assertIn("lru, no limit", cache_sim("--trace", path, "--progress", "on").stderr)


class Usage(unittest.TestCase):
    def test_errors_are_one_line_with_value_and_limit(self):
        path = write_trace("usage.jsonl", Traces.SMALL)
        for arguments, needles in [
            ([], ["--ops", "--trace"]), (["--ops", "-", "--trace", path], ["only", "--ops"]), (["--ops", "/nowhere"], ["/nowhere"]),
            (["--trace", "/nowhere"], ["/nowhere"]), (["--trace", SHARED["folder"]], ["--trace"]), (["--trace", "-"], ["standard input"]),
            (["--ops", "-", "--policy", "best"], ["best", "lru", "gdsf, gds"]), (["--trace", path, "--policy", "lru,best"], ["best", "gdsf"]),
            (["--ops", "-", "--policy", "all"], ["all", "lru"]),
            (["--ops", "-", "--page", "0"], ["0", "[1, 65536]"]), (["--ops", "-", "--page", "65537"], ["65537", "65536"]),
            (["--ops", "-", "--capacity", "-1"], ["-1"]), (["--ops", "-", "--compat", "vllm"], ["vllm", "sglang"]),
            (["--ops", "-", "--table"], ["--table", "--trace"]), (["--ops", "-", "--per-request", "x"], ["--per-request"]),
            (["--trace", path, "--capacity", "4G"], ["--bytes-per-token", "--model"]),
            (["--trace", path, "--capacity", "4Q", "--bytes-per-token", "1"], ["4Q"]),
            (["--trace", path, "--capacity", "1G,,2G", "--bytes-per-token", "1"], ["--capacity"]),
            (["--trace", path, "--capacity", "9", "--bytes-per-token", "10"], ["9", "10"]),
            (["--trace", path, "--bytes-per-token", "0"], ["0", "[1,"]), (["--trace", path, "--model", "/nowhere"], ["/nowhere"]),
            (["--trace", path, "--per-request", "/nowhere/x"], ["/nowhere/x"]),
            (["--trace", path, "--bytes-per-checkpoint", "5"], ["--bytes-per-checkpoint", "--hybrid"]),
            (["--trace", path, "--admission", "all"], ["--admission", "--hybrid"]),
        ]:
            done = cache_sim(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            for needle in needles:
                self.assertIn(needle, done.stderr, arguments)

    def test_a_pipe_is_read_only_once(self):
        trace, fifo = write_trace("piped.jsonl", Traces.SMALL).read_text(), SHARED["folder"] / "fifo"
        os.mkfifo(fifo)  # without a writer: to open it would wait for one
        for name, stdin in (("/dev/stdin", trace), (fifo, ""), ("-", trace)):
            done = cache_sim("--trace", name, stdin=stdin)
            self.assertEqual((done.returncode, done.stdout), (2, ""), name)
            self.assertIn("--trace reads its file once for each policy and capacity", done.stderr)
            self.assertIn("standard input" if name == "-" else str(name), done.stderr)

    def test_a_trace_is_not_overwritten(self):
        path = write_trace("precious.jsonl", Traces.SMALL)
        before = path.read_text()
        link = SHARED["folder"] / "link.jsonl"
        link.unlink(missing_ok=True)
        link.symlink_to(path)
        for name in (path, link):
            done = cache_sim("--trace", path, "--per-request", name)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("--per-request", done.stderr)
            self.assertIn("--trace", done.stderr)
            self.assertEqual(path.read_text(), before)

    def test_errors_begin_with_the_command_once(self):
        for arguments in (["--ops", "-", "--table"], ["--trace", "-"], [], ["--wrong"], ["--trace", "/nowhere"]):
            self.assertRegex(cache_sim(*arguments).stderr, r"^prefix cache-sim: (?!prefix)", arguments)

    def test_folders_are_no_files(self):
        done = cache_sim("--ops", SHARED["folder"])
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("folder", done.stderr)

    def test_what_is_repeated_cannot_move_a_cursor(self):
        escape = "\x1b[2J\x7f\u009b" + 5000 * "x"
        bad = write_trace("escape.jsonl", [{escape: 1}])
        for arguments in (["--trace", bad], ["--trace", escape[:200]], ["--ops", "-", "--compat", escape], ["--" + escape],
                          ["--ops", "-", "--capacity", escape], [escape]):
            done = cache_sim(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertFalse(set("\x1b\x7f\u009b") & set(done.stderr), repr(done.stderr[:200]))
            self.assertLess(len(done.stderr), 1500)

    def test_a_byte_order_mark_is_refused(self):
        path = write_trace("bom.jsonl", Traces.SMALL)
        path.write_text("\ufeff" + path.read_text())
        done = cache_sim("--trace", path)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("byte order mark", done.stderr)

    def test_the_policies_are_those_of_the_library(self):
        self.assertIn("not one of " + ", ".join(POLICIES), cache_sim("--ops", "-", "--policy", "best").stderr)


class Generator(unittest.TestCase):
    def test_fingerprints(self):
        done = subprocess.run([ROOT / "tools/traces/make_traces", "--self-test"], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("chat: 1718 requests, 7025470 tokens of prompts", done.stdout)

    def test_plot(self):
        path = SHARED["folder"] / "plot.svg"
        done = subprocess.run([ROOT / "tools/plot_cache", "--binary", BIN / "prefix", "--out", path, "--workloads", "few", "--table"],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(xml.fromstring(path.read_text()).tag, "{http://www.w3.org/2000/svg}svg")
        rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()[2:]]
        for row in rows:
            rates = [float(value) for value in row[1:]]
            self.assertTrue(all(0 <= rate <= rates[-1] for rate in rates), row)
        self.assertEqual(sorted(name for row in rows for name in row[0].split(", ")), sorted(POLICIES))


if __name__ == "__main__":
    sys.exit(main())
