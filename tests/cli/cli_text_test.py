#!/usr/bin/env python3
"""Tests of what the prefix command does with texts, from outside: cli_text_test.py [--bin DIR] [unittest arguments]."""

import json
import math
import shutil
import struct
import sys
import unittest

from outside import BIN, SHARED, TEXT_LIBRARY, lines, main, prefix, run


class WithoutText(unittest.TestCase):
    """A copy of the program with no text library beside it."""

    def test_text_fails_alone_and_tokens_work(self):
        folder = SHARED["folder"] / "without"
        (folder / "bin").mkdir(parents=True)
        (folder / "lib").mkdir()
        shutil.copy(BIN / "prefix", folder / "bin" / "prefix")
        for library in (BIN.parent / "lib").glob("libprefix.so*"):
            shutil.copy(library, folder / "lib" / library.name)
        requests = [{"text": "hello"}, {"messages": [{"role": "user", "content": "hi"}]}, {"tokens": [1, 2], "stop": "x"},
                    {"tokens": [1, 2], "max_tokens": 1}]
        done = prefix("run", "--model", SHARED["model"], stdin=lines(requests), binary=folder / "bin" / "prefix")
        self.assertEqual(done.returncode, 1, done.stderr)
        results = [json.loads(line) for line in done.stdout.splitlines()]
        for result in results[:3]:
            self.assertIn("libprefix_text.so.1", result["message"])
        self.assertEqual(results[3]["status"], "ok")
        self.assertNotIn("text", results[3])


