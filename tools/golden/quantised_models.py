"""Writes tiny models with quantised weights, each beside the same model with the weights as float32.

QUANTISED has a directory for some layouts of quantised_layouts.py, NAME, and its twin NAME-plain. They differ in the
matrices of the layers only; embeddings, norms and lm_head are plain in both.
"""

import json
from pathlib import Path

import numpy as np

import hf_models
import safetensors_file
from hf_configs import TinyModel, config_json
from quantised_layouts import LAYOUTS, part_name

# Rows of 96 and 192 values are whole groups of 32; 96 is not a multiple of the blocks of 64 rows.
_MODEL = TinyModel("llama", 96, 192, 2, 3, 1, 131, spelling=5, dtype="F32", head_dim=32)
_BIAS_OF = ("q_proj", "down_proj")  # with a bias of zeros where a layout has them

_NAMES = [
    "ct-int4-group", "ct-int4-zeros", "ct-int8-channel", "ct-w8a8", "ct-fp8", "ct-mxfp4", "awq", "gptq4", "gptq4-order",
    "gptq8", "fp8-block", "fp8-block-bf16", "fp8-tensor", "mxfp4",
]
QUANTISED = {f"quantised-{name}": LAYOUTS[name] for name in _NAMES}


def write(folder: Path, name: str) -> None:
    """`folder`/NAME and `folder`/NAME-plain."""
    layout = QUANTISED[name]
    quantised: dict[str, np.ndarray | safetensors_file.Stored] = {}
    plain: dict[str, np.ndarray] = {}
    for tensor, shape in hf_models.tensor_shapes(_MODEL).items():
        values = hf_models.tensor_values(f"{name}/{tensor}", _MODEL, tensor, shape)
        if not tensor.endswith("_proj.weight"):
            quantised[tensor] = plain[tensor] = values
            continue
        weight = layout.make(f"{name}/{tensor}", *shape, float(values.std()))
        plain[tensor] = weight.values
        quantised |= {part_name(tensor, layout, part): stored for part, stored in weight.parts.items()}
        if layout.bias and any(role in tensor for role in _BIAS_OF):
            bias = np.zeros(shape[0], dtype=np.float32)
            quantised[tensor.removesuffix("weight") + "bias"] = safetensors_file.stored(bias, "F16")
    config = config_json(_MODEL)
    for place, tensors, more in (
        (folder / name, quantised, {"quantization_config": layout.config}),
        (folder / f"{name}-plain", plain, {}),
    ):
        place.mkdir(parents=True, exist_ok=True)
        for old in place.glob("*"):
            old.unlink()
        (place / "config.json").write_text(json.dumps(config | more, indent=2) + "\n")
        safetensors_file.write(place / "model.safetensors", tensors, "F32")
