"""Writes the tiny models with recurrent layers, as Hugging Face directories and as GGUF files."""

import json
import math
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType

import prng
import safetensors_file
from hybrid_configs import TinyHybrid, config_json

# As in hf_models.py. A query and a key at a right angle give 0, which the norm behind it turns into anything: large
# inputs of silu keep their angle small.
_GAIN = {
    "q_proj": 1.2, "k_proj": 1.2, "down_proj": 1.5, "output_linear": 1.5, "lm_head": 1.5, "conv1d": 1.5,
    "in_proj_qkv": 4.0, "conv": 1.5, "w2": 1.5,
}
_TIED_EMBEDDING = 0.25


class _Shapes(dict):
    """Shapes by the names of tensors, in file order."""

    def linear(self, name: str, outputs: int, inputs: int, bias: bool = False) -> None:
        self[f"{name}.weight"] = (outputs, inputs)
        if bias:
            self[f"{name}.bias"] = (outputs,)

    def conv(self, name: str, model: TinyHybrid) -> None:
        self[f"{name}.weight"] = (model.channels, 1, model.conv)
        if model.conv_bias:
            self[f"{name}.bias"] = (model.channels,)

    def attention(self, at: str, output: str, model: TinyHybrid) -> None:
        q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
        self.linear(f"{at}.q_proj", q, model.hidden)
        self.linear(f"{at}.k_proj", kv, model.hidden)
        self.linear(f"{at}.v_proj", kv, model.hidden)
        self.linear(f"{at}.{output}", model.hidden, q)


def _nemotron_shapes(model: TinyHybrid) -> dict[str, tuple[int, ...]]:
    hidden, heads = model.hidden, model.inner_heads
    shapes = _Shapes({"model.embeddings.weight": (model.vocab, hidden)})
    for layer, kind in enumerate(model.layers):
        mixer = f"model.layers.{layer}.mixer"
        shapes[f"model.layers.{layer}.norm.weight"] = (hidden,)
        if kind == "a":
            shapes.attention(mixer, "o_proj", model)
        elif kind == "f":
            shapes.linear(f"{mixer}.up_proj", model.intermediate, hidden, model.mlp_bias)
            shapes.linear(f"{mixer}.down_proj", hidden, model.intermediate, model.mlp_bias)
        else:
            shapes.linear(f"{mixer}.in_proj", model.inner + model.channels + heads, hidden, model.projection_bias)
            shapes.conv(f"{mixer}.conv1d", model)
            for vector in ("dt_bias", "A_log", "D"):
                shapes[f"{mixer}.{vector}"] = (heads,)
            shapes[f"{mixer}.norm.weight"] = (model.inner,)
            shapes.linear(f"{mixer}.out_proj", hidden, model.inner, model.projection_bias)
    shapes["model.norm_f.weight"] = (hidden,)
    shapes["lm_head.weight"] = (model.vocab, hidden)
    return shapes


def _lfm_shapes(model: TinyHybrid) -> dict[str, tuple[int, ...]]:
    hidden = model.hidden
    shapes = _Shapes({"model.embed_tokens.weight": (model.vocab, hidden)})
    for layer, kind in enumerate(model.layers):
        at = f"model.layers.{layer}"
        shapes[f"{at}.operator_norm.weight"] = (hidden,)
        if kind == "a":
            shapes.attention(f"{at}.self_attn", "out_proj", model)
            shapes[f"{at}.self_attn.q_layernorm.weight"] = (model.head_dim,)
            shapes[f"{at}.self_attn.k_layernorm.weight"] = (model.head_dim,)
        else:
            shapes.linear(f"{at}.conv.in_proj", 3 * hidden, hidden, model.projection_bias)
            shapes.conv(f"{at}.conv.conv", model)
            shapes.linear(f"{at}.conv.out_proj", hidden, hidden, model.projection_bias)
        shapes[f"{at}.ffn_norm.weight"] = (hidden,)
        shapes.linear(f"{at}.feed_forward.w1", model.intermediate, hidden)
        shapes.linear(f"{at}.feed_forward.w3", model.intermediate, hidden)
        shapes.linear(f"{at}.feed_forward.w2", hidden, model.intermediate)
    shapes["model.embedding_norm.weight"] = (hidden,)
    if not model.tied:
        shapes["lm_head.weight"] = (model.vocab, hidden)
    return shapes


