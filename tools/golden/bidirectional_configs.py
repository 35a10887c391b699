"""The tiny embedders and rerankers whose tokens see those behind them: one entry for each, with what it is there to cover.

A body is one of window_configs.py; `says` are the keys by which the published config.json tells that its attention is
bidirectional. Behind it stand the modules of Sentence Transformers, or a classification head.
"""

from dataclasses import dataclass, field

import window_configs
from window_configs import TinyWindowed


@dataclass(frozen=True)
class TinyDenseModule:
    size: int
    bias: bool = False
    activation: str = "torch.nn.modules.linear.Identity"


@dataclass(frozen=True)
class TinyBidirectional:
    body: TinyWindowed
    says: dict  # keys of config.json
    pooling: str  # mean, last, first
    dense: list[TinyDenseModule] = field(default_factory=list)
    labels: int = 0  # of a classification head
    wrapped: bool = False  # tensor names begin with "model."

    @property
    def gguf(self) -> bool:
        """llama.cpp has an architecture for Gemma's embedder, of Dense layers without bias."""
        return self.body.gguf and self.body.gemma and not any(layer.bias for layer in self.dense)


BIDIRECTIONAL = {
    # EmbeddingGemma's layout: windows that count both sides, Dense layers to a wider vector and back
    "gemma3-embedding": TinyBidirectional(
        TinyWindowed("gemma3_text", 72, 100, "ssfs", 2, 1, 36, 131, 12, spelling=4, tied=True, rope_theta=1e6,
                     local_theta=10000.0, query_scale=36),
        {"use_bidirectional_attention": True, "architectures": ["Gemma3TextModel"]}, "mean",
        [TinyDenseModule(200), TinyDenseModule(72)],
    ),
    # the new spelling, f32, group 4, an odd window longer than a page, a layer with a bias and tanh
    "gemma3-embedding-wide": TinyBidirectional(
        TinyWindowed("gemma3_text", 80, 120, "sfs", 4, 1, 40, 151, 67, spelling=5, tied=True, dtype="F32",
                     rope_theta=1e6, local_theta=5000.0, query_scale=40),
        {"use_bidirectional_attention": True, "architectures": ["Gemma3TextModel"]}, "mean",
        [TinyDenseModule(33, True, "torch.nn.modules.activation.Tanh")],
    ),
    # a token sees itself only in windowed layers, group 1, f32; one Dense layer that makes it narrower
    "gemma3-embedding-one": TinyBidirectional(
        TinyWindowed("gemma3_text", 64, 88, "ssf", 2, 2, 32, 131, 1, spelling=5, tied=True, dtype="F32", rope_theta=1e6,
                     local_theta=10000.0, query_scale=32),
        {"use_bidirectional_attention": True, "architectures": ["Gemma3TextModel"]}, "mean", [TinyDenseModule(24)],
    ),
    # a window of a page, group 4, the pattern of published files; no Dense layers
    "gemma3-embedding-page": TinyBidirectional(
        TinyWindowed("gemma3_text", 96, 72, "sssssf", 4, 1, 24, 203, 32, spelling=4, listed=False, tied=True,
                     rope_theta=1e6, local_theta=10000.0, query_scale=24),
        {"use_bidirectional_attention": True, "architectures": ["Gemma3TextModel"]}, "mean",
    ),
    # group 5, an even window of more than a page; Dense layers to a wider vector and back
    "gemma3-embedding-five": TinyBidirectional(
        TinyWindowed("gemma3_text", 120, 104, "sf", 5, 1, 32, 149, 70, spelling=5, tied=True, rope_theta=1e6,
                     local_theta=10000.0, query_scale=32),
        {"use_bidirectional_attention": True, "architectures": ["Gemma3TextModel"]}, "mean",
        [TinyDenseModule(150), TinyDenseModule(120)],
    ),
    # GTE-Qwen2's layout: the last token of a body that is not causal
    "qwen2-bidirectional": TinyBidirectional(
        TinyWindowed("qwen2", 96, 136, "fff", 4, 2, 24, 131, None, spelling=4, listed=False),
        {"is_causal": False, "architectures": ["Qwen2Model"], "use_sliding_window": False, "max_window_layers": 3},
        "last",
    ),
    # the same with windows, which see as far in both directions
    "qwen2-bidirectional-window": TinyBidirectional(
        TinyWindowed("qwen2", 128, 104, "fsfs", 4, 1, 32, 149, 9, spelling=5, dtype="F32"),
        {"is_causal": False, "architectures": ["Qwen2Model"]}, "first",
    ),
    # Llama Nemotron's embedder
    "llama-bidirectional": TinyBidirectional(
        TinyWindowed("mistral", 80, 120, "fff", 4, 2, 24, 131, None, spelling=4, listed=False, rope_theta=5e5),
        {"model_type": "llama_bidirec", "architectures": ["LlamaBidirectionalModel"], "pooling": "avg",
         "temperature": 1.0}, "mean",
    ),
    # and its reranker: a head over the mean of all tokens
    "llama-bidirectional-head": TinyBidirectional(
        TinyWindowed("mistral", 64, 72, "ff", 2, 1, 32, 203, None, spelling=5, dtype="F32"),
        {"model_type": "llama_bidirec", "architectures": ["LlamaBidirectionalForSequenceClassification"],
         "pooling": "avg", "temperature": 0.5, "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}, "mean",
        labels=1, wrapped=True,
    ),
    # group 5, the first token; group 1, a head of three labels, tensors without a prefix
    "llama-bidirectional-five": TinyBidirectional(
        TinyWindowed("mistral", 120, 104, "ff", 5, 1, 32, 149, None, spelling=5, listed=False, rope_theta=1e4),
        {"model_type": "llama_bidirec", "architectures": ["LlamaBidirectionalModel"], "pooling": "cls",
         "temperature": 1.0}, "first",
    ),
    "llama-bidirectional-three": TinyBidirectional(
        TinyWindowed("mistral", 72, 88, "fff", 2, 2, 36, 131, None, spelling=4, listed=False, rope_theta=5e5),
        {"model_type": "llama_bidirec", "architectures": ["LlamaBidirectionalForSequenceClassification"],
         "pooling": "avg", "temperature": 2.0, "id2label": {"0": "no", "1": "maybe", "2": "yes"},
         "label2id": {"no": 0, "maybe": 1, "yes": 2}}, "mean", labels=3,
    ),
}


def config_json(model: TinyBidirectional) -> dict:
    """The config.json of a model, in its spelling."""
    return window_configs.config_json(model.body) | model.says


def reference_json(model: TinyBidirectional) -> dict:
    """The same for transformers, which has no class of its own for the Llama that is not causal."""
    config = config_json(model)
    if config["model_type"] == "llama_bidirec":
        config |= {"model_type": "llama", "is_causal": False}
    return config
