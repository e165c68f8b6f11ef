"""Implicit conversions of bound expressions: made explicit where they cannot fail, refused where they can."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

from viewkeeper.catalog.types import BIGINT, DOUBLE, STRING, VOID, Type
from viewkeeper.compiler.coercion import (
    as_decimal,
    cannot_fail,
    common_type,
    common_type_of_all,
    decimal_result,
    has_cast,
    may_become_null,
    same_shape,
    why_no_native_cast,
)  # fmt: skip
from viewkeeper.compiler.literals import convert, is_plain, smallest_decimal
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.plans.expressions import (
    Arithmetic,
    Cast,
    ColumnRef,
    Compare,
    Expression,
    Literal,
    TextPlace,
    comparison,
)
from viewkeeper.plans.raising import cast_may_raise
from viewkeeper.plans.rewriting import walk

_TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")


class Refused(Exception):
    """A conversion that is refused: the reason, and the kind of error that it is."""

    def __init__(self, reason: str, kind: type[DeclarationError] = DeclarationError) -> None:
        super().__init__(reason)
        self.kind = kind


def converted(expression: Expression, target: Type, zone: str) -> Expression:
    """`expression` as a value of `target`; constants are converted here and now, if there is a plain way."""
    source = expression.type
    if source == target:
        return expression
    if isinstance(expression, Literal) and is_plain(source, target):
        try:
            value = convert(expression.value, source, target, zone)
        except ValueError as reason:
            raise Refused(str(reason)) from None
        return Literal(target, expression.nullable or may_become_null(source, target), expression.place, value)
    return cast_to(expression, target, expression.place)


def can_be_stored(source: Type, target: Type) -> bool:
    """Whether a column of type `target` takes values of type `source`: Spark's `Cast.canANSIStoreAssign`."""
    if source in (VOID, target) or (target == STRING and not source.is_nested):
        return True
    if same_shape(source, target):
        return all(can_be_stored(old, new) for (_, old), (_, new) in zip(source.parts, target.parts, strict=True))
    if source.is_interval and target.is_interval:
        return cannot_fail(source, target)  # Spark cuts what does not fit
    return (source.is_number and target.is_number) or (source.name in _TIMES and target.name in _TIMES)


def cast_to(expression: Expression, target: Type, place: TextPlace | None, tried: bool = False) -> Expression:
    """CAST or TRY_CAST of `expression`."""
    source = expression.type
    if not has_cast(source, target):
        raise Refused(f"{source} cannot be cast to {target}")
    if source == VOID:
        return Literal(target, True, place, None)
    reason = why_no_native_cast(source, target, isinstance(expression, ColumnRef))
    if reason is not None:
        raise Refused(f"a cast from {source} to {target} is not supported yet: {reason}", NotSupported)
    if source == STRING and target.name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ") and _may_mean_now(expression):
        raise Refused(f"a text such as 'now' is another {target} each time; write a moment", NotSupported)
    nullable = expression.nullable or may_become_null(source, target) or (tried and cast_may_raise(source, target))
    return Cast(target, nullable, place, expression, tried)


def _may_mean_now(text: Expression) -> bool:
    """Whether Spark may take it for a special moment: of constants it does, but not of what stands in columns."""
    if isinstance(text, Literal):
        return str(text.value).strip().lower().startswith(("epoch", "now", "today", "tomorrow", "yesterday"))
    return not any(isinstance(node, ColumnRef) for node in walk(text))


def compared(operator: str, left: Expression, right: Expression, place: TextPlace | None, zone: str) -> Compare:
    """`left operator right`, both brought to Spark's common type."""
    left, right = _beside_integer(operator, left, right), _beside_integer(TURNED.get(operator, ""), right, left)
    left, right = _beside_decimal(left, right), _beside_decimal(right, left)
    target = common_type(left.type, right.type)
    if target is None:
        raise Refused(f"{left.type} and {right.type} cannot be compared", _kind(left, right))
    return comparison(operator, converted(left, target, zone), converted(right, target, zone), place)


def _kind(*expressions: Expression) -> type[DeclarationError]:
    """What is no common type here may be one to Spark, where it is about nested types or intervals."""
    known = not any(each.type.is_nested or each.type.is_interval for each in expressions)
    return DeclarationError if known else NotSupported


TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _beside_integer(operator: str, side: Expression, other: Expression) -> Expression:
    if isinstance(side, Literal) and other.type.is_integer:
        whole = whole_number(operator, side.type, side.value)
        if whole is not None:
            return Literal(BIGINT, False, side.place, whole)
    return side


def whole_number(operator: str, type_: Type, value: Any) -> int | None:
    """The BIGINT that Spark compares instead where the constant `value operator integer` is a DECIMAL, else None.

    Source: `DecimalPrecisionTypeCoercion.integralAndDecimalLiteral`.
    """
    if operator not in TURNED or not type_.is_decimal or value is None:
        return None
    if not -(1 << 63) <= value <= (1 << 63) - 1:
        raise Refused(f"{value} is beyond every BIGINT, so the comparison says nothing; leave it out", NotSupported)
    return math.ceil(value) if operator in (">", "<=") else math.floor(value)


def to_common(expressions: list[Expression], what: str, zone: str) -> list[Expression]:
    """All of them as values of their common type; `what` names the construct for the error."""
    target = common_type_of_all([each.type for each in expressions])
    if target is None:
        raise Refused(f"{what} has values of types that do not go together: "
                      + ", ".join(dict.fromkeys(str(each.type) for each in expressions)),
                      _kind(*expressions))  # fmt: skip
    return [converted(each, target, zone) for each in expressions]


def arithmetic(operator: str, left: Expression, right: Expression, place: TextPlace | None, zone: str) -> Expression:
    """`left operator right` (`operator` is + - * / or %) as Spark types it; the last two may be NULL to Spark."""
    for side in (left, right):
        if not (side.type.is_number or side.type in (VOID, STRING)):
            raise Refused(f"{operator} is supported for numbers only, not for {side.type}", NotSupported)
    if {left.type, right.type} <= {STRING, VOID} and STRING in (left.type, right.type):
        raise Refused(f"{operator} needs a number on one side")
    divides = operator == "/"
    if divides:
        left, right = _divided(left, False, zone), _divided(right, left.type.is_decimal, zone)
    left, right = _as_number(left, right, zone), _as_number(right, left, zone)
    nullable = left.nullable or right.nullable or operator in ("/", "%")
    left, right = _beside_decimal(left, right), _beside_decimal(right, left)
    if (left.type.is_decimal or right.type.is_decimal) and not (left.type.is_float or right.type.is_float):
        left, right = converted(left, as_decimal(left.type), zone), converted(right, as_decimal(right.type), zone)
        type_ = decimal_result(operator, left.type, right.type)
        return Arithmetic(type_, nullable or left.nullable or right.nullable, place, operator, left, right)
    target = DOUBLE if divides else common_type(left.type, right.type)
    assert target is not None, (left.type, right.type)
    left, right = converted(left, target, zone), converted(right, target, zone)
    return Arithmetic(target, nullable or left.nullable or right.nullable, place, operator, left, right)


def _divided(side: Expression, behind_decimal: bool, zone: str) -> Expression:
    """A text or NULL beside / is a DOUBLE; only NULL behind a DECIMAL is of its type."""
    if side.type == STRING or (side.type == VOID and not behind_decimal):
        return converted(side, DOUBLE, zone)
    return side


def _as_number(side: Expression, other: Expression, zone: str) -> Expression:
    if side.type == VOID:
        return converted(side, DOUBLE if other.type == VOID else other.type, zone)
    if side.type == STRING:
        return converted(side, BIGINT if other.type.is_integer else DOUBLE, zone)
    return side


def _beside_decimal(side: Expression, other: Expression) -> Expression:
    # An integer constant beside a DECIMAL is a DECIMAL of just its digits (but for TINYINT, `DecimalType.fromLiteral`),
    # and may be NULL as far as Spark can tell.
    if isinstance(side, Literal) and side.type.name in ("SMALLINT", "INT", "BIGINT") and other.type.is_decimal:
        if side.value is None:
            return replace(side, type=as_decimal(side.type))
        return Literal(smallest_decimal(side.value), True, side.place, Decimal(side.value))
    return side
