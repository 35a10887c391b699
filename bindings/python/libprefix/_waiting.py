"""How a job or a task is waited for: by a thread, which Ctrl-C wakes, or by an event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
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
    bell = Bell()
    place = bell.enter(notify, handle)
    try:
        await place.wait()
    except asyncio.CancelledError:
        cancel()
        raise
    finally:
        bell.leave(place)


async def events_async(bell: Bell, notify: Any, handle: Any, look: Callable[[int], tuple[int, Any]],
                       cancel: Callable[[], None]) -> AsyncIterator[Any]:
    """What look(0) finds, as (status, event), until it says NO_EVENT. All readers of one job or task share its bell."""
    place = bell.enter(notify, handle)
    try:
        while True:
            place.clear()  # before the look: an event that comes after it sets the place again
            while True:
                status, event = look(0)
                if status == core.PREFIX_ERR_NO_EVENT:
                    return
                if status == core.PREFIX_ERR_TIMEOUT:
                    break
                if event is not None:
                    yield event
            await place.wait()
    except asyncio.CancelledError:
        cancel()
        raise
    finally:
        bell.leave(place)


class Bell:
    """Wakes coroutines, any number of them in any event loops: a job or task has one notice of its events, which goes to one
    queue, whose descriptor all their loops watch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    def enter(self, notify: Any, handle: Any) -> asyncio.Event:
        """A place that is set whenever the tag comes, to be given back to leave()."""
        place, loop = asyncio.Event(), asyncio.get_running_loop()
        with self._lock:
            if not self._places:
                self._queue = make(core.prefix_queue_create, core.prefix_queue_release)
                descriptor = ffi.new("int32_t*")
                call(core.prefix_queue_descriptor, self._queue, descriptor)
                self._descriptor = descriptor[0]
                call(notify, handle, self._queue, 1)
            if loop not in self._places.values():
                loop.add_reader(self._descriptor, self._ring, loop)
            self._places[place] = loop
        self._ring(loop)  # a tag that is there already needs no turn of the loop
        return place

    def leave(self, place: asyncio.Event) -> None:
        with self._lock:
            loop = self._places.pop(place)
            if loop not in self._places.values():
                loop.remove_reader(self._descriptor)
            if not self._places:
                ffi.release(self._queue)

    def _ring(self, here: asyncio.AbstractEventLoop) -> None:
        tag = ffi.new("int64_t*")
        with self._lock:
            if call(core.prefix_queue_next, self._queue, 0, tag, allowed=[core.PREFIX_ERR_TIMEOUT]) != core.PREFIX_OK:
                return  # another loop was faster, and rings here too
            for place, loop in self._places.items():
                if loop is here:
                    place.set()
                elif not loop.is_closed():
                    with suppress(RuntimeError):  # it was closed since, with its readers
                        loop.call_soon_threadsafe(place.set)
