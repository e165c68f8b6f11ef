"""MATCH_RECOGNIZE from the standard's definition: row by row, every way in the order of preference, nothing clever.

A partition's rows are all rows of a group, part after part, within a part by ORDER BY and then by all columns.  At each
row where a match may begin the ways to give rows to variables are tried, the preferred first: a variable with a
quantifier takes as many rows as it can.  Where a way needs a row that is not there yet, nothing is decided: later rows
may complete it, and no way behind it in the order may be taken before that is known.  A match is a row of the first
part after which it is decided.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Any, Protocol

from viewkeeper.catalog.model import Column
from viewkeeper.checker.row_evaluator import Answer, ErrorRow, evaluate, place_text
from viewkeeper.checker.tables import Row
from viewkeeper.checker.value_rules import Raised, canonical, order_key, plain_aggregate
from viewkeeper.plans.expressions import Expression
from viewkeeper.plans.relations import Project, Scan

Element = tuple[int, int, int | None]
"""A variable and the least and the greatest number of rows that it takes (None: any)."""

Holds = Callable[[int, int], bool]
"""(variable, row) to whether the row satisfies the variable's condition."""


class MatchQuery(Protocol):
    """What is asked, bound and typed; see `plans/match.py`."""

    @property
    def columns(self) -> tuple[Column, ...]: ...
    @property
    def partition(self) -> tuple[int, ...]: ...
    @property
    def order(self) -> tuple[Any, ...]: ...
    @property
    def variables(self) -> tuple[str, ...]: ...
    @property
    def elements(self) -> tuple[Any, ...]: ...
    @property
    def conditions(self) -> tuple[Expression | None, ...]: ...
    @property
    def previous(self) -> tuple[Any, ...]: ...
    @property
    def slots(self) -> tuple[Any, ...]: ...
    @property
    def outputs(self) -> tuple[Expression, ...]: ...
    @property
    def predicate(self) -> Expression | None: ...
    @property
    def past(self) -> bool: ...


@dataclass(frozen=True)
class Match:
    """The rows from `first` on, with the variable of each."""

    first: int
    labels: tuple[int, ...]


class _Undecided(Exception):
    """A preferred way needs rows that are not there yet."""


def decided_matches(elements: Sequence[Element], holds: Holds, length: int, past: bool) -> list[Match]:
    """The matches among rows 0 to `length` - 1 that no later row can change."""
    found: list[Match] = []
    row = 0
    while row < length:
        try:
            labels = _preferred(elements, holds, length, row)
        except _Undecided:
            if past:
                return found
            row += 1
            continue
        if labels is None:
            row += 1
            continue
        found.append(Match(row, labels))
        row += len(labels) if past else 1
    return found


def _preferred(elements: Sequence[Element], holds: Holds, length: int, first: int) -> tuple[int, ...] | None:
    """The labels from row `first` on of the preferred match that begins there.

    `waiting` are ways that are not tried yet, the preferred last: the row, the element, how many rows are the
    element's, and the label of the row before.
    """
    labels: list[int] = []
    waiting: list[tuple[int, int, int, int | None]] = [(first, 0, 0, None)]
    while waiting:
        row, element, taken, label = waiting.pop()
        del labels[row - first - (label is not None) :]
        labels += [] if label is None else [label]
        if element == len(elements):
            return tuple(labels)
        variable, least, most = elements[element]
        if taken >= least:
            waiting.append((row, element + 1, 0, None))
        if most is None or taken < most:
            if row == length:
                raise _Undecided
            if holds(variable, row):
                waiting.append((row + 1, element, taken + 1, variable))
    return None


