"""Bound, typed expressions: what a SELECT list, WHERE, ON, GROUP BY or HAVING computes for each row.

Each node has the `type` that Spark gives it, says whether it may be NULL, and knows its `place` in the
statement, or None.  Implicit conversions are explicit `Cast` nodes; both sides of a comparison have one type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from viewkeeper.catalog.codec import stored
from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import BOOLEAN, Type

TextPlace = tuple[int, int]
"""A line and a column of a statement, both 1-based."""


@stored
@dataclass(frozen=True)
class Expression:
    type: Type
    nullable: bool
    place: TextPlace | None

    def children(self) -> list[Expression]:
        """The expressions directly below, in the order in which they are written."""
        found: list[Expression] = []
        for name in operands(type(self)):
            value = getattr(self, name)
            if isinstance(value, Expression):
                found.append(value)
            elif isinstance(value, tuple):
                for item in value:
                    if isinstance(item, Expression):
                        found.append(item)
                    elif isinstance(item, tuple):
                        found += (part for part in item if isinstance(part, Expression))
        return found


_PLAIN = frozenset((
    "type", "nullable", "place", "index", "name", "value", "function", "tried", "operator", "sql", "version",
    "object", "columns", "names", "key_names", "call_names", "kind", "declared",
))  # fmt: skip
"""The fields of expressions and relations that hold neither."""

_OPERANDS: dict[type, tuple[str, ...]] = {}


def operands(class_: type) -> tuple[str, ...]:
    """The fields of a class of expressions or relations that may hold others; kept, since trees are walked all the
    time."""
    known = _OPERANDS.get(class_)
    if known is None:
        known = _OPERANDS[class_] = tuple(field.name for field in fields(class_) if field.name not in _PLAIN)
    return known


@stored
@dataclass(frozen=True)
class ColumnRef(Expression):
    """The input's column number `index`; for a join, the left columns come first.  `declared` is the column's."""

    index: int
    name: str
    declared: Type | None = None


@stored
@dataclass(frozen=True)
class OuterColumn(Expression):
    """Within a subquery: value number `index` of those that the query around it hands in for each of its rows."""

    index: int
    name: str
    declared: Type | None = None


@stored
@dataclass(frozen=True)
class Literal(Expression):
    """A constant: int, float, Decimal, str, bytes (of arrays, structs and maps, too: `catalog.nested`), bool, date,
    datetime (TIMESTAMP: aware, in UTC) or None."""

    value: Any


@stored
@dataclass(frozen=True)
class Compare(Expression):
    """`operator` is one of = <> < <= > >= <=>; NaN equals NaN and is the greatest; 0.0 equals -0.0."""

    operator: str
    left: Expression
    right: Expression


@stored
@dataclass(frozen=True)
class IsNull(Expression):
    argument: Expression


@stored
@dataclass(frozen=True)
class Not(Expression):
    argument: Expression


@stored
@dataclass(frozen=True)
class And(Expression):
    """Left to right, stopping at the first FALSE: what stands behind it cannot raise."""

    arguments: tuple[Expression, ...]


@stored
@dataclass(frozen=True)
class Or(Expression):
    """Left to right, stopping at the first TRUE."""

    arguments: tuple[Expression, ...]


@stored
@dataclass(frozen=True)
class In(Expression):
    """`argument IN (options)`; the options are Literals of the argument's type (NULL allowed)."""

    argument: Expression
    options: tuple[Expression, ...]


@stored
@dataclass(frozen=True)
class Case(Expression):
    """`branches` are (condition, value), tried in order; `otherwise` is a NULL literal where ELSE is missing."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression


@stored
@dataclass(frozen=True)
class Coalesce(Expression):
    """The first argument that is not NULL; what stands behind it is not evaluated."""

    arguments: tuple[Expression, ...]


@stored
@dataclass(frozen=True)
class Negate(Expression):
    """Unary minus; the smallest integer overflows."""

    argument: Expression


@stored
@dataclass(frozen=True)
class Arithmetic(Expression):
    """`operator` is + - * / or %; a remainder has the sign of the left side.

    Integers and floats: both sides have the result's type (of /: DOUBLE).  Decimals: each side keeps its own DECIMAL
    type; the exact result is rounded HALF_UP to `type`'s scale.  What does not fit in `type` raises ARITHMETIC_OVERFLOW
    (integers) or NUMERIC_VALUE_OUT_OF_RANGE (decimals); floats never do.  A zero on the right of / and %, of any type,
    raises DIVIDE_BY_ZERO or REMAINDER_BY_ZERO.  The remainder of decimals is out of range too where their whole
    quotient, cut to 39 digits, is not all of it ("Division impossible" in Spark).
    """

    operator: str
    left: Expression
    right: Expression


@stored
@dataclass(frozen=True)
class FunctionCall(Expression):
    """The scalar function that `functions.registry` has under `function`, of arguments in the types that it takes."""

    function: str
    arguments: tuple[Expression, ...]


@stored
@dataclass(frozen=True)
class Cast(Expression):
    """CAST, or an implicit conversion.  What is no value of `type` raises, and with `tried` (TRY_CAST) is NULL; what
    is beyond the years 1 to 9999 raises all the same.  VOID casts to anything."""

    argument: Expression
    tried: bool = False


@stored
@dataclass(frozen=True)
class OnlyRow(Expression):
    """`argument`, where no more than one of `rows` there are; else raises SCALAR_SUBQUERY_TOO_MANY_ROWS."""

    rows: Expression
    argument: Expression


@stored
@dataclass(frozen=True)
class Several(Expression):
    """The arguments of COUNT(DISTINCT x, y), as one; it has no value of its own."""

    arguments: tuple[Expression, ...]


def reference_to(column: Column, index: int, place: TextPlace | None = None, name: str | None = None) -> ColumnRef:
    """The input's column number `index`, which is `column`, by its own name where no other is given."""
    return ColumnRef(column.type, column.nullable, place, index, column.name if name is None else name, column.declared)


def declared_of(expression: Expression) -> Type | None:
    """How a column was declared (`Column.declared`); None of whatever is computed."""
    return expression.declared if isinstance(expression, ColumnRef | OuterColumn) else None


def as_column(name: str, expression: Expression) -> Column:
    """The column that `expression` makes."""
    return Column(name, expression.type, expression.nullable, declared_of(expression))


def computed_at(index: int, name: str, expression: Expression) -> ColumnRef:
    """The input's column number `index`, into which `expression` was computed."""
    return reference_to(as_column(name, expression), index, expression.place)


def comparison(operator: str, left: Expression, right: Expression, place: TextPlace | None = None) -> Compare:
    """`left operator right`, both of one type already."""
    nullable = operator != "<=>" and (left.nullable or right.nullable)
    return Compare(BOOLEAN, nullable, place, operator, left, right)


def unless_null(tested: Sequence[Expression], value: Expression) -> Expression:
    """`value` where none of `tested` is NULL, else NULL."""
    nulls = tuple(IsNull(BOOLEAN, False, each.place, each) for each in tested)
    missing = nulls[0] if len(nulls) == 1 else Or(BOOLEAN, False, value.place, nulls)
    return Case(value.type, True, value.place, ((missing, Literal(value.type, True, None, None)),), value)
