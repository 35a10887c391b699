"""Writes the tiny models of gpt_oss, as Hugging Face directories and as GGUF files."""

import json
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, RopeScalingType

import prng
import quantised_layouts
import safetensors_file
from gpt_oss_configs import QUANTIZATION, TinyGptOss, config_json

# As in expert_models.py. Biases of experts reach beyond the limits of their activation.
_GAIN = {"q_proj": 1.2, "k_proj": 1.2, "down_proj": 1.5, "lm_head": 1.5, "router": 3.0}
_BIAS = {"gate_up_proj": 4.0, "down_proj": 0.3, "router": 0.5}
_TIED_EMBEDDING = 0.25
_EXPERTS = ("gate_up_proj", "down_proj")


def _shapes(model: TinyGptOss) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors of a model that is not quantised, in file order."""
    hidden, wide = model.hidden, model.intermediate
    q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (model.vocab, hidden)}
    for layer in range(model.layers):
        at = f"model.layers.{layer}"
        shapes[f"{at}.input_layernorm.weight"] = (hidden,)
        for part, rows, columns in (("q", q, hidden), ("k", kv, hidden), ("v", kv, hidden), ("o", hidden, q)):
            shapes[f"{at}.self_attn.{part}_proj.weight"] = (rows, columns)
            if model.attention_bias is not False:
                shapes[f"{at}.self_attn.{part}_proj.bias"] = (rows,)
        shapes[f"{at}.self_attn.sinks"] = (model.heads,)
        shapes[f"{at}.post_attention_layernorm.weight"] = (hidden,)
        shapes[f"{at}.mlp.router.weight"] = (model.experts, hidden)
        shapes[f"{at}.mlp.router.bias"] = (model.experts,)
        shapes[f"{at}.mlp.experts.gate_up_proj"] = (model.experts, hidden, 2 * wide)
        shapes[f"{at}.mlp.experts.gate_up_proj_bias"] = (model.experts, 2 * wide)
        shapes[f"{at}.mlp.experts.down_proj"] = (model.experts, wide, hidden)
        shapes[f"{at}.mlp.experts.down_proj_bias"] = (model.experts, hidden)
    shapes["model.norm.weight"] = (hidden,)
    if not model.tied:
        shapes["lm_head.weight"] = (model.vocab, hidden)
    return shapes


def _values(stream: str, model: TinyGptOss, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Random values of one tensor, scaled by its role."""
    if name == "model.norm.weight" and model.tied:
        return prng.bell(stream, shape, 0.1, mean=1.5 / (_TIED_EMBEDDING * model.hidden**0.5))
    if name.endswith("norm.weight"):
        return prng.bell(stream, shape, 0.15, mean=1.0)
    if name.endswith(".sinks"):
        return prng.bell(stream, shape, 1.5)
    if name.endswith("bias"):
        role = name.removesuffix(".bias").removesuffix("_bias").split(".")[-1]
        return prng.bell(stream, shape, _BIAS.get(role, 0.3))
    if name == "model.embed_tokens.weight":
        return prng.bell(stream, shape, _TIED_EMBEDDING if model.tied else 1.0)
    role = name.removesuffix(".weight").split(".")[-1]
    inputs = shape[1] if role in _EXPERTS else shape[-1]
    return prng.bell(stream, shape, _GAIN.get(role, 1.0) / inputs**0.5)


def _quantised(stream: str, role: str, shape: tuple[int, ...]) -> quantised_layouts.Weight:
    """Of all experts, one below the other: [experts * outputs, inputs]."""
    experts, inputs, outputs = shape
    return quantised_layouts.mxfp4(stream, experts * outputs, inputs, _GAIN.get(role, 1.0) / inputs**0.5)


def _is_quantised(model: TinyGptOss, name: str) -> bool:
    return model.mxfp4 and name.endswith(_EXPERTS)


def weights(name: str, model: TinyGptOss) -> dict[str, np.ndarray]:
    """All tensors in float32, as the files hold them once they are read; matrices of experts as transformers has them."""
    tensors = {}
    for tensor, shape in _shapes(model).items():
        stream = f"{name}/{tensor}"
        if _is_quantised(model, tensor):
            experts, inputs, outputs = shape
            values = _quantised(stream, tensor.split(".")[-1], shape).values
            tensors[tensor] = values.reshape(experts, outputs, inputs).transpose(0, 2, 1)
            continue
        values = _values(stream, model, tensor, shape)
        if model.dtype == "BF16":
            values = (safetensors_file.to_bf16_bits(values).astype(np.uint32) << 16).view(np.float32)
        tensors[tensor] = values
    return tensors


def write(folder: Path, name: str, model: TinyGptOss) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    config = config_json(model) | ({"quantization_config": QUANTIZATION} if model.mxfp4 else {})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    tensors: dict[str, np.ndarray | safetensors_file.Stored] = {}
    for tensor, values in weights(name, model).items():
        if not _is_quantised(model, tensor):
            tensors[tensor] = values
            continue
        experts, inputs, outputs = values.shape
        for part, stored in _quantised(f"{name}/{tensor}", tensor.split(".")[-1], values.shape).parts.items():
            shape = (experts, outputs, *stored.array.shape[1:])
            tensors[f"{tensor}_{part}"] = safetensors_file.Stored(stored.dtype, stored.array.reshape(shape))
    safetensors_file.write(folder / "model.safetensors", tensors, model.dtype)


