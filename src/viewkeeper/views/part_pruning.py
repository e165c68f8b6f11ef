"""What a bound query reads of its tables: which columns, and which parts its conditions on PART_TIMESTAMP leave.

A condition is not understood but tried: each conjunct that names nothing but PART_TIMESTAMP is evaluated once for every
part that might be read, whatever it is made of.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

import numpy as np
import pyarrow as pa

from viewkeeper.evaluation.evaluate import predicate
from viewkeeper.plans.expressions import ColumnRef, Compare, Expression
from viewkeeper.plans.relations import (
    Constants,
    Explode,
    Filter,
    GroupBy,
    InnerJoin,
    OuterJoin,
    Project,
    Relation,
    Scan,
    SetOperation,
    UnionAll,
    Windows,
    expressions_of,
)
from viewkeeper.plans.rewriting import conjuncts, references, renumber
from viewkeeper.plans.subqueries import subqueries_in


@dataclass
class Use:
    """What a query reads of one table: `columns` are positions; a part is read if any of `conditions` (one entry a
    scan: its conjuncts over the last column alone) leaves it."""

    scan: Scan
    columns: set[int] = field(default_factory=set)
    conditions: list[tuple[Expression, ...]] = field(default_factory=list)

    def leaves(self, timestamps: np.ndarray, zone: str) -> np.ndarray:
        """For each part (its start, int64 microseconds): may the query have a row of it?  One for which a condition
        raises is read: whether it has rows, and so raises, is then seen."""
        kept = np.zeros(len(timestamps), dtype=bool)
        column = pa.array(timestamps)
        for conjunction in self.conditions:
            here = np.ones(len(timestamps), dtype=bool)
            for condition in conjunction:
                true, errors = predicate(condition, [column], len(column), zone=zone)
                here &= true if errors is None else true | (errors != 0)
            kept |= here
        return kept

    def bounds(self, first: int, last: int, length: int, zone: str) -> tuple[int, int]:
        """Of the parts `first` to `last`, `length` microseconds long, those between which comparisons with constants
        leave all that can be read; with the last before the first: none."""
        lows, highs = [last + 1], [first - 1]
        for conjunction in self.conditions:
            low, high = first, last
            for term in conjunction:
                for is_lower, test in _sides(term):
                    end = _turning_point(test, low, high, is_lower, length, zone)
                    low, high = (end, high) if is_lower else (low, end - 1)
            lows.append(low)
            highs.append(high)
        return min(lows), max(highs)


_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def _sides(term: Expression) -> list[tuple[bool, Expression]]:
    """Comparisons of the column with a constant that follow from `term`: (whether it bounds from below, it)."""
    if not isinstance(term, Compare) or term.operator not in _TURNED:
        return []
    if _is_plain(term.left) and not references(term.right):
        operator = term.operator
    elif _is_plain(term.right) and not references(term.left):
        operator = _TURNED[term.operator]
    else:
        return []
    if operator != "=":
        return [(operator.startswith(">"), term)]
    left, right = (term.left, term.right) if _is_plain(term.left) else (term.right, term.left)
    return [(each == ">=", replace(term, operator=each, left=left, right=right)) for each in (">=", "<=")]


def _turning_point(test: Expression, low: int, high: int, is_lower: bool, length: int, zone: str) -> int:
    """The first part from `low` to `high` for which a comparison is TRUE (of one from above: no longer TRUE); where it
    raises nothing is left out."""
    begin, end = low, high + 1
    while begin < end:
        middle = (begin + end) // 2
        true, errors = predicate(test, [pa.array([middle * length])], 1, zone=zone)
        if errors is not None and errors.any():
            return low if is_lower else high + 1
        begin, end = (begin, middle) if bool(true[0]) == is_lower else (middle + 1, end)
    return begin


def uses(relation: Relation) -> dict[int, Use]:
    """What `relation` reads, by the id of the table."""
    found: dict[int, Use] = {}
    _visit(relation, set(range(len(relation.columns))), (), found)
    return found


def _visit(relation: Relation, needed: set[int], terms: tuple[Expression, ...], found: dict[int, Use]) -> None:
    """`needed` are columns of `relation` that are read above it; only rows for which all `terms` are TRUE matter."""
    for expression in expressions_of(relation):
        for subquery in subqueries_in(expression):
            _visit(subquery.query, set(range(len(subquery.query.columns))), (), found)
    match relation:
        case Scan():
            use, last = found.setdefault(relation.object, Use(relation)), len(relation.columns) - 1
            use.columns |= needed
            use.conditions.append(tuple(renumber(term, {last: 0}) for term in terms if references(term) == {last}))
        case Filter():
            below = references(relation.predicate)
            _visit(relation.input, needed | below, terms + conjuncts(relation.predicate), found)
        case InnerJoin():
            _visit_join(relation, needed, terms, found)
        case OuterJoin():
            _visit_outer_join(relation, needed, found)
        case Constants():
            pass
        case UnionAll():
            for each in relation.inputs:
                _visit(each, needed, terms, found)
        case SetOperation():
            every = set(range(len(relation.columns)))
            for each in (relation.left, relation.right):
                _visit(each, every, terms, found)
        case Project():
            # What is computed is computed for all to see: it may raise.
            read = (output for i, output in enumerate(relation.outputs) if i in needed or not _is_plain(output))
            _visit(relation.input, set().union(*map(references, read)), _through(terms, relation.outputs), found)
        case GroupBy():
            arguments = [call.argument for call in relation.calls if call.argument is not None]
            below = set().union(*map(references, (*relation.keys, *arguments)))
            _visit(relation.input, below, _through(terms, relation.keys), found)
        case Windows():
            # What stands around a row takes part in its answer, whatever is tested above.
            used = set(relation.partition).union(*(call.columns for call in relation.calls))
            below = {i for i in needed if i < len(relation.input.columns)}
            _visit(relation.input, below | used, (), found)
        case Explode():
            width = len(relation.input.columns)
            below = {i for i in needed if i < width} | {relation.index}
            _visit(relation.input, below, _within(terms, range(width)), found)
        case _:
            raise AssertionError(f"nothing is known of {type(relation).__name__}")


def _visit_join(relation: InnerJoin, needed: set[int], terms: tuple[Expression, ...], found: dict[int, Use]) -> None:
    width = len(relation.left.columns)
    if relation.residual is not None:
        needed, terms = needed | references(relation.residual), terms + conjuncts(relation.residual)
    left = {i for i in needed if i < width}.union(*map(references, relation.left_keys))
    right = {i - width for i in needed if i >= width}.union(*map(references, relation.right_keys))
    _visit(relation.left, left, _within(terms, range(width)), found)
    behind = range(width, width + len(relation.right.columns))
    moved = {i: i - width for i in behind}
    _visit(relation.right, right, tuple(renumber(term, moved) for term in _within(terms, behind)), found)


def _visit_outer_join(relation: OuterJoin, needed: set[int], found: dict[int, Use]) -> None:
    """No term is handed on: what a row of one side meets decides what there is of the other."""
    width = len(relation.left.columns)
    if relation.condition is not None:
        needed = needed | references(relation.condition)
    left = {i for i in needed if i < width}.union(*map(references, relation.left_keys))
    right = {i - width for i in needed if i >= width}.union(*map(references, relation.right_keys))
    _visit(relation.left, left, (), found)
    _visit(relation.right, right, (), found)


def _within(terms: Sequence[Expression], columns: Collection[int]) -> tuple[Expression, ...]:
    """The terms that name columns of `columns`, and no others."""
    return tuple(term for term in terms if (named := references(term)) and all(i in columns for i in named))


def _through(terms: Sequence[Expression], outputs: Sequence[Expression]) -> tuple[Expression, ...]:
    """The terms over outputs that are plain columns of the input, as terms over the input."""
    plain = {i: output.index for i, output in enumerate(outputs) if _is_plain(output)}
    return tuple(renumber(term, plain) for term in _within(terms, plain))


def _is_plain(expression: Expression) -> TypeGuard[ColumnRef]:
    return isinstance(expression, ColumnRef)
