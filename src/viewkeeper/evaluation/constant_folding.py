"""What is computed of constants alone is computed once, so that it can raise no longer.

A constant that could raise keeps its condition, and those behind it, above the join; `DATE '1994-01-01' + INTERVAL '1'
YEAR` is a date.  What does raise stays, and raises for each row.  What cannot raise stays too: it costs nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from viewkeeper.catalog.types import to_logical
from viewkeeper.evaluation.evaluate import evaluate
from viewkeeper.plans.expressions import Expression, Literal, operands
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.relations import AggregateCall, Relation
from viewkeeper.plans.subqueries import Subquery

NAME = "constant folding"

_Node = TypeVar("_Node", Relation, Subquery)


def folded(node: _Node, zone: str) -> _Node:
    """A relation or subquery with its constants computed, in all that it is made from too; itself where none is.

    `zone` is the database's time zone.
    """
    answer: _Node = _below(node, zone)
    return answer


def _below(node: Any, zone: str) -> Any:
    changed = {}
    for name in operands(type(node)):
        old = getattr(node, name)
        new = _folded(old, zone)
        if new is not old:
            changed[name] = new
    return replace(node, **changed) if changed else node


def _folded(value: Any, zone: str) -> Any:
    if isinstance(value, tuple):
        parts = tuple(_folded(part, zone) for part in value)
        return parts if any(new is not old for new, old in zip(parts, value, strict=True)) else value
    if isinstance(value, Expression):
        return _constant(_below(value, zone), zone)
    return _below(value, zone) if isinstance(value, (Relation, AggregateCall)) else value


def _constant(expression: Expression, zone: str) -> Expression:
    children = expression.children()
    if not children or not all(isinstance(child, Literal) for child in children) or not can_raise(expression):
        return expression
    values, errors = evaluate(expression, (), 1, zone=zone)
    if errors is not None:
        return expression
    value = (values if expression.type.is_nested else to_logical(values, expression.type))[0].as_py()
    return Literal(expression.type, expression.nullable, expression.place, value)
