"""Aggregates over the rows of matches: what the Helper held of a match's earlier rows, and its rows in this part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import Type
from viewkeeper.maintenance import exact
from viewkeeper.maintenance.evaluate import evaluate
from viewkeeper.plans.expressions import ColumnRef
from viewkeeper.plans.pattern import PatternMeasure
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.rewriting import references
from viewkeeper.streams.patterns.sequences import Sequences
from viewkeeper.trace.grouping import spread
from viewkeeper.trace.keys import canonical, order_code, valid

MOST_ROWS = 1 << 22
"""So many rows of matches are summed up at a time; matches of one group may share rows."""


@dataclass(frozen=True)
class Spans:
    """For each match the rows `low` to `high` (exclusive) of this part, and the Helper's old row whose measure it goes
    on from, -1 where there is none."""

    low: np.ndarray
    high: np.ndarray
    parent: np.ndarray

    def part(self, start: int, stop: int) -> Spans:
        """Some of the matches."""
        return Spans(self.low[start:stop], self.high[start:stop], self.parent[start:stop])

    @property
    def parents(self) -> pa.Array:
        """Positions of the old rows, NULL where there is none."""
        return pa.array(self.parent, mask=self.parent < 0)

    @property
    def filled(self) -> np.ndarray:
        """The matches that have rows here."""
        return np.flatnonzero(self.high > self.low)

    def cut(self) -> list[slice]:
        """Slices of the matches whose rows together are few enough."""
        sizes = np.cumsum(self.high - self.low)
        slices, start = [], 0
        while start < len(sizes):
            done = int(sizes[start - 1]) if start else 0
            stop = max(int(np.searchsorted(sizes, done + MOST_ROWS, "right")), start + 1)
            slices.append(slice(start, stop))
            start = stop
        return slices


def measured(
    measure: PatternMeasure, rows: Sequences, old: Sequence[pa.Array], spans: Spans, zone: str
) -> list[pa.Array]:
    """The measure's columns (`shape.measure_types`) for each match; `old` are those of the Helper's old rows."""
    values, errors = _values(measure, rows, zone)
    raising = can_raise(measure.argument)
    pieces = []
    for each in spans.cut():
        some = spans.part(each.start, each.stop)
        columns = _KINDS[measure.function](measure.argument.type, values, old[:-1] if raising else old, some)
        if raising:
            columns = [*columns, _first_error(errors, old[-1], some)]
        pieces.append(columns)
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return [column.slice(0, 0) for column in old]
    return [pa.concat_arrays(parts) for parts in zip(*pieces, strict=True)]


def _values(measure: PatternMeasure, rows: Sequences, zone: str) -> tuple[pa.Array, np.ndarray | None]:
    argument = measure.argument
    if isinstance(argument, ColumnRef):
        return rows.column(argument.index), None
    used = references(argument)
    columns = [rows.column(i) if i in used else None for i in range(max(used, default=-1) + 1)]
    return evaluate(argument, columns, rows.count, zone=zone)


def _row_numbers(spans: Spans, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the matches `some`, one match after another, and where each match's begin."""
    low, lengths = spans.low[some], (spans.high - spans.low)[some]
    if (lengths == 1).all():
        return low, np.arange(len(some))
    return spread(low, lengths), np.cumsum(lengths) - lengths


def _counts(values: pa.Array, spans: Spans) -> np.ndarray:
    """How many values are there in each match's rows here."""
    present = valid(values)
    if present is None:
        return spans.high - spans.low
    before = np.concatenate([[0], np.cumsum(present)])
    return before[spans.high] - before[spans.low]


def _added_count(old: pa.Array, values: pa.Array, spans: Spans) -> pa.Array:
    return pa.array(_numbers(old.take(spans.parents)) + _counts(values, spans))


def _numbers(column: pa.Array) -> np.ndarray:
    return column.fill_null(0).to_numpy() if column.null_count else column.to_numpy()


def _count(type_: Type, values: pa.Array, old: Sequence[pa.Array], spans: Spans) -> list[pa.Array]:
    return [_added_count(old[0], values, spans)]


def _sum(type_: Type, values: pa.Array, old: Sequence[pa.Array], spans: Spans) -> list[pa.Array]:
    count = _added_count(old[0], values, spans)
    filled = spans.filled
    places, starts = _row_numbers(spans, filled)
    new = exact.lift_reduce(values.take(pa.array(places)), np.ones(len(places), np.int64), starts, type_)
    if len(filled) < len(spans.low):
        place = np.full(len(spans.low), -1)
        place[filled] = np.arange(len(filled))
        new = [column.take(pa.array(place, mask=place < 0)) for column in new]
    if (spans.parent < 0).all() and len(filled) == len(spans.low):
        return [count, *new]
    parents = spans.parents
    return [count, *exact.add([column.take(parents) for column in old[1:]], new, type_)]


def _extreme(greatest: bool) -> Callable[..., list[pa.Array]]:
    def run(type_: Type, values: pa.Array, old: Sequence[pa.Array], spans: Spans) -> list[pa.Array]:
        pool = pa.concat_arrays([values, old[0]])
        every = np.arange(len(spans.low))
        places, starts = _row_numbers(spans, spans.filled)
        owner = np.concatenate([np.repeat(spans.filled, (spans.high - spans.low)[spans.filled]),
                                every[spans.parent >= 0]])  # fmt: skip
        places = np.concatenate([places, len(values) + spans.parent[spans.parent >= 0]])
        present = valid(pool)
        if present is not None:
            owner, places = owner[present[places]], places[present[places]]
        code = order_code(pool)[places]
        order = np.lexsort([~code if greatest else code, owner])
        first = np.flatnonzero(np.append(True, np.diff(owner[order]) > 0)) if len(order) else order
        chosen = np.full(len(spans.low), -1)
        chosen[owner[order[first]]] = places[order[first]]
        return [canonical(pool.take(pa.array(chosen, mask=chosen < 0)))]

    return run


def _end(last: bool) -> Callable[..., list[pa.Array]]:
    def run(type_: Type, values: pa.Array, old: Sequence[pa.Array], spans: Spans) -> list[pa.Array]:
        pool = pa.concat_arrays([values, old[0]])
        here = spans.high > spans.low
        before = np.where(spans.parent >= 0, len(values) + spans.parent, -1)
        if last:
            chosen = np.where(here, spans.high - 1, before)
        else:
            chosen = np.where(before >= 0, before, np.where(here, spans.low, -1))
        return [pool.take(pa.array(chosen, mask=chosen < 0))]

    return run


_KINDS: dict[str, Callable[..., list[pa.Array]]] = {
    "count": _count, "sum": _sum, "min": _extreme(False), "max": _extreme(True), "first": _end(False),
    "last": _end(True),
}  # fmt: skip


def _first_error(errors: np.ndarray | None, old: pa.Array, spans: Spans) -> pa.Array:
    result = _numbers(old.take(spans.parents)).copy()
    if errors is None or not errors.any():
        return pa.array(result, pa.int64())
    places = np.append(np.flatnonzero(errors), 0)
    nth = np.searchsorted(places[:-1], spans.low)
    found = places[nth]
    here = (nth < len(places) - 1) & (found < spans.high) & (result == 0)
    result[here] = errors[found[here]]
    return pa.array(result)
