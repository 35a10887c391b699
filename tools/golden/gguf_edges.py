"""Writes a GGUF file of edge cases for dequantisation: no model, only one tensor of each type.

Quantised blocks are uniform bytes under extreme float16 scales (subnormal, huge, negative, signed zero); F16
holds every pattern that is not NaN, BF16 every pattern.
"""

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter

import prng

_SCALES = np.array(
    [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x2E66, 0xAE66, 0x3C00, 0xBC00, 0x3555, 0x7BFF, 0xFBFF],
    dtype="<u2",
)
# Type: bytes of a block, offsets of its float16 scales, blocks in a row.
_BLOCKS = {
    "Q8_0": (34, [0], 13),
    "Q4_0": (18, [0], 13),
    "Q4_1": (20, [0, 2], 13),
    "Q5_0": (22, [0], 13),
    "Q5_1": (24, [0, 2], 13),
    "Q2_K": (84, [80, 82], 3),
    "Q3_K": (110, [108], 3),
    "Q4_K": (144, [0, 2], 3),
    "Q5_K": (176, [0, 2], 3),
    "Q6_K": (210, [208], 3),
    "IQ4_NL": (18, [0], 13),
    "IQ4_XS": (136, [0], 3),
    "MXFP4": (17, [], 13),
}
_ROWS = 13


def write(path: Path) -> None:
    writer = GGUFWriter(path, "llama")
    for kind, (size, scales_at, per_row) in _BLOCKS.items():
        count = _ROWS * per_row
        blocks = prng.raw_bytes(f"edges/{kind}", count * size).reshape(count, size)
        for turn, at in enumerate(scales_at):
            # The second scale steps at another pace, so that signs and magnitudes meet in many pairs.
            chosen = _SCALES[(np.arange(count) * (turn + 1) + np.arange(count) // 13) % len(_SCALES)]
            blocks[:, at : at + 2] = chosen.view(np.uint8).reshape(-1, 2)
        writer.add_tensor(f"edge.{kind.lower()}", blocks.reshape(_ROWS, -1), raw_dtype=GGMLQuantizationType[kind])
    patterns = np.arange(0x10000, dtype="<u2")
    halves = patterns[(patterns & 0x7FFF) <= 0x7C00].reshape(2, -1)
    writer.add_tensor("edge.f16", halves.view("<f2"), raw_dtype=GGMLQuantizationType.F16)
    brains = patterns.reshape(256, 256).view(np.uint8).reshape(256, 512)
    writer.add_tensor("edge.bf16", brains, raw_dtype=GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
