"""Tokenizers in GGUF files, text/tests/fixtures/NAME.gguf, and what the package `sentencepiece` makes of texts.

The vocabularies are those of text_fixtures, so the files are the same on every machine; the package `gguf` writes them.
A GGUF file is read as llama.cpp reads it: tokens that are found in a text before it is cut split the text, the longest
first, and each part is a text of its own.
"""

import hashlib
import json
import math
import re
import tempfile
import unicodedata
from pathlib import Path

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

import text_fixtures
import text_strings

_SPACE = "\u2581"
_Type = gguf.TokenType
_FIXTURES = text_strings.ROOT / "text" / "tests" / "fixtures"


class Pieces:
    """Tokens in the order of their ids, with scores and types."""

    def __init__(self, model: str, **settings) -> None:
        self.model, self.settings = model, settings
        self.texts, self.scores, self.types = [], [], []

    def add(self, text: str, score: float = 0.0, kind: int = _Type.NORMAL) -> None:
        self.texts.append(text)
        self.scores.append(float(score))
        self.types.append(int(kind))

    def write(self, path: Path) -> None:
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_tokenizer_model(self.model)
        writer.add_token_list(self.texts)
        if self.model != "bert":
            writer.add_token_scores(self.scores)
        writer.add_token_types(self.types)
        for key, value in self.settings.items():
            getattr(writer, f"add_{key}")(value)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()


_CONTROL = ["<|im_end|>"]
_USER_DEFINED = ["<think>", "\n\n", "    ", _SPACE * 16]
# Texts with these are not decoded: behind them begins a text of its own, with a space in front that decoding keeps.
_SPLITTING = [text.replace(_SPACE, " ") for text in _USER_DEFINED]


def _merged(name: str) -> tuple[list[str], list[str]]:
    """The characters of a fixture's vocabulary and the pieces that its merges make, most frequent first."""
    model = text_fixtures.FIXTURES[name]()["model"]
    longer = list(dict.fromkeys(left + right for left, right in model["merges"]))
    letters = [token for token in model["vocab"] if len(token) == 1]
    return letters, [token for token in longer if len(token) > 1 and token not in _CONTROL + _USER_DEFINED]


def llama_spm() -> Pieces:
    """Llama 2: a space in front, bytes, and every kind of token."""
    pieces = Pieces("llama", add_space_prefix=True, bos_token_id=1, eos_token_id=2, unk_token_id=0,
                    add_bos_token=True, add_eos_token=False,
                    chat_template="{{ bos_token }}{% for m in messages %}[INST] {{ m.content }} [/INST]{% endfor %}")
    pieces.add("<unk>", kind=_Type.UNKNOWN)
    pieces.add("<s>", kind=_Type.CONTROL)
    pieces.add("</s>", kind=_Type.CONTROL)
    for byte in range(256):
        pieces.add(f"<0x{byte:02X}>", kind=_Type.BYTE)
    letters, longer = _merged("llama2")
    for rank, text in enumerate(longer):
        # Unused ones are where a merge leads to another piece.
        pieces.add(text, -rank, _Type.UNUSED if rank % 41 == 7 else _Type.NORMAL)
    for rank, text in enumerate(letters):
        pieces.add(text, -len(longer) - rank)
    for text in _CONTROL:
        pieces.add(text, kind=_Type.CONTROL)
    for text in _USER_DEFINED:
        pieces.add(text, kind=_Type.USER_DEFINED)
    return pieces


def gemma_spm() -> Pieces:
    """No space in front, many pieces of one score, no bytes."""
    pieces = Pieces("llama", add_space_prefix=False, bos_token_id=2, eos_token_id=1, unk_token_id=3,
                    add_bos_token=True, add_eos_token=True)
    for text, kind in (("<pad>", _Type.CONTROL), ("</s>", _Type.CONTROL), ("<s>", _Type.CONTROL), ("<unk>", _Type.UNKNOWN)):
        pieces.add(text, kind=kind)
    letters, longer = _merged("llama2")
    known = set(longer)
    runs = [letter * count for letter in "a-=.0\u2581" for count in range(2, 9) if letter * count not in known]
    for rank, text in enumerate(longer + runs):
        pieces.add(text, -math.floor(rank / 40))
    for text in letters:
        pieces.add(text, -1000)
    return pieces


