"""Runs a Hugging Face model in float32 and collects what the tests compare with."""

import copy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from prompts import GREEDY_STEPS, Prompt
from vector_file import VectorWriter


def load_directory(folder: Path, **options: str) -> PreTrainedModel:
    """The model of a Hugging Face directory: transformers reads config.json and the weights by itself."""
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", **options
    ).eval()


def from_weights(config: dict, weights: dict[str, np.ndarray], **options: str) -> PreTrainedModel:
    """The model of a configuration and float32 weights; each weight must find its place."""
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(**config), dtype=torch.float32, attn_implementation="eager", **options
    )
    state = {name: torch.from_numpy(np.array(values)) for name, values in weights.items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    if unexpected or set(missing) - ({"lm_head.weight"} if config["tie_word_embeddings"] else set()):
        raise ValueError(f"weights do not fit: missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    return model.eval()


def divide_frequencies(model: PreTrainedModel, divisors: np.ndarray) -> None:
    """Applies the rope_freqs tensor of a GGUF file: each rotary frequency is divided by its factor."""
    rotary = model.model.rotary_emb
    rotary.inv_freq = rotary.inv_freq / torch.from_numpy(np.array(divisors))


@torch.no_grad()
def add_to_weight(model: PreTrainedModel, module: str, delta: torch.Tensor) -> None:
    """Adds to the matrix of a module, by its name in a file: only what comes from "layers." on is the model's own."""
    own = module[module.index("layers.") :]
    (found,) = (part for name, part in model.named_modules() if name.endswith(f".{own}"))
    found.weight += delta


@dataclass
class Run:
    logits: torch.Tensor  # [tokens, vocab]
    hidden: torch.Tensor  # [tokens, hidden], after the final norm


@torch.no_grad()
def forward(model: PreTrainedModel, tokens: list[int]) -> Run:
    """One pass over one sequence, without a cache."""
    out = model.model(torch.tensor([tokens]), use_cache=False)
    hidden = out.last_hidden_state[0]
    logits = model.lm_head(hidden) / getattr(model.config, "logits_scaling", 1)
    cap = getattr(model.config, "final_logit_softcapping", None)
    return Run(logits if cap is None else torch.tanh(logits / cap) * cap, hidden)


def log_probs(run: Run, tokens: list[int]) -> torch.Tensor:
    """Log-probability of each token but the first, given those before it."""
    rows = torch.log_softmax(run.logits[:-1], dim=-1)
    return rows.gather(1, torch.tensor(tokens[1:], dtype=torch.int64)[:, None])[:, 0]


def greedy(model: PreTrainedModel, tokens: list[int], steps: int) -> tuple[list[int], list[float]]:
    """The most likely continuation, and the lead of the best logit over the second at each step.

    Every step computes the whole sequence again: nothing here depends on a cache.
    """
    chosen, margins = [], []
    for _ in range(steps):
        best = torch.topk(forward(model, tokens + chosen).logits[-1], 2)
        chosen.append(int(best.indices[0]))
        margins.append(float(best.values[0] - best.values[1]))
    return chosen, margins


def in_bf16(model: PreTrainedModel) -> PreTrainedModel:
    """A copy with the parameters that loading with dtype=bfloat16 gives; buffers, such as rotary frequencies, stay."""
    kept = [*(model._keep_in_fp32_modules or ()), *(model._keep_in_fp32_modules_strict or ())]
    rounded_model = copy.deepcopy(model)
    for name, parameter in rounded_model.named_parameters():
        if not any(part in name for part in kept):
            parameter.data = parameter.data.to(torch.bfloat16)
    rounded_model.config.dtype = torch.bfloat16
    return rounded_model


def distance(got: torch.Tensor, expected: torch.Tensor) -> float:
    """Relative L2."""
    return float((got.float() - expected).norm() / expected.norm())


def bf16_errors(model: PreTrainedModel, prompts: list[Prompt]) -> dict[str, float]:
    """How far transformers' own bfloat16 is from its float32, at the positions whose logits are stored."""
    narrow = in_bf16(model)
    logits, hidden = ([], []), ([], [])
    for prompt in prompts:
        first = 0 if prompt.full else len(prompt.tokens) - 1
        for side, each in enumerate((narrow, model)):
            run = forward(each, prompt.tokens)
            logits[side].append(run.logits[first:])
            hidden[side].append(run.hidden[-1])
    got, expected = torch.cat(logits[0]), torch.cat(logits[1])
    rows = sorted(distance(*pair) for pair in zip(got, expected))
    figures = {
        "logits": distance(got, expected),
        "median": rows[len(rows) // 2],
        "hidden": distance(torch.stack(hidden[0]), torch.stack(hidden[1])),
    }
    return {name: float(f"{figure:.3g}") for name, figure in figures.items()}


def rounded(values: list[float]) -> list[float]:
    return [round(value, 4) for value in values]


def rope_switch(model: PreTrainedModel) -> int | None:
    """The length up to which longrope uses its short factors, if the model has longrope."""
    parameters = getattr(model.config, "rope_parameters", None) or {}
    if parameters.get("rope_type") != "longrope":
        return None
    return parameters["original_max_position_embeddings"]


def collect(model: PreTrainedModel, prompts: list[Prompt], writer: VectorWriter) -> list[dict]:
    """The index entries of the prompts; the floats go to `writer`."""
    switch = rope_switch(model)
    entries = []
    for prompt in prompts:
        tokens = prompt.tokens
        run = forward(model, tokens)
        positions = list(range(len(tokens))) if prompt.full else [len(tokens) - 1]
        entry = {
            "name": prompt.name,
            "tokens": tokens,
            "logit_positions": positions,
            "logits_at": writer.add(run.logits[positions].numpy()),
            "hidden_at": writer.add(run.hidden[-1].numpy()),
            "log_probs_at": writer.add(log_probs(run, tokens).numpy()),
        }
        # A continuation that crosses the switch would mix two rotations: it has no right answer.
        if switch is None or not len(tokens) <= switch < len(tokens) + GREEDY_STEPS:
            entry["greedy"], margins = greedy(model, tokens, GREEDY_STEPS)
            entry["greedy_margins"] = rounded(margins)
        entries.append(entry)
    return entries


def numbers(model: PreTrainedModel, prompts: list[Prompt], writer: VectorWriter) -> dict:
    """What the index of a model has of its prompts."""
    return {"bf16": bf16_errors(model, prompts), "prompts": collect(model, prompts, writer)}
