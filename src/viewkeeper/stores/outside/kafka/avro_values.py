"""Values of Avro as columns take them, many at a time.

| column | Avro |
|---|---|
| integers, FLOAT, DOUBLE, BOOLEAN, STRING, BINARY | int, long, float, double, boolean, string, enum, bytes, fixed |
| DECIMAL | decimal (bytes, fixed), Debezium's variable scale; int, long; a text |
| DATE | date: int, days since 1970; a text |
| TIMESTAMP, TIMESTAMP_NTZ | timestamp-..., local-timestamp-..., Debezium's; long, as OPTIONS (timestamps) say; a text |
| ARRAY, STRUCT, MAP | array, record, map |
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import Type
from viewkeeper.files import Texts
from viewkeeper.stores.outside.kafka.avro_schemas import AvroField
from viewkeeper.stores.outside.kafka.messages import Reasons
from viewkeeper.stores.outside.kafka.writings import TIME_NAMES, TIMES, ValueWriting, unsaid_unit

_UNITS = {"seconds": "s", "millis": "ms", "micros": "us", "nanos": "ns"}
_LOGICAL_TIMES = {f"{kind}timestamp-{unit}": unit for kind in ("", "local-") for unit in ("millis", "micros", "nanos")}
_DATES = ("org.apache.kafka.connect.data.Date", "io.debezium.time.Date")
_VARIABLE_SCALE = "io.debezium.data.VariableScaleDecimal"
_DECIMAL_BYTES = 16

GivenValues = tuple[pa.Array | Sequence[Any], Reasons]


def given_values(type_: Type, field: AvroField, values: list[Any], writing: ValueWriting) -> GivenValues:
    """The values of a field as an intake of a column of `type_` takes them (`ColumnIntake.each`), and why some are
    none, by row; those are NULL."""
    if field.kind in ("int", "long"):
        if type_.name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
            return _times(type_, field, values, writing)
        return values, {}
    if type_.is_nested:
        return values, {}
    if field.kind in ("bytes", "fixed") and field.logical == "decimal":
        return _decimals(values, field.scale), {}
    if field.connect == _VARIABLE_SCALE:
        return [None if each is None else _decimal(each["value"], each["scale"]) for each in values], {}
    if field.kind in ("string", "enum") and type_.name not in ("STRING", "BINARY"):
        return Texts(pa.array(values, pa.string())), {}
    if field.kind == "fixed" and field.logical == "uuid" and type_.name == "STRING":
        return [None if each is None else str(UUID(bytes=each)) for each in values], {}
    return values, {}


def _times(type_: Type, field: AvroField, values: list[Any], writing: ValueWriting) -> GivenValues:
    is_date = field.logical == "date" or field.connect in _DATES
    unit = _LOGICAL_TIMES.get(field.logical or "") or TIME_NAMES.get(field.connect or "")
    if (is_date and type_.name != "DATE") or (unit is not None and type_.name == "DATE"):
        return _none_of(values, f"is a {field.connect or field.logical}")
    numbers = pa.array(values, pa.int64())
    if type_.name == "DATE":
        return numbers.cast(pa.int32()).cast(pa.date32()), {}
    unit = unit or writing.times
    if unit is None:
        return _none_of(values, unsaid_unit())
    if unit == "nanos":  # columns hold microseconds
        numbers, unit = pc.divide(numbers, TIMES["millis"]), "micros"
    return numbers.cast(pa.timestamp(_UNITS[unit], "UTC" if type_.name == "TIMESTAMP" else None)), {}


def _none_of(values: list[Any], reason: str) -> GivenValues:
    return [None] * len(values), {i: reason for i, value in enumerate(values) if value is not None}


def _decimals(values: list[Any], scale: int) -> pa.Array | list[Decimal | None]:
    """Big-endian two's complement."""
    if any(value is not None and len(value) > _DECIMAL_BYTES for value in values) or not 0 <= scale <= 38:
        return [None if value is None else _decimal(value, scale) for value in values]
    padded = b"".join(_padded(value or b"") for value in values)
    little = np.frombuffer(padded, np.uint8).reshape(-1, _DECIMAL_BYTES)[:, ::-1].tobytes()
    valid = pa.array([value is not None for value in values], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(pa.decimal128(38, scale), len(values), [valid, pa.py_buffer(little)])


def _padded(value: bytes) -> bytes:
    return value.rjust(_DECIMAL_BYTES, b"\xff" if value[:1] > b"\x7f" else b"\0")


def _decimal(value: bytes, scale: int) -> Decimal:
    return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, Context(prec=100))
