"""Engines: one model, its cache and its requests."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any, Callable, Iterable, Sequence

from ._native import (Handle, Tokens, call, core, ffi, filled, make, millis, numbers_of, options_in, path_in, text_of, utf8)
from ._waiting import SLICE_MS
from .cache import Cache
from .constraint import Constrained
from .errors import PrefixError
from .job import Job
from .requests import Result, add
from .system import Pool, Source

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import EngineOptions

_STATES = {0: "loading", 1: "ready", 2: "draining", 3: "closed", 4: "failed"}


class Engine(Handle):
    """One model, one cache, one scheduler. Any thread may use it.

    path: a Hugging Face directory (config.json and safetensors), a .gguf file, or a Source of files in memory. options:
    those of engines (docs/options.md), as compute="int8" or cache_bytes="4G". pool: whose threads it shares. progress: True
    for a line on standard error where that is a terminal, or a function that is called with a fraction in [0, 1] while the
    model loads.
    """

    def __init__(self, path: str | os.PathLike[str] | Source, *, pool: Pool | None = None,
                 progress: bool | Callable[[float], None] = False, **options: Unpack[EngineOptions]) -> None:
        from .progress import reporter

        settings = options_in(options)
        if pool is not None:
            call(core.prefix_options_set_pool, settings, pool.handle)
        if isinstance(path, Source):
            _keep = list(path.kept)  # until it is loaded, or was released
            self.path = ""
            handle = make(core.prefix_engine_open_source, core.prefix_engine_release, path.handle, settings)
        else:
            self.path, data = os.fsdecode(path), path_in(path)
            handle = make(core.prefix_engine_open, core.prefix_engine_release, data, len(data), settings)
        super().__init__(handle)
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

    @property
    def end_tokens(self) -> list[int]:
        """After each of which the model's own files end a generation; option ignore_eos."""
        return numbers_of("prefix_token", core.prefix_engine_end_tokens, self.handle, capacity=8).tolist()

    @property
    def state(self) -> str:
        """"loading", "ready", "draining", "closed" or "failed"."""
        handle = self._handle if self._handle is not None else ffi.NULL
        return _STATES.get(core.prefix_engine_state(handle), "unknown")

    def cache(self, namespace: int | str = 0) -> Cache:
        """The cache of a namespace, by its number or its name; a name is made when it is new. 0 is that of requests that name
        none."""
        return Cache(self, self.namespace(namespace) if isinstance(namespace, str) else namespace)

    def save_snapshot(self, path: str | os.PathLike[str], namespaces: Sequence[int] = ()) -> dict[str, int]:
        """Saves what these namespaces (none: all) have in the cache; what was saved: tokens, bytes, ..."""
        data = path_in(path)
        numbers = list(namespaces)
        array = ffi.new("int32_t[]", numbers) if numbers else ffi.NULL
        return self._snapshot(core.prefix_snapshot_save, data, len(data), array, len(numbers))

    def load_snapshot(self, path: str | os.PathLike[str]) -> dict[str, int]:
        """Loads one beside what is in the cache; what was loaded."""
        data = path_in(path)
        return self._snapshot(core.prefix_snapshot_load, data, len(data))

    def _snapshot(self, function: Any, *arguments: Any) -> dict[str, int]:
        return filled("prefix_snapshot_info", function, self.handle, *arguments)

    def namespace(self, name: str) -> int:
        """The number of a namespace, which is made when it is new: for option namespace_id, and cache()."""
        data = utf8(name, "the name")
        return self._number("int32_t", core.prefix_namespace_open, data, len(data))

    def namespace_of(self, *parts: str) -> int:
        """That of several parts: a tenant's salt, an adapter, an epoch. They are compared one by one."""
        encoded = [utf8(part, f"part {i}") for i, part in enumerate(parts)]
        offsets = [0]
        for part in encoded:
            offsets.append(offsets[-1] + len(part))
        return self._number("int32_t", core.prefix_namespace_open_tuple, b"".join(encoded), offsets[-1],
                            ffi.new("int64_t[]", offsets), len(offsets))

    def find_namespace(self, name: str) -> int:
        """NotFoundError when it is not open."""
        data = utf8(name, "the name")
        return self._number("int32_t", core.prefix_namespace_find, data, len(data))

    def drop_namespace(self, namespace: int) -> int:
        """Evicts everything in it that no running request uses; the tokens that it freed."""
        return self._number("int64_t", core.prefix_namespace_drop, namespace)

    def close_namespace(self, namespace: int) -> int:
        """Ends it: what it holds is evicted, its leases end, its number is never given again; the tokens that it freed."""
        return self._number("int64_t", core.prefix_namespace_close, namespace)

    @property
    def namespace_count(self) -> int:
        """How many are open, with the empty one."""
        return self._number("int32_t", core.prefix_namespace_count)

    def _number(self, kind: str, function: Any, *arguments: Any) -> int:
        out = ffi.new(kind + "*")
        call(function, self.handle, *arguments, out)
        return out[0]

    def cached_tokens(self, tokens: Tokens, namespace: int | str = 0) -> int:
        """How many of the first of these tokens are in the cache."""
        return self.cache(namespace).lookup(tokens)["cached_tokens"]

    def load_adapter(self, name: str, path: str | os.PathLike[str] | Source) -> None:
        """A LoRA adapter that requests may name by option adapter: a PEFT directory, or its files in memory, which are read
        until it returns."""
        of_name = utf8(name, "the name")
        if isinstance(path, Source):
            _keep = list(path.kept)
            call(core.prefix_adapter_load_source, self.handle, of_name, len(of_name), path.handle)
            return
        of_path = path_in(path)
        call(core.prefix_adapter_load, self.handle, of_name, len(of_name), of_path, len(of_path))

    def unload_adapter(self, name: str) -> None:
        data = utf8(name, "the name")
        call(core.prefix_adapter_unload, self.handle, data, len(data))

    def adapter_namespace(self, name: str, namespace: int = 0) -> int:
        """That in which requests of this one with the adapter run."""
        data = utf8(name, "the name")
        return self._number("int32_t", core.prefix_adapter_namespace, namespace, data, len(data))

    @property
    def adapters(self) -> list[dict[str, Any]]:
        """Those that are loaded."""
        return json.loads(text_of(core.prefix_adapters_json, self.handle))

    def shutdown(self, timeout: float = 0) -> None:
        """Takes no more requests, waits so many seconds for those that run, and frees the model. Ctrl-C ends the wait, and
        cancels them."""
        handle, limit = self.handle, millis(timeout)
        if limit <= 0 or threading.current_thread() is not threading.main_thread():  # which alone Ctrl-C interrupts
            call(core.prefix_engine_shutdown, handle, limit)
            return
        failures: list[PrefixError] = []

        def end() -> None:
            try:
                call(core.prefix_engine_shutdown, handle, limit)
            except PrefixError as e:
                failures.append(e)

        thread = threading.Thread(target=end, daemon=True)
        try:
            thread.start()
            while thread.is_alive():
                thread.join(SLICE_MS / 1000)
        except BaseException as e:
            starts_none = isinstance(e, RuntimeError) and thread.ident is None  # an interpreter that ends
            call(core.prefix_engine_shutdown, handle, limit if starts_none else 0)  # the call of the thread returns then
            if not starts_none:
                raise
        if failures:
            raise failures[0]

    def submit(self, requests: Iterable[Any]) -> Job:
        """Starts all of these as one batch, without waiting: what they share is computed once."""
        batch, *of_job = _batch(self.handle, requests)
        return Job(make(core.prefix_submit, core.prefix_job_release, self.handle, batch), *of_job)

    def run(self, requests: Iterable[Any]) -> list[Result]:
        """The same, and waits. A request that fails has its error in its result; Ctrl-C cancels the batch."""
        batch, *of_job = _batch(self.handle, requests)
        if of_job[0] == 0:
            return []
        with Job(make(core.prefix_submit, core.prefix_job_release, self.handle, batch), *of_job) as job:
            job.wait()  # what interrupts it closes the job, which cancels it
            return job.results()

    async def arun(self, requests: Iterable[Any]) -> list[Result]:
        """The same for asyncio."""
        batch, *of_job = _batch(self.handle, requests)
        if of_job[0] == 0:
            return []
        with Job(make(core.prefix_submit, core.prefix_job_release, self.handle, batch), *of_job) as job:
            await job.finished()
            return job.results()


def plan(requests: Iterable[Any]) -> dict[str, Any]:
    """How a batch would share, without an engine: prefix_batch_plan_json."""
    batch, *_ = _batch(ffi.NULL, requests)
    return json.loads(text_of(core.prefix_batch_plan_json, batch))


def _batch(engine: Any, requests: Iterable[Any]) -> tuple[Any, int, dict[int, Constrained]]:
    """A batch, how many results it will have, and which of its requests have constraints."""
    batch, count = make(core.prefix_batch_create, core.prefix_batch_release, engine), 0
    constrained: dict[int, Constrained] = {}
    for request in requests:
        count += add(batch, request, count, constrained)
    return batch, count, constrained
