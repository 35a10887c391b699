"""What the `gguf` package makes of every tensor, as hashes: a decoder of our own must give the same bits."""

import hashlib
from pathlib import Path

import numpy as np

import gguf_source

_FIRST = 4


def index(paths: list[Path]) -> dict:
    files = {}
    for path in paths:
        files[path.name] = {
            name: {
                "type": tensor.kind,
                "shape": list(tensor.values.shape),
                "sha256": hashlib.sha256(np.ascontiguousarray(tensor.values, dtype="<f4").tobytes()).hexdigest(),
                "first_bits": [int(bits) for bits in tensor.values.ravel()[:_FIRST].view(np.uint32)],
            }
            for name, tensor in gguf_source.tensors(path).items()
            # Norms are plain F32: one file of them shows all there is to show.
            if tensor.kind != "F32" or "-f32" in path.name
        }
    return files
