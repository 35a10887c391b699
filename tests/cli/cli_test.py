#!/usr/bin/env python3
"""Tests of `prefix run`, from outside: cli_test.py [--bin DIR] [unittest arguments].

Runs the program on a tiny random checkpoint. The last line is "N passed, N failed, N skipped".
"""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import unittest

from outside import BIN, SHARED, lines, main, prefix, run, tokens


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
            self.assertEqual(u["missed"], {"first_seen": u["computed"]})
            self.assertNotIn("draft_tokens", u)

    def test_usage_says_why_tokens_were_computed_and_what_was_guessed(self):
        def asked(**more):
            return {"tokens": [1, 5, 9, 12], "max_tokens": 8, "ignore_eos": True, **more}
        flush = {"flush": True}
        scored = {"tokens": [1, 5, 9, 12], "task": "logprobs", "namespace": "of nobody else"}
        lines = run([asked(), flush, asked(draft_tokens=8), flush, scored, flush, scored])
        first, again, elsewhere, known = (line["usage"] for line in lines)
        self.assertEqual(first["missed"], {"first_seen": 4})
        self.assertEqual((again["computed"], again["missed"]), (1, {"granularity": 1}))
        self.assertGreater(again["draft_tokens"], 0)
        self.assertEqual(again["draft_tokens_accepted"], again["draft_tokens"], "the answer is in the cache")
        self.assertEqual(elsewhere["missed"], {"namespace": 4})
        self.assertEqual(known["computed"], 0, "log-probabilities stay in the cache")
        self.assertNotIn("missed", known)

    def test_id_defaults_to_the_line_number(self):
        request = json.dumps({"tokens": [1, 2], "task": "logits", "ids": [1]})
        done = prefix("run", "--model", SHARED["model"], stdin=f"{request}\n\n{request}\n")
        self.assertEqual([json.loads(x)["id"] for x in done.stdout.splitlines()], ["1", "3"])

    def test_a_number_as_id_stays_a_number(self):
        ids = [7, "7", -1, 2**63, 0]
        self.assertEqual([r["id"] for r in run([{"id": i, "tokens": [1], "task": "embed"} for i in ids])], ids)
        for wrong in (1.5, 2.0, 1e30, None, True, [1]):
            result, = run([{"id": wrong, "tokens": [1], "task": "embed"}], code=1)
            self.assertEqual(result["id"], "1")
            self.assertIn("is neither a string nor a whole number in digits alone", result["message"])

    def test_whole_numbers_may_have_a_point_or_an_exponent(self):
        plain = {"tokens": [1, 5, 9], "max_tokens": 3, "seed": 12, "temperature": 1, "ignore_eos": True}
        same = '{"tokens": [1.0, 0.5e1, 9], "max_tokens": 3.0, "seed": 1.2e1, "temperature": 1e0, "ignore_eos": true}'
        first, second = run([plain, same])
        self.assertEqual(first["tokens"], second["tokens"])
        self.assertEqual(len(first["tokens"]), 3)
        results = run(['{"tokens": [1, 2, 3], "task": "logprobs", "from": 2e0}', {"tokens": [1, 2, 3], "task": "logprobs", "from": 2}])
        self.assertEqual(results[0]["logprobs"], results[1]["logprobs"])

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

    def test_options_that_change_what_is_likely(self):
        base = {"tokens": [1, 5, 9], "max_tokens": 60, "ignore_eos": True}
        plain, frequency, presence, bias, allowed, late, none = run([
            base, {**base, "frequency_penalty": 2}, {**base, "presence_penalty": 2.0}, {**base, "logit_bias": {"77": 100, "5": -0.5}},
            {**base, "allowed_tokens": [77, 5]}, {**base, "logit_bias": {"77": 100}, "stop_tokens": [77], "min_tokens": 3},
            {**base, "logit_bias": {}, "allowed_tokens": [], "min_tokens": 0}])
        most = lambda result: max(map(result["tokens"].count, result["tokens"]))
        self.assertLess(most(frequency), most(plain))
        self.assertNotEqual(presence["tokens"], frequency["tokens"])
        self.assertIn(77, bias["tokens"])
        self.assertLessEqual(set(allowed["tokens"]), {77, 5})
        self.assertEqual((late["tokens"].index(77), late["finish"]), (3, "stop"))
        self.assertEqual(none["tokens"], plain["tokens"])

    def test_the_likeliest_tokens(self):
        generated, scored, drawn, other = run([
            {"tokens": [1, 5, 9], "max_tokens": 2, "top_logprobs": 3, "logprobs": True},
            {"tokens": [1, 5, 9, 12], "task": "logprobs", "from": 2, "top_logprobs": 131},
            {"tokens": [1, 5, 9], "max_tokens": 2, "top_logprobs": 3, "temperature": 100, "seed": 3, "frequency_penalty": 1},
            {"tokens": [1, 5, 9], "max_tokens": 2}])
        self.assertEqual([len(place) for place in generated["top_logprobs"]], [3, 3])
        for token, logprob, place in zip(generated["tokens"], generated["logprobs"], generated["top_logprobs"]):
            self.assertEqual(place[0], {"token": token, "logprob": logprob})
            self.assertEqual(sorted(place, key=lambda one: -one["logprob"]), place)
        for token, logprob, place in zip([9, 12], scored["logprobs"], scored["top_logprobs"]):
            self.assertEqual({one["token"]: one["logprob"] for one in place}[token], logprob)
            self.assertEqual(len(place), 131)
        self.assertEqual(drawn["top_logprobs"][0], generated["top_logprobs"][0])
        self.assertNotIn("top_logprobs", other)

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
            good + " x\n" + good: {"1.2": "not JSON at byte 0 of the value"},
            f'{good}  {{"id": nul}}': {"1.2": "not JSON at byte 10 of the value"},
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
        result, = run(['{"tokens": [1], "max_tokens": 2.5}'], code=1)
        self.assertIn("max_tokens = 2.5 is not a whole number", result["message"])
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


if __name__ == "__main__":
    sys.exit(main())
