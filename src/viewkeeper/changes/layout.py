"""Rows as bytes: the layout of base rows, of keys, and of log entries that hold one operation (docs/format-store.md).

A row is: the number of its layout (2 bytes; in base rows only), a bitmap of its NULLs (bit i of byte i//8; absent in
keys), then one big-endian field a column (a 4-byte length where the type is of variable width; zero where NULL), then
the bytes of the variable columns one after another.
Whole batches are laid out and read back with NumPy; `pack` and `unpack` do the same for one row of Python values.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import Type, physical_type

_EXACT = Context(prec=100)
_FORMATS = {
    pa.int8(): ("b", "i1"), pa.int16(): ("h", ">i2"), pa.int32(): ("i", ">i4"), pa.int64(): ("q", ">i8"),
    pa.float32(): ("f", ">f4"), pa.float64(): ("d", ">f8"),
}  # fmt: skip
_VARIABLE = (pa.large_string(), pa.large_binary())


class RowLayout:
    """The layout of rows with columns of `types`; `nullable` says whether there is a bitmap of NULLs, `number` is what
    rows begin with where they say which layout they have."""

    def __init__(self, types: Sequence[Type], nullable: bool = True, number: int | None = None) -> None:
        self.types = tuple(types)
        self._arrow = [physical_type(type_) for type_ in types]
        self._variable = [arrow in _VARIABLE for arrow in self._arrow]
        self._bitmap = (len(self.types) + 7) // 8 if nullable else 0
        fields: list[Any] = [("nulls", "u1", (self._bitmap,))] if self._bitmap else []
        codes = [f"{self._bitmap}s"] if self._bitmap else []
        for position, arrow in enumerate(self._arrow):
            code, field = ("I", ">u4") if self._variable[position] else _FORMATS.get(arrow, ("16s", "V16"))
            codes.append(code)
            fields.append((str(position), field))
        self._number = () if number is None else (number,)
        self._struct = struct.Struct(">" + "H" * len(self._number) + "".join(codes))
        self._fields = struct.Struct(">" + "2x" * len(self._number) + "".join(codes))
        self._dtype = np.dtype([("number", ">u2")] * len(self._number) + fields)
        self.fixed_bytes = self._struct.size
        self.has_tail = any(self._variable)

    def pack(self, values: Sequence[Any]) -> bytes:
        """One row of physical Python values as bytes."""
        nulls, fields, tail = 0, [], []
        for position, value in enumerate(values):
            if value is None:
                nulls |= 1 << position
                fields.append(b"" if self._arrow[position] not in _FORMATS and not self._variable[position] else 0)
            elif self._variable[position]:
                data = value.encode() if isinstance(value, str) else value
                tail.append(data)
                fields.append(len(data))
            elif isinstance(value, Decimal):
                fields.append(unscaled(value, self.types[position].scale).to_bytes(16, "little", signed=True))
            else:
                fields.append(value)
        if self._bitmap:
            fields.insert(0, nulls.to_bytes(self._bitmap, "little"))
        return self._struct.pack(*self._number, *fields) + b"".join(tail)

    def unpack(self, data: bytes) -> list[Any]:
        """The physical Python values of one row."""
        fields = list(self._fields.unpack_from(data))
        nulls = int.from_bytes(fields.pop(0), "little") if self._bitmap else 0
        tail = self.fixed_bytes
        for position, field in enumerate(fields):
            if nulls >> position & 1:
                fields[position] = None
            elif self._variable[position]:
                value = data[tail : tail + field]
                tail += field
                fields[position] = value.decode() if self.types[position].name == "STRING" else value
            elif isinstance(field, bytes):
                fields[position] = scaled(int.from_bytes(field, "little", signed=True), self.types[position].scale)
        return fields

    def encode(self, columns: Sequence[pa.Array], length: int) -> list[bytes]:
        """`length` rows of physical columns, each as bytes."""
        if not self.fixed_bytes:
            return [b""] * length
        records = np.zeros(length, self._dtype)
        if self._number:
            records["number"] = self._number[0]
        if self._bitmap and any(column.null_count for column in columns):
            nulls = np.column_stack([is_null(column) for column in columns])
            records["nulls"] = np.packbits(nulls, axis=1, bitorder="little")
        tails = []
        for position, column in enumerate(columns):
            if self._variable[position]:
                tail = pc.fill_null(column.cast(pa.large_binary()), b"")
                records[str(position)] = pc.binary_length(tail).to_numpy()
                tails.append(tail)
            elif self._arrow[position] in _FORMATS:
                records[str(position)] = numbers(column)
            else:
                records[str(position)] = words(column).view("V16")[:, 0]
        if not tails:
            return records.view(f"V{self.fixed_bytes}").tolist()
        offsets = np.arange(length + 1, dtype=np.int64) * self.fixed_bytes
        fixed = pa.Array.from_buffers(pa.large_binary(), length, [None, pa.py_buffer(offsets), pa.py_buffer(records)])
        joined = pc.binary_join_element_wise(fixed, *tails, pa.scalar(b"", pa.large_binary()))
        ends = np.frombuffer(joined.buffers()[1], np.int64)[: length + 1].tolist()
        data = joined.buffers()[2].to_pybytes()
        return [data[low:high] for low, high in zip(ends, ends[1:], strict=False)]

    def decode(self, rows: Sequence[bytes], skip: int = 0) -> tuple[list[pa.Array], np.ndarray]:
        """The raw columns (`raw_type`) of those `rows` that are whole, and which are: bool[len(rows)].

        The first `skip` bytes of each are passed over.
        """
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        starts = np.cumsum(lengths) - lengths + skip
        lengths -= skip
        data = np.frombuffer(b"".join(rows), np.uint8)
        whole = lengths >= self.fixed_bytes if self.has_tail else lengths == self.fixed_bytes
        starts, lengths = (starts, lengths) if whole.all() else (starts[whole], lengths[whole])
        records = self._records(data, starts)
        if self.has_tail:
            names = [str(position) for position, variable in enumerate(self._variable) if variable]
            tail = sum((records[name].astype(np.int64) for name in names), np.zeros(len(records), np.int64))
            fits = tail + self.fixed_bytes == lengths
            if not fits.all():
                whole[np.flatnonzero(whole)[~fits]] = False
                starts, records = starts[fits], records[fits]
        return self._columns(data, starts, records), whole

    def _records(self, data: np.ndarray, starts: np.ndarray) -> np.ndarray:
        size = self.fixed_bytes
        if not size:
            return np.zeros(len(starts), self._dtype)
        if len(data) == size * len(starts):
            return data.view(self._dtype)
        return (
            data[starts[:, None] + np.arange(size)].view(self._dtype)[:, 0] if len(starts) else np.zeros(0, self._dtype)
        )

    def _columns(self, data: np.ndarray, starts: np.ndarray, records: np.ndarray) -> list[pa.Array]:
        length = len(records)
        nulls = None
        if self._bitmap and records["nulls"].any():
            nulls = np.unpackbits(records["nulls"], axis=1, bitorder="little")[:, : len(self.types)].astype(bool)
        columns, tail = [], starts + self.fixed_bytes
        for position, arrow in enumerate(self._arrow):
            validity = None
            if nulls is not None and nulls[:, position].any():
                validity = pa.py_buffer(np.packbits(~nulls[:, position], bitorder="little"))
            field = records[str(position)]
            if self._variable[position]:
                sizes = field.astype(np.int64)
                offsets = np.concatenate([[0], np.cumsum(sizes)])
                gathered = data[np.repeat(tail - offsets[:-1], sizes) + np.arange(offsets[-1])]
                tail = tail + sizes
                buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(gathered)]
            elif arrow in _FORMATS:
                buffers = [validity, pa.py_buffer(field.astype(arrow.to_pandas_dtype()))]
            else:
                buffers = [validity, pa.py_buffer(np.ascontiguousarray(field))]
            columns.append(pa.Array.from_buffers(raw_type(arrow), length, buffers))
        return columns


def raw_type(arrow: pa.DataType) -> pa.DataType:
    """The type with the same buffers as the physical type `arrow` and no rules about what they may hold."""
    if arrow == pa.large_string():
        return pa.large_binary()
    return pa.binary(16) if pa.types.is_decimal(arrow) else arrow


def from_raw(column: pa.Array, arrow: pa.DataType) -> pa.Array:
    """`column`, of `raw_type(arrow)` and known to be right, as `arrow`; shares its memory."""
    if column.type == arrow:
        return column
    return pa.Array.from_buffers(arrow, len(column), column.buffers(), column.null_count, column.offset)


def is_null(column: pa.Array) -> np.ndarray:
    """bool[n]: where `column` is NULL."""
    if not column.null_count:
        return np.zeros(len(column), bool)
    return column.is_null().to_numpy(zero_copy_only=False)


def numbers(column: pa.Array) -> np.ndarray:
    """The values of a physical column of numbers; 0 where NULL."""
    return (pc.fill_null(column, 0) if column.null_count else column).to_numpy()


def words(column: pa.Array) -> np.ndarray:
    """int64[n, 2]: the low and high words of a decimal128 (or its raw form); 0 where NULL."""
    if not len(column):
        return np.zeros((0, 2), np.int64)
    data = np.frombuffer(column.buffers()[1], np.int64, 2 * len(column), 16 * column.offset).reshape(-1, 2)
    if not column.null_count:
        return np.ascontiguousarray(data)
    return np.where(is_null(column)[:, None], 0, data)


def unscaled(value: Decimal, scale: int) -> int:
    """`value * 10**scale`, where that is whole."""
    return int(value.scaleb(scale, _EXACT))


def scaled(number: int, scale: int) -> Decimal:
    """`number / 10**scale`, exactly."""
    return Decimal(number).scaleb(-scale, _EXACT)
