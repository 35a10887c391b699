"""libprefix where other libraries expect a reranker. Each module needs the library that it is named for, but
sentence_transformers, which only has the same calls."""
