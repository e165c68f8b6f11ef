"""The least or greatest value of what lies before a stretch, for running MIN and MAX.

Each run remembers its own of each key, up to the last place that it was asked for.  What a later run takes back of an
earlier one counts only where it is that value itself.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.maintenance.operators.keyed_rows import consolidated
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.keys import order_code, valid
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.run import Run
from viewkeeper.trace.stretches import KeysInOrder, Stretches

_Part = tuple[Run, int, int]
"""The rows [first, last) of a run."""


def extremes_before(ordered: KeysInOrder, stretches: Stretches, column: int, greatest: bool) -> pa.Array:
    """The value of a column before each stretch, in its key; NULL where there is none."""
    type_ = ordered.runs[-1].columns[column].type
    begins = [first[stretches.key] for first in ordered.first]
    found = [pa.nulls(1, type_)] * len(stretches)
    some = np.any([low > first for low, first in zip(stretches.low, begins, strict=True)], axis=0)
    for i in np.flatnonzero(some).tolist():
        parts = [(run, int(first[i]), int(low[i])) for run, first, low
                 in zip(ordered.runs, begins, stretches.low, strict=True)]  # fmt: skip
        best = _extreme(pa.concat_arrays([_of_run(part, column, greatest) for part in parts]), greatest)
        if _is_taken_back(parts, column, best):
            best = _extreme(_left([_chosen(part, np.arange(*part[1:])) for part in parts]).columns[column], greatest)
        if len(best):
            found[i] = best
    return pa.concat_arrays([pa.nulls(0, type_), *found])


def _of_run(part: _Part, column: int, greatest: bool) -> pa.Array:
    """Of what the run adds there; empty where that is nothing."""
    run, first, last = part
    by = ("extreme", column, greatest)
    place, best = run.passed.get((by, first), (first, run.columns[column].slice(0, 0)))
    if last < place:  # what lies between may be what was found
        place, best = first, best.slice(0, 0)
    if place < last:
        values = run.columns[column].slice(place, last - place)
        if run.stored_weights is not None:
            values = values.filter(pa.array(run.weights(slice(place, last)) > 0))
        best = _extreme(pa.concat_arrays([best, values]), greatest)
        run.passed[by, first] = last, best
    return best


def _extreme(values: pa.Array, greatest: bool) -> pa.Array:
    """The least or greatest value, alone; empty where all are NULL."""
    values = values.drop_null()
    if not len(values):
        return values
    if pa.types.is_floating(values.type):
        codes = order_code(values)
        return values.slice(int(codes.argmax() if greatest else codes.argmin()), 1)
    outermost = pc.min_max(values)["max" if greatest else "min"]
    return values.slice(pc.index(values, outermost).as_py(), 1)


def _is_taken_back(parts: list[_Part], column: int, best: pa.Array) -> bool:
    """Whether none of the rows that have the value `best` is left."""
    if not len(best):
        return False
    gone = [_chosen(part, part[1] + np.flatnonzero(part[0].weights(slice(*part[1:])) < 0)) for part in parts
            if part[0].stored_weights is not None]  # fmt: skip
    if not any(_same(rows.columns[column], best).any() for rows in gone):
        return False
    with_it = []
    for run, first, last in parts:
        same = _same(run.columns[column].slice(first, last - first), best)
        with_it.append(_chosen((run, first, last), first + np.flatnonzero(same)))
    return not len(_left(with_it))


def _same(values: pa.Array, one: pa.Array) -> np.ndarray:
    """Which values are `one`, the single value of an array (bool)."""
    if pa.types.is_floating(values.type):
        present = valid(values)
        same = order_code(values) == order_code(one)[0]
        return same if present is None else same & present
    found: np.ndarray = pc.equal(values, one[0]).fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _chosen(part: _Part, rows: np.ndarray) -> Rows:
    """Rows of a run, by their numbers."""
    index = pa.array(rows, pa.int64())
    return Rows([column.take(index) for column in part[0].columns], part[0].weights(rows))


def _left(parts: list[Rows]) -> Rows:
    """What is left of rows when their weights are added up."""
    rows = Rows.concat(parts)
    return consolidated(rows, hash_columns(rows.columns, len(rows)))[1]