def expected_parts(
    query: MatchQuery, parts: Mapping[int, Sequence[Row]], length: int, zone: str = "UTC"
) -> dict[int, Answer]:
    """What the view's parts hold, for each part of the source (`length` seconds each) with rows.

    Rows have the source's declared columns, in logical Python values.
    """
    answers: dict[int, Answer] = {}
    groups: dict[Row, _Group] = {}
    for part in sorted(parts):
        answers[part] = Answer([])
        moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=part * length)
        rows = [(*row, moment) for row in parts[part]]

        def in_order(left: Row, right: Row) -> int:
            return _in_order(query, left, right)

        came: dict[Row, _Group] = {}
        for row in sorted(rows, key=cmp_to_key(in_order)):
            key = tuple(canonical(row[i]) for i in query.partition)
            group = came[key] = groups.setdefault(key, _Group())
            group.rows.append(row)
            group.holds.append(_truth(query, group.rows, zone, answers[part]))
        for key, group in came.items():  # rows of its own alone decide a group's matches
            for match in group.newly_decided(query):
                _output(query, key, group, match, zone, answers[part])
    return answers


@dataclass
class _Group:
    rows: list[Row] = field(default_factory=list)
    holds: list[list[bool]] = field(default_factory=list)
    given: list[Match] = field(default_factory=list)

    def newly_decided(self, query: MatchQuery) -> list[Match]:
        elements = [(e.variable, e.least, e.most) for e in query.elements]
        found = decided_matches(elements, lambda v, row: self.holds[row][v], len(self.rows), query.past)
        assert not [match for match in self.given if match not in found], "what was decided stays so"
        new = [match for match in found if match not in self.given]
        self.given += new
        return new


def _in_order(query: MatchQuery, left: Row, right: Row) -> int:
    terms = [(term.column, term.ascending, term.nulls_first) for term in query.order]
    for column, ascending, nulls_first in [*terms, *((i, True, True) for i in range(len(query.columns)))]:
        a, b = left[column], right[column]
        if a is None or b is None:
            if (a is None) != (b is None):
                return -1 if (a is None) == nulls_first else 1
        elif order_key(a) != order_key(b):
            return -1 if (order_key(a) < order_key(b)) == ascending else 1
    return 0


def _truth(query: MatchQuery, rows: list[Row], zone: str, answer: Answer) -> list[bool]:
    """Which variables' conditions the last of `rows` satisfies."""
    seen = list(rows[-1])
    for previous in query.previous:
        there = len(rows) > previous.rows
        seen.append(rows[-1 - previous.rows][previous.column] if there else None)
    return [condition is None or _value(condition, tuple(seen), zone, answer) is True for condition in query.conditions]


def _value(expression: Expression, row: Row, zone: str, answer: Answer) -> Any:
    """The value of `expression` over `row`; where it raises, NULL, and the error is in `answer`."""
    one = evaluate(Project(Scan(0, "", ()), (expression,), ("",)), {0: Answer([row])}, zone)
    answer.errors.extend(one.errors)
    return one.rows[0][0] if one.rows else None


def _output(query: MatchQuery, key: Row, group: _Group, match: Match, zone: str, answer: Answer) -> None:
    rows = [(label, group.rows[match.first + i]) for i, label in enumerate(match.labels)]
    try:
        values = tuple(_slot(query, slot, rows, zone, answer) for slot in query.slots)
    except Raised as raised:
        answer.errors.append(ErrorRow(raised.code, place_text(raised.place), ", ".join(map(str, key))))
        return
    whole = (*key, *values)
    if query.predicate is None or _value(query.predicate, whole, zone, answer) is True:
        answer.rows.append(tuple(_value(output, whole, zone, answer) for output in query.outputs))


def _slot(query: MatchQuery, slot: Any, rows: list[tuple[int, Row]], zone: str, answer: Answer) -> Any:
    if slot.function == "classifier":
        return query.variables[rows[-1][0]]
    mine = [row for label, row in rows if slot.variable is None or label == slot.variable]
    if slot.function == "count_star":
        return len(mine)
    values = [_value(slot.argument, row, zone, answer) for row in mine]
    if slot.function in ("first", "last"):
        if slot.function == "last":
            values.reverse()
        return values[slot.offset] if slot.offset < len(values) else None
    present = [value for value in values if value is not None]
    return plain_aggregate(slot.function, present, slot.argument.type, slot.type, slot.place)
