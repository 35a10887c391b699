"""Writes the tiny transformers of dense_configs.py, as Hugging Face directories and as GGUF files."""

import json
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType

import prng
import safetensors_file
from dense_configs import TinyDense, file_json

# As in hf_models.py.
_GAIN = {"q_proj": 1.2, "k_proj": 1.2, "down_proj": 1.5, "lm_head": 1.5}
_TIED_EMBEDDING = 0.25


def tensor_shapes(model: TinyDense) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors of a model, in file order."""
    hidden, wide = model.hidden, model.intermediate
    q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (model.vocab, hidden)}

    def linear(name: str, outputs: int, inputs: int, bias: bool) -> None:
        shapes[f"{name}.weight"] = (outputs, inputs)
        if bias:
            shapes[f"{name}.bias"] = (outputs,)

    for layer in range(model.layers):
        at = f"model.layers.{layer}"
        shapes[f"{at}.input_layernorm.weight"] = (hidden,)
        linear(f"{at}.self_attn.q_proj", q, hidden, model.bias)
        linear(f"{at}.self_attn.k_proj", kv, hidden, model.bias)
        linear(f"{at}.self_attn.v_proj", kv, hidden, model.bias)
        linear(f"{at}.self_attn.o_proj", hidden, q, model.bias)
        if model.family == "qwen3":
            shapes[f"{at}.self_attn.q_norm.weight"] = (model.head_dim,)
            shapes[f"{at}.self_attn.k_norm.weight"] = (model.head_dim,)
        shapes[f"{at}.post_attention_layernorm.weight"] = (hidden,)
        linear(f"{at}.mlp.gate_proj", wide, hidden, model.mlp_bias)
        linear(f"{at}.mlp.up_proj", wide, hidden, model.mlp_bias)
        linear(f"{at}.mlp.down_proj", hidden, wide, model.mlp_bias)
    shapes["model.norm.weight"] = (hidden,)
    if not model.tied:
        shapes["lm_head.weight"] = (model.vocab, hidden)
    return shapes


def _values(stream: str, model: TinyDense, name: str, shape: tuple[int, ...]) -> np.ndarray:
    tied = _TIED_EMBEDDING / model.embedding_scale  # or a token would be its own successor
    if name == "model.norm.weight":
        mean = 1.5 / (tied * model.hidden**0.5) if model.tied else 1.0
        mean *= model.keys.get("logits_scaling", 1.0)
        return prng.bell(stream, shape, 0.1, mean - model.plus_one)
    if name.endswith("norm.weight"):
        mean = 1.2 if "q_norm" in name or "k_norm" in name else 1.0
        return prng.bell(stream, shape, 0.15, mean - model.plus_one)
    if name.endswith(".bias"):
        return prng.bell(stream, shape, 0.3)
    if name == "model.embed_tokens.weight":
        return prng.bell(stream, shape, tied if model.tied else 1.0)
    role = name.split(".")[-2]
    return prng.bell(stream, shape, _GAIN.get(role, 1.0) / shape[-1] ** 0.5)


def weights(name: str, model: TinyDense) -> dict[str, np.ndarray]:
    """The tensors as the directory has them: float32 values that their type holds exactly."""
    found = {}
    for tensor, shape in tensor_shapes(model).items():
        values = _values(f"{name}/{tensor}", model, tensor, shape)
        if model.dtype == "BF16":
            values = (safetensors_file.to_bf16_bits(values).astype("<u4") << 16).view("<f4")
        elif model.dtype == "F16":
            values = values.astype(np.float16).astype(np.float32)
        found[tensor] = values
    return found


def write(folder: Path, name: str, model: TinyDense) -> None:
    """The Hugging Face directory."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(file_json(model), indent=2) + "\n")
    tensors = {_in_file(tensor, model): values for tensor, values in weights(name, model).items()}
    if model.nested:  # parts that the text model has no use for
        for part in ("vision_tower.ln_pre.weight", "multi_modal_projector.linear_1.weight", "model.visual.norm.weight"):
            tensors[part] = prng.bell(f"{name}/{part}", (3, 5), 1.0)
    safetensors_file.write(folder / "model.safetensors", tensors, model.dtype)


def _in_file(name: str, model: TinyDense) -> str:
    if name.startswith("model."):
        return model.prefix + name.removeprefix("model.")
    return f"language_model.{name}" if model.prefix == "language_model.model." else name


def _converted(name: str, values: np.ndarray, model: TinyDense) -> np.ndarray:
    """What llama.cpp's converter makes of a tensor."""
    if model.interleaved and (".q_proj." in name or ".k_proj." in name):
        halves = values.reshape(-1, 2, model.head_dim // 2, *values.shape[1:])
        return halves.swapaxes(1, 2).reshape(values.shape)
    if model.plus_one and name.endswith("norm.weight"):
        return values + np.float32(1)
    return values


def write_gguf(path: Path, name: str, model: TinyDense) -> None:
    """The same model; matrices in the type of the other file, everything else in F32."""
    writer = GGUFWriter(path, model.gguf_architecture)
    _add_metadata(writer, name, model)
    architecture = {text: key for key, text in gguf.MODEL_ARCH_NAMES.items()}[model.gguf_architecture]
    names = gguf.get_tensor_name_map(architecture, model.layers)
    for tensor, values in weights(name, model).items():
        at = names.get_name(tensor, try_suffixes=(".weight", ".bias"))
        converted = np.ascontiguousarray(_converted(tensor, values, model), dtype=np.float32)
        if converted.ndim == 2 and model.dtype == "BF16":
            bits = safetensors_file.to_bf16_bits(converted)
            writer.add_tensor(at, bits.view(np.uint8), raw_dtype=GGMLQuantizationType.BF16)
        elif converted.ndim == 2 and model.dtype == "F16":
            writer.add_tensor(at, converted.astype(np.float16))
        else:
            writer.add_tensor(at, converted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_metadata(writer: GGUFWriter, name: str, model: TinyDense) -> None:
    kinds = {"BF16": LlamaFileType.MOSTLY_BF16, "F16": LlamaFileType.MOSTLY_F16, "F32": LlamaFileType.ALL_F32}
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
    writer.add_rope_dimension_count(model.head_dim)
    writer.add_layer_norm_rms_eps(model.eps)
    writer.add_vocab_size(model.vocab)
    writer.add_file_type(kinds[model.dtype])
    writer.add_tokenizer_model("none")
    for method, value in model.gguf.items():
        getattr(writer, method)(value)
