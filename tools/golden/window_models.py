"""Writes the tiny models with sliding windows, as Hugging Face directories and as GGUF files."""

import json
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, RopeScalingType

import prng
import safetensors_file
from window_configs import TinyWindowed, config_json

# As in hf_models.py.
_GAIN = {"q_proj": 1.2, "k_proj": 1.2, "qkv_proj": 1.2, "down_proj": 1.5, "lm_head": 1.5}
_TIED_EMBEDDING = 0.25


def _shapes(model: TinyWindowed) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors of a model, in file order."""
    hidden, wide = model.hidden, model.intermediate
    q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (model.vocab, hidden)}
    for layer in range(len(model.layers)):
        at = f"model.layers.{layer}"
        if model.family == "phi3":
            shapes[f"{at}.self_attn.qkv_proj.weight"] = (q + 2 * kv, hidden)
            shapes[f"{at}.mlp.gate_up_proj.weight"] = (2 * wide, hidden)
        else:
            for part, size in (("q", q), ("k", kv), ("v", kv)):
                shapes[f"{at}.self_attn.{part}_proj.weight"] = (size, hidden)
                if model.family == "qwen2":
                    shapes[f"{at}.self_attn.{part}_proj.bias"] = (size,)
            shapes[f"{at}.mlp.gate_proj.weight"] = (wide, hidden)
            shapes[f"{at}.mlp.up_proj.weight"] = (wide, hidden)
        shapes[f"{at}.self_attn.o_proj.weight"] = (hidden, q)
        shapes[f"{at}.mlp.down_proj.weight"] = (hidden, wide)
        if model.family in ("qwen3", "gemma3_text") or model.norms_after:
            whole = model.norms_after
            shapes[f"{at}.self_attn.q_norm.weight"] = (q if whole else model.head_dim,)
            shapes[f"{at}.self_attn.k_norm.weight"] = (kv if whole else model.head_dim,)
        if not model.norms_after:
            shapes[f"{at}.input_layernorm.weight"] = (hidden,)
        shapes[f"{at}.post_attention_layernorm.weight"] = (hidden,)
        if model.gemma:
            shapes[f"{at}.pre_feedforward_layernorm.weight"] = (hidden,)
        if model.gemma or model.norms_after:
            shapes[f"{at}.post_feedforward_layernorm.weight"] = (hidden,)
    shapes["model.norm.weight"] = (hidden,)
    if not model.tied:
        shapes["lm_head.weight"] = (model.vocab, hidden)
    return shapes


def _values(stream: str, model: TinyWindowed, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Random values of one tensor, scaled by its role. Norms of gemma multiply by 1 + w."""
    embedding = _TIED_EMBEDDING if model.tied else 1.0
    if model.gemma:  # which multiplies it by this root
        embedding /= model.hidden**0.5
    if name == "model.norm.weight" and model.tied:
        return prng.bell(stream, shape, 0.1, mean=1.5 / (embedding * model.hidden**0.5) - model.gemma)
    if name.endswith("norm.weight"):
        is_qk = "q_norm" in name or "k_norm" in name
        return prng.bell(stream, shape, 0.15, mean=(1.2 if is_qk else 1.0) - model.gemma)
    if name.endswith(".bias"):
        return prng.bell(stream, shape, 0.3)
    if name == "model.embed_tokens.weight":
        return prng.bell(stream, shape, embedding)
    return prng.bell(stream, shape, _GAIN.get(name.split(".")[-2], 1.0) / shape[-1] ** 0.5)


def weights(name: str, model: TinyWindowed) -> dict[str, np.ndarray]:
    """All tensors in float32, as the files hold them once they are read."""
    tensors = {}
    for tensor, shape in _shapes(model).items():
        values = _values(f"{name}/{tensor}", model, tensor, shape)
        if model.dtype == "BF16":
            bits = safetensors_file.to_bf16_bits(values)
            values = (bits.astype(np.uint32) << 16).view(np.float32)
        tensors[tensor] = values
    return tensors


def write(folder: Path, name: str, model: TinyWindowed) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_json(model), indent=2) + "\n")
    safetensors_file.write(folder / "model.safetensors", weights(name, model), model.dtype)


_GGUF_NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip
_GGUF_WHOLE = {
    "model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}  # fmt: skip


def _gguf_name(model: TinyWindowed, name: str) -> str:
    if name in _GGUF_WHOLE:
        return _GGUF_WHOLE[name]
    name, kind = name.rsplit(".", 1)
    layer, part = name.removeprefix("model.layers.").split(".", 1)
    if part == "post_attention_layernorm":  # the norm before the feed-forward block, where there is none of that name
        part = "post_attention_norm" if model.gemma or model.norms_after else "ffn_norm"
    return f"blk.{layer}.{_GGUF_NAMES.get(part, part)}.{kind}"


def write_gguf(
    path: Path, name: str, model: TinyWindowed, architecture: str = "", more: dict[str, np.ndarray] | None = None
) -> None:
    """The same model; matrices in the type of the other file, everything else, as the tensors `more`, in F32."""
    architecture = architecture or {"olmo3": "olmo2", "gemma3_text": "gemma3"}.get(model.family, model.family)
    writer = GGUFWriter(path, architecture)
    _add_metadata(writer, name, model)
    for tensor, values in (more or {}).items():
        writer.add_tensor(tensor, values)
    for tensor, values in weights(name, model).items():
        if model.gemma and tensor.endswith("norm.weight"):
            values = values + np.float32(1)
        at = _gguf_name(model, tensor)
        if values.ndim == 2 and model.dtype == "BF16":
            bits = safetensors_file.to_bf16_bits(values)
            writer.add_tensor(at, bits.view(np.uint8), raw_dtype=GGMLQuantizationType.BF16)
        else:
            writer.add_tensor(at, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_metadata(writer: GGUFWriter, name: str, model: TinyWindowed) -> None:
    writer.add_type("model")
    writer.add_name(name)
    writer.add_block_count(len(model.layers))
    writer.add_context_length(256)
    writer.add_embedding_length(model.hidden)
    writer.add_feed_forward_length(model.intermediate)
    writer.add_head_count(model.heads)
    writer.add_head_count_kv(model.kv_heads)
    if model.head_dim * model.heads != model.hidden or model.gemma:
        writer.add_key_length(model.head_dim)
        writer.add_value_length(model.head_dim)
    writer.add_layer_norm_rms_eps(model.eps)
    writer.add_vocab_size(model.vocab)
    writer.add_rope_freq_base(model.rope_theta)
    if scaling := model.rope_scaling:
        writer.add_rope_scaling_type(RopeScalingType(scaling["rope_type"]))
        writer.add_rope_scaling_factor(scaling["factor"])
        if "original_max_position_embeddings" in scaling:
            writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
    if model.window:
        writer.add_sliding_window(model.window)
    # The converter writes the list for olmo2 alone; for the others llama.cpp knows it.
    if model.pattern:
        writer.add_sliding_window_pattern(model.pattern)
    elif model.listed and model.family != "gemma2":
        writer.add_sliding_window_pattern(model.windows)
    if model.local_theta and model.local_theta != 10000.0:
        writer.add_rope_freq_base_swa(model.local_theta)
    if model.score_cap:
        writer.add_attn_logit_softcapping(model.score_cap)
    if model.logit_cap:
        writer.add_final_logit_softcapping(model.logit_cap)
    writer.add_file_type(LlamaFileType.MOSTLY_BF16 if model.dtype == "BF16" else LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("none")
