#!/usr/bin/env python3
"""Writes the tiny models of the golden tests: make_models.py OUTDIR [--update].

The files are the same on every machine; they are checked against tests/golden/models.sha256 after writing
(--update rewrites that list instead). Needs only requirements-models.txt.
"""

import packages  # noqa: F401, I001

import argparse
import hashlib
import sys
from pathlib import Path

import adapter_models
import bidirectional_models
import dense_models
import expert_models
import gguf_edges
import gguf_models
import gpt_oss_models
import hf_models
import hybrid_models
import quantised_models
import window_models
from bidirectional_configs import BIDIRECTIONAL
from dense_configs import DENSE
from expert_configs import EXPERTS
from gguf_configs import GGUF_MODELS
from gpt_oss_configs import GPT_OSS
from hf_configs import MODELS
from hybrid_configs import HYBRIDS
from window_configs import WINDOWED

MANIFEST = Path(__file__).resolve().parents[2] / "tests" / "golden" / "models.sha256"


def manifest(folder: Path, paths: list[Path]) -> str:
    """One "hash  path" line for each file, as sha256sum prints them."""
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        for path in sorted(paths)
    )


def write_all(folder: Path) -> list[Path]:
    """Writes every model under `folder`, each into a fresh place; returns the files."""
    written = []
    for name, model in MODELS.items():
        place = folder / name
        for old in place.glob("*"):
            old.unlink()
        hf_models.write(place, name, model)
        written += place.iterdir()
    for name, model in GGUF_MODELS.items():
        path = folder / f"{name}.gguf"
        gguf_models.write(path, name, model)
        written.append(path)
    formats = (
        (HYBRIDS, hybrid_models), (DENSE, dense_models), (EXPERTS, expert_models), (WINDOWED, window_models),
        (GPT_OSS, gpt_oss_models),
    )  # fmt: skip
    for configs, writer in formats:
        for name, model in configs.items():
            place = folder / name
            for old in place.glob("*"):
                old.unlink()
            writer.write(place, name, model)
            written += place.iterdir()
            if model.gguf not in (None, False):
                path = folder / f"{name}.gguf"
                writer.write_gguf(path, name, model)
                written.append(path)
    for name, model in BIDIRECTIONAL.items():
        for old in (folder / name).rglob("*"):
            if old.is_file():
                old.unlink()
        written += bidirectional_models.write(folder / name, name, model)
        if model.gguf:
            path = folder / f"{name}.gguf"
            bidirectional_models.write_gguf(path, name, model)
            written.append(path)
    for name in quantised_models.QUANTISED:
        quantised_models.write(folder, name)
        written += [path for place in (name, f"{name}-plain") for path in (folder / place).iterdir()]
    for name, adapter in adapter_models.ADAPTERS.items():
        for old in (folder / name).glob("*"):
            old.unlink()
        adapter_models.write(folder, name, adapter)
        written += (folder / name).iterdir()
    edges = folder / "edges.gguf"
    gguf_edges.write(edges)
    return [*written, edges]


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the tiny models of the golden tests.")
    parser.add_argument("outdir", type=Path)
    parser.add_argument("--update", action="store_true", help="rewrite the list of hashes instead of checking it")
    arguments = parser.parse_args()
    arguments.outdir.mkdir(parents=True, exist_ok=True)
    found = manifest(arguments.outdir, write_all(arguments.outdir))
    if arguments.update:
        MANIFEST.write_text(found)
        return 0
    differing = sorted(set(found.splitlines()) ^ set(MANIFEST.read_text().splitlines()))
    for line in differing:
        print(f"make_models: hash differs: {line}", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
