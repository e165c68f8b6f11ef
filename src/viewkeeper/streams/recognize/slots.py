"""The values of `MatchSlot`s, for all matches of a part at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import MAX_PRECISION, Type, decimal
from viewkeeper.maintenance import exact
from viewkeeper.maintenance.error_codes import ARITHMETIC_OVERFLOW, NUMERIC_VALUE_OUT_OF_RANGE, pack_error
from viewkeeper.plans.expressions import ColumnRef, Expression
from viewkeeper.plans.match import MatchSlot
from viewkeeper.plans.rewriting import references
from viewkeeper.trace.keys import canonical, order_code


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
            return _Chosen(self.rows, self.lengths)
        chosen = self.variables == variable
        match = np.repeat(np.arange(len(self.lengths)), self.lengths)
        return _Chosen(self.rows[chosen], np.bincount(match[chosen], minlength=len(self.lengths)))


@dataclass(frozen=True)
class _Chosen:
    """Rows of matches, and how many of each match."""

    rows: np.ndarray
    counts: np.ndarray

    @property
    def starts(self) -> np.ndarray:
        return np.cumsum(self.counts) - self.counts


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
            results.append(result)
            errors = np.where(errors == 0, wrong, errors)
    return results, errors


def _row(slot: MatchSlot, of: _Chosen) -> pa.Array:
    """For each match the row that FIRST or LAST means, NULL where there is none."""
    at = of.starts + slot.offset if slot.function == "first" else of.starts + of.counts - 1 - slot.offset
    there = slot.offset < of.counts
    return pa.array(of.rows[np.where(there, at, 0)] if len(of.rows) else at, mask=~there)


def _aggregate(slot: MatchSlot, values: pa.Array, of: _Chosen) -> tuple[pa.Array, np.ndarray]:
    """An aggregate of `values`, those of the rows `of`; errors as in `slot_values`."""
    groups = len(of.counts)
    none = np.zeros(groups, dtype=np.int64)
    match = np.repeat(np.arange(groups), of.counts)
    if values.null_count:
        there = values.is_valid().to_numpy(zero_copy_only=False)
        match, values = match[there], values.drop_null()
    counts = np.bincount(match, minlength=groups)
    if slot.function == "count":
        return pa.array(counts.astype(np.int64)), none
    some = np.flatnonzero(counts)
    starts = (np.cumsum(counts) - counts)[some]
    if slot.function in ("min", "max"):
        result, wrong = _extreme(values, match, starts, slot.function == "min"), None
    else:
        assert slot.argument is not None
        result, wrong = _sum(slot, values, starts, counts[some], slot.argument.type)
    if len(some) < groups:
        places = np.zeros(groups, dtype=np.int64)
        places[some] = np.arange(len(some))
        result = result.take(pa.array(places, mask=counts == 0))
    if wrong is not None:
        none[some] = wrong
    return result, none


def _extreme(values: pa.Array, match: np.ndarray, starts: np.ndarray, least: bool) -> pa.Array:
    """The smallest (greatest) value of each match that has one; `match` says whose each value is."""
    if not len(starts):
        return values
    values = canonical(values)
    codes = order_code(values)
    best = (np.minimum if least else np.maximum).reduceat(codes, starts)
    lengths = np.diff(starts, append=len(codes))
    places = np.flatnonzero(codes == np.repeat(best, lengths))
    owners = match[places]
    return values.take(pa.array(places[np.append(True, owners[1:] != owners[:-1])]))


def _sum(
    slot: MatchSlot, values: pa.Array, starts: np.ndarray, counts: np.ndarray, type_: Type
) -> tuple[pa.Array, np.ndarray | None]:
    """SUM or AVG of each match that has values, and the packed errors of those that overflow."""
    sums = exact.lift_reduce(values, np.ones(len(values), dtype=np.int64), starts, type_)
    summed = pack_error(ARITHMETIC_OVERFLOW, slot.place)
    if slot.function == "sum":
        result, overflow = exact.total(sums, type_, slot.type)
        return result, None if overflow is None else np.where(overflow, summed, 0)
    result, overflow = exact.average(sums, counts, type_, slot.type)
    if overflow is None:
        return result, None
    accumulator = decimal(min(type_.precision + 10, MAX_PRECISION), type_.scale)
    _, lost = exact.total(sums, type_, accumulator)  # Spark's own sum overflows, or the average alone
    divided = pack_error(NUMERIC_VALUE_OUT_OF_RANGE, slot.place)
    return result, np.where(overflow, divided if lost is None else np.where(lost, summed, divided), 0)
