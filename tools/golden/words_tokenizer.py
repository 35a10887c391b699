"""The tokenizer of the tiny models that read text: a small byte-level BPE that speaks ChatML, as Qwen3 does.

Vocabulary and merges are those of text/tests/fixtures/llama3.json, which come from our own texts. Added are the two
words that a reranker answers with, so that each is one token, and Qwen3's special tokens. Like the published files it
adds nothing around a text by itself.
"""

import json
from pathlib import Path

_BASE = Path(__file__).resolve().parents[2] / "text" / "tests" / "fixtures" / "llama3.json"
# Pairs that join last: no other word is split differently for them, except where these very letters were left over.
_MERGES = [["n", "o"], ["ye", "s"]]
_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
_PLAIN = ["<think>", "</think>"]  # added tokens that are not special, in Qwen3 too

END_OF_TEXT, IM_START, IM_END = range(959, 962)

CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}"
    "{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}"
    "{{- '<think>\\n\\n</think>\\n\\n' }}"
    "{%- endif %}"
    "{%- endif %}"
)


def _added(token: int, text: str, special: bool) -> dict:
    return {"id": token, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": special}


def tokenizer_json() -> dict:
    whole = json.loads(_BASE.read_text())
    vocab = whole["model"]["vocab"]
    for pair in _MERGES:
        vocab["".join(pair)] = len(vocab)
        whole["model"]["merges"].append(pair)
    names = _SPECIAL + _PLAIN
    whole["added_tokens"] = [
        _added(len(vocab) + index, name, name in _SPECIAL) for index, name in enumerate(names)
    ]
    whole["post_processor"] = {
        "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False,
    }
    ids = {token["content"]: token["id"] for token in whole["added_tokens"]}
    if [ids[name] for name in _SPECIAL] != [END_OF_TEXT, IM_START, IM_END]:
        raise ValueError("the special tokens have moved")
    return whole


def config_json() -> dict:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "add_bos_token": False,
        "model_max_length": 1024,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }


def write(folder: Path) -> None:
    for name, value in (("tokenizer.json", tokenizer_json()), ("tokenizer_config.json", config_json())):
        (folder / name).write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", "utf-8")
