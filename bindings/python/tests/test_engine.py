"""Engines and requests of token ids: the bits of golden.json, errors, progress, closing."""

import copy
import json
import os
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import libprefix
from libprefix._native import core, ffi
from support import MODELS, ROOT, WithModel


def bits(values):
    return [struct.unpack("<I", struct.pack("<f", v))[0] for v in values.tolist()]


class Golden(unittest.TestCase):
    def request(self, r):
        task, tokens = r["task"], r["tokens"]
        if task == "logits":
            return [libprefix.Logits(tokens, r["ids"])]
        if task == "logprobs":
            return [libprefix.Logprobs(tokens, r["from"])]
        if task == "choices":
            return [libprefix.Choices(tokens, r["choices"])]
        if task == "continuations":
            return [libprefix.Logprobs(tokens + more, len(tokens)) for more in r["continuations"]]
        if task == "embedding":
            return [libprefix.Embedding(tokens)]
        return [libprefix.Generate(tokens, {"max_tokens": r["max_tokens"], "logprobs": True})]

    def test_scores_bit_for_bit(self):
        golden = json.loads((ROOT / "bindings" / "golden.json").read_text())
        with libprefix.Engine(MODELS / golden["model"], **golden["options"]) as engine:
            lists = [self.request(r) for r in golden["requests"]]
            results = iter(engine.run([request for some in lists for request in some]))
            for wanted, some in zip(golden["requests"], lists):
                parts = [next(results) for _ in some]
                if wanted["status"]:
                    self.assertEqual(parts[0].error.code, wanted["status"])
                    self.assertIsNone(parts[0].values)
                    continue
                self.assertEqual([b for part in parts for b in bits(part.values)], wanted["values_bits"])
                if "logprobs_bits" in wanted:
                    self.assertEqual(bits(parts[0].logprobs), wanted["logprobs_bits"])
                if "generated" in wanted:
                    self.assertEqual(parts[0].tokens.tolist(), wanted["generated"])