_GGUF_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.sinks": "attn_sinks",
    "post_attention_layernorm": "post_attention_norm", "mlp.router": "ffn_gate_inp",
}  # fmt: skip
_GGUF_WHOLE = {
    "model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}  # fmt: skip


def _blocks(parts: dict[str, safetensors_file.Stored]) -> np.ndarray:
    """The 17 bytes of each block as GGUF has them: the scale, and number i beside number i + 16."""
    pairs = parts["blocks"].array
    codes = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(*pairs.shape[:-1], 32)
    both = codes[..., :16] | codes[..., 16:] << 4
    return np.concatenate([parts["scales"].array[..., None], both], axis=-1).reshape(pairs.shape[0], -1)


def _gguf_experts(name: str, model: TinyGptOss, tensor: str, values: np.ndarray):
    """Name, numbers and, where they are blocks, the blocks of what a tensor of experts becomes: gate and up apart."""
    at, role = tensor.rsplit(".", 1)
    layer, bias = at.split(".")[2], role.endswith("_bias")
    role = role.removesuffix("_bias")
    values = values if bias else values.transpose(0, 2, 1)  # [experts, outputs, ...]
    blocks = None
    if _is_quantised(model, tensor):
        found = _quantised(f"{name}/{tensor}", role, (values.shape[0], values.shape[2], values.shape[1]))
        blocks = _blocks(found.parts).reshape(*values.shape[:2], -1)
    parts = {"ffn_down_exps": slice(None)}
    if role == "gate_up_proj":
        parts = {"ffn_gate_exps": slice(0, None, 2), "ffn_up_exps": slice(1, None, 2)}
    for part, rows in parts.items():
        found = f"blk.{layer}.{part}.{'bias' if bias else 'weight'}"
        yield found, values[:, rows], None if blocks is None else blocks[:, rows]


def write_gguf(path: Path, name: str, model: TinyGptOss) -> None:
    """The same model; matrices in the type of the other file, routers and everything else in F32."""
    writer = GGUFWriter(path, "gpt-oss")
    _add_metadata(writer, name, model)
    for tensor, values in weights(name, model).items():
        if ".experts." in tensor:
            for at, part, blocks in _gguf_experts(name, model, tensor, values):
                if blocks is not None:
                    _add_blocks(writer, at, blocks)
                else:
                    _add(writer, at, part, model)
            continue
        if tensor in _GGUF_WHOLE:
            _add(writer, _GGUF_WHOLE[tensor], values, model)
            continue
        layer, part = tensor.removeprefix("model.layers.").split(".", 1)
        suffix = "bias" if part.endswith(".bias") else "weight"
        _add(writer, f"blk.{layer}.{_GGUF_NAMES[part.removesuffix('.' + suffix)]}.{suffix}", values, model)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_blocks(writer: GGUFWriter, at: str, blocks: np.ndarray) -> None:
    writer.add_tensor(at, np.ascontiguousarray(blocks), raw_dtype=GGMLQuantizationType.MXFP4)


def _add(writer: GGUFWriter, at: str, values: np.ndarray, model: TinyGptOss) -> None:
    values = np.ascontiguousarray(values, dtype=np.float32)
    if at.endswith("weight") and values.ndim > 1 and "ffn_gate_inp" not in at and model.dtype == "BF16":
        bits = safetensors_file.to_bf16_bits(values)
        writer.add_tensor(at, bits.view(np.uint8), raw_dtype=GGMLQuantizationType.BF16)
    else:
        writer.add_tensor(at, values)


def _add_metadata(writer: GGUFWriter, name: str, model: TinyGptOss) -> None:
    writer.add_type("model")
    writer.add_name(name)
    writer.add_block_count(model.layers)
    writer.add_context_length(256)
    writer.add_embedding_length(model.hidden)
    writer.add_feed_forward_length(model.intermediate)
    writer.add_head_count(model.heads)
    writer.add_head_count_kv(model.kv_heads)
    writer.add_key_length(model.head_dim)
    writer.add_value_length(model.head_dim)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(model.vocab)
    writer.add_rope_freq_base(model.rope_theta)
    writer.add_rope_scaling_type(RopeScalingType.YARN)
    writer.add_rope_scaling_factor(model.rope["factor"])
    writer.add_rope_scaling_orig_ctx_len(model.rope["original_max_position_embeddings"])
    writer.add_expert_count(model.experts)
    writer.add_expert_used_count(model.per_token)
    writer.add_expert_feed_forward_length(model.intermediate)
    writer.add_sliding_window(model.window)
    writer.add_file_type(LlamaFileType.MOSTLY_MXFP4_MOE if model.mxfp4 else LlamaFileType.MOSTLY_BF16)
    writer.add_tokenizer_model("none")
