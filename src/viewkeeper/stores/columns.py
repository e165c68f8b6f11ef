"""Whole columns of Python values or Arrow arrays to physical arrays.

What Arrow converts without loss, and exactly as `values` would, it converts; all else goes value by value through
`values`, which also words the refusal.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from types import NoneType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.text_lengths import fitted
from viewkeeper.catalog.time_zones import to_utc
from viewkeeper.catalog.types import INTERVALS, TIMESTAMP_NTZ, Type, logical_type, of_parts, physical_type, type_of
from viewkeeper.catalog.types import to_physical as arrow_to_physical
from viewkeeper.changes.layout import numbers
from viewkeeper.changes.verify import outside_time
from viewkeeper.files import Texts
from viewkeeper.stores.texts import plain, reader
from viewkeeper.stores.value_conversion import Converter, ValueRefused, to_parts, to_physical

BLOCK_ROWS = 1024
"""`each` looks so many values through one by one where one among them is bad."""

_PLAIN: dict[str, type] = {
    "BOOLEAN": bool, "TINYINT": int, "SMALLINT": int, "INT": int, "BIGINT": int, "FLOAT": float, "DOUBLE": float,
    "DECIMAL": Decimal, "STRING": str, "BINARY": bytes, "DATE": datetime.date, "TIMESTAMP": datetime.datetime,
    "TIMESTAMP_NTZ": datetime.datetime,
    **{name: int if Type(name).is_month_interval else datetime.timedelta for name in INTERVALS},
}  # fmt: skip
_MILLISECONDS_A_DAY = 86_400_000
_CANNOT = (pa.ArrowException, OverflowError, UnicodeEncodeError, TypeError, ValueError)


class BadValue(Exception):
    """A value that its column cannot hold: `row` counts from 0, the message is the reason."""

    def __init__(self, row: int, reason: str) -> None:
        self.row = row
        super().__init__(reason)


class ColumnIntake:
    """Takes values for one column of `type_`, which may be `declared` with the lengths of texts (`Column.declared`);
    naive times are in `zone`.  The methods `from_...` raise BadValue.

    `one` converts a single Python value, `read` one text in a file; both raise Refused.
    """

    def __init__(self, type_: Type, zone: str, declared: Type | None = None) -> None:
        self.type, self.zone, self.declared = type_, zone, declared
        self.one, self._parts = to_physical(declared or type_, zone), to_parts(declared or type_, zone)
        self.read = reader(type_, self._parts)
        self._logical, self._physical = logical_type(type_, zone), physical_type(type_)

    def from_values(self, values: Sequence[Any]) -> pa.Array:
        """A physical array of Python values; None is NULL."""
        kinds = set(map(type, values)) - {NoneType}
        if not kinds:
            return pa.nulls(len(values), self._physical)
        if kinds == {_PLAIN.get(self.type.name)} and self._is_plain(values):
            try:
                if self.type.name == "FLOAT":
                    return _to_float(pa.array(values, pa.float64()))
                return self._in_range(arrow_to_physical(pa.array(values, self._logical), self.type))
            except _CANNOT:
                pass  # The slow way finds the value and says why.
        return self._one_by_one(values)

    def from_arrow(self, column: pa.Array) -> pa.Array:
        """A physical array of an Arrow array."""
        column = plainly_held(column)
        if pa.types.is_null(column.type):
            return pa.nulls(len(column), self._physical)
        if self._casts(column.type):
            try:
                column.validate(full=True)  # An array may hold anything: bytes that are no UTF-8, too many digits.
                if self.type.name == "FLOAT" and pa.types.is_floating(column.type):
                    return _to_float(column.cast(pa.float64()))
                if self.type.name == "TIMESTAMP" and column.type.tz is None:
                    return self._in_range(self._in_utc(column.cast(pa.timestamp("us"))))
                return self._in_range(arrow_to_physical(column.cast(self._logical), self.type))
            except _CANNOT:
                pass  # As above.
        return self._one_by_one([_python(value, row) for row, value in enumerate(column)])

    def from_texts(self, texts: Texts) -> pa.Array:
        """A physical array of texts in a file."""
        with suppress(*_CANNOT, BadValue):
            return self.from_arrow(plain(texts.array, self.type))
        return self._one_by_one(texts.array.to_pylist(), self.read)

    def from_any(self, given: pa.Array | Sequence[Any]) -> pa.Array:
        """A physical array of an Arrow array, of texts in a file, or of Python values."""
        if isinstance(given, Texts):
            return self.from_texts(given)
        return self.from_arrow(given) if isinstance(given, pa.Array) else self.from_values(given)

    def each(self, given: pa.Array | Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
        """`from_any`, and NULL where the column cannot hold the value; the reasons by row."""
        with suppress(BadValue):
            return self.from_any(given), {}
        arrays, reasons = [], dict[int, str]()
        for start in range(0, len(given), BLOCK_ROWS):
            block = given[start : start + BLOCK_ROWS]
            try:
                arrays.append(self.from_any(block))
            except BadValue:
                array, bad = self._each_alone(block)
                arrays.append(array)
                reasons.update((start + row, reason) for row, reason in bad.items())
        return pa.concat_arrays(arrays), reasons

    def _each_alone(self, block: pa.Array | Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
        physical, reasons = list[Any](), dict[int, str]()
        convert = self.read if isinstance(block, Texts) else self.one
        for row, given in enumerate(plainly_held(block) if isinstance(block, pa.Array) else block):
            try:
                value = _python(given, row) if isinstance(given, pa.Scalar) else given
                physical.append(None if value is None else convert(value))
            except (BadValue, ValueRefused) as bad:
                reasons[row] = str(bad)
                physical.append(None)
        return pa.array(physical, self._physical), reasons

    def _is_plain(self, values: Sequence[Any]) -> bool:
        """Whether Arrow takes such values as `values` does."""
        if self.type.name == "TIMESTAMP":
            return self.zone == "UTC"  # Arrow reads naive times as UTC.
        if self.type.name == "TIMESTAMP_NTZ":
            return all(value is None or value.tzinfo is None for value in values)
        return True

    def _casts(self, source: pa.DataType) -> bool:
        """Whether Arrow's checked cast from `source` refuses exactly what `values` refuses."""
        is_ = pa.types
        if self.type.name == "TIMESTAMP":
            return bool(is_.is_timestamp(source))
        if self.type.name == "TIMESTAMP_NTZ":
            return bool(is_.is_timestamp(source) and source.tz is None)
        if self.type.is_nested:
            return _is_plainly_nested(source, self.type)
        return bool(_CASTS[self.type.name](source))

    def _in_utc(self, column: pa.Array) -> pa.Array:
        """Physical values of times as written in the zone."""
        local = column.view(pa.int64())
        if outside_time(numbers(local), TIMESTAMP_NTZ, self.zone).any():
            raise ValueError("outside the years 1 to 9999")
        mask = ~local.is_valid().to_numpy(zero_copy_only=False) if local.null_count else None
        return pa.array(to_utc(numbers(local), self.zone), mask=mask)

    def _in_range(self, column: pa.Array) -> pa.Array:
        if self.type.is_interval and (numbers(column) % INTERVALS[self.type.name]).any():
            raise ValueError(f"no {self.type}")
        if self.declared is not None:
            column, too_long = fitted(column, self.declared)
            if too_long.any():
                raise ValueError("too long")
        timed = self.type.name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
        if timed and outside_time(numbers(column), self.type, self.zone).any():
            raise ValueError("outside the years 1 to 9999")
        return column

    def _one_by_one(self, values: Sequence[Any], convert: Converter | None = None) -> pa.Array:
        physical: list[Any] = []
        convert = convert or (self._parts if self.type.is_nested else self.one)
        for row, value in enumerate(values):
            try:
                physical.append(None if value is None else convert(value))
            except ValueRefused as refused:
                raise BadValue(row, str(refused)) from None
        return of_parts(physical, self.type) if self.type.is_nested else pa.array(physical, self._physical)


