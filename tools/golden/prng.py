"""Random numbers that depend on a name and an index, and on nothing else.

Library generators may change their streams between versions, and vectorised log() and cos() differ between
processors; the golden models must not change with either. So the words are splitmix64 of a counter, and
everything made of them uses integers and correctly rounded float64 products only.
"""

import hashlib

import numpy as np

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
# Standard deviation of the sum of four uniform 16-bit integers.
_SUM_DEVIATION = (4 * (65536**2 - 1) / 12) ** 0.5


def words(name: str, count: int) -> np.ndarray:
    """`count` 64-bit words of the stream called `name`."""
    key = np.uint64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))
    z = key + np.arange(1, count + 1, dtype=np.uint64) * _STEP
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


def raw_bytes(name: str, count: int) -> np.ndarray:
    """`count` uniform bytes."""
    return words(name, (count + 7) // 8).astype("<u8").view(np.uint8)[:count].copy()


def integers(name: str, count: int, limit: int) -> np.ndarray:
    """`count` integers in [0, limit)."""
    return (words(name, count) % np.uint64(limit)).astype(np.int64)


def bell(name: str, shape: tuple[int, ...], deviation: float, mean: float = 0.0) -> np.ndarray:
    """Float32 array of roughly normal numbers (a sum of four uniforms: bounded by 3.5 deviations)."""
    count = int(np.prod(shape))
    quarters = words(name, count).astype("<u8").view("<u2").reshape(count, 4).astype(np.int64)
    centred = (quarters.sum(axis=1) - 2 * 65535).astype(np.float64)
    return (mean + centred * (deviation / _SUM_DEVIATION)).astype(np.float32).reshape(shape)
