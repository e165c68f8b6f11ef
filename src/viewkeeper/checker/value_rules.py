"""Spark's rules (version 4, ANSI) for single Python values: order, equality, arithmetic, conversion, exact sums.

A value is what users see: int, float (a FLOAT is a float that a float32 holds exactly), Decimal, str, bytes, bool,
date, datetime (TIMESTAMP: aware; TIMESTAMP_NTZ: naive), None for NULL.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from viewkeeper.catalog.types import BIGINT, INTEGER_BITS, MAX_PRECISION, Type, decimal

_EPOCH, _SECOND = datetime.datetime(1970, 1, 1), datetime.timedelta(seconds=1)
_MICROSECOND = datetime.timedelta(microseconds=1)
NAN = math.nan  # the one NaN that `canonical` gives: equal to itself in tuples, dictionaries and sets
_WIDE = Context(prec=200, rounding=ROUND_HALF_UP)  # holds the exact product of two decimals and any sum of them
_SCALA = Context(prec=34, rounding=ROUND_HALF_EVEN)


class Raised(Exception):
    """Spark would raise here: `code` is its error class; `place` is where in the statement."""

    def __init__(self, code: str, place: tuple[int, int] | None) -> None:
        super().__init__(code)
        self.code, self.place = code, place


def canonical(value: Any) -> Any:
    """The form in which a value is a key: every NaN is `NAN`, -0.0 is 0.0."""
    if isinstance(value, float):
        return NAN if value != value else value + 0.0
    return value


def order_key(value: Any) -> Any:
    """What sorts values of one type as Spark does: NaN greatest, 0.0 equal to -0.0, strings by their UTF-8 bytes."""
    if isinstance(value, float):
        return (value != value, 0.0 if value != value else value + 0.0)
    return value


def compare(operator: str, left: Any, right: Any) -> bool | None:
    """`left operator right` of one type; None is NULL, and SQL's "unknown"."""
    if operator == "<=>":
        return (left is None) == (right is None) and (left is None or order_key(left) == order_key(right))
    if left is None or right is None:
        return None
    a, b = order_key(left), order_key(right)
    match operator:
        case "=":
            return bool(a == b)
        case "<>":
            return bool(a != b)
        case "<":
            return bool(a < b)
        case "<=":
            return bool(a <= b)
        case ">":
            return bool(a > b)
        case ">=":
            return bool(a >= b)
    raise ValueError(f"no comparison {operator}")


def arithmetic(operator: str, left: Any, right: Any, type_: Type, place: tuple[int, int] | None) -> Any:
    """`left operator right` (+ - * / %), neither of them NULL, as a value of `type_`; raises `Raised` on overflow and
    for a zero on the right of / and %."""
    if operator in ("/", "%") and right == 0:
        raise Raised("DIVIDE_BY_ZERO" if operator == "/" else "REMAINDER_BY_ZERO", place)
    if operator == "%":
        return _remainder(left, right, type_, place)
    if operator == "/" and type_.is_decimal:
        with localcontext(_WIDE):
            return fit_decimal(left / right, type_, place)
    if type_.name == "FLOAT":
        with np.errstate(all="ignore"):
            return float(_apply(operator, np.float32(left), np.float32(right)))
    if type_.is_decimal:
        with localcontext(_WIDE):
            return fit_decimal(_apply(operator, left, right), type_, place)
    result = _apply(operator, left, right)
    return fit_integer(result, type_, place) if type_.is_integer else result


def _apply(operator: str, left: Any, right: Any) -> Any:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
    raise ValueError(f"no arithmetic {operator}")


def _remainder(left: Any, right: Any, type_: Type, place: tuple[int, int] | None) -> Any:
    """What is left of truncating division; it has the sign of `left`."""
    if type_.is_float:
        return NAN if math.isinf(left) else math.fmod(left, right)
    if type_.is_decimal:
        with localcontext(_WIDE):
            whole = str(int(left / right)).lstrip("-")
            if whole[MAX_PRECISION + 1 :].strip("0"):  # Java: "Division impossible"
                raise Raised("NUMERIC_VALUE_OUT_OF_RANGE", place)
            return fit_decimal(left % right, type_, place)
    return abs(left) % abs(right) * (-1 if left < 0 else 1)