def _rules() -> dict[str, str]:
    """Some of NFKC and a little more: what is replaced by less, by more and by nothing, in one step and in several."""
    ranges = [(0xA0, 0xFF), (0x2000, 0x206F), (0x2100, 0x214F), (0x3000, 0x3001), (0xFB00, 0xFB06), (0xFF00, 0xFFEF)]
    rules = {chr(c): unicodedata.normalize("NFKC", chr(c)) for first, last in ranges for c in range(first, last + 1)}
    rules |= {letter + mark: unicodedata.normalize("NFC", letter + mark) for letter in "aceinou" for mark in "\u0300\u0301\u0308"}
    rules |= {"\u0301": "", "\ufeff": "", "\u200b": "", "\t": " ", "\n": " ", "\r": " ", "\r\n": " ", "...": "\u2026", "ae": "\u00e6  "}
    rules |= {chr(c): "" for c in [*range(1, 9), *range(14, 32)]}
    return {key: new for key, new in rules.items() if key != new}


def charsmap() -> bytes:
    def numbers(text: str) -> str:
        return " ".join(f"{ord(c):X}" for c in text)

    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        file.writelines(f"{numbers(key)}\t{numbers(new)}\n" for key, new in sorted(_rules().items()))
        file.flush()
        proto = sentencepiece.SentencePieceNormalizer(rule_tsv=file.name).serialized_model_proto()
    return sentencepiece_model_pb2.ModelProto.FromString(proto).normalizer_spec.precompiled_charsmap


def _unigram(pieces: Pieces, unused: bool) -> Pieces:
    for rank, (text, score) in enumerate(text_fixtures.unigram()["model"]["vocab"][3:]):
        if text not in _CONTROL + _USER_DEFINED:
            pieces.add(text, score, _Type.UNUSED if unused and rank % 29 == 3 else _Type.NORMAL)
    for text in _CONTROL:
        pieces.add(text, kind=_Type.CONTROL)
    for text in _USER_DEFINED:
        pieces.add(text, kind=_Type.USER_DEFINED)
    return pieces


def t5_spm() -> Pieces:
    """T5: characters replaced, spaces made one, </s> behind."""
    pieces = Pieces("t5", add_space_prefix=True, remove_extra_whitespaces=True, precompiled_charsmap=charsmap(),
                    bos_token_id=0, eos_token_id=1, unk_token_id=2, add_bos_token=False, add_eos_token=True)
    for text, kind in (("<pad>", _Type.CONTROL), ("</s>", _Type.CONTROL), ("<unk>", _Type.UNKNOWN)):
        pieces.add(text, kind=kind)
    return _unigram(pieces, unused=True)


def bytes_spm() -> Pieces:
    """Unigram with bytes; the text as it is."""
    pieces = Pieces("t5", add_space_prefix=True, remove_extra_whitespaces=False, bos_token_id=1, eos_token_id=2,
                    unk_token_id=0, add_bos_token=True, add_eos_token=True)
    for text, kind in (("<unk>", _Type.UNKNOWN), ("<s>", _Type.CONTROL), ("</s>", _Type.CONTROL)):
        pieces.add(text, kind=kind)
    for byte in range(256):
        pieces.add(f"<0x{byte:02X}>", kind=_Type.BYTE)
    return _unigram(pieces, unused=False)


def wordpiece() -> Pieces:
    """BERT, in the spelling of GGUF files. The answers are those of wordpiece.json."""
    pieces = Pieces("bert", bos_token_id=2, sep_token_id=3, pad_token_id=0, mask_token_id=4, unk_token_id=1)
    for text in text_fixtures.wordpiece()["model"]["vocab"]:
        special = text.startswith("[") and text.endswith("]") and len(text) > 2
        spelt = text if special else text.removeprefix("##") if text.startswith("##") else _SPACE + text
        pieces.add(spelt, kind=_Type.CONTROL if special else _Type.NORMAL)
    return pieces


