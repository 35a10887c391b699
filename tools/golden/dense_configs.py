"""The tiny transformers that have a GGUF file beside the directory, with what each is there to cover.

Sizes are odd on purpose, as in hf_configs.py. `keys` is what config.json says besides the sizes, in the words of the
published files; transformers reads the same. `gguf` is the same for GGUF: methods of gguf.GGUFWriter with their
arguments, as llama.cpp's converter calls them; None where llama.cpp has no such model.
"""

import math
from dataclasses import dataclass, field

from gguf import RopeScalingType


@dataclass(frozen=True)
class TinyDense:
    family: str  # model_type
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    keys: dict = field(default_factory=dict)
    gguf: dict | None = None
    tied: bool = False
    dtype: str = "BF16"
    bias: bool = False  # of the four projections of attention
    mlp_bias: bool = False
    prefix: str = "model."  # what stands before the names of the body in the file
    nested: str | None = None  # model_type of a model that sees as well, of which this is the text model
    eps: float = 1e-5

    @property
    def plus_one(self) -> bool:
        """Norms multiply by 1 + w."""
        return self.family == "gemma"

    @property
    def embedding_scale(self) -> float:
        """What the embedding of a token is multiplied by."""
        return self.hidden**0.5 if self.family == "gemma" else self.keys.get("embedding_multiplier", 1.0)

    @property
    def gguf_architecture(self) -> str:
        return {"mistral": "llama"}.get(self.family, self.family)

    @property
    def interleaved(self) -> bool:
        """GGUF files have the halves of each head of q and k in turns."""
        return self.gguf_architecture in ("llama", "granite", "smollm3")


_NO_WINDOW = {"sliding_window": None}


def _theta(theta: float, **more) -> dict:
    """In the spelling of transformers 5."""
    return {"rope_parameters": {"rope_type": "default", "rope_theta": theta} | more}


def _multipliers(embedding: float, residual: float, attention: float, logits: float) -> dict:
    return {"embedding_multiplier": embedding, "residual_multiplier": residual, "attention_multiplier": attention,
            "logits_scaling": logits}


def _scales(embedding: float, residual: float, attention: float, logits: float) -> dict:
    return {"add_embedding_scale": embedding, "add_residual_scale": residual, "add_attention_scale": attention,
            "add_logit_scale": logits, "add_rope_freq_base": 1e6}


def _yarn(factor: float, original: int) -> dict:
    return {"add_rope_scaling_type": RopeScalingType.YARN, "add_rope_scaling_factor": factor,
            "add_rope_scaling_orig_ctx_len": original}


def _no_rope(layers: list[int]) -> dict:
    return {"no_rope_layers": layers, "no_rope_layer_interval": 4}


_GRANITE = (4.0, 0.6, 0.0625, 4.0)

