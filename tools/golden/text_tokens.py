"""What the Python package `tokenizers` makes of the texts of text_strings: one hash for each 100 of them.

For each text: ids and offsets (in bytes) without and with the tokens around a text and with special tokens taken
literally, and the text decoded from the ids without and with special tokens.
"""

import hashlib
import json
from pathlib import Path

from tokenizers import Tokenizer

import smollm2
import text_fixtures
import text_qwen3
import text_strings

ROOT = text_strings.ROOT
SMOLLM2 = ROOT / "build" / "models" / smollm2.FILE


def tokenizers() -> dict[str, Tokenizer]:
    folder = ROOT / "text" / "tests" / "fixtures"
    found = {name: Tokenizer.from_file(str(folder / f"{name}.json")) for name in text_fixtures.FIXTURES}
    found["smollm2"] = smollm2.tokenizer(SMOLLM2)
    found["qwen3"] = Tokenizer.from_file(str(text_qwen3.fetch() / "tokenizer.json"))
    return found


def _numbers(text: str, encoding) -> str:
    """Ids and offsets; the package counts offsets in characters."""
    at = [0]
    for character in text:
        at.append(at[-1] + len(character.encode()))
    ids = ",".join(map(str, encoding.ids))
    offsets = ",".join(f"{at[begin]}-{at[end]}" for begin, end in encoding.offsets)
    return f"{ids};{offsets}"


def answer(tokenizer: Tokenizer, text: str) -> bytes:
    tokenizer.encode_special_tokens = False
    plain = tokenizer.encode(text, add_special_tokens=False)
    around = tokenizer.encode(text, add_special_tokens=True)
    tokenizer.encode_special_tokens = True
    literal = tokenizer.encode(text, add_special_tokens=False)
    parts = [_numbers(text, encoding) for encoding in (plain, around, literal)]
    parts += [tokenizer.decode(around.ids, skip_special_tokens=skip) for skip in (False, True)]
    return "\n".join(parts).encode() + b"\n"


def write(path: Path) -> None:
    texts = text_strings.texts()
    lines = []
    blocks = [texts[at : at + text_strings.BLOCK] for at in range(0, len(texts), text_strings.BLOCK)]
    hashes = [hashlib.sha256("".join(block).encode()).hexdigest()[:16] for block in blocks]
    lines.append(json.dumps({"name": "texts", "blocks": hashes}))
    for name, tokenizer in tokenizers().items():
        hashes = [hashlib.sha256(b"".join(answer(tokenizer, t) for t in block)).hexdigest()[:16] for block in blocks]
        lines.append(json.dumps({"name": name, "blocks": hashes}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
