#!/usr/bin/env python3
"""Writes tests/golden/page_keys.json: keys of pages, computed from the description in src/cache/page_key.h.

tools/golden/page_keys.py > tests/golden/page_keys.json

Only hashlib and struct are used, so that a reader in any language has something to compare with.
"""

import hashlib
import json
import struct
import sys

PAGE = 32  # tokens


def field(tag: bytes, data: bytes) -> bytes:
    return tag + struct.pack("<Q", len(data)) + data


def root_key(fingerprint: bytes, name_space: list[bytes]) -> bytes:
    message = field(b"D", b"libprefix page key 1") + field(b"M", fingerprint)
    message += field(b"N", struct.pack("<Q", len(name_space)))
    message += b"".join(field(b"n", part) for part in name_space)
    return hashlib.sha256(message).digest()


def page_key(parent: bytes, tokens: list[int]) -> bytes:
    return hashlib.sha256(field(b"P", parent) + field(b"T", struct.pack(f"<{len(tokens)}i", *tokens))).digest()


def state_key(parent: bytes, tail: list[int], length: int, page: int) -> bytes:
    message = field(b"P", parent) + field(b"T", struct.pack(f"<{len(tail)}i", *tail))
    return hashlib.sha256(message + field(b"S", struct.pack("<QQ", length, page))).digest()


def case(name: str, fingerprint: bytes, name_space: list[bytes], tokens: list[int]) -> dict:
    root = root_key(fingerprint, name_space)
    keys = [root]
    for start in range(0, len(tokens), PAGE):
        keys.append(page_key(keys[-1], tokens[start : start + PAGE]))
    return {
        "name": name,
        "fingerprint": fingerprint.hex(),
        "namespace": [part.hex() for part in name_space],
        "tokens": tokens,
        "root": root.hex(),
        "pages": [key.hex() for key in keys[1:]],
        "states": [  # after all tokens, pages 0 and 1
            state_key(keys[len(tokens) // PAGE], tokens[len(tokens) // PAGE * PAGE :], len(tokens), page).hex()
            for page in range(2)
        ],
    }


def cases() -> list[dict]:
    zeros = bytes(32)
    counting = bytes(range(32))
    return [
        case("empty namespace, one token", zeros, [], [0]),
        case("empty namespace, a full page", zeros, [], list(range(32))),
        case("one token more than a page", zeros, [], list(range(33))),
        case("salt and adapter", counting, [b"tenant-1", b"adapter", b"7"], list(range(100, 200))),
        case("the same letters, divided elsewhere", counting, [b"tenant-", b"1adapter", b"7"], list(range(100, 200))),
        case("one empty part", zeros, [b""], [1, 2, 3]),
        case("bytes that are no text", counting, [bytes([0, 255, 128, 10]), b"\x00"], [-1, 2**31 - 1, -(2**31)]),
    ]


if __name__ == "__main__":
    json.dump({"page_tokens": PAGE, "cases": cases()}, sys.stdout, indent=1)
    print()