def _is_plainly_nested(source: pa.DataType, type_: Type) -> bool:
    """Whether an array of `source` holds just what `type_` is, and no times, whose years are to be looked at."""
    try:
        return type_of(source) == type_ and "DATE" not in str(type_) and "TIMESTAMP" not in str(type_)
    except ValueError:
        return False


_CASTS: dict[str, Callable[[pa.DataType], bool]] = {
    "BOOLEAN": pa.types.is_boolean,
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), pa.types.is_integer),
    **dict.fromkeys(("FLOAT", "DOUBLE"), lambda source: pa.types.is_floating(source) or pa.types.is_integer(source)),
    "DECIMAL": lambda source: pa.types.is_decimal(source) or pa.types.is_integer(source),
    "STRING": lambda source: pa.types.is_string(source) or pa.types.is_large_string(source),
    "BINARY": lambda source: (
        pa.types.is_binary(source) or pa.types.is_large_binary(source) or pa.types.is_fixed_size_binary(source)
    ),
    "DATE": pa.types.is_date,
    **{name: pa.types.is_integer if Type(name).is_month_interval else pa.types.is_duration for name in INTERVALS},
}


def plainly_held(column: pa.Array) -> pa.Array:
    """The same values in an Arrow type that conversion knows: no dictionaries, views, runs or extension types."""
    if isinstance(column, pa.ExtensionArray):
        return plainly_held(column.storage)
    if isinstance(column.type, pa.DictionaryType):
        return plainly_held(column.dictionary).take(column.indices)
    if pa.types.is_run_end_encoded(column.type):
        runs = pa.array(np.arange(len(column.values)))
        run = pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(column.run_ends, runs))
        return plainly_held(column.values).take(run.slice(column.offset, len(column)))
    if column.type == pa.string_view():
        return column.cast(pa.large_string())
    return column.cast(pa.large_binary()) if column.type == pa.binary_view() else column


