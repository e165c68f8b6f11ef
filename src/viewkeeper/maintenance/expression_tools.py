"""Questions about bound expressions, and rewriting of their column references."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace

from viewkeeper.compiler.expressions import And, Arithmetic, ColumnRef, Expression, Literal, Negate


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all below it."""
    yield expression
    for child in expression.children():
        yield from walk(child)


def references(expression: Expression) -> set[int]:
    """The input columns that the expression names."""
    return {node.index for node in walk(expression) if isinstance(node, ColumnRef)}


def can_raise(expression: Expression) -> bool:
    """Whether some row could make the expression raise: integer or decimal arithmetic is in it."""
    return any(isinstance(node, (Arithmetic, Negate)) and not node.type.is_float for node in walk(expression))


def rewrite(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The expression with `change` applied to every node, leaves first."""
    if isinstance(expression, (ColumnRef, Literal)):
        return change(expression)

    def of(value: object) -> object:
        if isinstance(value, Expression):
            return rewrite(value, change)
        return tuple(of(item) for item in value) if isinstance(value, tuple) else value

    changed = {}
    for field in fields(expression):
        old = getattr(expression, field.name)
        if isinstance(old, (Expression, tuple)) and field.name not in ("type", "place"):
            new = of(old)
            if new != old:
                changed[field.name] = new
    return change(replace(expression, **changed) if changed else expression)  # type: ignore[arg-type]


def rebase(expression: Expression, positions: Mapping[int, int]) -> Expression:
    """The expression over a stream in which input column i stands at `positions[i]`."""

    def change(node: Expression) -> Expression:
        if not isinstance(node, ColumnRef) or positions[node.index] == node.index:
            return node
        return replace(node, index=positions[node.index])

    return rewrite(expression, change)


def identity_form(expression: Expression) -> Expression:
    """The expression as compared for sharing: places and names count only where a row could raise there, since an error
    row names the place of the view that reads it."""
    if can_raise(expression):
        return expression

    def change(node: Expression) -> Expression:
        if isinstance(node, ColumnRef):
            return ColumnRef(node.type, node.nullable, None, node.index, "")
        return replace(node, place=None) if node.place is not None else node

    return rewrite(expression, change)


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """The parts of a conjunction, in the order in which they are tested."""
    if isinstance(expression, And):
        return tuple(part for argument in expression.arguments for part in conjuncts(argument))
    return (expression,)


def conjunction(parts: tuple[Expression, ...]) -> Expression | None:
    """The inverse of `conjuncts`; None for no parts."""
    if len(parts) <= 1:
        return parts[0] if parts else None
    return And(parts[0].type, any(p.nullable for p in parts), parts[0].place, parts)
