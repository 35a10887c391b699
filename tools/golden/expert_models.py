"""Writes the tiny models with routed experts, as Hugging Face directories and as GGUF files."""

import json
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType

import prng
import safetensors_file
from expert_configs import TinyExperts, config_json

# As in hf_models.py. A router whose best scores lie far apart: a rounded score chooses the same experts.
_GAIN = {"q_proj": 1.2, "k_proj": 1.2, "down_proj": 1.5, "w2": 1.5, "lm_head": 1.5, "gate": 3.0}
_TIED_EMBEDDING = 0.25


def tensor_shapes(model: TinyExperts) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors, in file order."""
    hidden = model.hidden
    q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (model.vocab, hidden)}

    def block(at: str, names: tuple[str, str, str], wide: int) -> None:
        gate, up, down = names
        shapes[f"{at}.{gate}.weight"] = shapes[f"{at}.{up}.weight"] = (wide, hidden)
        shapes[f"{at}.{down}.weight"] = (hidden, wide)

    dense_names = ("gate_proj", "up_proj", "down_proj")
    for layer in range(model.layers):
        at = f"model.layers.{layer}"
        shapes[f"{at}.input_layernorm.weight"] = (hidden,)
        shapes[f"{at}.self_attn.q_proj.weight"] = (q, hidden)
        shapes[f"{at}.self_attn.k_proj.weight"] = shapes[f"{at}.self_attn.v_proj.weight"] = (kv, hidden)
        shapes[f"{at}.self_attn.o_proj.weight"] = (hidden, q)
        if model.family == "qwen3_moe":
            shapes[f"{at}.self_attn.q_norm.weight"] = shapes[f"{at}.self_attn.k_norm.weight"] = (model.head_dim,)
        shapes[f"{at}.post_attention_layernorm.weight"] = (hidden,)
        moe = f"{at}.block_sparse_moe" if model.family == "mixtral" else f"{at}.mlp"
        if not model.has_experts(layer):
            block(moe, dense_names, model.intermediate)
            continue
        shapes[f"{moe}.gate.weight"] = (model.experts, hidden)
        names = ("w1", "w3", "w2") if model.family == "mixtral" else dense_names
        for expert in range(model.experts):
            block(f"{moe}.experts.{expert}", names, model.expert_intermediate)
    shapes["model.norm.weight"] = (hidden,)
    if not model.tied:
        shapes["lm_head.weight"] = (model.vocab, hidden)
    return shapes


def _values(stream: str, model: TinyExperts, name: str, shape: tuple[int, ...]) -> np.ndarray:
    if name == "model.norm.weight" and model.tied:
        return prng.bell(stream, shape, 0.1, mean=1.5 / (_TIED_EMBEDDING * model.hidden**0.5))
    if name.endswith("norm.weight"):
        return prng.bell(stream, shape, 0.15, mean=1.2 if "q_norm" in name or "k_norm" in name else 1.0)
    if name == "model.embed_tokens.weight":
        return prng.bell(stream, shape, _TIED_EMBEDDING if model.tied else 1.0)
    return prng.bell(stream, shape, _GAIN.get(name.split(".")[-2], 1.0) / shape[-1] ** 0.5)


def weights(name: str, model: TinyExperts) -> dict[str, np.ndarray]:
    return {
        tensor: _values(f"{name}/{tensor}", model, tensor, shape) for tensor, shape in tensor_shapes(model).items()
    }


def write(folder: Path, name: str, model: TinyExperts) -> None:
    """The Hugging Face directory."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_json(model), indent=2) + "\n")
    safetensors_file.write(folder / "model.safetensors", weights(name, model), model.dtype)


_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate": "ffn_gate_inp",
    "gate_proj": "ffn_gate_exps",
    "up_proj": "ffn_up_exps",
    "down_proj": "ffn_down_exps",
    "block_sparse_moe.gate": "ffn_gate_inp",
    "w1": "ffn_gate_exps",
    "w3": "ffn_up_exps",
    "w2": "ffn_down_exps",
}
_TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def _gguf_tensors(name: str, model: TinyExperts) -> dict[str, np.ndarray]:
    """By their names in GGUF: matrices of the experts of a layer lie in one tensor."""
    found: dict[str, np.ndarray] = {}
    stacks: dict[str, list[np.ndarray]] = {}
    for tensor, values in weights(name, model).items():
        stem = tensor.removesuffix(".weight")
        if stem in _TOP:
            found[f"{_TOP[stem]}.weight"] = values
            continue
        _, _, layer, rest = stem.split(".", 3)
        if ".experts." in rest:
            stacks.setdefault(f"blk.{layer}.{_NAMES[rest.split('.')[-1]]}.weight", []).append(values)
        else:
            if model.family == "mixtral" and rest.endswith((".q_proj", ".k_proj")):  # rotated pairs side by side
                halves = values.reshape(-1, 2, model.head_dim // 2, values.shape[1])
                values = np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(values.shape)
            found[f"blk.{layer}.{_NAMES[rest]}.weight"] = values
    return found | {at: np.stack(matrices) for at, matrices in stacks.items()}


def write_gguf(path: Path, name: str, model: TinyExperts) -> None:
    """The same model; matrices in the type of the other file, norms and routers in F32."""
    mixtral = model.family == "mixtral"
    writer = GGUFWriter(path, "llama" if mixtral else "qwen3moe")
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
    writer.add_rope_freq_base(model.rope_theta)
    writer.add_layer_norm_rms_eps(model.eps)
    writer.add_vocab_size(model.vocab)
    writer.add_expert_count(model.experts)
    writer.add_expert_used_count(model.per_token)
    if mixtral:
        writer.add_rope_dimension_count(model.head_dim)
    else:
        writer.add_expert_feed_forward_length(model.expert_intermediate)
    writer.add_file_type(LlamaFileType.MOSTLY_BF16 if model.dtype == "BF16" else LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("none")
    for at, values in _gguf_tensors(name, model).items():
        bits = safetensors_file.to_bf16_bits(values) if model.dtype == "BF16" else None
        if bits is None:
            writer.add_tensor(at, values.astype(np.float32))
        elif values.ndim > 1 and "ffn_gate_inp" not in at:
            writer.add_tensor(at, bits.view(np.uint8), raw_dtype=GGMLQuantizationType.BF16)
        else:  # the values of the other file
            writer.add_tensor(at, (bits.astype("<u4") << 16).view("<f4"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
