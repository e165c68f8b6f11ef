"""Columns of values as Cassandra writes them, and what they are: whole columns at a time.

| CQL                  | bytes                                                    | column                       |
|----------------------|----------------------------------------------------------|------------------------------|
| tinyint .. bigint    | big-endian                                               | that integer, or a wider one |
| varint               | big-endian, as many as it takes                          | DECIMAL                      |
| decimal              | the scale (4 bytes), then the unscaled value as a varint | DECIMAL                      |
| float, double        | IEEE, big-endian                                         | FLOAT, DOUBLE                |
| boolean              | one                                                      | BOOLEAN                      |
| ascii, text, varchar | UTF-8                                                    | STRING                       |
| uuid, timeuuid       | 16                                                       | STRING, in small letters     |
| inet                 | 4 or 16                                                  | STRING                       |
| blob                 | themselves                                               | BINARY                       |
| date                 | days since 1970 plus 2**31, big-endian                   | DATE                         |
| timestamp            | milliseconds since 1970, big-endian                      | TIMESTAMP                    |
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Type,
    decimal,
)  # fmt: skip
from viewkeeper.errors import NotSupported
from viewkeeper.stores.columns import ColumnIntake

NATURAL: dict[str, Type] = {
    "tinyint": TINYINT, "smallint": SMALLINT, "int": INT, "bigint": BIGINT, "varint": decimal(38, 0), "float": FLOAT,
    "double": DOUBLE, "boolean": BOOLEAN, "ascii": STRING, "text": STRING, "varchar": STRING, "uuid": STRING,
    "timeuuid": STRING, "inet": STRING, "blob": BINARY, "date": DATE, "timestamp": TIMESTAMP,
}  # fmt: skip
"""The type of a column of each CQL type, where nobody says another."""

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_NO_KEYS = ("decimal", "float", "double")
_DIGITS, _WIDTH = 38, 16
"""Of Arrow's decimals: digits, and bytes."""


@dataclass
class RawColumn:
    """Values that lie in `data` (uint8): from where (`begins`) how many bytes (`lengths`, -1: none, NULL)."""

    data: np.ndarray
    begins: np.ndarray
    lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.lengths)

    def take(self, rows: np.ndarray) -> RawColumn:
        """The values of `rows`."""
        return RawColumn(self.data, self.begins[rows], self.lengths[rows])

    def value(self, row: int) -> bytes:
        """The bytes of one; none of a NULL."""
        begin = int(self.begins[row])
        return self.data[begin : begin + max(0, int(self.lengths[row]))].tobytes()

    def fixed(self, rows: np.ndarray, width: int) -> np.ndarray:
        """uint8[n, width]: the bytes of values that all are so long."""
        found: np.ndarray = self.data[self.begins[rows][:, None] + np.arange(width)]
        return found

    def texts(self, binary: bool) -> pa.Array:
        """As they are: large_binary, or large_string, which is not looked at."""
        lengths = np.maximum(self.lengths, 0).astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        total = int(offsets[-1])
        where = np.arange(total) + np.repeat(self.begins - offsets[:-1], lengths)
        type_ = pa.large_binary() if binary else pa.large_string()
        buffers = [_validity(self.lengths >= 0), pa.py_buffer(offsets), pa.py_buffer(self.data[where])]
        return pa.Array.from_buffers(type_, len(self), buffers)


def natural(cql: str, column: str) -> Type:
    """The type of a column of the type `cql`; raises NotSupported where no column can be of it."""
    if cql == "decimal":
        raise NotSupported(f"the column {column} is a decimal of any scale; say which: {column} DECIMAL(p, s)")
    if cql not in NATURAL:
        raise NotSupported(f"the column {column} is of Cassandra's type {cql}, which no column here can have; name the "
                           "columns that are wanted, without it")  # fmt: skip
    return NATURAL[cql]