def tensor_shapes(model: TinyHybrid) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors of the text model, in file order."""
    if model.family == "nemotron_h":
        return _nemotron_shapes(model)
    if model.family == "lfm2":
        return _lfm_shapes(model)
    hidden, wide = model.hidden, model.intermediate
    granite = model.family == "granitemoehybrid"
    q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (model.vocab, hidden)}

    def linear(name: str, outputs: int, inputs: int, bias: bool = False) -> None:
        shapes[f"{name}.weight"] = (outputs, inputs)
        if bias:
            shapes[f"{name}.bias"] = (outputs,)

    for layer, kind in enumerate(model.layers):
        at = f"model.layers.{layer}"
        shapes[f"{at}.input_layernorm.weight"] = (hidden,)
        if kind == "a":
            linear(f"{at}.self_attn.q_proj", q if granite else 2 * q, hidden, model.attention_bias)
            linear(f"{at}.self_attn.k_proj", kv, hidden, model.attention_bias)
            linear(f"{at}.self_attn.v_proj", kv, hidden, model.attention_bias)
            linear(f"{at}.self_attn.o_proj", hidden, q, model.attention_bias)
            if not granite:
                shapes[f"{at}.self_attn.q_norm.weight"] = (model.head_dim,)
                shapes[f"{at}.self_attn.k_norm.weight"] = (model.head_dim,)
        else:
            mixer = f"{at}.mamba" if granite else f"{at}.linear_attn"
            heads = model.inner_heads
            if granite:
                linear(f"{mixer}.in_proj", model.inner + model.channels + heads, hidden)
                shapes[f"{mixer}.D"] = (heads,)
                shapes[f"{mixer}.norm.weight"] = (model.inner,)
            else:
                linear(f"{mixer}.in_proj_qkv", model.channels, hidden)
                linear(f"{mixer}.in_proj_z", model.inner, hidden)
                linear(f"{mixer}.in_proj_b", heads, hidden)
                linear(f"{mixer}.in_proj_a", heads, hidden)
                shapes[f"{mixer}.norm.weight"] = (model.inner_dim,)
            shapes[f"{mixer}.conv1d.weight"] = (model.channels, 1, model.conv)
            if granite and model.conv_bias:
                shapes[f"{mixer}.conv1d.bias"] = (model.channels,)
            shapes[f"{mixer}.dt_bias"] = (heads,)
            shapes[f"{mixer}.A_log"] = (heads,)
            linear(f"{mixer}.out_proj", hidden, model.inner)
        shapes[f"{at}.post_attention_layernorm.weight"] = (hidden,)
        if granite and model.experts:
            moe, inner = f"{at}.block_sparse_moe", model.expert_intermediate
            shapes[f"{moe}.input_linear.weight"] = (model.experts, 2 * inner, hidden)
            shapes[f"{moe}.output_linear.weight"] = (model.experts, hidden, inner)
            linear(f"{moe}.router.layer", model.experts, hidden)
        if granite:
            linear(f"{at}.shared_mlp.input_linear", 2 * wide, hidden)
            linear(f"{at}.shared_mlp.output_linear", hidden, wide)
        else:
            linear(f"{at}.mlp.gate_proj", wide, hidden)
            linear(f"{at}.mlp.up_proj", wide, hidden)
            linear(f"{at}.mlp.down_proj", hidden, wide)
    shapes["model.norm.weight"] = (hidden,)
    if not model.tied:
        shapes["lm_head.weight"] = (model.vocab, hidden)
    return shapes


def _values(stream: str, model: TinyHybrid, name: str, shape: tuple[int, ...]) -> np.ndarray:
    # Qwen's norms multiply by 1 + w, but for that of the recurrence.
    plus_one = model.family == "qwen3_5" and not name.endswith("linear_attn.norm.weight")
    if name in ("model.norm.weight", "model.norm_f.weight", "model.embedding_norm.weight"):
        mean = (1.5 / (_TIED_EMBEDDING * model.hidden**0.5) if model.tied else 1.0) * model.multipliers[3]
        return prng.bell(stream, shape, 0.1, mean - plus_one)
    if name.endswith("norm.weight"):
        mean = 1.2 if any(part in name for part in ("q_norm", "k_norm", "q_layernorm", "k_layernorm")) else 1.0
        return prng.bell(stream, shape, 0.15, mean - plus_one)
    if name.endswith(".A_log"):
        return prng.bell(stream, shape, 0.7, 0.3)
    if name.endswith(".dt_bias"):
        return prng.bell(stream, shape, 0.7, -1.0)
    if name.endswith(".D"):
        return prng.bell(stream, shape, 0.3, 1.0)
    if name.endswith(".bias"):
        return prng.bell(stream, shape, 0.3)
    if name in ("model.embed_tokens.weight", "model.embeddings.weight"):
        return prng.bell(stream, shape, _TIED_EMBEDDING if model.tied else 1.0)
    role = name.split(".")[-2]
    gain = 3.0 if ".router." in name else _GAIN.get(role, 1.0)  # as in expert_models.py
    return prng.bell(stream, shape, gain / shape[-1] ** 0.5)


def weights(name: str, model: TinyHybrid) -> dict[str, np.ndarray]:
    """The tensors of the text model as the files have them: float32 values that their type holds exactly."""
    found = {}
    for tensor, shape in tensor_shapes(model).items():
        values = _values(f"{name}/{tensor}", model, tensor, shape)
        if model.dtype == "BF16":
            values = (safetensors_file.to_bf16_bits(values).astype("<u4") << 16).view("<f4")
        found[tensor] = values
    return found


def write(folder: Path, name: str, model: TinyHybrid) -> None:
    """The Hugging Face directory."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_json(model), indent=2) + "\n")
    tensors = weights(name, model)
    if model.nested:
        tensors = {tensor.replace("model.", model.prefix, 1): values for tensor, values in tensors.items()}
    if model.nested and model.family == "qwen3_5":
        # Parts of the published files that a text model has no use for.
        tensors["model.visual.patch_embed.proj.weight"] = prng.bell(f"{name}/visual", (3, 5), 1.0)
        tensors["mtp.fc.weight"] = prng.bell(f"{name}/mtp", (4, 6), 1.0)
    safetensors_file.write(folder / "model.safetensors", tensors, model.dtype)


