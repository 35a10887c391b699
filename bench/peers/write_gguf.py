"""write_gguf.py CHECKPOINT FILE TYPE: a qwen3 directory of bf16 as a GGUF file without words, in llama.cpp's own quantisation.

Q4_0, of all matrices alike, needs the package gguf alone.
"""

import json
import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, quants

NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
PARTS = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}
FILE_TYPES = {"Q8_0": LlamaFileType.MOSTLY_Q8_0, "Q4_K_M": LlamaFileType.MOSTLY_Q4_K_M}
ALL_ALIKE = {"Q4_0": GGMLQuantizationType.Q4_0}


def name_of(tensor: str) -> str:
    stem = tensor.removesuffix(".weight")
    if stem in NAMES:
        return NAMES[stem] + ".weight"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{PARTS[part]}.weight"


def write(folder: Path, path: Path, kind: GGMLQuantizationType = GGMLQuantizationType.BF16) -> None:
    config = json.loads((folder / "config.json").read_text())
    writer = GGUFWriter(path, "qwen3")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_freq_base(config.get("rope_theta") or config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(LlamaFileType.MOSTLY_BF16)
    writer.add_tokenizer_model("none")
    data = np.memmap(folder / "model.safetensors", mode="r")
    length = int(data[:8].view("<u8")[0])
    for tensor, entry in json.loads(bytes(data[8 : 8 + length])).items():
        if tensor == "__metadata__":
            continue
        begin, end = (8 + length + at for at in entry["data_offsets"])
        bits = np.frombuffer(data[begin:end], "<u2").reshape(entry["shape"])
        values = (bits.astype(np.uint32) << 16).view(np.float32)
        if bits.ndim == 1:
            writer.add_tensor(name_of(tensor), values)
        elif kind != GGMLQuantizationType.BF16:
            writer.add_tensor(name_of(tensor), quants.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name_of(tensor), np.ascontiguousarray(bits).view(np.uint8), raw_dtype=GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    folder, path, kind = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    if kind in ALL_ALIKE:
        return write(folder, path, ALL_ALIKE[kind])
    import llama_cpp

    whole, made = path.with_suffix(".bf16"), path.with_suffix(".part")
    write(folder, whole)
    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype = int(FILE_TYPES[kind])
    if code := llama_cpp.llama_model_quantize(str(whole).encode(), str(made).encode(), options):
        sys.exit(f"llama_model_quantize gave {code}")
    whole.unlink()
    made.rename(path)


if __name__ == "__main__":
    main()