class Engines(WithModel):
    def test_info_stats_and_cache(self):
        self.assertEqual(self.engine.info["isa"], "scalar")
        before = self.engine.stats["tokens_computed"]
        tokens = [101, 90, 80, 70, 60]
        self.assertIsNone(self.engine.run([libprefix.Logits(tokens, [1])])[0].error)
        self.assertEqual(self.engine.stats["tokens_computed"], before + 5)
        self.assertEqual(self.engine.cached_tokens(tokens + [3]), 5)
        self.assertIn("prefix_", self.engine.metrics())
        self.assertEqual(self.engine.run([]), [])

    def test_results_say_why_tokens_were_computed(self):
        def ask(**options):
            request = libprefix.Generate([113, 7, 113, 9], {"max_tokens": 8, "ignore_eos": True, **options})
            return self.engine.run([request])[0].info

        def missed(info):
            found = {key[5:]: tokens for key, tokens in info.items() if key.startswith("miss_") and tokens}
            self.assertEqual(sum(found.values()), info["computed_tokens"])
            return found

        first, again, elsewhere = ask(), ask(draft_tokens=8), ask(namespace="of nobody else")
        self.assertEqual(missed(first), {"first_seen": 4})
        self.assertEqual(missed(again), {"granularity": 1})
        self.assertEqual(missed(elsewhere), {"namespace": 4})
        self.assertEqual((first["draft_tokens"], first["draft_tokens_accepted"]), (0, 0))
        self.assertGreater(again["draft_tokens"], 0)  # the answer is in the cache, so that all guesses are right
        self.assertEqual(again["draft_tokens_accepted"], again["draft_tokens"])

    def test_numpy_tokens_and_wrong_shapes(self):
        import numpy

        plain = self.engine.run([libprefix.Logits([1, 2, 3], [5])])[0].values
        array = self.engine.run([libprefix.Logits(numpy.array([1, 2, 3]), numpy.array([5], numpy.int64))])[0].values
        self.assertEqual(bits(plain), bits(array))
        with self.assertRaises(ValueError):
            self.engine.run([libprefix.Logits([[1, 2]], [5])])
        with self.assertRaises(TypeError):
            self.engine.run(["text"])
        # NumPy alone would make whole numbers of them.
        for wrong, error, shown in (([1, 2.5], TypeError, "token 1 is 2.5"), ([float("nan")], TypeError, "token 0 is nan"),
                                    (["1"], TypeError, "token 0 is '1'"), ([1, None], TypeError, "token 1 is None"),
                                    ([True], TypeError, "token 0 is True"), ([1, 1 << 31], ValueError, "token 1 is 2147483648"),
                                    ([10**30], ValueError, "token 0 is 1000"), (numpy.array([1.0, 2.0]), TypeError, "token 0 is 1.0"),
                                    (numpy.array([1, 1 << 40]), ValueError, "token 1 is 1099511627776")):
            with self.assertRaisesRegex(error, shown):
                self.engine.run([libprefix.Logits(wrong, [5])])
            with self.assertRaisesRegex(error, shown):
                libprefix.estimate_batch([[1], wrong])
        for narrow in (numpy.array([1, 2, 3], numpy.uint8), numpy.array([1, 0, 2, 0, 3])[::2]):
            self.assertEqual(bits(self.engine.run([libprefix.Logits(narrow, [5])])[0].values), bits(plain))

    def test_errors_are_those_of_python_too(self):
        with self.assertRaises(FileNotFoundError) as raised:
            libprefix.Engine("/no/such/model")
        self.assertEqual((raised.exception.code, raised.exception.name), (300, "PREFIX_ERR_NOT_FOUND"))
        self.assertIn("/no/such/model", str(raised.exception))
        with self.assertRaises(ValueError) as raised:
            libprefix.Engine(self.path, comput="int8")
        self.assertIn('"compute"', str(raised.exception))
        with self.assertRaises(libprefix.ModelError):
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "config.json").write_text("{")
                (Path(folder) / "model.safetensors").write_text("")
                libprefix.Engine(folder)
        with self.assertRaises(TypeError):
            libprefix.Engine(self.path, isa=object())
        with self.assertRaisesRegex(ValueError, "rows = 1000.* is beyond 64 bits"):
            libprefix.Engine(self.path, rows=10**30)
        with self.assertRaises(FileNotFoundError):
            libprefix.Engine(b"/no/such/model")

    def test_names_and_paths_are_refused_as_texts_are(self):
        def run(name):
            self.engine.run([libprefix.Warm([1], {"namespace": name})])

        named = [self.engine.namespace, lambda name: self.engine.namespace_of("salt", name), self.engine.adapter_namespace]
        for use in (*named, libprefix.recipe, lambda name: libprefix.Task(self.engine, libprefix.Tokenizer(self.path), name)):
            with self.assertRaisesRegex(TypeError, "is a bytes, not a str"):
                use(b"name")
        for use in (*named, run):
            with self.assertRaisesRegex(libprefix.InvalidArgumentError, "not UTF-8"):
                use("\ud800")
        for use in (libprefix.Engine, libprefix.model_info, libprefix.estimate, self.engine.load_snapshot,
                    self.engine.save_snapshot, lambda path: self.engine.load_adapter("a", path)):
            for path in (b"/tmp/\xff", os.fsdecode(b"/tmp/\xff")):
                with self.assertRaisesRegex(libprefix.InvalidArgumentError, "path is not UTF-8: the byte at 5"):
                    use(path)
        self.assertEqual(libprefix.Tokenizer(os.fsencode(self.path)).encode("a"), [97])

    def test_what_is_no_list_of_tokens_is_refused(self):
        for wrong in ("12", None, 5, {1, 2}, iter([1])):
            with self.assertRaisesRegex(TypeError, f"token ids are a {type(wrong).__name__}, not a list"):
                self.engine.run([libprefix.Warm(wrong)])

    def test_continuations_are_counted_as_they_come(self):
        results = self.engine.run([libprefix.Continuations([1, 2], iter([[3], [4, 5]])), libprefix.Warm([1])])
        self.assertEqual([len(result.values) for result in results], [1, 2, 0])

    def test_handles_stay_in_their_process(self):
        for handle in (self.engine, libprefix.Tokenizer(self.path)):
            for take in (pickle.dumps, copy.copy, copy.deepcopy):
                with self.assertRaisesRegex(TypeError, f"{type(handle).__name__} cannot be copied or pickled"):
                    take(handle)
        with self.assertRaises(FileNotFoundError) as raised:
            libprefix.Engine("/no/such/model")
        again = pickle.loads(pickle.dumps(raised.exception))
        self.assertEqual((type(again), again.code, str(again)), (libprefix.NotFoundError, 300, str(raised.exception)))

    def test_one_stop_text_is_a_list_of_one(self):
        def written(**options):
            return libprefix.LLM(self.engine).generate("a", max_tokens=9, ignore_eos=True, **options)

        letter = written()[3]
        for one in (letter, "[", '["b"]'):  # a text, not the JSON of a list
            self.assertEqual(written(stop=one), written(stop=[one]))
        self.assertNotIn(letter, written(stop=letter))

    def test_options_may_be_those_of_numpy(self):
        import numpy

        def tokens(**options):
            result = self.engine.run([libprefix.Generate([1, 2, 3], options)])[0]
            return result.tokens.tolist()

        written = tokens(max_tokens=9, ignore_eos=True)
        self.assertEqual(tokens(max_tokens=numpy.int64(9), ignore_eos=numpy.bool_(True), temperature=numpy.float32(0)), written)
        self.assertEqual(tokens(max_tokens=numpy.array(9), ignore_eos=True, stop_tokens=numpy.empty(0, numpy.int64)), written)
        last = written[4]
        stopped = tokens(max_tokens=9, ignore_eos=True, stop_tokens=[last])
        self.assertLess(len(stopped), 9)
        for stop in (numpy.array([last, 130]), numpy.array([last, 130], numpy.uint8), [numpy.int32(last), 130]):
            self.assertEqual(tokens(max_tokens=9, ignore_eos=True, stop_tokens=stop), stopped)
        llm = libprefix.LLM(self.engine)
        self.assertEqual(llm.generate("a", max_tokens=9, stop=numpy.array(["b", "cd"])),
                         llm.generate("a", max_tokens=9, stop=["b", "cd"]))
        for key, wrong, shown in (("stop", ["a", None], "item 1 of option stop is None"), ("stop", ["a", 7], "item 1 .* is 7"),
                                  ("stop_tokens", [7, "a"], "item 1 of option stop_tokens is 'a'"),
                                  ("stop_tokens", [True], "item 0 .* is True"),
                                  ("stop_tokens", numpy.array([1.5]), "item 0 of option stop_tokens is 1.5"),
                                  ("stop_tokens", numpy.array([[1]]), r"item 0 of option stop_tokens is \[1\]"),
                                  ("max_tokens", numpy.datetime64("2026-01-01"), "option max_tokens is a date")):
            with self.assertRaisesRegex(TypeError, shown):
                tokens(**{key: wrong})

    def test_ctrl_c_ends_a_shutdown(self):
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        engine = libprefix.Engine(self.path, isa="scalar", dtype="f32", cache_bytes="64M")
        long = {"max_tokens": 200, "ignore_eos": True}
        job = engine.submit([libprefix.Generate([1 + i % 100, 2 + i // 100], long) for i in range(1000)])

        def interrupt():
            while engine.state == "ready":
                pass
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            engine.shutdown(600)
        thread.join()
        self.assertEqual(engine.state, "closed")
        self.assertTrue(job.wait(0))
        self.assertIsInstance(job.result(999).error, libprefix.CancelledError)
        engine.shutdown(1)
        engine.close()
        with self.assertRaises(libprefix.MisuseError):
            engine.shutdown(1)

    def test_a_bad_request_fails_alone(self):
        good, bad = self.engine.run([libprefix.Logits([1, 2], [3]), libprefix.Logits([1, 1 << 20], [3])])
        self.assertIsNone(good.error)
        self.assertEqual(len(good.values), 1)
        self.assertIsInstance(bad.error, ValueError)
        self.assertIn("1048576", str(bad.error))

    def test_closed_is_said(self):
        engine = libprefix.Engine(self.path, isa="scalar")
        engine.close()
        engine.close()
        for use in (lambda: engine.stats, lambda: engine.run([libprefix.Logits([1], [1])])):
            with self.assertRaises(libprefix.MisuseError) as raised:
                use()
            self.assertIn("Engine is closed", str(raised.exception))

    def test_progress_ends_at_one(self):
        seen = []
        libprefix.Engine(self.path, progress=seen.append).close()
        self.assertEqual(seen[-1], 1.0)
        self.assertEqual(seen, sorted(seen))

        def stop(fraction):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            libprefix.Engine(self.path, progress=stop)

    def test_eight_threads(self):
        want = bits(self.engine.run([libprefix.Logits([1, 2, 3, 4], [5, 6])])[0].values)
        wrong = []

        def work(seed):
            for i in range(20):
                results = self.engine.run([libprefix.Logits([1, 2, 3, 4], [5, 6]), libprefix.Logits([seed, i + 1], [1])])
                if bits(results[0].values) != want or results[1].error:
                    wrong.append((seed, i))

        threads = [threading.Thread(target=work, args=(n + 1,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_memory_is_flat(self):
        def run(count):
            for _ in range(count):
                self.engine.run([libprefix.Logits([1, 2, 3], [5], {"priority": 1})])

        self.assert_memory_is_flat(run)


class Package(unittest.TestCase):
    def test_it_is_the_installed_one(self):
        self.assertNotIn(ROOT / "bindings", Path(libprefix.__file__).resolve().parents)

    def test_declarations_are_those_of_the_headers(self):
        done = subprocess.run([sys.executable, ROOT / "bindings/python/generate", "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_structs_are_those_of_the_compiler(self):
        names = [t for t in ffi.list_types()[0]
                 if ffi.typeof(t).kind == "struct" and ffi.typeof(t).fields and t.startswith("prefix_")]
        self.assertGreater(len(names), 10)
        source = "#include <prefix_text.h>\n#include <stdio.h>\nint main(void) {\n"
        source += "".join(f'printf("%zu\\n", sizeof({n}));\n' for n in names) + "return 0; }\n"
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "sizes"
            compiler = ["cc", "-x", "c", "-", "-I", ROOT / "include", "-o", program]
            subprocess.run(compiler, input=source, text=True, check=True)
            sizes = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual([ffi.sizeof(n) for n in names], [int(s) for s in sizes])

    def test_types_of_options_are_those_of_the_library(self):
        scopes = {core.PREFIX_SCOPE_ENGINE: [libprefix.EngineOptions],
                  core.PREFIX_SCOPE_REQUEST: [libprefix.RequestOptions, libprefix.GenerateOptions, libprefix.TaskOptions],
                  core.PREFIX_SCOPE_GENERATE: [libprefix.GenerateOptions, libprefix.WritingOptions],
                  core.PREFIX_SCOPE_EMBEDDING: [libprefix.EmbeddingOptions, libprefix.EmbedOptions],
                  core.PREFIX_SCOPE_TASK: [libprefix.TaskOptions]}
        task = libprefix.TaskOptions.__annotations__
        found, refused = 0, 0
        for info in libprefix.option_infos():
            key, of_tasks = info["key"], not info["doc"].endswith("Not of tasks.")
            for options in scopes[info["scope"]]:
                if of_tasks or options in (libprefix.GenerateOptions, libprefix.EmbeddingOptions):
                    self.assertIn(key, options.__annotations__, options.__name__)
            self.assertTrue(of_tasks or key not in task, key)
            found, refused = found + 1, refused + (not of_tasks)
        self.assertEqual(len({*libprefix.EngineOptions.__annotations__, *task}), found - refused)
        self.assertGreater(refused, 0)
        poolings = [kind.__annotations__["pooling"] for kind in (libprefix.EmbeddingOptions, libprefix.EmbedOptions)]
        self.assertEqual([pooling.__forward_arg__ for pooling in poolings],
                         ["Literal['last', 'mean', 'first', 'tokens']", "Literal['last', 'mean', 'first']"])

    def test_version_and_typed(self):
        self.assertRegex(libprefix.version(), r"^\d+\.\d+\.\d+$")
        self.assertTrue((Path(libprefix.__file__).parent / "py.typed").exists())
        self.assertEqual(core.PREFIX_OK, 0)
        for kind in (libprefix.Engine, libprefix.Reranker):  # else a type checker knows nothing inside of a with block
            self.assertEqual(kind.__enter__.__annotations__["return"], "Self")
        for follow in (libprefix.LLM.astream, libprefix.Task.pieces_async, libprefix.Job.events_async):  # for contextlib.aclosing
            self.assertRegex(follow.__annotations__["return"], r"^AsyncGenerator\[\w+, None\]$")
        for follow in (libprefix.LLM.stream, libprefix.Task.pieces, libprefix.Job.events):
            self.assertRegex(follow.__annotations__["return"], r"^Generator\[\w+, None, None\]$")
        for name in libprefix.__all__:
            self.assertTrue(getattr(libprefix, name).__doc__ or name == "Generate", name)


if __name__ == "__main__":
    unittest.main()