_NAMES = {
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mamba.in_proj": "ssm_in",
    "mamba.conv1d": "ssm_conv1d",
    "mamba.dt_bias": "ssm_dt.bias",
    "mamba.A_log": "ssm_a",
    "mamba.D": "ssm_d",
    "mamba.norm": "ssm_norm",
    "mamba.out_proj": "ssm_out",
    "linear_attn.in_proj_qkv": "attn_qkv",
    "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.in_proj_a": "ssm_alpha",
    "linear_attn.conv1d": "ssm_conv1d",
    "linear_attn.dt_bias": "ssm_dt.bias",
    "linear_attn.A_log": "ssm_a",
    "linear_attn.norm": "ssm_norm",
    "linear_attn.out_proj": "ssm_out",
    "norm.weight": "attn_norm.weight",
    "mixer.q_proj": "attn_q",
    "mixer.k_proj": "attn_k",
    "mixer.v_proj": "attn_v",
    "mixer.o_proj": "attn_output",
    "mixer.in_proj": "ssm_in",
    "mixer.conv1d": "ssm_conv1d",
    "mixer.dt_bias": "ssm_dt.bias",
    "mixer.A_log": "ssm_a",
    "mixer.D": "ssm_d",
    "mixer.norm": "ssm_norm",
    "mixer.out_proj": "ssm_out",
    "mixer.up_proj": "ffn_up",
    "mixer.down_proj": "ffn_down",
    "operator_norm.weight": "attn_norm.weight",
    "self_attn.out_proj": "attn_output",
    "self_attn.q_layernorm": "attn_q_norm",
    "self_attn.k_layernorm": "attn_k_norm",
    "conv.in_proj": "shortconv.in_proj",
    "conv.conv": "shortconv.conv",
    "conv.out_proj": "shortconv.out_proj",
    "feed_forward.w1": "ffn_gate",
    "feed_forward.w3": "ffn_up",
    "feed_forward.w2": "ffn_down",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "shared_mlp.output_linear": "ffn_down",
    "block_sparse_moe.output_linear": "ffn_down_exps",
    "block_sparse_moe.router.layer": "ffn_gate_inp",
}