GGUF = {"llama-spm": llama_spm, "gemma-spm": gemma_spm, "t5-spm": t5_spm, "bytes-spm": bytes_spm}


class Reference:
    """What `sentencepiece` makes of a text with these pieces."""

    def __init__(self, pieces: Pieces) -> None:
        model = sentencepiece_model_pb2.ModelProto()
        for text, score, kind in zip(pieces.texts, pieces.scores, pieces.types):
            # Those that split a text are found in it as it is, with spaces. The numbers of the types are GGUF's too.
            spelt = text.replace(_SPACE, " ") if kind == _Type.USER_DEFINED else text
            model.pieces.add(piece=spelt, score=score, type=kind)
        unigram = pieces.model == "t5"
        model.trainer_spec.model_type = model.trainer_spec.UNIGRAM if unigram else model.trainer_spec.BPE
        model.trainer_spec.byte_fallback = int(_Type.BYTE) in pieces.types
        model.normalizer_spec.name = "gguf"
        model.normalizer_spec.precompiled_charsmap = pieces.settings.get("precompiled_charsmap", b"")
        model.normalizer_spec.add_dummy_prefix = pieces.settings["add_space_prefix"]
        model.normalizer_spec.remove_extra_whitespaces = pieces.settings.get("remove_extra_whitespaces", False)
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
        self._ids = {}
        self._special = []
        for token, (text, kind) in enumerate(zip(pieces.texts, pieces.types)):
            if kind == _Type.USER_DEFINED:
                self._ids[text.replace(_SPACE, " ")] = token
            elif kind in (_Type.CONTROL, _Type.UNKNOWN):
                self._ids[text] = token
                self._special.append(text)
        settings = pieces.settings
        self._front = [settings["bos_token_id"]] if settings["add_bos_token"] else []
        self._back = [settings["eos_token_id"]] if settings["add_eos_token"] else []

    def encode(self, text: str, special: bool, literal: bool) -> list[int]:
        found = [token for token in self._ids if not (literal and token in self._special)]
        longest_first = "|".join(re.escape(token) for token in sorted(found, key=len, reverse=True))
        parts = re.split(f"({longest_first})", text) if found else [text]
        ids = []
        for index, part in enumerate(parts):
            if index % 2:
                ids.append(self._ids[part])
            elif part:
                ids += self._processor.encode(part)
        return [*self._front, *ids, *self._back] if special else ids

    def decode(self, ids: list[int]) -> str:
        """The text of a list without special tokens."""
        return self._processor.decode(ids)

    @property
    def spells_all(self) -> bool:
        return self._processor.piece_size() > 256 and self._processor.is_byte(self._processor.piece_to_id("<0x00>"))


def answer(reference: Reference, text: str) -> bytes:
    plain = reference.encode(text, special=False, literal=False)
    around = reference.encode(text, special=True, literal=False)
    literal = reference.encode(text, special=False, literal=True)
    lists = ";".join(",".join(map(str, ids)) for ids in (plain, around, literal))
    decoded = reference.spells_all and not any(mark in text for mark in _SPLITTING)
    return f"{lists};{reference.decode(literal) if decoded else ''}\n".encode()


def references() -> dict[str, Reference]:
    return {name: Reference(make()) for name, make in GGUF.items()}


def write_fixtures(folder: Path) -> None:
    for name, make in {**GGUF, "wordpiece": wordpiece}.items():
        make().write(folder / f"{name}.gguf")


def write(path: Path) -> None:
    texts = text_strings.texts()
    blocks = [texts[at : at + text_strings.BLOCK] for at in range(0, len(texts), text_strings.BLOCK)]
    with path.open("w", encoding="utf-8") as out:
        for name, reference in references().items():
            hashes = [hashlib.sha256(b"".join(answer(reference, t) for t in block)).hexdigest()[:16] for block in blocks]
            out.write(json.dumps({"name": name, "blocks": hashes}) + "\n")
