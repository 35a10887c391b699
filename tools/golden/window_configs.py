"""The tiny models with sliding windows: one entry for each, with what it is there to cover.

As in hf_configs.py sizes are odd on purpose. `layers` has a letter for each layer: "s" attention in a window, "f"
full attention; those of full attention alone are here for the GGUF files of their architectures. Windows are shorter than most prompts: 1 (a token sees itself), smaller than a page of 32, a page, more
than one. Each model is written as a Hugging Face directory and, where GGUF can say it, as the file that llama.cpp's
converter makes of it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class TinyWindowed:
    family: str  # qwen2, qwen3, phi3, olmo2, olmo3, mistral, ministral, gemma2, gemma3_text
    hidden: int
    intermediate: int
    layers: str
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    window: int | None
    spelling: int  # of config.json, as in hf_configs.py
    listed: bool = True  # layer_types are written; else the other keys say which layers have a window
    tied: bool = False
    dtype: str = "BF16"
    eps: float = 1e-6
    rope_theta: float = 10000.0
    local_theta: float | None = None  # of layers with a window; None: the same
    rope_scaling: dict | None = None  # of layers without one
    query_scale: float | None = None  # query_pre_attn_scalar
    score_cap: float | None = None
    logit_cap: float | None = None
    pattern: int | None = None  # sliding_window_pattern is written

    @property
    def gemma(self) -> bool:
        return self.family.startswith("gemma")

    @property
    def norms_after(self) -> bool:
        """Norms follow the blocks, and query and key are normed over their whole width."""
        return self.family in ("olmo2", "olmo3")

    @property
    def gguf(self) -> bool:
        """The converter writes no window for the others."""
        if self.gemma:  # it has no key for the scale of scores, and takes caps for granted
            return self.query_scale == self.head_dim and (self.family != "gemma2" or bool(self.logit_cap))
        return self.family in ("olmo2", "olmo3", "phi3") or (self.family == "qwen2" and self.window is None)

    @property
    def windows(self) -> list[bool]:
        return [kind == "s" for kind in self.layers]


WINDOWED = {
    # the last two of four layers have a window of 7, group 2; the keys of published files, no list
    "qwen2-window": TinyWindowed("qwen2", 96, 136, "ffss", 4, 2, 24, 131, 7, spelling=4, listed=False, tied=True),
    # full attention between windows of 33, group 4, f32
    "qwen2-window-list": TinyWindowed("qwen2", 128, 104, "sfs", 4, 1, 32, 149, 33, spelling=5, dtype="F32"),
    # every layer with a window of one token, group 1, f32
    "qwen2-window-one": TinyWindowed(
        "qwen2", 64, 104, "ss", 2, 2, 32, 131, 1, spelling=4, listed=False, tied=True, dtype="F32", rope_theta=1e6,
    ),
    # group 5, a window of more than a page, full attention in the middle
    "qwen2-window-five": TinyWindowed("qwen2", 160, 120, "sfss", 5, 1, 32, 203, 45, spelling=5, rope_theta=1e5),
    # group 2, tied; group 1, f32, untied; group 7; head 64 in layers of three
    "qwen2-full": TinyWindowed("qwen2", 96, 136, "ff", 4, 2, 24, 131, None, spelling=4, listed=False, tied=True),
    "qwen2-full-one": TinyWindowed("qwen2", 64, 104, "fff", 2, 2, 32, 149, None, spelling=5, listed=False, dtype="F32"),
    "qwen2-full-seven": TinyWindowed(
        "qwen2", 168, 100, "ff", 7, 1, 24, 203, None, spelling=5, listed=False, rope_theta=1e6,
    ),
    "qwen2-full-wide": TinyWindowed(
        "qwen2", 128, 88, "fff", 2, 1, 64, 131, None, spelling=4, listed=False, tied=True, rope_theta=1e6,
    ),
    # group 2, head 64 beside hidden 72, the first layer without a window
    "qwen3-window": TinyWindowed("qwen3", 72, 100, "fss", 2, 1, 64, 131, 16, spelling=4, listed=False, rope_theta=1e6),
    # full attention between windows of 40, group 4, f32, tied
    "qwen3-window-list": TinyWindowed(
        "qwen3", 96, 136, "sfs", 4, 1, 24, 149, 40, spelling=5, tied=True, dtype="F32",
    ),
    # every layer with a window of one token
    "qwen3-window-one": TinyWindowed("qwen3", 64, 72, "ss", 2, 2, 32, 203, 1, spelling=4, listed=False),
    # group 5, a window of a page in the last of four layers
    "qwen3-window-five": TinyWindowed(
        "qwen3", 120, 104, "fffs", 5, 1, 40, 131, 32, spelling=4, listed=False, rope_theta=1e6,
    ),
    # every layer with a window of 19
    "phi3-window": TinyWindowed("phi3", 128, 176, "ss", 2, 2, 64, 131, 19, spelling=4, listed=False, eps=1e-5),
    # every layer with a window of a page, tied
    "phi3-window-page": TinyWindowed("phi3", 96, 136, "sss", 3, 1, 32, 151, 32, spelling=5, listed=False, tied=True),
    # a token sees itself only, group 1, f32
    "phi3-window-one": TinyWindowed(
        "phi3", 64, 104, "ss", 2, 2, 32, 203, 1, spelling=5, listed=False, dtype="F32", eps=1e-5,
    ),
    # group 4, a window of more than a page
    "phi3-window-four": TinyWindowed("phi3", 160, 120, "sss", 4, 1, 40, 131, 50, spelling=4, listed=False, tied=True),
    # OLMo-2, whose files say nothing of windows: group 1, group 2 and tied, group 5 in f32, heads of 64
    "olmo2-full": TinyWindowed("olmo2", 96, 136, "ff", 3, 3, 32, 131, None, spelling=4, listed=False, rope_theta=5e5),
    "olmo2-full-tied": TinyWindowed("olmo2", 80, 120, "fff", 2, 1, 40, 151, None, spelling=5, listed=False, tied=True),
    "olmo2-full-five": TinyWindowed("olmo2", 160, 104, "ff", 5, 1, 32, 203, None, spelling=5, listed=False, dtype="F32"),
    "olmo2-full-wide": TinyWindowed(
        "olmo2", 128, 88, "ff", 2, 2, 64, 131, None, spelling=4, listed=False, eps=1e-5, rope_theta=1e4,
    ),
    # every fourth layer without a window, as where nothing is listed; group 1
    "olmo3-base": TinyWindowed("olmo3", 96, 136, "sssfs", 3, 3, 32, 131, 12, spelling=4, listed=False, rope_theta=5e5),
    # group 2, tied, its own list, the new spelling; yarn where there is no window, as in the published files
    "olmo3-list": TinyWindowed(
        "olmo3", 80, 120, "sfs", 2, 1, 40, 151, 40, spelling=5, tied=True, rope_theta=5e5,
        rope_scaling={"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 32},
    ),
    # group 5, f32; rotation scaled where there is no window
    "olmo3-five": TinyWindowed(
        "olmo3", 160, 104, "sf", 5, 1, 32, 203, 5, spelling=4, dtype="F32", rope_theta=5e5,
        rope_scaling={"rope_type": "linear", "factor": 4.0},
    ),
    # a token sees itself only, but for one layer
    "olmo3-one": TinyWindowed("olmo3", 64, 72, "ssf", 2, 2, 32, 131, 1, spelling=5, rope_theta=1e4),
    # all layers have the window
    "ministral-base": TinyWindowed("ministral", 96, 136, "sss", 4, 2, 24, 131, 10, spelling=4, listed=False, eps=1e-5),
    # full attention between windows, group 4, head 48 beside hidden 80
    "ministral-list": TinyWindowed("ministral", 80, 120, "fsfs", 4, 1, 48, 149, 33, spelling=5, rope_theta=1e6),
    # tied, f32
    "ministral-tied": TinyWindowed("ministral", 64, 104, "sf", 2, 2, 32, 203, 21, spelling=5, tied=True, dtype="F32"),
    # group 5, a window of more than a page
    "ministral-five": TinyWindowed("ministral", 120, 104, "ss", 5, 1, 32, 131, 47, spelling=5, rope_theta=1e5),
    # all layers with a window of 24, group 2
    "mistral-window": TinyWindowed("mistral", 96, 136, "ss", 4, 2, 24, 131, 24, spelling=4, listed=False, eps=1e-5),
    # a token sees itself only, group 1, tied
    "mistral-window-one": TinyWindowed(
        "mistral", 64, 72, "sss", 2, 2, 32, 203, 1, spelling=5, listed=False, tied=True, rope_theta=1e6,
    ),
    # a window of a page, group 4, f32
    "mistral-window-page": TinyWindowed(
        "mistral", 128, 104, "ss", 4, 1, 32, 149, 32, spelling=4, listed=False, dtype="F32", eps=1e-5,
    ),
    # group 5, a window of more than a page, head 40 beside hidden 120
    "mistral-window-five": TinyWindowed(
        "mistral", 120, 136, "sss", 5, 1, 40, 131, 53, spelling=5, listed=False, rope_theta=1e5,
    ),
    # every other layer has a window, as where nothing is listed; group 2, the caps of published files
    "gemma2-base": TinyWindowed(
        "gemma2", 96, 136, "sfs", 4, 2, 24, 131, 11, spelling=4, listed=False, tied=True, query_scale=24,
        score_cap=50.0, logit_cap=30.0,
    ),
    # caps that bend most scores and logits, group 4, head 64 beside hidden 72, f32
    "gemma2-capped": TinyWindowed(
        "gemma2", 72, 104, "sf", 4, 1, 64, 149, 33, spelling=5, tied=True, dtype="F32", query_scale=64,
        score_cap=3.0, logit_cap=8.0,
    ),
    # no caps, scores scaled by another number, its own list
    "gemma2-scaled": TinyWindowed("gemma2", 80, 120, "fsf", 2, 1, 40, 151, 20, spelling=5, tied=True, query_scale=10),
    # group 1, a window of a page, scores capped alone
    "gemma2-page": TinyWindowed(
        "gemma2", 64, 72, "sf", 2, 2, 32, 203, 32, spelling=4, tied=True, query_scale=32, score_cap=5.0,
    ),
    # a token sees itself only in two of three layers, head 48, f32
    "gemma2-one": TinyWindowed(
        "gemma2", 96, 88, "sfs", 2, 1, 48, 131, 1, spelling=5, tied=True, dtype="F32", query_scale=48, score_cap=50.0,
        logit_cap=30.0,
    ),
    # group 5, a window of more than a page, logits that are bent, in turns as where nothing is listed
    "gemma2-five": TinyWindowed(
        "gemma2", 120, 104, "sfsf", 5, 1, 32, 149, 49, spelling=4, listed=False, tied=True, query_scale=32,
        score_cap=20.0, logit_cap=4.0,
    ),
    # every sixth layer has no window, as where nothing is listed; two bases
    "gemma3-base": TinyWindowed(
        "gemma3_text", 72, 100, "sssssfs", 2, 1, 36, 131, 13, spelling=4, listed=False, tied=True, rope_theta=1e6,
        local_theta=10000.0, query_scale=36,
    ),
    # a pattern of its own and scaled rotation, group 4
    "gemma3-pattern": TinyWindowed(
        "gemma3_text", 96, 136, "sfsf", 4, 1, 24, 149, 40, spelling=4, listed=False, tied=True, rope_theta=1e6,
        local_theta=10000.0, query_scale=24, pattern=2, rope_scaling={"rope_type": "linear", "factor": 8.0},
    ),
    # the new spelling, its own list, f32, another local base
    "gemma3-list": TinyWindowed(
        "gemma3_text", 80, 120, "sfs", 2, 2, 40, 151, 6, spelling=5, tied=True, dtype="F32", rope_theta=1e6,
        local_theta=5000.0, query_scale=40,
    ),
    # a window of one token, group 5, f32, in the old spelling with its pattern
    "gemma3-one": TinyWindowed(
        "gemma3_text", 120, 88, "ssf", 5, 1, 32, 131, 1, spelling=4, listed=False, tied=True, dtype="F32", rope_theta=1e6,
        local_theta=10000.0, query_scale=32, pattern=3,
    ),
    # scores scaled by another number, logits capped, no base in the file
    "gemma3-scaled": TinyWindowed(
        "gemma3_text", 64, 72, "sf", 2, 1, 32, 203, 33, spelling=4, tied=True, rope_theta=1e6, query_scale=9,
        logit_cap=3.0,
    ),
}

_CLASSES = {
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "olmo3": "Olmo3ForCausalLM",
    "mistral": "MistralForCausalLM",
    "ministral": "MinistralForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
}


def config_json(model: TinyWindowed) -> dict:
    """The config.json of a model, in its spelling."""
    config = {
        "architectures": [_CLASSES[model.family]],
        "model_type": model.family,
        "hidden_size": model.hidden,
        "intermediate_size": model.intermediate,
        "num_hidden_layers": len(model.layers),
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "vocab_size": model.vocab,
        "max_position_embeddings": 256,
        "rms_norm_eps": model.eps,
        "tie_word_embeddings": model.tied,
        "sliding_window": model.window,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": None,
    }
    if model.head_dim * model.heads == model.hidden and not (model.gemma or model.family in ("ministral", "qwen3")):
        del config["head_dim"]
    if model.family.startswith("qwen"):
        first = model.layers.find("s") if model.window else len(model.layers)
        config |= {"use_sliding_window": model.window is not None, "max_window_layers": first}
    if model.gemma:
        config |= {
            "hidden_activation": "gelu_pytorch_tanh",
            "query_pre_attn_scalar": model.query_scale,
            "attn_logit_softcapping": model.score_cap,
            "final_logit_softcapping": model.logit_cap,
        }
    else:
        config["hidden_act"] = "silu"
    if model.pattern:
        config["sliding_window_pattern"] = model.pattern
    if model.listed:
        config["layer_types"] = ["sliding_attention" if has else "full_attention" for has in model.windows]
    dtype = {"BF16": "bfloat16", "F32": "float32"}[model.dtype]
    config["torch_dtype" if model.spelling == 4 else "dtype"] = dtype
    config["transformers_version"] = {4: "4.57.6", 5: "5.23.0"}[model.spelling]
    return config | _rope_json(model)


def _rope_json(model: TinyWindowed) -> dict:
    if model.spelling == 4:
        rope = {"rope_theta": model.rope_theta, "rope_scaling": model.rope_scaling}
        return rope | ({"rope_local_base_freq": model.local_theta} if model.local_theta else {})
    full = (model.rope_scaling or {"rope_type": "default"}) | {"rope_theta": model.rope_theta}
    if model.family not in ("olmo3", "gemma3_text"):
        return {"rope_parameters": full}
    windowed = {"rope_type": "default", "rope_theta": model.local_theta or model.rope_theta}
    return {"rope_parameters": {"full_attention": full, "sliding_attention": windowed}}
