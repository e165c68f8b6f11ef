"""Times counted on by constant intervals, what `timestamp + INTERVAL ...` is bound to; differences of times; and
intervals added, multiplied and divided.

Months and days are counted on the clocks of the database's zone, what is less than a day in UTC, as java.time does it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from viewkeeper.catalog.time_zones import to_local
from viewkeeper.catalog.types import BIGINT, DATE, DAY_TIME, TIMESTAMP, TIMESTAMP_NTZ, YEAR_MONTH, Type
from viewkeeper.functions.function import Computed, Function, Kernel, Signature, made, numbers, wrong_where
from viewkeeper.functions.moments import DAY_US, at_clock, beyond_dates, beyond_moments, plus_months


def _months(clock: np.ndarray, count: int) -> np.ndarray:
    day = clock // DAY_US
    later: np.ndarray = plus_months(day, np.full(1, count)) * DAY_US + clock % DAY_US
    return later


def _counting(name: str, on_clock: Callable[[np.ndarray, int], np.ndarray] | None) -> Function:
    def kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
        times, count = arguments
        values, its_zone = numbers(times), zone if types[0] == TIMESTAMP else "UTC"
        if on_clock is None:
            later = values + count
        else:
            later = at_clock(on_clock(to_local(values, its_zone), count), values, its_zone)
        return made(later, times), wrong_where(beyond_moments(later, types[0], zone))

    def result(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
        return types[0], (types[0], BIGINT)

    return Function(name, "a TIMESTAMP or TIMESTAMP_NTZ, and a number", result, kernel, 2, 2, constants=(1,),
                    raises="DATETIME_OVERFLOW")  # fmt: skip


PLUS_MONTHS = _counting("plus months", _months)
PLUS_DAYS = _counting("plus days", lambda clock, count: clock + count * DAY_US)
PLUS_MICROSECONDS = _counting("plus microseconds", None)


def _counted(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    moment, interval = types
    timed = moment in (DATE, TIMESTAMP, TIMESTAMP_NTZ) and interval.is_interval
    return (moment, (moment, interval)) if timed else None


_LONG = 1 << 59
"""Microseconds that lead from no time of the years 1 to 9999 to another."""


def _plus_interval(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    times, lengths = arguments
    values, length = numbers(times).astype(np.int64), numbers(lengths).astype(np.int64)
    beyond = np.abs(length.astype(np.float64)) >= (130_000 if types[1].is_month_interval else _LONG)
    length = np.where(beyond, 0, length)
    if types[0] == DATE:
        later = plus_months(values, length) if types[1].is_month_interval else values + length // DAY_US
        return made(later.astype(np.int32), *arguments), wrong_where(beyond | beyond_dates(later))
    its_zone = zone if types[0] == TIMESTAMP else "UTC"
    clock, rest = to_local(values, its_zone), np.zeros(len(length), np.int64)
    if types[1].is_month_interval:
        clock = plus_months(clock // DAY_US, length) * DAY_US + clock % DAY_US
    else:
        rest = np.sign(length) * (np.abs(length) % DAY_US)
        clock = clock + length - rest
    later = at_clock(clock, values, its_zone) + rest
    return made(later, *arguments), wrong_where(beyond | beyond_moments(later, types[0], zone))


PLUS_INTERVAL = Function("plus interval", "a DATE or TIMESTAMP, and an interval", _counted, _plus_interval, 2, 2,
                         raises="DATETIME_OVERFLOW")  # fmt: skip


def _difference(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    first, second = types
    if first == second == DATE:
        return Type("INTERVAL DAY"), (DATE, DATE)
    both = {first, second} - {DATE}
    return (DAY_TIME, (both.pop(),) * 2) if len(both) == 1 and both <= {TIMESTAMP, TIMESTAMP_NTZ} else None


def _between(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    if types[0] == DATE:
        later, sooner = (numbers(date).astype(np.int64) * DAY_US for date in arguments)
    else:
        later, sooner = (to_local(numbers(time), zone if types[0] == TIMESTAMP else "UTC") for time in arguments)
    return made(later - sooner, *arguments), None


BETWEEN = Function("time between", "two DATEs or TIMESTAMPs", _difference, _between, 2, 2)
"""How far behind the second the first is, on the zone's clocks."""


