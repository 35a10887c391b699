"""Values of a GGUF tensor in a block type: encoded where the `gguf` package can, random blocks otherwise.

The package has no encoder for the Q*_K types. Any bytes are a valid block of these as long as the scales are
sane, so the quants and the small scales are uniform bytes and the float16 scales give the wanted deviation.
"""

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import quantize

import prng

# Deviation of a value whose float16 scale is 1. Q4_K and Q5_K: value = d * scale * quant - dmin * min, with
# scale uniform in 0..63, min close to it, quant in 0..15 or 0..31, and dmin = d * (mean quant), which makes the
# mean 0. Q6_K: value = d * scale * quant with scale uniform in -128..127 and quant in -32..31.
_UNIT_DEVIATION = {"Q4_K": 169.0, "Q5_K": 338.0, "Q6_K": 1366.0}
_MEAN_QUANT = {"Q4_K": 7.5, "Q5_K": 15.5}
_BLOCK_BYTES = {"Q4_K": 144, "Q5_K": 176, "Q6_K": 210}
BLOCK = 256


def matrix(stream: str, shape: tuple[int, int], deviation: float, kind: str) -> np.ndarray:
    """The encoded rows of a random matrix: uint8, or float for F32 and F16."""
    if kind in _UNIT_DEVIATION:
        return _random_blocks(stream, shape, deviation, kind)
    return quantize(prng.bell(stream, shape, deviation), GGMLQuantizationType[kind])


def _random_blocks(stream: str, shape: tuple[int, int], deviation: float, kind: str) -> np.ndarray:
    rows, columns = shape
    count = rows * columns // BLOCK
    size = _BLOCK_BYTES[kind]
    blocks = prng.raw_bytes(f"{stream}/blocks", count * size).reshape(count, size)
    # Scales of both signs, between half and one and a half times the wanted one.
    spread = (prng.integers(f"{stream}/scales", count, 1025) + 512).astype(np.float64) / 1024.0
    sign = 1.0 - 2.0 * prng.integers(f"{stream}/signs", count, 2)
    scale = sign * spread * (deviation / _UNIT_DEVIATION[kind])
    if kind == "Q6_K":
        blocks[:, -2:] = _f16_bytes(scale)
    else:
        blocks[:, 0:2] = _f16_bytes(scale)
        blocks[:, 2:4] = _f16_bytes(scale * _MEAN_QUANT[kind])
        _bring_mins_close(blocks[:, 4:16])
    return blocks.reshape(rows, columns // BLOCK * size)


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
