"""The golden numbers of classification heads: classify.json.

Scores are those of the text-classification pipeline of transformers, which reads labels and the kind of problem from
config.json. The model is the tiny one that reads text, with heads of several kinds.
"""

from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, pipeline

from recipes import Tokenizers
from tasks import MODEL
from vector_file import save_json

_TEXTS = [
    "Paris is the capital of France. The Seine runs through it from east to west.",
    "Bread is made of flour, water, salt and yeast.\nThe dough rests for some hours, then it goes into a hot oven.",
    "東京は日本の首都です。 Tokyo has 37,000,000 people \U0001f5fc.",
    "Was wächst im Gemüsegarten – und wann?",
]
_SHORT = 9  # tokens of a text that is cut

# What config.json says of a head, and the tokenizer: one that puts nothing around a text, or a token in front.
_HEADS = {
    "topics": ({"id2label": {"0": "food", "1": "town", "2": "garden"}}, "plain"),
    "single": ({"id2label": {"0": "a", "1": "b"}, "problem_type": "single_label_classification"}, "llama"),
    "multi": ({"id2label": {"0": "long", "1": "short", "2": "true", "3": "false"},
               "problem_type": "multi_label_classification"}, "plain"),
    "one": ({"id2label": {"0": "toxic"}}, "llama"),
    "number": ({"id2label": {"0": "stars"}, "problem_type": "regression"}, "plain"),
    "numbers": ({"id2label": {"0": "x", "1": "y"}, "problem_type": "regression"}, "llama"),
    "unnamed": ({"id2label": {str(i): f"LABEL_{i}" for i in range(5)}}, "plain"),
}


def _head(folder: Path, tokenizers: Tokenizers, name: str, says: dict, tokenizer: str) -> dict:
    config = AutoConfig.from_pretrained(folder, **says | {"id2label": {int(i): text for i, text in says["id2label"].items()}})
    model = AutoModelForSequenceClassification.from_pretrained(folder, config=config, dtype=torch.float32).eval()
    labels, hidden, salt = len(says["id2label"]), model.config.hidden_size, len(name)
    weight = [[((37 * i + 11 * label + salt * (i % 5)) % 17 - 8) / 32 for i in range(hidden)] for label in range(labels)]
    model.score.weight = torch.nn.Parameter(torch.tensor(weight), requires_grad=False)
    ask = pipeline("text-classification", model=model, tokenizer=tokenizers[tokenizer])
    names = list(says["id2label"].values())

    def of(text: str, **options) -> list[float]:
        found = {one["label"]: one["score"] for one in ask(text, top_k=None, **options)}
        return [found[label] for label in names]

    cases = []
    for most in (0, _SHORT):
        cut = {"truncation": True, "max_length": most} if most else {}
        for text in _TEXTS:
            tokens = tokenizers[tokenizer](text, **cut)["input_ids"]
            scores, raw = of(text, **cut), of(text, function_to_apply="none", **cut)
            cases.append({"text": text, "max_prompt_tokens": most, "tokens": tokens, "scores": scores, "raw": raw})
    return {"name": name, "says": says, "tokenizer": tokenizer, "labels": names, "weight": weight, "cases": cases}


def write(models: Path, out: Path) -> None:
    folder = models / MODEL
    tokenizers = Tokenizers(folder)
    heads = [_head(folder, tokenizers, name, *about) for name, about in _HEADS.items()]
    save_json(out / "classify.json", {"heads": heads})
