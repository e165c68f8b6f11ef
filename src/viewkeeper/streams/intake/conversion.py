"""Rows as given to rows as stored: each is converted and judged apart, and a bad one rejected with its reason."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Column, Stream
from viewkeeper.catalog.time_zones import to_utc
from viewkeeper.catalog.types import physical_type, to_logical
from viewkeeper.changes.layout import is_null, numbers
from viewkeeper.files import Number, Texts
from viewkeeper.stores.columns import ColumnIntake
from viewkeeper.stores.texts import value_of
from viewkeeper.stores.value_conversion import ValueRefused
from viewkeeper.streams.intake.given import Given, Values
from viewkeeper.streams.intake.taking import MICROSECONDS, too_late

_EPOCH = datetime.datetime(1970, 1, 1)

Rejects = list[tuple[str, bytes]]
"""Reasons and rows (JSON objects)."""


@dataclass(frozen=True)
class ConvertedRows:
    """Good rows of a stream: physical columns in declared order, and their timestamps (microseconds, UTC)."""

    columns: list[pa.Array]
    times: np.ndarray

    def __len__(self) -> int:
        return len(self.times)

    @property
    def bytes(self) -> int:
        """What they take in memory."""
        return sum(column.nbytes for column in self.columns)

    @staticmethod
    def concat(parts: Sequence[ConvertedRows]) -> ConvertedRows:
        """All rows of `parts` (at least one), in order."""
        if len(parts) == 1:
            return parts[0]
        columns = [pa.concat_arrays([part.columns[i] for part in parts]) for i in range(len(parts[0].columns))]
        return ConvertedRows(columns, np.concatenate([part.times for part in parts]))


class Conversion:
    """Takes rows for one stream; naive times are in `zone`, `now` is the wall time (seconds)."""

    def __init__(self, stream: Stream, zone: str, now: float) -> None:
        self._stream, self._zone, self._now = stream, zone, now
        self._intakes = [ColumnIntake(column.type, zone, column.declared) for column in stream.columns]

    def rows(self, given: Given, watermark: int | None) -> tuple[ConvertedRows, Rejects]:
        """The good rows of a batch, and the bad ones."""
        reasons: dict[int, str] = {}
        named = dict(zip(given.positions, given.values, strict=True))
        columns = []
        for i, column in enumerate(self._stream.columns):
            bad: Mapping[int, str] = {}
            if i in named:
                values, bad = self._intakes[i].each(named[i])
            else:
                values = pa.nulls(given.length, physical_type(column.type))
            columns.append(values)
            for row, reason in bad.items():
                reasons.setdefault(row, f"column {column.name} {column.type}: {reason}")
            if values.null_count and (i == self._stream.time or not column.nullable):
                why = "a row needs its time" if i == self._stream.time else "it is NOT NULL"
                for row in np.flatnonzero(is_null(values)).tolist():
                    reasons.setdefault(row, f"column {column.name} is NULL, and {why}")
        rows = ConvertedRows(columns, self.times(columns))
        self._judge_times(rows, watermark, reasons)
        if given.place is not None:
            reasons = {row: f"{reason} ({given.place(row)})" for row, reason in reasons.items()}
        named_columns = [self._stream.columns[i] for i in given.positions]
        return self._parted(rows, reasons, named_columns, given.values)

    def rows_again(self, columns: list[pa.Array], watermark: int | None) -> tuple[ConvertedRows, Rejects]:
        """Converted rows (physical columns), whose times are judged by a watermark, the first time or again."""
        rows, reasons = ConvertedRows(columns, self.times(columns)), dict[int, str]()
        self._judge_times(rows, watermark, reasons)
        given = [to_logical(values, column.type) for values, column in zip(columns, self._stream.columns, strict=True)
                 ] if reasons else []  # fmt: skip
        return self._parted(rows, reasons, self._stream.columns, given)

    def times(self, columns: Sequence[pa.Array]) -> np.ndarray:
        """int64: the timestamps of rows, in microseconds since 1970 in UTC; any number where NULL."""
        times = numbers(columns[self._stream.time])
        is_local = self._stream.columns[self._stream.time].type.name == "TIMESTAMP_NTZ"
        return to_utc(times, self._zone) if is_local else times

    def _judge_times(self, rows: ConvertedRows, watermark: int | None, reasons: dict[int, str]) -> None:
        name = self._stream.columns[self._stream.time].name
        latest = int(self._now * MICROSECONDS) + self._stream.ahead * MICROSECONDS
        ahead = rows.times > latest
        if ahead.any():
            for row in np.flatnonzero(ahead).tolist():
                reasons.setdefault(row, f"column {name}: {_shown(rows.times[row])} is later than the wall clock by "
                                        f"more than MAX AHEAD, {self._stream.ahead} seconds")  # fmt: skip
        earliest = too_late(self._stream, watermark)
        if earliest is None:
            return
        behind = rows.times < earliest
        if behind.any():
            limit = (f"HORIZON, {self._stream.horizon} seconds" if self._stream.horizon is not None
                     else f"parts are kept, {self._stream.expire} seconds")  # fmt: skip
            for row in np.flatnonzero(behind).tolist():
                reasons.setdefault(row, f"column {name}: {_shown(rows.times[row])} is further behind the watermark, "
                                        f"{_shown(watermark)}, than {limit}")  # fmt: skip

    def _parted(
        self, rows: ConvertedRows, reasons: Mapping[int, str], columns: Sequence[Column], given: Sequence[Values]
    ) -> tuple[ConvertedRows, Rejects]:
        if not reasons:
            return rows, []
        rejects = [(reasons[row], _row_bytes(columns, given, row)) for row in sorted(reasons)]
        keep = np.ones(len(rows), bool)
        keep[list(reasons)] = False
        index = pa.array(np.flatnonzero(keep))
        return ConvertedRows([column.take(index) for column in rows.columns], rows.times[keep]), rejects


def _row_bytes(columns: Sequence[Column], given: Sequence[Values], row: int) -> bytes:
    """A row as it was given, as a JSON object."""
    found = {}
    for column, values in zip(columns, given, strict=True):
        value = values[row]
        if isinstance(values, Texts) and value is not None:
            with suppress(ValueRefused):
                value = value_of(value, column.type)
        elif isinstance(value, Number):
            value = value.text if column.type.is_decimal else float(value.text)
        found[column.name] = _json(value)
    return json.dumps(found).encode()


def _json(value: Any) -> Any:
    """A value for JSON, such that appending it again has the same outcome where that is possible."""
    if isinstance(value, pa.Scalar):
        try:
            value = value.as_py()
        except (ValueError, OverflowError, LookupError):  # bytes that are no UTF-8, a year that Python has not
            return _of_scalar(value)
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    return str(value) if isinstance(value, Decimal) else repr(value)


def _of_scalar(value: pa.Scalar) -> Any:
    if pa.types.is_temporal(value.type):
        return value.value
    buffer = getattr(value, "as_buffer", lambda: None)()
    return repr(value) if buffer is None else buffer.to_pybytes().decode("utf-8", "backslashreplace")


def _shown(microseconds: Any) -> str:
    try:
        return f"{_EPOCH + datetime.timedelta(microseconds=int(microseconds))} UTC"
    except OverflowError:  # of the first or last hours that clocks show in a zone
        return f"Unix time {int(microseconds) // MICROSECONDS:,}"
