"""CAST of one value, in plain Python: nothing of it is shared with what maintains the views."""

from __future__ import annotations

import datetime
import math
from decimal import ROUND_DOWN, Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from viewkeeper.catalog.types import INTEGER_BITS, Type
from viewkeeper.checker.functions_of_nested import closed, opened
from viewkeeper.checker.text_readings import as_boolean, as_date, as_decimal, as_float, as_integer, as_moment
from viewkeeper.checker.value_rules import Raised, convert, fit_decimal, instant
from viewkeeper.plans.expressions import TextPlace

_EPOCH, _MICROSECOND = datetime.datetime(1970, 1, 1), datetime.timedelta(microseconds=1)


def cast(value: Any, source: Type, target: Type, zone: str, place: TextPlace | None, tried: bool = False) -> Any:
    """`value` of type `source` as one of `target`; raises `Raised`, or is None with `tried`, where there is none."""
    try:
        if value is not None and source.is_nested and source != target:
            return closed(_within(opened(value, source), source, target, zone, place, tried), target)
        return None if value is None else _cast(value, source, target, zone, place)
    except Raised as raised:
        if tried and raised.code != "DATETIME_OVERFLOW":  # Spark has what is beyond the years
            return None
        raise


def _within(
    value: Any, source: Type, target: Type, zone: str, place: TextPlace | None, tried: bool
) -> Any:  # fmt: skip
    """Each of the values that stand within one."""
    if value is None or source == target:
        return value
    pairs = [(old, new) for (_, old), (_, new) in zip(source.parts, target.parts, strict=True)]

    def cast_part(part: Any, old: Type, new: Type) -> Any:
        return (_within if old.is_nested else cast)(part, old, new, zone, place, tried)

    if source.name == "ARRAY":
        return [cast_part(each, *pairs[0]) for each in value]
    if source.name == "MAP":
        return [(cast_part(key, *pairs[0]), cast_part(each, *pairs[1])) for key, each in value]
    names = [name for name, _ in target.parts]
    return {name: cast_part(each, *pair) for name, each, pair in zip(names, value.values(), pairs, strict=True)}


def _cast(value: Any, source: Type, target: Type, zone: str, place: TextPlace | None) -> Any:
    if source == target or source.is_interval:
        return value
    if source.name == "STRING":
        return _of_text(value, target, zone, place)
    match target.name:
        case "STRING":
            return text_of(value, source, zone)
        case "BOOLEAN":
            return value != 0
        case "TIMESTAMP" if source.is_number:
            return _of_seconds(value, source, zone, place)
        case "DATE":
            return clock(value, zone).date()
        case "TIMESTAMP_NTZ" if source.name == "TIMESTAMP":
            return clock(value, zone)
    if source.name == "BOOLEAN":
        value, source = int(value), Type("INT")
    if target.is_integer:
        return _whole(value, source, target, place)
    if source.name == "TIMESTAMP":
        return _rounded(microseconds(value) / 1e6, target)
    if target.is_float and not source.is_integer:
        return nearest_float(value) if target.name == "FLOAT" and source.is_decimal else _rounded(float(value), target)
    return convert(value, source, target, zone, place)


def _rounded(value: float, target: Type) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value)) if target.name == "FLOAT" else value


def nearest_float(value: Decimal) -> float:
    """The FLOAT nearest to a decimal, ties to even: a double between would be a second rounding."""
    exact, first = Fraction(value), np.float32(float(value))
    around = (np.nextafter(first, np.float32(-np.inf)), first, np.nextafter(first, np.float32(np.inf)))
    finite = [each for each in around if np.isfinite(each)]
    return float(min(finite, key=lambda each: (abs(Fraction(float(each)) - exact), int(each.view(np.int32)) & 1)))


def clock(value: datetime.datetime, zone: str) -> datetime.datetime:
    """What clocks show at a TIMESTAMP; a TIMESTAMP_NTZ is that already."""
    return value if value.tzinfo is None else value.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def microseconds(value: datetime.datetime) -> int:
    """Since 1970, in UTC."""
    return (value - _EPOCH.replace(tzinfo=datetime.UTC)) // _MICROSECOND


def _whole(value: Any, source: Type, target: Type, place: TextPlace | None) -> int:
    bits = INTEGER_BITS[target.name]
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if source.name == "TIMESTAMP":
        value = microseconds(value) // 1_000_000
    elif source.is_decimal and source.precision > 18 and bits < 64:
        value, source = float(value), Type("DOUBLE")  # as Spark does
    if source.is_float:
        if (
            math.isnan(value)
            or math.isinf(value)
            or math.floor(value) > most + (bits == 64)
            or math.ceil(value) < least
        ):
            raise Raised("CAST_OVERFLOW", place)
        return min(math.trunc(value), most)
    whole = int(value.to_integral_value(ROUND_DOWN)) if source.is_decimal else value
    if not least <= whole <= most:
        raise Raised("CAST_OVERFLOW", place)
    return int(whole)


def _of_seconds(value: Any, source: Type, zone: str, place: TextPlace | None) -> datetime.datetime:
    if source.is_float:
        wanted = float(value) * 1e6
        if not abs(wanted) < 2.0**63:
            raise Raised("CAST_OVERFLOW", place)
        return kept_moment(math.trunc(wanted), zone, place)
    return kept_moment(value * 1_000_000, zone, place)


def kept_moment(wanted: int, zone: str, place: TextPlace | None) -> datetime.datetime:
    """The TIMESTAMP so many microseconds after 1970; DATETIME_OVERFLOW where UTC or clocks in `zone` show no year from
    1 to 9999."""
    try:
        found = _EPOCH.replace(tzinfo=datetime.UTC) + wanted * _MICROSECOND
        found.astimezone(ZoneInfo(zone))
    except OverflowError:
        raise Raised("DATETIME_OVERFLOW", place) from None
    return found


def kept_instant(local: datetime.datetime, zone: str, database_zone: str, place: TextPlace | None) -> datetime.datetime:
    """The TIMESTAMP at which clocks in `zone` show `local`."""
    found = instant(local, zone)
    if found.tzinfo != datetime.UTC:
        raise Raised("DATETIME_OVERFLOW", place)
    return kept_moment(microseconds(found), database_zone, place)


def text_of(value: Any, source: Type, zone: str) -> str:
    """As CAST to STRING writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value:f}" if value or not value.is_signed() else f"{value.copy_abs():f}"
    if isinstance(value, datetime.datetime):
        local = clock(value, zone)
        text = local.isoformat(" ", "microseconds" if local.microsecond else "seconds")
        return text.rstrip("0") if local.microsecond else text
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def _of_text(text: str, target: Type, zone: str, place: TextPlace | None) -> Any:
    if target.name == "BINARY":
        return text.encode()
    if target.is_integer:
        return as_integer(text, INTEGER_BITS[target.name], place)
    if target.is_float:
        return as_float(text, target.name == "FLOAT", place)
    if target.is_decimal:
        value = as_decimal(text, place)
        tiny = value.adjusted() < -150
        return fit_decimal(Decimal(0) if tiny else value, target, place)
    if target.name == "BOOLEAN":
        return as_boolean(text, place)
    if target.name == "DATE":
        return as_date(text, place)
    local, written = as_moment(text, place)
    if target.name == "TIMESTAMP_NTZ":
        return local
    if isinstance(written, int):
        return kept_moment((local - _EPOCH) // _MICROSECOND - written * 1_000_000, zone, place)
    return kept_instant(local, written or zone, zone, place)
