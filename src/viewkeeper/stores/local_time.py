"""Times as written, without a zone, to UTC: whole columns, with Python's answer (`fold` 0) for each value."""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MICROSECONDS_A_MINUTE = 60_000_000
_RULES_END = 2_114_380_800_000_000
"""2037-01-01: what follows the last change that a zone's file lists is given by a rule, which Arrow does not know."""
_EPOCH = datetime.datetime(1970, 1, 1)


def to_utc(local: np.ndarray, zone: str) -> np.ndarray:
    """int64: microseconds since 1970 in UTC of microseconds as written in `zone`, in the years 1 to 9999.

    A time that was there twice is the earlier one; one that was skipped counts on from before the gap.
    """
    if zone == "UTC":
        return local
    ruled = local >= _RULES_END
    if not ruled.any():
        return local - _listed_offsets(local, zone)
    result = local.copy()
    result[~ruled] -= _listed_offsets(local[~ruled], zone)
    result[ruled] -= _ruled_offsets(local[ruled], zone)
    return result


def _listed_offsets(local: np.ndarray, zone: str) -> np.ndarray:
    # For a skipped time Arrow gives the last instant before the gap, where the offset is the one wanted.
    written = pa.array(local).view(pa.timestamp("us"))
    instant = pc.assume_timezone(written, zone, ambiguous="earliest", nonexistent="earliest")
    shown = pc.local_timestamp(instant).view(pa.int64()).to_numpy()
    offsets: np.ndarray = shown - instant.view(pa.int64()).to_numpy()
    return offsets


def _ruled_offsets(local: np.ndarray, zone: str) -> np.ndarray:
    # Rules change the clock at whole minutes, so it is enough to ask once for each minute.
    minutes, of_row = np.unique(local // MICROSECONDS_A_MINUTE, return_inverse=True)
    in_zone, microsecond = ZoneInfo(zone), datetime.timedelta(microseconds=1)
    offsets = [
        in_zone.utcoffset(_EPOCH + datetime.timedelta(minutes=minute)) // microsecond  # type: ignore[operator]
        for minute in minutes.tolist()
    ]
    return np.array(offsets, np.int64)[of_row]
