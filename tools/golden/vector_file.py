"""The two files of a golden set: NAME.bin, an array of little-endian float32, and NAME.json, its index."""

import json
from pathlib import Path

import numpy as np


class VectorWriter:
    """Collects arrays; the index refers to them by element offset."""

    def __init__(self) -> None:
        self._chunks: list[np.ndarray] = []
        self._count = 0

    def add(self, values: np.ndarray) -> int:
        """Appends an array, row-major; returns the offset of its first element."""
        flat = np.ascontiguousarray(values, dtype="<f4").ravel()
        if not np.isfinite(flat).all():
            raise ValueError("golden values must be finite")
        self._chunks.append(flat)
        self._count += flat.size
        return self._count - flat.size

    def save(self, folder: Path, name: str, index: dict) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        np.concatenate(self._chunks).tofile(folder / f"{name}.bin")
        save_json(folder / f"{name}.json", index | {"floats": self._count})


def save_json(path: Path, value: dict) -> None:
    """JSON with one line for each innermost list: long lists of ids stay readable in a diff."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_text(value, 0) + "\n")


def _text(value, depth: int) -> str:
    pad = "  " * (depth + 1)
    if isinstance(value, dict) and value:
        lines = [f"{pad}{json.dumps(key)}: {_text(item, depth + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + "\n" + "  " * depth + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(pad + _text(item, depth + 1) for item in value) + "\n" + "  " * depth + "]"
    return json.dumps(value)