DENSE = {
    # group 4, heads of 64 beside hidden 200, untied
    "mistral-base": TinyDense(
        "mistral", 200, 176, 2, 4, 1, 64, 131, _NO_WINDOW | {"rope_theta": 1e6, "head_dim": 64},
        {"add_rope_freq_base": 1e6},
    ),
    # group 1, heads of 80, tied, f32, a window that cuts nothing
    "mistral-one": TinyDense(
        "mistral", 160, 200, 3, 2, 2, 80, 149, {"sliding_window": 256} | _theta(1e4), {"add_rope_freq_base": 1e4},
        tied=True, dtype="F32",
    ),
    # a body alone: names without a prefix, tied
    "mistral-body": TinyDense(
        "mistral", 128, 184, 2, 2, 1, 64, 131, _NO_WINDOW | {"rope_theta": 1e4}, tied=True, prefix="",
    ),
    # group 2, heads of 128, f16, the key of another model left without effect
    "mistral-wide": TinyDense(
        "mistral", 256, 264, 2, 4, 2, 128, 203, _NO_WINDOW | {"attention_bias": True, "head_dim": 128} | _theta(1e5),
        {"add_rope_freq_base": 1e5}, dtype="F16",
    ),
    # the text part of a model that sees as well, as it is published
    "mistral-nested": TinyDense(
        "mistral", 96, 136, 2, 4, 2, 24, 131, _NO_WINDOW | {"rope_theta": 1e6, "head_dim": 24},
        prefix="language_model.model.", nested="mistral3",
    ),
    # the same as transformers writes it now, tied
    "qwen3-nested": TinyDense(
        "qwen3", 128, 104, 2, 4, 2, 64, 149,
        {"rope_theta": 1e6, "head_dim": 64,
         "rope_scaling": {"mrope_interleaved": True, "mrope_section": [12, 10, 10], "rope_type": "default"}},
        tied=True, prefix="model.language_model.", nested="qwen3_vl",
    ),
    # a body alone, as the embedders of this architecture are published
    "qwen3-body": TinyDense(
        "qwen3", 96, 120, 3, 2, 1, 64, 157, {"rope_theta": 1e6, "head_dim": 64, "use_sliding_window": False},
        tied=True, prefix="",
    ),
    # all multipliers, tied
    "granite-base": TinyDense(
        "granite", 128, 176, 2, 2, 1, 64, 131, _multipliers(*_GRANITE) | {"rope_theta": 1e6}, _scales(*_GRANITE),
        tied=True,
    ),
    # group 4, biases everywhere, untied, f32
    "granite-bias": TinyDense(
        "granite", 256, 200, 3, 4, 1, 64, 149, _multipliers(6.0, 0.5, 0.1, 8.0) | _theta(1e6),
        _scales(6.0, 0.5, 0.1, 8.0), bias=True, mlp_bias=True, dtype="F32",
    ),
    # group 2, heads of 80, the residual not scaled
    "granite-plain": TinyDense(
        "granite", 160, 248, 2, 2, 1, 80, 131, _multipliers(2.0, 1.0, 0.11, 1.0) | {"rope_theta": 1e6},
        _scales(2.0, 1.0, 0.11, 1.0),
    ),
    # group 1, five heads, no multiplier but that of scores
    "granite-five": TinyDense(
        "granite", 320, 184, 2, 5, 5, 64, 203, {"attention_multiplier": 0.125} | _theta(1e4), dtype="F16",
    ),
    # group 7, tied, a residual that hardly counts
    "granite-seven": TinyDense(
        "granite", 336, 152, 2, 7, 1, 48, 131, _multipliers(12.0, 0.22, 0.015625, 8.0) | _theta(1e6),
        _scales(12.0, 0.22, 0.015625, 8.0), tied=True,
    ),
    # yarn, of which half the frequencies blend, heads of 64
    "mistral-yarn": TinyDense(
        "mistral", 128, 176, 2, 2, 1, 64, 131,
        _NO_WINDOW | _theta(1e4, rope_type="yarn", factor=4.0, original_max_position_embeddings=64),
        _yarn(4.0, 64) | {"add_rope_freq_base": 1e4},
    ),
    # yarn by the context, with its own blend, whole frequencies not asked for, in the old spelling
    "mistral-yarn-blend": TinyDense(
        "mistral", 160, 200, 2, 2, 2, 80, 149,
        _NO_WINDOW | {
            "rope_theta": 1e5,
            "rope_scaling": {
                "type": "yarn", "factor": None, "original_max_position_embeddings": 32, "beta_fast": 8,
                "beta_slow": 0.5, "truncate": False, "mscale": 0.7, "mscale_all_dim": 1.3,
            },
        }, dtype="F32",
    ),
    # yarn with a factor of cos and sin, in GGUF besides the one that llama.cpp makes of the factor
    "mistral-yarn-factor": TinyDense(
        "mistral", 128, 184, 2, 2, 2, 64, 131,
        _NO_WINDOW | _theta(
            1e6, rope_type="yarn", factor=8.0, original_max_position_embeddings=32,
            attention_factor=0.75 * (0.1 * math.log(8.0) + 1),
        ),
        _yarn(8.0, 32) | {"add_rope_freq_base": 1e6, "add_rope_scaling_attn_factors": 0.75}, dtype="F16",
    ),
    # dynamic, which says nothing within the context
    "mistral-dynamic": TinyDense(
        "mistral", 128, 176, 2, 2, 1, 64, 157, _NO_WINDOW | _theta(1e4, rope_type="dynamic", factor=2.0),
    ),
    # group 4, heads of 64 beside hidden 96, the keys of the published files
    "gemma-base": TinyDense(
        "gemma", 96, 176, 2, 4, 1, 64, 131,
        {"hidden_act": "gelu", "hidden_activation": None, "rope_theta": 10000.0, "head_dim": 64}, {}, tied=True,
    ),
    # group 1, heads of 256 as by default, f32
    "gemma-wide": TinyDense(
        "gemma", 160, 200, 3, 2, 2, 256, 149, {"hidden_act": "gelu_pytorch_tanh"} | _theta(1e4), {}, tied=True,
        dtype="F32",
    ),
    # group 2, heads of 48 beside hidden 136, f16
    "gemma-narrow": TinyDense(
        "gemma", 136, 120, 2, 4, 2, 48, 203, {"hidden_act": "gelu_pytorch_tanh", "head_dim": 48} | _theta(1e4), {},
        tied=True, dtype="F16",
    ),
    # group 7, of three layers
    "gemma-seven": TinyDense(
        "gemma", 112, 200, 3, 7, 1, 32, 131, {"hidden_act": "gelu_pytorch_tanh", "head_dim": 32} | _theta(1e4), {},
        tied=True,
    ),
    # group 2, heads of 80, untied
    "gemma-untied": TinyDense(
        "gemma", 200, 184, 2, 4, 2, 80, 203, {"hidden_act": "gelu_pytorch_tanh", "head_dim": 80} | _theta(1e5),
    ),
    # group 5, biases of attention, a body alone, f16
    "gemma-body": TinyDense(
        "gemma", 128, 248, 2, 5, 1, 64, 131, {"hidden_act": "gelu_pytorch_tanh", "head_dim": 64} | _theta(1e4),
        tied=True, bias=True, prefix="", dtype="F16",
    ),
    # the fourth layer and the eighth do not rotate, group 4, tied
    "smollm3-base": TinyDense(
        "smollm3", 256, 176, 8, 4, 1, 64, 131, _no_rope([1, 1, 1, 0, 1, 1, 1, 0]) | _theta(5e6),
        {"add_rope_freq_base": 5e6}, tied=True,
    ),
    # no list, f32, untied
    "smollm3-interval": TinyDense(
        "smollm3", 128, 200, 5, 2, 2, 64, 149, {"rope_theta": 2e6}, {"add_rope_freq_base": 2e6}, dtype="F32",
    ),
    # one layer of five that does not rotate, group 3, f16, tied
    "smollm3-three": TinyDense(
        "smollm3", 144, 120, 5, 3, 1, 48, 203, _no_rope([1, 1, 1, 0, 1]) | _theta(5e6), {"add_rope_freq_base": 5e6},
        tied=True, dtype="F16",
    ),
    # too few layers for one that does not rotate, group 1
    "smollm3-few": TinyDense(
        "smollm3", 128, 152, 3, 2, 2, 64, 131, {"rope_theta": 1e5}, {"add_rope_freq_base": 1e5},
    ),
    # the first and the last do not rotate, biases, heads of 80
    "smollm3-list": TinyDense(
        "smollm3", 160, 184, 4, 2, 1, 80, 131, _no_rope([0, 1, 1, 0, 1]) | _theta(1e5), bias=True, mlp_bias=True,
    ),
    # every second, group 5, yarn, f16
    "smollm3-yarn": TinyDense(
        "smollm3", 320, 248, 3, 5, 1, 64, 203,
        {"no_rope_layers": None, "no_rope_layer_interval": 2}
        | _theta(2e6, rope_type="yarn", factor=2.0, original_max_position_embeddings=128), tied=True, dtype="F16",
    ),
}

