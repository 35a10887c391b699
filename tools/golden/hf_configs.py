"""The tiny Hugging Face models: one entry for each, with what it is there to cover.

Sizes are odd on purpose (not multiples of 16 or 32), because real kernels fail at edges. `spelling` is the
transformers version whose config.json keys are written: 4 (`rope_theta`, `rope_scaling`, `torch_dtype`) or
5 (`rope_parameters`, `dtype`). `head_dim` is left out of config.json where it is hidden / heads.
"""

from dataclasses import dataclass, field

import words_tokenizer

@dataclass(frozen=True)
class TinyModel:
    architecture: str
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int
    spelling: int
    head_dim: int | None = None
    tied: bool = False
    dtype: str = "BF16"
    shards: int = 1
    rope_theta: float = 10000.0
    rope_scaling: dict | None = None
    partial_rotary_factor: float | None = None
    original_max_positions: int | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    max_positions: int = 256
    eps: float = 1e-5
    words: bool = False  # has a tokenizer; read by the tests of the ready-made tasks
    extra: dict = field(default_factory=dict)

    @property
    def qkv_bias(self) -> bool:
        """Qwen2 has one on query, key and value without saying so, and none on the output."""
        return self.attention_bias or self.architecture == "qwen2"

    @property
    def head_size(self) -> int:
        return self.head_dim or self.hidden // self.heads


_LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def _longrope(pairs: int, short: float, long: float) -> dict:
    """Factors that rise from 1 with the wavelength, as in the published Phi models."""
    return {
        "type": "longrope",
        "short_factor": [round(1.0 + short * i / pairs, 6) for i in range(pairs)],
        "long_factor": [round(1.0 + long * i / pairs, 6) for i in range(pairs)],
    }


MODELS = {
    # group 1, head 64, tied
    "llama-base": TinyModel("llama", 128, 176, 2, 2, 2, 131, spelling=4, tied=True),
    # group 4, head 64, llama3 rope scaling, untied, f16
    "llama-rope3": TinyModel(
        "llama", 256, 200, 2, 4, 1, 200, spelling=5, dtype="F16", rope_theta=500000.0, rope_scaling=_LLAMA3_ROPE,
    ),
    # group 2, head 80, biases everywhere, f32, in three shards
    "llama-bias": TinyModel(
        "llama", 160, 200, 2, 2, 1, 131, spelling=5, dtype="F32", shards=3, attention_bias=True, mlp_bias=True,
    ),
    # group 5, explicit head 128 (heads * head_dim = 640, hidden 200), llama3 scaling in the old spelling
    "llama-wide": TinyModel(
        "llama", 200, 176, 3, 5, 1, 307, spelling=4, head_dim=128, rope_theta=500000.0, rope_scaling=_LLAMA3_ROPE,
        eps=1e-6, extra={"eos_token_id": [2, 5, 7]},
    ),
    # group 2, head 128 beside hidden 160, tied
    "qwen3-base": TinyModel(
        "qwen3", 160, 176, 2, 4, 2, 131, spelling=4, head_dim=128, tied=True, rope_theta=1e6, eps=1e-6,
    ),
    # group 4, head 64 beside hidden 200, untied, f16
    "qwen3-four": TinyModel(
        "qwen3", 200, 248, 3, 4, 1, 307, spelling=5, head_dim=64, dtype="F16", rope_theta=1e6, eps=1e-6,
        extra={"layer_types": ["full_attention"] * 3},
    ),
    # group 5, head 80, tied
    "qwen3-five": TinyModel(
        "qwen3", 320, 200, 2, 5, 1, 149, spelling=5, head_dim=80, tied=True, rope_theta=10000.0,
    ),
    # group 1, head 64 beside hidden 72, two shards
    "qwen3-one": TinyModel("qwen3", 72, 100, 2, 2, 2, 131, spelling=4, head_dim=64, shards=2, rope_theta=1e5),
    # group 2, head 64, tied; with a tokenizer of 964 tokens and an embedding padded beyond it
    "qwen3-words": TinyModel(
        "qwen3", 128, 176, 2, 2, 1, 1003, spelling=4, head_dim=64, tied=True, rope_theta=1e6, eps=1e-6,
        max_positions=1024, words=True,
        extra={"bos_token_id": None, "eos_token_id": words_tokenizer.IM_END},
    ),
    # group 2, head 64, tied
    "qwen2-base": TinyModel("qwen2", 128, 176, 2, 2, 1, 131, spelling=4, tied=True, rope_theta=1e6, eps=1e-6),
    # group 7, head 64, untied, f32: the head group of Qwen2-0.5B
    "qwen2-seven": TinyModel("qwen2", 448, 200, 2, 7, 1, 149, spelling=5, dtype="F32", rope_theta=1e6, eps=1e-6),
    # group 1, head 80, two shards
    "qwen2-one": TinyModel("qwen2", 160, 248, 3, 2, 2, 203, spelling=4, shards=2, rope_theta=10000.0),
    # group 4, head 128, tied, f16
    "qwen2-wide": TinyModel("qwen2", 512, 176, 2, 4, 1, 131, spelling=5, tied=True, dtype="F16", rope_theta=1e6, eps=1e-6),
    # group 1, head 64, untied
    "olmo2-base": TinyModel("olmo2", 128, 176, 2, 2, 2, 131, spelling=4, rope_theta=500000.0, eps=1e-6),
    # group 2, head 80, tied
    "olmo2-group": TinyModel("olmo2", 160, 200, 3, 2, 1, 151, spelling=5, tied=True, rope_theta=500000.0, eps=1e-6),
    # group 5, head 64, f32
    "olmo2-five": TinyModel("olmo2", 320, 184, 2, 5, 1, 203, spelling=5, dtype="F32", rope_theta=10000.0),
    # group 1, head 128
    "olmo2-wide": TinyModel("olmo2", 256, 264, 2, 2, 2, 131, spelling=4, rope_theta=500000.0, eps=1e-6),
    # group 1, head 64
    "phi3-base": TinyModel("phi3", 128, 176, 2, 2, 2, 131, spelling=4),
    # group 2, head 80 of which 60 rotate, tied
    "phi3-partial": TinyModel("phi3", 160, 200, 2, 2, 1, 151, spelling=5, tied=True, partial_rotary_factor=0.75),
    # group 4, head 64, longrope
    "phi3-longrope": TinyModel(
        "phi3", 256, 200, 2, 4, 1, 131, spelling=4, rope_scaling=_longrope(32, 0.6, 9.0), original_max_positions=32,
    ),
    # group 5, head 64 of which 48 rotate, longrope in the new spelling, tied: the shape of Phi-4-mini
    "phi3-five": TinyModel(
        "phi3", 320, 176, 2, 5, 1, 203, spelling=5, tied=True, partial_rotary_factor=0.75,
        rope_scaling=_longrope(24, 0.3, 20.0), original_max_positions=32,
    ),
}


