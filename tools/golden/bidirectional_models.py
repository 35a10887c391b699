"""Writes the tiny bidirectional models as they are published: a Hugging Face directory with what stands behind the body."""

import json
from pathlib import Path

import numpy as np

import prng
import safetensors_file
import window_models
from bidirectional_configs import TinyBidirectional, config_json

_POOLING = {"mean": "pooling_mode_mean_tokens", "last": "pooling_mode_lasttoken", "first": "pooling_mode_cls_token"}


def body_weights(name: str, model: TinyBidirectional) -> dict[str, np.ndarray]:
    """The tensors of the body, by the names that they have in a whole language model."""
    found = window_models.weights(name, model.body)
    return {tensor: values for tensor, values in found.items() if tensor.startswith("model.")}


def head_weights(name: str, model: TinyBidirectional) -> np.ndarray:
    values = prng.bell(f"{name}/score", (model.labels, model.body.hidden), 0.3)
    if model.body.dtype == "BF16":  # as the file holds them
        values = (safetensors_file.to_bf16_bits(values).astype(np.uint32) << 16).view(np.float32)
    return values


def dense_weights(name: str, model: TinyBidirectional) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """Weight and bias of each Dense layer."""
    found, width = [], model.body.hidden
    for i, layer in enumerate(model.dense):
        weight = prng.bell(f"{name}/dense/{i}/weight", (layer.size, width), 1 / width**0.5)
        bias = prng.bell(f"{name}/dense/{i}/bias", (layer.size,), 0.2) if layer.bias else None
        found.append((weight, bias))
        width = layer.size
    return found


def _write_json(path: Path, value: dict | list) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n")


def write(folder: Path, name: str, model: TinyBidirectional) -> list[Path]:
    """Writes the directory; returns its files."""
    _write_json(folder / "config.json", config_json(model))
    tensors = body_weights(name, model)
    if not model.wrapped:
        tensors = {tensor.removeprefix("model."): values for tensor, values in tensors.items()}
    if model.labels:
        tensors["score.weight"] = head_weights(name, model)
    safetensors_file.write(folder / "model.safetensors", tensors, model.body.dtype)
    if not model.labels:
        _write_modules(folder, name, model)
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def write_gguf(path: Path, name: str, model: TinyBidirectional) -> None:
    """The same embedder as llama.cpp's converter writes it."""
    dense = {f"dense_{i + 2}.weight": weight for i, (weight, _) in enumerate(dense_weights(name, model))}
    window_models.write_gguf(path, name, model.body, "gemma-embedding", dense)


def _write_modules(folder: Path, name: str, model: TinyBidirectional) -> None:
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
    _write_json(folder / "1_Pooling" / "config.json",
                {"word_embedding_dimension": model.body.hidden}
                | {key: way == model.pooling for way, key in _POOLING.items()})
    width = model.body.hidden
    for i, (layer, (weight, bias)) in enumerate(zip(model.dense, dense_weights(name, model), strict=True)):
        place = f"{i + 2}_Dense"
        modules.append(("Dense", place))
        _write_json(folder / place / "config.json",
                    {"in_features": width, "out_features": layer.size, "bias": layer.bias,
                     "activation_function": layer.activation})
        tensors = {"linear.weight": weight} | ({"linear.bias": bias} if layer.bias else {})
        safetensors_file.write(folder / place / "model.safetensors", tensors, "F32")
        width = layer.size
    modules.append(("Normalize", f"{len(modules)}_Normalize"))
    _write_json(folder / "modules.json", [
        {"idx": i, "name": str(i), "path": place, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, place) in enumerate(modules)
    ])
