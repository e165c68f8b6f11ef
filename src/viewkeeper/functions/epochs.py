"""Times as numbers since 1970, and back: unix_timestamp, unix_seconds, timestamp_seconds, unix_date and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viewkeeper.catalog.time_zones import start_of_day
from viewkeeper.catalog.types import BIGINT, DATE, INT, TIMESTAMP, Type
from viewkeeper.functions.function import Computed, Function, Signature, made, numbers, taking, wrong_where
from viewkeeper.functions.moments import DAY_US, MOMENTS, beyond_dates, beyond_moments

_SECOND = 1_000_000


def _unix_result(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    # A text would be read by a pattern.
    return (BIGINT, (types[0],)) if types[0] in MOMENTS else None


def _unix(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    if types[0] == DATE:
        return made(start_of_day(numbers(arguments[0]).astype(np.int64) * DAY_US, zone) // _SECOND, arguments[0]), None
    whole = numbers(arguments[0])
    # Towards 1970, where the rest of them round down.
    return made(np.where(whole < 0, -(-whole // _SECOND), whole // _SECOND), arguments[0]), None


def _counted(name: str, unit: int) -> Function:
    def kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
        return made(numbers(arguments[0]) // unit, arguments[0]), None

    def result(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
        return (BIGINT, (TIMESTAMP,)) if types[0] == TIMESTAMP else None

    return Function(name, "a TIMESTAMP", result, kernel)


def _moment(name: str, unit: int) -> Function:
    def kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
        count = numbers(arguments[0])
        most = (1 << 62) // unit
        times = np.clip(count, -most, most) * unit
        return made(times, arguments[0]), wrong_where(beyond_moments(times, TIMESTAMP, zone))

    def result(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
        return taking(TIMESTAMP, BIGINT)(types, values) if types[0].is_integer else None

    return Function(name, "a whole number", result, kernel, raises="DATETIME_OVERFLOW")


def _unix_date(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    return arguments[0], None


def _date(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    return arguments[0], wrong_where(beyond_dates(numbers(arguments[0])))


def _unix_shown(name: str, arguments: Sequence[str]) -> str:
    return f"{name}({arguments[0]}, yyyy-MM-dd HH:mm:ss)"


_ACCEPTS = "a DATE, TIMESTAMP or TIMESTAMP_NTZ"
UNIX_TIMESTAMP = Function("unix_timestamp", _ACCEPTS, _unix_result, _unix, shown=_unix_shown)
TO_UNIX_TIMESTAMP = Function("to_unix_timestamp", _ACCEPTS, _unix_result, _unix, shown=_unix_shown)
UNIX_SECONDS = _counted("unix_seconds", 1_000_000)
UNIX_MILLIS = _counted("unix_millis", 1_000)
UNIX_MICROS = _counted("unix_micros", 1)
TIMESTAMP_SECONDS = _moment("timestamp_seconds", 1_000_000)
TIMESTAMP_MILLIS = _moment("timestamp_millis", 1_000)
TIMESTAMP_MICROS = _moment("timestamp_micros", 1)
UNIX_DATE = Function("unix_date", "a DATE", taking(INT, DATE), _unix_date)
DATE_FROM_UNIX_DATE = Function("date_from_unix_date", "an INT", taking(DATE, INT), _date, raises="DATETIME_OVERFLOW")

EPOCHS = (UNIX_TIMESTAMP, TO_UNIX_TIMESTAMP, UNIX_SECONDS, UNIX_MILLIS, UNIX_MICROS, TIMESTAMP_SECONDS,
          TIMESTAMP_MILLIS, TIMESTAMP_MICROS, UNIX_DATE, DATE_FROM_UNIX_DATE)  # fmt: skip
