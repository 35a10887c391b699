"""Transformer models inside your own process, over shared prefixes: what texts have in common at their beginning is
computed once, within a call, between calls that run, and from the cache.

    import libprefix

    with libprefix.Reranker("model") as reranker:
        for hit in reranker.rank("How is bread made?", ["The moon is round.", "Bread is baked from flour."]):
            print(hit.score, hit.document)
"""

from .engine import Choices, Embedding, Engine, Generate, Logits, Logprobs, Result, version
from .errors import (CancelledError, DeadlineError, InvalidArgumentError, MisuseError, ModelError, NotFoundError,
                     OutOfMemoryError, PrefixError, SomeFailed)
from .models import LLM, Classifier, Embedder, Hit, Model, Reranker
from .options import (EmbeddingOptions, EmbedOptions, EngineOptions, GenerateOptions, RankingOptions, RequestOptions,
                      TaskOptions, WritingOptions)
from .ordering import BatchEstimate, Parts, TableOrder, estimate_batch, order, order_texts, partition
from .task import Piece, Task
from .tokenizer import Tokenizer

__all__ = ["Choices", "Embedding", "Engine", "Generate", "Logits", "Logprobs", "Result", "version", "CancelledError",
           "DeadlineError", "InvalidArgumentError", "MisuseError", "ModelError", "NotFoundError", "OutOfMemoryError",
           "PrefixError", "SomeFailed", "LLM", "Classifier", "Embedder", "Hit", "Model", "Reranker", "Piece", "Task",
           "Tokenizer", "BatchEstimate", "Parts", "TableOrder", "estimate_batch", "order", "order_texts", "partition",
           "EmbeddingOptions", "EmbedOptions", "EngineOptions", "GenerateOptions", "RankingOptions", "RequestOptions",
           "TaskOptions", "WritingOptions"]
