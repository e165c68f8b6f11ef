"""Scalar functions of one row's dates and times, in plain Python."""

from __future__ import annotations

import calendar
import datetime
import operator
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from viewkeeper.catalog.time_zones import limits
from viewkeeper.catalog.types import DATE, TIMESTAMP
from viewkeeper.checker.casts import clock, kept_moment, microseconds
from viewkeeper.checker.value_rules import Raised, fit_interval, half_up, instant, interval_length, start_of_day
from viewkeeper.functions.ends_of_years import HELD, held_name
from viewkeeper.plans.expressions import FunctionCall

_Values = tuple[Any, ...]
_DAY = datetime.timedelta(days=1)
_EPOCH = datetime.date(1970, 1, 1)


def _shown(value: Any, zone: str) -> datetime.datetime:
    """What clocks show at a moment; a DATE's midnight."""
    if isinstance(value, datetime.datetime):
        return clock(value, zone)
    return datetime.datetime.combine(value, datetime.time())


def _part(part: Callable[[datetime.datetime], Any]) -> Callable[[_Values, FunctionCall, str], Any]:
    return lambda values, node, zone: part(_shown(values[0], zone))


def _plus_days(date: datetime.date, count: int, node: FunctionCall) -> datetime.date:
    try:
        return date + count * _DAY
    except OverflowError:
        raise Raised("DATETIME_OVERFLOW", node.place) from None


def _plus_months(date: datetime.date, count: int, node: FunctionCall) -> datetime.date:
    year, month = divmod(date.year * 12 + date.month - 1 + count, 12)
    if not 1 <= year <= 9999:
        raise Raised("DATETIME_OVERFLOW", node.place)
    return date.replace(year=year, month=month + 1, day=min(date.day, calendar.monthrange(year, month + 1)[1]))


def _make_date(values: _Values, node: FunctionCall, zone: str) -> datetime.date:
    try:
        return datetime.date(*values)
    except (ValueError, OverflowError):
        raise Raised("DATETIME_FIELD_OUT_OF_BOUNDS", node.place) from None


def _next_day(values: _Values, node: FunctionCall, zone: str) -> datetime.date:
    date, name = values
    wanted = ("mo", "tu", "we", "th", "fr", "sa", "su").index(name.strip(" ").lower()[:2])
    return next(day for n in range(1, 8) if (day := _plus_days(date, n, node)).weekday() == wanted)


def _last_day(values: _Values, node: FunctionCall, zone: str) -> datetime.date:
    (date,) = values
    return date.replace(day=calendar.monthrange(date.year, date.month)[1])


_NAMES = {"mon": "month", "mm": "month", "yyyy": "year", "yy": "year", "dd": "day"}


