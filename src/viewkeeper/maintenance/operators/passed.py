"""What a function has to know of the rows of a key before a stretch: how many there are, and what they come to.

Both are sums over the runs, whatever a later run takes back from an earlier one.  A run remembers of each key what lies
before the last place that it was asked for, and only the rows between are read: a key that grows at its end costs the
same when it is large.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import Type
from viewkeeper.evaluation import exact
from viewkeeper.trace.grouping import spread
from viewkeeper.trace.run import Run
from viewkeeper.trace.stretches import KeysInOrder, Stretches


@dataclass(frozen=True)
class Passed:
    """Of each stretch, what lies before it: `rows` (int64), and of columns of the state how many values are not NULL,
    the states of their exact sums, and their least and (True) greatest values; `kinds`, if asked for, is how many of
    the rows the order tells apart."""

    rows: np.ndarray
    counts: Mapping[int, np.ndarray]
    sums: Mapping[int, list[pa.Array]]
    extremes: Mapping[tuple[int, bool], pa.Array] = field(default_factory=dict)
    kinds: np.ndarray | None = None


def passed(
    ordered: KeysInOrder, stretches: Stretches, counted: Iterable[int], summed: Mapping[int, Type]
) -> Passed:  # fmt: skip
    """What lies before `stretches`: of the columns `counted`, and of those `summed`, by their types."""
    places = [(run, first[stretches.key], low) for run, first, low
              in zip(ordered.runs, ordered.first, stretches.low, strict=True)]  # fmt: skip
    rows = np.sum([_counts(run, None, first, low) for run, first, low in places], axis=0)
    counts = {c: np.sum([_counts(run, c, first, low) for run, first, low in places], axis=0) for c in counted}
    sums = {}
    for column, type_ in summed.items():
        found = _sums(*places[0], column, type_)
        for place in places[1:]:
            found = exact.add(found, _sums(*place, column, type_), type_)
        sums[column] = found
    return Passed(rows, counts, sums)


def _counts(run: Run, column: int | None, first: np.ndarray, low: np.ndarray) -> np.ndarray:
    """How many rows the run has in each [first, low), where `column` is not NULL."""
    tested = run.columns[column] if column is not None and run.columns[column].null_count else None
    if run.stored_weights is None and tested is None:
        return low - first
    by = ("rows", None if tested is None else column)
    some = np.flatnonzero(low > first)  # of keys that are read whole nothing lies before
    known = [run.passed.get((by, each), (each, 0)) for each in first[some].tolist()]
    total = np.array([number for _, number in known], dtype=np.int64)
    index, rows, weights, starts = _between(run, np.array([place for place, _ in known], dtype=np.int64), low[some])
    if len(rows):
        if tested is not None:
            weights = weights * tested.take(pa.array(rows)).is_valid().to_numpy(zero_copy_only=False)
        total[index] += np.add.reduceat(weights, starts)
    for begin, place, number in zip(first[some].tolist(), low[some].tolist(), total.tolist(), strict=True):
        run.passed[by, begin] = place, number
    found = np.zeros(len(first), dtype=np.int64)
    found[some] = total
    return found


def _sums(run: Run, first: np.ndarray, low: np.ndarray, column: int, type_: Type) -> list[pa.Array]:
    """The states of the sums of a column in each [first, low)."""
    none = run.columns[column].slice(0, 1)
    zeros = exact.lift_reduce(none, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), type_)
    by = ("sums", column, type_)
    some = np.flatnonzero(low > first)  # of keys that are read whole nothing lies before
    known = [run.passed.get((by, each), (each, zeros)) for each in first[some].tolist()]
    states = [[each.slice(0, 0) for each in zeros], *(state for _, state in known)]
    total = [pa.concat_arrays(list(parts)) for parts in zip(*states, strict=True)]
    index, rows, weights, starts = _between(run, np.array([place for place, _ in known], dtype=np.int64), low[some])
    if len(rows):
        more = exact.lift_reduce(run.columns[column].take(pa.array(rows)), weights, starts, type_)
        total = exact.combine([total, more], [np.arange(len(some)), index], [1, 1], len(some), type_)
    for i, (begin, place) in enumerate(zip(first[some].tolist(), low[some].tolist(), strict=True)):
        run.passed[by, begin] = place, [each.slice(i, 1) for each in total]
    return exact.combine([total], [some], [1], len(first), type_)


def _between(run: Run, known: np.ndarray, low: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What is to be added to what is known so as to know it up to `low`: (the places that it is for, the rows, their
    weights, turned where `low` lies before, and where those of the next place begin)."""
    index = np.flatnonzero(known != low)
    begin, end = np.minimum(known, low)[index], np.maximum(known, low)[index]
    rows = spread(begin, end - begin)
    signs = np.repeat(np.where(low < known, -1, 1)[index], end - begin)
    return index, rows, run.weights(rows) * signs, np.cumsum(end - begin) - (end - begin)