def _gguf_name(model: TinyHybrid, name: str) -> str:
    top = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
           "lm_head.weight": "output.weight", "model.embeddings.weight": "token_embd.weight",
           "model.norm_f.weight": "output_norm.weight", "model.embedding_norm.weight": "token_embd_norm.weight"}
    if name in top:
        return top[name]
    _, _, layer, rest = name.split(".", 3)
    if rest == "post_attention_layernorm.weight":
        rest = "ffn_norm.weight" if model.family == "granitemoehybrid" else "post_attention_norm.weight"
    for ours, theirs in _NAMES.items():
        if rest == ours or rest.startswith(ours + "."):
            rest = theirs + rest[len(ours) :]
            break
    return f"blk.{layer}.{rest}"


def _decay(log: np.ndarray) -> np.ndarray:
    """-exp, of float64: float32 functions differ from one processor to another."""
    return np.array([-math.exp(value) for value in log.tolist()], dtype=np.float32)


def _in_turns(values: np.ndarray, model: TinyHybrid, width: int, axis: int = 0) -> np.ndarray:
    """Value heads in turns of the key heads, as llama.cpp stores them."""
    each = model.inner_heads // model.groups
    shape = values.shape
    split = values.reshape(*shape[:axis], model.groups, each, width, *shape[axis + 1 :])
    return np.swapaxes(split, axis, axis + 1).reshape(shape)


