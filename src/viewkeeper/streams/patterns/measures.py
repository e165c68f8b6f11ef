"""Aggregates over the rows of matches: what the Helper held of a match's earlier rows, and its rows in this part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import Type
from viewkeeper.evaluation import exact
from viewkeeper.evaluation.evaluate import evaluate
from viewkeeper.plans.expressions import ColumnRef
from viewkeeper.plans.pattern import PatternMeasure
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.rewriting import references
from viewkeeper.streams import extremes
from viewkeeper.streams.patterns.sequences import Sequences
from viewkeeper.streams.segments import Segments, present_between
from viewkeeper.trace.grouping import spread

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


def _taken(values: pa.Array, spans: Spans) -> tuple[pa.Array, Segments]:
    """Those of the rows of all matches, one match after another."""
    lengths = spans.high - spans.low
    rows = spans.low if (lengths == 1).all() else spread(spans.low, lengths)
    return values.take(pa.array(rows)), Segments(lengths)


def _added_count(old: pa.Array, values: pa.Array, spans: Spans) -> pa.Array:
    return pa.array(_numbers(old.take(spans.parents)) + present_between(values, spans.low, spans.high))


def _numbers(column: pa.Array) -> np.ndarray:
    return column.fill_null(0).to_numpy() if column.null_count else column.to_numpy()


def _count(type_: Type, values: pa.Array, old: Sequence[pa.Array], spans: Spans) -> list[pa.Array]:
    return [_added_count(old[0], values, spans)]


def _sum(type_: Type, values: pa.Array, old: Sequence[pa.Array], spans: Spans) -> list[pa.Array]:
    count = _added_count(old[0], values, spans)
    taken, segments = _taken(values, spans)
    new = [segments.everywhere(column) for column in segments.sums(taken, type_)]
    if (spans.parent < 0).all() and len(segments.filled) == len(spans.low):
        return [count, *new]
    parents = spans.parents
    return [count, *exact.add([column.take(parents) for column in old[1:]], new, type_)]


def _extreme(least: bool) -> Callable[..., list[pa.Array]]:
    def run(type_: Type, values: pa.Array, old: Sequence[pa.Array], spans: Spans) -> list[pa.Array]:
        taken, segments = _taken(values, spans)
        found, every = segments.everywhere(segments.extreme(taken, least)), np.arange(len(spans.low))
        return [extremes.combine([found, old[0].take(spans.parents)], [every, every], len(every), least)]

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
    "count": _count, "sum": _sum, "min": _extreme(True), "max": _extreme(False), "first": _end(False),
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
