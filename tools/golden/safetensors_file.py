"""Writes .safetensors files: eight bytes of header length, a JSON header, the tensors back to back."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np


def to_bf16_bits(values: np.ndarray) -> np.ndarray:
    """bfloat16 bit patterns of finite float32 values, rounded to nearest, ties to even."""
    bits = values.astype("<f4").view("<u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


_ENCODE = {
    "F32": lambda values: values.astype("<f4"),
    "F16": lambda values: values.astype("<f2"),
    "BF16": to_bf16_bits,
}


@dataclass
class Stored:
    """A tensor as a file has it."""

    dtype: str
    array: np.ndarray  # of its bytes: uint16 for BF16, uint8 for F8_E4M3


def stored(values: np.ndarray, dtype: str) -> Stored:
    return Stored(dtype, _ENCODE[dtype](values))


def as_float32(tensor: Stored) -> np.ndarray:
    """The values of a tensor of F32, F16 or BF16."""
    if tensor.dtype == "BF16":
        return (tensor.array.astype("<u4") << 16).view("<f4")
    return tensor.array.astype("<f4")


def write(path: Path, tensors: dict[str, np.ndarray | Stored], dtype: str) -> int:
    """Writes `tensors`, float32 ones as `dtype`, in the order given; returns the size of the data part."""
    header = {"__metadata__": {"format": "pt"}}
    chunks = []
    end = 0
    for name, values in tensors.items():
        tensor = values if isinstance(values, Stored) else stored(values, dtype)
        chunk = tensor.array.tobytes()
        offsets = [end, end + len(chunk)]
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.array.shape), "data_offsets": offsets}
        end += len(chunk)
        chunks.append(chunk)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(chunks))
    return end
