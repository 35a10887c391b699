"""The golden numbers of the ready-made tasks: tasks.json.

What a task must give is computed here from the published contracts, with Hugging Face tokenizers and transformers:
one text at a time, without padding, batches or a cache. The prompts are spelled out once more on purpose; nothing is
read from text/recipes.
"""

import copy
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import PreTrainedModel, PreTrainedTokenizerFast

import reference
from vector_file import save_json

MODEL = "qwen3-words"
POSITIONS = 1024

# ---- Texts ------------------------------------------------------------------------------------------------------

_QUERIES = [
    "Which city lies on the Seine?",
    "how is bread made",
    "Was wächst im Gemüsegarten – und wann?",
]
_DOCUMENTS = [
    "Paris is the capital of France. The Seine runs through it from east to west.",
    "Bread is made of flour, water, salt and yeast.\nThe dough rests for some hours, then it goes into a hot oven.",
    "no",
    "東京は日本の首都です。 Tokyo has 37,000,000 people \U0001f5fc.",
    "",
    " A text with spaces at both ends  ",
    # Longer than the model's context.
    " ".join(f"Item {i}: the {word} of year {1900 + i} was kept in room {i % 7}." for i, word in enumerate(
        ["letter", "map", "clock", "painting", "coin", "book", "lamp", "key", "chair", "window"] * 9)),
]
_INSTRUCTION = "Given a question about cities, find passages that name the city"
_LABELS = ["travel", "cooking and baking", "history of the office", "no"]
_CONTEXT = _DOCUMENTS[0] + " " + _DOCUMENTS[1]
_QUESTIONS = ["Which city lies on the Seine?", "What is bread made of?", "Where does the dough go?"]

# ---- Tokenizers -------------------------------------------------------------------------------------------------


def _around(front: list[str], back: list[str], ids: dict[str, int]) -> dict:
    """A post-processor that puts special tokens around a text."""
    def special(name: str) -> dict:
        return {"SpecialToken": {"id": name, "type_id": 0}}

    def template(parts: list[dict]) -> list[dict]:
        return [special(name) for name in front] + parts + [special(name) for name in back]

    names = front + back
    return {
        "type": "TemplateProcessing",
        "single": template([{"Sequence": {"id": "A", "type_id": 0}}]),
        "pair": template([{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}]),
        "special_tokens": {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in names},
    }


class Tokenizers:
    """The tokenizer of the model, and the same one with other post-processors.

    "plain" adds nothing, as Qwen3-Reranker; "end" appends <|endoftext|>, as Qwen3-Embedding; "both" has a token in
    front and one behind, as models with a bos and an eos have.
    """

    def __init__(self, folder: Path) -> None:
        whole = json.loads((folder / "tokenizer.json").read_text("utf-8"))
        ids = {token["content"]: token["id"] for token in whole["added_tokens"]}
        self.post_processors = {
            "plain": whole["post_processor"],
            "end": _around([], ["<|endoftext|>"], ids),
            "both": _around(["<|im_start|>"], ["<|im_end|>"], ids),
        }
        template = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))["chat_template"]
        self._made = {}
        for name, post_processor in self.post_processors.items():
            changed = copy.deepcopy(whole) | {"post_processor": post_processor}
            self._made[name] = PreTrainedTokenizerFast(
                tokenizer_object=Tokenizer.from_str(json.dumps(changed)), chat_template=template,
                clean_up_tokenization_spaces=False, eos_token="<|im_end|>", pad_token="<|endoftext|>",
            )

    def __getitem__(self, name: str) -> PreTrainedTokenizerFast:
        return self._made[name]


# ---- Rerank -----------------------------------------------------------------------------------------------------

