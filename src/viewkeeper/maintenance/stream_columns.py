"""Columns of what operators yield, and those among them that name the base rows."""

from __future__ import annotations

from viewkeeper.catalog.types import BIGINT, INT
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.expressions import ColumnRef, Expression, reference_to
from viewkeeper.plans.outside import Bits


def column_of(operator: plan.Operator, position: int) -> ColumnRef:
    """A column of what an operator yields, its member column not counted."""
    column = operator.columns[position + operator.member]
    return reference_to(column, position)


def as_key(column: Expression) -> Expression:
    """What tells values of a column, or of what is computed, apart for a function: 0.0 and -0.0 are two."""
    if not column.type.is_float:
        return column
    return Bits(INT if column.type.name == "FLOAT" else BIGINT, column.nullable, None, column)


def shifted(identity: plan.Identity, by: int) -> plan.Identity:
    """An identity of columns that stand so much further behind."""
    return tuple((table, tuple((name, p + by) for name, p in key)) for table, key in identity) if by else identity


def with_identity(
    below: plan.Operator, outputs: tuple[Expression, ...], identify: bool
) -> tuple[tuple[Expression, ...], plan.Identity]:
    """`outputs` with the columns that name the base rows added where wanted, and the identity over them."""
    kept: list[Expression] = list(outputs)
    at = {e.index: i for i, e in enumerate(kept) if isinstance(e, ColumnRef)}
    names = []
    for table, key in shifted(below.identity, -int(below.member)):
        for _, position in key:
            if identify and position not in at:
                at[position] = len(kept)
                kept.append(column_of(below, position))
        if all(position in at for _, position in key):
            names.append((table, tuple((name, at[position]) for name, position in key)))
    return tuple(kept), tuple(names)
