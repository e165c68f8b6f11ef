"""Dates counted on: date_add, date_sub, add_months, datediff, last_day, make_date.

A date beyond the years 1 to 9999 raises, since none is kept here (Spark counts on).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import DATE, INT, STRING, Type
from viewkeeper.functions.date_parts import weekday
from viewkeeper.functions.function import Computed, Function, Signature, made, numbers, taking, wrong_where
from viewkeeper.functions.moments import beyond_dates, first_of_month, months_of, plus_months

_OVERFLOW = "DATETIME_OVERFLOW"


def _dates(day: np.ndarray, arguments: Sequence[pa.Array]) -> Computed:
    return made(day.astype(np.int32), *arguments), wrong_where(beyond_dates(day))


def _whole(values: pa.Array) -> np.ndarray:
    return numbers(values).astype(np.int64)


def _add(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    return _dates(_whole(arguments[0]) + _whole(arguments[1]), arguments)


def _subtract(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    return _dates(_whole(arguments[0]) - _whole(arguments[1]), arguments)


def _add_months(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    return _dates(plus_months(_whole(arguments[0]), _whole(arguments[1])), arguments)


def _difference(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    return made((_whole(arguments[0]) - _whole(arguments[1])).astype(np.int32), *arguments), None


def _last_day(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    return made((first_of_month(months_of(_whole(arguments[0])) + 1) - 1).astype(np.int32), arguments[0]), None


_WEEKDAYS = {name[:length]: number for number, name in enumerate(
    ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
) for length in (2, 3, len(name))}  # fmt: skip


def _next_result(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    known = isinstance(values[1], str) and values[1].strip(" ").lower() in _WEEKDAYS
    return taking(DATE, DATE, STRING)(types, values) if known else None


def _next_day(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    dates, name = arguments
    day = _whole(dates)
    return _dates(day + 1 + (_WEEKDAYS[name.strip(" ").lower()] - weekday(day + 1)) % 7, [dates])


def _make(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    year, month, day = (_whole(argument) for argument in arguments)
    months = (np.clip(year, 1, 9999) - 1970) * 12 + np.clip(month, 1, 12) - 1
    made_of = first_of_month(months) + day - 1
    wrong = (
        (year < 1) | (year > 9999) | (month < 1) | (month > 12) | (day < 1) | (made_of >= first_of_month(months + 1))
    )
    return made(np.where(wrong, 0, made_of).astype(np.int32), *arguments), wrong_where(wrong)


_ACCEPTS = "a DATE and an INT"
DATE_ADD = Function("date_add", _ACCEPTS, taking(DATE, DATE, INT), _add, 2, 2, aliases=("dateadd",), raises=_OVERFLOW,
                    shown=lambda name, arguments: f"date_add({', '.join(arguments)})")  # fmt: skip
DATE_SUB = Function("date_sub", _ACCEPTS, taking(DATE, DATE, INT), _subtract, 2, 2, raises=_OVERFLOW)
ADD_MONTHS = Function("add_months", _ACCEPTS, taking(DATE, DATE, INT), _add_months, 2, 2, raises=_OVERFLOW)
DATEDIFF = Function("datediff", "two DATEs", taking(INT, DATE, DATE), _difference, 2, 2, aliases=("date_diff",))
LAST_DAY = Function("last_day", "a DATE", taking(DATE, DATE), _last_day)
NEXT_DAY = Function("next_day", "a DATE and a constant day of the week", _next_result, _next_day, 2, 2, constants=(1,),
                    nullable=True, raises=_OVERFLOW)  # fmt: skip
MAKE_DATE = Function("make_date", "three INTs", taking(DATE, INT, INT, INT), _make, 3, 3,
                     raises="DATETIME_FIELD_OUT_OF_BOUNDS")  # fmt: skip
