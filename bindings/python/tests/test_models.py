"""Reranker, Embedder, Classifier, LLM: results, order, failures, streams, asyncio."""

import asyncio
import datetime
import json
import tempfile
import threading
import unittest
from pathlib import Path

import libprefix
from support import MODELS, ROOT, WithModel, byte_tokenizer, with_head


class Models(WithModel):
    def setUp(self):
        self.reranker = libprefix.Reranker(self.engine)
        self.llm = libprefix.LLM(self.engine)
        self.documents = [f"document {i}" for i in range(12)]

    def test_rank_is_predict_in_order(self):
        hits = self.reranker.rank("a question", self.documents)
        self.assertEqual(sorted(h.index for h in hits), list(range(12)))
        self.assertEqual([h.score for h in hits], sorted((h.score for h in hits), reverse=True))
        for hit in hits:
            self.assertEqual(hit.document, self.documents[hit.index])
        scores = self.reranker.predict([("a question", d) for d in self.documents])
        self.assertEqual({h.index: h.score for h in hits}, dict(enumerate(scores.tolist())))
        top = self.reranker.rank("a question", self.documents, top_n=3)
        self.assertEqual(top, hits[:3])
        self.assertEqual(self.reranker.rank("a question", []), [])
        self.assertEqual(self.reranker.predict([]).shape, (0,))

    def test_a_ranking_beyond_the_values_is_refused(self):
        task = self.reranker.task("rerank")
        task.add_product(["a question"], self.documents)
        task.submit()
        self.assertTrue(task.wait())
        for first, count in ((0, 1 << 40), (0, 13), (6, 7), (0, -1)):
            with self.assertRaisesRegex(libprefix.InvalidArgumentError, "OUT_OF_RANGE"):
                task.ranking(first, count)
        self.assertEqual(len(task.ranking(6, 6)), 6)

    def test_items_are_numbered_as_they_are_added(self):
        task = self.reranker.task("rerank")
        self.assertEqual([task.add(["a", "b", "c", "d"]), task.add_product(["a", "b"], ["c", "d", "e"]), task.add(["a", "b"])],
                         [0, 2, 8])
        chats = self.reranker.task("chat")
        self.assertEqual([chats.add_chat([{"role": "user", "content": text}]) for text in "ab"], [0, 1])

    def test_embed(self):
        embedder = libprefix.Embedder(self.engine)
        vectors = embedder.encode(["one", "two"])
        self.assertEqual(vectors.shape, (2, 128))
        self.assertAlmostEqual(float((vectors[0] ** 2).sum()), 1, places=5)
        self.assertEqual(embedder.encode("two").tolist(), vectors[1].tolist())
        self.assertEqual(embedder.encode(["one"], dimensions=8).shape, (1, 8))
        self.assertEqual(embedder.encode([]).shape, (0, vectors.shape[1]))
        self.assertEqual(embedder.encode([], dimensions=8).shape, (0, 8))
        self.assertEqual(asyncio.run(embedder.aencode([])).shape, (0, vectors.shape[1]))

    def test_tasks_refuse_what_is_of_requests(self):
        embedder = libprefix.Embedder(self.engine)
        for options, sentence in (({"pooling": "tokens"}, "option pooling is tokens"), ({"positions": [0]}, "option positions is set")):
            with self.assertRaisesRegex(libprefix.InvalidArgumentError, sentence):
                embedder.encode(["one"], **options)

    def test_classify(self):
        values = libprefix.Classifier(self.engine).classify(["one", "two"], ["good", "bad", "neither"])
        self.assertEqual(values.shape, (2, 3))
        for row in values.sum(axis=1).tolist():
            self.assertAlmostEqual(row, 1, places=5)

    def test_classify_by_the_head_of_a_model(self):
        self.assertEqual(libprefix.Classifier(self.engine).head_labels, [])
        with self.assertRaisesRegex(libprefix.InvalidArgumentError, "no labels"):
            libprefix.Classifier(self.engine).classify(["one"])
        weight = [[(i * 7 % 13 - 6) / 8 for i in range(row, row + 128)] for row in (0, 5)]
        with tempfile.TemporaryDirectory() as folder:
            place = with_head(self.path, Path(folder) / "headed", {"id2label": {"0": "small", "1": "large"}}, weight)
            with libprefix.Classifier(place, dtype="f32") as classifier:
                self.assertEqual(classifier.head_labels, ["small", "large"])
                values = classifier.classify(["one", "two"])
                self.assertEqual(values.shape, (2, 2))
                self.assertAlmostEqual(float(values[0].sum()), 1, places=5)
                self.assertEqual(classifier.classify("two", ["large"]).tolist(), [float(values[1][1])])

    def test_heads_give_the_scores_of_transformers(self):
        """tests/golden/classify.json, with the model and the tokenizers that it is made with."""
        golden = ROOT / "tests" / "golden"
        changes = json.loads((golden / "recipes.json").read_text())["tokenizers"]
        for head in json.loads((golden / "classify.json").read_text())["heads"]:
            with self.subTest(head["name"]), tempfile.TemporaryDirectory() as folder:
                place = with_head(MODELS / "qwen3-words", Path(folder) / "headed", head["says"], head["weight"])
                tokenizer = json.loads((place / "tokenizer.json").read_text())
                change = changes[head["tokenizer"]]
                tokenizer["added_tokens"] += change["added_tokens"]
                tokenizer["post_processor"] = change["post_processor"]
                (place / "tokenizer.json").write_text(json.dumps(tokenizer))
                with libprefix.Classifier(place, dtype="f32") as classifier:
                    self.assertEqual(classifier.head_labels, head["labels"])
                    for case in head["cases"]:
                        options = {"max_prompt_tokens": case["max_prompt_tokens"]}
                        scores = classifier.classify(case["text"], **options)
                        raw = classifier.classify(case["text"], raw=True, **options)
                        self.assertLess(abs(scores - case["scores"]).max(), 1e-5)
                        self.assertLess(abs(raw - case["raw"]).max(), 1e-5)

    def test_texts_are_of_a_schema_an_expression_or_a_grammar(self):
        def write(**options):
            # Token 2 ends texts of the model, and is a character for the tokenizer.
            return self.llm.generate("one", max_tokens=200, **options).rstrip("\2")

        self.assertRegex(write(regex="[ab]{4}"), "^[ab]{4}$")
        self.assertEqual(write(grammar='start: "yes"'), "yes")
        schema = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": False}
        for given in (schema, json.dumps(schema)):
            self.assertEqual(json.loads(write(json_schema=given)), {"a": 1})
        with self.assertRaisesRegex(libprefix.InvalidArgumentError, "thing"):
            self.llm.generate("one", json_schema={"type": "thing"})

    def test_the_tokens_of_a_text_have_log_probabilities(self):
        for likely in (0, 2):
            options = {"max_tokens": 100, "ignore_eos": True, "logprobs": True, "top_logprobs": likely}
            task, streamed = self.llm.task("generate", stream=True, **options), []
            task.add(["one"])
            task.submit()
            for piece in task.pieces():
                streamed += task.logprobs(piece.item, len(streamed))
            tokens = task.logprobs(0)
            self.assertEqual((len(tokens), streamed), (100, tokens))
            result = self.engine.run([libprefix.Generate(task.tokens(0), options)])[0]
            self.assertEqual([token.token for token in tokens], result.tokens.tolist())
            self.assertEqual([token.logprob for token in tokens], result.logprobs.tolist())
            self.assertEqual([token.top for token in tokens], result.top or [[]] * 100)
            self.assertEqual([token.offset for token in tokens], sorted(token.offset for token in tokens))
            self.assertEqual(task.logprobs(0, 97), tokens[97:])
            with self.assertRaisesRegex(libprefix.InvalidArgumentError, "OUT_OF_RANGE"):
                task.logprobs(0, 101)

    def test_write(self):
        options = {"max_tokens": 6, "ignore_eos": True}
        many = self.llm.generate(["one", "two"], **options)
        self.assertEqual(many[1], self.llm.generate("two", **options))
        self.assertEqual("".join(self.llm.stream("two", **options)).strip(), many[1])
        messages = [{"role": "user", "content": "hello"}]
        self.assertEqual("".join(self.llm.stream(messages, **options)).strip(), self.llm.chat(messages, **options))
        answers = self.llm.answer("a context", ["one?", "two?"], **options)
        self.assertEqual(answers[0], self.llm.answer("a context", "one?", **options))
        self.assertEqual(self.llm.generate([]), [])

    def test_several_texts_of_each_prompt(self):
        options = {"max_tokens": 6, "ignore_eos": True, "temperature": 2}
        messages = [{"role": "user", "content": "hello"}]
        for ask in [lambda **more: self.llm.generate("two", **more), lambda **more: self.llm.chat(messages, **more),
                    lambda **more: self.llm.answer("a context", "one?", **more)]:
            alone = [ask(**options, seed=seed) for seed in (7, 8, 9)]
            self.assertEqual(ask(**options, seed=7, samples=3), alone)
        many = self.llm.generate(["one", "two"], **options, seed=7, samples=3)
        self.assertEqual(many[3:], self.llm.generate("two", **options, seed=7, samples=3))

    def test_templates_are_told_what_the_options_say(self):
        """One conversation for each thing that a template can be told, and what the one of the tests makes of it."""
        messages, turn, next_one = [{"role": "user", "content": "Hi"}], "<|start|>user: Hi<|end|>", "<|start|>assistant: "
        told = [
            ({}, turn + next_one),
            ({"add_generation_prompt": False}, turn),
            ({"continue_final_message": True}, "<|start|>user: Hi"),
            ({"tools": [{"name": "go"}, {"name": "stop"}]}, "[go][stop]" + turn + next_one),
            ({"documents": [{"text": "d"}]}, "(d)" + turn + next_one),
            ({"variables": {"enable_thinking": True}}, turn + next_one + "<think>"),
            ({"variables": {"dated": True}, "now": datetime.datetime(2026, 1, 31, 23, 59, 59)}, "2026-01-31 " + turn + next_one),
            ({"variables": {"dated": True}, "now": "2026-02-01T00:00:00"}, "2026-02-01 " + turn + next_one),
            ({"template": "short"}, "Hi"),
            (dict.fromkeys(libprefix.ChatOptions.__annotations__), turn + next_one),
        ]
        self.assertEqual({name for options, _ in told for name in options}, set(libprefix.ChatOptions.__annotations__))
        writing = {"max_tokens": 8, "ignore_eos": True}
        task = self.llm.task("chat", **writing)
        for item, (options, prompt) in enumerate(told):
            self.assertEqual(self.llm.tokenizer.chat(messages, **options), prompt)
            task.add_chat(messages, **options)
            self.assertEqual(self.llm.tokenizer.decode(task.tokens(item), skip_special=False), prompt)
        task.submit()
        task.wait()
        answers = [self.llm.chat(messages, **options, **writing) for options, _ in told]
        self.assertEqual(answers, [task.text(item) for item in range(len(told))])
        self.assertNotEqual(answers[0], answers[5], "what thinks says something else")
        thinking = {**told[5][0], **writing}
        self.assertEqual("".join(self.llm.stream(messages, **thinking)).strip(), answers[5])
        self.assertEqual(asyncio.run(self.llm.achat(messages, **thinking)), answers[5])

    def test_a_template_option_that_is_wrong_is_named(self):
        messages = [{"role": "user", "content": "Hi"}]
        for options, named in [({"template": "none"}, '"none"'), ({"tools": ["go"]}, r"tools\[0\]"),
                               ({"documents": {}}, "documents"), ({"variables": {"tools": []}}, "not one of variables"),
                               ({"add_prompt": False}, "add_prompt"), ({"now": "yesterday"}, "yesterday"),
                               ({"add_generation_prompt": 1}, "add_generation_prompt")]:
            for call in (self.llm.chat, self.llm.tokenizer.chat):
                with self.assertRaisesRegex(libprefix.PrefixError, named):
                    call(messages, **options)
        with self.assertRaisesRegex(libprefix.InvalidArgumentError, "tools"):
            next(self.llm.stream("a prompt has no tools", tools=[]))

    def test_score(self):
        scores = self.llm.score("one", [" two", " three", " two"])
        self.assertEqual(scores.shape, (3,))
        self.assertEqual(scores[0], scores[2])
        self.assertTrue((scores < 0).all())
        self.assertEqual(self.llm.score("one", []).shape, (0,))
        with self.assertRaises(ValueError):
            self.llm.score("one", ["two"], no_such_option=1)

    def test_leaving_a_stream_cancels_it(self):
        stream = self.llm.stream("one", max_tokens=200, ignore_eos=True)
        next(stream)
        stream.close()
        task = self.llm.task("generate", max_tokens=2)
        task.add(["two"])
        task.submit()
        self.assertTrue(task.wait(60))

    def test_variables_of_a_template_have_a_place(self):
        with self.assertRaisesRegex(libprefix.InvalidArgumentError, r'enable_thinking.*go into "variables"\) \(PREFIX_ERR_UNKNOWN'):
            self.llm.chat([{"role": "user", "content": "one"}], enable_thinking=True)

    def test_a_stream_is_one_text(self):
        for prompt in ("one", [{"role": "user", "content": "one"}]):
            with self.assertRaisesRegex(libprefix.InvalidArgumentError, "samples is 2; a stream is one text"):
                next(self.llm.stream(prompt, samples=2, max_tokens=2))

    def test_some_fail_and_all_fail(self):
        embedder = libprefix.Embedder(self.engine)
        with self.assertRaises(libprefix.SomeFailed) as raised:
            embedder.encode(["one", "\ud800", "two"])
        error = raised.exception
        self.assertEqual(list(error.failures), [1])
        self.assertEqual(error.results.shape, (3, 128))
        self.assertEqual(error.results[0].tolist(), embedder.encode("one").tolist())
        self.assertIn("1 of 3", str(error))
        with self.assertRaises(ValueError):
            embedder.encode("\ud800")

    def test_options_and_kinds_are_checked(self):
        with self.assertRaises(ValueError) as raised:
            self.reranker.rank("q", ["d"], max_tokens=5)
        self.assertIn("max_tokens", str(raised.exception))
        with self.assertRaises(ValueError):
            self.llm.task("sing")
        with self.assertRaises(TypeError):
            libprefix.LLM(self.engine, dtype="f32")

    def test_one_text_is_no_list_of_texts(self):
        classifier, embedder = libprefix.Classifier(self.engine), libprefix.Embedder(self.engine)
        for call, shown in ((lambda: self.reranker.rank("q", "abc"), "documents is one str"), (lambda: self.llm.score("one", " two"), "continuations"),
                            (lambda: classifier.classify("one", "good"), "labels is one str"), (lambda: self.reranker.rank(None, ["a"]), "text 0 is a NoneType"),
                            (lambda: self.reranker.rank("q", ["a", 7]), "text 1 is a int"), (lambda: embedder.encode([b"a"]), "text 0 is a bytes"),
                            (lambda: self.reranker.tokenizer.encode(None), "the text is a NoneType")):
            with self.assertRaisesRegex(TypeError, shown):
                call()
        for pair in ("ab", ("q",), ("q", "a", "b")):
            with self.assertRaisesRegex(ValueError, "no pair of a query and a document"):
                self.reranker.predict([pair])

    def test_options_are_read_without_texts_too(self):
        embedder, classifier = libprefix.Embedder(self.engine), libprefix.Classifier(self.engine)
        for call in (self.reranker.rank, lambda _, texts, **how: self.reranker.predict(texts, **how), self.llm.answer,
                     lambda _, texts, **how: self.llm.generate(texts, **how),
                     lambda _, texts, **how: asyncio.run(self.llm.agenerate(texts, **how)),
                     lambda _, texts, **how: embedder.encode(texts, **how),
                     lambda _, texts, **how: classifier.classify(texts, ["a", "b"], **how)):
            self.assertEqual(len(call("one", [])), 0)
            with self.assertRaisesRegex(ValueError, "no_such"):
                call("one", [], no_such=1)
        self.assertEqual(classifier.classify([], ["a", "b"]).shape, (0, 2))
        with self.assertRaisesRegex(TypeError, "labels is one str"):
            classifier.classify([], "ab")

    def test_what_is_scored_has_no_space_put_in_front(self):
        tokenizer, config = byte_tokenizer(128)
        tokenizer["normalizer"] = {"type": "Prepend", "prepend": " "}
        own = libprefix.Tokenizer.from_json(json.dumps(tokenizer), json.dumps(config))
        with libprefix.LLM(self.engine, tokenizer=own) as llm:
            found = llm.score("one", [" two", "n"])
        request = libprefix.Choices(list(b" one"), [list(b" two"), list(b"n")])
        self.assertEqual(found.tolist(), self.engine.run([request])[0].values.tolist())
        for flags, wanted in (({}, b"  x"), ({"continues": True}, b" x")):
            self.assertEqual(own.encode(" x", **flags), list(wanted))
            self.assertEqual(own.encode_offsets(" x", **flags)[0], list(wanted))
            self.assertEqual(own.encode_batch([" x"], **flags)[0].tolist(), list(wanted))

    def test_decoding_leaves_special_tokens_out_unless_told(self):
        tokenizer, shown = self.llm.tokenizer, "a<|start|>b<|end|>"
        tokens = tokenizer.encode(shown)
        for flags, wanted in (({}, "ab"), ({"skip_special": True}, "ab"), ({"skip_special": False}, shown)):
            self.assertEqual(tokenizer.decode(tokens, **flags), wanted)
            stream = libprefix.Detokenizer(tokenizer, **flags)
            self.assertEqual(stream.push(*tokens) + stream.flush(), wanted)

    def test_empty_lists_are_options_too(self):
        wanted = self.llm.generate("one", max_tokens=3)
        self.assertEqual(self.llm.generate("one", max_tokens=3, stop=[], stop_tokens=[]), wanted)

    def test_a_model_of_its_own_is_closed(self):
        with libprefix.LLM(self.path, isa="scalar", dtype="f32") as llm:
            self.assertEqual(llm.generate("one", max_tokens=4, ignore_eos=True),
                             self.llm.generate("one", max_tokens=4, ignore_eos=True))
            engine = llm.engine
        with self.assertRaises(libprefix.MisuseError):
            engine.stats

    def test_a_model_in_memory_needs_a_tokenizer(self):
        with libprefix.Source() as source:
            for name in ("config.json", "model.safetensors"):
                source.add(name, (self.path / name).read_bytes())
            with libprefix.Engine(source, isa="scalar", dtype="f32") as engine:
                for model in (source, engine):
                    with self.assertRaisesRegex(TypeError, "tokenizer="):
                        libprefix.Reranker(model)
                ranked = libprefix.Reranker(engine, tokenizer=libprefix.Tokenizer(self.path)).rank("q", self.documents)
            self.assertEqual(ranked, self.reranker.rank("q", self.documents))
            with libprefix.Reranker(source, tokenizer=libprefix.Tokenizer(self.path), isa="scalar", dtype="f32") as own:
                self.assertEqual(own.rank("q", self.documents), ranked)
        with libprefix.Source() as empty, self.assertRaisesRegex(TypeError, "tokenizer="):
            libprefix.LLM(empty)  # which it says before anything is loaded

    def test_a_shared_model_stays_open(self):
        with libprefix.LLM(self.engine):
            pass
        self.assertGreater(self.engine.stats["pages_total"], 0)

    def test_task_tokens_are_found_in_the_cache(self):
        task = self.llm.task("generate", max_tokens=1, ignore_eos=True)
        task.add(["found again"])
        tokens = task.tokens(0)
        task.submit()
        self.assertTrue(task.wait())
        self.assertEqual(self.engine.cached_tokens(tokens), len(tokens))
        self.assertEqual(task.info["kind"], "generate")
        self.assertEqual(task.totals["requests"], 1)
        info = task.item_info(0)
        self.assertEqual(info["prompt_tokens"], info["cached_tokens"] + info["shared_tokens"] + info["computed_tokens"])
        self.assertGreater(info["prompt_tokens"], 0)

    def test_ranked_documents_are_found_in_the_cache(self):
        task = self.llm.task("rerank")
        task.add_product(["Which tree?"], [f"Tree {i} is green." for i in range(13)])
        task.submit()
        task.wait()
        for item in range(13):
            tokens = task.tokens(item)
            self.assertEqual(self.engine.cached_tokens(tokens), len(tokens) - 1)  # the last one is only scored

    def test_deadline_and_cancel(self):
        with self.assertRaises(TimeoutError):
            self.llm.generate(["one"] * 200, max_tokens=200, ignore_eos=True, deadline_ms=1)
        task = self.llm.task("generate", max_tokens=200, ignore_eos=True)
        task.add(["one"] * 5000)  # seconds of work
        task.submit()
        self.assertFalse(task.wait(0))
        threading.Thread(target=task.cancel).start()
        self.assertTrue(task.wait(600))
        self.assertTrue(all(isinstance(e, libprefix.CancelledError) for e in task.failures().values()))
        self.assertGreater(len(task.failures()), 0)


