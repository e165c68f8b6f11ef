"""The values of `MatchSlot`s, for all matches of a part at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewkeeper.maintenance.totals import sum_or_average
from viewkeeper.plans.expressions import ColumnRef, Expression
from viewkeeper.plans.match import MatchSlot
from viewkeeper.plans.rewriting import references
from viewkeeper.streams.segments import Segments


@dataclass(frozen=True)
class Matched:
    """The rows of all matches, one match after another: `rows` are row numbers, `variables` their variables,
    `lengths` how many rows each match has (at least one)."""

    rows: np.ndarray
    variables: np.ndarray
    lengths: np.ndarray

    def of(self, variable: int | None) -> _Chosen:
        """The rows of one variable (None: all)."""
        if variable is None:
            return _Chosen(self.lengths, self.rows)
        chosen = self.variables == variable
        match = np.repeat(np.arange(len(self.lengths)), self.lengths)
        return _Chosen(np.bincount(match[chosen], minlength=len(self.lengths)), self.rows[chosen])


@dataclass(frozen=True)
class _Chosen(Segments):
    """Rows of matches."""

    rows: np.ndarray


Evaluate = Callable[[Expression, Mapping[int, pa.Array], int], pa.Array]
"""(expression, the columns that it needs, how many rows) to its values; raises where a row does."""


def slot_values(
    slots: Sequence[MatchSlot], columns: Mapping[int, pa.Array], matched: Matched, variables: Sequence[str],
    value: Evaluate,
) -> tuple[list[pa.Array], np.ndarray]:  # fmt: skip
    """One array a slot, a value a match; and the packed error of each match, 0 for none.

    `columns` are those of the rows, by position in the plan's.
    """
    chosen = {variable: matched.of(variable) for variable in {slot.variable for slot in slots}}
    errors = np.zeros(len(matched.lengths), dtype=np.int64)
    results = []
    for slot in slots:
        of = chosen[slot.variable]
        if slot.function == "count_star":
            results.append(pa.array(of.counts.astype(np.int64)))
        elif slot.function == "classifier":
            last = matched.variables[np.cumsum(matched.lengths) - 1]
            results.append(pa.array(list(variables), pa.large_string()).take(pa.array(last)))
        elif slot.function in ("first", "last"):
            assert isinstance(slot.argument, ColumnRef)
            results.append(columns[slot.argument.index].take(_row(slot, of)))
        else:
            assert slot.argument is not None
            index = pa.array(of.rows)
            needed = {i: columns[i].take(index) for i in references(slot.argument)}
            values = value(slot.argument, needed, len(of.rows))
            result, wrong = _aggregate(slot, values, of)
            results.append(of.everywhere(result))
            if wrong is not None:
                errors[of.filled] = np.where(errors[of.filled] == 0, wrong, errors[of.filled])
    return results, errors


def _row(slot: MatchSlot, of: _Chosen) -> pa.Array:
    """For each match the row that FIRST or LAST means, NULL where there is none."""
    at = of.starts + slot.offset if slot.function == "first" else of.starts + of.counts - 1 - slot.offset
    there = slot.offset < of.counts
    return pa.array(of.rows[np.where(there, at, 0)] if len(of.rows) else at, mask=~there)


def _aggregate(slot: MatchSlot, values: pa.Array, of: _Chosen) -> tuple[pa.Array, np.ndarray | None]:
    """An aggregate of `values`, those of the rows `of`; of each match, or (else) of each that has rows, as the packed
    errors are."""
    if slot.function in ("min", "max"):
        return of.extreme(values, slot.function == "min"), None
    counts = of.present(values)
    if slot.function == "count":
        return pa.array(counts), None
    assert slot.argument is not None
    type_ = slot.argument.type
    sums = of.sums(values, type_)
    return sum_or_average(slot.function, sums, counts[of.filled], type_, slot.type, slot.place)