def _alike(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    return (types[0], tuple(types)) if types[0].is_interval and len(set(types)) == 1 else None


def _by_number(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    interval, number = types
    if not interval.is_interval or not number.is_integer:
        return None
    return YEAR_MONTH if interval.is_month_interval else DAY_TIME, (interval, BIGINT)


def _exact(compute: Callable[..., np.ndarray]) -> Kernel:
    """Of whole numbers that may not fit: a quick bound decides whether any can be lost."""

    def kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
        given = [numbers(each).astype(np.int64) for each in arguments]
        least, most = (-(1 << 31), (1 << 31) - 1) if types[0].is_month_interval else (-(1 << 63), (1 << 63) - 1)
        with np.errstate(over="ignore"):
            values = compute(*given)
        about = compute(*(each.astype(np.float64) for each in given))
        lost = np.abs(about) >= float(most) * (1 - 2**-40)
        for row in np.flatnonzero(lost):  # near the bounds, or beyond: as Python has it
            exact = int(compute(*(np.array([int(each[row])], object) for each in given))[0])
            lost[row] = not least <= exact <= most
        kept = np.where(lost, 0, values).astype(np.int32 if types[0].is_month_interval else np.int64)
        return made(kept, *arguments), wrong_where(lost)

    return kernel


def _divided(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    """Rounded to the nearest, halves away from 0."""
    length, number = (numbers(each).astype(np.int64) for each in arguments)
    least = -(1 << 31) if types[0].is_month_interval else -(1 << 63)
    by_zero, beyond = number == 0, (number == -1) & (length == least)
    divisor = np.where(by_zero | beyond, 1, number)
    quotient, rest = length // divisor, _minus_size(length % divisor)
    other = _minus_size(divisor) - rest  # of the divisor, what the rest leaves; both are kept below 0, where all fits
    quotient += np.where(quotient < 0, rest < other, rest <= other)
    wrong = {"INTERVAL_DIVIDED_BY_ZERO": by_zero, "INTERVAL_ARITHMETIC_OVERFLOW": beyond}
    values = quotient.astype(np.int32 if types[0].is_month_interval else np.int64)
    return made(values, *arguments), wrong if (by_zero | beyond).any() else None


def _minus_size(values: np.ndarray) -> np.ndarray:
    return np.where(values < 0, values, -values)


PLUS = Function("sum of intervals", "two intervals", _alike, _exact(np.add), 2, 2,
                raises="INTERVAL_ARITHMETIC_OVERFLOW")  # fmt: skip
MINUS = Function("difference of intervals", "two intervals", _alike, _exact(np.subtract), 2, 2,
                 raises="INTERVAL_ARITHMETIC_OVERFLOW")  # fmt: skip
TIMES = Function("interval times number", "an interval and a whole number", _by_number, _exact(np.multiply), 2, 2,
                 raises="ARITHMETIC_OVERFLOW")  # fmt: skip
BY = Function("interval by number", "an interval and a whole number", _by_number, _divided, 2, 2,
              raises="INTERVAL_DIVIDED_BY_ZERO")  # fmt: skip
OPPOSITE = Function("opposite interval", "an interval", _alike, _exact(np.negative), 1, 1,
                    raises="INTERVAL_ARITHMETIC_OVERFLOW")  # fmt: skip
INTERVALS = (PLUS_MONTHS, PLUS_DAYS, PLUS_MICROSECONDS, PLUS_INTERVAL, BETWEEN, PLUS, MINUS, TIMES, BY, OPPOSITE)
