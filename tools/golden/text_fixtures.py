"""Small tokenizers of our own in the shapes that real models have: text/tests/fixtures/NAME.json.

Vocabularies come from our own texts by plain counting, so the files are the same on every machine.
"""

import json
import math
from collections import Counter
from pathlib import Path

from tokenizers import Regex, normalizers, pre_tokenizers

import text_strings
from smollm2_prompts import TEXTS

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_MERGES = 700
_SPACE = "\u2581"


def _corpus() -> list[str]:
    groups = text_strings.pieces()
    lines = list(TEXTS.values()) * 2
    for name, pieces in groups.items():
        if name not in ("special", "control"):
            lines += [piece + " " + piece for piece in pieces]
    return lines


def _merge_pairs(words: Counter, count: int) -> list[tuple[str, str]]:
    """The pairs that byte pair encoding joins, most frequent first, then in the order of the alphabet."""
    splits = {word: list(word) for word in words}
    merges = []
    for _ in range(count):
        pairs = Counter()
        for word, parts in splits.items():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += words[word]
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        if pairs[best] < 2:
            break
        merges.append(best)
        for word, parts in splits.items():
            joined = []
            for part in parts:
                if joined and (joined[-1], part) == best:
                    joined[-1] += part
                else:
                    joined.append(part)
            splits[word] = joined
    return merges


def _added(vocab: dict[str, int], *names: str, **flags) -> list[dict]:
    """Entries of added_tokens; tokens that are not yet in the vocabulary get the next ids."""
    entries = []
    following = max(vocab.values()) + 1
    for name in names:
        if name in vocab:
            token = vocab[name]
        else:
            token, following = following, following + 1
        entries.append({"id": token, "content": name, "single_word": False, "lstrip": False, "rstrip": False,
                        "normalized": False, "special": True, **flags})
    return entries


def _file(**parts) -> dict:
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
             "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": None}
    return {**whole, **parts}


def _template(front: list[tuple[str, int]], back: list[tuple[str, int]]) -> dict:
    def special(name):
        return {"SpecialToken": {"id": name, "type_id": 0}}

    def sequence(which, kind):
        return {"Sequence": {"id": which, "type_id": kind}}

    before, after = [special(name) for name, _ in front], [special(name) for name, _ in back]
    return {
        "type": "TemplateProcessing",
        "single": [*before, sequence("A", 0), *after],
        "pair": [*before, sequence("A", 0), *after, sequence("B", 1), *after],
        "special_tokens": {name: {"id": name, "ids": [token], "tokens": [name]} for name, token in front + back},
    }


def _byte_level(**flags) -> dict:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True, **flags}


def _byte_level_model(splitter, **flags) -> dict:
    words = Counter()
    for line in _corpus():
        words.update(word for word, _ in splitter.pre_tokenize_str(line))
    merges = _merge_pairs(words, _MERGES)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: index for index, token in enumerate([*letters, *dict.fromkeys(a + b for a, b in merges)])}
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": vocab, "merges": [list(pair) for pair in merges], **flags}


def llama3() -> dict:
    """Llama 3: its own regex, whole words before merges, bos in front."""
    splitter = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    model = _byte_level_model(splitter, ignore_merges=True)
    # A word that no merge leads to: only ignore_merges finds it.
    model["vocab"]["\u0120tokens"] = max(model["vocab"].values()) + 1
    added = _added(model["vocab"], "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
                   "<|end_header_id|>", "<|eot_id|>")
    added += [{**entry, "id": added[-1]["id"] + 1 + index, "special": False}
              for index, entry in enumerate(_added(model["vocab"], "<think>", "</think>"))]
    split = {"type": "Split", "pattern": {"Regex": LLAMA3}, "behavior": "Isolated", "invert": False}
    return _file(
        added_tokens=added,
        pre_tokenizer={"type": "Sequence", "pretokenizers": [split, _byte_level(use_regex=False)]},
        post_processor={"type": "Sequence", "processors": [
            _byte_level(add_prefix_space=True, trim_offsets=False),
            _template([("<|begin_of_text|>", added[0]["id"])], []),
        ]},
        decoder=_byte_level(add_prefix_space=True),
        model=model,
    )


