"""Writes tests/model/dequant_fixture.json: random blocks of every GGUF type and the f32 bits the `gguf` package makes
of them. Unlike dequantized.json it needs no model files, so the tests of the decoder always run.

    python dequant_fixture.py OUTFILE      (needs requirements-models.txt)

Blocks are uniform bytes; their float16 scales are uniform over all finite patterns, subnormal ones included.
"""

import packages  # noqa: F401, I001

import json
import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

import prng

# Type: bytes of a block, offsets of its float16 scales, number of blocks.
_TYPES = {
    "F16": (2, [0], 64),
    "BF16": (2, [], 64),
    "Q8_0": (34, [0], 24),
    "Q4_0": (18, [0], 24),
    "Q4_1": (20, [0, 2], 24),
    "Q5_0": (22, [0], 24),
    "Q5_1": (24, [0, 2], 24),
    "Q2_K": (84, [80, 82], 6),
    "Q3_K": (110, [108], 6),
    "Q4_K": (144, [0, 2], 6),
    "Q5_K": (176, [0, 2], 6),
    "Q6_K": (210, [208], 6),
    "IQ4_NL": (18, [0], 24),
    "IQ4_XS": (136, [0], 6),
    "MXFP4": (17, [], 24),
}
_FINITE = 0x7C00  # float16 magnitudes below it are finite


def blocks_of(kind: str) -> np.ndarray:
    size, scales_at, count = _TYPES[kind]
    blocks = prng.raw_bytes(f"fixture/{kind}", count * size).reshape(count, size)
    for at in scales_at:
        magnitude = prng.integers(f"fixture/{kind}/{at}", count, _FINITE)
        sign = prng.integers(f"fixture/{kind}/{at}/sign", count, 2) << 15
        blocks[:, at : at + 2] = (magnitude | sign).astype("<u2").view(np.uint8).reshape(-1, 2)
    if kind == "MXFP4":
        blocks[:4, 0] = [0, 1, 2, 255]  # scales: the ends, and where subnormal ones begin
    if kind == "BF16":
        blocks[:, 1] &= 0xBF  # no infinities and NaNs: NaN payloads are nobody's promise
    return blocks


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print("usage: dequant_fixture.py OUTFILE", file=sys.stderr)
        return 2
    fixture = {}
    for kind in _TYPES:
        blocks = blocks_of(kind)
        values = dequantize(blocks.reshape(-1), GGMLQuantizationType[kind]).astype("<f4")
        fixture[kind] = {"blocks": blocks.tobytes().hex(), "values": values.tobytes().hex()}
    Path(sys.argv[1]).write_text(json.dumps(fixture, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
