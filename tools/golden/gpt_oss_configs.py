"""The tiny models of gpt_oss: one entry for each, with what it is there to cover.

As in hf_configs.py sizes are odd on purpose. Each is written as a Hugging Face directory and, where llama.cpp can say
it, as the file that its converter makes of it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class TinyGptOss:
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    experts: int
    per_token: int
    window: int | None = None  # None: the file has no such key, which means 128
    listed: str | None = None  # layer_types: "s" attention in a window, "f" full attention; None: in turns, not listed
    rope: dict | None = None  # None: the file has none, which means yarn by 32 from 4096
    rope_theta: float = 150000.0
    spelling: int = 5  # of config.json, as in hf_configs.py
    attention_bias: bool | None = None  # None: the file has no such key, which means true
    mxfp4: bool = False  # experts are quantised
    tied: bool = False
    dtype: str = "BF16"
    family: str = "gpt_oss"

    @property
    def windows(self) -> list[bool]:
        """Which layers have one."""
        return [kind == "s" for kind in self.listed or ("sf" * self.layers)[: self.layers]]

    @property
    def gguf(self) -> bool:
        """llama.cpp takes windows in turns, yarn and biases for granted. Of the way of yarn its files say nothing."""
        in_turns = self.windows == [layer % 2 == 0 for layer in range(self.layers)]
        published = self.rope is not None and self.rope.get("truncate") is False
        return in_turns and published and self.attention_bias is not False


def _yarn(factor: float, original: int, **more) -> dict:
    return {
        "rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original, "beta_fast": 32.0,
        "beta_slow": 1.0, "truncate": False,
    } | more  # fmt: skip


GPT_OSS = {
    # the keys of published files: yarn of frequencies that are not whole, windows in turns, 4 of 8 experts, group 2
    "gpt-oss-base": TinyGptOss(
        96, 48, 4, 4, 2, 32, 131, 8, 4, window=12, listed="sfsf", rope=_yarn(32.0, 4096), spelling=4, attention_bias=True,
    ),
    # MXFP4 as published, square experts, so that their shape does not tell which way they lie, a window of a page
    "gpt-oss-mxfp4": TinyGptOss(
        64, 64, 2, 4, 1, 32, 149, 6, 3, window=32, rope=_yarn(8.0, 32), spelling=4, attention_bias=True, mxfp4=True,
    ),
    # nothing in the file that it may leave out, group 1, one of 5 experts of odd width, f32
    "gpt-oss-default": TinyGptOss(72, 35, 3, 2, 2, 40, 203, 5, 1, dtype="F32"),
    # its own list, no biases of attention, plain rotation, group 5, all of 3 experts, tied, square
    "gpt-oss-list": TinyGptOss(
        80, 80, 3, 5, 1, 24, 131, 3, 3, window=7, listed="fss", rope={"rope_type": "default"}, rope_theta=1e4,
        attention_bias=False, tied=True,
    ),
    # f32, a window of one, more experts than most prompts have tokens; yarn of whole frequencies, by the other spelling
    "gpt-oss-one": TinyGptOss(
        56, 72, 2, 3, 3, 32, 307, 33, 2, window=1, rope=_yarn(4.0, 64, truncate=True), tied=True, dtype="F32",
    ),
    # group 3, f32, one of 7 experts, tied, three layers in turns
    "gpt-oss-three": TinyGptOss(
        72, 40, 3, 3, 1, 40, 203, 7, 1, window=21, rope=_yarn(4.0, 64), attention_bias=True, tied=True, dtype="F32",
    ),
    # MXFP4 with experts wider than the model, f32 beside them
    "gpt-oss-wide": TinyGptOss(
        96, 160, 2, 2, 1, 64, 131, 4, 2, window=40, rope=_yarn(16.0, 64), mxfp4=True, dtype="F32",
    ),
}


def config_json(model: TinyGptOss) -> dict:
    """The config.json of a model, in its spelling."""
    config = {
        "architectures": ["GptOssForCausalLM"],
        "model_type": "gpt_oss",
        "hidden_size": model.hidden,
        "intermediate_size": model.intermediate,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "vocab_size": model.vocab,
        "max_position_embeddings": 256,
        "num_local_experts": model.experts,
        "num_experts_per_tok": model.per_token,
        "tie_word_embeddings": model.tied,
        "hidden_act": "silu",
        "bos_token_id": None,
        "eos_token_id": 2,
        "pad_token_id": None,
    }
    if model.spelling == 4:  # what published files have besides
        config |= {
            "attention_dropout": 0.0, "experts_per_token": model.per_token, "initial_context_length": 4096,
            "output_router_logits": False, "rms_norm_eps": 1e-05, "router_aux_loss_coef": 0.9, "swiglu_limit": 7.0,
        }  # fmt: skip
    if model.attention_bias is not None:
        config["attention_bias"] = model.attention_bias
    if model.window is not None:
        config["sliding_window"] = model.window
    if model.listed is not None:
        config["layer_types"] = ["sliding_attention" if has else "full_attention" for has in model.windows]
    if model.rope is not None and model.spelling == 4:
        config |= {"rope_scaling": model.rope, "rope_theta": model.rope_theta}
    elif model.rope is not None:
        config["rope_parameters"] = model.rope | {"rope_theta": model.rope_theta}
    dtype = {"BF16": "bfloat16", "F32": "float32"}[model.dtype]
    config["torch_dtype" if model.spelling == 4 else "dtype"] = dtype
    config["transformers_version"] = {4: "4.55.0.dev0", 5: "5.23.0"}[model.spelling]
    return config


QUANTIZATION = {
    "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"],
    "quant_method": "mxfp4",
}
