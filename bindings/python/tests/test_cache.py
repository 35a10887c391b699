"""What there is beside requests: the cache, namespaces, snapshots, models in memory, pools, messages."""

import gc
import json
import logging
import mmap
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import weakref
from pathlib import Path

import libprefix
import numpy
from support import WithModel

PROMPT = list(range(1, 65))


class CacheControl(unittest.TestCase):
    def setUp(self):
        from support import MODELS

        self.model = MODELS / "llama-base"
        self.engine = libprefix.Engine(self.model, isa="scalar", dtype="f32", cache_bytes="16M", cache_events=1000,
                                       cache_event_tokens=32)
        self.addCleanup(self.engine.close)
        self.engine.run([libprefix.Warm(PROMPT)])
        self.cache = self.engine.cache()

    def test_look_up_limit_and_evict(self):
        self.assertEqual(self.cache.lookup(PROMPT + [9]), {"cached_tokens": 64, "pending_tokens": 0})
        self.assertEqual(self.cache.lookup_many([PROMPT, [1, 2, 9], [9]]).tolist(), [64, 2, 0])
        self.assertEqual(self.cache.usage["tokens"], 64)
        self.cache.set_limits(quota_bytes=1 << 20)
        self.assertEqual(self.cache.usage["quota_bytes"], 1 << 20)
        self.assertEqual(sum(node["tokens"] for node in self.cache.tree()["nodes"]), 64)
        self.assertEqual(self.cache.evict([1, 2, 3]), 61)
        self.assertEqual(self.cache.trim(0), 3)

    def test_a_lease_keeps(self):
        with self.cache.pin(PROMPT, 60) as lease:
            self.assertEqual(lease.tokens, 64)
            self.assertEqual(self.cache.evict(), 0)
        lease.close()
        self.assertEqual(self.cache.evict(), 64)
        with self.assertRaises(libprefix.NotFoundError):
            self.cache.pin(PROMPT)
        self.engine.run([libprefix.Warm(PROMPT)])
        self.cache.pin(PROMPT, 1e-9)  # less than a millisecond is not for ever
        while self.cache.evict() != 64:
            pass
        self.engine.run([libprefix.Warm(PROMPT)])
        kept = self.cache.pin(PROMPT)
        del kept
        gc.collect()
        self.assertEqual(self.cache.evict(), 0)
        late = self.cache.pin(PROMPT)
        self.engine.close()
        late.close()

    def test_a_lease_does_not_keep_the_engine(self):
        engine = libprefix.Engine(self.model, isa="scalar", dtype="f32", cache_bytes="16M")
        engine.run([libprefix.Warm(PROMPT)])
        lease, gone = engine.cache().pin(PROMPT), weakref.ref(engine)
        del engine
        gc.collect()
        self.assertIsNone(gone())
        self.assertEqual(lease.tokens, 64)
        lease.close()
        lease.close()

    def test_events(self):
        events = list(self.cache.events())
        self.assertEqual([e.kind for e in events], ["stored", "stored"])
        self.assertEqual([e.tokens for e in events], [PROMPT[:32], PROMPT[32:]])
        self.assertEqual(events[1].parent, events[0].block)
        blocks, after = self.cache.dump_events()
        self.assertEqual([block["block"] for block in blocks], [e.block for e in events])
        self.assertEqual(list(self.cache.events(after)), [])
        self.cache.evict()
        self.assertTrue(all(e.kind in ("removed", "cleared") for e in self.cache.events(after)))

    def test_namespaces(self):
        tenant, both = self.engine.namespace("tenant"), self.engine.namespace_of("salt", "1")
        self.assertEqual(self.engine.find_namespace("tenant"), tenant)
        self.assertNotEqual(both, self.engine.namespace("salt1"))
        self.assertEqual(self.engine.namespace_count, 4)
        self.engine.run([libprefix.Warm(PROMPT, {"namespace_id": both})])
        self.assertEqual(self.engine.cache(both).lookup(PROMPT)["cached_tokens"], 64)
        self.assertEqual(self.engine.cache("tenant").namespace, tenant)
        self.engine.run([libprefix.Warm(PROMPT, {"namespace": "new"})])
        self.assertEqual(self.engine.cached_tokens(PROMPT, "new"), 64)
        self.assertEqual(self.engine.drop_namespace(both), 64)
        self.assertEqual(self.engine.close_namespace(tenant), 0)
        with self.assertRaises(FileNotFoundError):
            self.engine.find_namespace("tenant")
        self.assertEqual(self.engine.adapters, [])
        with self.assertRaises(libprefix.NotFoundError):
            self.engine.adapter_namespace("none")

    def test_snapshots(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "snapshot"
            for namespaces in ([], [0], (0,), numpy.array([0]), numpy.array([0, 0])[:1]):
                self.assertEqual(self.engine.save_snapshot(file, namespaces)["tokens"], 64)
            with libprefix.Engine(self.model, isa="scalar", dtype="f32", cache_bytes="16M") as other:
                self.assertEqual(other.load_snapshot(file)["tokens"], 64)
                self.assertEqual(other.cached_tokens(PROMPT), 64)

    def test_a_model_in_memory(self):
        want = self.engine.run([libprefix.Logits(PROMPT, [3, 4])])[0].values.tolist()
        with libprefix.Source() as source, open(self.model / "model.safetensors", "rb") as file:
            source.add("config.json", (self.model / "config.json").read_bytes())
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            source.add("model.safetensors", mapped)
            with self.assertRaises(ValueError):
                source.add("config.json", b"{}")
            gc.collect()
            with libprefix.Pool(threads=2) as pool:
                engine = libprefix.Engine(source, pool=pool, isa="scalar", dtype="f32", cache_bytes="16M")
            with self.assertRaises(BufferError):
                mapped.close()
        mapped.close()  # nothing holds it
        with engine:
            self.assertEqual(engine.run([libprefix.Logits(PROMPT, [3, 4])])[0].values.tolist(), want)
            self.assertEqual((engine.info["pool"], engine.info["threads"]), (True, 2))
            self.assertEqual(engine.state, "ready")
            self.assertTrue(all(token >= 0 for token in engine.end_tokens))
        self.assertEqual(engine.state, "closed")
        with libprefix.Source() as empty, self.assertRaises(ValueError):
            libprefix.Engine(empty)

    def test_an_adapter_in_memory(self):
        model = self.engine.info["model"]
        wide, queries = model["hidden"], model["heads"] * model["head_dim"]
        sizes = {"A": [1, wide], "B": [queries, 1]}
        header, at = {}, 0
        for part, shape in sizes.items():
            header[f"base_model.model.model.layers.0.self_attn.q_proj.lora_{part}.weight"] = {
                "dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * shape[0] * shape[1]]}
            at += 4 * shape[0] * shape[1]
        text = json.dumps(header).encode()
        with libprefix.Source() as source:
            source.add("adapter_config.json", b'{"peft_type": "LORA", "r": 1, "lora_alpha": 1}')
            with self.assertRaises(libprefix.NotFoundError):
                self.engine.load_adapter("fed", source)
            source.add("adapter_model.safetensors", struct.pack("<Q", len(text)) + text + struct.pack("<f", 0.5) * (at // 4))
            self.engine.load_adapter("fed", source)
        self.assertEqual([adapter["name"] for adapter in self.engine.adapters], ["fed"])
        alone, adapted = self.engine.run([libprefix.Logits(PROMPT, [3, 4]), libprefix.Logits(PROMPT, [3, 4], {"adapter": "fed"})])
        self.assertNotEqual(alone.values.tolist(), adapted.values.tolist())
        self.engine.unload_adapter("fed")


class Library(WithModel):
    def test_what_there_is_without_an_engine(self):
        self.assertIn(libprefix.version(), libprefix.build_info())
        self.assertRegex(libprefix.text_version(), r"^\d+\.\d+\.\d+$")
        self.assertTrue(libprefix.has_feature("cpu") and "cpu" in libprefix.features())
        self.assertFalse(libprefix.has_feature("no such"))
        self.assertEqual(libprefix.devices()[0]["kind"], "cpu")
        self.assertIn("dtype", [info["key"] for info in libprefix.option_infos()])
        self.assertEqual(libprefix.model_info(self.path)["format"], "safetensors")
        self.assertGreater(libprefix.estimate(self.path, cache_bytes="16M")["weight_bytes"], 0)
        self.assertIn("query-likelihood", libprefix.recipes())
        self.assertEqual(libprefix.recipe("query-likelihood")["name"], "query-likelihood")

    def test_messages_are_those_of_logging(self):
        while libprefix.next_log():
            pass
        libprefix.set_log_level(logging.INFO)
        self.addCleanup(libprefix.set_log_level, logging.WARNING)
        libprefix.Engine(self.path, isa="scalar", cache_bytes="16M").close()
        with self.assertLogs("prefix", logging.INFO) as seen:
            libprefix.forward_log(logging.getLogger("prefix")).close()
            logging.getLogger("prefix").info("and ours")
        self.assertIn("and ours", seen.output[-1])
        self.assertIsNone(libprefix.next_log())

    def test_a_level_has_a_name(self):
        with self.assertRaisesRegex(ValueError, "'LOUD' is no level of logging"):
            libprefix.set_log_level("LOUD")

    def test_messages_are_forwarded_as_they_come(self):
        libprefix.set_log_level("INFO")
        self.addCleanup(libprefix.set_log_level, logging.WARNING)
        came, logger = threading.Event(), logging.getLogger("prefix.later")

        def take(record):
            came.set()
            return False

        logger.setLevel(logging.INFO)
        logger.addFilter(take)
        self.addCleanup(logger.removeFilter, take)
        with libprefix.forward_log(logger):
            came.clear()  # of what there was
            libprefix.Engine(self.path, isa="scalar", cache_bytes="16M").close()
            self.assertTrue(came.wait(60))

    def test_the_last_messages_are_forwarded_when_python_ends(self):
        program = f"""
import logging, os, sys, libprefix
logging.basicConfig(level=logging.INFO, format="%(message)s")
libprefix.set_log_level(logging.INFO)
libprefix.forward_log(logging.getLogger())
libprefix.Engine({str(self.path)!r}, isa="scalar", cache_bytes="16M")
child = os.fork()
if not child:
    sys.exit()  # the messages are not its own
os.waitpid(child, 0)
"""
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(set(done.stderr.splitlines())), len(done.stderr.splitlines()), done.stderr)
        self.assertIn(str(self.path), done.stderr)

    def test_tokenizers_tell_all(self):
        tokenizer = libprefix.Tokenizer(self.path)
        from support import byte_tokenizer
        import json

        again = libprefix.Tokenizer.from_json(*(json.dumps(part) for part in byte_tokenizer(129)))
        self.assertEqual(again.encode("abc"), tokenizer.encode("abc"))
        self.assertEqual(tokenizer.info["vocab_size"], tokenizer.vocab_size)
        self.assertEqual(tokenizer.special_token("eos"), tokenizer.token_id("<|end|>"))
        with self.assertRaises(libprefix.NotFoundError):
            tokenizer.special_token("bos")
        self.assertEqual(tokenizer.token_bytes(tokenizer.encode("a")[0]), b"a")
        tokens, spans = tokenizer.encode_offsets("abc")
        self.assertEqual((tokens, spans.tolist()), (tokenizer.encode("abc"), [[0, 1], [1, 2], [2, 3]]))
        self.assertEqual([t.tolist() for t in tokenizer.encode_batch(["ab", "", "c"])],
                         [tokenizer.encode("ab"), [], tokenizer.encode("c")])
        self.assertEqual(tokenizer.encode_batch([]), [])
        with self.assertRaisesRegex(TypeError, "contents is one str"):
            tokenizer.encode_batch("ab")
        messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "yes"}]
        self.assertEqual(tokenizer.chat_tokens(messages), tokenizer.encode(tokenizer.chat(messages)))
        tokens, turns = tokenizer.chat_turns(messages)
        self.assertEqual((len(turns), turns[-1]), (3, len(tokens)))
        detokenizer = libprefix.Detokenizer(tokenizer)
        self.assertEqual("".join(detokenizer.push(t) for t in tokenizer.encode("hello")) + detokenizer.flush(), "hello")


if __name__ == "__main__":
    unittest.main()
