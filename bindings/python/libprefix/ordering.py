"""Tables and prompts laid out so that they share the most, by arithmetic alone: no engine, no model (docs/ordering.md)."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Number
from typing import Any, Iterable, Sequence

import numpy

from ._native import array_in, call, core, ffi, joined, several, utf8


@dataclass(frozen=True)
class TableOrder:
    """rows: the row of each prompt, in order; columns [prompts, columns]: those of each prompt, as they stand in it.
    tokens: of all cells; hit_before, hit: those that prompts share with the one before, as given and in this order."""
    rows: numpy.ndarray
    columns: numpy.ndarray
    tokens: int
    hit_before: int
    hit: int


@dataclass(frozen=True)
class Parts:
    """part: of each prompt; order: the prompts part after part, those that share beside each other; work: the different
    tokens of each part. tokens: of all prompts; distinct: what one worker would compute; computed: what all parts
    compute together; largest: by the part that computes the most."""
    part: numpy.ndarray
    order: numpy.ndarray
    work: numpy.ndarray
    tokens: int
    distinct: int
    computed: int
    largest: int


@dataclass(frozen=True)
class BatchEstimate:
    """computed: of each prompt, its tokens without those that a prompt before it has; tokens and total: of all."""
    computed: numpy.ndarray
    tokens: int
    total: int


def order(values: Any, lengths: Any = None) -> TableOrder:
    """The order of rows, and of columns within each, in which prompts share the longest prefixes with the one before.
    values [rows, columns]: any numbers that stand for the cells, equal for equal cells of a column; NaN is equal to itself.
    lengths, of the same shape: tokens of each cell, whole numbers; None counts each as 1. A prompt has to name its columns."""
    table = _numbered(values)
    if table.ndim != 2:
        raise ValueError(f"values have {table.ndim} dimensions, not rows and columns")
    sizes = numpy.empty(0, numpy.int32) if lengths is None else _sizes(lengths)
    if lengths is not None and sizes.shape != table.shape:
        raise ValueError(f"lengths are {sizes.shape}, values {table.shape}")
    rows = numpy.empty(table.shape[0], numpy.int64)
    columns = numpy.empty(table.shape, numpy.int32)
    info = _info("prefix_order_info")
    call(core.prefix_order, array_in("int64_t", table), table.size, array_in("int32_t", sizes), sizes.size, table.shape[1],
         array_in("int64_t", rows), rows.size, array_in("int32_t", columns), columns.size, info)
    return TableOrder(rows, columns, info.tokens, info.hit_before, info.hit)


def order_texts(rows: Iterable[Sequence[str]]) -> TableOrder:
    """The same of texts, whose bytes stand for tokens."""
    numbers: dict[str, int] = {}
    table = [several(row, f"row {i}") for i, row in enumerate(rows)]
    width = len(table[0]) if table else 0
    for i, row in enumerate(table):
        if len(row) != width:
            raise ValueError(f"row {i} has {len(row)} cells, the first one {width}")
    lengths = [[len(utf8(text, f"cell {c} of row {i}")) for c, text in enumerate(row)] for i, row in enumerate(table)]
    values = [[numbers.setdefault(text, len(numbers)) for text in row] for row in table]
    shape = (len(table), width)
    return order(numpy.array(values, numpy.int64).reshape(shape), numpy.array(lengths, numpy.int64).reshape(shape))


def partition(prompts: Iterable[Any], parts: int, balance: float = 0) -> Parts:
    """Shares prompts (token ids) out among workers that each have a cache of their own: parts of about equal work, cut
    where the fewest tokens are computed more than once. balance: the most that a part may have of the mean; 0 stands
    for 1.05."""
    tokens, offsets = joined(prompts)
    count = len(offsets) - 1
    part, places = numpy.empty(count, numpy.int32), numpy.empty(count, numpy.int64)
    work = numpy.empty(max(0, min(parts, 1 << 20)), numpy.int64)
    info = _info("prefix_partition_info")
    call(core.prefix_partition, array_in("prefix_token", tokens), tokens.size, array_in("int64_t", offsets), offsets.size, parts,
         balance, array_in("int32_t", part), part.size, array_in("int64_t", places), places.size, array_in("int64_t", work), work.size,
         info)
    return Parts(part, places, work, info.tokens, info.distinct, info.computed, info.largest)


def estimate_batch(prompts: Iterable[Any]) -> BatchEstimate:
    """What requests with these prompts compute as one batch, with an empty cache."""
    tokens, offsets = joined(prompts)
    computed = numpy.empty(len(offsets) - 1, numpy.int64)
    info = _info("prefix_estimate_info")
    call(core.prefix_estimate_batch, array_in("prefix_token", tokens), tokens.size, array_in("int64_t", offsets), offsets.size,
         array_in("int64_t", computed), computed.size, info)
    return BatchEstimate(computed, info.tokens, info.computed)


def _numbered(values: Any) -> numpy.ndarray:
    """Whole numbers of 64 bits stand for themselves. Others are numbered: NumPy would cut their fractions off."""
    table = numpy.asarray(values)
    if table.dtype.kind in "biu":
        return numpy.ascontiguousarray(table.astype(numpy.int64))  # which keeps different ones different, without a sign too
    cells = numpy.asarray(values, dtype=object).ravel().tolist()  # as they are: large ones beside floats are not rounded
    places: dict[Any, int] = {}
    for cell in cells:
        if not isinstance(cell, Number):
            raise TypeError(f"value {cell!r} is not a number")
        places.setdefault(None if cell != cell else cell, len(places))  # NaN alone is not equal to itself
    return numpy.array([places[None if cell != cell else cell] for cell in cells], numpy.int64).reshape(table.shape)


def _sizes(lengths: Any) -> numpy.ndarray:
    wide, limit = numpy.asarray(lengths), numpy.iinfo(numpy.int32).max
    if wide.dtype.kind not in "iu":
        wide = numpy.asarray(lengths, dtype=object)
        for length in wide.ravel().tolist():
            if isinstance(length, bool) or not isinstance(length, (int, numpy.integer)):
                raise TypeError(f"length {length!r} is not a whole number")
    for length in (wide.min(), wide.max()) if wide.size else ():
        if not 0 <= length <= limit:
            raise ValueError(f"a cell has {length} tokens; there may be 0 to {limit}")
    return numpy.ascontiguousarray(wide.astype(numpy.int32))


def _info(kind: str) -> Any:
    info = ffi.new(kind + "*")
    info.struct_size = ffi.sizeof(kind)
    return info
