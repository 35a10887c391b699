"""What can be asked of token ids, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Sequence

import numpy

from ._native import (Tokens, array_in, call, core, error_of, ffi, filled, joined, numbers_of, options_in, text_of,
                      tokens_in)
from .constraint import Constrained, ConstraintState, constrain, sweep
from .errors import PrefixError


@dataclass(frozen=True)
class Logits:
    """The raw logits of some ids after the last token."""
    tokens: Tokens
    ids: Tokens
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Logprobs:
    """The log-probability of each token from position `start` on, given those before it."""
    tokens: Tokens
    start: int = 1
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Choices:
    """The log-probability of each of several continuations."""
    tokens: Tokens
    choices: Sequence[Tokens]
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Continuations:
    """A request of kind Logprobs for each of several continuations of one prefix: as many results."""
    tokens: Tokens
    continuations: Sequence[Tokens]
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Embedding:
    """A vector of the whole text."""
    tokens: Tokens
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Generate:
    """Tokens that continue these; options max_tokens, temperature, top_p, seed, stop_tokens, ... constraint: a class of
    ConstraintState, or what else gives a new one for each generation when it is called."""
    tokens: Tokens
    options: dict[str, Any] = field(default_factory=dict)
    constraint: Callable[[], ConstraintState] | None = None


@dataclass(frozen=True)
class Warm:
    """No result: the tokens are computed and stay in the cache."""
    tokens: Tokens
    options: dict[str, Any] = field(default_factory=dict)


KINDS = (Logits, Logprobs, Choices, Continuations, Embedding, Generate, Warm)
Request = "Logits | Logprobs | Choices | Continuations | Embedding | Generate | Warm"


@dataclass(frozen=True)
class Result:
    """Of one request. values: f32, what the request is for; tokens: of Generate; logprobs: of Choices, one for each
    token, and of Generate with option logprobs; error: None when it succeeded; info: counts and times; top: with option
    top_logprobs, for each token that was generated or scored the likeliest ones of its place with their log-probabilities.

    Of info, prompt_tokens is cached_tokens (found computed before this batch) + shared_tokens (computed in this batch for
    another request) + computed_tokens (for this one). The last are the sum of the reasons why, which are those of the
    engine's stats: miss_first_seen, miss_namespace, miss_budget, miss_evicted, miss_granularity, miss_state; with
    sharing=false all are 0. draft_tokens of a generation were guessed and checked, draft_tokens_accepted were right."""
    values: Any  # numpy.ndarray, or None
    tokens: numpy.ndarray | None
    logprobs: numpy.ndarray | None
    error: PrefixError | None
    info: dict[str, int]
    top: list[list[tuple[int, float]]] | None = None


def add(batch: Any, request: Any, tag: int, constrained: dict[int, Constrained]) -> int:
    """Adds it to a batch, as number `tag`, and its constraint to those; how many results it will have."""
    if not isinstance(request, KINDS):
        raise TypeError(f"{type(request).__name__} is no request; there are " + ", ".join(kind.__name__ for kind in KINDS))
    data, count, _keep = tokens_in(request.tokens)
    end = (options_in(request.options), tag, ffi.NULL)
    if isinstance(request, Logits):
        ids, n, _ids = tokens_in(request.ids)
        call(core.prefix_batch_add_logits, batch, data, count, ids, n, *end)
    elif isinstance(request, Logprobs):
        call(core.prefix_batch_add_logprobs, batch, data, count, request.start, *end)
    elif isinstance(request, (Choices, Continuations)):
        several = isinstance(request, Continuations)
        lists = request.continuations if several else request.choices
        tokens, offsets = joined(lists)
        call(core.prefix_batch_add_continuations if several else core.prefix_batch_add_choices, batch, data, count,
             array_in("prefix_token", tokens), tokens.size, array_in("int64_t", offsets), offsets.size, *end)
        return offsets.size - 1 if several else 1
    elif isinstance(request, Embedding):
        call(core.prefix_batch_add_embedding, batch, data, count, *end)
    elif isinstance(request, Warm):
        call(core.prefix_batch_add_warm, batch, data, count, *end)
    else:
        call(core.prefix_batch_add_generate, batch, data, count, *end)
        if request.constraint is not None:
            constrained[tag] = constrain(batch, tag, request.constraint)
    return 1


def top_of(function: Any, *arguments: Any) -> list[tuple[int, float]]:
    """Likely tokens with their log-probabilities."""
    capacity, needed = 64, ffi.new("size_t*")
    while True:
        tokens, logprobs = numpy.empty(capacity, numpy.int32), numpy.empty(capacity, numpy.float32)
        status = call(function, *arguments, array_in("prefix_token", tokens), capacity, needed, array_in("float", logprobs),
                      capacity, allowed=[core.PREFIX_ERR_BUFFER_TOO_SMALL])
        if status == core.PREFIX_OK:
            return list(zip(tokens[:needed[0]].tolist(), logprobs[:needed[0]].tolist()))
        capacity = needed[0]


def result(job: Any, index: int, constrained: Constrained | None = None) -> Result:
    sweep()
    info = filled("prefix_result_info", core.prefix_job_result_info, job, index)
    if info["status"] != core.PREFIX_OK:
        name = ffi.string(core.prefix_status_name(info["status"])).decode()
        message = text_of(core.prefix_job_result_message, job, index)
        error = error_of(info["status"], name, message)
        error.__cause__ = constrained and constrained.failure
        return Result(None, None, None, error, info)
    values = numbers_of("float", core.prefix_job_result_values, job, index)
    tokens = numbers_of("prefix_token", core.prefix_job_result_tokens, job, index)
    logprobs = numbers_of("float", core.prefix_job_result_logprobs, job, index)
    top, places = top_of(core.prefix_job_result_top, job, index), tokens.size or values.size
    of_places = [top[i:i + len(top) // places] for i in range(0, len(top), len(top) // places)] if top else None
    return Result(values, tokens, logprobs, None, info, of_places)