def _converted(model: TinyHybrid, name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """The tensors of a GGUF file that llama.cpp's converter makes of one of ours, by name."""
    mamba = model.family in ("granitemoehybrid", "nemotron_h")
    at = _gguf_name(model, name)
    if model.family == "lfm2":
        return {at: values[:, 0] if name.endswith("conv.conv.weight") else values}
    if mamba:
        if name.endswith(("q_proj.weight", "k_proj.weight", "q_proj.bias", "k_proj.bias")):
            halves = values.reshape(-1, 2, model.head_dim // 2, *values.shape[1:])
            return {at: halves.swapaxes(1, 2).reshape(values.shape)}
        if name.endswith("input_linear.weight"):
            block = ".".join(at.split(".")[:2])
            gate, up = np.split(values, 2, axis=-2)
            suffix = "_exps" if values.ndim == 3 else "_shexp" if model.experts else ""
            return {f"{block}.ffn_gate{suffix}.weight": gate, f"{block}.ffn_up{suffix}.weight": up}
        if name.endswith("shared_mlp.output_linear.weight") and model.experts:
            return {at.replace("ffn_down", "ffn_down_shexp"): values}
        if name.endswith(".A_log"):
            return {at: _decay(values)[:, None]}
        if name.endswith(".D"):
            return {at: values[:, None]}
        if name.endswith(("mamba.norm.weight", "mixer.norm.weight")):
            return {at: values.reshape(model.groups, -1)}
        if name.endswith("conv1d.weight"):
            return {at: values[:, 0]}
        return {at: values}
    before = 2 * model.groups * model.state
    if name.endswith(("in_proj_qkv.weight", "conv1d.weight")):
        values = values.reshape(values.shape[0], -1)
        return {at: np.concatenate([values[:before], _in_turns(values[before:], model, model.inner_dim)])}
    if name.endswith("in_proj_z.weight"):
        return {at: _in_turns(values, model, model.inner_dim)}
    if name.endswith(("in_proj_b.weight", "in_proj_a.weight", ".dt_bias")):
        return {at: _in_turns(values, model, 1)}
    if name.endswith(".A_log"):
        return {at: _in_turns(_decay(values), model, 1)}
    if name.endswith("linear_attn.out_proj.weight"):
        return {at: _in_turns(values, model, model.inner_dim, axis=1)}
    if name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight"):
        return {at: values + np.float32(1)}
    return {at: values}


def write_gguf(path: Path, name: str, model: TinyHybrid) -> None:
    """The same model; matrices in the type of the other file, everything else in F32."""
    architecture = {"granitemoehybrid": "granitehybrid", "qwen3_5": "qwen35"}.get(model.family, model.family)
    writer = GGUFWriter(path, architecture)
    _add_metadata(writer, name, model)
    for tensor, values in weights(name, model).items():
        for at, converted in _converted(model, tensor, values).items():
            small = any(part in at for part in ("ssm_conv1d", "ssm_norm", "shortconv.conv"))
            small = small or "ffn_gate_inp" in at
            matrix = at.endswith(".weight") and converted.ndim in (2, 3) and not small
            if matrix and model.dtype == "BF16":
                bits = safetensors_file.to_bf16_bits(np.ascontiguousarray(converted))
                writer.add_tensor(at, bits.view(np.uint8), raw_dtype=GGMLQuantizationType.BF16)
            else:
                writer.add_tensor(at, np.ascontiguousarray(converted, dtype=np.float32))
    if model.nested and model.family == "qwen3_5":  # a block of further-token prediction
        writer.add_tensor(f"blk.{len(model.layers)}.nextn.eh_proj.weight", prng.bell(f"{name}/mtp", (4, 6), 1.0))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_metadata(writer: GGUFWriter, name: str, model: TinyHybrid) -> None:
    granite = model.family == "granitemoehybrid"
    writer.add_type("model")
    writer.add_name(name)
    writer.add_block_count(len(model.layers) + (model.nested and model.family == "qwen3_5"))
    writer.add_context_length(256)
    writer.add_embedding_length(model.hidden)
    writer.add_head_count(model.heads)
    writer.add_layer_norm_rms_eps(model.eps)
    writer.add_vocab_size(model.vocab)
    writer.add_file_type(LlamaFileType.MOSTLY_BF16 if model.dtype == "BF16" else LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("none")
    if model.family == "lfm2":
        writer.add_shortconv_l_cache(model.conv)
        writer.add_feed_forward_length(model.intermediate)
        writer.add_head_count_kv([model.kv_heads if kind == "a" else 0 for kind in model.layers])
        writer.add_rope_freq_base(1e6)
        return
    writer.add_ssm_conv_kernel(model.conv)
    writer.add_ssm_state_size(model.state)
    writer.add_ssm_group_count(model.groups)
    writer.add_ssm_inner_size(model.inner)
    writer.add_ssm_time_step_rank(model.inner_heads)
    if model.family == "nemotron_h":
        writer.add_feed_forward_length([model.intermediate if kind == "f" else 0 for kind in model.layers])
        writer.add_head_count_kv([model.kv_heads if kind == "a" else 0 for kind in model.layers])
        writer.add_key_length(model.head_dim)
        writer.add_value_length(model.head_dim)
        writer.add_layer_norm_eps(model.eps)
        writer.add_rope_dimension_count(model.hidden // model.heads)
        writer.add_rope_scaling_finetuned(False)
        return
    if granite:
        embedding, residual, attention, logits = model.multipliers
        writer.add_feed_forward_length(model.expert_intermediate)
        writer.add_expert_shared_feed_forward_length(model.intermediate)
        writer.add_head_count_kv([model.kv_heads if kind == "a" else 0 for kind in model.layers])
        writer.add_rope_dimension_count(model.head_dim)
        writer.add_rope_freq_base(10000.0)
        writer.add_rope_scaling_finetuned(model.rope)
        writer.add_attention_scale(attention)
        writer.add_embedding_scale(embedding)
        writer.add_residual_scale(residual)
        writer.add_logit_scale(logits)
        writer.add_expert_count(model.experts)
        if model.experts:
            writer.add_expert_used_count(model.per_token)
        return
    writer.add_feed_forward_length(model.intermediate)
    writer.add_head_count_kv(model.kv_heads)
    writer.add_key_length(model.head_dim)
    writer.add_value_length(model.head_dim)
    writer.add_rope_freq_base(1e7)
    writer.add_rope_dimension_count(int(model.head_dim * model.rotary))
    writer.add_rope_dimension_sections([1, 1, 2, 0])
    if all((kind == "a") == ((i + 1) % 4 == 0) for i, kind in enumerate(model.layers)):
        writer.add_full_attention_interval(4)
    else:
        recurrent = [kind == "r" for kind in model.layers] + [False] * model.nested
        writer.add_array("qwen35.attention.recurrent_layers", recurrent)
    if model.nested:
        writer.add_uint32("qwen35.nextn_predict_layers", 1)
