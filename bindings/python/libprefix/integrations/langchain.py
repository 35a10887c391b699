"""A document compressor for LangChain: the reranker of a ContextualCompressionRetriever.

    from libprefix.integrations.langchain import PrefixRerank

    retriever = ContextualCompressionRetriever(base_compressor=PrefixRerank(model="model", top_n=5),
                                               base_retriever=...)
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict, PrivateAttr

from ..models import Hit, Reranker


class PrefixRerank(BaseDocumentCompressor):
    """model: a path, an Engine or a Reranker. options: those of tasks. The score goes to metadata["relevance_score"]."""

    model: Any
    top_n: Optional[int] = None
    options: dict = {}
    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
    _reranker: Reranker = PrivateAttr()

    def model_post_init(self, _: Any) -> None:
        self._reranker = self.model if isinstance(self.model, Reranker) else Reranker(self.model)

    def compress_documents(self, documents: Sequence[Document], query: str,
                           callbacks: Optional[Callbacks] = None) -> Sequence[Document]:
        texts = [d.page_content for d in documents]
        return self._chosen(documents, self._reranker.rank(query, texts, top_n=self.top_n, **self.options))

    async def acompress_documents(self, documents: Sequence[Document], query: str,
                                  callbacks: Optional[Callbacks] = None) -> Sequence[Document]:
        texts = [d.page_content for d in documents]
        return self._chosen(documents, await self._reranker.arank(query, texts, top_n=self.top_n, **self.options))

    @staticmethod
    def _chosen(documents: Sequence[Document], hits: list[Hit]) -> list[Document]:
        return [documents[h.index].model_copy(
            update={"metadata": {**documents[h.index].metadata, "relevance_score": h.score}}) for h in hits]