class WithText(unittest.TestCase):
    """The tiny model with a tokenizer: token i (from 2 on) is the word "w<i>", ids 0 and 1 are special."""

    def setUp(self):
        if not TEXT_LIBRARY.exists():
            self.skipTest("libprefix_text.so.1 is not built")
        self.model = SHARED["folder"] / "worded"
        if not self.model.exists():
            self.write_model(self.model, 131)

    def write_model(self, model, words, mark="", **parts):
        shutil.copytree(SHARED["model"], model)
        vocabulary = {"<unk>": 0, "<end>": 1, **{f"{mark}w{i}": i for i in range(2, words)}}
        special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        (model / "tokenizer.json").write_text(json.dumps({
            "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None, "decoder": None,
            "added_tokens": [{"id": i, "content": name, **special} for name, i in list(vocabulary.items())[:2]],
            "pre_tokenizer": {"type": "WhitespaceSplit"}, "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
            **parts,
        }))
        (model / "tokenizer_config.json").write_text(json.dumps({
            "eos_token": "<end>", "chat_template": "{% for m in messages %}w9 {{ m.content }} {% endfor %}w10",
        }))

    def run_text(self, requests, code=0):
        done = prefix("run", "--model", self.model, stdin=lines(requests))
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def pair(self, text_request, token_request, key):
        a, b = self.run_text([text_request, token_request])
        self.assertEqual((a["status"], b["status"]), ("ok", "ok"), a)
        self.assertEqual(a[key], b[key])

    def kld(self, *arguments, text="w5 w6 w7 w9 w12 w40 w41 w5 w6 w8 " * 8):
        return prefix("kld", "--model", self.model, "--text", "-", "--json", *arguments, stdin=text)

    def test_kld_of_settings(self):
        same = json.loads(self.kld().stdout)
        self.assertEqual((same["positions"], same["kld_mean"], same["kld_max"], same["same_top"]), (79, 0, 0, 1))
        self.assertEqual(same["perplexity_base"], same["perplexity_test"])
        self.assertEqual(json.loads(self.kld("--context", "10").stdout)["positions"], 72)
        self.assertEqual(json.loads(self.kld("--tokens", "12").stdout)["positions"], 11)
        int8 = json.loads(self.kld("--base", "dtype=f32", "--test", "dtype=f32", "--test", "compute=int8").stdout)
        self.assertLess(int8["kld_median"], int8["kld_mean"] * 3)
        self.assertLess(0, int8["kld_mean"])
        self.assertLess(int8["kld_mean"], 0.05)
        self.assertLess(int8["kld_mean"], int8["kld_max"])

    def test_kld_tells_what_has_no_effect(self):
        for side in ("--base", "--test"):
            said = self.kld(side, "cache_disk_bytes=1M").stderr
            self.assertEqual(said.count("prefix kld: warning: option cache_disk_bytes has no effect"), 1, said)

    def test_kld_against_the_definition(self):
        # The base's and the other's probabilities of all ids after "w5 w6", from two runs.
        request = [{"tokens": [5, 6], "task": "logits", "ids": list(range(131))}]
        sides = []
        for setting in ("bf16", "f32"):
            done = prefix("run", "--model", self.model, "--dtype", setting, stdin=lines(request))
            logits = json.loads(done.stdout)["logits"]
            total = math.log(sum(map(math.exp, logits)))
            sides.append([x - total for x in logits])
        want = sum(math.exp(a) * (a - b) for a, b in zip(*sides))
        got = json.loads(self.kld("--test", "dtype=f32", text="w5 w6 w7").stdout)
        self.assertEqual(got["positions"], 2)
        lone = json.loads(self.kld("--test", "dtype=f32", text="w5 w6").stdout)
        self.assertAlmostEqual(got["kld_mean"] * 2 - lone["kld_mean"], want, delta=1e-9)
        losses = [math.log(r["perplexity_base"]) * r["positions"] for r in (got, lone)]
        self.assertAlmostEqual(losses[0] - losses[1], -sides[0][7], places=5)

    def test_kld_says_what_is_wrong(self):
        for arguments, text, needles in (
                (("--test", "compute"), "w5 w6", ("--test", "KEY=VALUE")),
                ((), "w5", ("1 tokens", "at least 2")),
                (("--test", "compute_keep=tail", "--test", "compute=int8"), "w5 w6", ("compute_keep", "tail", "mixer_in")),
                (("--context", "1"), "w5 w6", ("--context", "1", "2"))):
            done = self.kld(*arguments, text=text)
            self.assertEqual(done.returncode, 2, done.stdout)
            for needle in needles:
                self.assertIn(needle, done.stderr)

    def test_text_is_its_tokens(self):
        self.pair({"text": "w5 w6 w7", "task": "embed"}, {"tokens": [5, 6, 7], "task": "embed"}, "embedding")
        self.pair({"messages": [{"role": "user", "content": "w5"}], "task": "embed"}, {"tokens": [9, 5, 10], "task": "embed"}, "embedding")
        self.pair({"text": "w5 w6", "task": "logprobs", "continuation": "w7 w8"}, {"tokens": [5, 6, 7, 8], "task": "logprobs", "from": 2}, "logprobs")
        self.pair({"text": "w5", "task": "choices", "choices": ["w7 w8", [9]]}, {"tokens": [5], "task": "choices", "choices": [[7, 8], [9]]},
                  "token_logprobs")

    def test_what_follows_a_prompt_has_no_space_put_in_front(self):
        self.model = SHARED["folder"] / "marked"
        mark = "\u2581"
        self.write_model(self.model, 131, mark, normalizer={"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": mark}, {"type": "Replace", "pattern": {"String": " "}, "content": mark}]},
            pre_tokenizer={"type": "Split", "pattern": {"String": mark}, "behavior": "MergedWithNext", "invert": False})
        self.pair({"text": "w5 w6", "task": "logprobs", "continuation": " w7 w8"}, {"tokens": [5, 6, 7, 8], "task": "logprobs", "from": 2}, "logprobs")
        self.pair({"text": "w5", "task": "choices", "choices": [" w7 w8", [9]]}, {"tokens": [5], "task": "choices", "choices": [[7, 8], [9]]},
                  "token_logprobs")

    def test_generated_text_and_stop_strings(self):
        request = {"tokens": [5, 6, 7], "max_tokens": 8, "temperature": 300, "seed": 5, "ignore_eos": True, "logprobs": True}
        whole, = self.run_text([request])
        words = [f"w{t}" for t in whole["tokens"] if t > 1]
        self.assertEqual(whole["text"].split(), words)
        top, = self.run_text([{**request, "top_logprobs": 131}])
        self.assertEqual(top["tokens"], whole["tokens"])
        self.assertTrue(all(one["text"].strip() == f"w{one['token']}" for one in top["top_logprobs"][0] if one["token"] > 1))
        stop = f"w{whole['tokens'][3]}"
        first = whole["tokens"].index(whole["tokens"][3])
        for _ in range(5):  # never depends on when the engine sees the cancellation
            cut, = self.run_text([{**request, "max_tokens": 2000, "stop": ["never", stop], "top_logprobs": 131}])
            self.assertEqual(cut["status"], "ok", cut)
            self.assertEqual(cut["finish"], "stop")
            self.assertLessEqual(len(cut["tokens"]), first + 1)
            self.assertEqual(cut["tokens"], whole["tokens"][:len(cut["tokens"])])
            self.assertEqual(cut["logprobs"], whole["logprobs"][:len(cut["tokens"])])
            self.assertEqual(cut["top_logprobs"], top["top_logprobs"][:len(cut["tokens"])])
            self.assertEqual(cut["usage"]["generated"], len(cut["tokens"]))
            self.assertTrue(whole["text"].startswith(cut["text"]))
            self.assertNotIn(stop, cut["text"])

    def test_an_end_token_behind_those_of_the_model_ends_nothing(self):
        self.model = SHARED["folder"] / "more ends"
        self.write_model(self.model, 131)
        path = self.model / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        tokenizer["added_tokens"].append({**tokenizer["added_tokens"][1], "id": 131, "content": "<|im_end|>"})
        path.write_text(json.dumps(tokenizer))
        result, = self.run_text([{"text": "w5 w6", "max_tokens": 2}])
        self.assertEqual(result["status"], "ok", result)

    def test_a_token_without_text_fails_alone(self):
        self.model = SHARED["folder"] / "few words"
        self.write_model(self.model, 100)
        many = {"tokens": [5, 6, 7], "max_tokens": 40, "temperature": 300, "seed": 5, "ignore_eos": True}
        results = self.run_text([many, {**many, "stop": "never"}, {"tokens": [5], "task": "logits", "ids": [1]}], code=1)
        self.assertEqual([r["status"] for r in results], ["PREFIX_ERR_OUT_OF_RANGE", "PREFIX_ERR_OUT_OF_RANGE", "ok"])
        for result in results[:2]:
            self.assertIn("token", result["message"])

    def test_bad_texts_fail_alone(self):
        bad, good = self.run_text([{"messages": ["hi"]}, {"text": "w5", "max_tokens": 1}], code=1)
        self.assertNotEqual(bad["status"], "ok")
        self.assertEqual(good["status"], "ok")
        empty, continuation = self.run_text([{"text": ""}, {"text": "w5", "task": "logprobs", "continuation": ""}], code=1)
        self.assertIn("0 tokens", continuation["message"])
        self.assertNotEqual(empty["status"], "ok")

    def test_tasks_of_texts(self):
        documents = ["w5 w6 w7", "w8 w9", "w5 w6 w7"]
        one, all_pairs, answers, labels = self.run_text([
            {"task": "rerank", "query": "w11 w12", "documents": documents},
            {"task": "rerank", "queries": ["w11 w12", "w12"], "documents": documents, "top_n": 2},
            {"task": "answer", "recipe": "extractive-qa", "context": "w5 w6", "questions": ["w7", "w8"], "max_tokens": 3},
            {"task": "classify", "texts": ["w5", "w6"], "labels": ["w7", "w8 w9"]},
        ])
        self.assertEqual(one["scores"][0], one["scores"][2])
        self.assertEqual(one["order"].index(0) + 1, one["order"].index(2))  # equal scores: the first comes first
        self.assertEqual(all_pairs["scores"][0], one["scores"])
        self.assertEqual([len(o) for o in all_pairs["order"]], [2, 2])
        self.assertEqual(len(answers["answers"]), 2)
        self.assertGreater(answers["usage"]["shared"], 0)
        for row, order in zip(labels["scores"], labels["order"]):
            self.assertAlmostEqual(sum(row), 1, places=5)
            self.assertEqual(order, sorted(range(2), key=lambda label: -row[label]))
        for row, order in zip(all_pairs["scores"], all_pairs["order"]):
            self.assertEqual(order, sorted(range(3), key=lambda document: -row[document])[:2])
        self.assertNotEqual(*all_pairs["order"])

    def test_tokens_of_texts_have_log_probs(self):
        options = {"max_tokens": 6, "ignore_eos": True}
        talk = [{"role": "user", "content": "w5"}]
        alone, prompts, top, chat, several, text, none = self.run_text([
            {"text": "w5 w6", **options, "logprobs": True, "top_logprobs": 2},
            {"task": "generate", "prompts": ["w5 w6", "w7"], **options, "logprobs": True},
            {"task": "generate", "prompts": ["w5 w6"], **options, "top_logprobs": 2},
            {"task": "chat", "messages": talk, **options, "top_logprobs": 1},
            {"task": "chat", "messages": talk, **options, "top_logprobs": 1, "samples": 2},
            {"task": "generate", "prompts": ["w5 w6"], **options, "logprobs": "on", "top_logprobs": "2"},
            {"task": "generate", "prompts": ["w5 w6"], **options, "logprobs": False, "top_logprobs": 0},
        ])
        self.assertEqual(prompts["tokens"][0], alone["tokens"])
        self.assertEqual(prompts["logprobs"][0], alone["logprobs"])
        self.assertEqual([len(tokens) for tokens in prompts["tokens"]], [6, 6])
        self.assertNotIn("top_logprobs", prompts)
        self.assertEqual(top["logprobs"], [alone["logprobs"]])
        self.assertEqual(top["top_logprobs"], [alone["top_logprobs"]])
        self.assertEqual([len(place) for place in chat["top_logprobs"]], [1] * 6)
        self.assertEqual([place[0]["logprob"] for place in chat["top_logprobs"]], chat["logprobs"])
        self.assertEqual(several["tokens"], [chat["tokens"]] * 2)
        self.assertEqual(several["top_logprobs"], [chat["top_logprobs"]] * 2)
        self.assertEqual({**text, "id": 0, "usage": 0}, {**top, "id": 0, "usage": 0})
        self.assertFalse({"tokens", "logprobs", "top_logprobs"} & set(none))

    def test_several_texts_of_each_item(self):
        options = {"max_tokens": 6, "temperature": 300, "ignore_eos": True}
        several = {**options, "seed": 5, "samples": 3}
        talk = [{"role": "user", "content": "w5"}]
        prompts, chat, chats, answers, drawn, none, bad, *alone = self.run_text([
            {"task": "generate", "prompts": ["w5 w6", "w7"], **several},
            {"task": "chat", "messages": talk, **several},
            {"task": "chat", "conversations": [talk, talk], **several},
            {"task": "answer", "recipe": "extractive-qa", "context": "w5 w6", "questions": ["w7", "w8"], **several},
            {"task": "generate", "prompts": ["w7"], **options, "temperature": "300", "samples": 4},
            {"task": "generate", "prompts": [], **several},
            {"task": "classify", "texts": ["w5"], "labels": ["w7"], "samples": 2},
        ] + [{"task": "generate", "prompts": ["w5 w6", "w7"], **options, "seed": 5 + k} for k in range(3)], code=1)
        self.assertEqual(prompts["texts"], [[one["texts"][prompt] for one in alone] for prompt in range(2)])
        self.assertEqual(prompts["finish"], [["length"] * 3] * 2)
        self.assertNotIn("seed", prompts)
        self.assertEqual(len(set(chat["texts"])), 3)
        self.assertEqual(chat["finish"], ["length"] * 3)
        self.assertEqual(chats["texts"], [chat["texts"]] * 2)
        self.assertEqual([len(texts) for texts in answers["answers"]], [3, 3])
        self.assertEqual([len(set(seeds)) for seeds in drawn["seed"]], [4])
        self.assertEqual((none["texts"], none["finish"]), ([], []))
        self.assertIn("samples is for answer, generate, chat", bad["message"])

    def headed(self):
        """The model with a classification head of three labels."""
        folder = SHARED["folder"] / "headed"
        if not folder.exists():
            shutil.copytree(self.model, folder)
            config = json.loads((folder / "config.json").read_text())
            config["id2label"] = {"0": "one", "1": "two", "2": "three"}
            (folder / "config.json").write_text(json.dumps(config))
            head = struct.pack(f"<{3 * config['hidden_size']}f", *((i * 7 % 13 - 6) / 8 for i in range(3 * config["hidden_size"])))
            header = json.dumps({"score.weight": {"dtype": "F32", "shape": [3, config["hidden_size"]],
                                                  "data_offsets": [0, len(head)]}}).encode()
            (folder / "head.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + head)
            weights = (folder / "model.safetensors").rename(folder / "body.safetensors")  # one file would be read alone
            size, = struct.unpack("<Q", weights.read_bytes()[:8])
            names = [name for name in json.loads(weights.read_bytes()[8:8 + size]) if name != "__metadata__"]
            (folder / "model.safetensors.index.json").write_text(json.dumps(
                {"weight_map": {name: weights.name for name in names} | {"score.weight": "head.safetensors"}}))
        return folder

    def test_classify_by_a_head(self):
        requests = [{"task": "classify", "texts": ["w5 w6", "w7"]},
                    {"task": "classify", "texts": ["w5 w6", "w7"], "labels": ["three", "one"]},
                    {"task": "classify", "texts": ["w5"], "labels": ["w9"]},
                    {"task": "classify", "texts": ["w5"], "labels": []}]
        done = prefix("run", "--model", self.headed(), stdin=lines(requests))
        every, some, wrong, none = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(every["labels"], ["one", "two", "three"], every)
        for row in every["scores"]:
            self.assertAlmostEqual(sum(row), 1, places=5)
        self.assertNotIn("labels", some)
        self.assertEqual(some["scores"], [[row[2], row[0]] for row in every["scores"]])
        self.assertIn("classification-head", wrong["message"])
        self.assertIn("labels is empty", none["message"])

    def test_pairs_are_scored_as_in_a_product(self):
        product, pairs = self.run_text([
            {"task": "rerank", "queries": ["w11 w12", "w13"], "documents": ["w5 w6", "w8"]},
            {"task": "rerank", "pairs": [["w13", "w5 w6"], ["w11 w12", "w8"]]},
        ])
        self.assertEqual(pairs["scores"], [product["scores"][1][0], product["scores"][0][1]])
        self.assertNotIn("order", pairs)  # of different queries

    def test_tasks_that_write_texts(self):
        options = {"max_tokens": 6, "temperature": 300, "seed": 5, "ignore_eos": True}
        talk = [{"role": "user", "content": "w5"}]
        prompts, chat, chats, own, owns, alone, turn, stopped = self.run_text([
            {"task": "generate", "prompts": ["w5 w6", "w7"], **options},
            {"task": "chat", "messages": talk, **options},
            {"task": "chat", "conversations": [talk, talk], **options},
            {"task": "chat", "messages": {"messages": talk, "add_generation_prompt": True}, **options},
            {"task": "chat", "conversations": [{"messages": talk, "now": "2026-01-31T23:59:59"}, talk], **options},
            {"text": "w7", **options},
            {"messages": talk, **options},
            {"task": "generate", "prompts": ["w7"], **options, "stop": "w"},
        ])
        self.assertEqual(prompts["texts"][1], alone["text"])
        self.assertEqual(prompts["finish"], ["length", "length"])
        self.assertEqual((chat["text"], chat["finish"]), (turn["text"], "length"))
        self.assertEqual(chats["texts"], [chat["text"]] * 2)
        self.assertEqual(own["text"], chat["text"])
        self.assertEqual(owns["texts"], [chat["text"]] * 2)
        self.assertEqual(stopped["texts"], [""])
        untold, = self.run_text([{"prompts": ["w5 w6", "w7"], **options}])  # task is generate where it is not given
        self.assertEqual(untold["texts"], prompts["texts"])
        self.assertEqual(prompts["usage"]["generated"], 12)

    def test_what_is_wrong_with_the_tokenizer_has_its_own_status(self):
        model = SHARED["folder"] / "broken words"
        self.write_model(model, 131)
        requests = [{"text": "w5"}, {"messages": [{"role": "user", "content": "w5"}]}, {"tokens": [5], "max_tokens": 1, "stop": "w7"},
                    {"task": "rerank", "query": "w5", "documents": ["w6"]}, {"tokens": [5], "max_tokens": 1}]
        for content, status in (("{", "PREFIX_ERR_FORMAT"), (None, "PREFIX_ERR_NOT_FOUND")):
            (model / "tokenizer.json").unlink()
            if content:
                (model / "tokenizer.json").write_text(content)
            done = prefix("run", "--model", model, stdin=lines(requests))
            results = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual([result["status"] for result in results], [status] * 4 + ["ok"])
            for result in results[:4]:
                self.assertIn("tokenizer.json", result["message"])

    def test_kld_of_words_that_the_model_does_not_have(self):
        model = SHARED["folder"] / "more words"
        self.write_model(model, 140)
        done = prefix("kld", "--model", model, "--text", "-", stdin="w5 w6 w139")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("token id 139; the model has ids in [0, 131)", done.stderr)

    def model_of_bytes(self, name):
        """A model whose tokens are single bytes."""
        model = SHARED["folder"] / name
        shutil.copytree(SHARED["model"], model)
        vocabulary = {"<unk>": 0, **{f"<0x{byte:02X}>": byte for byte in range(1, 131)}}
        (model / "tokenizer.json").write_text(json.dumps({
            "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
            "pre_tokenizer": None, "added_tokens": [], "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "vocab": vocabulary, "merges": []},
        }))
        return model

    def test_a_stop_string_may_end_in_bytes(self):
        """Bytes of a character are held back until another token comes; here every token is one."""
        model = self.model_of_bytes("bytes")
        request = {"text": "AB", "max_tokens": 6, "ignore_eos": True, "logprobs": True}
        done = prefix("run", "--model", model, stdin=lines([request]))
        whole = json.loads(done.stdout)
        stop = whole["text"][2]
        first = whole["text"].index(stop)
        done = prefix("run", "--model", model, stdin=lines([{**request, "stop": stop}, {**request, "stop": whole["text"][:6]}]))
        early, last = map(json.loads, done.stdout.splitlines())
        for result, text, tokens in ((early, whole["text"][:first], first + 1), (last, "", 6)):
            self.assertEqual((result["text"], result["finish"]), (text, "stop"))
            self.assertEqual(result["tokens"], whole["tokens"][:tokens])
            self.assertEqual(result["logprobs"], whole["logprobs"][:tokens])

    def test_texts_by_rules(self):
        model = self.model_of_bytes("rules")
        (model / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<0x02>"}))
        task = {"task": "generate", "prompts": ["AB"], "max_tokens": 60}
        done = prefix("run", "--model", model, stdin=lines([
            {**task, "json_schema": {"const": {"z": [1, "x"], "a": None}, "x-guidance": {"whitespace_flexible": False}}},
            {**task, "json_schema": '{"type": "integer", "minimum": 7, "maximum": 7}'},
            {**task, "json_schema": False},
            {**task, "regex": "(ab){3}"},
            {**task, "grammar": 'start: "x" "y"'},
            {**task, "regex": ["a"]},
        ]))
        schema, text, never, regex, grammar, wrong = map(json.loads, done.stdout.splitlines())
        self.assertEqual(schema["texts"], ['{"z":[1,"x"],"a":null}'])
        self.assertEqual((text["texts"], regex["texts"], grammar["texts"]), (["7"], ["ababab"], ["xy"]))
        self.assertEqual({one["finish"][0] for one in (schema, text, regex, grammar)}, {"stop"})
        self.assertIn("option json_schema: Unsatisfiable schema", never["message"])
        self.assertIn("regex", wrong["message"])

    def test_keys_of_messages_keep_their_order(self):
        model = SHARED["folder"] / "printing"
        self.write_model(model, 131)
        (model / "tokenizer_config.json").write_text(json.dumps(
            {"eos_token": "<end>", "chat_template": "{{ raise_exception(messages[0] | tojson ~ (tools | tojson)) }}"}))
        message = '{"role": "user", "zeta": 1, "content": "w7", "alpha": 2}'
        tools = '[{"type": "function", "function": {"name": "f", "parameters": {"b": 1, "a": 2}}}]'
        for line, shown in ((f'{{"messages": [{message}]}}', message),
                            (f'{{"task": "chat", "messages": {{"messages": [{message}], "tools": {tools}}}}}', message + tools),
                            (f'{{"task": "chat", "conversations": [{{"messages": [{message}], "tools": {tools}}}]}}', tools)):
            done = prefix("run", "--model", model, stdin=line + "\n")
            self.assertIn(json.dumps(shown)[1:-1], done.stdout)

    def test_tasks_tell_the_seeds_that_repeat_them(self):
        task = {"task": "generate", "prompts": ["w7"], "max_tokens": 4, "temperature": 1}
        two, own, greedy = self.run_text([{**task, "prompts": ["w7", "w7"], "seed": -1}, {**task, "seed": 5},
                                          {**task, "temperature": 0}])
        self.assertEqual([len(two["seed"]), "seed" in own, "seed" in greedy], [2, False, False])
        chat, *again = self.run_text([
            {"task": "chat", "messages": [{"role": "user", "content": "w7"}], "max_tokens": 4, "temperature": 1},
            *({**task, "seed": seed} for seed in two["seed"])])
        self.assertIsInstance(chat["seed"], int)
        self.assertEqual([done["texts"][0] for done in again], two["texts"])

    def test_items_of_tasks_fail_alone(self):
        done, = self.run_text([{"task": "rerank", "query": "w5", "documents": ["w6 " * 300, "w7"], "max_prompt_tokens": 20,
                                "truncate": "off"}], code=1)
        self.assertIsNone(done["scores"][0])
        self.assertEqual(done["order"], [1])
        self.assertEqual(done["failed"][0]["status"], "PREFIX_ERR_PROMPT_TOO_LONG")
        self.assertIn("20", done["failed"][0]["message"])
        cut, = self.run_text([{"task": "rerank", "query": "w5", "documents": ["w6 " * 300, "w7"], "max_prompt_tokens": 20}])
        self.assertEqual(cut["cut"], [0])
        talks, = self.run_text([{"task": "chat", "conversations": [["w5"], [{"role": "user", "content": "w6"}]], "max_tokens": 2}], code=1)
        self.assertEqual([failed["item"] for failed in talks["failed"]], [0])
        self.assertEqual(talks["texts"][0], "")
        self.assertEqual(talks["finish"][0], "error")
        wrong, = self.run_text([{"task": "chat", "messages": {"messages": [{"role": "user", "content": "w6"}], "tool": []}}], code=1)
        self.assertIn('"tools"', wrong["failed"][0]["message"])

    def test_wrong_tasks_say_what_is_wrong(self):
        for request, word in [
            ({"task": "rerank", "documents": ["w5"]}, "query"),
            ({"task": "rerank", "query": "w5", "queries": ["w5"], "documents": []}, "one of"),
            ({"task": "rerank", "query": "w5", "documents": "w5"}, 'documents = "w5" is not a list of strings'),
            ({"task": "rerank", "query": "w5", "documents": ["w5", None]}, "documents[1] = null is not a string"),
            ({"task": "rerank", "pairs": [["w5", "w6"], ["w5", 7]]}, "pairs[1] = 7 is not a string"),
            ({"task": "rerank", "pairs": [["w5", "w6"], 7]}, "pairs[1] = 7 is not [query, document]"),
            ({"task": "chat", "conversations": [[{"role": "user", "content": "w5"}], 7]}, "conversations[1] = 7 is neither"),
            ({"task": "rerank", "query": "w5", "documents": [], "recipe": "absent"}, "query-likelihood"),
            ({"task": "rerank", "query": "w5", "documents": [], "recipe": "/absent.json"}, "absent.json"),
            ({"task": "rerank", "query": "w5", "documents": [], "recipe": "choices"}, "classify"),
            ({"task": "rerank", "query": "w5", "documents": ["w6"], "request": {"priority": 1}}, "request"),
            ({"task": "rerank", "query": "w5", "documents": ["w6"], "stop": "w7"}, "stop"),
            ({"task": "rerank", "pairs": [["w5"]]}, "[query, document]"),
            ({"task": "rerank", "pairs": "w5"}, "[query, document]"),
            ({"task": "chat", "messages": "w5"}, "messages"),
            ({"task": "chat"}, "conversations"),
            ({"task": "chat", "messages": 5}, "an object"),
            ({"task": "chat", "conversations": {}}, "a list of conversations"),
            ({"task": "generate", "prompts": ["w5"], "stop": 5}, "a text or a list of texts"),
            ({"task": "generate", "prompts": ["w5"], "stop": ["w7", ""]}, "option stop[1] is empty; a stop text has at least 1 byte"),
            ({"task": "chat", "messages": [{"role": "user", "content": "w5"}], "stop": ""}, "option stop[0] is empty"),
            ({"task": "generate", "prompts": "w5"}, "prompts"),
            ({"task": "generate", "prompts": ["w5"], "regex": "w5"}, "not those of its tokens one after the other"),
            ({"task": "chat", "messages": [{"role": "user", "content": "w5"}], "json_schema": "{"}, "option json_schema: EOF"),
            ({"task": "rerank", "query": "w5", "documents": ["w6"], "grammar": "x"}, "answer, generate, chat"),
            ({"task": "answer", "questions": ["w5"]}, "context"),
            ({"task": "classify", "texts": ["w5"]}, "labels"),
            ({"task": "classify", "texts": ["w5"], "labels": ["w5"], "max_tokens": "x"}, "max_tokens"),
        ]:
            result, = self.run_text([request], code=1)
            self.assertNotEqual(result["status"], "ok", request)
            self.assertIn(word, result["message"])

    def test_a_model_that_is_named_for_its_words_is_there(self):
        done = prefix("tree", "--model", SHARED["folder"] / "absent", stdin=lines([{"tokens": [1, 2]}]))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("absent", done.stderr)

    def test_tree_shows_text(self):
        done = prefix("tree", "--model", self.model, stdin=lines([{"text": "w5 w6"}, {"text": "w5 w7"}]))
        self.assertIn("w5", done.stdout)
        self.assertIn("4 tokens given, 3 computed", done.stdout)

    def test_words_of_a_tree_cannot_move_a_cursor(self):
        model = SHARED["folder"] / "moving"
        self.write_model(model, 131)
        tokenizer = (model / "tokenizer.json").read_text()
        (model / "tokenizer.json").write_text(tokenizer.replace('"w5"', json.dumps("\x1b[2Jé\r\n\a\x7f\u009bx")))
        for form in ("text", "dot", "svg"):
            done = prefix("tree", "--model", model, "--format", form, stdin=lines([{"tokens": [5, 6]}]))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("“ [2Jé     x w6”", done.stdout)
            self.assertFalse(set("\x1b\r\a\x7f\u009b") & set(done.stdout), form)


if __name__ == "__main__":
    sys.exit(main())
