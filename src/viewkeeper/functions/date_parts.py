"""Parts of a date or time, each an INT: of a TIMESTAMP, as clocks in the database's time zone show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from viewkeeper.catalog.types import INT, TIMESTAMP, Type, decimal
from viewkeeper.functions.function import Computed, Function, made
from viewkeeper.functions.moments import (
    DAY_US,
    days,
    first_of_month,
    first_of_year,
    local,
    months_of,
    of_moment,
    years_of,
)  # fmt: skip

_ACCEPTS = "a DATE, TIMESTAMP or TIMESTAMP_NTZ"
_Part = Callable[[np.ndarray], np.ndarray]


def _of_day(name: str, part: _Part, *aliases: str) -> Function:
    def kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
        return made(part(days(arguments[0], types[0], zone)).astype(np.int32), arguments[0]), None

    return Function(name, _ACCEPTS, of_moment(INT), kernel, aliases=aliases)


def _of_clock(name: str, part: _Part) -> Function:
    def kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
        clock = local(arguments[0], types[0], zone) % DAY_US // 1_000_000
        return made(part(clock).astype(np.int32), arguments[0]), None

    return Function(name, _ACCEPTS, of_moment(INT, TIMESTAMP), kernel)


def weekday(day: np.ndarray) -> np.ndarray:
    """Monday is 0."""
    return (day + 3) % 7


def week_of_year(day: np.ndarray) -> np.ndarray:
    """ISO 8601: the week with the year's first Thursday is the first."""
    thursday = day - weekday(day) + 3
    return (thursday - first_of_year(years_of(thursday))) // 7 + 1


def month(day: np.ndarray) -> np.ndarray:
    """January is 1."""
    return months_of(day) % 12 + 1


YEAR = _of_day("year", years_of)
QUARTER = _of_day("quarter", lambda day: months_of(day) % 12 // 3 + 1)
MONTH = _of_day("month", month)
DAYOFMONTH = _of_day("dayofmonth", lambda day: day - first_of_month(months_of(day)) + 1, "day")
DAYOFYEAR = _of_day("dayofyear", lambda day: day - first_of_year(years_of(day)) + 1)
DAYOFWEEK = _of_day("dayofweek", lambda day: (day + 4) % 7 + 1)
WEEKDAY = _of_day("weekday", weekday)
WEEKOFYEAR = _of_day("weekofyear", week_of_year)
HOUR = _of_clock("hour", lambda second: second // 3600)
MINUTE = _of_clock("minute", lambda second: second // 60 % 60)
SECOND = _of_clock("second", lambda second: second % 60)


def _exact_seconds(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    return made(local(arguments[0], types[0], zone) % 60_000_000, arguments[0]), None


SECONDS = Function("seconds with fraction", _ACCEPTS, of_moment(decimal(8, 6), TIMESTAMP), _exact_seconds)
"""What EXTRACT(SECOND FROM ...) is bound to."""

PARTS = (YEAR, QUARTER, MONTH, DAYOFMONTH, DAYOFYEAR, DAYOFWEEK, WEEKDAY, WEEKOFYEAR, HOUR, MINUTE, SECOND,
         SECONDS)  # fmt: skip
