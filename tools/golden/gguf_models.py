"""Writes the tiny GGUF models, with the keys and tensor names that llama.cpp's own converters write.

The rows of q and k of a `llama` file are in llama.cpp's order (the two halves of a head interleaved) by
definition: the weights are random, so nothing is permuted here; the reference undoes the order when it reads.
"""

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType

import gguf_blocks
import prng
from gguf_configs import TinyGguf

# As in hf_models.py.
_GAIN = {"attn_q": 1.2, "attn_k": 1.2, "ffn_down": 1.5, "output": 1.5}
_TIED_EMBEDDING = 0.25
_FILE_TYPE = {
    "F32": LlamaFileType.ALL_F32,
    "F16": LlamaFileType.MOSTLY_F16,
    "BF16": LlamaFileType.MOSTLY_BF16,
    "Q8_0": LlamaFileType.MOSTLY_Q8_0,
    "Q4_0": LlamaFileType.MOSTLY_Q4_0,
    "Q4_1": LlamaFileType.MOSTLY_Q4_1,
    "Q5_0": LlamaFileType.MOSTLY_Q5_0,
    "Q5_1": LlamaFileType.MOSTLY_Q5_1,
    "Q2_K": LlamaFileType.MOSTLY_Q2_K,
    "Q3_K": LlamaFileType.MOSTLY_Q3_K_M,
    "Q4_K": LlamaFileType.MOSTLY_Q4_K_M,
    "Q5_K": LlamaFileType.MOSTLY_Q5_K_M,
    "Q6_K": LlamaFileType.MOSTLY_Q6_K,
    "IQ4_NL": LlamaFileType.MOSTLY_IQ4_NL,
    "IQ4_XS": LlamaFileType.MOSTLY_IQ4_XS,
    "MXFP4": LlamaFileType.MOSTLY_MXFP4_MOE,
}


def matrix_shapes(model: TinyGguf) -> dict[str, tuple[int, int]]:
    """Names and shapes (rows, columns) of the matrices, without ".weight", in file order."""
    hidden, wide = model.hidden, model.intermediate
    q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    shapes = {"token_embd": (model.vocab, hidden)}
    for layer in range(model.layers):
        shapes |= {
            f"blk.{layer}.attn_q": (q, hidden),
            f"blk.{layer}.attn_k": (kv, hidden),
            f"blk.{layer}.attn_v": (kv, hidden),
            f"blk.{layer}.attn_output": (hidden, q),
            f"blk.{layer}.ffn_gate": (wide, hidden),
            f"blk.{layer}.ffn_up": (wide, hidden),
            f"blk.{layer}.ffn_down": (hidden, wide),
        }
    if not model.tied:
        shapes["output"] = (model.vocab, hidden)
    return shapes


def norm_sizes(model: TinyGguf) -> dict[str, int]:
    """Names and sizes of the norms, without ".weight"; they are always F32."""
    sizes = {}
    for layer in range(model.layers):
        sizes |= {f"blk.{layer}.attn_norm": model.hidden, f"blk.{layer}.ffn_norm": model.hidden}
        if model.architecture == "qwen3":
            sizes |= {f"blk.{layer}.attn_q_norm": model.head_dim, f"blk.{layer}.attn_k_norm": model.head_dim}
    return sizes | {"output_norm": model.hidden}


def write(path: Path, name: str, model: TinyGguf) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = GGUFWriter(path, model.architecture)
    _add_metadata(writer, name, model)
    for matrix, shape in matrix_shapes(model).items():
        role = matrix.split(".")[-1]
        kind = model.other_kinds.get(role, model.kind)
        deviation = _GAIN.get(role, 1.0) / shape[1] ** 0.5
        if role == "token_embd":
            deviation = _TIED_EMBEDDING if model.tied else 1.0
        values = gguf_blocks.matrix(f"{name}/{matrix}", shape, deviation, kind)
        writer.add_tensor(f"{matrix}.weight", values, raw_dtype=GGMLQuantizationType[kind])
    for norm, size in norm_sizes(model).items():
        mean = 1.2 if norm.endswith(("q_norm", "k_norm")) else 1.0
        if norm == "output_norm" and model.tied:
            mean = 1.5 / (_TIED_EMBEDDING * model.hidden**0.5)
        writer.add_tensor(f"{norm}.weight", prng.bell(f"{name}/{norm}", (size,), 0.1, mean))
    if model.rope_divisors:
        writer.add_tensor("rope_freqs.weight", np.array(model.rope_divisors, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_metadata(writer: GGUFWriter, name: str, model: TinyGguf) -> None:
    writer.add_type("model")
    writer.add_name(name)
    if model.alignment:
        writer.add_custom_alignment(model.alignment)
    writer.add_block_count(model.layers)
    writer.add_context_length(model.context)
    writer.add_embedding_length(model.hidden)
    writer.add_feed_forward_length(model.intermediate)
    writer.add_head_count(model.heads)
    writer.add_head_count_kv(model.kv_heads)
    writer.add_rope_freq_base(model.rope_theta)
    writer.add_layer_norm_rms_eps(model.eps)
    if model.heads * model.head_dim != model.hidden:
        writer.add_key_length(model.head_dim)
        writer.add_value_length(model.head_dim)
    if model.architecture == "llama":
        writer.add_rope_dimension_count(model.head_dim)
    writer.add_vocab_size(model.vocab)
    writer.add_file_type(_FILE_TYPE[model.kind])
    writer.add_quantization_version(2)
    writer.add_tokenizer_model("none")
