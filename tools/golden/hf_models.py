"""Writes the tiny Hugging Face models: config.json beside model.safetensors, whole or in shards; a tokenizer for some."""

import json
from pathlib import Path

import numpy as np

import prng
import safetensors_file
import words_tokenizer
from hf_configs import TinyModel, config_json

# Gains over 1 / sqrt(inputs): attention far from uniform, yet not so sharp that the rounding of a bf16 engine
# grows from layer to layer; logits with a standard deviation of about 1.5.
_GAIN = {"q_proj": 1.2, "k_proj": 1.2, "down_proj": 1.5, "lm_head": 1.5}
_TIED_EMBEDDING = 0.25


def tensor_shapes(model: TinyModel) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors of a model, in file order."""
    hidden, wide = model.hidden, model.intermediate
    q, kv = model.heads * model.head_size, model.kv_heads * model.head_size
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (model.vocab, hidden)}

    def linear(name: str, outputs: int, inputs: int, bias: bool) -> None:
        shapes[f"{name}.weight"] = (outputs, inputs)
        if bias:
            shapes[f"{name}.bias"] = (outputs,)

    for layer in range(model.layers):
        at = f"model.layers.{layer}"
        if model.architecture == "phi3":
            linear(f"{at}.self_attn.qkv_proj", q + 2 * kv, hidden, False)
            linear(f"{at}.mlp.gate_up_proj", 2 * wide, hidden, False)
        else:
            linear(f"{at}.self_attn.q_proj", q, hidden, model.qkv_bias)
            linear(f"{at}.self_attn.k_proj", kv, hidden, model.qkv_bias)
            linear(f"{at}.self_attn.v_proj", kv, hidden, model.qkv_bias)
            linear(f"{at}.mlp.gate_proj", wide, hidden, model.mlp_bias)
            linear(f"{at}.mlp.up_proj", wide, hidden, model.mlp_bias)
        linear(f"{at}.self_attn.o_proj", hidden, q, model.attention_bias)
        linear(f"{at}.mlp.down_proj", hidden, wide, model.mlp_bias)
        if model.architecture == "qwen3":
            shapes[f"{at}.self_attn.q_norm.weight"] = (model.head_size,)
            shapes[f"{at}.self_attn.k_norm.weight"] = (model.head_size,)
        if model.architecture == "olmo2":
            shapes[f"{at}.self_attn.q_norm.weight"] = (q,)
            shapes[f"{at}.self_attn.k_norm.weight"] = (kv,)
            shapes[f"{at}.post_feedforward_layernorm.weight"] = (hidden,)
        else:
            shapes[f"{at}.input_layernorm.weight"] = (hidden,)
        shapes[f"{at}.post_attention_layernorm.weight"] = (hidden,)
    shapes["model.norm.weight"] = (hidden,)
    if not model.tied:
        shapes["lm_head.weight"] = (model.vocab, hidden)
    return shapes


def tensor_values(stream: str, model: TinyModel, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Random values of one tensor, scaled by its role."""
    if name == "model.norm.weight" and model.tied:
        return prng.bell(stream, shape, 0.1, mean=1.5 / (_TIED_EMBEDDING * model.hidden**0.5))
    if name.endswith("norm.weight"):
        is_qk = "q_norm" in name or "k_norm" in name
        return prng.bell(stream, shape, 0.15, mean=1.2 if is_qk else 1.0)
    if name.endswith(".bias"):
        return prng.bell(stream, shape, 0.3)
    if name == "model.embed_tokens.weight":
        return prng.bell(stream, shape, _TIED_EMBEDDING if model.tied else 1.0)
    role = name.split(".")[-2]
    return prng.bell(stream, shape, _GAIN.get(role, 1.0) / shape[-1] ** 0.5)


def write(folder: Path, name: str, model: TinyModel) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_json(model), indent=2) + "\n")
    tensors = {
        tensor: tensor_values(f"{name}/{tensor}", model, tensor, shape)
        for tensor, shape in tensor_shapes(model).items()
    }
    if model.shards == 1:
        safetensors_file.write(folder / "model.safetensors", tensors, model.dtype)
    else:
        _write_shards(folder, tensors, model)
    if model.words:
        words_tokenizer.write(folder)


def _write_shards(folder: Path, tensors: dict[str, np.ndarray], model: TinyModel) -> None:
    """Deals the tensors round robin, so that one layer's tensors lie in several files."""
    names = list(tensors)
    weight_map, total = {}, 0
    for shard in range(model.shards):
        file = f"model-{shard + 1:05}-of-{model.shards:05}.safetensors"
        part = {tensor: tensors[tensor] for tensor in names[shard :: model.shards]}
        total += safetensors_file.write(folder / file, part, model.dtype)
        weight_map |= {tensor: file for tensor in part}
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
