"""The golden numbers of the recipes of particular models, of pooled vectors and of classification heads: recipes.json.

Prompts are put together token by token as the code of each model's authors does it, which is named where it is done, and
every recipe is run on the tiny model that reads text, with a tokenizer that has the tokens of the model that it is for.
Nothing is read from text/recipes.
"""

import copy
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerFast

import reference
from tasks import MODEL, _around
from vector_file import save_json

_QUERIES = ["Which city lies on the Seine?", "Was wächst im Gemüsegarten – und wann?"]
_DOCUMENTS = [
    "Paris is the capital of France. The Seine runs through it from east to west.",
    "Bread is made of flour, water, salt and yeast.\nThe dough rests for some hours, then it goes into a hot oven.",
    "",
    "東京は日本の首都です。 Tokyo has 37,000,000 people \U0001f5fc.",
]
_WEB_SEARCH = "Given a web search query, retrieve relevant passages that answer the query"
_POSITIONS = 1024
_SHORT = 12  # tokens of a document in prompts that are cut

# Tokens that a model has besides those of the tiny one, and what it puts around a text.
_TOKENIZERS = {
    "plain": ([], [], []),
    "gemma": (["<bos>"], ["Yes"], ["<bos>"]),
    "zerank": ([], ["Yes"], []),
    "mistral": (["<s>", "</s>"], [], ["<s>"]),
    "gte": (["<|endoftext|>"], [], []),
    "llama": (["<|begin_of_text|>"], [], ["<|begin_of_text|>"]),
    "gemma-embedding": (["<bos>", "<eos>"], [], ["<bos>"], ["<eos>"]),
    "jina": (["<|embed_token|>", "<|rerank_token|>"], [], []),
}


class Tokenizers:
    def __init__(self, folder: Path) -> None:
        whole = json.loads((folder / "tokenizer.json").read_text("utf-8"))
        template = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))["chat_template"]
        self.changes, self._made = {}, {}
        for name, (special, plain, front, *back) in _TOKENIZERS.items():
            special = [token for token in special if token not in {added["content"] for added in whole["added_tokens"]}]
            last = max(token["id"] for token in whole["added_tokens"])
            added = [
                {"id": last + 1 + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                 "normalized": False, "special": text in special}
                for i, text in enumerate(special + plain)
            ]
            ids = {token["content"]: token["id"] for token in added}
            around = _around(front, back[0] if back else [], ids) if front else whole["post_processor"]
            self.changes[name] = {"added_tokens": added, "post_processor": around}
            changed = copy.deepcopy(whole)
            changed["added_tokens"] += added
            changed["post_processor"] = around
            self._made[name] = PreTrainedTokenizerFast(
                tokenizer_object=Tokenizer.from_str(json.dumps(changed)), chat_template=template,
                clean_up_tokenization_spaces=False)

    def __getitem__(self, name: str) -> PreTrainedTokenizerFast:
        return self._made[name]


def _bare(tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False)


def _one(tokenizer, word: str) -> int:
    ids = _bare(tokenizer, word)
    if len(ids) != 1:
        raise ValueError(f"{word!r} is not one token")
    return ids[0]


# ---- Rerankers: the tokens of a prompt, whose document has `room` tokens at most; the words; the score ----------


def _mxbai(tokenizer, query: str, document: str, limit: int) -> list[int]:
    """mixedbread-ai/mxbai-rerank, mxbai_rerank/mxbai_rerank_v2.py, prepare_inputs and concat_input_ids."""
    front = _bare(tokenizer, "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."
                             "<|im_end|>\n<|im_start|>user\n")
    task = _bare(tokenizer, "You are a search relevance expert who evaluates how well documents match search queries. "
                            "For each query-document pair, carefully analyze the semantic relationship between them, "
                            "then provide your binary relevance judgment (0 for not relevant, 1 for relevant)."
                            "\nRelevance:")
    back = _bare(tokenizer, "<|im_end|>\n<|im_start|>assistant\n")
    sep = _bare(tokenizer, "\n")
    asked = _bare(tokenizer, f"query: {query}")
    shown = _bare(tokenizer, f"document: {document}")
    room = limit - len(front + asked + sep + sep + task + back)
    return front + asked + sep + shown[:room] + sep + task + back


