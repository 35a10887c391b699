"""A node postprocessor for LlamaIndex.

    from libprefix.integrations.llama_index import PrefixRerank

    engine = index.as_query_engine(node_postprocessors=[PrefixRerank(model="model", top_n=5)])
"""

from __future__ import annotations

from typing import Any, List, Optional

from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle

from ..models import Reranker


class PrefixRerank(BaseNodePostprocessor):
    """model: a path, an Engine or a Reranker. options: those of tasks."""

    top_n: Optional[int] = None
    options: dict = {}
    _reranker: Reranker = PrivateAttr()

    def __init__(self, model: Any, top_n: Optional[int] = None, **options: Any) -> None:
        super().__init__(top_n=top_n, options=options)  # type: ignore[call-arg]  # a pydantic model's fields
        self._reranker = model if isinstance(model, Reranker) else Reranker(model)

    @classmethod
    def class_name(cls) -> str:
        return "PrefixRerank"

    def _postprocess_nodes(self, nodes: List[NodeWithScore],
                           query_bundle: Optional[QueryBundle] = None) -> List[NodeWithScore]:
        if query_bundle is None:
            raise ValueError("PrefixRerank needs the query: query_bundle is missing")
        texts = [n.node.get_content(metadata_mode=MetadataMode.EMBED) for n in nodes]
        hits = self._reranker.rank(query_bundle.query_str, texts, top_n=self.top_n, **self.options)
        return [NodeWithScore(node=nodes[h.index].node, score=h.score) for h in hits]
