"""Values of a GGUF tensor in a block type: encoded where the `gguf` package can, random blocks otherwise.

The package has no encoder for the Q*_K and IQ4 types. Any bytes are a valid block of these as long as the scales are
sane, so the quants and the small scales are uniform bytes and the float16 scales give the wanted deviation.
"""

from dataclasses import dataclass

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import quantize

import prng


@dataclass(frozen=True)
class _Random:
    values: int
    size: int  # bytes
    scale_at: int
    # Deviation of a value whose float16 scale is 1.
    unit_deviation: float
    # Types with minima: value = d * scale * quant - dmin * min with min close to scale, and dmin, two bytes behind
    # d, is d * (mean quant), which makes the mean 0.
    mean_quant: float | None = None


# Uniform over their range are: of Q2_K scale 0..15, quant 0..3; of Q3_K scale -32..31, quant -4..3; of Q4_K and Q5_K
# scale 0..63, quant 0..15 and 0..31; of Q6_K scale -128..127, quant -32..31; of IQ4_NL and IQ4_XS the 16 numbers of
# their table, whose root mean square is 67.4, and the scale of IQ4_XS over -32..31.
_RANDOM = {
    "Q2_K": _Random(256, 84, 80, 10.1, 1.5),
    "Q3_K": _Random(256, 110, 108, 43.3),
    "Q4_K": _Random(256, 144, 0, 169.0, 7.5),
    "Q5_K": _Random(256, 176, 0, 338.0, 15.5),
    "Q6_K": _Random(256, 210, 208, 1366.0),
    "IQ4_NL": _Random(32, 18, 0, 67.4),
    "IQ4_XS": _Random(256, 136, 0, 1246.0),
}


def matrix(stream: str, shape: tuple[int, int], deviation: float, kind: str) -> np.ndarray:
    """The encoded rows of a random matrix: uint8, or float for F32 and F16."""
    if kind in _RANDOM:
        return _random_blocks(stream, shape, deviation, kind)
    return quantize(prng.bell(stream, shape, deviation), GGMLQuantizationType[kind])


def _random_blocks(stream: str, shape: tuple[int, int], deviation: float, kind: str) -> np.ndarray:
    rows, columns = shape
    block = _RANDOM[kind]
    count = rows * columns // block.values
    blocks = prng.raw_bytes(f"{stream}/blocks", count * block.size).reshape(count, block.size)
    # Scales of both signs, between half and one and a half times the wanted one.
    spread = (prng.integers(f"{stream}/scales", count, 1025) + 512).astype(np.float64) / 1024.0
    sign = 1.0 - 2.0 * prng.integers(f"{stream}/signs", count, 2)
    scale = sign * spread * (deviation / block.unit_deviation)
    at = block.scale_at
    blocks[:, at : at + 2] = _f16_bytes(scale)
    if block.mean_quant is not None:
        blocks[:, at + 2 : at + 4] = _f16_bytes(scale * block.mean_quant)
        if kind == "Q2_K":  # scale in the low, min in the high nibble of a byte
            small = blocks[:, 0:16]
            small[:] = (small & 0x3F) | ((small & 0x0C) << 4)
        else:
            _bring_mins_close(blocks[:, 4:16])
    return blocks.reshape(rows, -1)


def _bring_mins_close(packed: np.ndarray) -> None:
    """Makes the 6-bit mins of a block equal to its scales but for the two lowest bits, in place.

    With unrelated mins every 32 weights would share a large offset, and attention would fix on one token. The
    scales lie in bytes 0..3 and the low halves of bytes 8..11, the mins in bytes 4..7 and the high halves.
    """
    scales, mins, both = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    mins[:] = (scales & 0xFC) | (mins & 0x03)
    both[:] = (both & 0x3F) | ((both & 0x0C) << 4)


def _f16_bytes(values: np.ndarray) -> np.ndarray:
    return values.astype("<f2").view(np.uint8).reshape(-1, 2)
