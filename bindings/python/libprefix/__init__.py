"""Transformer models inside your own process, over shared prefixes: what texts have in common at their beginning is
computed once, within a call, between calls that run, and from the cache.

    import libprefix

    with libprefix.Reranker("model") as reranker:
        for hit in reranker.rank("How is bread made?", ["The moon is round.", "Bread is baked from flour."]):
            print(hit.score, hit.document)
"""

from .cache import Cache, CacheEvent, Lease
from .constraint import ConstraintState, TokenMask
from .engine import Engine, plan
from .errors import (CancelledError, DeadlineError, InvalidArgumentError, MisuseError, ModelError, NotFoundError,
                     OutOfMemoryError, PrefixError, SomeFailed)
from .job import Event, Job
from .models import LLM, ChatWritingOptions, Classifier, Embedder, Hit, Model, Reranker
from .options import (EmbeddingOptions, EmbedOptions, EngineOptions, GenerateOptions, RankingOptions, RequestOptions,
                      TaskOptions, WritingOptions)
from .ordering import BatchEstimate, Parts, TableOrder, estimate_batch, order, order_texts, partition
from .requests import Choices, Continuations, Embedding, Generate, Logits, Logprobs, Result, Warm
from .system import (LogForwarder, Pool, Source, build_info, devices, estimate, features, forward_log, has_feature, model_info, next_log,
                     option_infos, recipe, recipes, set_log_level, text_version, version)
from .task import Piece, Task, TextToken
from .tokenizer import ChatOptions, Detokenizer, Tokenizer

__all__ = ["Cache", "CacheEvent", "Lease", "ConstraintState", "TokenMask", "Engine", "plan", "CancelledError", "DeadlineError", "InvalidArgumentError",
           "MisuseError", "ModelError", "NotFoundError", "OutOfMemoryError", "PrefixError", "SomeFailed", "Event", "Job", "LLM",
           "ChatWritingOptions", "Classifier", "Embedder", "Hit", "Model", "Reranker", "EmbeddingOptions", "EmbedOptions", "EngineOptions",
           "GenerateOptions", "RankingOptions", "RequestOptions", "TaskOptions", "WritingOptions", "BatchEstimate", "Parts",
           "TableOrder", "estimate_batch", "order", "order_texts", "partition", "Choices", "Continuations", "Embedding",
           "Generate", "Logits", "Logprobs", "Result", "Warm", "LogForwarder", "Pool", "Source", "build_info", "devices", "estimate",
           "features", "forward_log", "has_feature", "model_info", "next_log", "option_infos", "recipe", "recipes",
           "set_log_level", "text_version", "version", "Piece", "Task", "TextToken", "ChatOptions", "Detokenizer", "Tokenizer"]
