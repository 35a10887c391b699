"""The tiny GGUF models: every supported block type for `llama` and `qwen3`, and two files with a twist.

Block types fix the shapes: rows are whole blocks, of 32 values in the Q*_0 and Q*_1 types, IQ4_NL and MXFP4, and of
256 in the Q*_K types and IQ4_XS, so there are three geometries for each architecture.
"""

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class TinyGguf:
    architecture: str
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool
    rope_theta: float
    eps: float
    kind: str = "F32"
    # Types of single roles that differ from `kind`, as the mixed files of llama.cpp have them.
    other_kinds: dict[str, str] = field(default_factory=dict)
    # Divisors of the rotary frequencies, one for each pair; the file then has a rope_freqs tensor.
    rope_divisors: list[float] | None = None
    alignment: int | None = None
    layers: int = 2
    context: int = 256


# Group 5, head 64 beside hidden 200, odd sizes.
_LLAMA_PLAIN = TinyGguf("llama", 200, 176, 5, 1, 64, 131, True, 10000.0, 1e-5)
# Group 2, head 80.
_LLAMA_BLOCKS = TinyGguf("llama", 160, 224, 2, 1, 80, 131, False, 100000.0, 1e-5)
# Group 4, head 64.
_LLAMA_WIDE_BLOCKS = TinyGguf("llama", 256, 512, 4, 1, 64, 149, False, 500000.0, 1e-5)
# Group 1, head 128 beside hidden 200.
_QWEN3_PLAIN = TinyGguf("qwen3", 200, 176, 2, 2, 128, 131, False, 1000000.0, 1e-6)
# Group 2, head 64.
_QWEN3_BLOCKS = TinyGguf("qwen3", 160, 224, 4, 2, 64, 131, False, 1000000.0, 1e-6)
# Group 2, head 128 beside hidden 256.
_QWEN3_WIDE_BLOCKS = TinyGguf("qwen3", 256, 512, 4, 2, 128, 149, False, 1000000.0, 1e-6)

PLAIN_KINDS = ["F32", "F16", "BF16"]
BLOCK_KINDS = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "MXFP4"]
WIDE_BLOCK_KINDS = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"]

_GEOMETRIES = {
    "llama": [(_LLAMA_PLAIN, PLAIN_KINDS), (_LLAMA_BLOCKS, BLOCK_KINDS), (_LLAMA_WIDE_BLOCKS, WIDE_BLOCK_KINDS)],
    "qwen3": [(_QWEN3_PLAIN, PLAIN_KINDS), (_QWEN3_BLOCKS, BLOCK_KINDS), (_QWEN3_WIDE_BLOCKS, WIDE_BLOCK_KINDS)],
}

GGUF_MODELS = {
    f"{architecture}-gguf-{kind.lower()}": replace(geometry, kind=kind)
    for architecture, geometries in _GEOMETRIES.items()
    for geometry, kinds in geometries
    for kind in kinds
} | {
    # The mixture that llama.cpp calls Q4_K_M, at an alignment other than 32.
    "llama-gguf-mixed": replace(
        _LLAMA_WIDE_BLOCKS, kind="Q4_K", alignment=64,
        other_kinds={"attn_v": "Q6_K", "ffn_down": "Q6_K", "output": "Q6_K", "ffn_gate": "Q5_K"},
    ),
    # Llama 3.1 and later: the scaling of the rotary frequencies lies in a tensor.
    "llama-gguf-rope-freqs": replace(
        _LLAMA_PLAIN, kind="BF16",
        rope_divisors=[1.0] * 12 + [1.0 + 0.875 * step for step in range(1, 8)] + [8.0] * 13,
    ),
}
