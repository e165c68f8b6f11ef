"""Terms that compare a row with what is remembered of an earlier variable, for many matches at once or for one."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.evaluation.evaluate import evaluate, predicate
from viewkeeper.plans.expressions import ColumnRef, Compare, Expression
from viewkeeper.plans.pattern import PatternMatches
from viewkeeper.plans.rewriting import conjunction, references
from viewkeeper.streams.patterns.faults import raise_first
from viewkeeper.streams.patterns.sequences import Sequences
from viewkeeper.trace.keys import order_code, valid

Test = Callable[[int, Sequence[int]], bool]
_OPERATORS = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
              ">=": operator.ge}  # fmt: skip


class Crossing:
    """`origins` are the variables of which something is remembered; a match refers to it by a position for each of
    them: a row of this part, or (from `rows.count` on) a row of the Helper's part before."""

    def __init__(
        self, plan: PatternMatches, rows: Sequences, remembered: Sequence[pa.Array], zone: str, view: str
    ) -> None:
        self._plan, self._rows, self._zone, self._view = plan, rows, zone, view
        self.origins = sorted({slot.variable for slot in plan.slots})
        self._pools = [pa.concat_arrays([rows.column(slot.column), old])
                       for slot, old in zip(plan.slots, remembered, strict=True)]  # fmt: skip
        self.of_slot = [self.origins.index(slot.variable) for slot in plan.slots]
        self.codes = [order_code(pool) for pool in self._pools]
        self.present = [valid(pool) for pool in self._pools]
        self._first = 2 * plan.width

    def holds(self, variable: int, at: np.ndarray, remembered: np.ndarray) -> np.ndarray:
        """Where row `at[i]` satisfies the terms of `variable`, its match remembering `remembered[:, i]`."""
        terms = self._plan.variables[variable - 1].cross
        condition = conjunction(terms)
        if condition is None:
            return np.ones(len(at), np.bool_)
        columns: list[pa.Array | None] = [None] * (self._first + len(self._pools))
        for i in references(condition):
            if i < self._first:
                columns[i] = self._rows.column(i).take(pa.array(at))
            else:
                k = i - self._first
                columns[i] = self._pools[k].take(pa.array(remembered[self.of_slot[k]]))
        found, errors = predicate(condition, columns, len(at), zone=self._zone)
        raise_first(errors, self._view)
        return found

    def slots(self, k: int, remembered: np.ndarray) -> pa.Array:
        """The values of slot k."""
        return self._pools[k].take(pa.array(remembered[self.of_slot[k]]))

    def tests(self, variable: int) -> list[Test]:
        """The terms of `variable` as functions of a row and the positions remembered."""
        return [self._quick(term) or self._slow(term) for term in self._plan.variables[variable - 1].cross]

    def _slow(self, term: Expression) -> Test:
        used = sorted(references(term))

        def test(at: int, remembered: Sequence[int]) -> bool:
            columns: list[pa.Array | None] = [None] * (self._first + len(self._pools))
            for i in used:
                k = i - self._first
                columns[i] = (self._rows.column(i).slice(at, 1) if k < 0
                              else self._pools[k].slice(remembered[self.of_slot[k]], 1))  # fmt: skip
            found, errors = predicate(term, columns, 1, zone=self._zone)
            raise_first(errors, self._view)
            return bool(found[0])

        return test

    def _quick(self, term: Expression) -> Test | None:
        """Where one side is over the row and the other over what is remembered: both are computed for all rows."""
        if not isinstance(term, Compare) or term.operator not in _OPERATORS:
            return None
        sides = [self._side(term.left), self._side(term.right)]
        if sides[0] is None or sides[1] is None or (sides[0][0] < 0) == (sides[1][0] < 0):
            return None
        (left, one), (right, other) = sides[0], sides[1]
        both = pa.concat_arrays([one, other])
        codes, present, compare = order_code(both).tolist(), valid(both), _OPERATORS[term.operator]
        if present is not None:
            codes = [code if there else None for code, there in zip(codes, present.tolist(), strict=True)]
        lefts, rights = codes[: len(one)], codes[len(one) :]

        def test(at: int, remembered: Sequence[int]) -> bool:
            a = lefts[at if left < 0 else remembered[left]]
            b = rights[at if right < 0 else remembered[right]]
            return a is not None and b is not None and compare(a, b)

        return test

    def _side(self, side: Expression) -> tuple[int, pa.Array] | None:
        """For a side over the row alone -1, over one variable's slots its place in `origins`; and its values."""
        used = references(side)
        if all(i < self._first for i in used):
            origin, length = -1, self._rows.count
            columns: dict[int, pa.Array] = {i: self._rows.column(i) for i in used}
        elif all(i >= self._first for i in used):
            origin = self.of_slot[min(used) - self._first]
            columns = {i: self._pools[i - self._first] for i in used}
            length = len(next(iter(columns.values())))
        else:
            return None
        if isinstance(side, ColumnRef):
            return origin, columns[side.index]
        given = [columns.get(i) for i in range(self._first + len(self._pools))]
        values, errors = evaluate(side, given, length, zone=self._zone)
        return None if errors is not None else (origin, values)