def roberta() -> dict:
    """GPT-2's split with a space put in front, and offsets without spaces."""
    model = _byte_level_model(pre_tokenizers.ByteLevel(add_prefix_space=True))
    added = _added(model["vocab"], "<s>", "</s>", "<pad>", "<unk>")
    added += [{**entry, "id": added[-1]["id"] + 1, "lstrip": True} for entry in _added(model["vocab"], "<mask>")]
    return _file(
        added_tokens=added,
        pre_tokenizer=_byte_level(add_prefix_space=True),
        post_processor={"type": "RobertaProcessing", "sep": ["</s>", added[1]["id"]], "cls": ["<s>", added[0]["id"]],
                        "trim_offsets": True, "add_prefix_space": True},
        decoder=_byte_level(add_prefix_space=True),
        model=model,
    )


def llama2() -> dict:
    """SentencePiece's BPE: U+2581 for spaces, bytes for characters that the vocabulary lacks."""
    words = Counter()
    for line in _corpus():
        words.update(_SPACE + word for word in line.split(" ") if word)
    merges = _merge_pairs(words, _MERGES)
    letters = sorted({letter for word in words for letter in word if ord(letter) < 0x2000} | {_SPACE})
    known = set(letters)
    merges = [pair for pair in merges if all(letter in known for letter in "".join(pair))]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters]
    tokens += dict.fromkeys(a + b for a, b in merges)
    vocab = {token: index for index, token in enumerate(tokens)}
    model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
             "vocab": vocab, "merges": [list(pair) for pair in merges]}
    space = {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}
    return _file(
        added_tokens=_added(vocab, "<unk>", "<s>", "</s>"),
        normalizer={"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": _SPACE},
            {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE},
        ]},
        post_processor=_template([("<s>", 1)], []),
        decoder={"type": "Sequence", "decoders": [
            space, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]},
        model=model,
    )


def unigram() -> dict:
    """T5: normalised by NFKC, the likeliest pieces, </s> behind."""
    parts = [{"type": "Nmt"}, {"type": "NFKC"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]
    normalize = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()])
    counts = Counter()
    for line in _corpus():
        for word in normalize.normalize_str(line).split():
            word = _SPACE + word
            for begin in range(len(word)):
                for end in range(begin + 1, min(begin + 8, len(word)) + 1):
                    counts[word[begin:end]] += 1
    letters = sorted(piece for piece in counts if len(piece) == 1)
    longer = sorted((p for p in counts if len(p) > 1 and counts[p] > 3), key=lambda p: (-counts[p] * len(p), p))[:800]
    total = sum(counts[piece] for piece in letters + longer)
    scored = [[piece, round(math.log(counts[piece] / total), 4)] for piece in longer + letters]
    vocab = [["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], *scored]
    metaspace = {"type": "Metaspace", "replacement": _SPACE, "prepend_scheme": "always", "split": True}
    return _file(
        added_tokens=_added({"<pad>": 0, "</s>": 1, "<unk>": 2}, "<pad>", "</s>", "<unk>"),
        normalizer={"type": "Sequence", "normalizers": parts},
        pre_tokenizer=metaspace,
        post_processor=_template([], [("</s>", 1)]),
        decoder=metaspace,
        model={"type": "Unigram", "unk_id": 2, "vocab": vocab, "byte_fallback": False},
    )


def wordpiece() -> dict:
    """BERT: lower case, no accents, "##" inside words, [CLS] and [SEP] around."""
    normalize = normalizers.BertNormalizer()
    split = pre_tokenizers.BertPreTokenizer()
    counts = Counter()
    for line in _corpus():
        for word, _ in split.pre_tokenize_str(normalize.normalize_str(line)):
            for begin in range(len(word)):
                for end in range(begin + 1, min(begin + 8, len(word)) + 1):
                    counts[("##" if begin else "") + word[begin:end]] += 1
    single = sorted(p for p in counts if len(p.removeprefix("##")) == 1 and ord(p[-1]) < 0x3000)
    longer = sorted((p for p in counts if len(p.removeprefix("##")) > 1 and counts[p] > 3),
                    key=lambda p: (-counts[p] * len(p), p))[:800]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *single, *longer]
    vocab = {token: index for index, token in enumerate(tokens)}
    return _file(
        added_tokens=_added(vocab, "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
        normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                    "strip_accents": None, "lowercase": True},
        pre_tokenizer={"type": "BertPreTokenizer"},
        post_processor=_template([("[CLS]", 2)], [("[SEP]", 3)]),
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
        model={"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
               "max_input_chars_per_word": 100, "vocab": vocab},
    )


FIXTURES = {"llama3": llama3, "roberta": roberta, "llama2": llama2, "unigram": unigram, "wordpiece": wordpiece}


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in FIXTURES.items():
        text = json.dumps(make(), ensure_ascii=False, separators=(",", ":"))
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
