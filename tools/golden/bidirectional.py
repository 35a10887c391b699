"""The golden numbers of the models whose tokens see those behind them: bidirectional.json.

The bodies are run by transformers with the keys of their own config.json; pooling, Dense layers and heads are written
out here as Sentence Transformers (models/Pooling.py, models/Dense.py) and the model cards have them.
"""

from pathlib import Path

import numpy as np
import torch
from transformers import AutoConfig, AutoModel, PreTrainedModel

import prng
from bidirectional_configs import BIDIRECTIONAL, TinyBidirectional, reference_json
from bidirectional_models import body_weights, dense_weights, head_weights
from vector_file import save_json

# Less than a window, around the ends of pages, several of them, more than a block of keys.
_LENGTHS = [1, 6, 31, 32, 33, 71, 140, 250]
_SHOWN = [0, 1, 5, 31, 32, 139]  # positions whose hidden states are kept


def load(name: str, model: TinyBidirectional) -> PreTrainedModel:
    """The body, each of whose tensors must find its place."""
    found = AutoModel.from_config(AutoConfig.for_model(**reference_json(model)), dtype=torch.float32,
                                  attn_implementation="eager")
    state = {tensor.removeprefix("model."): torch.from_numpy(np.array(values))
             for tensor, values in body_weights(name, model).items()}
    found.load_state_dict(state, strict=True)
    return found.eval()


@torch.no_grad()
def hidden_states(model: PreTrainedModel, tokens: list[int]) -> torch.Tensor:
    return model(torch.tensor([tokens]), use_cache=False).last_hidden_state[0]


def pooled(model: TinyBidirectional, hidden: torch.Tensor) -> torch.Tensor:
    return {"mean": hidden.mean(0), "last": hidden[-1], "first": hidden[0]}[model.pooling]


def through_dense(name: str, model: TinyBidirectional, vector: torch.Tensor) -> torch.Tensor:
    for layer, (weight, bias) in zip(model.dense, dense_weights(name, model), strict=True):
        vector = torch.from_numpy(weight) @ vector + (torch.from_numpy(bias) if bias is not None else 0)
        if layer.activation.endswith("Tanh"):
            vector = torch.tanh(vector)
    return vector


def _floats(vector: torch.Tensor) -> list[float]:
    return [round(float(value), 7) for value in vector]


def _case(name: str, model: TinyBidirectional, body: PreTrainedModel, length: int) -> dict:
    tokens = prng.integers(f"{name}/prompt/{length}", length, model.body.vocab).tolist()
    hidden = hidden_states(body, tokens)
    vector = pooled(model, hidden)
    shown = [position for position in _SHOWN if position < length]
    case = {"tokens": tokens, "positions": shown, "hidden": [_floats(hidden[position]) for position in shown],
            "pooled": _floats(vector), "vector": _floats(through_dense(name, model, vector))}
    if model.labels:
        logits = torch.from_numpy(head_weights(name, model)) @ vector
        case["logits"] = _floats(logits / model.says["temperature"])
    return case


def write(out: Path) -> None:
    models = []
    for name, model in BIDIRECTIONAL.items():
        body = load(name, model)
        models.append({"model": name, "gguf": model.gguf, "pooling": model.pooling,
                       "cases": [_case(name, model, body, length) for length in _LENGTHS]})
    save_json(out / "bidirectional.json", {"models": models})