def negate(value: Any, type_: Type, place: tuple[int, int] | None) -> Any:
    """`- value`, not NULL."""
    if type_.is_decimal:  # Scala's BigDecimal: to 34 digits, ties to even
        return fit_decimal(_SCALA.minus(value), type_, place)
    return fit_integer(-value, type_, place) if type_.is_integer else -value


def fit_integer(value: int, type_: Type, place: tuple[int, int] | None) -> int:
    limit = 1 << (INTEGER_BITS[type_.name] - 1)
    if not -limit <= value < limit:
        raise Raised("ARITHMETIC_OVERFLOW", place)
    return value


def fit_decimal(
    value: Decimal, type_: Type, place: tuple[int, int] | None, code: str = "NUMERIC_VALUE_OUT_OF_RANGE"
) -> Decimal:
    """`value` rounded HALF_UP to the scale of `type_`."""
    rounded = value.quantize(Decimal(1).scaleb(-type_.scale), context=_WIDE)
    if rounded and rounded.adjusted() >= type_.precision - type_.scale:
        raise Raised(code, place)
    return rounded


def convert(value: Any, source: Type, target: Type, zone: str, place: tuple[int, int] | None) -> Any:
    """An implicit conversion of `value` that cannot fail; TIMESTAMPs come and go in the time zone `zone`."""
    if value is None or source == target:
        return value
    if source.is_integer and target.is_integer:
        return value
    if target.is_decimal and (source.is_integer or source.is_decimal):
        return fit_decimal(Decimal(value), target, place)
    if target.name == "FLOAT" and source.is_integer:
        return float(np.int64(value).astype(np.float32))  # once rounded; by way of a double it would be twice
    if target.name == "DOUBLE" and source.is_number:
        return float(value)
    if source.is_interval:
        return value
    if source.name == "DATE":
        midnight = datetime.datetime.combine(value, datetime.time())
        return midnight if target.name == "TIMESTAMP_NTZ" else start_of_day(midnight, zone)
    if (source.name, target.name) == ("TIMESTAMP_NTZ", "TIMESTAMP"):
        return instant(value, zone)
    raise TypeError(f"no implicit conversion from {source} to {target}")


def instant(local: datetime.datetime, zone: str) -> datetime.datetime:
    """When clocks in `zone` showed `local`: the first time, and after a gap as if it had not been."""
    aware = local.replace(tzinfo=ZoneInfo(zone))
    try:
        return aware.astimezone(datetime.UTC)
    except OverflowError:  # in UTC it is no year of Python's
        return aware


def start_of_day(midnight: datetime.datetime, zone: str) -> datetime.datetime:
    """The first moment of a day: where its midnight was skipped, the end of the gap."""
    before, after = (midnight.replace(tzinfo=ZoneInfo(zone), fold=fold).utcoffset() for fold in (0, 1))
    assert before is not None and after is not None, "zones know their offsets"
    if after <= before:
        return instant(midnight, zone)
    # Skipped: clocks go from `before` to `after` within the day's first hours, or the last ones before it.
    low, high = midnight - before - datetime.timedelta(days=1), midnight - before
    while high - low > _SECOND:
        middle = low + (high - low) // _SECOND // 2 * _SECOND
        shown = middle.replace(tzinfo=datetime.UTC).astimezone(ZoneInfo(zone)).utcoffset()
        low, high = (low, middle) if shown == after else (middle, high)
    return high.replace(tzinfo=datetime.UTC)


