"""Pattern views by their definition (paper 003, section 5.1): every way to give rows to variables, row after row.

A group's rows in consecutive parts are one sequence; a part without a row of the group ends it.  Within a part rows
come by the stream's time, then by ORDER BY, then by all columns from left to right.  A match gives consecutive rows to
the variables in turn, one to each, any number but none to one with a +, such that each row satisfies the conditions of
its variable.  The group's answer in a part is the longest match that ends in it, of equally long ones the one that ends
last, and of several ways to give the same rows to variables the one in which the earlier + variable takes more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

from viewkeeper.checker.row_evaluator import Answer, evaluate
from viewkeeper.checker.tables import Row
from viewkeeper.checker.value_rules import Raised, canonical, order_key, plain_aggregate
from viewkeeper.plans.expressions import Expression
from viewkeeper.plans.pattern import BoundPattern, PatternCall
from viewkeeper.plans.relations import Project, Scan

Beginnings = tuple[int, ...]
"""Where each variable begins in a sequence: as many positions as variables have rows."""


@dataclass(frozen=True)
class PatternMatch:
    """Rows `given[0]` to `end` of a sequence."""

    given: Beginnings
    end: int

    @property
    def length(self) -> int:
        return self.end + 1 - self.given[0]

    def rows_of(self, variable: int) -> range:
        """The positions of a variable's rows; of variable 0: of all."""
        if variable == 0:
            return range(self.given[0], self.end + 1)
        stop = self.given[variable] if variable < len(self.given) else self.end + 1
        return range(self.given[variable - 1], stop)

    @property
    def rank(self) -> tuple[int, ...]:
        """Greater is better, of matches in one part."""
        counts = tuple(len(self.rows_of(v)) for v in range(1, len(self.given) + 1))
        return (self.length, self.end, *counts)


def matches(pattern: BoundPattern, parts: Mapping[int, Sequence[Row]], zone: str = "UTC") -> dict[int, list[Row]]:
    """The view's rows by part, for the rows of its source by part (logical Python values).

    Parts without rows may be missing, and are missing in the answer.  Raises `values.Raised` where an expression does.
    """
    answer: dict[int, list[Row]] = {}
    for key, sequence in _sequences(pattern, parts, zone):
        rows = [row for _, row in sequence]
        ending: dict[int, list[PatternMatch]] = {}
        for match in _all_matches(pattern, rows, zone):
            ending.setdefault(sequence[match.end][0], []).append(match)
        for part, found in ending.items():
            best = max(found, key=lambda match: match.rank)
            answer.setdefault(part, []).append(_output(pattern, key, rows, best, zone))
    return answer


def _sequences(
    pattern: BoundPattern, parts: Mapping[int, Sequence[Row]], zone: str
) -> Iterator[tuple[Row, list[tuple[int, Row]]]]:
    """Each group's key with rows of consecutive parts in order, each with its part."""
    running: dict[Row, list[tuple[int, Row]]] = {}
    last: int | None = None
    for part in sorted(parts):
        groups: dict[Row, list[Row]] = {}
        for row in parts[part]:
            key = tuple(canonical(_value(expression, row, zone)) for expression in pattern.keys)
            groups.setdefault(key, []).append(row)
        before = running if last == part - 1 else {}
        for key, sequence in running.items():
            if key not in groups or key not in before:
                yield key, sequence
        running = {key: before.get(key, []) + [(part, row) for row in _in_order(pattern, rows, zone)]
                   for key, rows in groups.items()}  # fmt: skip
        last = part
    yield from running.items()


def _in_order(pattern: BoundPattern, rows: Sequence[Row], zone: str) -> list[Row]:
    def compare(left: Row, right: Row) -> int:
        if pattern.time is not None:
            found = _compare(left[pattern.time], right[pattern.time], True, True)
            if found:
                return found
        for term in pattern.order:
            a, b = (_value(term.expression, row, zone) for row in (left, right))
            found = _compare(a, b, term.ascending, term.nulls_first)
            if found:
                return found
        for one, other in zip(left, right, strict=True):
            found = _compare(one, other, True, True)
            if found:
                return found
        one, other = ([math.copysign(1, v) for v in row if isinstance(v, float)] for row in (left, right))
        return (one > other) - (one < other)

    return sorted(rows, key=cmp_to_key(compare))