def config_json(model: TinyModel) -> dict:
    """The config.json of a model, in its spelling."""
    classes = {
        "llama": "LlamaForCausalLM",
        "qwen2": "Qwen2ForCausalLM",
        "qwen3": "Qwen3ForCausalLM",
        "olmo2": "Olmo2ForCausalLM",
        "phi3": "Phi3ForCausalLM",
    }
    config = {
        "architectures": [classes[model.architecture]],
        "model_type": model.architecture,
        "hidden_size": model.hidden,
        "intermediate_size": model.intermediate,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "vocab_size": model.vocab,
        "max_position_embeddings": model.max_positions,
        "rms_norm_eps": model.eps,
        "hidden_act": "silu",
        "tie_word_embeddings": model.tied,
        "attention_bias": model.attention_bias,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "use_cache": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": None,
    }
    if model.architecture == "qwen2":
        del config["attention_bias"]  # it is no key of this architecture
    if model.head_dim:
        config["head_dim"] = model.head_dim
    if model.architecture == "llama":
        config["mlp_bias"] = model.mlp_bias
    if model.architecture in ("qwen2", "qwen3"):
        config |= {"use_sliding_window": False, "sliding_window": None, "max_window_layers": model.layers}
    if model.architecture == "phi3":
        config["sliding_window"] = None
    config |= _rope_json(model)
    dtype = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}[model.dtype]
    config["torch_dtype" if model.spelling == 4 else "dtype"] = dtype
    config["transformers_version"] = {4: "4.57.6", 5: "5.23.0"}[model.spelling]
    return config | model.extra


def _rope_json(model: TinyModel) -> dict:
    scaling = dict(model.rope_scaling) if model.rope_scaling else None
    top = {}
    if model.original_max_positions:
        top["original_max_position_embeddings"] = model.original_max_positions
    if model.spelling == 4:
        if model.partial_rotary_factor:
            top["partial_rotary_factor"] = model.partial_rotary_factor
        return top | {"rope_theta": model.rope_theta, "rope_scaling": scaling}
    parameters = scaling or {"rope_type": "default"}
    if "type" in parameters:
        parameters["rope_type"] = parameters.pop("type")
    parameters["rope_theta"] = model.rope_theta
    if model.partial_rotary_factor:
        parameters["partial_rotary_factor"] = model.partial_rotary_factor
    if model.original_max_positions:
        parameters["original_max_position_embeddings"] = model.original_max_positions
    return top | {"rope_parameters": parameters}
