"""Tasks: texts in; scores, vectors or texts out. What their prompts share is computed once."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, AsyncGenerator, Generator, Iterable, Sequence

import numpy

from ._native import (Handle, Texts, array_in, call, core, error_of, ffi, filled, make, numbers_of, options_in, text,
                      text_of, utf8)
from ._waiting import SLICE_MS, Readers, events_async, give_up, wait, wait_async
from .engine import Engine
from .errors import PrefixError, SomeFailed
from .requests import top_of
from .tokenizer import ChatOptions, Tokenizer, chat_settings

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import TaskOptions


@dataclass(frozen=True)
class Piece:
    """More of the text of an item, or, with text None, that the item is finished."""
    item: int
    text: str | None


@dataclass(frozen=True)
class TextToken:
    """One of the tokens that a text is made of. offset: the byte of the text, in UTF-8, where it begins; top: with option
    top_logprobs, the likeliest tokens of its place with their log-probabilities."""
    token: int
    logprob: float
    offset: int
    top: list[tuple[int, float]]


class Task(Handle):
    """kind: rerank, embed, classify, answer, generate or chat; options: those of tasks and requests (docs/options.md).
    Fill it with items, submit it once, and wait, or follow its pieces. Any thread may use it."""

    def __init__(self, engine: Engine, tokenizer: Tokenizer, kind: str, **options: Unpack[TaskOptions]) -> None:
        data = utf8(kind, "the kind of a task")
        super().__init__(make(text.prefix_task_create, text.prefix_task_release, engine.handle, tokenizer.handle, data,
                              len(data), options_in(options)))
        self._readers = Readers()

    def set_labels(self, labels: Iterable[str]) -> None:
        texts = Texts(labels, "labels")
        call(text.prefix_task_set_labels, self.handle, texts.pointers, texts.lengths, texts.count)

    def add(self, texts: Iterable[str]) -> int:
        """Items, whose texts follow each other: query, document, query, document, ... The number of the first of them, by
        which pieces and results name it."""
        all_of_them, first = Texts(texts), ffi.new("size_t*")
        call(text.prefix_task_add, self.handle, all_of_them.pointers, all_of_them.lengths, all_of_them.count, 0, first)
        return first[0]

    def add_product(self, firsts: Iterable[str], seconds: Iterable[str]) -> int:
        """Every second text with every first one, as all documents for each query. The number of the first item; that of
        firsts[i] with seconds[j] is i * len(seconds) + j more."""
        a, b, first = Texts(firsts, "firsts"), Texts(seconds, "seconds"), ffi.new("size_t*")
        call(text.prefix_task_add_product, self.handle, a.pointers, a.lengths, a.count, b.pointers, b.lengths, b.count, 0,
             first)
        return first[0]

    def add_chat(self, messages: Sequence[dict[str, Any]], **options: Unpack[ChatOptions]) -> int:
        """A conversation, of kind chat, with what its template is told besides; its number. One that the template or the
        library refuses fails alone."""
        settings = chat_settings(options)
        return self.add([json.dumps({"messages": messages, **settings} if settings else messages)])

    def submit(self) -> None:
        call(text.prefix_task_submit, self.handle)

    def cancel(self) -> None:
        """Unfinished items end with CancelledError."""
        call(text.prefix_task_cancel, self.handle)

    def wait(self, timeout: float | None = None) -> bool:
        """Whether all items are finished, within so many seconds. Ctrl-C cancels the task."""
        try:
            return wait(text.prefix_task_wait, self.handle, timeout)
        except KeyboardInterrupt:
            give_up(self.cancel)
            raise

    async def finished(self) -> None:
        """The same for asyncio: no thread waits meanwhile. Cancelling the coroutine cancels the task."""
        await wait_async(text.prefix_task_notify, self.handle, self.cancel)

    def pieces(self) -> Generator[Piece, None, None]:
        """The texts as they are written, with option stream; without it, items as they end. Each piece goes to one reader."""
        while True:
            status, piece = self._next_piece(SLICE_MS)
            if status == core.PREFIX_ERR_NO_EVENT:
                return
            if piece is not None:
                yield piece

    async def pieces_async(self) -> AsyncGenerator[Piece, None]:
        """The same for asyncio, where several coroutines may read too."""
        async for piece in events_async(self._readers, text.prefix_task_notify_events, self.handle, self._next_piece,
                                        self.cancel):
            yield piece

    def _next_piece(self, timeout_ms: int) -> tuple[int, Piece | None]:
        event, needed, capacity = ffi.new("prefix_event*"), ffi.new("size_t*"), 256
        event.struct_size = ffi.sizeof("prefix_event")
        while True:
            buffer = ffi.new("char[]", capacity)
            status = call(text.prefix_task_next_event, self.handle, timeout_ms, event, buffer, capacity, needed,
                          allowed=[core.PREFIX_ERR_TIMEOUT, core.PREFIX_ERR_NO_EVENT, core.PREFIX_ERR_BUFFER_TOO_SMALL])
            if status != core.PREFIX_ERR_BUFFER_TOO_SMALL:
                break
            capacity = needed[0] + 1
        if status != core.PREFIX_OK:
            return status, None
        if event.kind == core.PREFIX_EVENT_TEXT:
            return status, Piece(event.request, ffi.buffer(buffer, needed[0])[:].decode("utf-8", "replace"))
        if event.kind in (core.PREFIX_EVENT_FINISHED, core.PREFIX_EVENT_ERROR):
            return status, Piece(event.request, None)
        return status, None

    @property
    def info(self) -> dict[str, Any]:
        """Which recipe the task has, and why."""
        return json.loads(text_of(text.prefix_task_info_json, self.handle))

    @property
    def count(self) -> int:
        out = ffi.new("size_t*")
        call(text.prefix_task_count, self.handle, out)
        return out[0]

    @property
    def finished_count(self) -> int:
        """How many items are over."""
        out = ffi.new("size_t*")
        call(text.prefix_task_finished_count, self.handle, out)
        return out[0]

    @property
    def totals(self) -> dict[str, int]:
        """What the engine did for it: tokens given, computed, from the cache, ..."""
        return filled("prefix_job_totals", text.prefix_task_get_totals, self.handle)

    def values(self) -> numpy.ndarray:
        """Of all items, [items, width] in f32; NaN for one that failed or is unfinished."""
        width = self._width()
        flat = numbers_of("float", text.prefix_task_all_values, self.handle, capacity=max(1, self.count * width))
        return flat.reshape(-1, max(1, width))

    def _width(self) -> int:
        """Values of each item."""
        width = ffi.new("size_t*")
        call(text.prefix_task_width, self.handle, width)
        return width[0]

    def text(self, item: int) -> str:
        return text_of(text.prefix_task_item_text, self.handle, item)

    def partial_text(self, item: int) -> str:
        """The same, also what there is of one that was cancelled or ran out of time."""
        return text_of(text.prefix_task_item_partial_text, self.handle, item)

    def logprobs(self, item: int, first: int = 0) -> list[TextToken]:
        """With option logprobs or top_logprobs, the tokens of a text from number `first` on: without those of a stop text,
        and without the one that ended the text. With option stream also while it is written: those that begin in a piece
        are there as soon as the piece is."""
        capacity, needed = 64, ffi.new("size_t*")
        while True:
            tokens, logprobs = numpy.empty(capacity, numpy.int32), numpy.empty(capacity, numpy.float32)
            offsets = numpy.empty(capacity, numpy.int64)
            status = call(text.prefix_task_item_logprobs, self.handle, item, first, array_in("prefix_token", tokens), capacity,
                          needed, array_in("float", logprobs), capacity, array_in("int64_t", offsets), capacity,
                          allowed=[core.PREFIX_ERR_BUFFER_TOO_SMALL])
            if status == core.PREFIX_OK:
                break
            capacity = needed[0]
        n = needed[0]
        tops: list[list[tuple[int, float]]] = []
        for place in range(first, first + n):  # where one has none, none has
            tops.append(top_of(text.prefix_task_item_top, self.handle, item, place) if not tops or tops[0] else [])
        return [TextToken(*one) for one in zip(tokens[:n].tolist(), logprobs[:n].tolist(), offsets[:n].tolist(), tops)]

    def tokens(self, item: int) -> list[int]:
        """As the engine is given them, to look for them in its cache."""
        return numbers_of("prefix_token", text.prefix_task_item_tokens, self.handle, item).tolist()

    def item_info(self, item: int) -> dict[str, int]:
        """Counts and times of one item that is over, as info of Result has them."""
        return filled("prefix_result_info", text.prefix_task_item_info, self.handle, item)

    def item_values(self, item: int) -> numpy.ndarray:
        """Of one item; its error when it failed."""
        return numbers_of("float", text.prefix_task_item_values, self.handle, item)

    def ranking(self, first: int, count: int) -> list[tuple[int, float]]:
        """Of the values [first, first + count), from best to worst, the place counted from first, and the value; as many
        as option top_n of the task says."""
        room = max(1, min(count, self.count * self._width()))  # more are refused
        order, scores = numpy.empty(room, numpy.int64), numpy.empty(room, numpy.float32)
        needed = ffi.new("size_t*")
        call(text.prefix_task_ranking, self.handle, first, count, ffi.from_buffer("int64_t[]", order), room, needed,
             ffi.from_buffer("float[]", scores), room)
        return list(zip(order[: needed[0]].tolist(), scores[: needed[0]].tolist()))

    def failures(self) -> dict[int, PrefixError]:
        """The error of each item that failed."""
        found = {}
        statuses = numbers_of("int32_t", text.prefix_task_statuses, self.handle, capacity=max(1, self.count))
        for item, code in enumerate(statuses.tolist()):
            if code != core.PREFIX_OK:
                name = ffi.string(core.prefix_status_name(code)).decode()
                found[item] = error_of(code, name, text_of(text.prefix_task_item_message, self.handle, item))
        return found

    def complete(self, results: Any) -> Any:
        """`results`, or what tells that some are missing: the error itself where nothing succeeded."""
        failures = self.failures()
        if not failures:
            return results
        item, first = next(iter(failures.items()))
        if len(failures) == self.count:
            raise first
        error = SomeFailed(f"{len(failures)} of {self.count} items failed; item {item}: {first.args[0]}")
        error.code, error.name = first.code, first.name
        error.results, error.failures = results, failures
        raise error


def run(task: Task) -> Task:
    task.submit()
    task.wait()
    return task


async def run_async(task: Task) -> Task:
    task.submit()
    await task.finished()
    return task


def texts_of(task: Task) -> list[str | None]:
    """The text of each item; None for one that failed."""
    failed = task.failures()
    return [None if item in failed else task.text(item) for item in range(task.count)]
