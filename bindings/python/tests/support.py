"""What the tests of the Python package share. They run against the installed package, in a checkout whose tiny models
have been built."""

import gc
import json
import mmap
import shutil
import struct
import tempfile
import unittest
from pathlib import Path

import libprefix

ROOT = Path(__file__).resolve().parents[3]
MODELS = ROOT / "build" / "golden-models"


def byte_tokenizer(size):
    """A token for each of the first bytes, and then <|start|> and <|end|>."""
    vocabulary, other = {}, 256
    for byte in range(256):
        plain = 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174
        code = byte if plain else other
        other += 0 if plain else 1
        if byte < size:
            vocabulary[chr(code)] = byte
    def special(number, name):
        return {"id": number, "content": name, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    tokenizer = {"version": "1.0", "normalizer": None, "pre_tokenizer": level, "decoder": level, "post_processor": None,
                 "added_tokens": [special(size, "<|start|>"), special(size + 1, "<|end|>")],
                 "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}
    # Two templates; the first reads all that one can be told.
    default = ("{% for t in tools or [] %}[{{ t.name }}]{% endfor %}{% for d in documents or [] %}({{ d.text }}){% endfor %}"
               "{% if dated %}{{ strftime_now('%Y-%m-%d') }} {% endif %}"
               "{% for m in messages %}<|start|>{{ m.role }}: {{ m.content }}<|end|>{% endfor %}"
               "{% if add_generation_prompt %}<|start|>assistant: {% if enable_thinking %}<think>{% endif %}{% endif %}")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>",
              "chat_template": [{"name": "default", "template": default},
                                {"name": "short", "template": "{{ messages[-1].content }}"}]}
    return tokenizer, config


def with_head(model, place, says, weight):
    """A copy of a directory at `place`, with a classification head: a row for each label, and what config.json says of it."""
    shutil.copytree(model, place)
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**config, **says}))
    data = (place / "model.safetensors").read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8:8 + size]), data[8 + size:]
    rows = b"".join(struct.pack(f"<{len(row)}f", *row) for row in weight)
    header["score.weight"] = {"dtype": "F32", "shape": [len(weight), len(weight[0])],
                              "data_offsets": [len(body), len(body) + len(rows)]}
    text = json.dumps(header).encode()
    (place / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body + rows)
    return place


def resident_bytes():
    """Of this process, without what Python no longer needs."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


class WithModel(unittest.TestCase):
    """A tiny model that reads ASCII: `engine`, and `path`."""

    @classmethod
    def setUpClass(cls):
        cls.path = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.path)
        for name in ("config.json", "model.safetensors"):
            shutil.copy(MODELS / "llama-base" / name, cls.path / name)
        for name, content in zip(("tokenizer.json", "tokenizer_config.json"), byte_tokenizer(129)):
            (cls.path / name).write_text(json.dumps(content))
        cls.engine = libprefix.Engine(cls.path, isa="scalar", dtype="f32", cache_bytes="64M")
        cls.addClassCleanup(cls.engine.close)

    def assert_memory_is_flat(self, run):
        """run(count) takes no memory that stays. The system may at any time make huge pages of the heaps of threads, so
        growth is looked at again: a leak grows every time, by a kilobyte or more in each of 8,000 here."""
        run(2000)
        grown = []
        while len(grown) < 4:
            before = resident_bytes()
            run(8000)
            grown.append(resident_bytes() - before)
            if grown[-1] < 8 << 20:
                return
        self.fail(f"bytes more each time: {grown}")
