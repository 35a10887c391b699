"""Writes .safetensors files: eight bytes of header length, a JSON header, the tensors back to back."""

import json
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


def write(path: Path, tensors: dict[str, np.ndarray], dtype: str) -> int:
    """Writes float32 `tensors` as `dtype`, in the order given; returns the size of the data part."""
    header = {"__metadata__": {"format": "pt"}}
    chunks = []
    end = 0
    for name, values in tensors.items():
        chunk = _ENCODE[dtype](values).tobytes()
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [end, end + len(chunk)]}
        end += len(chunk)
        chunks.append(chunk)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(chunks))
    return end
