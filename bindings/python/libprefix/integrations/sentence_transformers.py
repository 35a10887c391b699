"""CrossEncoder with the calls of sentence_transformers.CrossEncoder, without that library: change the import, keep the
rest of the program.

    from libprefix.integrations.sentence_transformers import CrossEncoder
"""

from __future__ import annotations

import os
from typing import Any, Callable, Iterable, Sequence

from .._native import several
from ..engine import Engine
from ..models import Reranker

# What belongs to another way of computing, and changes no score here.
_WITHOUT_EFFECT = {"batch_size", "show_progress_bar", "convert_to_numpy", "num_workers"}


class CrossEncoder:
    """model_name_or_path: a path, or an Engine. engine_options are those of Engine, as compute="int8"."""

    def __init__(self, model_name_or_path: str | os.PathLike[str] | Engine, *, activation_fn: Callable | None = None,
                 **engine_options: Any) -> None:
        self.reranker = Reranker(model_name_or_path, **engine_options)
        self.activation_fn = activation_fn

    def predict(self, sentences: Sequence[Any], *, activation_fn: Callable | None = None, **options: Any) -> Any:
        """A score for each (query, document) pair, or one score for one pair. activation_fn takes a NumPy array of
        what the model says before its own activation, whose place it takes."""
        single = len(sentences) == 2 and isinstance(sentences[0], str)
        function = activation_fn or self.activation_fn
        if function is not None:
            options.setdefault("raw", True)
        scores = self.reranker.predict([sentences] if single else sentences, **_with_effect(options))
        if function is not None:
            scores = function(scores)
        return scores[0] if single else scores

    def rank(self, query: str, documents: Iterable[str], top_k: int | None = None, return_documents: bool = False, *,
             activation_fn: Callable | None = None, **options: Any) -> list[dict[str, Any]]:
        """[{"corpus_id": place, "score": score}, ...] from best to worst, with "text" where documents are wanted."""
        documents = several(documents, "documents")
        if not documents:
            return []
        scores = self.predict([(query, d) for d in documents], activation_fn=activation_fn, **options)
        order = sorted(range(len(documents)), key=lambda i: (-scores[i], i))[:top_k]
        return [{"corpus_id": i, "score": scores[i], **({"text": documents[i]} if return_documents else {})}
                for i in order]


def _with_effect(options: dict[str, Any]) -> dict[str, Any]:
    if options.pop("convert_to_tensor", False):
        raise ValueError("convert_to_tensor: libprefix gives NumPy arrays; torch.from_numpy takes them")
    if options.pop("apply_softmax", False):
        raise ValueError("apply_softmax: a reranker here has one score a pair")
    return {key: value for key, value in options.items() if key not in _WITHOUT_EFFECT}
