"""The rerankers of other libraries give what Reranker gives."""

import asyncio
import unittest

import libprefix
import numpy
from libprefix.integrations.sentence_transformers import CrossEncoder
from support import WithModel

try:
    import langchain_core
except ImportError:
    langchain_core = None
try:
    import llama_index.core
except ImportError:
    llama_index = None
else:
    import llama_index


class Integrations(WithModel):
    def setUp(self):
        self.texts = [f"document {i}" for i in range(6)]
        self.hits = libprefix.Reranker(self.engine).rank("a question", self.texts)

    def test_cross_encoder(self):
        encoder = CrossEncoder(self.engine)
        ranked = encoder.rank("a question", self.texts, top_k=3, return_documents=True, batch_size=2)
        self.assertEqual(ranked, [{"corpus_id": h.index, "score": h.score, "text": h.document} for h in self.hits[:3]])
        self.assertEqual(encoder.rank("a question", []), [])
        self.assertNotIn("text", encoder.rank("a question", self.texts)[0])
        whole = encoder.rank("a question", self.texts)
        for documents in (numpy.array(self.texts), iter(self.texts), tuple(self.texts)):
            self.assertEqual(encoder.rank("a question", documents), whole)
        self.assertEqual(encoder.rank("a question", numpy.array([], str)), [])
        with self.assertRaisesRegex(TypeError, "documents is one str"):
            encoder.rank("a question", "a text")
        scores = encoder.predict([("a question", t) for t in self.texts], show_progress_bar=False)
        self.assertEqual({h.index: h.score for h in self.hits}, dict(enumerate(scores.tolist())))
        self.assertEqual(encoder.predict(("a question", self.texts[2])), scores[2])
        self.assertEqual(encoder.predict(("a question", self.texts[2])).shape, ())
        halved = CrossEncoder(self.engine, activation_fn=lambda x: x / 2)
        raw = encoder.predict(["a question", self.texts[2]], raw=True)
        self.assertEqual(halved.predict(["a question", self.texts[2]]), raw / 2)
        with self.assertRaises(ValueError):
            encoder.predict([("q", "d")], convert_to_tensor=True)
        with self.assertRaises(ValueError):
            encoder.predict([("q", "d")], apply_softmax=True)
        with self.assertRaises(ValueError):
            encoder.predict([("q", "d")], no_such_option=1)

    @unittest.skipUnless(langchain_core, "langchain-core is not installed")
    def test_langchain(self):
        from langchain_core.documents import Document
        from libprefix.integrations.langchain import PrefixRerank

        documents = [Document(page_content=t, metadata={"place": i}) for i, t in enumerate(self.texts)]
        reranker = PrefixRerank(model=self.engine, top_n=2)
        found = reranker.compress_documents(documents, "a question")
        self.assertEqual([(d.page_content, d.metadata) for d in found],
                         [(h.document, {"place": h.index, "relevance_score": h.score}) for h in self.hits[:2]])
        self.assertEqual(found, asyncio.run(reranker.acompress_documents(documents, "a question")))
        self.assertNotIn("relevance_score", documents[0].metadata)
        with self.assertRaises(ValueError):
            PrefixRerank(model=self.engine, topn=2)

    @unittest.skipUnless(llama_index, "llama-index-core is not installed")
    def test_llama_index(self):
        from libprefix.integrations.llama_index import PrefixRerank
        from llama_index.core.schema import NodeWithScore, TextNode

        nodes = [NodeWithScore(node=TextNode(text=t)) for t in self.texts]
        found = PrefixRerank(self.engine, top_n=2).postprocess_nodes(nodes, query_str="a question")
        self.assertEqual([(n.node.text, n.score) for n in found], [(h.document, h.score) for h in self.hits[:2]])
        with self.assertRaises(ValueError):
            PrefixRerank(self.engine).postprocess_nodes(nodes)


if __name__ == "__main__":
    unittest.main()
