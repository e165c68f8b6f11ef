"""Changing bound expressions: other column positions, other nodes, and when two of them are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from viewkeeper.plans.expressions import And, ColumnRef, Expression, operands


def rewrite(expression: Expression, change: Callable[[Expression], Expression | None]) -> Expression:
    """`expression` with every node that `change` answers replaced by the answer, outermost first."""
    answer = change(expression)
    if answer is not None:
        return answer
    changed = _rewritten_below(expression, change)
    return replace(expression, **changed) if changed else expression


def _rewritten_below(expression: Expression, change: Callable[[Expression], Expression | None]) -> dict[str, Any]:
    changed = {}
    for name in operands(type(expression)):
        old = getattr(expression, name)
        new = _rewrite_value(old, change)
        if new is not old:
            changed[name] = new
    return changed


def _rewrite_value(value: Any, change: Callable[[Expression], Expression | None]) -> Any:
    if isinstance(value, Expression):
        return rewrite(value, change)
    if isinstance(value, tuple):
        parts = tuple(_rewrite_value(part, change) for part in value)
        return parts if any(new is not old for new, old in zip(parts, value, strict=True)) else value
    return value


def walk(expression: Expression) -> Iterator[Expression]:
    """`expression` and all below it."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        yield node
        if operands(type(node)):
            waiting += reversed(node.children())


def references(expression: Expression) -> set[int]:
    """The positions of the input columns that `expression` reads."""
    return {node.index for node in walk(expression) if isinstance(node, ColumnRef)}


def renumber(expression: Expression, position: Mapping[int, int]) -> Expression:
    """`expression` over an input in which column i stands at `position[i]`."""

    def change(node: Expression) -> Expression | None:
        if not isinstance(node, ColumnRef):
            return None
        index = position[node.index]
        return node if index == node.index else replace(node, index=index)

    return rewrite(expression, change)


def identity(expression: Expression) -> Expression:
    """Equal for two expressions that say the same, wherever and in whatever case of letters they are written."""
    if isinstance(expression, ColumnRef):
        of = expression
        return ColumnRef(of.type, of.nullable, None, of.index, "", of.declared)
    changed = _rewritten_below(expression, identity)
    if expression.place is not None:
        changed["place"] = None
    return replace(expression, **changed) if changed else expression


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """The terms of a conjunction from left to right."""
    if not isinstance(expression, And):
        return (expression,)
    return tuple(term for argument in expression.arguments for term in conjuncts(argument))


def conjunction(terms: tuple[Expression, ...]) -> Expression | None:
    """The inverse of `conjuncts`; None without terms."""
    if len(terms) <= 1:
        return terms[0] if terms else None
    return And(terms[0].type, any(term.nullable for term in terms), terms[0].place, terms)
