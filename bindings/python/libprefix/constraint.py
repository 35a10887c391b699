"""Which tokens may come next in a generation, as objects of the program decide it.

The library calls them from its own threads, while other threads of Python run, and some calls come under its locks. So
nothing may be released inside a call that may be an engine or a job: garbage is not collected there, and what a call has
ended goes when a thread of Python comes by (sweep).
"""

from __future__ import annotations

import atexit
import functools
import gc
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Callable, Iterator, Protocol
from weakref import WeakSet

import numpy

from ._native import Tokens, call, core, ffi, ids_of, make

if TYPE_CHECKING:
    from .job import Job

_FAILED = -1  # what the library is told of an exception
_EXIT_SECONDS = 10  # for steps that run when Python ends


class TokenMask:
    """The tokens that may come next: none of them at first. words: an array of uint32, where token i is bit i % 32 of word
    i // 32, as grammar engines write it."""

    def __init__(self, words: int) -> None:
        self.words = numpy.zeros(words, numpy.uint32)

    def allow(self, tokens: int | Tokens) -> None:
        """Lets a token come, or each of several."""
        ids = ids_of([tokens] if isinstance(tokens, (int, numpy.integer)) else tokens)
        wrong = ids[(ids < 0) | (ids >= 32 * self.words.size)]
        if wrong.size:
            raise ValueError(f"token {wrong[0]} is outside [0, {32 * self.words.size})")
        numpy.bitwise_or.at(self.words, ids >> 5, numpy.uint32(1) << (ids & 31).astype(numpy.uint32))


class ConstraintState(Protocol):
    """One generation that is constrained. Its methods may call nothing of this package but those of the mask; an exception
    ends the request, whose error has it as its cause."""

    def allow(self, mask: TokenMask) -> None:
        """Says which tokens may come next. Where the text may end here, the model's end tokens are among them; with none
        the request ends."""

    def accept(self, token: int) -> None:
        """The generation goes on behind this token; not called for the last one."""


class Constrained:
    """A request that has a constraint."""

    def __init__(self, begin: Callable[[], ConstraintState]) -> None:
        self.begin = begin
        self.failure: BaseException | None = None  # the first one of its calls

    def told(self, function: Callable[[], Any]) -> int:
        """What the library is answered."""
        try:
            function()
            return 0
        except BaseException as e:
            self.failure = self.failure or e
            return _FAILED


class _Living:
    """What the library has addresses of: by them, and what it gave back."""

    def __init__(self) -> None:
        self._there: dict[int, Any] = {}
        self._gone: list[Any] = []
        self._lock = threading.Lock()

    def give(self, thing: Any) -> Any:
        handle = ffi.new_handle(thing)
        self._there[int(ffi.cast("intptr_t", handle))] = (handle, thing)
        return handle

    def take_back(self, address: Any) -> None:
        with self._lock:
            self._gone.append(self._there.pop(int(ffi.cast("intptr_t", address))))

    def sweep(self) -> None:
        with self._lock:
            gone, self._gone = self._gone, []
        gone.clear()

    def __len__(self) -> int:
        return len(self._there)


_constrained, _states = _Living(), _Living()
running: WeakSet[Job] = WeakSet()  # jobs that have constraints
_lock = threading.Lock()
_depth, _collects = 0, False


@contextmanager
def _no_collection() -> Iterator[None]:
    """Collecting garbage could release handles of the library, inside a call of it."""
    global _depth, _collects
    with _lock:
        if _depth == 0:
            _collects = gc.isenabled()
            gc.disable()
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0 and _collects:
                gc.enable()


def sweep() -> None:
    """Outside the library: what its calls have ended."""
    _states.sweep()
    _constrained.sweep()


def _begin(user: Any, out: Any) -> int:
    with _no_collection():
        constrained = ffi.from_handle(user)

        def make_state() -> None:
            out[0] = _states.give((constrained, constrained.begin()))

        return constrained.told(make_state)


def _allow(address: Any, words: Any, count: int) -> int:
    with _no_collection():
        constrained, state = ffi.from_handle(address)

        def fill() -> None:
            mask = TokenMask(count)  # the state may keep it; the library's own memory ends with the call
            state.allow(mask)
            ffi.memmove(words, numpy.ascontiguousarray(mask.words, numpy.uint32), 4 * count)

        return constrained.told(fill)


def _accept(address: Any, token: int) -> int:
    with _no_collection():
        constrained, state = ffi.from_handle(address)
        return constrained.told(lambda: state.accept(token))


def _end(address: Any) -> None:
    with _no_collection():
        _states.take_back(address)


def _release(user: Any) -> None:
    with _no_collection():
        _constrained.take_back(user)


@functools.lru_cache(maxsize=None)
def _calls() -> Any:
    """The table of these for the library."""
    atexit.register(_end_all)
    kept = [ffi.callback("int32_t(void*, void**)", _begin, error=_FAILED),
            ffi.callback("int32_t(void*, uint32_t*, size_t)", _allow, error=_FAILED),
            ffi.callback("int32_t(void*, prefix_token)", _accept, error=_FAILED),
            ffi.callback("void(void*)", _end), ffi.callback("void(void*)", _release)]
    calls = ffi.new("prefix_constraint_calls*", {"struct_size": ffi.sizeof("prefix_constraint_calls")})
    calls.begin, calls.allow, calls.accept, calls.end, calls.release = kept
    return calls, kept


def constrain(batch: Any, index: int, begin: Callable[[], ConstraintState]) -> Constrained:
    """Gives a request of a batch its constraint."""
    sweep()
    if not callable(begin):
        raise TypeError(f"a constraint is a {type(begin).__name__}; it must be callable, and give a new state")
    calls, _ = _calls()
    constrained = Constrained(begin)
    user = _constrained.give(constrained)
    try:
        handle = make(core.prefix_constraint_create, core.prefix_constraint_release, calls, user)
    except BaseException:
        _constrained.take_back(user)
        raise
    call(core.prefix_batch_constrain, batch, index, handle)
    return constrained


def _end_all() -> None:
    """A thread of the library that calls an interpreter which has ended would never come back."""
    for job in list(running):
        with suppress(Exception):
            job.cancel()
    end = time.monotonic() + _EXIT_SECONDS
    while len(_states) and time.monotonic() < end:
        time.sleep(0.001)
