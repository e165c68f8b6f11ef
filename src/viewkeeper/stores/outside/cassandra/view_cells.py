"""Values of views as cells of Cassandra, whole columns at a time, and back; each value is exact.

| type                   | CQL                                                     |
|------------------------|---------------------------------------------------------|
| BOOLEAN                | boolean                                                 |
| TINYINT .. BIGINT      | tinyint, smallint, int, bigint                          |
| FLOAT, DOUBLE          | float, double (-0.0 as 0.0, every NaN as one)           |
| DECIMAL                | decimal, at the type's scale                            |
| DATE                   | date                                                    |
| INTERVAL               | bigint, its microseconds, or int, its months            |
| BINARY                 | blob                                                    |
| STRING                 | text                                                    |
| TIMESTAMP (_NTZ)       | text, of `values`: CQL's timestamps have milliseconds   |
| ARRAY, STRUCT, MAP     | text, the JSON of `values`                              |
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import Type
from viewkeeper.stores.outside.values import texts_of, value_of
from viewkeeper.trace.keys import canonical, numbers

_EPOCH = datetime.date(1970, 1, 1)
_DATE_SHIFT = 1 << 31


class _Fixed(NamedTuple):
    """Cells that are as long as each other: their CQL type, and the number in them, as NumPy and `struct` have it."""

    cql: str
    dtype: str
    form: str
    said: Callable[[Any], str] = str
    """The text, as in `values`, of such a number."""


_FIXED = {
    "BOOLEAN": _Fixed("boolean", ">u1", ">B", lambda number: "true" if number else "false"),
    "TINYINT": _Fixed("tinyint", ">i1", ">b"), "SMALLINT": _Fixed("smallint", ">i2", ">h"),
    "INT": _Fixed("int", ">i4", ">i"), "BIGINT": _Fixed("bigint", ">i8", ">q"),
    "FLOAT": _Fixed("float", ">f4", ">f"), "DOUBLE": _Fixed("double", ">f8", ">d"),
    "DATE": _Fixed("date", ">u4", ">I",
                   lambda number: (_EPOCH + datetime.timedelta(number - _DATE_SHIFT)).isoformat()),
}  # fmt: skip


def cql_of(type_: Type) -> str:
    """The CQL type of a column of `type_`."""
    fixed = _fixed(type_)
    if fixed is not None:
        return fixed.cql
    return {"DECIMAL": "decimal", "BINARY": "blob"}.get(type_.name, "text")


def is_key_type(type_: Type) -> bool:
    """Whether each value of `type_` can be a key there, and one that is equal is the same cell."""
    return type_.is_integer or type_.name in ("BOOLEAN", "DATE")


def cells_of(type_: Type, physical: pa.Array) -> pa.Array:
    """The cells of a column's physical values, as large_binary; NULLs stay."""
    fixed = _fixed(type_)
    if fixed is not None:
        values = numbers(canonical(physical))
        if type_.name == "DATE":
            values = values.astype(np.int64) + _DATE_SHIFT
        return _array(physical, values.astype(fixed.dtype))
    if type_.is_decimal:
        scale = struct.pack(">i", type_.scale)
        found = [None if number is None else scale + _varint(number) for number in _unscaled(physical)]
        return pa.array(found, pa.large_binary())
    return texts_of(type_, physical)


def value_in(type_: Type, cell: bytes | None, zone: str) -> Any:
    """The value, as users see it, of a cell; raises ValueError where it is none of the type."""
    if cell is None:
        return None
    fixed = _fixed(type_)
    if fixed is not None:
        if len(cell) != struct.calcsize(fixed.form):
            raise ValueError(f"{len(cell)} bytes are no {type_}")
        return value_of(type_, fixed.said(struct.unpack(fixed.form, cell)[0]).encode(), zone)
    if type_.is_decimal:
        if len(cell) < 5:
            raise ValueError(f"{len(cell)} bytes are no {type_}")
        unscaled = int.from_bytes(cell[4:], "big", signed=True)
        digits = tuple(map(int, str(abs(unscaled))))
        exact = Decimal((int(unscaled < 0), digits, -struct.unpack(">i", cell[:4])[0]))
        return value_of(type_, format(exact, "f").encode(), zone)
    return value_of(type_, cell, zone)


def _fixed(type_: Type) -> _Fixed | None:
    if type_.is_interval:
        return _FIXED["INT" if type_.is_month_interval else "BIGINT"]
    return _FIXED.get(type_.name)


def _array(physical: pa.Array, values: np.ndarray) -> pa.Array:
    width = values.dtype.itemsize
    offsets = np.arange(len(values) + 1, dtype=np.int64) * width
    present = physical.is_valid().to_numpy(zero_copy_only=False)
    validity = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(values.tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


def _unscaled(physical: pa.Array) -> list[int | None]:
    if not pa.types.is_decimal128(physical.type):
        found: list[int | None] = physical.to_pylist()
        return found
    present = physical.is_valid().to_pylist()
    return [(high << 64) | (low & 0xFFFFFFFFFFFFFFFF) if there else None
            for there, (low, high) in zip(present, numbers(physical).tolist(), strict=True)]  # fmt: skip


def _varint(number: int) -> bytes:
    """As few bytes as it takes."""
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)
