"""The texts that tokenizers are compared on.

text/tests/support/strings.rs makes the same texts from the same integers, so that neither texts nor ids are
committed: only hashes. All choices are splitmix64 words of a stream named after the text; pieces come from
tests/golden/text/pieces.jsonl.
"""

import hashlib
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PIECES = ROOT / "tests" / "golden" / "text" / "pieces.jsonl"
COUNT = 10_000
BLOCK = 100  # texts of one hash

_MASK = (1 << 64) - 1
# Scalar values by script and kind; no range holds a surrogate.
RANGES = [
    (0x0000, 0x001F), (0x0020, 0x007E), (0x007F, 0x00FF), (0x0100, 0x024F), (0x0300, 0x036F), (0x0370, 0x03FF),
    (0x0400, 0x052F), (0x0590, 0x06FF), (0x0900, 0x0D7F), (0x0E00, 0x0FFF), (0x1100, 0x11FF), (0x1D00, 0x1FFF),
    (0x2000, 0x206F), (0x2070, 0x2BFF), (0x3000, 0x30FF), (0x3400, 0x9FFF), (0xAC00, 0xD7A3), (0xE000, 0xF8FF),
    (0xF900, 0xFFFF), (0x10000, 0x12FFF), (0x1D400, 0x1D7FF), (0x1F000, 0x1FAFF), (0x20000, 0x2FA1F),
    (0xE0000, 0xE01EF), (0x10FF00, 0x10FFFF),
]
DENSE = " \t\n\r.,;:'\"!?()[]{}<>|/\\_-+=*&^%$#@~`0123456789aAzZ"


class Stream:
    """64-bit words that depend on a name only."""

    def __init__(self, name: str) -> None:
        self.state = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")

    def below(self, limit: int) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & _MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return (z ^ (z >> 31)) % limit

    def pick(self, items):
        return items[self.below(len(items))]


def pieces() -> dict[str, list[str]]:
    lines = PIECES.read_text(encoding="utf-8").splitlines()
    return {entry["name"]: entry["pieces"] for entry in map(json.loads, lines)}


def _scalar(stream: Stream) -> str:
    first, last = stream.pick(RANGES)
    return chr(first + stream.below(last - first + 1))


def _mixture(stream: Stream, groups: list[list[str]], count: int) -> str:
    text = ""
    for _ in range(count):
        text += stream.pick(stream.pick(groups))
        if stream.below(2):
            text += " "
    return text


def text(index: int, by_name: dict[str, list[str]]) -> str:
    groups = list(by_name.values())
    stream = Stream(f"text {index}")
    if index % 1000 == 999:  # long ones
        part = _mixture(stream, groups, 40)
        size = 200_000 if index == COUNT - 1 else 4_000 * (index // 1000 + 1)
        return part * (size // len(part.encode()) + 1)
    match index % 10:
        case 4:
            return "".join(_scalar(stream) for _ in range(stream.below(40)))
        case 5:
            return "".join(stream.pick(DENSE) for _ in range(stream.below(80)))
        case 6:
            return _mixture(stream, [by_name["special"], stream.pick(groups)], stream.below(12))
        case 7:
            return stream.pick(stream.pick(groups)) * stream.below(100)
        case 8:
            words, marks = by_name["words"], by_name["marks"]
            return "".join(stream.pick(words) + stream.pick(marks) * stream.below(4) for _ in range(stream.below(16)))
        case _:
            return _mixture(stream, groups, stream.below(25))


def texts() -> list[str]:
    by_name = pieces()
    return [text(index, by_name) for index in range(COUNT)]