def misfit(cql: str, type_: Type, in_key: bool) -> str | None:
    """Why a column of the type `cql` cannot be declared as `type_`; None where it can."""
    if cql not in NATURAL and cql != "decimal":
        return f"is of Cassandra's type {cql}, which no column here can have: leave it out"
    if in_key and cql in _NO_KEYS:
        return (f"is of Cassandra's type {cql} and in the key, where it holds values apart that are equal here: "
                "-0.0 and 0.0, 1.0 and 1.00")  # fmt: skip
    if type_ == NATURAL.get(cql) or (cql in ("decimal", "varint") and type_.is_decimal):
        return None
    if cql in _INTEGERS and any(type_ == NATURAL[wider] for wider in _INTEGERS[_INTEGERS.index(cql) :]):
        return None
    if cql == "float" and type_ == DOUBLE:
        return None
    wanted = "DECIMAL(p, s)" if cql == "decimal" else NATURAL[cql]
    return f"is of Cassandra's type {cql}, which is {wanted}, and declared is {type_}"


def physical(cql: str, column: RawColumn, intake: ColumnIntake) -> tuple[pa.Array, dict[int, str]]:
    """Values of the type `cql` as those of a column, NULL where it can have one of them not; why not, by row."""
    if cql in ("decimal", "varint"):
        return _decimals(column, 4 if cql == "decimal" else 0, intake.each)
    logical, reasons = _READERS[cql](column)
    array, refused = intake.each(logical)
    return array, {**refused, **reasons}


def _validity(valid: np.ndarray) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _sized(column: RawColumn, *widths: int) -> tuple[np.ndarray, dict[int, str]]:
    """Which values are as long as they have to be (bool[n]), and what is said of others that are not NULL."""
    good = np.isin(column.lengths, widths)
    odd = np.flatnonzero(~good & (column.lengths >= 0))
    return good, {row: f"a value of {column.lengths[row]} bytes" for row in odd.tolist()}


def _number(dtype: str, arrow: pa.DataType, column: RawColumn) -> tuple[pa.Array, dict[int, str]]:
    width = np.dtype(dtype).itemsize
    good, reasons = _sized(column, width)
    rows, values = np.flatnonzero(good), np.zeros(len(column), np.dtype(dtype).newbyteorder("="))
    values[rows] = column.fixed(rows, width).view(dtype)[:, 0]
    return pa.array(values, arrow, mask=None if good.all() else ~good), reasons


def _boolean(column: RawColumn) -> tuple[pa.Array, dict[int, str]]:
    numbers, reasons = _number("u1", pa.uint8(), column)
    return numbers.cast(pa.bool_()), reasons


def _timestamp(column: RawColumn) -> tuple[pa.Array, dict[int, str]]:
    numbers, reasons = _number(">i8", pa.int64(), column)
    return numbers.view(pa.timestamp("ms", "UTC")), reasons


def _date(column: RawColumn) -> tuple[pa.Array, dict[int, str]]:
    numbers, reasons = _number(">u4", pa.uint32(), column)
    shifted = pc.subtract(numbers.cast(pa.int64()), 1 << 31)
    return shifted.cast(pa.int32()).view(pa.date32()), reasons


def _text(column: RawColumn) -> tuple[pa.Array, dict[int, str]]:
    texts = column.texts(binary=False)
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        values, reasons = list[str | None](), dict[int, str]()
        for row in range(len(column)):
            try:
                values.append(column.value(row).decode() if column.lengths[row] >= 0 else None)
            except UnicodeDecodeError:
                reasons[row] = "bytes that are no UTF-8"
                values.append(None)
        return pa.array(values, pa.large_string()), reasons
    return texts, {}


_DASHES = (8, 13, 18, 23)
_LETTERS = np.frombuffer(b"0123456789abcdef", np.uint8)


def _uuid(column: RawColumn) -> tuple[pa.Array, dict[int, str]]:
    good, reasons = _sized(column, 16)
    rows = np.flatnonzero(good)
    bytes_ = column.fixed(rows, 16)
    digits = _LETTERS[np.stack([bytes_ >> 4, bytes_ & 15], axis=2).reshape(len(rows), 32)]
    texts = np.full((len(column), 36), ord("-"), np.uint8)
    texts[np.ix_(rows, np.setdiff1d(np.arange(36), _DASHES))] = digits
    offsets = np.arange(len(column) + 1, dtype=np.int64) * 36
    buffers = [_validity(good), pa.py_buffer(offsets), pa.py_buffer(texts)]
    return pa.Array.from_buffers(pa.large_string(), len(column), buffers), reasons


