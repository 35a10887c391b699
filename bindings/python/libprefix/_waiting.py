"""How a job or a task is waited for: by a thread, which Ctrl-C wakes, or by an event loop."""

from __future__ import annotations

import asyncio
import time
from typing import Any, AsyncIterator, Callable

from ._native import call, core, ffi, make

SLICE_MS = 100  # how long a wait takes no notice of Ctrl-C


def wait(function: Any, handle: Any, timeout: float | None) -> bool:
    """Whether all is done, within so many seconds."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = SLICE_MS if end is None else min(SLICE_MS, max(0, int((end - time.monotonic()) * 1000)))
        if call(function, handle, left, allowed=[core.PREFIX_ERR_TIMEOUT]) == core.PREFIX_OK:
            return True
        if end is not None and time.monotonic() >= end:
            return False


async def wait_async(notify: Any, handle: Any, cancel: Callable[[], None]) -> None:
    """The same for asyncio: no thread waits. A coroutine that is cancelled cancels."""
    try:
        async with Bell() as bell:
            call(notify, handle, bell.queue, 1)
            await bell.rings()
    except asyncio.CancelledError:
        cancel()
        raise


async def events_async(notify: Any, handle: Any, look: Callable[[int], tuple[int, Any]],
                       cancel: Callable[[], None]) -> AsyncIterator[Any]:
    """What look(0) finds, as (status, event), until it says NO_EVENT."""
    try:
        async with Bell() as bell:
            call(notify, handle, bell.queue, 1)
            while True:
                await bell.rings()
                while True:
                    status, event = look(0)
                    if status == core.PREFIX_ERR_NO_EVENT:
                        return
                    if status == core.PREFIX_ERR_TIMEOUT:
                        break
                    if event is not None:
                        yield event
    except asyncio.CancelledError:
        cancel()
        raise


class Bell:
    """A completion queue whose descriptor an event loop watches."""

    async def __aenter__(self) -> Bell:
        self.queue = make(core.prefix_queue_create, core.prefix_queue_release)
        descriptor = ffi.new("int32_t*")
        call(core.prefix_queue_descriptor, self.queue, descriptor)
        self._descriptor = descriptor[0]
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._event.set)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._loop.remove_reader(self._descriptor)
        ffi.release(self.queue)

    async def rings(self) -> None:
        """Returns when a tag has come, which it takes."""
        tag = ffi.new("int64_t*")
        while call(core.prefix_queue_next, self.queue, 0, tag, allowed=[core.PREFIX_ERR_TIMEOUT]) != core.PREFIX_OK:
            self._event.clear()
            await self._event.wait()
