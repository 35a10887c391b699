"""A batch of requests at work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, AsyncGenerator, Generator

import numpy

from ._native import Handle, call, core, error_of, ffi, filled, numbers_of, text_of
from ._waiting import SLICE_MS, Readers, events_async, give_up, wait, wait_async
from .constraint import Constrained, running
from .errors import PrefixError
from .requests import Result, result, top_of

_KINDS = {0: "started", 1: "token", 2: "lost", 3: "finished", 4: "error", 5: "text"}


@dataclass(frozen=True)
class Event:
    """kind: "started", "token" (with token, and logprob with that option), "lost" (count token events that were not read in
    time), "finished" or "error" (with cached and computed tokens); request: its place in the batch; time in seconds."""
    kind: str
    request: int
    token: int
    logprob: float
    count: int
    cached: int
    computed: int
    time: float


class Job(Handle):
    """Made by Engine.submit. Any thread may use it; what is unfinished when it is closed or forgotten is cancelled."""

    def __init__(self, handle: Any, count: int, constrained: dict[int, Constrained] | None = None) -> None:
        super().__init__(handle)
        self.count = count
        self._constrained = constrained or {}
        if self._constrained:
            running.add(self)
        self._readers = Readers()

    @property
    def finished_count(self) -> int:
        """How many requests are over."""
        out = ffi.new("size_t*")
        call(core.prefix_job_finished_count, self.handle, out)
        return out[0]

    def wait(self, timeout: float | None = None) -> bool:
        """Whether all requests are finished, within so many seconds. Ctrl-C cancels the job."""
        try:
            return wait(core.prefix_job_wait, self.handle, timeout)
        except KeyboardInterrupt:
            give_up(self.cancel)
            raise

    async def finished(self) -> None:
        """The same for asyncio: no thread waits meanwhile. Cancelling the coroutine cancels the job."""
        await wait_async(core.prefix_job_notify, self.handle, self.cancel)

    def cancel(self) -> None:
        """Unfinished requests end with CancelledError."""
        call(core.prefix_job_cancel, self.handle)

    def cancel_request(self, index: int) -> None:
        call(core.prefix_job_cancel_request, self.handle, index)

    def detach(self) -> None:
        """To fire and forget: the job goes on when it is closed."""
        call(core.prefix_job_detach, self.handle)

    def events(self) -> Generator[Event, None, None]:
        """What happens, as it happens. Each event goes to one reader."""
        while True:
            status, event = self._next_event(SLICE_MS)
            if status == core.PREFIX_ERR_NO_EVENT:
                return
            if event is not None:
                yield event

    async def events_async(self) -> AsyncGenerator[Event, None]:
        """The same for asyncio, where several coroutines may read too."""
        async for event in events_async(self._readers, core.prefix_job_notify_events, self.handle, self._next_event,
                                        self.cancel):
            yield event

    def _next_event(self, timeout_ms: int) -> tuple[int, Event | None]:
        raw = ffi.new("prefix_event*")
        raw.struct_size = ffi.sizeof("prefix_event")
        status = call(core.prefix_job_next_event, self.handle, timeout_ms, raw,
                      allowed=[core.PREFIX_ERR_TIMEOUT, core.PREFIX_ERR_NO_EVENT])
        if status != core.PREFIX_OK:
            return status, None
        return status, Event(_KINDS.get(raw.kind, str(raw.kind)), raw.request, raw.token, raw.logprob, raw.count, raw.cached,
                             raw.computed, raw.time_us / 1e6)

    def result(self, index: int) -> Result:
        """Of a request that is over, with its error where it failed."""
        return result(self.handle, index, self._constrained.get(index))

    def results(self) -> list[Result]:
        """Of all, when the job is done."""
        return [self.result(i) for i in range(self.count)]

    def partial_tokens(self, index: int) -> list[int]:
        """What a request has generated, also one that was cancelled or ran out of time."""
        return numbers_of("prefix_token", core.prefix_job_partial_tokens, self.handle, index).tolist()

    def partial_top(self, index: int, place: int) -> list[tuple[int, float]]:
        """With option top_logprobs, the likeliest tokens of one place of a generation with their log-probabilities, as soon
        as its event can be read and however the request ends."""
        return top_of(core.prefix_job_partial_top, self.handle, index, place)

    def all_values(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        """The values of all requests in one array, NaN for those that failed, and where each request begins in it."""
        offsets = numpy.zeros(self.count + 1, numpy.int64)
        room = ffi.from_buffer("int64_t[]", offsets)

        def get(handle: Any, out: Any, capacity: int, needed: Any, error: Any) -> int:
            return core.prefix_job_all_values(handle, out, capacity, needed, room, self.count + 1, error)

        return numbers_of("float", get, self.handle, capacity=self.count), offsets

    def first_failure(self) -> tuple[int, PrefixError] | None:
        """The first request that failed, and its error; the job must be done."""
        for index in range(self.count):
            info = filled("prefix_result_info", core.prefix_job_result_info, self.handle, index)
            if info["status"] != core.PREFIX_OK:
                name = ffi.string(core.prefix_status_name(info["status"])).decode()
                return index, error_of(info["status"], name, text_of(core.prefix_job_result_message, self.handle, index))
        return None

    @property
    def totals(self) -> dict[str, int]:
        """What the whole job did; complete when it is done."""
        return filled("prefix_job_totals", core.prefix_job_get_totals, self.handle)