_CLASSES = {"qwen3": "Qwen3ForCausalLM", "mistral": "MistralForCausalLM", "granite": "GraniteForCausalLM", "gemma": "GemmaForCausalLM",
            "smollm3": "SmolLM3ForCausalLM"}


def file_json(model: TinyDense) -> dict:
    """config.json as the file has it."""
    text = config_json(model)
    if not model.nested:
        return text
    del text["architectures"]
    seeing = {"mistral3": "Mistral3ForConditionalGeneration", "qwen3_vl": "Qwen3VLForConditionalGeneration"}
    if model.nested == "qwen3_vl":
        text["model_type"] = "qwen3_vl_text"
    return {"architectures": [seeing[model.nested]], "model_type": model.nested, "text_config": text,
            "vision_config": {"hidden_size": 8}, "tie_word_embeddings": model.tied}


def config_json(model: TinyDense) -> dict:
    """The text model's, as transformers reads it as well."""
    return {
        "architectures": [_CLASSES[model.family]],
        "model_type": model.family,
        "hidden_size": model.hidden,
        "intermediate_size": model.intermediate,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "vocab_size": model.vocab,
        "max_position_embeddings": 256,
        "rms_norm_eps": model.eps,
        "hidden_act": "silu",
        "tie_word_embeddings": model.tied,
        "attention_bias": model.bias,
        "mlp_bias": model.mlp_bias,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": None,
        "dtype": {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}[model.dtype],
    } | model.keys
