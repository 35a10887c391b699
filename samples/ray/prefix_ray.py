"""Tables of prompts on Ray Data, ordered so that what they share is computed once, with one engine for each worker.

    layout = prefix_ray.lay_out(ray.data.read_parquet("films"), key="id", columns=["title", "review"], parts=16)
    scores = layout.prompts.map_batches(prefix_ray.Worker, batch_size=None, num_cpus=8,
                                        compute=ray.data.ActorPoolStrategy(size=4),
                                        fn_constructor_args=["rerank", "/models/reranker"],
                                        fn_constructor_kwargs={"query": "Is it praise?", "threads": 8})
"""

from __future__ import annotations

import collections
import hashlib
import json
from dataclasses import dataclass
from typing import Any, Iterator, Sequence

import libprefix
import numpy
import pyarrow
import ray.data

MOST_UNITS = 1 << 26  # numbers that stand for the prompts while they are shared out


@dataclass(frozen=True)
class Layout:
    """prompts: columns key, prompt (a row as JSON), part and place; a part is in one block. shared_before and shared: the
    share of bytes that prompts have in common with the one before, as the table came and as it is laid out; duplicated:
    what the parts compute more than one engine would."""
    prompts: ray.data.Dataset
    shared_before: float
    shared: float
    duplicated: float


def lay_out(table: ray.data.Dataset, key: str, columns: Sequence[str], parts: int) -> Layout:
    """Puts a table in order and shares it out. Keys tell rows apart. The driver sees the keys and a hash and a length of
    each cell, never the texts. The table is read twice, so materialize() one that is dear to read; the prompts stay in
    Ray's store, which spills to disk."""
    columns = list(columns)
    if not columns or parts < 1:
        raise ValueError(f"a prompt needs a column and a table a part; there are {len(columns)} and {parts}")

    def outline(batch: pyarrow.Table) -> pyarrow.Table:
        rows = _rows(batch, columns)
        values = pyarrow.array([[_hash(cell) for cell in row] for row in rows], pyarrow.list_(pyarrow.int64()))
        # With the comma behind it; a field that is null is left out.
        lengths = pyarrow.array([[len(cell.encode()) + 1 if cell else 0 for cell in row] for row in rows],
                                pyarrow.list_(pyarrow.int32()))
        return pyarrow.table({"key": batch[key], "values": values, "lengths": lengths})

    outlines = list(table.map_batches(outline, batch_format="pyarrow").iter_batches(batch_size=None, batch_format="pyarrow"))
    keys = [k for batch in outlines for k in batch["key"].to_pylist()]
    seen = collections.Counter(keys)
    if len(seen) < len(keys) or any(k is None or k != k for k in seen):
        value, rows = seen.most_common(1)[0]
        raise ValueError(f"column {key} is no key: " + (f"{value} is in {rows} rows" if rows > 1 else "a row has none"))
    plan, figures = ((), (), ()), (0.0, 0.0, 0.0)
    if keys:
        values, lengths = (numpy.concatenate([batch[name].combine_chunks().flatten().to_numpy() for batch in outlines])
                           .reshape(-1, len(columns)) for name in ("values", "lengths"))
        plan, figures = _plan(values, lengths, parts)
    known = ray.put((keys, *plan))  # of the arrays workers make no copy

    def prompts(batch: pyarrow.Table) -> pyarrow.Table:
        keys, part, place, order = ray.get(known)
        wanted = batch[key].to_pylist()
        rows = dict.fromkeys(wanted)
        for row, k in enumerate(keys):
            if k in rows:
                rows[k] = row
        last = (0, len(keys), range(len(columns)))  # of a row that came into the table since it was planned
        found = [last if (row := rows[k]) is None else (part[row], place[row], order[row]) for k in wanted]
        texts = ["{" + ",".join(cells[c] for c in order if cells[c]) + "}"
                 for cells, (_, _, order) in zip(_rows(batch, columns), found)]
        return pyarrow.table({"key": batch[key], "prompt": pyarrow.array(texts, pyarrow.string()),
                              "part": pyarrow.array([place[0] for place in found], pyarrow.int32()),
                              "place": pyarrow.array([place[1] for place in found], pyarrow.int64())})

    # The shuffle is over before the workers take its processors: with none left for it, both would wait forever.
    return Layout(table.map_batches(prompts, batch_format="pyarrow").repartition(parts, keys=["part"]).materialize(), *figures)


def _rows(batch: pyarrow.Table, columns: list[str]) -> list[tuple[str, ...]]:
    """Of each row its fields as they stand in its prompt, empty where there is none. Arrow has them as they are: NumPy
    makes fractions of whole numbers where one of a block is null, and the prompt of a row would depend on its block."""
    return list(zip(*([_field(name, value) for value in batch[name].to_pylist()] for name in columns)))


