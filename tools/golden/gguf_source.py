"""Reads a GGUF file with the `gguf` package: its dequantised tensors, and the same as Hugging Face weights."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize

_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


@dataclass
class Tensor:
    kind: str
    values: np.ndarray  # float32, slowest dimension first


@dataclass
class Source:
    config: dict  # for transformers' AutoConfig.for_model
    weights: dict[str, np.ndarray]
    rope_divisors: np.ndarray | None


def tensors(path: Path) -> dict[str, Tensor]:
    """Every tensor of a file in float32, in the file's own order of rows."""
    found = {}
    for tensor in GGUFReader(path).tensors:
        shape = [int(size) for size in reversed(tensor.shape)]
        values = dequantize(tensor.data, tensor.tensor_type).reshape(shape)
        found[tensor.name] = Tensor(GGMLQuantizationType(tensor.tensor_type).name, values)
    return found


def load(path: Path) -> Source:
    """The model of a `llama` or `qwen3` file."""
    fields = GGUFReader(path).fields
    architecture = fields["general.architecture"].contents()

    def number(key: str, default=None):
        field = fields.get(f"{architecture}.{key}")
        return default if field is None else field.contents()

    found = tensors(path)
    hidden, heads = number("embedding_length"), number("attention.head_count")
    kv_heads = number("attention.head_count_kv", heads)
    config = {
        "model_type": architecture,
        "hidden_size": hidden,
        "intermediate_size": number("feed_forward_length"),
        "num_hidden_layers": number("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": number("attention.key_length", hidden // heads),
        "vocab_size": found["token_embd.weight"].values.shape[0],
        "max_position_embeddings": number("context_length"),
        "rms_norm_eps": number("attention.layer_norm_rms_epsilon"),
        "rope_parameters": {"rope_type": "default", "rope_theta": number("rope.freq_base")},
        "tie_word_embeddings": "output.weight" not in found,
        "pad_token_id": None,
    }
    divisors = found.pop("rope_freqs.weight", None)
    weights = {}
    for name, tensor in found.items():
        values = tensor.values
        if architecture == "llama" and name.endswith((".attn_q.weight", ".attn_k.weight")):
            values = _halves_apart(values, heads if ".attn_q." in name else kv_heads)
        weights[_hugging_face_name(name)] = values
    return Source(config, weights, divisors.values if divisors else None)


def _hugging_face_name(name: str) -> str:
    if name in _TOP_NAMES:
        return _TOP_NAMES[name]
    _, layer, role, suffix = name.split(".")
    return f"model.layers.{layer}.{_LAYER_NAMES[role]}.{suffix}"


def _halves_apart(values: np.ndarray, heads: int) -> np.ndarray:
    """Undoes llama.cpp's order of rows: rotated pairs side by side become the two halves of a head."""
    pairs = values.reshape(heads, -1, 2, values.shape[1])
    return pairs.transpose(0, 2, 1, 3).reshape(values.shape)
