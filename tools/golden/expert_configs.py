"""The tiny models with routed experts: one entry for each, with what it is there to cover.

As in hf_configs.py sizes are odd on purpose. Each is written as a Hugging Face directory and, where llama.cpp has the
architecture, as the file that its converter makes of it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class TinyExperts:
    family: str  # qwen3_moe, mixtral
    hidden: int
    intermediate: int  # of layers without experts
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    experts: int
    per_token: int
    expert_intermediate: int
    normalized: bool = True
    dense_layers: tuple[int, ...] = ()  # without experts
    sparse_step: int = 1
    tied: bool = False
    dtype: str = "BF16"
    eps: float = 1e-6
    rope_theta: float = 1e6
    window: int | None = None  # of all layers

    def has_experts(self, layer: int) -> bool:
        return layer not in self.dense_layers and (layer + 1) % self.sparse_step == 0

    @property
    def gguf(self) -> bool:
        """llama.cpp's converter takes files whose layers all have experts with normalized weights, and no windows."""
        sparse = all(self.has_experts(layer) for layer in range(self.layers))
        return sparse and self.normalized and self.window is None


EXPERTS = {
    # the usual shape: 2 of 8, weights that sum to 1
    "qwen3-moe-base": TinyExperts("qwen3_moe", 128, 176, 2, 2, 1, 64, 131, 8, 2, 48),
    # 3 of 5 of odd width, weights that do not sum to 1, f32, group 5, head 80
    "qwen3-moe-odd": TinyExperts(
        "qwen3_moe", 200, 100, 2, 5, 1, 80, 149, 5, 3, 35, normalized=False, dtype="F32", rope_theta=1e4,
    ),
    # one expert for each token, tied; the first layer of three has none
    "qwen3-moe-one": TinyExperts(
        "qwen3_moe", 160, 176, 3, 4, 2, 64, 203, 6, 1, 96, normalized=False, dense_layers=(0,), tied=True,
    ),
    # every second layer has experts, 8 of 33, more than most prompts have tokens
    "qwen3-moe-many": TinyExperts("qwen3_moe", 96, 120, 4, 2, 2, 64, 131, 33, 8, 32, sparse_step=2, dtype="F32"),
    # all experts of a token, f32, with a GGUF twin
    "qwen3-moe-all": TinyExperts("qwen3_moe", 72, 64, 2, 2, 1, 64, 307, 4, 4, 40, dtype="F32", tied=True),
    # group 4, 3 of 16 in three layers; group 1, one of two of odd width, f32: both have GGUF twins
    "qwen3-moe-four": TinyExperts("qwen3_moe", 96, 80, 3, 4, 1, 48, 203, 16, 3, 64),
    "qwen3-moe-two": TinyExperts("qwen3_moe", 80, 72, 2, 2, 2, 40, 151, 2, 1, 33, dtype="F32", rope_theta=1e5),
    # 2 of 8, all sizes of the dense block are those of the experts
    "mixtral-base": TinyExperts("mixtral", 128, 176, 2, 2, 1, 64, 131, 8, 2, 176),
    # group 4, tied, f32, odd
    "mixtral-odd": TinyExperts("mixtral", 200, 77, 2, 4, 1, 64, 149, 5, 2, 77, tied=True, dtype="F32", eps=1e-5),
    # one of three
    "mixtral-one": TinyExperts("mixtral", 160, 96, 3, 2, 2, 80, 203, 3, 1, 96, rope_theta=1e4),
    # all of four
    "mixtral-all": TinyExperts("mixtral", 96, 64, 2, 3, 3, 64, 131, 4, 4, 64, dtype="F32"),
    # a window in all layers
    "mixtral-window": TinyExperts("mixtral", 72, 64, 2, 4, 2, 32, 131, 4, 2, 64, dtype="F32", window=11),
    "qwen3-moe-window": TinyExperts("qwen3_moe", 64, 64, 3, 2, 1, 48, 149, 4, 2, 40, dense_layers=(1,), window=33),
    # a token sees itself only; a window of a page, tied; more than a page, group 5
    "mixtral-window-one": TinyExperts("mixtral", 64, 56, 2, 2, 2, 32, 203, 3, 1, 56, window=1),
    "mixtral-window-page": TinyExperts("mixtral", 96, 72, 3, 4, 1, 24, 149, 5, 2, 72, tied=True, window=32),
    "mixtral-window-five": TinyExperts("mixtral", 120, 48, 2, 5, 1, 40, 131, 4, 4, 48, window=46, rope_theta=1e4),
    "qwen3-moe-window-one": TinyExperts("qwen3_moe", 64, 64, 2, 2, 2, 32, 131, 5, 3, 40, normalized=False, window=1),
    "qwen3-moe-window-page": TinyExperts(
        "qwen3_moe", 96, 80, 2, 4, 1, 48, 203, 8, 2, 48, tied=True, dtype="F32", window=32,
    ),
    "qwen3-moe-window-five": TinyExperts(
        "qwen3_moe", 120, 64, 3, 5, 1, 40, 149, 6, 2, 33, dense_layers=(0,), window=51, rope_theta=1e4,
    ),
}


def config_json(model: TinyExperts) -> dict:
    """The config.json of a model."""
    qwen = model.family == "qwen3_moe"
    config = {
        "architectures": ["Qwen3MoeForCausalLM" if qwen else "MixtralForCausalLM"],
        "model_type": model.family,
        "hidden_size": model.hidden,
        "intermediate_size": model.intermediate,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "vocab_size": model.vocab,
        "max_position_embeddings": 256,
        "rms_norm_eps": model.eps,
        "hidden_act": "silu",
        "tie_word_embeddings": model.tied,
        "attention_dropout": 0.0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "rope_theta": model.rope_theta,
        "torch_dtype": {"BF16": "bfloat16", "F32": "float32"}[model.dtype],
        "num_experts_per_tok": model.per_token,
        "sliding_window": model.window,
    }
    if not qwen:
        return config | {"num_local_experts": model.experts}
    return config | {
        "attention_bias": False,
        "decoder_sparse_step": model.sparse_step,
        "mlp_only_layers": list(model.dense_layers),
        "moe_intermediate_size": model.expert_intermediate,
        "norm_topk_prob": model.normalized,
        "num_experts": model.experts,
        "use_sliding_window": model.window is not None,
    }
