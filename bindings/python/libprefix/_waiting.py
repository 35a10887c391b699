"""How a job or a task is waited for: by a thread, which Ctrl-C wakes, or by an event loop."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from contextlib import suppress
from typing import Any, AsyncGenerator, Callable
from weakref import WeakValueDictionary

from ._native import call, core, ffi, make, millis
from .errors import MisuseError, PrefixError

SLICE_MS = 100  # how long a wait takes no notice of Ctrl-C


def wait(function: Any, handle: Any, timeout: float | None) -> bool:
    """Whether all is done, within so many seconds."""
    end = None if timeout is None else time.monotonic() + millis(timeout) / 1000
    while True:
        left = SLICE_MS if end is None else min(SLICE_MS, max(0, int((end - time.monotonic()) * 1000)))
        if call(function, handle, left, allowed=[core.PREFIX_ERR_TIMEOUT]) == core.PREFIX_OK:
            return True
        if end is not None and time.monotonic() >= end:
            return False


def give_up(cancel: Callable[[], None]) -> None:
    """For what is interrupted, and goes on to tell so: where it was closed meanwhile, or is of the parent of this process,
    nothing is left to cancel."""
    with suppress(MisuseError):
        cancel()


async def wait_async(notify: Any, handle: Any, cancel: Callable[[], None]) -> None:
    """The same for asyncio: no thread waits. A coroutine that is cancelled cancels."""
    place = Place()
    try:
        place.ask(notify, handle)
        await place.wait()
    except asyncio.CancelledError:
        give_up(cancel)
        raise
    finally:
        place.leave()


async def events_async(readers: Readers, notify: Any, handle: Any, look: Callable[[int], tuple[int, Any]],
                       cancel: Callable[[], None]) -> AsyncGenerator[Any, None]:
    """What look(0) finds, as (status, event), until it says NO_EVENT. All readers of one job or task share `readers`."""
    place = Place(readers)
    try:
        readers.enter(place, notify, handle)
        while True:
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
        give_up(cancel)
        raise
    finally:
        readers.leave(place, notify, handle)
        place.leave()


class Place:
    """Where a coroutine waits until its tag comes, or a reader of the same events tells it. It is to be left."""

    def __init__(self, readers: Readers | None = None) -> None:
        self.readers = readers
        self.loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._error: PrefixError | None = None
        self._bell = _BELLS.get(id(self.loop)) or Bell(self.loop)
        self._tag = self._bell.enter(self)

    def ask(self, notify: Any, handle: Any) -> None:
        call(notify, handle, self._bell.queue, self._tag)

    async def wait(self) -> None:
        await self._event.wait()
        self._event.clear()  # before the look that follows: an event that comes after it sets it again
        if self._error is not None:
            raise self._error

    def tell(self, here: asyncio.AbstractEventLoop) -> None:
        if self.loop is here:
            self._event.set()
        else:
            with suppress(RuntimeError):  # it is closed
                self.loop.call_soon_threadsafe(self._event.set)

    def fail(self, error: PrefixError) -> None:
        self._error = error
        self._event.set()

    def leave(self) -> None:
        self._bell.leave(self._tag)


class Readers:
    """The places of those who read the events of one job or task, in any event loops. It has one notice of them, which the
    last who came has asked for: its tag is for all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: list[Place] = []

    def enter(self, place: Place, notify: Any, handle: Any) -> None:
        with self._lock:
            self._places.append(place)
            place.ask(notify, handle)

    def tell(self, here: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            for place in self._places:
                place.tell(here)

    def leave(self, place: Place, notify: Any, handle: Any) -> None:
        """Another one asks, since the notice may have been for this place."""
        with self._lock:
            self._places = [other for other in self._places if other is not place and not other.loop.is_closed()]
            try:
                if self._places:
                    self._places[-1].ask(notify, handle)
            except PrefixError:  # which each of them finds when it looks
                for other in self._places:
                    other.tell(place.loop)


class Bell:
    """Wakes the coroutines of one event loop: the tags of all they wait for go to one queue, whose descriptor the loop
    watches. The loop alone keeps it, until the last place is left, or as long as it lives itself."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tags = itertools.count(1)  # each is used once: that of a place that was left is nobody's
        self._places: dict[int, Place] = {}
        self.queue = make(core.prefix_queue_create, core.prefix_queue_release)
        descriptor = ffi.new("int32_t*")
        call(core.prefix_queue_descriptor, self.queue, descriptor)
        self._descriptor = descriptor[0]
        loop.add_reader(self._descriptor, self._ring)
        _BELLS[id(loop)] = self

    def enter(self, place: Place) -> int:
        tag = next(self._tags)
        self._places[tag] = place
        return tag

    def leave(self, tag: int) -> None:
        if self._places.pop(tag, None) is not None and not self._places:
            self._close()

    def _ring(self) -> None:
        """Takes one tag: for the next one the loop comes again, which costs less than to find that there is none."""
        tag = ffi.new("int64_t*")
        try:
            call(core.prefix_queue_next, self.queue, 0, tag, allowed=[core.PREFIX_ERR_TIMEOUT])
        except PrefixError as error:
            places, self._places = self._places, {}
            self._close()
            for place in places.values():
                place.fail(error)
        place = self._places.get(tag[0])
        if place is not None:
            (place.readers or place).tell(self._loop)

    def _close(self) -> None:
        _BELLS.pop(id(self._loop), None)
        if not self._loop.is_closed():
            self._loop.remove_reader(self._descriptor)
        ffi.release(self.queue)


_BELLS: WeakValueDictionary[int, Bell] = WeakValueDictionary()  # by the id of their loops, which live as long