def _field(name: str, value: Any) -> str:
    if value is None or isinstance(value, float) and value != value:
        return ""
    return json.dumps({name: value}, ensure_ascii=False, default=_plain)[1:-1]


def _plain(value: Any) -> Any:
    """Of what JSON has no form for."""
    return value.tolist() if isinstance(value, numpy.ndarray) else str(value)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def _plan(values: numpy.ndarray, lengths: numpy.ndarray, parts: int) -> tuple[tuple[numpy.ndarray, ...], tuple[float, float, float]]:
    """The part, the place and the order of the columns of each row; and the figures of the layout."""
    same = numpy.cumprod(values[1:] == values[:-1], axis=1)  # columns that a row has in common with the one before
    hit_before = int((same * lengths[1:]).sum())
    # From one order of rows, whatever the table comes in: which fields of a row are in front decides its bits too.
    rows = numpy.lexsort(values.T[::-1])
    values, lengths = values[rows], lengths[rows]
    order = libprefix.order(values, lengths)
    unit = 1 + order.tokens // MOST_UNITS
    counts = -(-lengths // unit)
    # As token ids: a cell is as many equal numbers as its length asks for.
    numbers, used = numpy.empty(values.shape, numpy.int32), 0
    for c in range(values.shape[1]):
        different, cells = numpy.unique(values[:, c], return_inverse=True)
        numbers[:, c] = cells + used
        used += len(different)
    prompts = [numpy.repeat(numbers[row][columns], counts[row][columns]) for row, columns in zip(order.rows, order.columns)]
    found = libprefix.partition(prompts, parts)
    walk = rows[order.rows[found.order]]  # the row at each place
    part, place, columns = numpy.empty_like(found.part), numpy.empty_like(found.order), numpy.empty_like(order.columns)
    part[walk], place[walk], columns[walk] = found.part[found.order], numpy.arange(len(walk)), order.columns[found.order]
    return (part, place, columns), (hit_before / max(order.tokens, 1), order.hit / max(order.tokens, 1),
                                    (found.computed - found.distinct) / max(found.distinct, 1))


class Worker:
    """For map_batches, in an actor each; batch_size=None, so that no part is torn apart. Its engine is its
    own: give options threads (the num_cpus of the actor) and cache_bytes, of which each worker takes so much."""

    def __init__(self, kind: str, model: str, *, query: str = "", template: str = "{row}", labels: Sequence[str] = (),
                 options: dict[str, Any] | None = None, rows: int = 64, batches: int = 3, **engine_options: Any) -> None:
        if kind not in ("rerank", "embed", "classify", "generate"):
            raise ValueError(f"a table can be given to rerank, embed, classify and generate, not to {kind}")
        if template.count("{row}") != 1:
            raise ValueError(f"a template has {{row}} once: {template}")
        if rows < 1 or batches < 1:
            raise ValueError(f"a worker has at least one batch of one row in work; these are {batches} of {rows}")
        self.kind, self.query, self.labels, self.options = kind, query, labels, options or {}
        self.before, self.after = template.split("{row}")
        self.rows, self.batches = rows, batches
        self.model = libprefix.Model(model, **engine_options)

    def __call__(self, part: dict[str, numpy.ndarray]) -> Iterator[dict[str, Any]]:
        """Results of a part, a batch of rows at a time. At most so many batches are in work, and no further one is begun
        before the oldest was taken."""
        order = numpy.lexsort((part["place"], part["part"]))
        working: collections.deque = collections.deque()
        for begin in range(0, len(order), self.rows):
            if len(working) == self.batches:
                yield self._results(*working.popleft())
            rows = order[begin:begin + self.rows]
            working.append((part["key"][rows], self._begin(part["prompt"][rows].tolist())))
        while working:
            yield self._results(*working.popleft())

    def _begin(self, prompts: list[str]) -> libprefix.Task:
        texts = [self.before + prompt + self.after for prompt in prompts]
        task = self.model.task(self.kind, **self.options)
        if self.labels:
            task.set_labels(self.labels)
        task.add([text for prompt in texts for text in (self.query, prompt)] if self.kind == "rerank" else texts)
        task.submit()
        return task

    def _results(self, keys: numpy.ndarray, task: libprefix.Task) -> dict[str, Any]:
        """key; values, or text of generate; error (empty when it succeeded); tokens of the prompt and those computed."""
        task.wait()
        failures = task.failures()
        infos = [task.item_info(i) for i in range(task.count)]
        if self.kind == "generate":
            result = {"text": numpy.array(["" if i in failures else task.text(i) for i in range(task.count)], object)}
        else:
            result = {"values": task.values()}
        return {"key": keys, **result,
                "error": numpy.array([str(failures.get(i, "")) for i in range(task.count)], object),
                "tokens": numpy.array([info["prompt_tokens"] for info in infos], numpy.int64),
                "computed": numpy.array([info["computed_tokens"] for info in infos], numpy.int64)}