def _first_day(date: datetime.date, unit: str, node: FunctionCall) -> datetime.date | None:
    match unit:
        case "week":
            return _plus_days(date, -date.weekday(), node)
        case "month":
            return date.replace(day=1)
        case "quarter":
            return date.replace(month=(date.month - 1) // 3 * 3 + 1, day=1)
        case "year":
            return date.replace(month=1, day=1)
    return None


def _trunc(values: _Values, node: FunctionCall, zone: str) -> datetime.date | None:
    date, unit = values
    return _first_day(date, _NAMES.get(unit.lower(), unit.lower()), node)


def _date_trunc(values: _Values, node: FunctionCall, zone: str) -> datetime.datetime:
    unit, time = values
    unit = _NAMES.get(unit.lower(), unit.lower())
    smaller = {"microsecond": 1, "millisecond": 1000, "second": 1_000_000}
    if unit in smaller:
        return time - datetime.timedelta(microseconds=time.microsecond % smaller[unit])
    local = clock(time, zone)
    cut = {"minute": (), "hour": ("minute",), "day": ("hour", "minute")}.get(unit)
    if cut is not None:
        minute, hour = (0 if field in cut else old for field, old in (("minute", local.minute), ("hour", local.hour)))
        return _kept(_at(local.replace(hour=hour, minute=minute, second=0, microsecond=0), time, zone), zone, node)
    first = _first_day(local.date(), unit, node)
    assert first is not None, "other units are refused"
    return _kept(start_of_day(datetime.datetime.combine(first, datetime.time()), zone), zone, node)


def _kept(time: datetime.datetime, zone: str, node: FunctionCall) -> datetime.datetime:
    return kept_moment(microseconds(time), zone, node.place)


def _at(local: datetime.datetime, before: datetime.datetime, zone: str) -> datetime.datetime:
    """When clocks show `local`: of two such moments that with the offset which was in force at `before`."""
    offset = before.astimezone(ZoneInfo(zone)).utcoffset()
    for fold in (0, 1):
        aware = local.replace(tzinfo=ZoneInfo(zone), fold=fold)
        if aware.utcoffset() == offset and clock(aware.astimezone(datetime.UTC), zone) == local:
            return aware.astimezone(datetime.UTC)
    return instant(local, zone)


def _counted_on(values: _Values, node: FunctionCall, zone: str) -> datetime.datetime:
    time, count = values
    place = node.place
    if node.function == "plus microseconds":
        if time.tzinfo is not None:
            return kept_moment(microseconds(time) + count, zone, place)
        return _naive(lambda: time + datetime.timedelta(microseconds=count), node)
    local = clock(time, zone)
    if node.function == "plus months":
        later = datetime.datetime.combine(_plus_months(local.date(), count, node), local.time())
    else:
        later = _naive(lambda: local + count * _DAY, node)
    if time.tzinfo is None:
        return later
    try:
        return kept_moment(microseconds(_at(later, time, zone)), zone, place)
    except OverflowError:
        raise Raised("DATETIME_OVERFLOW", place) from None


def _plus_interval(values: _Values, node: FunctionCall, zone: str) -> datetime.date:
    time, length = values
    if node.arguments[1].type.is_month_interval:
        if node.type == DATE:
            return _plus_months(time, length, node)
        return _counted_on((time, length), replace(node, function="plus months"), zone)
    days, rest = divmod(abs(interval_length(length)), _DAY // datetime.timedelta(microseconds=1))
    sign = 1 if length >= datetime.timedelta(0) else -1
    if node.type == DATE:
        return _naive(lambda: time + sign * days * _DAY, node)
    later = _counted_on((time, sign * days), replace(node, function="plus days"), zone)
    return _counted_on((later, sign * rest), replace(node, function="plus microseconds"), zone)


def _between(values: _Values, node: FunctionCall, zone: str) -> datetime.timedelta:
    later, sooner = (_shown(value, zone) for value in values)
    return later - sooner


def _of_intervals(compute: Callable[..., int], code: str | None = None) -> Callable[[_Values, FunctionCall, str], Any]:
    return lambda values, node, zone: fit_interval(compute(*map(interval_length, values)), node.type, node.place, code)


def _divided(values: _Values, node: FunctionCall, zone: str) -> Any:
    length, number = map(interval_length, values)
    if number == 0:
        raise Raised("INTERVAL_DIVIDED_BY_ZERO", node.place)
    return fit_interval(half_up(length, number), node.type, node.place)


def _naive(compute: Callable[[], datetime.datetime], node: FunctionCall) -> datetime.datetime:
    try:
        return compute()
    except OverflowError:
        raise Raised("DATETIME_OVERFLOW", node.place) from None


def _date_format(values: _Values, node: FunctionCall, zone: str) -> str:
    local, pattern, text, at = _shown(values[0], zone), values[1], "", 0
    while at < len(pattern):
        character = pattern[at]
        if character == "'":
            end = at + 1
            while pattern[end] != "'" or pattern[end : end + 2] == "''":
                end += 2 if pattern[end] == "'" else 1
            text += pattern[at + 1 : end].replace("''", "'") if end > at + 1 else "'"
            at = end + 1
            continue
        width = len(pattern[at:]) - len(pattern[at:].lstrip(character))
        if not character.isalpha():
            text, at = text + character, at + 1
            continue
        if character == "S":
            text += f"{local.microsecond:06}"[:width]
        else:
            fields = {"y": local.year, "M": local.month, "d": local.day, "H": local.hour, "m": local.minute,
                      "s": local.second, "D": local.timetuple().tm_yday}  # fmt: skip
            text += str(fields[character]).rjust(width, "0")
        at += width
    return text


def _of_number(unit: int) -> Callable[[_Values, FunctionCall, str], datetime.datetime]:
    return lambda values, node, zone: kept_moment(values[0] * unit, zone, node.place)


def _unix(values: _Values, node: FunctionCall, zone: str) -> int:
    """Whole seconds since 1970, cut towards it; a TIMESTAMP_NTZ is taken for UTC."""
    time = values[0]
    if not isinstance(time, datetime.datetime):
        time = start_of_day(datetime.datetime.combine(time, datetime.time()), zone)
    count = microseconds(time if time.tzinfo else time.replace(tzinfo=datetime.UTC))
    return abs(count) // 1_000_000 * (-1 if count < 0 else 1)


def _to_number(unit: int) -> Callable[[_Values, FunctionCall, str], int]:
    return lambda values, node, zone: microseconds(values[0]) // unit


def _held(name: str, later: bool) -> Callable[[_Values, FunctionCall, str], Any]:
    """As `name`, and the last (the first) value where that is beyond the years."""

    def function(values: _Values, node: FunctionCall, zone: str) -> Any:
        try:
            return OF_MOMENTS[name](values, replace(node, function=name), zone)
        except Raised:
            if node.type == DATE:
                return datetime.date.max if later else datetime.date.min
            end = datetime.datetime.max if later else datetime.datetime.min
            return kept_moment(limits(zone)[later], zone, node.place) if node.type == TIMESTAMP else end

    return function


OF_MOMENTS: dict[str, Callable[[_Values, FunctionCall, str], Any]] = {
    "year": _part(lambda at: at.year), "quarter": _part(lambda at: (at.month + 2) // 3),
    "month": _part(lambda at: at.month), "dayofmonth": _part(lambda at: at.day),
    "dayofyear": _part(lambda at: at.timetuple().tm_yday), "dayofweek": _part(lambda at: at.isoweekday() % 7 + 1),
    "weekday": _part(lambda at: at.weekday()), "weekofyear": _part(lambda at: at.isocalendar()[1]),
    "hour": _part(lambda at: at.hour), "minute": _part(lambda at: at.minute), "second": _part(lambda at: at.second),
    "seconds with fraction": _part(lambda at: Decimal(at.second * 1_000_000 + at.microsecond).scaleb(-6)),
    "date_add": lambda values, node, zone: _plus_days(values[0], values[1], node),
    "date_sub": lambda values, node, zone: _plus_days(values[0], -values[1], node),
    "add_months": lambda values, node, zone: _plus_months(values[0], values[1], node),
    "datediff": lambda values, node, zone: (values[0] - values[1]).days,
    "last_day": _last_day, "next_day": _next_day, "make_date": _make_date, "trunc": _trunc, "date_trunc": _date_trunc,
    "plus months": _counted_on, "plus days": _counted_on, "plus microseconds": _counted_on,
    "plus interval": _plus_interval, "time between": _between, "sum of intervals": _of_intervals(operator.add),
    "difference of intervals": _of_intervals(operator.sub), "opposite interval": _of_intervals(operator.neg),
    "interval times number": _of_intervals(operator.mul, "ARITHMETIC_OVERFLOW"), "interval by number": _divided,
    "date_format": _date_format, "unix_timestamp": _unix, "to_unix_timestamp": _unix,
    "unix_seconds": _to_number(1_000_000), "unix_millis": _to_number(1_000), "unix_micros": _to_number(1),
    "timestamp_seconds": _of_number(1_000_000), "timestamp_millis": _of_number(1_000),
    "timestamp_micros": _of_number(1),
    "unix_date": lambda values, node, zone: (values[0] - _EPOCH).days,
    "date_from_unix_date": lambda values, node, zone: _plus_days(_EPOCH, values[0], node),
    **{held_name(name, later): _held(name, later) for name, later in HELD},
}  # fmt: skip
"""By name; of values none of which is NULL."""
