"""The cache of an engine: look up, pin, limit, evict, watch."""

from __future__ import annotations

import json
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Iterable, Iterator

import numpy

from ._native import Tokens, array_in, call, core, ffi, filled, joined, millis, numbers_of, text_of, tokens_in

if TYPE_CHECKING:
    from .engine import Engine


@dataclass(frozen=True)
class CacheEvent:
    """kind: "stored", "removed" or "cleared"; block: its name, the same in every process with this model and namespace;
    parent: the block before it; tokens: of a stored block; namespace, position, time in seconds."""
    kind: str
    sequence: int
    block: int
    parent: int
    namespace: int
    position: int
    time: float
    tokens: list[int]


class Lease:
    """A prefix that stays in the cache: until close(), its time is over, or the engine is gone. It does not end with this
    object, nor does the object keep the engine. tokens: how many stay."""

    def __init__(self, engine: Engine, number: int, tokens: int) -> None:
        self._engine, self._number, self.tokens = weakref.ref(engine), number, tokens

    def close(self) -> None:
        """Ends it; one that has ended by itself is no failure."""
        number, self._number = self._number, 0
        engine = self._engine()
        handle = engine._handle if engine is not None else None
        if number and handle is not None:
            call(core.prefix_cache_unpin, handle, number,
                 allowed=[core.PREFIX_ERR_NOT_FOUND, core.PREFIX_ERR_MISUSE])

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Cache:
    """Of one namespace, by its number; made by Engine.cache. Events, trim and the tree are those of all."""

    def __init__(self, engine: Engine, namespace: int = 0) -> None:
        self._engine, self.namespace = engine, namespace

    def lookup(self, tokens: Tokens) -> dict[str, int]:
        """How many of the first of these are there (cached_tokens), and are being computed behind them (pending_tokens)."""
        data, count, _keep = tokens_in(tokens)
        return filled("prefix_cache_info", core.prefix_cache_lookup, self._engine.handle, self.namespace, data, count)

    def lookup_many(self, prompts: Iterable[Tokens]) -> numpy.ndarray:
        """Cached tokens of each prompt."""
        tokens, offsets = joined(prompts)
        return numbers_of("int64_t", core.prefix_cache_lookup_many, self._engine.handle, self.namespace,
                          array_in("prefix_token", tokens), tokens.size, array_in("int64_t", offsets), offsets.size,
                          capacity=offsets.size)

    @property
    def usage(self) -> dict[str, int]:
        """tokens, bytes, floor_bytes, quota_bytes."""
        return filled("prefix_cache_usage", core.prefix_cache_get_usage, self._engine.handle, self.namespace)

    def set_limits(self, floor_bytes: int = 0, quota_bytes: int = 0) -> None:
        """Others do not evict it below the floor, and it never holds more than the quota (0: none)."""
        call(core.prefix_cache_set_limits, self._engine.handle, self.namespace, floor_bytes, quota_bytes)

    def pin(self, tokens: Tokens, seconds: float = 0) -> Lease:
        """Keeps the longest computed prefix of these for so long (0: until the lease is closed). NotFoundError when
        nothing of it is computed."""
        data, count, _keep = tokens_in(tokens)
        lease, pinned = ffi.new("int64_t*"), ffi.new("int64_t*")
        call(core.prefix_cache_pin, self._engine.handle, self.namespace, data, count, millis(seconds), lease, pinned)
        return Lease(self._engine, lease[0], pinned[0])

    def evict(self, tokens: Tokens = ()) -> int:
        """What continues these tokens, without any the whole namespace; the tokens that it freed."""
        data, count, _keep = tokens_in(tokens)
        return self._freed(core.prefix_cache_evict, self.namespace, data, count)

    def trim(self, target_bytes: int) -> int:
        """Evicts in the order of option cache_policy until at most so many bytes are held; the tokens that it freed."""
        return self._freed(core.prefix_cache_trim, target_bytes)

    def _freed(self, function: Any, *arguments: Any) -> int:
        freed = ffi.new("int64_t*")
        call(function, self._engine.handle, *arguments, freed)
        return freed[0]

    def tree(self) -> dict[str, Any]:
        """To look at: prefix_cache_tree_json."""
        return json.loads(text_of(core.prefix_cache_tree_json, self._engine.handle))

    def next_event(self, sequence: int) -> CacheEvent | None:
        """The first event with at least this sequence; None when there is none yet. Needs option cache_events."""
        event, needed, room = ffi.new("prefix_cache_event*"), ffi.new("size_t*"), 256
        event.struct_size = ffi.sizeof("prefix_cache_event")
        while True:
            tokens = numpy.empty(room, numpy.int32)
            status = call(core.prefix_cache_next_event, self._engine.handle, sequence, event,
                          ffi.from_buffer("prefix_token[]", tokens), room, needed,
                          allowed=[core.PREFIX_ERR_NO_EVENT, core.PREFIX_ERR_BUFFER_TOO_SMALL])
            if status == core.PREFIX_ERR_NO_EVENT:
                return None
            if status == core.PREFIX_OK:
                break
            room = needed[0]
        kinds = {core.PREFIX_CACHE_STORED: "stored", core.PREFIX_CACHE_REMOVED: "removed", core.PREFIX_CACHE_CLEARED: "cleared"}
        return CacheEvent(kinds.get(event.kind, str(event.kind)), event.sequence, event.block, event.parent, event.ns,
                          event.position, event.time_us / 1e6, tokens[: needed[0]].tolist())

    def events(self, sequence: int = 0) -> Iterator[CacheEvent]:
        """Those that there are from here on. A gap in their sequences, in front of the first too, says that some were lost:
        dump_events()."""
        while (event := self.next_event(sequence)) is not None:
            sequence = event.sequence + 1
            yield event

    def dump_events(self) -> tuple[list[dict[str, Any]], int]:
        """All blocks that are in memory, parents first, and the sequence from which events go on."""
        lines = [json.loads(line) for line in text_of(core.prefix_cache_dump_events, self._engine.handle).splitlines()]
        return lines[:-1], lines[-1]["next"]
