"""date_trunc(unit, timestamp) and trunc(date, unit): where the unit begins, on the clocks of the database's zone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from viewkeeper.catalog.time_zones import start_of_day, to_local
from viewkeeper.catalog.types import DATE, STRING, TIMESTAMP, Type
from viewkeeper.functions.date_parts import weekday
from viewkeeper.functions.function import Computed, Function, Signature, made, numbers, taking, wrong_where
from viewkeeper.functions.moments import DAY_US, at_clock, beyond_dates, beyond_moments, first_of_month, months_of

_DAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "week": lambda day: day - weekday(day),
    "month": lambda day: first_of_month(months_of(day)),
    "quarter": lambda day: first_of_month(months_of(day) // 3 * 3),
    "year": lambda day: first_of_month(months_of(day) // 12 * 12),
}
_NAMES = {"mon": "month", "mm": "month", "yyyy": "year", "yy": "year", "dd": "day"}
_UNITS = {"microsecond": 1, "millisecond": 1_000, "second": 1_000_000}
_CLOCK = {"minute": 60_000_000, "hour": 3_600_000_000, "day": DAY_US}


def _unit(name: Any) -> str | None:
    """The unit of this name, None for no unit: Spark answers with NULL then, and does not look at the time."""
    small = name.lower() if isinstance(name, str) else ""
    unit = _NAMES.get(small, small)
    return unit if unit in _DAYS or unit in _UNITS or unit in _CLOCK else None


def _date_result(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    return taking(DATE, DATE, STRING)(types, values) if _unit(values[1]) in _DAYS else None


def _timestamp_result(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    return taking(TIMESTAMP, STRING, TIMESTAMP)(types, values) if _unit(values[0]) else None


def _of_date(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    dates, unit = arguments
    day = _DAYS[_unit(unit) or ""](numbers(dates).astype(np.int64))
    return made(day.astype(np.int32), dates), wrong_where(beyond_dates(day))


def _of_timestamp(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    unit, times = arguments
    name, utc = _unit(unit) or "", numbers(times)
    if name in _UNITS:
        return made(utc - utc % _UNITS[name], times), None
    local = to_local(utc, zone)
    if name in _CLOCK:
        began = at_clock(local - local % _CLOCK[name], utc, zone)
    else:
        began = start_of_day(_DAYS[name](local // DAY_US) * DAY_US, zone)
    return made(began, times), wrong_where(beyond_moments(began, TIMESTAMP, zone))


_RAISES = "DATETIME_OVERFLOW"
DATE_TRUNC = Function("date_trunc", "a constant unit and a TIMESTAMP", _timestamp_result, _of_timestamp, 2, 2,
                      constants=(0,), nullable=True, raises=_RAISES)  # fmt: skip
TRUNC = Function("trunc", "a DATE and a constant unit of a week or more", _date_result, _of_date, 2, 2, constants=(1,),
                 nullable=True, raises=_RAISES)  # fmt: skip