class Asyncio(WithModel):
    def test_many_at_once_are_those_one_by_one(self):
        reranker, llm = libprefix.Reranker(self.engine), libprefix.LLM(self.engine)
        embedder = libprefix.Embedder(self.engine)

        async def all_of_them():
            return await asyncio.gather(reranker.arank("q", ["a", "b"], top_n=1), embedder.aencode("text"),
                                        llm.agenerate(["one", "two"], max_tokens=4, ignore_eos=True))

        ranked, vector, texts = asyncio.run(all_of_them())
        self.assertEqual(ranked, reranker.rank("q", ["a", "b"], top_n=1))
        self.assertEqual(vector.tolist(), embedder.encode("text").tolist())
        self.assertEqual(texts, llm.generate(["one", "two"], max_tokens=4, ignore_eos=True))

    def test_stream(self):
        llm = libprefix.LLM(self.engine)

        async def collect():
            return [piece async for piece in llm.astream("one", max_tokens=12, ignore_eos=True)]

        self.assertEqual("".join(asyncio.run(collect())).strip(), llm.generate("one", max_tokens=12, ignore_eos=True))

    def test_cancelling_a_coroutine_cancels_the_task(self):
        llm = libprefix.LLM(self.engine)
        before = self.engine.stats["requests_failed"]

        async def give_up():
            work = asyncio.ensure_future(llm.agenerate(["one"] * 200, max_tokens=200, ignore_eos=True))
            await asyncio.sleep(0)
            while self.engine.stats["requests_running"] == 0:
                await asyncio.sleep(0.001)
            work.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await work

        asyncio.run(give_up())
        while self.engine.stats["requests_running"] + self.engine.stats["requests_waiting"] > 0:
            pass
        self.assertGreater(self.engine.stats["requests_failed"], before)


if __name__ == "__main__":
    unittest.main()