def _inet(column: RawColumn) -> tuple[pa.Array, dict[int, str]]:
    good, reasons = _sized(column, 4, 16)
    different = column.texts(binary=True).dictionary_encode()  # there are fewer addresses than rows
    known = [str(ipaddress.ip_address(each)) if len(each) in (4, 16) else None
             for each in different.dictionary.to_pylist()]  # fmt: skip
    texts = pa.array(known, pa.large_string()).take(different.indices)
    return texts, reasons


def _blob(column: RawColumn) -> tuple[pa.Array, dict[int, str]]:
    return column.texts(binary=True), {}


def _decimals(
    column: RawColumn, skipped: int, take: Callable[[Any], tuple[pa.Array, dict[int, str]]]
) -> tuple[pa.Array, dict[int, str]]:  # fmt: skip
    """Decimals, whose scale stands in the first bytes, if any are `skipped`: as `take` gives them of each scale."""
    lengths = column.lengths - skipped
    there = np.flatnonzero(lengths >= 1)
    odd = np.flatnonzero((lengths < 1) & (column.lengths >= 0))
    reasons = {row: f"a value of {column.lengths[row]} bytes" for row in odd.tolist()}
    scales = column.fixed(there, 4).view(">i4")[:, 0] if skipped else np.zeros(len(there), np.int32)
    plain = (scales >= 0) & (scales <= _DIGITS) & (lengths[there] <= _WIDTH)
    pieces, order = [take(pa.nulls(len(column) - len(there)))[0]], [np.flatnonzero(lengths < 1)]
    for scale in np.unique(scales[plain]).tolist():
        rows = there[plain & (scales == scale)]
        unscaled = RawColumn(column.data, column.begins[rows] + skipped, lengths[rows])
        whole = pa.Array.from_buffers(pa.decimal128(_DIGITS, scale), len(rows), [None, pa.py_buffer(_words(unscaled))])
        if _is_valid(whole):
            pieces.append(_told(take(whole), rows, reasons))
            order.append(rows)
        else:
            plain[scales == scale] = False
    rest = there[~plain]
    if len(rest):
        pieces.append(_told(take([_one(column.value(row), skipped) for row in rest.tolist()]), rest, reasons))
        order.append(rest)
    places = np.argsort(np.concatenate(order), kind="stable")
    return pa.concat_arrays(pieces).take(pa.array(places)), reasons


def _told(taken: tuple[pa.Array, dict[int, str]], rows: np.ndarray, reasons: dict[int, str]) -> pa.Array:
    array, refused = taken
    reasons |= {int(rows[at]): reason for at, reason in refused.items()}
    return array


def _words(unscaled: RawColumn) -> np.ndarray:
    """uint8[n, 16]: big-endian numbers of up to 16 bytes as Arrow's decimals have them."""
    words = np.zeros((len(unscaled), _WIDTH), np.uint8)
    for length in np.unique(unscaled.lengths).tolist():
        rows = np.flatnonzero(unscaled.lengths == length)
        turned = unscaled.fixed(rows, length)[:, ::-1]
        words[rows] = np.where(turned[:, -1:] & 128, 255, 0)
        words[np.ix_(rows, np.arange(length))] = turned
    return words


def _is_valid(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _one(value: bytes, skipped: int) -> Decimal:
    scale = int.from_bytes(value[:skipped], "big", signed=True) if skipped else 0
    digits = tuple(map(int, str(abs(number := int.from_bytes(value[skipped:], "big", signed=True)))))
    return Decimal((int(number < 0), digits, -scale))


_READERS: dict[str, Callable[[RawColumn], tuple[pa.Array, dict[int, str]]]] = {
    "tinyint": partial(_number, "i1", pa.int8()), "smallint": partial(_number, ">i2", pa.int16()),
    "int": partial(_number, ">i4", pa.int32()), "bigint": partial(_number, ">i8", pa.int64()),
    "float": partial(_number, ">f4", pa.float32()), "double": partial(_number, ">f8", pa.float64()),
    "boolean": _boolean, "ascii": _text, "text": _text, "varchar": _text, "uuid": _uuid, "timeuuid": _uuid,
    "inet": _inet, "blob": _blob, "date": _date, "timestamp": _timestamp,
}  # fmt: skip
