"""Times counted on by constant intervals: what `timestamp + INTERVAL ...` is bound to.

Months and days are counted on the clocks of the database's zone, hours and less in UTC, as java.time does it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from viewkeeper.catalog.time_zones import to_local
from viewkeeper.catalog.types import BIGINT, TIMESTAMP, Type
from viewkeeper.functions.function import Computed, Function, Signature, made, numbers, wrong_where
from viewkeeper.functions.moments import DAY_US, at_clock, beyond_moments, plus_months


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
