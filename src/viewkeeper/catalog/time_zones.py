"""Local times to UTC and back, for whole columns and every year from 1 to 9999, as java.time does it.

Arrow's own conversions end with the last change that a zone's file lists, in 2037: what comes later follows a rule, of
which Arrow knows nothing.  So nothing here uses them.  All times are microseconds since 1970 in int64; those that are
NULL may be any number.
"""

from __future__ import annotations

import datetime
import operator
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import accumulate, compress, count, repeat
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

_EPOCH = datetime.datetime(1970, 1, 1)
_SECOND, _DAY = datetime.timedelta(seconds=1), datetime.timedelta(days=1)
_MICROSECONDS = 1_000_000

_BEFORE_CHANGES = datetime.datetime(1800, 1, 1)
"""No zone has changed its clocks earlier."""
_RULED = datetime.datetime(2100, 1, 1)
"""From here on every zone follows a rule; files list changes up to 2087."""
_CYCLE = datetime.timedelta(days=146_097)
"""400 years: so many days later the same rule finds the same weekdays again."""

_EARLIEST, _LATEST = datetime.datetime.min, datetime.datetime.max


class Changes(NamedTuple):
    """The changes of a zone's clocks, in order; times in microseconds.

    Change i came at `instants[i]` in UTC; clocks were `offsets[i]` ahead of UTC before it and `offsets[i + 1]` after
    it.  Local times from `local[i]` on are unambiguously after it: those that it skipped or repeated lie before.
    """

    instants: np.ndarray
    local: np.ndarray
    offsets: np.ndarray


def to_utc(local: np.ndarray, zone: str) -> np.ndarray:
    """UTC of times as clocks in `zone` show them; java.time's `atZone`.

    A time that was there twice is the earlier one; one that was skipped counts on from before the gap.
    """
    if zone == "UTC":
        return local
    changes = _changes(zone)
    result: np.ndarray = local - changes.offsets[np.searchsorted(changes.local, local, side="right")]
    return result


def start_of_day(midnight: np.ndarray, zone: str) -> np.ndarray:
    """UTC of the first moment of each day, given by its midnight; java.time's `atStartOfDay`.

    As `to_utc`, but a day whose midnight was skipped begins where the gap ends.
    """
    if zone == "UTC":
        return midnight
    changes = _changes(zone)
    change = np.searchsorted(changes.local, midnight, side="right")
    instant: np.ndarray = midnight - changes.offsets[change]
    following = np.append(changes.instants, np.iinfo(np.int64).max)[change]
    return np.minimum(instant, following)


def to_local(utc: np.ndarray, zone: str) -> np.ndarray:
    """What clocks in `zone` show at moments in UTC."""
    if zone == "UTC":
        return utc
    changes = _changes(zone)
    result: np.ndarray = utc + changes.offsets[np.searchsorted(changes.instants, utc, side="right")]
    return result


@lru_cache(maxsize=64)
def limits(zone: str) -> tuple[int, int]:
    """The first and last moment that lie in the years 1 to 9999 both in UTC and as clocks in `zone` show them."""
    in_zone, microsecond = ZoneInfo(zone), datetime.timedelta(microseconds=1)
    least, greatest = (
        ((end - _EPOCH) // microsecond, _offset(in_zone, end) * _MICROSECONDS) for end in (_EARLIEST, _LATEST)
    )
    return least[0] - min(least[1], 0), greatest[0] - max(greatest[1], 0)


@lru_cache(maxsize=64)
def _changes(zone: str) -> Changes:
    in_zone = ZoneInfo(zone)
    first = _offset(in_zone, _BEFORE_CHANGES)
    listed = _found(in_zone, _BEFORE_CHANGES, _RULED, _DAY)
    ruled = _found(in_zone, _RULED, _RULED + _CYCLE, 7 * _DAY) if _has_rule(in_zone) else ()
    (listed_local, listed_offsets), (ruled_local, ruled_offsets) = (
        np.array([*changes], np.int64).reshape(-1, 2).T for changes in (listed, ruled)
    )
    cycles = np.arange((_LATEST - _RULED) // _CYCLE + 1)[:, None] * (_CYCLE // _SECOND)
    local = np.concatenate([listed_local, (cycles + ruled_local).ravel()])
    offsets = np.concatenate([[first], listed_offsets, np.tile(ruled_offsets, len(cycles))])
    instants = local - np.maximum(offsets[:-1], offsets[1:])
    return Changes(instants * _MICROSECONDS, local * _MICROSECONDS, offsets * _MICROSECONDS)


def _has_rule(zone: ZoneInfo) -> bool:
    """Whether clocks change in the first two of the years in which a rule holds; then they do in each, else in none."""
    return next(_found(zone, _RULED, _RULED + 104 * 7 * _DAY, 7 * _DAY), None) is not None


def _found(
    zone: ZoneInfo, begin: datetime.datetime, end: datetime.datetime, step: datetime.timedelta
) -> Iterator[tuple[int, int]]:
    """From when on, in seconds of local time, clocks are how far ahead, at each change; changes are `step` apart."""
    moments = accumulate(repeat(step, (end - begin) // step), operator.add, initial=begin)
    offsets = list(map(zone.utcoffset, moments))  # nothing of Python's own in a loop of so many days
    for n in compress(count(), map(operator.ne, offsets, offsets[1:])):
        before, after = begin + n * step, offsets[n + 1]
        changed = partial(_is_ahead, zone, before, after)
        # Fold 0: the offset before a change holds to the end of its gap or overlap.
        at = before + bisect_left(range(step // _SECOND), True, key=changed) * _SECOND
        yield (at - _EPOCH) // _SECOND, _offset(zone, at)


def _is_ahead(zone: ZoneInfo, begin: datetime.datetime, offset: datetime.timedelta | None, seconds: int) -> bool:
    return zone.utcoffset(begin + seconds * _SECOND) == offset


def _offset(zone: ZoneInfo, local: datetime.datetime) -> int:
    offset = zone.utcoffset(local)
    assert offset is not None, "zones know their offsets"
    return offset // _SECOND