def _compare(left: Any, right: Any, ascending: bool, nulls_first: bool) -> int:
    if left is None or right is None:
        if (left is None) == (right is None):
            return 0
        return -1 if (left is None) == nulls_first else 1
    a, b = order_key(left), order_key(right)
    return 0 if a == b else -1 if (a < b) == ascending else 1


def _all_matches(pattern: BoundPattern, rows: Sequence[Row], zone: str) -> Iterator[PatternMatch]:
    """Every match; of those that differ only in where the first variable begins, the longest."""
    last = len(pattern.variables)
    open_: set[Beginnings] = set()
    for at in range(len(rows)):
        test = _Test(pattern, rows, at, zone)
        taken = {given for given in open_ if pattern.plus[len(given) - 1] and test.passes(len(given), given)}
        taken |= {(*given, at) for given in open_ if len(given) < last and test.passes(len(given) + 1, (*given, at))}
        if test.passes(1, (at,)):
            taken.add((at,))
        longest: dict[Beginnings, Beginnings] = {}
        for given in taken:
            rest = (len(given), *given[1:])
            longest[rest] = min(given, longest.get(rest, given))
        open_ = set(longest.values())
        yield from (PatternMatch(given, at) for given in open_ if len(given) == last)


class _Test:
    """Row `at` of a sequence against the conditions of a variable."""

    def __init__(self, pattern: BoundPattern, rows: Sequence[Row], at: int, zone: str) -> None:
        self._pattern, self._rows, self._at, self._zone = pattern, rows, at, zone
        self._alone: dict[int, bool] = {}

    def passes(self, variable: int, given: Beginnings) -> bool:
        """Whether the row may be one of `variable`, the rows before it given as `given` says.

        Conditions on the row alone are taken first, then those with PREV, then those on an earlier variable's row.
        """
        if variable not in self._alone:
            mine = [c for c in self._pattern.conditions if c.owner == variable and not c.earlier]
            mine.sort(key=lambda c: _reads(c.predicate, self._pattern.width))
            self._alone[variable] = all(self._holds(c.predicate, None) for c in mine)
        if not self._alone[variable]:
            return False
        crossed = [c for c in self._pattern.conditions if c.owner == variable and c.earlier]
        return all(self._holds(c.predicate, given[c.earlier] - 1) for c in crossed)

    def _holds(self, predicate: Expression, earlier: int | None) -> bool:
        nothing = (None,) * (2 * self._pattern.width)
        wide = self._beside(self._at) + (nothing if earlier is None else self._beside(earlier))
        return _value(predicate, wide, self._zone) is True

    def _beside(self, at: int) -> Row:
        return _beside(self._rows, at)


def _beside(rows: Sequence[Row], at: int) -> Row:
    """A row and the one before it."""
    return rows[at] + (rows[at - 1] if at else (None,) * len(rows[at]))


def _reads(expression: Expression, width: int) -> bool:
    """Whether an expression reads the row before."""
    own = getattr(expression, "index", -1) >= width
    return own or any(_reads(child, width) for child in expression.children())


def _output(pattern: BoundPattern, key: Row, rows: Sequence[Row], match: PatternMatch, zone: str) -> Row:
    values = [_call(call, rows, match, zone) for call in pattern.calls]
    return tuple(_value(output, (*key, *values), zone) for output in pattern.outputs)


def _call(call: PatternCall, rows: Sequence[Row], match: PatternMatch, zone: str) -> Any:
    places = match.rows_of(call.variable)
    argument = call.argument
    if argument is None:
        return len(places)
    every = [_value(argument, _beside(rows, at), zone) for at in places]
    if call.function in ("first", "last"):
        return every[0 if call.function == "first" else -1]
    values = [value for value in every if value is not None]
    return plain_aggregate(call.function, values, argument.type, call.type, call.place)


def _value(expression: Expression, row: Row, zone: str) -> Any:
    """The value of an expression for one row; raises Raised."""
    answer = evaluate(Project(Scan(0, "", ()), (expression,), ("value",)), {0: Answer([row])}, zone)
    if answer.errors:
        error = answer.errors[0]
        place = tuple(map(int, error.place.split(":"))) if error.place else None
        raise Raised(error.code, place)  # type: ignore[arg-type]
    return answer.rows[0][0]
