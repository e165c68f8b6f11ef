"""Local times to UTC and back, for whole columns and every year from 1 to 9999, as java.time does it.

Arrow's own conversions end with the last change that a zone's file lists, in 2037: what comes later follows a rule, of
which Arrow knows nothing.  So nothing here uses them.  All times are microseconds since 1970 in int64; those that are
NULL may be any number.
"""

from __future__ import annotations

import datetime
import operator
import zoneinfo
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache, partial
from importlib.resources import files
from itertools import accumulate, compress, count, repeat
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

_EPOCH = datetime.datetime(1970, 1, 1)
_SECOND, _WEEK = datetime.timedelta(seconds=1), datetime.timedelta(days=7)
_MICROSECONDS = 1_000_000

_BEFORE_CHANGES = datetime.datetime(1800, 1, 1)
"""No zone has changed its clocks earlier."""
_RULED = datetime.datetime(2100, 1, 1)
"""From here on every zone follows a rule; files list changes up to 2087."""
_CYCLE = datetime.timedelta(days=146_097)
"""400 years: so many days later the same rule finds the same weekdays again."""

_HEADER = Struct(">4xc15x6l")
"""Of a zone's file: its version, and how many it has of each kind of entry; of interest are changes and their types."""

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
    offsets = [_offset(in_zone, _BEFORE_CHANGES)]
    local: list[int] = []
    for instant, offset in zip(*_listed(zone), strict=True):
        if offset != offsets[-1]:
            local.append(instant + max(offsets[-1], offset))
            offsets.append(offset)
    last = _EPOCH + local[-1] * _SECOND if local else _BEFORE_CHANGES
    early, cycle = list(_found(in_zone, last, _RULED)), list[tuple[int, int]]()
    if _has_rule(in_zone):
        cycle = list(_found(in_zone, _RULED, _RULED + _CYCLE))
    (early_local, early_offsets), (cycle_local, cycle_offsets) = (
        np.array(changes, np.int64).reshape(-1, 2).T for changes in (early, cycle)
    )
    cycles = np.arange((_LATEST - _RULED) // _CYCLE + 1)[:, None] * (_CYCLE // _SECOND)
    all_local = np.concatenate([np.array(local, np.int64), early_local, (cycles + cycle_local).ravel()])
    all_offsets = np.concatenate([np.array(offsets, np.int64), early_offsets, np.tile(cycle_offsets, len(cycles))])
    instants = all_local - np.maximum(all_offsets[:-1], all_offsets[1:])
    return Changes(instants * _MICROSECONDS, all_local * _MICROSECONDS, all_offsets * _MICROSECONDS)


def _listed(zone: str) -> tuple[list[int], list[int]]:
    """When clocks changed, in UTC, and how far ahead they were then, as the zone's file lists it (RFC 8536)."""
    content, at, time = _file(zone), 0, ">i4"
    version, *counts = _HEADER.unpack_from(content)
    if version != b"\0":  # the old and short table of each file of today is followed by a whole one
        at, time = _HEADER.size + sum(map(operator.mul, counts, (1, 1, 8, 5, 6, 1))), ">i8"
        version, *counts = _HEADER.unpack_from(content, at)
    times, types = counts[3:5]
    instants = np.frombuffer(content, time, times, at := at + _HEADER.size)
    type_of_each = np.frombuffer(content, np.uint8, times, at := at + instants.nbytes)
    offset_of_type = np.frombuffer(content, [("ahead", ">i4"), ("rest", "V2")], types, at + times)["ahead"]
    return instants.tolist(), offset_of_type[type_of_each].tolist()


def _file(zone: str) -> bytes:
    """The file that ZoneInfo reads: the system's, else that of the package tzdata."""
    for folder in zoneinfo.TZPATH:
        if (path := Path(folder, zone)).is_file():
            return path.read_bytes()
    *folders, name = zone.split("/")
    return files(".".join(["tzdata.zoneinfo", *folders])).joinpath(name).read_bytes()


def _has_rule(zone: ZoneInfo) -> bool:
    """Whether clocks change in the first two of the years in which a rule holds; then they do in each, else in none."""
    return next(_found(zone, _RULED, _RULED + 104 * _WEEK), None) is not None


def _found(zone: ZoneInfo, begin: datetime.datetime, end: datetime.datetime) -> Iterator[tuple[int, int]]:
    """From when on, in seconds of local time, clocks are how far ahead, at each change that a rule makes.

    Such changes are more than a week apart, and come at two times of the week mostly: as in the year before.
    """
    moments = accumulate(repeat(_WEEK, (end - begin) // _WEEK + 1), operator.add, initial=begin)
    offsets = list(map(zone.utcoffset, moments))  # nothing of Python's own in a loop of so many weeks
    usual: dict[datetime.timedelta | None, int] = {}
    for n in compress(count(), map(operator.ne, offsets, offsets[1:])):
        before, after = begin + n * _WEEK, offsets[n + 1]
        changed = partial(_is_ahead, zone, before, after)
        # Fold 0: the offset before a change holds to the end of its gap or overlap.
        seconds = usual.get(after)
        if seconds is None or changed(seconds - 1) or not changed(seconds):
            seconds = usual[after] = bisect_left(range(_WEEK // _SECOND), True, key=changed)
        at = before + seconds * _SECOND
        if at < end:
            yield (at - _EPOCH) // _SECOND, _offset(zone, at)


def _is_ahead(zone: ZoneInfo, begin: datetime.datetime, offset: datetime.timedelta | None, seconds: int) -> bool:
    return zone.utcoffset(begin + seconds * _SECOND) == offset


def _offset(zone: ZoneInfo, local: datetime.datetime) -> int:
    offset = zone.utcoffset(local)
    assert offset is not None, "zones know their offsets"
    return offset // _SECOND
