"""What can be asked of token ids, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Sequence

import numpy

from ._native import (Tokens, array_in, call, core, error_of, ffi, filled, joined, numbers_of, options_in, text_of,
                      tokens_in)
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
    """Tokens that continue these; options max_tokens, temperature, top_p, seed, stop_tokens, ..."""
    tokens: Tokens
    options: dict[str, Any] = field(default_factory=dict)


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
    token, and of Generate with option logprobs; error: None when it succeeded; info: counts and times."""
    values: Any  # numpy.ndarray, or None
    tokens: numpy.ndarray | None
    logprobs: numpy.ndarray | None
    error: PrefixError | None
    info: dict[str, int]


def add(batch: Any, request: Any, tag: int) -> int:
    """Adds it to a batch; how many results it will have."""
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
    return 1


def result(job: Any, index: int) -> Result:
    info = filled("prefix_result_info", core.prefix_job_result_info, job, index)
    if info["status"] != core.PREFIX_OK:
        name = ffi.string(core.prefix_status_name(info["status"])).decode()
        message = text_of(core.prefix_job_result_message, job, index)
        return Result(None, None, None, error_of(info["status"], name, message), info)
    return Result(numbers_of("float", core.prefix_job_result_values, job, index),
                  numbers_of("prefix_token", core.prefix_job_result_tokens, job, index),
                  numbers_of("float", core.prefix_job_result_logprobs, job, index), None, info)
