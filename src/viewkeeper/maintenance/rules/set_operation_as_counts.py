"""INTERSECT and EXCEPT count how often each row comes on either side: one GROUP BY over all rows of both."""

from __future__ import annotations

from viewkeeper.catalog.types import BIGINT, BOOLEAN
from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.plans.expressions import And, Arithmetic, Case, ColumnRef, Expression, Literal, comparison, reference_to
from viewkeeper.plans.relations import (
    AggregateCall,
    Filter,
    GroupBy,
    Project,
    Relation,
    Repeat,
    SetOperation,
    UnionAll,
)


def _apply(relation: Relation) -> Relation | None:
    if not isinstance(relation, SetOperation):
        return None
    width = len(relation.columns)
    rows = UnionAll((_marked(relation.left, 0), _marked(relation.right, 1)))
    columns = tuple(reference_to(c, i) for i, c in enumerate(rows.columns))
    calls = tuple(AggregateCall("count", column, BIGINT, False, None) for column in columns[width:])
    names = tuple(c.name for c in rows.columns)
    counted: Relation = GroupBy(rows, columns[:width], names[:width], calls, names[width:])
    left, right = (ColumnRef(BIGINT, False, None, width + i, names[width + i]) for i in (0, 1))
    here = comparison(">", left, _number(0))
    if relation.all:
        counted = Repeat(Filter(counted, here), _times(relation.kind, left, right))
    else:
        there = comparison(">" if relation.kind == "INTERSECT" else "=", right, _number(0))
        counted = Filter(counted, And(BOOLEAN, False, None, (here, there)))
    shown = tuple(reference_to(c, i) for i, c in enumerate(relation.columns))
    return Project(counted, shown, tuple(c.name for c in relation.columns))


def _marked(side: Relation, which: int) -> Relation:
    """The rows of a side, and two columns of which the one of this side is not NULL."""
    columns = tuple(reference_to(c, i) for i, c in enumerate(side.columns))
    marks = tuple(Literal(BOOLEAN, i != which, None, True if i == which else None) for i in (0, 1))
    return Project(side, columns + marks, (*(c.name for c in side.columns), "left", "right"))


def _times(kind: str, left: Expression, right: Expression) -> Expression:
    """How often a row comes: the smaller number, or what the left has more."""
    if kind == "EXCEPT":
        return Arithmetic(BIGINT, False, None, "-", left, right)
    return Case(BIGINT, False, None, ((comparison("<", left, right), left),), right)


def _number(value: int) -> Literal:
    return Literal(BIGINT, False, None, value)


SET_OPERATION_AS_COUNTS = Rule("set operation as counts", _apply)
