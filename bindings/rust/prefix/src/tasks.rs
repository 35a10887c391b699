//! Ready-made tasks on text (rerank, embed, answer, classify) will stand here.
