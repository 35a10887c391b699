"""Tiny LoRA adapters over the tiny models, in PEFT's layout, and the models that they make of them."""

import json
import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import prng
import safetensors_file

# Of what an adapter adds to a weight, relative to the weight.
_SHARE = 0.3


@dataclass(frozen=True)
class TinyAdapter:
    base: str  # the model's folder
    modules: tuple[str, ...]
    rank: int
    alpha: float
    dtype: str = "F32"
    rslora: bool = False
    ranks: dict[str, int] = field(default_factory=dict)  # rank_pattern
    alphas: dict[str, float] = field(default_factory=dict)  # alpha_pattern
    targets: str | None = None  # target_modules as PEFT also has it: a regular expression
    gguf: bool = False  # the base is there in both formats

    def of(self, module: str) -> tuple[int, float]:
        """Rank and scale of a module, as PEFT finds them: by the first pattern that its name ends with."""

        def found(patterns: dict, otherwise):
            fits = (value for key, value in patterns.items() if re.match(rf"(.*\.)?({key})$", module))
            return next(fits, otherwise)

        rank = found(self.ranks, self.rank)
        alpha = found(self.alphas, self.alpha)
        return rank, alpha / (rank**0.5 if self.rslora else rank)


_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
_MLP = ("gate_proj", "up_proj", "down_proj")

ADAPTERS = {
    "adapter-llama": TinyAdapter("llama-base", _ATTENTION + _MLP, 4, 8),
    # A rank and a scale of their own for some, and matrices that only half of a fused one has.
    "adapter-qwen3": TinyAdapter(
        "qwen3-four",
        ("q_proj", "v_proj", "up_proj"),
        8,
        12,
        dtype="BF16",
        ranks={"v_proj": 3},
        alphas={"model.layers.1.self_attn.q_proj": 5},
    ),
    # q, k and v, and gate and up, are one matrix each in the file already.
    "adapter-phi3": TinyAdapter(
        "phi3-partial", ("qkv_proj", "o_proj", "gate_up_proj", "down_proj"), 40, 24, dtype="F16", rslora=True
    ),
    # q_proj has the queries and gates of the heads in turns; the layers of other kinds have no adapter.
    "adapter-qwen35": TinyAdapter(
        "qwen35-base", _ATTENTION + _MLP, 5, 10, targets=r".*\.(q|k|v|o|gate|up|down)_proj", gguf=True
    ),
    "adapter-nemotron-h": TinyAdapter(
        "nemotron-h-base", ("q_proj", "v_proj", "up_proj", "down_proj"), 6, 6, gguf=True
    ),
}


def base_shapes(folder: Path) -> dict[str, list[int]]:
    """Names and shapes of a model's tensors, from the headers of its files."""
    shapes = {}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        shapes |= {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}
    return shapes


def matrices(models: Path, name: str, adapter: TinyAdapter) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """A and B of each module, in the numbers that the file will hold."""
    found = {}
    for tensor, shape in base_shapes(models / adapter.base).items():
        module = tensor.removesuffix(".weight")
        if module.split(".")[-1] not in adapter.modules:
            continue
        rank, scale = adapter.of(module)
        outputs, inputs = shape
        a = prng.bell(f"{name}/{module}/A", (rank, inputs), inputs**-0.5)
        b = prng.bell(f"{name}/{module}/B", (outputs, rank), _SHARE / (scale * rank**0.5))
        found[module] = tuple(
            safetensors_file.as_float32(safetensors_file.stored(matrix, adapter.dtype)) for matrix in (a, b)
        )
    return found


def write(models: Path, name: str, adapter: TinyAdapter) -> None:
    folder = models / name
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "alpha_pattern": adapter.alphas,
        "base_model_name_or_path": adapter.base,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "layers_to_transform": None,
        "lora_alpha": adapter.alpha,
        "lora_dropout": 0.05,
        "modules_to_save": None,
        "peft_type": "LORA",
        "r": adapter.rank,
        "rank_pattern": adapter.ranks,
        "target_modules": adapter.targets or sorted(adapter.modules),
        "task_type": "CAUSAL_LM",
        "use_dora": False,
        "use_rslora": adapter.rslora,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    tensors = {}
    for module, (a, b) in matrices(models, name, adapter).items():
        tensors[f"base_model.model.{module}.lora_A.weight"] = a
        tensors[f"base_model.model.{module}.lora_B.weight"] = b
    safetensors_file.write(folder / "adapter_model.safetensors", tensors, adapter.dtype)
