"""Engines and requests of token ids."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Iterable, Sequence

import numpy

from ._native import (Handle, call, core, error_of, failure, ffi, filled, make, new_error, numbers_of, options_in,
                      text_of, tokens_in)
from .errors import PrefixError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import EngineOptions

SLICE_MS = 100  # how long a wait takes no notice of Ctrl-C
Tokens = Sequence[int]


def version() -> str:
    """Of the library that is loaded."""
    return ffi.string(core.prefix_version_string()).decode()


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
class Embedding:
    """A vector of the whole text."""
    tokens: Tokens
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Generate:
    """Tokens that continue these; options max_tokens, temperature, top_p, seed, stop_tokens, ..."""
    tokens: Tokens
    options: dict[str, Any] = field(default_factory=dict)


Request = "Logits | Logprobs | Choices | Embedding | Generate"


@dataclass(frozen=True)
class Result:
    """Of one request. values: f32, what the request is for; tokens: of Generate; logprobs: of Choices, one for each
    token, and of Generate with option logprobs; error: None when it succeeded; info: counts and times."""
    values: Any  # numpy.ndarray, or None
    tokens: numpy.ndarray | None
    logprobs: numpy.ndarray | None
    error: PrefixError | None
    info: dict[str, int]


class Engine(Handle):
    """One model, one cache, one scheduler. Any thread may use it.

    path: a Hugging Face directory (config.json and safetensors) or a .gguf file. options: those of engines
    (docs/options.md), as compute="int8" or cache_bytes="4G". progress: True for a line on standard error where that is
    a terminal, or a function that is called with a fraction in [0, 1] while the model loads.
    """

    def __init__(self, path: str | os.PathLike[str], *, progress: bool | Callable[[float], None] = False,
                 **options: Unpack[EngineOptions]) -> None:
        from .progress import reporter

        data = os.fspath(path).encode()
        super().__init__(make(core.prefix_engine_open, core.prefix_engine_release, data, len(data),
                              options_in(options)))
        self.path = os.fspath(path)
        show = reporter("loading", progress)
        fraction = ffi.new("double*")
        try:
            while call(core.prefix_engine_wait, self.handle, SLICE_MS, fraction, allowed=[core.PREFIX_ERR_TIMEOUT]):
                show(fraction[0])
            show(1.0)
        except BaseException:
            self.close()  # gives the load up
            raise
        finally:
            show(None)

    @property
    def info(self) -> dict[str, Any]:
        """What is loaded and how: prefix_engine_info_json."""
        return json.loads(text_of(core.prefix_engine_info_json, self.handle))

    @property
    def stats(self) -> dict[str, int]:
        """Counters since creation: prefix_engine_stats."""
        return filled("prefix_engine_stats", core.prefix_engine_get_stats, self.handle)

    def metrics(self) -> str:
        """The same in Prometheus text format."""
        return text_of(core.prefix_metrics_text, self.handle)

    def cached_tokens(self, tokens: Tokens, namespace: int = 0) -> int:
        """How many of the first of these tokens are in the cache."""
        data, count, _keep = tokens_in(tokens)
        return filled("prefix_cache_info", core.prefix_cache_lookup, self.handle, namespace, data, count)["cached_tokens"]

    def load_adapter(self, name: str, path: str | os.PathLike[str]) -> None:
        """A LoRA adapter that requests may name by option adapter: a PEFT directory."""
        of_name, of_path = name.encode(), os.fspath(path).encode()
        call(core.prefix_adapter_load, self.handle, of_name, len(of_name), of_path, len(of_path))

    def unload_adapter(self, name: str) -> None:
        data = name.encode()
        call(core.prefix_adapter_unload, self.handle, data, len(data))

    def shutdown(self, timeout: float = 0) -> None:
        """Takes no more requests, waits so many seconds for those that run, and frees the model."""
        call(core.prefix_engine_shutdown, self.handle, int(timeout * 1000))

    def run(self, requests: Iterable[Any]) -> list[Result]:
        """All of these as one batch: what they share is computed once. A request that fails has its error in its
        result; Ctrl-C cancels the batch."""
        batch = make(core.prefix_batch_create, core.prefix_batch_release, self.handle)
        count = 0
        for request in requests:
            _add(batch, request, count)
            count += 1
        if count == 0:
            return []
        job = make(core.prefix_submit, core.prefix_job_release, self.handle, batch)
        try:
            while call(core.prefix_job_wait, job, SLICE_MS, allowed=[core.PREFIX_ERR_TIMEOUT]):
                pass
        except BaseException:
            call(core.prefix_job_cancel, job)
            raise
        return [_result(job, i) for i in range(count)]


def _add(batch: Any, request: Any, tag: int) -> None:
    if not isinstance(request, (Logits, Logprobs, Choices, Embedding, Generate)):
        raise TypeError(f"{type(request).__name__} is no request; there are Logits, Logprobs, Choices, Embedding, Generate")
    data, count, _keep = tokens_in(request.tokens)
    options = options_in(request.options)
    end = (options, tag, ffi.NULL)
    if isinstance(request, Logits):
        ids, n, _ids = tokens_in(request.ids)
        call(core.prefix_batch_add_logits, batch, data, count, ids, n, *end)
    elif isinstance(request, Logprobs):
        call(core.prefix_batch_add_logprobs, batch, data, count, request.start, *end)
    elif isinstance(request, Choices):
        offsets = [0]
        for choice in request.choices:
            offsets.append(offsets[-1] + len(choice))
        joined, n, _joined = tokens_in([t for choice in request.choices for t in choice])
        call(core.prefix_batch_add_choices, batch, data, count, joined, n, ffi.new("int64_t[]", offsets), len(offsets),
             *end)
    elif isinstance(request, Embedding):
        call(core.prefix_batch_add_embedding, batch, data, count, *end)
    else:
        call(core.prefix_batch_add_generate, batch, data, count, *end)


def _result(job: Any, index: int) -> Result:
    info = filled("prefix_result_info", core.prefix_job_result_info, job, index)
    if info["status"] != core.PREFIX_OK:
        name = ffi.string(core.prefix_status_name(info["status"])).decode()
        message = text_of(core.prefix_job_result_message, job, index)
        return Result(None, None, None, error_of(info["status"], name, message), info)
    return Result(numbers_of("float", core.prefix_job_result_values, job, index),
                  numbers_of("prefix_token", core.prefix_job_result_tokens, job, index),
                  numbers_of("float", core.prefix_job_result_logprobs, job, index), None, info)
