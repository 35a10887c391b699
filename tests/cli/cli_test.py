#!/usr/bin/env python3
"""Tests of the prefix command, from outside: cli_test.py [--bin DIR] [unittest arguments].

Runs the program on a tiny random checkpoint. The last line is "N passed, N failed, N skipped".
"""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import time
import unittest

from outside import BIN, ROOT, SHARED, TEXT_LIBRARY, lines, main, prefix, run, tokens


def bits(value):
    return struct.pack("<f", value)


class Run(unittest.TestCase):
    def test_all_five_tasks(self):
        results = run([
            {"id": "logits", "tokens": [1, 5, 9, 12], "task": "logits", "ids": [3, 4]},
            {"id": "logprobs", "tokens": [1, 5, 9, 12, 7], "task": "logprobs", "from": 2},
            {"id": "choices", "tokens": [1, 5, 9], "task": "choices", "choices": [[4, 5], [6]]},
            {"id": "embed", "tokens": [1, 5, 9, 13], "task": "embed", "dimensions": 4},
            {"id": "generate", "tokens": [1, 5, 9, 13], "max_tokens": 3, "ignore_eos": True},
        ])
        by_id = {r["id"]: r for r in results}
        self.assertEqual(list(by_id), ["logits", "logprobs", "choices", "embed", "generate"])
        self.assertTrue(all(r["status"] == "ok" and "message" not in r for r in results))
        self.assertEqual(len(by_id["logits"]["logits"]), 2)
        self.assertEqual(len(by_id["logprobs"]["logprobs"]), 3)
        self.assertEqual([len(c) for c in by_id["choices"]["token_logprobs"]], [2, 1])
        for total, parts in zip(by_id["choices"]["logprobs"], by_id["choices"]["token_logprobs"]):
            self.assertAlmostEqual(total, sum(parts), places=3)
        self.assertEqual(len(by_id["embed"]["embedding"]), 4)
        self.assertAlmostEqual(sum(x * x for x in by_id["embed"]["embedding"]), 1, places=5)
        self.assertEqual(len(by_id["generate"]["tokens"]), 3)
        self.assertEqual(by_id["generate"]["finish"], "length")

    def test_usage_adds_up_and_first_request_computes(self):
        results = run([{"tokens": [1, 5, 9, 12 + i], "task": "logits", "ids": [1]} for i in range(3)])
        for i, result in enumerate(results):
            u = result["usage"]
            self.assertEqual(u["prompt"], u["cached"] + u["shared"] + u["computed"])
            self.assertEqual((u["shared"], u["computed"]), (0, 4) if i == 0 else (3, 1))

    def test_id_defaults_to_the_line_number(self):
        request = json.dumps({"tokens": [1, 2], "task": "logits", "ids": [1]})
        done = prefix("run", "--model", SHARED["model"], stdin=f"{request}\n\n{request}\n")
        self.assertEqual([json.loads(x)["id"] for x in done.stdout.splitlines()], ["1", "3"])

    def test_bits_do_not_depend_on_sharing_threads_order_or_batch(self):
        shared = tokens(70, 1)
        requests = [{"id": str(i), "tokens": shared + tokens(9, 2 + i), "task": "logprobs", "from": 60} for i in range(6)]
        expected = {r["id"]: [bits(x) for x in r["logprobs"]] for r in run(requests)}
        for flags, order in [
            (["--sharing", "off"], 1), (["--threads", "1"], 1), (["--batch", "1"], 1),
            (["--rows", "7"], 1), ([], -1), (["--cache", "off", "--batch", "2"], 1),
        ]:
            for result in run(requests[::order], *flags):
                self.assertEqual([bits(x) for x in result["logprobs"]], expected[result["id"]], flags)

    def test_floats_come_back_bit_by_bit(self):
        done = prefix("run", "--model", SHARED["model"], stdin=lines([{"tokens": tokens(20, 3), "task": "embed"}]))
        numbers = done.stdout[done.stdout.index("[") + 1:done.stdout.index("]")].split(",")
        for text in numbers:
            single = struct.unpack("<f", bits(float(text)))[0]
            self.assertEqual(text, f"{single:.9g}")

    def test_flush_keeps_the_cache(self):
        request = {"tokens": [1, 5, 9, 12], "task": "logits", "ids": [3, 4]}
        first, second = run([request, {"flush": True}, request])
        self.assertEqual(first["usage"]["cached"], 0)
        self.assertGreater(second["usage"]["cached"], 0)
        self.assertEqual(first["logits"], second["logits"])
        again = run([request, request], "--batch", "1")
        self.assertEqual(again[1]["usage"], second["usage"])

    @unittest.skipIf("PREFIX_TEST_QUICK" in os.environ, "a million requests take minutes in a slow build")
    def test_one_batch_has_any_number_of_requests(self):
        # One more than an engine takes unless it is told.
        path = SHARED["folder"] / "many.jsonl"
        run(['{"tokens":[1],"task":"embed","dimensions":1}'] * 1_000_001, "--out", path)
        with open(path) as results:
            self.assertEqual(sum('"status":"ok"' in line for line in results), 1_000_001)
        path.unlink()

    def test_more_requests_than_the_user_allows(self):
        request = {"tokens": [1, 5], "task": "logits", "ids": [3]}
        limit = ["--option", "queue_limit=2"]
        self.assertEqual(len(run([request, {"flush": True}, request, request], *limit)), 3)
        self.assertEqual(len(run([request] * 5, *limit, "--batch", "2")), 5)
        self.assertEqual(len(run([request, "no JSON", request], *limit, code=1)), 3)
        with subprocess.Popen([BIN / "prefix", "run", "--model", SHARED["model"], *limit], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            process.stdin.write(lines([request] * 3))
            process.stdin.flush()  # and not closed: it is told before the end of the input
            self.assertEqual(process.wait(timeout=120), 2)
            self.assertEqual(process.stdout.read(), "")
            self.assertIn("line 3: a batch of more than 2 requests, as many as option queue_limit allows; --batch 2",
                          process.stderr.read())

    def test_namespaces_do_not_share(self):
        request = {"tokens": [1, 5, 9, 12], "task": "logits", "ids": [3]}
        results = run([{**request, "namespace": "a"}, {**request, "namespace": "b"}])
        self.assertEqual([r["usage"]["computed"] for r in results], [4, 4])
        self.assertEqual(results[0]["logits"], results[1]["logits"])

    def test_generation_options(self):
        base = {"tokens": [1, 5, 9], "max_tokens": 5, "ignore_eos": True, "temperature": 100, "seed": 7, "logprobs": True}
        a, b, c = run([base, base, {**base, "seed": 8}])
        self.assertEqual(a["tokens"], b["tokens"])
        self.assertNotEqual(a["tokens"], c["tokens"])
        self.assertEqual(len(a["logprobs"]), 5)
        self.assertNotIn("seed", a)
        del base["seed"]
        drawn, other = run([base, base])
        self.assertNotEqual(drawn["seed"], other["seed"])
        again, = run([{**base, "seed": drawn["seed"]}])
        self.assertEqual(again["tokens"], drawn["tokens"])
        base["seed"] = 7
        stopped, = run([{**base, "stop_tokens": [a["tokens"][1]]}])
        self.assertEqual(stopped["finish"], "stop")
        self.assertEqual(stopped["tokens"], a["tokens"][:2])

    def test_bad_lines_fail_alone(self):
        good = {"tokens": [1, 2], "task": "logits", "ids": [1]}
        bad = {
            "json": "{nonsense", "array": "[1]", "twice": '{"id":"x","id":"y","tokens":[1]}', "utf8": '{"id":"\\ud800","tokens":[1]}',
            "deep": "[" * 100 + "]" * 100,
            "field": {"tokens": [1], "temprature": 1}, "both": {"tokens": [1], "text": "a"}, "none": {"task": "embed"},
            "task": {"tokens": [1], "task": "dance"}, "ids": {"tokens": [1], "task": "logits"},
            "type": {"tokens": [1], "max_tokens": "7"}, "range": {"tokens": [1], "temperature": -1},
            "vocabulary": {"tokens": [1, 10**6], "task": "embed"}, "large": {"tokens": [2**40], "task": "embed"},
            "empty": {"tokens": [], "task": "embed"}, "from": {"tokens": [1, 2], "task": "logprobs", "from": 0},
            "choices": {"tokens": [1], "task": "choices", "choices": []}, "flush": {"flush": True, "tokens": [1]},
        }
        alone, = run([good])
        requests = [good]
        for request in bad.values():
            requests += [request, good]
        results = run(requests, code=1)
        self.assertEqual(len(results), len(requests))
        for i, result in enumerate(results):
            if i % 2 == 0:
                self.assertEqual((result["status"], result["logits"]), ("ok", alone["logits"]))
            else:
                name = list(bad)[i // 2]
                self.assertTrue(result["status"].startswith("PREFIX_ERR_"), name)
                self.assertTrue(result["message"], name)
                self.assertEqual(result["id"], str(i + 1), name)

    def test_any_stream_of_json_is_read(self):
        requests = [{"tokens": [1, 5, 9, 12 + i], "task": "logits", "ids": [3, i]} for i in range(4)]
        expected = [r["logits"] for r in run(requests)]
        compact = [json.dumps(r) for r in requests]
        pretty = [json.dumps(r, indent=2) for r in requests]
        for stream, ids in {
            " ".join(compact): ["1", "1.2", "1.3", "1.4"],
            "".join(compact): ["1", "1.2", "1.3", "1.4"],
            "\n".join(pretty): ["1", "14", "27", "40"],
            "\r\n\r\n".join(r.replace("\n", "\r\n") for r in pretty): ["1", "15", "29", "43"],
            json.dumps(requests): ["1", "1.2", "1.3", "1.4"],
            json.dumps(requests, indent=1): ["2", "15", "28", "41"],
            "[]" + json.dumps(requests[:1]) + "[ ]\n[\n\n" + compact[1] + "\n,\n" + compact[2] + "\n]\n" + compact[3]:
                ["1", "4", "6", "8"],
        }.items():
            done = prefix("run", "--model", SHARED["model"], stdin=stream)
            self.assertEqual(done.returncode, 0, stream + done.stdout + done.stderr)
            results = [json.loads(x) for x in done.stdout.splitlines()]
            self.assertEqual([r["id"] for r in results], ids, stream)
            self.assertEqual([r["logits"] for r in results], expected, stream)

    def test_what_is_broken_in_a_stream_fails_alone(self):
        good = '{"tokens":[1,2],"task":"logits","ids":[1]}'
        for stream, failed in {
            '{"tokens":[1,\n' + good: {"1": "not JSON"},  # cut off: the next line is whole
            '{"tokens":[1,2],"task":"embed"\n\n' + good: {"1": "not JSON"},
            '{"id":"a\n' + good: {"1": "not JSON"},
            '{"tokens":\n[1,2]\n,,\n' + good: {"1": "not JSON", "2": "not a JSON object", "3": "not JSON"},
            good + "\n{": {"2": "not JSON"},
            good + " x\n" + good: {"1.2": "not JSON"},
            f"[{good},\n{good}": {"2.2": "the list that begins in line 1 is not closed"},
            f"[{good},\n]": {"2": "the list that begins in line 1 ends with what is no object: \"]\""},
            f"[{good} {good}]": {"1.2": "the list that begins in line 1 has no comma in front of this object"},
            f"[{good},\n{good}\n{good}\n": {"3": "in line 1 has no comma", "3.3": "in line 1 is not closed"},
            f"[{good}, 7]\n{good}": {"1.2": "ends with what is no object: \"7]\""},
            f"]\n{good}": {"1": "not JSON"},
            '{"id":"deep","x":' + "[\n" * 40 + good: None,
        }.items():
            done = prefix("run", "--model", SHARED["model"], stdin=stream)
            self.assertEqual(done.returncode, 1, stream + done.stderr)
            results = [json.loads(x) for x in done.stdout.splitlines()]
            bad = {r["id"]: r["message"] for r in results if r["status"] != "ok"}
            self.assertEqual(sum(r["status"] == "ok" for r in results), stream.count(good), stream)
            if failed is not None:
                self.assertEqual(set(bad), set(failed), stream)
                for name, message in failed.items():
                    self.assertIn(message, bad[name], stream)

    def test_a_request_is_answered_before_the_next_is_written(self):
        done = subprocess.Popen([BIN / "prefix", "run", "--model", SHARED["model"], "--batch", "1"], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)
        with done:
            for name in ("a", "b"):
                done.stdin.write(json.dumps({"id": name, "tokens": [1, 2], "task": "embed"}, indent=2) + "\n")
                done.stdin.flush()
                self.assertEqual(json.loads(done.stdout.readline())["id"], name)
            # A line that was cut off is known by the next one, not by the end of the input.
            done.stdin.write('{"tokens":[1,2],"task":"embed"\n{"id":"c","tokens":[1,2],"task":"embed"}\n')
            done.stdin.flush()
            self.assertIn("not JSON", json.loads(done.stdout.readline())["message"])
            self.assertEqual(json.loads(done.stdout.readline())["id"], "c")
            done.stdin.close()

    def test_help_lists_every_task(self):
        text = prefix("run", "--help").stdout.split("the tasks are", 1)[1].split("docs/recipes.md")[0]
        result, = run([{"tokens": [1], "task": "dance"}], code=1)
        names = result["message"].split("not one of ", 1)[1].split(", ")
        self.assertEqual(set(re.findall(r"[a-z]+", text)) - {"and", "those", "of", "texts", "with", "prompts"}, set(names))
        for name in names:
            result, = run([{"task": name, "no_such_field": 1}], code=1)
            self.assertNotIn("not one of", result["message"])

    def test_every_option_of_requests_is_a_field(self):
        options = json.loads(prefix("info", "--options", "--json").stdout)["options"]
        count = 0
        for option in options:
            if option["scope"] in ("request", "generate", "embedding") and option["key"] != "namespace_id":
                result, = run([{"tokens": [1], option["key"]: {"no": "value"}}], code=1)
                self.assertRegex(result["message"], rf"line 1: {option['key']} = .* is not ", option)
                count += 1
        self.assertGreaterEqual(count, 23)
        base = {"tokens": [1, 5, 9], "task": "embed"}
        mean, first, alone, two = run([{**base, "pooling": "mean"}, {**base, "pooling": "first"}, {**base, "tokens": [1]},
                                       {**base, "pooling": "tokens", "positions": [0, 2], "cache_priority": -1, "cache_ttl_ms": 5}])
        self.assertEqual(first["embedding"], alone["embedding"])
        self.assertNotEqual(mean["embedding"], first["embedding"])
        self.assertEqual(len(two["embedding"]), 2 * len(first["embedding"]))
        self.assertEqual(two["embedding"][:len(first["embedding"])], first["embedding"])
        result, = run([{**base, "pooling": "sum"}], code=1)
        self.assertIn('"sum": it must be one of last|mean|first|tokens', result["message"])

    def test_messages_name_value_and_limit(self):
        result, = run([{"tokens": [1, 10**6], "task": "embed"}], code=1)
        self.assertIn("1000000", result["message"])
        for field in ({"tokens": [10**30]}, {"tokens": [1], "seed": 10**30}, {"tokens": [1], "task": "logprobs", "from": 10**30}):
            result, = run([{"tokens": [1], **field}], code=1)
            self.assertRegex(result["message"], r"= 1e\+30 is outside \[")
        result, = run(['{"tokens": [1], "max_tokens": 1e3}'], code=1)
        self.assertIn("1000.0 is not a whole number, written in digits alone", result["message"])
        result, = run([{"tokens": [1], "max_tokens": 1 << 40}], code=1)
        self.assertIn("[1, 16777216]", result["message"])
        result, = run([{"tokens": [1], "task": "choices", "choices": [[1], [2, 131]]}], code=1)
        self.assertIn("choices[1][1] is 131, outside the vocabulary of 131", result["message"])
        result, = run([{"tokens": [1], "task": "choices", "choices": [[1], []]}], code=1)
        self.assertIn("choices[1] has no tokens", result["message"])
        result, = run([{"tokens": [1], "task": "choices", "choices": [[1], [2] * 5000]}], code=1)
        self.assertIn("the prompt with choices[1] has 5001 tokens; the context holds 4096", result["message"])
        result, = run([{"tokens": [1], "temperature": -3}], code=1)
        self.assertIn("-3", result["message"])
        self.assertIn("1000", result["message"])

    def test_summary(self):
        path = SHARED["folder"] / "summary.json"
        run([{"tokens": [1, 2, 3], "max_tokens": 2, "ignore_eos": True}, {"tokens": [1, 2, 4], "max_tokens": 2, "ignore_eos": True}, "x"],
            "--summary", path, code=1)
        s = json.loads(path.read_text())
        self.assertEqual((s["requests"], s["failed"]), (3, 1))
        self.assertEqual((s["tokens_given"], s["tokens_shared"], s["tokens_generated"]), (6, 2, 4))
        self.assertEqual(s["tokens_given"], s["tokens_computed"] + s["tokens_cached"] + s["tokens_shared"])
        self.assertEqual(set(s["seconds"]), {"load", "run"})
        self.assertEqual(set(s["bytes"]), {"weights", "kv_peak", "activation_peak", "rss_peak"})
        self.assertTrue(all(v > 0 for v in s["bytes"].values()))
        for key in ("steps", "rows", "isa", "threads", "device", "dtype"):
            self.assertTrue(s[key], key)

    @unittest.skipUnless(shutil.which("taskset"), "needs taskset")
    def test_threads_follow_taskset_and_the_option_cpus(self):
        path = SHARED["folder"] / "one.json"
        cpu = str(max(os.sched_getaffinity(0)))
        command = [BIN / "prefix", "run", "--model", SHARED["model"], "--summary", path]
        for one in (["taskset", "-c", cpu, *command], [*command, "--option", f"cpus={cpu}"]):
            path.unlink(missing_ok=True)
            done = subprocess.run(one, input=lines([{"tokens": [1, 2], "task": "logits", "ids": [1]}]), capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(path.read_text())["threads"], 1, one)
        done = prefix("run", "--model", SHARED["model"], "--option", "cpus=65535")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("processor 65535", done.stderr)

    def test_files_and_options(self):
        source, target = SHARED["folder"] / "in.jsonl", SHARED["folder"] / "out.jsonl"
        source.write_text(lines([{"tokens": [1, 2], "task": "logits", "ids": [1]}]))
        self.assertEqual(run([], "--in", source, "--out", target, "--dtype", "f32", "--cache", "16M", "--option", "rows=8"), [])
        self.assertEqual(json.loads(target.read_text())["status"], "ok")

    def test_progress(self):
        request = lines([{"tokens": [1, 2], "task": "logits", "ids": [1]}])
        self.assertEqual(prefix("run", "--model", SHARED["model"], stdin=request).stderr, "")
        self.assertIn("loading", prefix("run", "--model", SHARED["model"], "--progress", "on", stdin=request).stderr)


class Usage(unittest.TestCase):
    def check(self, *args, needles, stdin=""):
        done = prefix(*args, stdin=stdin)
        self.assertEqual(done.returncode, 2, args)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for needle in needles:
            self.assertIn(needle, done.stderr)

    def test_errors_are_one_line_with_value_and_limit(self):
        model = SHARED["model"]
        self.check("run", needles=["--model"])
        self.check("dance", needles=["dance"])
        self.check("run", "--modl", "x", needles=["--modl", "did you mean --model"])
        self.check("run", "--model", needles=["--model", "PATH"])
        self.check("run", "--model", "/nowhere", needles=["/nowhere"])
        self.check("run", "--model", model, "--in", "/nowhere", needles=["/nowhere"])
        self.check("run", "--model", model, "--batch", "-1", needles=["-1", "[0,"])
        self.check("run", "--model", model, "--cache", "4Q", needles=["4Q"])
        for size in ("99999999999G", "99999999999999999999"):
            self.check("run", "--model", model, "--cache", size, needles=[size, "limit", "9223372036854775807"])
        self.check("run", "--model", model, "--cache", "-99999999999999999999", needles=["-99999999999999999999", "not a size"])
        self.check("run", "--model", "", needles=["--model is empty"])
        self.check("run", "--model", model, "--adapter", "a=", needles=['"a="', "NAME=DIR"])
        for command in (["run", "--model", model], ["tree"], ["order"], ["partition", "--parts", "2"], ["kld", "--model", model, "--text"]):
            flag = [] if command[-1] == "--text" else ["--in"]
            self.check(*command, *flag, "/nowhere/x", needles=['"/nowhere/x"', "No such file or directory"])
        self.check("cache-sim", "--trace", "/nowhere/x", needles=['"/nowhere/x"', "No such file or directory"])
        for flag in ("--out", "--summary", "--tree"):
            self.check("run", "--model", model, flag, "/nowhere/x", needles=[flag, '"/nowhere/x"', "No such file or directory"])
        for command in (["tree"], ["order"], ["partition", "--parts", "2"]):
            self.check(*command, "--out", SHARED["folder"], needles=["--out", str(SHARED["folder"]), "Is a directory"])
        self.check("run", "--model", model, "--sharing", "maybe", needles=["maybe", "on|off"])
        self.check("run", "--model", model, "--sharing", "of", needles=["\"of\"", "on|off"])  # a part of one
        self.check("bench", "--model", model, "--pairs", "1001", needles=["1001", "1000]"])
        self.check("run", "--model", model, "--option", "rows=0", needles=["rows", "0", "1"])
        self.check("run", "--model", model, "--option", "rowz=1", needles=["rowz", "rows"])
        self.check("run", "--model", model, "--option", "rows", needles=["KEY=VALUE"])
        self.check("run", "--model", model, "--rows", "1", "--rows", "2", needles=["--rows", "twice"])
        self.check("bench", "--model", model, "--shape", "1,2", needles=["1,2", "3"])
        # Ids of more than memory holds: the system would end the process without a word.
        self.check("bench", "--model", model, "--shape", "1000000,1000,1000", needles=["2000000000 tokens", "67108864"])
        self.check("bench", "--model", model, "--decode", "1000000,1,1,1000", needles=["1002000000 tokens", "67108864"])
        for balance in ("nan", "inf", "1e400", "0.9"):
            self.check("partition", "--parts", "2", "--balance", balance, needles=[f'"{balance}"', "at least 1"])
        trace = SHARED["folder"] / "one.jsonl"
        trace.write_text('{"session_id":1,"turn_id":0,"ts":0,"input_tokens":[1,2],"output_tokens":[3]}\n')
        for flags, needles in ((["--hybrid", "--policy", "marconi=nan"], ["nan", "alpha"]), (["--compat", "marconi"], ["marconi", "--hybrid"]),
                               (["--hybrid", "--compat", "sglang"], ["sglang", "--hybrid"])):
            self.check("cache-sim", "--trace", trace, *flags, needles=needles)
        self.check("info", needles=["MODEL", "--machine", "--options"])

    def test_folders_are_no_files(self):
        for command in (["run", "--model", SHARED["model"]], ["tree"]):
            done = prefix(*command, "--in", SHARED["folder"])
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("folder", done.stderr)

    def test_what_is_read_is_not_overwritten(self):
        path = SHARED["folder"] / "precious.jsonl"
        path.write_text(lines([{"tokens": [1, 2], "task": "logits", "ids": [1]}]))
        before = path.read_text()
        for command in (["run", "--model", SHARED["model"], "--in", path, "--out", path],
                        ["run", "--model", SHARED["model"], "--in", path, "--summary", path],
                        ["run", "--model", SHARED["model"], "--in", path, "--tree", path],
                        ["tree", "--in", path, "--out", path]):
            done = prefix(*command)
            self.assertEqual(done.returncode, 2, command)
            self.assertIn("--in", done.stderr)
            self.assertEqual(path.read_text(), before)
        done = prefix("run", "--model", SHARED["model"], "--in", "/dev/null", "--out", "/dev/null")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_outputs_are_not_written_into_the_model(self):
        config = SHARED["model"] / "config.json"
        before = config.read_bytes()
        for flag in ("--out", "--summary", "--tree"):
            done = prefix("run", "--model", SHARED["model"], flag, config, stdin=lines([{"tokens": [1], "max_tokens": 1}]))
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("in the folder of --model", done.stderr)
            self.assertEqual(config.read_bytes(), before)
        results = SHARED["model"] / "results.jsonl"
        self.addCleanup(lambda: results.unlink(missing_ok=True))
        for _ in range(2):
            run([{"tokens": [1], "max_tokens": 1}], "--out", results)

    def test_standard_streams_are_files_too(self):
        path = SHARED["folder"] / "both.jsonl"
        request = lines([{"tokens": [1, 2], "task": "logits", "ids": [1]}])
        path.write_text(request)
        command = [BIN / "prefix", "run", "--model", SHARED["model"], "--batch", "1"]
        with open(path) as source:
            done = subprocess.run([*command, "--out", path], stdin=source, capture_output=True, text=True)
        self.assertEqual((done.returncode, path.read_text()), (2, request))
        self.assertIn("is the file of --in", done.stderr)
        with open(path, "a") as target:
            done = subprocess.run([*command, "--in", path], stdout=target, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, path.read_text()), (2, request))
        self.assertIn("written into", done.stderr)
        for others in (["order"], ["partition", "--parts", "2"], ["tree"]):
            with open(path) as source:
                done = subprocess.run([BIN / "prefix", *others, "--out", path], stdin=source, capture_output=True, text=True)
            self.assertEqual((done.returncode, path.read_text()), (2, request), others)
            self.assertIn("is the file of --in", done.stderr)
        for others in (["order"], ["partition", "--parts", "2"]):
            results = SHARED["folder"] / "results"
            with open(results, "w") as target:
                done = subprocess.run([BIN / "prefix", *others, "--in", path, "--summary", results], stdout=target,
                                      stderr=subprocess.PIPE, text=True)
            self.assertEqual((done.returncode, results.read_text()), (2, ""), others)
            self.assertIn("is the file of --out", done.stderr)
            done = prefix(*others, "--summary", "-", stdin=request)
            self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 2), others)
        with open(path, "a") as target:  # results and a summary may share it
            done = subprocess.run([*command, "--summary", "-"], input=request, stdout=target, text=True)
        self.assertEqual(done.returncode, 0)

    def test_what_is_there_stays_until_there_is_something_to_write(self):
        kept, new = SHARED["folder"] / "kept", SHARED["folder"] / "new"
        kept.write_text("old\n")
        model = ["--model", SHARED["model"]]
        for command in (["run", "--model", "/nonexistent"], ["run", *model, "--option", "foo=1"], ["order", "--columns", "nope"],
                        ["partition", "--parts", "2"], ["tree", "--from", "/nonexistent"]):
            for path in (kept, new):
                done = prefix(*command, "--out", path, stdin='{"text": 1}\nxx\n')
                self.assertEqual(done.returncode, 2, command)
                self.assertEqual(kept.read_text(), "old\n")
                self.assertFalse(new.exists(), command)
        done = prefix("run", *model, "--out", kept, "--summary", "/nonexistent/x", stdin=lines([{"tokens": [1]}]))
        self.assertEqual((done.returncode, kept.read_text()), (2, "old\n"))
        self.assertIn("--summary", done.stderr)
        run([{"tokens": [1, 2], "task": "logits", "ids": [1]}], "--out", kept)
        self.assertEqual([json.loads(line)["status"] for line in kept.read_text().splitlines()], ["ok"])

    def test_a_link_stays(self):
        link, target = SHARED["folder"] / "link", SHARED["folder"] / "target"
        link.symlink_to(target.name)
        done = prefix("run", "--model", "/nonexistent", "--out", link)
        self.assertEqual((done.returncode, link.is_symlink(), target.exists()), (2, True, False))
        run([{"tokens": [1, 2], "task": "logits", "ids": [1]}], "--out", link)
        self.assertTrue(link.is_symlink())
        self.assertEqual(len(target.read_text().splitlines()), 1)

    def test_one_file_has_one_content(self):
        path = SHARED["folder"] / "both"
        for flags in (["--out", path, "--summary", path], ["--out", path, "--tree", path], ["--summary", path, "--tree", path]):
            done = prefix("run", "--model", SHARED["model"], *flags, stdin=lines([{"tokens": [1]}]))
            self.assertEqual((done.returncode, path.exists()), (2, False), flags)
            self.assertIn(flags[0], done.stderr)
        for command in (["order"], ["partition", "--parts", "2"]):
            done = prefix(*command, "--out", path, "--summary", path, stdin='{"text": "a"}\n')
            self.assertEqual((done.returncode, path.exists()), (2, False), command)

    def test_output_that_is_lost_is_said(self):
        model = SHARED["model"]
        for command in (["info", model], ["info", "--options"], ["--help"], ["--version"], ["run", "--help"],
                        ["bench", "--model", model, "--shape", "2,8,8", "--pairs", "1"], ["tree"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([BIN / "prefix", *command], input="", stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 2, command)
            self.assertIn("standard output", done.stderr)

    def test_an_option_has_one_value(self):
        model = SHARED["model"]
        for flags in (["--option", "dtype=bf16", "--dtype", "f32"], ["--option", "rows=9", "--option", "rows=8"],
                      ["--cache", "off", "--option", "cache=true"]):
            self.assertIn("twice", prefix("run", "--model", model, *flags).stderr, flags)
        self.assertEqual(prefix("run", "--model", model, "--dtype", "f32", "--option", "dtype=f32").returncode, 0)
        shape = ["bench", "--model", model, "--shape", "2,8,8", "--pairs", "1"]
        self.assertIn("sharing", prefix(*shape, "--option", "sharing=false").stderr)
        self.assertEqual(prefix(*shape, "--cache", "64K").returncode, 0)

    def test_what_is_repeated_cannot_move_a_cursor(self):
        escape = "\x1b[2J\x7f\u009b" + 5000 * "x"
        requests = lines([{"tokens": [1], escape: 1}, {"tokens": [1], "task": escape}, {"tokens": escape}, escape])
        for command in ([escape], ["run", "--" + escape], ["run", escape], ["run", "--model", escape[:100]], ["info", escape[:100]],
                        ["run", "--model", SHARED["model"], "--option", escape], ["run", "--model", SHARED["model"], "--isa", escape],
                        ["run", "--model", SHARED["model"], "--in", escape[:100]], ["bench", "--model", "x", "--shape", escape], ["tree"]):
            done = prefix(*command, stdin=requests)
            self.assertNotEqual(done.returncode, 0, command)
            self.assertFalse(set("\x1b\x7f\u009b") & set(done.stderr), repr(done.stderr[:300]))
            self.assertLess(len(done.stderr), 2500)

    def test_lines_are_named_in_words_of_the_program(self):
        for line, needle in (('{"tokens": [1], "seed": 1e999}', "number"), ('\ufeff{"tokens": [1]}', "byte order mark")):
            done = prefix("tree", stdin=line + "\n")
            self.assertEqual(done.returncode, 1)
            self.assertIn(needle, done.stderr)
            self.assertNotIn("json.exception", done.stderr)

    def test_an_option_without_effect_is_told(self):
        done = prefix("run", "--model", SHARED["model"], "--option", "cache_disk=/dev/null/folder",
                      stdin=lines([{"tokens": [1, 2], "task": "logits", "ids": [1]}]))
        self.assertEqual(done.returncode, 0, done.stderr)
        for needle in ("warning", "cache_disk", "/dev/null/folder", "Not a directory"):
            self.assertIn(needle, done.stderr)

    def test_a_seed_of_its_own_is_told(self):
        request = {"tokens": [1, 5], "max_tokens": 2, "temperature": 1}
        none, minus, given = run([request, {**request, "seed": -1}, {**request, "seed": 7}])
        self.assertEqual(["seed" in r for r in (none, minus, given)], [True, True, False])

    def test_what_fails_later_is_told(self):
        folder = SHARED["folder"] / "broken cache"
        folder.mkdir(mode=0o700)
        (folder / "tmp").write_text("not a folder")
        done = prefix("run", "--model", SHARED["model"], "--option", f"cache_disk={folder}",
                      stdin=lines([{"tokens": tokens(100, 1), "task": "logits", "ids": [1]}]))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("prefix run: warning: cache folder", done.stderr)

    def test_fields_of_another_task_are_refused(self):
        request = {"tokens": [1, 5, 9], "max_tokens": 1}
        for field, value, owner in (("ids", [3], "logits"), ("from", 1, "logprobs"), ("choices", [[1]], "choices")):
            result, = run([{**request, field: value}], code=1)
            self.assertIn(f"field {field} is of task {owner}; a request for generate does not take it", result["message"])
        for field, value, owner in (("stop", "x", "generate"), ("continuation", "x", "logprobs")):
            result, = run([{"tokens": [1, 5], "task": "embed", field: value}], code=1)
            self.assertIn(f"field {field} is of task {owner}; a request for embed does not take it", result["message"])

    def test_help_has_an_example_that_works(self):
        self.assertEqual(prefix("--help").returncode, 0)
        commands = re.findall(r"^  ([a-z-]+) ", prefix("--help").stdout, re.M)
        self.assertGreaterEqual(len(commands), 9)
        for command in commands:
            done = prefix(command, "--help")
            self.assertEqual(done.returncode, 0)
            example = done.stdout.split("example, in the build folder:\n")[1]
            example = example.replace("/tmp/tiny", str(SHARED["folder"] / "example"))
            model = re.search(r"models/\S+", example)
            # What a real model reads is a text, so that both are needed.
            missing = [path for path in (BIN.parent / model[0], TEXT_LIBRARY) if not path.exists()] if model else []
            if missing:
                with self.subTest(command):
                    self.skipTest(f"{missing[0]} is not there")
                continue
            shown = subprocess.run(["sh", "-ec", example], cwd=BIN.parent, capture_output=True, text=True, timeout=300)
            self.assertEqual(shown.returncode, 0, f"{command}: {shown.stderr}")
            self.assertTrue(shown.stdout, command)

    def test_version(self):
        self.assertRegex(prefix("--version").stdout, r"^prefix \d+\.\d+\.\d+\n$")


class Info(unittest.TestCase):
    def test_model(self):
        done = prefix("info", SHARED["model"], "--context", "4097")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("4096 positions", done.stderr)
        done = prefix("info", SHARED["model"], "--json", "--context", "100", "--batch", "3")
        model = json.loads(done.stdout)["model"]
        self.assertEqual(model["sizes"]["layers"], 2)
        self.assertEqual(model["parameters"], sum(g["parameters"] for g in model["tensors"]))
        self.assertEqual(model["needed"]["kv"], 300 * model["kv_bytes_per_token"])
        self.assertGreater(model["flops_per_token"], 0)
        self.assertEqual(model["needed"]["states"], 0)
        shown = prefix("info", SHARED["model"]).stdout
        self.assertIn("architecture", shown)
        self.assertIn("for 1 sequences of 4,096 tokens", shown)
        self.assertNotIn("state", shown)

    def test_model_with_recurrent_layers(self):
        path = ROOT / "build" / "golden-models" / "granite-h-base"
        model = json.loads(prefix("info", path, "--json").stdout)["model"]
        self.assertEqual(model["sizes"]["recurrent_layers"], 3)
        # Three layers; three columns of 224 channels, and 6 heads of 32 x 16, in f32.
        self.assertEqual(model["state_bytes"], 3 * 4 * (3 * 224 + 6 * 32 * 16))
        needed = model["needed"]
        self.assertEqual(needed["context"], 256)  # all there are
        # What one takes of the cache is what a cache without room for it says.
        small = prefix("run", "--model", path, "--option", "cache_bytes=1").stderr
        state, page = map(int, re.search(r"recurrent layers takes (\d+) and a page of 32 tokens (\d+)", small).groups())
        self.assertGreater(state, model["state_bytes"])
        self.assertEqual((needed["kv"], needed["states"]), (256 // 32 * page, 2 * state))
        four = json.loads(prefix("info", path, "--json", "--batch", "4").stdout)["model"]
        self.assertEqual(four["needed"]["states"], 5 * state)
        self.assertEqual(four["needed"]["total"], sum(four["bytes"][key] for key in ("weights", "activations")) +
                         4 * needed["kv"] + 5 * state)
        shown = prefix("info", path).stdout
        self.assertIn("a state of the recurrent layers", shown)
        self.assertRegex(shown, "for 1 sequences of 256 tokens .*, states ")

    def test_machine(self):
        machine = json.loads(prefix("info", "--machine", "--json").stdout)["machine"]
        self.assertEqual([d["kind"] for d in machine["devices"] if d["chosen"]], ["cpu"])
        self.assertEqual(sum(d["kind"] == "cpu" for d in machine["devices"]), 1)
        self.assertIn(machine["devices"][0]["level"], machine["features"])
        self.assertTrue(all(d["available"] or d["reason"] for d in machine["devices"]))
        gpus = [d for d in machine["devices"] if d["kind"] == "cuda"]
        if any(d["available"] for d in gpus):
            self.assertEqual(machine["gpu"], "available")
        elif gpus:
            self.assertEqual(machine["gpu"], f"none: {gpus[0]['reason']}")
        else:
            why = prefix("run", "--model", SHARED["model"], "--device", "cuda").stderr
            self.assertEqual(f"prefix run: {machine['gpu'].removeprefix('none: ')} (PREFIX_ERR_UNSUPPORTED_DEVICE)\n", why)
        cpu = machine["devices"][0]
        self.assertRegex(prefix("info", "--machine").stdout, rf"(?m)^cpu: .*{cpu['level']}, {cpu['threads']} threads, ")


    def test_options(self):
        options = json.loads(prefix("info", "--options", "--json").stdout)["options"]
        by_key = {option["key"]: option for option in options}
        self.assertEqual(len(by_key), len(options))
        self.assertEqual(by_key["max_tokens"]["scope"], "generate")
        self.assertEqual(by_key["dtype"]["values"], "bf16|f32")
        self.assertEqual(by_key["temperature"]["range"], [0, 1000])
        said = prefix("info", "--options").stdout
        for option in options:
            self.assertRegex(said, rf"(?m)^  {option['key']} ")
            self.assertIn(option["doc"], said)
        self.assertLess(said.index("of engines:"), said.index("of requests of every kind:"))


class Bench(unittest.TestCase):
    def test_json_lines(self):
        done = prefix("bench", "--model", SHARED["model"], "--shape", "4,32,8", "--decode", "3,32,4,5", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        scored, decoded = map(json.loads, done.stdout.splitlines())
        self.assertEqual(scored["shared"]["rows"], 32 + 4 * 8)
        self.assertEqual(scored["unshared"]["rows"], 4 * 40)
        self.assertEqual(decoded["generated_tokens"], 5)
        for shape in (scored, decoded):
            self.assertEqual(len(shape["shared"]["samples"]), 3)
            self.assertGreater(shape["ratio"], 0)
            self.assertGreater(shape["unshared"]["kv_peak_bytes"], 0)

    def test_operations_are_those_of_info(self):
        for name in ("granite-h-base", "mixtral-base"):
            path = ROOT / "build" / "golden-models" / name
            model = json.loads(prefix("info", path, "--json").stdout)["model"]
            layers = sum(group["parameters"] * (model["sizes"]["experts_per_token"] / model["sizes"]["experts"]
                                                if group["group"] == "experts" else 1)
                         for group in model["tensors"] if group["group"] not in ("embedding", "norm", "output", "unused"))
            done = prefix("bench", "--model", path, "--shape", "2,64,8", "--pairs", "1", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            side = json.loads(done.stdout)["shared"]
            operations = side["gemm_gflops_per_second"] * 1e9 * side["gemm_seconds"]
            self.assertAlmostEqual(operations / side["rows"] / (2 * layers), 1, places=6, msg=name)


class Pack(unittest.TestCase):
    """Results of a packed model are those of compute=int8 with the model itself, and a model is whole or not there."""

    REQUESTS = [{"tokens": tokens(20, seed), "task": "logits", "ids": [3, 4, 5]} for seed in range(3)]

    def setUp(self):
        self.out = SHARED["folder"] / f"packed-{self.id().rpartition('.')[2]}"

    def test_results_are_the_same(self):
        done = prefix("pack", "--model", SHARED["model"], "--out", self.out, "--keep", "")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["out"], str(self.out))
        self.assertGreater(report["bytes"], 0)
        flags = ("--option", "compute=int8", "--option", "compute_keep=")
        results = run(self.REQUESTS, *flags)
        packed = prefix("run", "--model", self.out, *flags, stdin=lines(self.REQUESTS))
        self.assertEqual(packed.returncode, 0, packed.stderr)
        self.assertEqual([json.loads(line)["logits"] for line in packed.stdout.splitlines()],
                         [result["logits"] for result in results])
        info = prefix("info", self.out, "--json", "--option", "compute=int8", "--option", "compute_keep=")
        self.assertEqual(info.returncode, 0, info.stderr)
        for group in json.loads(info.stdout)["model"]["tensors"]:
            self.assertEqual(group["dtype"] == "int8", group["group"] != "norm", group)
            self.assertGreaterEqual(group["bytes"], group["parameters"])

    def test_what_cannot_be_is_said(self):
        self.assertEqual(prefix("pack", "--model", SHARED["model"], "--out", self.out).returncode, 0)
        before = sorted(path.name for path in SHARED["folder"].iterdir())
        again = prefix("pack", "--model", SHARED["model"], "--out", self.out)
        twice = prefix("pack", "--model", self.out, "--out", f"{self.out}-2")
        plain = prefix("run", "--model", self.out, stdin=lines(self.REQUESTS))
        nothing = prefix("pack", "--model", SHARED["model"])
        for done, text in ((again, "not overwritten"), (twice, "already"), (plain, "compute=int8"), (nothing, "--out")):
            self.assertEqual(done.returncode, 2)
            self.assertIn(text, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertEqual(sorted(path.name for path in SHARED["folder"].iterdir()), before)

    def test_a_killed_process_leaves_nothing_under_the_name(self):
        command = [BIN / "prefix", "pack", "--model", SHARED["model"], "--out", self.out]
        for milliseconds in (0, 2, 5, 10, 20, 40, 80):
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
                time.sleep(milliseconds / 1000)
                process.kill()
            if not self.out.exists():
                continue
            done = prefix("run", "--model", self.out, "--option", "compute=int8", stdin=lines(self.REQUESTS))
            self.assertEqual(done.returncode, 0, done.stderr)
            shutil.rmtree(self.out)


if __name__ == "__main__":
    sys.exit(main())
