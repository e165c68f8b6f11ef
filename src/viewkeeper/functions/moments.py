"""What the functions of dates and times share: days and microseconds since 1970, the calendar, the limits of the years.

Days are int64.  A year, month or day is one of the Gregorian calendar, before 1582 too, as java.time has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.time_zones import limits, to_local, to_utc
from viewkeeper.catalog.types import DATE, TIMESTAMP, TIMESTAMP_NTZ, Type
from viewkeeper.functions.function import Signature, SignatureOf, implicit, numbers

DAY_US = 86_400_000_000
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""Of the years 1 and 9999, beyond which no DATE, TIMESTAMP or TIMESTAMP_NTZ is kept here."""

MOMENTS = (DATE, TIMESTAMP, TIMESTAMP_NTZ)


def of_moment(result: Type, otherwise: Type = DATE) -> SignatureOf:
    """Of a function of one moment of whatever type; a text is converted to `otherwise`."""

    def signature(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
        first = types[0] if types[0] in MOMENTS else otherwise
        return (result, (first, *types[1:])) if implicit(types[0], first) else None

    return signature


def local(values: pa.Array, type_: Type, zone: str) -> np.ndarray:
    """A TIMESTAMP's or TIMESTAMP_NTZ's microseconds since 1970 as clocks show them; a DATE's are its midnight."""
    if type_ == DATE:
        return numbers(values).astype(np.int64) * DAY_US
    return to_local(numbers(values), zone) if type_ == TIMESTAMP else numbers(values)


def days(values: pa.Array, type_: Type, zone: str) -> np.ndarray:
    """The days since 1970 on which these moments lie."""
    return numbers(values).astype(np.int64) if type_ == DATE else local(values, type_, zone) // DAY_US


def years_of(day: np.ndarray) -> np.ndarray:
    return day.astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + 1970


def months_of(day: np.ndarray) -> np.ndarray:
    """Months since January 1970."""
    return day.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def first_of_month(months: np.ndarray) -> np.ndarray:
    """The first day of each month, given as months since January 1970."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def first_of_year(years: np.ndarray) -> np.ndarray:
    return (years - 1970).astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64)


def plus_months(day: np.ndarray, count: np.ndarray) -> np.ndarray:
    """So many months later, or the last day of that month where it has fewer days."""
    months = months_of(day)
    later = months + count
    wanted = first_of_month(later) + day - first_of_month(months)
    last: np.ndarray = first_of_month(later + 1) - 1
    return np.minimum(wanted, last)


def beyond_dates(day: np.ndarray) -> np.ndarray:
    """Where a day lies outside the years 1 to 9999."""
    outside: np.ndarray = (day < FIRST_DAY) | (day > LAST_DAY)
    return outside


def moments_kept(type_: Type, zone: str) -> tuple[int, int]:
    """The first and the last TIMESTAMP or TIMESTAMP_NTZ that there is."""
    return limits(zone) if type_ == TIMESTAMP else (FIRST_DAY * DAY_US, (LAST_DAY + 1) * DAY_US - 1)


def beyond_moments(microseconds: np.ndarray, type_: Type, zone: str) -> np.ndarray:
    """Where a TIMESTAMP or TIMESTAMP_NTZ lies outside the years 1 to 9999."""
    first, last = moments_kept(type_, zone)
    outside: np.ndarray = (microseconds < first) | (microseconds > last)
    return outside


def at_clock(clock: np.ndarray, before: np.ndarray, zone: str) -> np.ndarray:
    """UTC of times as clocks in `zone` show them; of one that was there twice, the one with the offset that was in
    force at `before` (UTC).  java.time's `ZonedDateTime.ofLocal` with a preferred offset."""
    if zone == "UTC":
        return clock
    same = clock - (to_local(before, zone) - before)
    return np.where(to_local(same, zone) == clock, same, to_utc(clock, zone))
