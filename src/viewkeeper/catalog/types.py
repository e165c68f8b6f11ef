"""Spark SQL's types, and how a value of each is held.

*Logical* is what users see (`decimal128(15, 2)`, `date32`, `timestamp('us', tz)`).  *Physical* is what states, deltas
and log blocks hold, chosen so that everything of fixed width is a plain number to NumPy:

| type                       | physical                                                         |
|----------------------------|------------------------------------------------------------------|
| BOOLEAN                    | int8, 0 or 1                                                     |
| TINYINT .. BIGINT          | int8, int16, int32, int64                                        |
| FLOAT, DOUBLE              | float32, float64                                                 |
| DECIMAL(p, s), p <= 18     | int64, the unscaled value                                        |
| DECIMAL(p, s), p > 18      | decimal128(p, s)                                                 |
| DATE                       | int32, days since 1970-01-01                                     |
| TIMESTAMP, TIMESTAMP_NTZ   | int64, microseconds since 1970-01-01 (UTC / as written)          |
| STRING, BINARY             | large_string, large_binary                                       |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.codec import stored


@stored(shared=True)
@dataclass(frozen=True)
class Type:
    """A Spark SQL type: `name` in capitals; `precision` and `scale` for DECIMAL only."""

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})" if self.name == "DECIMAL" else self.name

    @property
    def is_integer(self) -> bool:
        return self.name in INTEGER_BITS

    @property
    def is_float(self) -> bool:
        return self.name in ("FLOAT", "DOUBLE")

    @property
    def is_decimal(self) -> bool:
        return self.name == "DECIMAL"

    @property
    def is_number(self) -> bool:
        return self.is_integer or self.is_float or self.is_decimal

    @property
    def is_bytes(self) -> bool:
        return self.name in ("STRING", "BINARY")


INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}

VOID = Type("VOID")  # the type of a bare NULL
BOOLEAN = Type("BOOLEAN")
TINYINT, SMALLINT, INT, BIGINT = Type("TINYINT"), Type("SMALLINT"), Type("INT"), Type("BIGINT")
FLOAT, DOUBLE = Type("FLOAT"), Type("DOUBLE")
STRING, BINARY = Type("STRING"), Type("BINARY")
DATE, TIMESTAMP, TIMESTAMP_NTZ = Type("DATE"), Type("TIMESTAMP"), Type("TIMESTAMP_NTZ")

MAX_PRECISION = 38


def decimal(precision: int, scale: int) -> Type:
    """DECIMAL(precision, scale)."""
    return Type("DECIMAL", precision, scale)


_PHYSICAL = {
    "VOID": pa.int8(), "BOOLEAN": pa.int8(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(),
    "BIGINT": pa.int64(), "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "STRING": pa.large_string(),
    "BINARY": pa.large_binary(), "DATE": pa.int32(), "TIMESTAMP": pa.int64(), "TIMESTAMP_NTZ": pa.int64(),
}  # fmt: skip

_LOGICAL = {
    "VOID": pa.null(), "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(),
    "BIGINT": pa.int64(), "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "STRING": pa.string(), "BINARY": pa.binary(),
    "DATE": pa.date32(), "TIMESTAMP_NTZ": pa.timestamp("us"),
}  # fmt: skip


def physical_type(type_: Type) -> pa.DataType:
    """The Arrow type in which states, deltas and logs hold a value of `type_`."""
    if type_.is_decimal:
        return pa.int64() if type_.precision <= 18 else pa.decimal128(type_.precision, type_.scale)
    return _PHYSICAL[type_.name]


def logical_type(type_: Type, zone: str = "UTC") -> pa.DataType:
    """The Arrow type in which users get a value of `type_`; `zone` is the database's time zone."""
    if type_.is_decimal:
        return pa.decimal128(type_.precision, type_.scale)
    return pa.timestamp("us", tz=zone) if type_.name == "TIMESTAMP" else _LOGICAL[type_.name]


def to_physical(array: pa.Array, type_: Type) -> pa.Array:
    """`array`, of exactly `logical_type(type_)`, in its physical form (no value is lost)."""
    target = physical_type(type_)
    if type_.name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        return array.view(target)
    if type_.is_decimal and type_.precision <= 18:
        return _unscaled(array)
    return array.cast(target)


def to_logical(array: pa.Array, type_: Type, zone: str = "UTC") -> pa.Array:
    """The inverse of `to_physical`."""
    if type_.name == "VOID":
        return pa.nulls(len(array))
    target = logical_type(type_, zone)
    if type_.name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        return array.view(target)
    if type_.is_decimal and type_.precision <= 18:
        return _scaled(array, target)
    return array.cast(target)


def _unscaled(array: pa.Array) -> pa.Array:
    # The low 8 of a decimal's 16 little-endian bytes are the whole value when precision <= 18.
    if not len(array):
        return pa.array([], pa.int64())
    data = np.frombuffer(array.buffers()[1], dtype=np.int64).reshape(-1, 2)[array.offset : array.offset + len(array)]
    low = np.ascontiguousarray(data[:, 0])
    if not array.null_count:
        return pa.array(low)
    return pa.array(low, mask=~array.is_valid().to_numpy(zero_copy_only=False))


def _scaled(array: pa.Array, target: pa.DataType) -> pa.Array:
    words = np.empty((len(array), 2), dtype=np.int64)
    words[:, 0] = pc.fill_null(array, 0).to_numpy()
    words[:, 1] = words[:, 0] >> 63
    validity = array.is_valid().buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(target, len(array), [validity, pa.py_buffer(words)])
