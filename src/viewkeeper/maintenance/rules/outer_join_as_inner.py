"""An outer join whose rows without partner are rejected by WHERE is a join with fewer of them, or an inner one."""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.maintenance.rules.conjuncts import keys_can_raise
from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.plans.expressions import (
    Arithmetic,
    Cast,
    ColumnRef,
    Compare,
    Expression,
    In,
    IsNull,
    Negate,
    Not,
)
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.relations import Filter, InnerJoin, OuterJoin, Relation
from viewkeeper.plans.rewriting import conjuncts

_FILLED_UP = {"LEFT": {"right"}, "RIGHT": {"left"}, "FULL": {"left", "right"}}
"""The sides of which NULLs may stand in for rows."""

_KINDS = {frozenset({"right"}): "LEFT", frozenset({"left"}): "RIGHT", frozenset({"left", "right"}): "FULL"}


def _apply(relation: Relation) -> Relation | None:
    if not (isinstance(relation, Filter) and isinstance(relation.input, OuterJoin)):
        return None
    join = relation.input
    filled = _FILLED_UP.get(join.kind)
    if filled is None or keys_can_raise(join) or (join.condition is not None and can_raise(join.condition)):
        return None
    width = len(join.left.columns)
    sides = {"left": range(width), "right": range(width, width + len(join.right.columns))}
    tests = conjuncts(relation.predicate)
    if any(can_raise(test) for test in tests):
        return None  # it may raise for rows without partner
    left = frozenset(side for side in filled if not any(_rejects(test, sides[side]) for test in tests))
    if left == filled:
        return None
    if left:
        return replace(relation, input=replace(join, kind=_KINDS[left]))
    inner = InnerJoin(join.left, join.right, join.left_keys, join.right_keys, join.condition)
    return replace(relation, input=inner)


def _rejects(test: Expression, columns: range) -> bool:
    """Whether `test` is not TRUE for a row that has NULL in all `columns`."""
    if isinstance(test, Not):
        inner = test.argument
        return _is_null_with(inner.argument if isinstance(inner, IsNull) else inner, columns)
    return _is_null_with(test, columns)


def _is_null_with(expression: Expression, columns: range) -> bool:
    """Whether `expression` is NULL for such a row."""
    match expression:
        case ColumnRef():
            return expression.index in columns
        case Compare():
            strict = expression.operator != "<=>"
            return strict and any(_is_null_with(e, columns) for e in (expression.left, expression.right))
        case Arithmetic():
            return any(_is_null_with(e, columns) for e in (expression.left, expression.right))
        case Cast() | Negate() | In() | Not():
            return _is_null_with(expression.argument, columns)
        case _:
            return False


OUTER_JOIN_AS_INNER = Rule("outer join as inner", _apply)