def _to_float(column: pa.Array) -> pa.Array:
    """Doubles rounded to FLOAT; raises ValueError where a finite one becomes infinite."""
    rounded = column.cast(pa.float32(), safe=False)
    if np.isinf(numbers(rounded)).sum() != np.isinf(numbers(column)).sum():
        raise ValueError("too great for a FLOAT")
    return rounded


def _python(value: pa.Scalar, row: int) -> Any:
    if pa.types.is_date64(value.type) and value.is_valid and value.value % _MILLISECONDS_A_DAY:
        raise BadValue(row, f"{value.value} of Arrow's {value.type} is no whole day")
    try:
        return value.as_py()
    except OverflowError:
        beyond = "too long" if pa.types.is_duration(value.type) else "outside the years 1 to 9999"
        raise BadValue(row, f"{value.value} of Arrow's {value.type} is {beyond}") from None
    except LookupError as error:
        raise BadValue(row, f"{value.type.tz!r} is no known time zone") from error
    except ValueError as error:
        raise BadValue(row, str(error)) from None


def is_pandas(rows: Any) -> bool:
    """Whether rows are a pandas DataFrame, which need not be installed."""
    return type(rows).__module__.startswith("pandas") and hasattr(rows, "columns")


def from_pandas(series: Any, type_: Type) -> pa.Array | list[Any]:
    """A pandas column for a column of `type_`, in an Arrow type that conversion knows, or as Python values.

    NaN, NaT and NA are NULL.  Integers that pandas holds as floats, because some are missing, are integers again.
    """
    column = None
    if series.dtype != object and not str(series.dtype).startswith("Sparse"):
        with suppress(pa.ArrowException):  # of complex numbers, say
            column = pa.Array.from_pandas(series)
    if column is None:
        return [None if gone else value for gone, value in zip(series.isna().to_numpy(), series, strict=True)]
    column = plainly_held(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    return _whole_numbers(column) if type_.is_integer and pa.types.is_floating(column.type) else column


def _whole_numbers(column: pa.Array) -> pa.Array | list[Any]:
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:  # some are not whole: these are refused one by one
        return [
            int(value) if isinstance(value, float) and value.is_integer() else value for value in column.to_pylist()
        ]