def _bge_gemma(tokenizer, query: str, document: str, limit: int) -> list[int]:
    """The model card of BAAI/bge-reranker-v2-gemma, get_inputs."""
    prompt = _bare(tokenizer, "Given a query A and a passage B, determine whether the passage contains an answer to the "
                              "query by providing a prediction of either 'Yes' or 'No'.")
    sep = _bare(tokenizer, "\n")
    front = [tokenizer.convert_tokens_to_ids("<bos>")] + _bare(tokenizer, f"A: {query}") + sep
    room = limit - len(front + sep + prompt)
    return front + _bare(tokenizer, f"B: {document}")[:room] + sep + prompt


def _zerank(tokenizer, query: str, document: str, limit: int) -> list[int]:
    """zeroentropy/zerank-1-small, modeling_zeranker.py, format_pointwise_datapoints; it cuts by characters instead."""
    messages = [{"role": "system", "content": query}, {"role": "user", "content": document}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    tokens = tokenizer(text)["input_ids"]
    over = max(0, len(tokens) - limit)
    back = len(_bare(tokenizer, "<|im_end|>\n<|im_start|>assistant\n"))
    return tokens[: len(tokens) - back - over] + tokens[len(tokens) - back :]


def _sigmoid(x: torch.Tensor) -> float:
    return float(torch.sigmoid(x.double()))


_RERANKERS = {
    # recipe: tokenizer, prompt, yes, no, scale
    "mxbai-rerank-v2": ("plain", _mxbai, "1", "0", 1),
    "bge-reranker-v2-gemma": ("gemma", _bge_gemma, "Yes", None, 1),
    "zerank": ("zerank", _zerank, "Yes", None, 5),
}


def _rerank_cases(model: PreTrainedModel, tokenizers: Tokenizers) -> list[dict]:
    cases = []
    for recipe, (name, prompt, yes, no, scale) in _RERANKERS.items():
        tokenizer = tokenizers[name]
        for is_cut in (False, True):
            for query in _QUERIES:
                around = len(prompt(tokenizer, query, "", _POSITIONS))
                limit = around + _SHORT if is_cut else _POSITIONS
                case = {"recipe": recipe, "tokenizer": name, "query": query, "max_prompt_tokens": limit,
                        "tokens": [], "scores": [], "raw": []}
                for document in _DOCUMENTS:
                    tokens = prompt(tokenizer, query, document, limit)
                    last = reference.forward(model, tokens).logits[-1]
                    raw = last[_one(tokenizer, yes)] - (last[_one(tokenizer, no)] if no else 0)
                    case["tokens"].append(tokens)
                    case["raw"].append(float(raw))
                    case["scores"].append(_sigmoid(raw / scale))
                cases.append(case)
    return cases


# ---- A listwise reranker: all documents of a query in one prompt, or in several with the same query ----------------


def _jina_prompt(query: str, documents: list[str]) -> str:
    """jinaai/jina-reranker-v3, modeling.py, format_docs_prompts_func without an instruction."""
    passages = "\n".join(f'<passage id="{i}">\n{text}<|embed_token|>\n</passage>' for i, text in enumerate(documents))
    return (
        "<|im_start|>system\nYou are a search relevance expert who can determine a ranking of the passages based on how "
        "relevant they are to the query. If the query is a question, how relevant a passage is depends on how well it "
        "answers the question. If not, try to analyze the intent of the query and assess how well each passage satisfies "
        "the intent. If an instruction is provided, you should follow the instruction when determining the ranking."
        "<|im_end|>\n<|im_start|>user\n"
        f"I will provide you with {len(documents)} passages, each indicated by a numerical identifier. Rank the passages "
        f"based on their relevance to query: {query}\n{passages}\n<query>\n{query}<|rerank_token|>\n</query>"
        "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")


def _listwise_cases(model: PreTrainedModel, tokenizers: Tokenizers) -> dict:
    """The same file, JinaForRanking: forward, _truncate_texts and rerank."""
    tokenizer = tokenizers["jina"]
    hidden, inner, outer = model.config.hidden_size, 48, 72
    first = torch.tensor([[((37 * i + 11 * row) % 17 - 8) / 32 for i in range(hidden)] for row in range(inner)])
    second = torch.tensor([[((29 * i + 7 * row) % 19 - 9) / 32 for i in range(inner)] for row in range(outer)])
    marks = [tokenizer.convert_tokens_to_ids(token) for token in ("<|embed_token|>", "<|rerank_token|>")]
    cosine = torch.nn.functional.cosine_similarity

    def cut(text: str, most: int) -> str:
        tokens = tokenizer(text, truncation=True, max_length=most)["input_ids"]
        return tokenizer.decode(tokens) if len(tokens) >= most else text

    cases = []
    for most, of_document, of_query in ((125, 2048, 512), (3, 2048, 512), (2, 12, 5)):
        for query in _QUERIES:
            case = {"tokenizer": "jina", "query": query, "max_documents": most, "max_document_tokens": of_document,
                    "max_query_tokens": of_query, "tokens": [], "scores": []}
            asked = cut(query, of_query)
            shown = [cut(text, of_document) for text in _DOCUMENTS]
            documents, queries, weights = [], [], []
            for begin in range(0, len(shown), most):
                block = shown[begin : begin + most]
                tokens = tokenizer(_jina_prompt(asked, block))["input_ids"]
                states = torch.relu(reference.forward(model, tokens).hidden @ first.T) @ second.T
                ids = torch.tensor(tokens)
                read, by = states[ids == marks[0]], states[ids == marks[1]]
                case["tokens"] += [tokens] * len(block)
                documents.append(read)
                queries.append(by[0])
                weights.append(((1 + cosine(read, by.expand_as(read), dim=-1)) / 2).max())
            weight = torch.stack(weights)
            merged = (torch.stack(queries) * weight[:, None]).sum(0) / weight.sum()
            case["scores"] = [float(cosine(row, merged, dim=0)) for row in torch.cat(documents)]
            cases.append(case)
    return {"projector.0": first.tolist(), "projector.2": second.tolist(), "cases": cases}


# ---- Embedders --------------------------------------------------------------------------------------------------


def _unit(vector: torch.Tensor) -> list[float]:
    return [float(value) for value in torch.nn.functional.normalize(vector, dim=0)]


def _embed_cases(model: PreTrainedModel, tokenizers: Tokenizers) -> list[dict]:
    """The model card of intfloat/e5-mistral-7b-instruct: get_detailed_instruct, </s> behind the text, last_token_pool."""
    tokenizer = tokenizers["mistral"]
    end = tokenizer.convert_tokens_to_ids("</s>")
    cases = []
    for prompt, instruction, texts in (("document", None, _DOCUMENTS), ("query", None, _QUERIES),
                                       ("query", "Find cities.", _QUERIES)):
        case = {"recipe": "e5-mistral", "tokenizer": "mistral", "prompt": prompt, "instruction": instruction,
                "texts": texts, "tokens": [], "vectors": []}
        for text in texts:
            whole = f"Instruct: {instruction or _WEB_SEARCH}\nQuery: {text}" if prompt == "query" else text
            tokens = tokenizer(whole)["input_ids"] + [end]
            case["tokens"].append(tokens)
            case["vectors"].append(_unit(reference.forward(model, tokens).hidden[-1]))
        cases.append(case)
    return cases


def _bidirectional_embed_cases(model: PreTrainedModel, tokenizers: Tokenizers) -> list[dict]:
    """The prompts of google/embeddinggemma-300m (config_sentence_transformers.json), and the model cards of
    Alibaba-NLP/gte-Qwen2-1.5B-instruct (get_detailed_instruct, last_token_pool; its tokenizer appends <|endoftext|>) and
    of nvidia/llama-nemotron-embed-1b-v2 (query_prefix, document_prefix, average_pool)."""
    gemma = {"document": "title: none | text: ", "query": "task: search result | query: ",
             "clustering": "task: clustering | query: ", "classification": "task: classification | query: "}
    gte = {"document": "", "query": f"Instruct: {_WEB_SEARCH}\nQuery: "}
    nemotron = {"document": "passage: ", "query": "query: "}
    cases = []
    for recipe, name, prompts, behind, is_mean in (("embeddinggemma", "gemma-embedding", gemma, [], True),
                                                   ("gte-qwen2", "gte", gte, ["<|endoftext|>"], False),
                                                   ("llama-nemotron-embed", "llama", nemotron, [], True)):
        tokenizer = tokenizers[name]
        for prompt, front in prompts.items():
            texts = _QUERIES if prompt == "query" else _DOCUMENTS
            case = {"recipe": recipe, "tokenizer": name, "prompt": prompt, "instruction": None, "texts": texts,
                    "tokens": [], "vectors": []}
            for text in texts:
                tokens = tokenizer(front + text)["input_ids"] + tokenizer.convert_tokens_to_ids(behind)
                hidden = reference.forward(model, tokens).hidden
                case["tokens"].append(tokens)
                case["vectors"].append(_unit(hidden.mean(0) if is_mean else hidden[-1]))
            cases.append(case)
    return cases


def _bidirectional_rerank_cases(model: PreTrainedModel, tokenizers: Tokenizers) -> dict:
    """The model card of nvidia/llama-nemotron-rerank-1b-v2 (prompt_template), and its
    LlamaBidirectionalForSequenceClassification: score.weight over the mean of all hidden states."""
    weight = torch.tensor([((29 * i) % 19 - 9) / 16 for i in range(model.config.hidden_size)])
    tokenizer = tokenizers["llama"]
    cases = []
    for query in _QUERIES:
        case = {"recipe": "llama-nemotron-rerank", "tokenizer": "llama", "query": query, "tokens": [], "scores": []}
        for document in _DOCUMENTS:
            tokens = tokenizer(f"question:{query} \n \n passage:{document}")["input_ids"]
            case["tokens"].append(tokens)
            case["scores"].append(float(weight @ reference.forward(model, tokens).hidden.mean(0)))
        cases.append(case)
    return {"weight": weight.tolist(), "cases": cases}


def _pooling_cases(model: PreTrainedModel, tokenizers: Tokenizers) -> list[dict]:
    """sentence-transformers, Pooling: the mean of all tokens, the first, the last; nothing is normalised."""
    cases = []
    for text in _QUERIES:
        tokens = tokenizers["plain"](text)["input_ids"]
        hidden = reference.forward(model, tokens).hidden
        cases.append({
            "tokens": tokens,
            "mean": [float(value) for value in hidden.mean(0)],
            "first": [float(value) for value in hidden[0]],
            "last": [float(value) for value in hidden[-1]],
            "all": [[float(value) for value in row] for row in hidden],
        })
    return cases


def _head_cases(folder: Path, tokenizers: Tokenizers) -> dict:
    """transformers, AutoModelForSequenceClassification: score.weight over the final hidden state of the last token."""
    labels = 3
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=labels, dtype=torch.float32)
    model.eval()
    hidden = model.config.hidden_size
    weight = torch.tensor([[((37 * i + 11 * label) % 17 - 8) / 16 for i in range(hidden)] for label in range(labels)])
    model.score.weight = torch.nn.Parameter(weight, requires_grad=False)
    cases = []
    for text in _QUERIES + _DOCUMENTS[:2]:
        tokens = tokenizers["plain"](text)["input_ids"]
        with torch.no_grad():
            logits = model(torch.tensor([tokens])).logits[0]
        cases.append({"tokens": tokens, "logits": [float(value) for value in logits]})
    return {"weight": weight.tolist(), "cases": cases}


def write(models: Path, out: Path) -> None:
    folder = models / MODEL
    model = reference.load_directory(folder)
    tokenizers = Tokenizers(folder)
    bidirectional = reference.load_directory(folder)
    bidirectional.config.is_causal = False
    save_json(out / "recipes.json", {
        "tokenizers": tokenizers.changes,
        "documents": _DOCUMENTS,
        "rerank": _rerank_cases(model, tokenizers),
        "listwise": _listwise_cases(model, tokenizers),
        "embed": _embed_cases(model, tokenizers),
        "pooling": _pooling_cases(model, tokenizers),
        "head": _head_cases(folder, tokenizers),
        "bidirectional_embed": _bidirectional_embed_cases(bidirectional, tokenizers),
        "bidirectional_rerank": _bidirectional_rerank_cases(bidirectional, tokenizers),
    })
