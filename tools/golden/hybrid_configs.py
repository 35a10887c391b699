"""The tiny models with recurrent layers: one entry for each, with what it is there to cover.

As in hf_configs.py sizes are odd on purpose. `layers` has a letter for each layer: "r" recurrent, "a" attention, "f"
feed-forward and nothing else.
Each model is written as a Hugging Face directory and, where GGUF can say it, as the file that llama.cpp's converter
makes of it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class TinyHybrid:
    family: str  # granitemoehybrid, qwen3_5, nemotron_h, lfm2
    hidden: int
    intermediate: int
    layers: str
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    # Of a recurrent layer: (value) heads and their size, groups or key heads, and the size of a state or key.
    inner_heads: int
    inner_dim: int
    groups: int
    state: int
    conv: int = 4
    tied: bool = False
    dtype: str = "BF16"
    eps: float = 1e-5
    attention_bias: bool = False
    # Granite.
    conv_bias: bool = True
    rope: bool = False
    multipliers: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)  # embedding, residual, attention, logits
    time_step_limit: tuple[float, float] | None = None
    experts: int = 0  # beside the feed-forward block
    per_token: int = 0
    expert_intermediate: int = 7
    # Qwen3.5.
    rotary: float = 0.25
    # The published form. Qwen3.5 as in vision models: text_config, "model.language_model.", other parts. Nemotron-H:
    # "backbone.", hybrid_override_pattern. LFM2: block_ff_dim, tie_embedding, full_attn_idxs.
    nested: bool = False
    # Nemotron-H; projection_bias of LFM2 as well.
    mlp_bias: bool = False
    projection_bias: bool = False
    # LFM2: block_ff_dim, block_ffn_dim_multiplier, block_multiple_of of which `intermediate` comes out.
    adjusted: tuple[int, float, int] | None = None

    @property
    def gguf(self) -> bool:
        """The format has no key for the limit of time steps."""
        return self.time_step_limit is None

    @property
    def inner(self) -> int:
        return self.inner_heads * self.inner_dim

    @property
    def channels(self) -> int:
        return self.inner + 2 * self.groups * self.state

    @property
    def prefix(self) -> str:
        """What stands before the names of tensors in files, instead of "model."."""
        return {"qwen3_5": "model.language_model.", "nemotron_h": "backbone."}.get(self.family, "model.")


def _granite(*sizes, **rest) -> TinyHybrid:
    return TinyHybrid("granitemoehybrid", *sizes, **rest)


def _qwen(*sizes, **rest) -> TinyHybrid:
    return TinyHybrid("qwen3_5", *sizes, **({"eps": 1e-6} | rest))


def _nemotron(*sizes, **rest) -> TinyHybrid:
    return TinyHybrid("nemotron_h", *sizes, **rest)


def _lfm(hidden, *sizes, **rest) -> TinyHybrid:
    return TinyHybrid("lfm2", hidden, *sizes, 1, hidden, 1, 0, **({"conv": 3, "conv_bias": False} | rest))


HYBRIDS = {
    # one group, heads of 32, tied, all multipliers: the shape of Granite 4.0-H 350M
    "granite-h-base": _granite(
        96, 136, "rrar", 4, 2, 24, 131, 6, 32, 1, 16, tied=True, multipliers=(12.0, 0.25, 0.0625, 3.0),
    ),
    # two groups, three taps without bias, begins with attention, f32
    "granite-h-groups": _granite(
        80, 104, "arr", 2, 1, 40, 149, 8, 20, 2, 24, conv=3, conv_bias=False, dtype="F32",
        multipliers=(5.0, 0.7, 0.2, 1.0),
    ),
    # three groups of one head, two taps, sizes of 24 and 10, ends with a recurrent layer, an epsilon that tells
    "granite-h-odd": _granite(
        72, 88, "rrar", 3, 3, 24, 131, 3, 24, 3, 10, conv=2, multipliers=(1.0, 0.22, 0.15, 6.0), eps=0.05,
    ),
    # states of 128 and heads of 64, which rotate
    "granite-h-wide": _granite(
        128, 176, "ra", 2, 1, 64, 151, 4, 64, 1, 128, rope=True, tied=True, multipliers=(3.0, 0.5, 0.125, 2.0),
    ),
    # a clamp of the time steps, eight taps, four groups, biases of attention, f32
    "granite-h-clamp": _granite(
        64, 96, "arar", 4, 1, 16, 131, 8, 16, 4, 12, conv=8, dtype="F32", attention_bias=True,
        time_step_limit=(0.05, 0.6), multipliers=(1.0, 1.0, 0.25, 1.0),
    ),
    # no recurrent layer at all: Granite 4.0 without "H"
    "granite-h-none": _granite(
        96, 120, "aa", 4, 2, 24, 131, 6, 32, 1, 16, rope=True, tied=True, multipliers=(12.0, 0.25, 0.0625, 3.0),
    ),
    # 2 of 6 experts in every layer beside the other block: the shape of Granite 4.0-H Tiny
    "granite-h-experts": _granite(
        96, 72, "rrar", 4, 2, 24, 131, 6, 32, 1, 16, tied=True, multipliers=(12.0, 0.25, 0.0625, 3.0), experts=6,
        per_token=2, expert_intermediate=40,
    ),
    # experts wider than the other block, three of five, layers of attention only, f32
    "granite-h-experts-none": _granite(
        64, 35, "aa", 2, 1, 32, 149, 4, 32, 1, 16, rope=True, dtype="F32", multipliers=(5.0, 0.7, 0.2, 1.0), experts=5,
        per_token=3, expert_intermediate=77,
    ),
    # as many key heads as value heads, tied, every fourth layer is attention, published form
    "qwen35-base": _qwen(
        96, 136, "rrra", 4, 2, 32, 131, 2, 16, 2, 16, tied=True, nested=True,
    ),
    # three value heads to a key head, of different sizes, begins with attention, f32
    "qwen35-group": _qwen(
        80, 104, "arr", 2, 1, 64, 149, 6, 20, 2, 24, dtype="F32",
    ),
    # one key head, sizes of 34 and 10, two taps, ends with a recurrent layer
    "qwen35-odd": _qwen(
        72, 88, "rar", 3, 1, 24, 131, 3, 34, 1, 10, conv=2, rotary=0.5,
    ),
    # heads of 128, attention heads of 256 of which 64 rotate: the shape of Qwen3.5 0.8B
    "qwen35-wide": _qwen(
        64, 96, "ra", 2, 1, 256, 151, 2, 128, 2, 128, tied=True,
    ),
    # biases of attention, three taps, two value heads to a key head, published form, f32
    "qwen35-bias": _qwen(
        64, 120, "rrar", 4, 4, 16, 131, 8, 16, 4, 32, conv=3, rotary=0.5, attention_bias=True, dtype="F32",
        nested=True,
    ),
    # eight taps, sizes of 7 and 18
    "qwen35-long": _qwen(
        88, 96, "raar", 2, 2, 40, 203, 3, 7, 3, 18, conv=8,
    ),
    # two groups of four heads, attention wider than the residual, published form
    "nemotron-h-base": _nemotron(
        96, 136, "rfraf", 4, 2, 40, 131, 8, 16, 2, 16, nested=True,
    ),
    # four groups, three taps without bias, begins with attention and ends with a recurrent layer, f32
    "nemotron-h-groups": _nemotron(
        80, 104, "afrfr", 2, 1, 40, 149, 8, 20, 4, 24, conv=3, conv_bias=False, dtype="F32",
    ),
    # three groups of one head, two taps, sizes of 24 and 10, all biases, an epsilon that tells
    "nemotron-h-odd": _nemotron(
        72, 89, "frrafa", 3, 3, 24, 131, 3, 24, 3, 10, conv=2, mlp_bias=True, projection_bias=True, eps=0.05,
    ),
    # eight groups of one head, states of 128 and heads of 64: the shape of Nemotron Nano
    "nemotron-h-wide": _nemotron(
        128, 432, "rfa", 2, 1, 128, 151, 8, 64, 8, 128,
    ),
    # time steps not below a limit, eight taps, two feed-forward layers in a row, f32
    "nemotron-h-clamp": _nemotron(
        64, 96, "raffr", 4, 1, 16, 131, 8, 16, 4, 12, conv=8, dtype="F32", time_step_limit=(0.3, float("inf")),
    ),
    # no recurrent layer
    "nemotron-h-none": _nemotron(
        96, 120, "afaf", 4, 2, 24, 131, 6, 32, 2, 16, nested=True,
    ),
    # tied, published form, ends with a convolution: the shape of LFM2 350M
    "lfm2-base": _lfm(
        96, 144, "rrarar", 4, 2, 24, 131, tied=True, nested=True, adjusted=(200, 1.0, 16),
    ),
    # begins with attention, four taps with biases everywhere, heads of 40, f32
    "lfm2-bias": _lfm(
        80, 104, "arr", 2, 1, 40, 149, conv=4, conv_bias=True, projection_bias=True, dtype="F32",
    ),
    # two taps, a multiplier, an epsilon that tells
    "lfm2-odd": _lfm(
        72, 105, "rar", 3, 3, 24, 131, conv=2, eps=0.05, adjusted=(100, 1.5, 7),
    ),
    # eight taps, two thirds that need no rounding, tied
    "lfm2-long": _lfm(
        176, 66, "ra", 4, 1, 44, 151, conv=8, tied=True, adjusted=(100, 1, 1),
    ),
    # attention only, f32
    "lfm2-none": _lfm(
        64, 96, "aa", 4, 4, 16, 131, tied=True, dtype="F32", nested=True,
    ),
}


def _common(model: TinyHybrid) -> dict:
    return {
        "model_type": model.family,
        "hidden_size": model.hidden,
        "num_hidden_layers": len(model.layers),
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "vocab_size": model.vocab,
        "max_position_embeddings": 256,
        "tie_word_embeddings": model.tied,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": None,
        "dtype": {"BF16": "bfloat16", "F32": "float32"}[model.dtype],
    }


def _nemotron_config(model: TinyHybrid) -> dict:
    names = {"r": "linear_attention", "a": "full_attention", "f": "mlp"}
    low = model.time_step_limit[0] if model.time_step_limit else 1e-30
    config = _common(model) | {
        "layers_block_type": [names[kind] for kind in model.layers],
        "head_dim": model.head_dim,
        "intermediate_size": model.intermediate,
        "layer_norm_epsilon": model.eps,
        "mlp_bias": model.mlp_bias,
        "use_bias": model.projection_bias,
        "mamba_num_heads": model.inner_heads,
        "mamba_head_dim": model.inner_dim,
        "n_groups": model.groups,
        "ssm_state_size": model.state,
        "conv_kernel": model.conv,
        "use_conv_bias": model.conv_bias,
        "chunk_size": 16,
        # The limit that transformers clamps to; in files it is time_step_limit.
        "time_step_min": low,
    }
    del config["num_hidden_layers"]
    return config


def _nemotron_json(model: TinyHybrid) -> dict:
    config = _nemotron_config(model) | {
        "time_step_min": 0.001,
        "mlp_hidden_act": "relu2",
        "mamba_hidden_act": "silu",
        "n_routed_experts": 8,
    }
    if model.time_step_limit or model.nested:
        config["time_step_limit"] = list(model.time_step_limit or (0.0, float("inf")))
    if model.nested:
        del config["layers_block_type"]
        config["num_hidden_layers"] = len(model.layers)
        config["hybrid_override_pattern"] = "".join({"r": "M", "a": "*", "f": "-"}[kind] for kind in model.layers)
    elif model.dtype == "BF16":
        old = {"r": "mamba", "a": "attention", "f": "mlp"}
        config["layers_block_type"] = [old[kind] for kind in model.layers]
    return config


def _lfm_config(model: TinyHybrid) -> dict:
    size, multiplier, multiple = model.adjusted or (model.intermediate, 1.0, 256)
    return _common(model) | {
        "layer_types": [{"r": "conv", "a": "full_attention"}[kind] for kind in model.layers],
        "intermediate_size": size,
        "block_auto_adjust_ff_dim": model.adjusted is not None,
        "block_ffn_dim_multiplier": multiplier,
        "block_multiple_of": multiple,
        "norm_eps": model.eps,
        "conv_L_cache": model.conv,
        "conv_bias": model.conv_bias,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
    }


def _lfm_json(model: TinyHybrid) -> dict:
    config = _lfm_config(model)
    if model.nested:
        config["block_ff_dim"] = config.pop("intermediate_size")
        config["tie_embedding"] = config.pop("tie_word_embeddings")
        del config["layer_types"], config["rope_parameters"]
        config["rope_theta"] = 1000000.0
        if "r" in model.layers:
            config["full_attn_idxs"] = [i for i, kind in enumerate(model.layers) if kind == "a"]
    return config


def text_config(model: TinyHybrid) -> dict:
    """What transformers needs to know of the text model."""
    if model.family == "nemotron_h":
        return _nemotron_config(model)
    if model.family == "lfm2":
        return _lfm_config(model)
    granite = model.family == "granitemoehybrid"
    old = {"r": "mamba", "a": "attention"}
    new = {"r": "linear_attention", "a": "full_attention"}
    config = {
        "model_type": "granitemoehybrid" if granite else "qwen3_5_text",
        "hidden_size": model.hidden,
        "num_hidden_layers": len(model.layers),
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "vocab_size": model.vocab,
        "max_position_embeddings": 256,
        "rms_norm_eps": model.eps,
        "hidden_act": "silu",
        "tie_word_embeddings": model.tied,
        "attention_bias": model.attention_bias,
        "layer_types": [(old if granite and model.dtype == "BF16" else new)[kind] for kind in model.layers],
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": None,
        "dtype": {"BF16": "bfloat16", "F32": "float32"}[model.dtype],
    }
    if granite:
        embedding, residual, attention, logits = model.multipliers
        config |= {
            "embedding_multiplier": embedding,
            "residual_multiplier": residual,
            "attention_multiplier": attention,
            "logits_scaling": logits,
            "intermediate_size": model.expert_intermediate,
            "shared_intermediate_size": model.intermediate,
            "num_local_experts": model.experts,
            "num_experts_per_tok": model.per_token,
            "position_embedding_type": "rope" if model.rope else "nope",
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
            "mamba_n_heads": model.inner_heads,
            "mamba_n_groups": model.groups,
            "mamba_d_state": model.state,
            "mamba_d_head": model.inner_dim,
            "mamba_d_conv": model.conv,
            "mamba_expand": model.inner // model.hidden,
            "mamba_chunk_size": 16,
            "mamba_conv_bias": model.conv_bias,
            "mamba_proj_bias": False,
        }
        if model.time_step_limit:
            config["time_step_limit"] = list(model.time_step_limit)
        return config
    return config | {
        "intermediate_size": model.intermediate,
        "head_dim": model.head_dim,
        "attn_output_gate": True,
        "linear_num_value_heads": model.inner_heads,
        "linear_value_head_dim": model.inner_dim,
        "linear_num_key_heads": model.groups,
        "linear_key_head_dim": model.state,
        "linear_conv_kernel_dim": model.conv,
        "mamba_ssm_dtype": "float32",
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1e7,
            "partial_rotary_factor": model.rotary,
            "mrope_section": [1, 1, 2],
            "mrope_interleaved": True,
        },
    }


def config_json(model: TinyHybrid) -> dict:
    """The config.json of a model: of the published form, or of the text model alone."""
    if model.family == "nemotron_h":
        return {"architectures": ["NemotronHForCausalLM"]} | _nemotron_json(model)
    if model.family == "lfm2":
        return {"architectures": ["Lfm2ForCausalLM"]} | _lfm_json(model)
    text = text_config(model)
    if not model.nested:
        name = "GraniteMoeHybridForCausalLM" if model.family == "granitemoehybrid" else "Qwen3_5ForCausalLM"
        return {"architectures": [name]} | text
    del text["layer_types"]
    regular = all((kind == "a") == ((i + 1) % 4 == 0) for i, kind in enumerate(model.layers))
    text |= {"full_attention_interval": 4} if regular else {"layer_types": text_config(model)["layer_types"]}
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "image_token_id": 3,
        "text_config": text,
        "vision_config": {"model_type": "qwen3_5", "depth": 1},
        "tie_word_embeddings": model.tied,
    }