def moment(microseconds: int, zone: str) -> datetime.datetime:
    """Microseconds since 1970 in UTC as an aware datetime: in UTC, or in `zone` where UTC shows a year that Python has
    not."""
    try:
        return _EPOCH.replace(tzinfo=datetime.UTC) + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        offset = ZoneInfo(zone).utcoffset(datetime.datetime.min if microseconds < 0 else datetime.datetime.max)
        assert offset is not None, "zones know their offsets"
        return (_EPOCH + (datetime.timedelta(microseconds=microseconds) + offset)).replace(tzinfo=ZoneInfo(zone))


def exact_float_sum(values: Sequence[float]) -> float:
    """The exact sum, rounded once to a double (beyond its range: infinity); NaN and infinities as in IEEE 754."""
    special = [value for value in values if not math.isfinite(value)]
    if special:
        return math.fsum(special) if not (math.inf in special and -math.inf in special) else NAN
    return _to_double(sum(_in_smallest_units(value) for value in values), _SMALLEST)


_SMALLEST = 1074  # every finite double is a whole multiple of 2**-1074


def _in_smallest_units(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator << (_SMALLEST - denominator.bit_length() + 1)


def _to_double(numerator: int, power: int) -> float:
    try:
        return numerator / (1 << power)  # true division of integers is correctly rounded
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def exact_sum(values: Sequence[Any], argument: Type, result: Type, place: tuple[int, int] | None) -> Any:
    """SUM of at least one value (none NULL): overflows only if the exact sum does."""
    if argument.is_float:
        return exact_float_sum(values)
    if argument.is_integer:
        return fit_integer(sum(values), BIGINT, place)
    if argument.is_interval:
        return fit_interval(sum(map(interval_length, values)), result, place)
    with localcontext(_WIDE):
        return fit_decimal(sum(values, Decimal(0)), result, place, "ARITHMETIC_OVERFLOW")


def interval_length(value: Any) -> int:
    """The months (themselves), or the microseconds, of an interval."""
    return value // _MICROSECOND if isinstance(value, datetime.timedelta) else int(value)


def fit_interval(length: int, type_: Type, place: tuple[int, int] | None, code: str | None = None) -> Any:
    """The interval of so many months or microseconds."""
    bits = 32 if type_.is_month_interval else 64
    if not -(1 << bits - 1) <= length < 1 << bits - 1:
        raise Raised(code or "INTERVAL_ARITHMETIC_OVERFLOW", place)
    return length if type_.is_month_interval else length * _MICROSECOND


def half_up(length: int, count: int) -> int:
    """`length / count`, halves away from 0."""
    size = (2 * abs(length) + abs(count)) // (2 * abs(count))
    return size if (length < 0) == (count < 0) else -size


def exact_average(values: Sequence[Any], argument: Type, result: Type, place: tuple[int, int] | None) -> Any:
    """AVG of at least one value (none NULL): the exact sum, rounded to a double, by the count; decimals HALF_UP.

    A decimal sum that does not fit Spark's own accumulator, DECIMAL(p + 10, s), overflows.
    """
    if argument.is_decimal:
        accumulator = decimal(min(argument.precision + 10, MAX_PRECISION), argument.scale)
        total = exact_sum(values, argument, accumulator, place)
        with localcontext(_WIDE):
            return fit_decimal(total / len(values), result, place)
    if argument.is_interval:
        total = exact_sum(values, argument, result, place)
        return fit_interval(half_up(interval_length(total), len(values)), result, place)
    total = exact_float_sum(values) if argument.is_float else _to_double(sum(values), 0)
    return total / len(values)


def plain_aggregate(
    function: str, values: Sequence[Any], of: Type, result: Type, place: tuple[int, int] | None
) -> Any:  # fmt: skip
    """COUNT, SUM, AVG, MIN or MAX of `values` of the type `of`, none of them NULL; raises Raised."""
    if function == "count":
        return len(values)
    if not values:
        return None
    match function:
        case "sum":
            return exact_sum(values, of, result, place)
        case "avg":
            return exact_average(values, of, result, place)
        case "min":
            return canonical(min(values, key=order_key))
        case "max":
            return canonical(max(values, key=order_key))
    raise TypeError(f"no such aggregate: {function}")