_RERANKER_PREFIX = (
    '<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct'
    ' provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
_RERANKER_SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
_WEB_SEARCH = "Given a web search query, retrieve relevant passages that answer the query"


def _reranker(model: PreTrainedModel, tokenizer, query: str, documents: list[str], instruction: str | None,
              max_length: int) -> dict:
    """As the model card of Qwen3-Reranker computes it."""
    prefix = tokenizer.encode(_RERANKER_PREFIX, add_special_tokens=False)
    suffix = tokenizer.encode(_RERANKER_SUFFIX, add_special_tokens=False)
    yes, no = (tokenizer.convert_tokens_to_ids(word) for word in ("yes", "no"))
    room = max_length - len(prefix) - len(suffix)
    result = {"scores": [], "raw": [], "tokens": [], "cut": []}
    for document in documents:
        body = f"<Instruct>: {instruction or _WEB_SEARCH}\n<Query>: {query}\n<Document>: {document}"
        whole = tokenizer(body)["input_ids"]
        if whole != tokenizer(body, add_special_tokens=False)["input_ids"]:
            raise ValueError("the tokenizer of a reranker must not add special tokens")
        kept = tokenizer(body, truncation="longest_first", max_length=room)["input_ids"]
        tokens = prefix + kept + suffix
        last = reference.forward(model, tokens).logits[-1]
        pair = torch.stack([last[no], last[yes]])
        result["scores"].append(float(torch.softmax(pair, 0)[1]))
        result["raw"].append(float(last[yes] - last[no]))
        result["tokens"].append(len(tokens))
        result["cut"].append(len(kept) < len(whole))
    return result


def _reranker_cases(model: PreTrainedModel, tokenizers: Tokenizers) -> list[dict]:
    cases = []
    for instruction, limit in ((None, 0), (_INSTRUCTION, 0), (None, 200)):
        for query in _QUERIES[: 2 if limit else 3]:
            found = _reranker(model, tokenizers["plain"], query, _DOCUMENTS, instruction, limit or POSITIONS)
            cases.append({"query": query, "instruction": instruction, "max_prompt_tokens": limit, **found})
    return cases


def _without(tokens: list[int], offsets: list[tuple[int, int]], begin: int, end: int, count: int) -> list[int]:
    """Leaves out the last `count` tokens that lie in characters begin..end of the text."""
    inside = [i for i, (b, e) in enumerate(offsets) if begin <= b and e <= end]
    gone = set(inside[len(inside) - count :]) if count else set()
    if len(gone) != count:
        raise ValueError("not enough tokens to leave out")
    return [token for i, token in enumerate(tokens) if i not in gone]


def _cut_prompt(tokenizer, before: str, text: str, after: str, front: list[int], limit: int) -> tuple[list[int], bool]:
    """The tokens of before + text + after, at most `limit` with those in front; only `text` gets shorter."""
    encoded = tokenizer(before + text + after, add_special_tokens=False, return_offsets_mapping=True)
    tokens = encoded["input_ids"]
    over = max(0, len(front) + len(tokens) - limit)
    kept = _without(tokens, encoded["offset_mapping"], len(before), len(before) + len(text), over)
    return front + kept, over > 0


def _after(model: PreTrainedModel, prompt: list[int], continuation: list[int]) -> torch.Tensor:
    """Log-probabilities of a continuation."""
    run = reference.forward(model, prompt + continuation)
    return reference.log_probs(run, prompt + continuation)[len(prompt) - 1 :]


def _likelihood_cases(model: PreTrainedModel, tokenizers: Tokenizers) -> list[dict]:
    cases = []
    for name, limit in (("plain", 0), ("both", 0), ("plain", 120)):
        tokenizer = tokenizers[name]
        front = [tokenizer.convert_tokens_to_ids("<|im_start|>")] if name == "both" else []
        for query in _QUERIES:
            target = tokenizer.encode(" " + query, add_special_tokens=False)
            longest = min(limit or POSITIONS, POSITIONS - len(target))
            case = {"query": query, "tokenizer": name, "max_prompt_tokens": limit,
                    "scores": [], "raw": [], "tokens": [], "cut": []}
            for document in _DOCUMENTS:
                after = "\n\nQuestion about the passage:"
                prompt, cut = _cut_prompt(tokenizer, "Passage: ", document, after, front, longest)
                values = _after(model, prompt, target)
                case["scores"].append(float(values.double().mean()))
                case["raw"].append(float(values.double().sum()))
                case["tokens"].append(len(prompt) + len(target))
                case["cut"].append(cut)
            cases.append(case)
    return cases


# ---- Embed ------------------------------------------------------------------------------------------------------


def _embedding_cases(model: PreTrainedModel, tokenizers: Tokenizers) -> list[dict]:
    """As the model card of Qwen3-Embedding computes it: its tokenizer appends <|endoftext|>, also to a cut text."""
    tokenizer = tokenizers["end"]
    shapes = [
        # prompt, instruction, dimensions, normalize, max_prompt_tokens
        ("document", None, 0, True, 0),
        ("query", None, 0, True, 0),
        ("query", _INSTRUCTION, 12, True, 0),
        ("document", None, 12, False, 40),
    ]
    cases = []
    for prompt, instruction, dimensions, normalize, limit in shapes:
        texts = _QUERIES if prompt == "query" else _DOCUMENTS
        case = {"prompt": prompt, "instruction": instruction, "dimensions": dimensions, "normalize": normalize,
                "max_prompt_tokens": limit, "texts": texts, "tokens": [], "vectors": []}
        for text in texts:
            whole = f"Instruct: {instruction or _WEB_SEARCH}\nQuery:{text}" if prompt == "query" else text
            tokens = tokenizer(whole, truncation=True, max_length=limit or POSITIONS)["input_ids"]
            if tokens[-1] != tokenizer.convert_tokens_to_ids("<|endoftext|>"):
                raise ValueError("the end of the text is missing")
            vector = reference.forward(model, tokens).hidden[-1]
            vector = vector[:dimensions] if dimensions else vector
            if normalize:
                vector = torch.nn.functional.normalize(vector, dim=0)
            case["tokens"].append(len(tokens))
            case["vectors"].append([float(value) for value in vector])
        cases.append(case)
    return cases


# ---- Classify and answer ----------------------------------------------------------------------------------------


def _choices_cases(model: PreTrainedModel, tokenizers: Tokenizers) -> list[dict]:
    cases = []
    for name, limit, instruction in (("plain", 0, None), ("both", 90, "Sort the letters.")):
        tokenizer = tokenizers[name]
        front = [tokenizer.convert_tokens_to_ids("<|im_start|>")] if name == "both" else []
        said = instruction or "Each text is followed by the label that fits it best."
        labels = [tokenizer.encode(" " + label, add_special_tokens=False) for label in _LABELS]
        longest = min(limit or POSITIONS, POSITIONS - max(map(len, labels)))
        case = {"tokenizer": name, "instruction": instruction, "max_prompt_tokens": limit,
                "probabilities": [], "raw": [], "cut": []}
        for text in _DOCUMENTS:
            prompt, cut = _cut_prompt(tokenizer, f"{said}\n\nText: ", text, "\nLabel:", front, longest)
            means = torch.stack([_after(model, prompt, label).double().mean() for label in labels])
            case["probabilities"].append(torch.softmax(means, 0).tolist())
            case["raw"].append(means.tolist())
            case["cut"].append(cut)
        cases.append(case)
    return cases


def _answer_cases(model: PreTrainedModel, tokenizers: Tokenizers) -> list[dict]:
    """Greedy answers. The margins tell how near the second-best token came."""
    tokenizer = tokenizers["plain"]
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    steps = 8
    cases = []
    for recipe in ("question-answering", "extractive-qa"):
        case = {"recipe": recipe, "max_tokens": steps, "answers": [], "tokens": [], "margins": []}
        for question in _QUESTIONS:
            if recipe == "question-answering":
                turn = {"role": "user", "content": f"{_CONTEXT}\n\nAnswer in one short sentence: {question}"}
                text = tokenizer.apply_chat_template(
                    [turn], add_generation_prompt=True, enable_thinking=False, tokenize=False)
            else:
                text = (f"Text: {_CONTEXT}\n\nThe answer to each question is a few words copied from the text.\n\n"
                        f"Question: {question}\nAnswer:")
            prompt = tokenizer.encode(text, add_special_tokens=False)
            chosen, margins = reference.greedy(model, prompt, steps)
            chosen = chosen[: chosen.index(end)] if end in chosen else chosen
            answer = tokenizer.decode(chosen, skip_special_tokens=True).lstrip()
            if recipe == "extractive-qa":
                answer = answer.split("\n")[0]
            case["answers"].append(answer.strip())
            case["tokens"].append(len(prompt))
            case["margins"].append(reference.rounded(margins))
        cases.append(case)
    return cases


def write(models: Path, out: Path) -> None:
    folder = models / MODEL
    model = reference.load_directory(folder)
    tokenizers = Tokenizers(folder)
    save_json(out / "tasks.json", {
        "model": MODEL,
        "positions": POSITIONS,
        "post_processors": {name: json.dumps(value) for name, value in tokenizers.post_processors.items()},
        "documents": _DOCUMENTS,
        "labels": _LABELS,
        "context": _CONTEXT,
        "questions": _QUESTIONS,
        "qwen3-reranker": _reranker_cases(model, tokenizers),
        "query-likelihood": _likelihood_cases(model, tokenizers),
        "qwen3-embedding": _embedding_cases(model, tokenizers),
        "choices": _choices_cases(model, tokenizers),
        "answer": _answer_cases(model, tokenizers),
    })
