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
| INTERVAL DAY .. SECOND     | int64, microseconds                                              |
| INTERVAL YEAR, MONTH       | int32, months; logically too, where Arrow and Python have none   |
| STRING, BINARY             | large_string, large_binary                                       |
| ARRAY, STRUCT, MAP         | large_binary, see `catalog.nested`                               |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog import nested
from viewkeeper.catalog.codec import stored


@stored(shared=True)
@dataclass(frozen=True)
class Type:
    """A Spark SQL type: `name` in capitals; `precision` and `scale` for DECIMAL only.

    CHAR(n) and VARCHAR(n), with n as `precision`, stand in declarations alone (`Column.declared`): what they hold is a
    STRING.  `parts`, by name: of a STRUCT its fields, of an ARRAY `element`, of a MAP `key` and `value`.
    """

    name: str
    precision: int = 0
    scale: int = 0
    parts: tuple[tuple[str, Type], ...] = ()

    def __str__(self) -> str:
        if self.name == "STRUCT":
            return f"STRUCT<{', '.join(f'{_quoted(name)}: {part}' for name, part in self.parts)}>"
        if self.parts:
            return f"{self.name}<{', '.join(str(part) for _, part in self.parts)}>"
        if self.name in DECLARED_TEXTS:
            return f"{self.name}({self.precision})"
        return f"DECIMAL({self.precision},{self.scale})" if self.name == "DECIMAL" else self.name

    @property
    def is_nested(self) -> bool:
        return self.name in ("ARRAY", "STRUCT", "MAP")

    @property
    def has_map(self) -> bool:
        """Whether values cannot be compared: in Spark those of maps cannot."""
        return self.name == "MAP" or any(part.has_map for _, part in self.parts)

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
    def is_interval(self) -> bool:
        return self.name in INTERVALS

    @property
    def is_time_interval(self) -> bool:
        """Whether it is an interval of days and less, and not of months."""
        return self.is_interval and not self.is_month_interval

    @property
    def is_month_interval(self) -> bool:
        return self.name in ("INTERVAL YEAR", "INTERVAL MONTH", "INTERVAL YEAR TO MONTH")

    @property
    def has_interval(self) -> bool:
        """Whether it is an interval, or holds one: Arrow then does not say all of it."""
        return self.is_interval or any(part.has_interval for _, part in self.parts)

    @property
    def is_bytes(self) -> bool:
        return self.name in ("STRING", "BINARY")


DECLARED_TEXTS = ("CHAR", "VARCHAR")
INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}

_MINUTE = 60_000_000
_UNITS = (("DAY", 1440 * _MINUTE), ("HOUR", 60 * _MINUTE), ("MINUTE", _MINUTE), ("SECOND", 1))


def _intervals(units: Sequence[tuple[str, int]]) -> dict[str, int]:
    pairs = [(first, last, step) for i, (first, _) in enumerate(units) for last, step in units[i:]]
    return {f"INTERVAL {first}" + f" TO {last}" * (first != last): step for first, last, step in pairs}


INTERVALS = {**_intervals((("YEAR", 12), ("MONTH", 1))), **_intervals(_UNITS)}
"""The names of the types of intervals, and of how many months or microseconds each is a multiple."""

VOID = Type("VOID")  # the type of a bare NULL
BOOLEAN = Type("BOOLEAN")
TINYINT, SMALLINT, INT, BIGINT = Type("TINYINT"), Type("SMALLINT"), Type("INT"), Type("BIGINT")
FLOAT, DOUBLE = Type("FLOAT"), Type("DOUBLE")
STRING, BINARY = Type("STRING"), Type("BINARY")
DATE, TIMESTAMP, TIMESTAMP_NTZ = Type("DATE"), Type("TIMESTAMP"), Type("TIMESTAMP_NTZ")
DAY_TIME, YEAR_MONTH = Type("INTERVAL DAY TO SECOND"), Type("INTERVAL YEAR TO MONTH")

MAX_PRECISION = 38


def _quoted(name: str) -> str:
    plain = name.replace("_", "a").isalnum() and name.isascii() and not name[0].isdigit()
    return name if plain else "`" + name.replace("`", "``") + "`"


def array_of(element: Type) -> Type:
    """ARRAY<element>."""
    return Type("ARRAY", parts=(("element", element),))


def map_of(key: Type, value: Type) -> Type:
    """MAP<key, value>."""
    return Type("MAP", parts=(("key", key), ("value", value)))


def as_held(declared: Type) -> Type:
    """A declared type as queries see it: CHAR(n) and VARCHAR(n) are STRINGs."""
    if declared.name in DECLARED_TEXTS:
        return STRING
    parts = tuple((name, as_held(part)) for name, part in declared.parts)
    return replace(declared, parts=parts) if parts != declared.parts else declared


def struct_of(fields: Iterable[tuple[str, Type]]) -> Type:
    """STRUCT of named fields."""
    return Type("STRUCT", parts=tuple(fields))


def decimal(precision: int, scale: int) -> Type:
    """DECIMAL(precision, scale)."""
    return Type("DECIMAL", precision, scale)


_PHYSICAL = {
    "VOID": pa.int8(), "BOOLEAN": pa.int8(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(),
    "BIGINT": pa.int64(), "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "STRING": pa.large_string(),
    "BINARY": pa.large_binary(), "DATE": pa.int32(), "TIMESTAMP": pa.int64(), "TIMESTAMP_NTZ": pa.int64(),
    **{name: pa.int32() if Type(name).is_month_interval else pa.int64() for name in INTERVALS},
}  # fmt: skip

_LOGICAL = {
    "VOID": pa.null(), "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(),
    "BIGINT": pa.int64(), "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "STRING": pa.string(), "BINARY": pa.binary(),
    "DATE": pa.date32(), "TIMESTAMP_NTZ": pa.timestamp("us"),
    # Of those that Arrow holds alike, the one that holds all is the first: `type_of` finds it.
    DAY_TIME.name: pa.duration("us"),
    **{name: pa.int32() if Type(name).is_month_interval else pa.duration("us") for name in INTERVALS},
}  # fmt: skip


def physical_type(type_: Type) -> pa.DataType:
    """The Arrow type in which states, deltas and logs hold a value of `type_`."""
    if type_.is_decimal:
        return pa.int64() if type_.precision <= 18 else pa.decimal128(type_.precision, type_.scale)
    return pa.large_binary() if type_.is_nested else _PHYSICAL[type_.name]


def logical_type(type_: Type, zone: str = "UTC") -> pa.DataType:
    """The Arrow type in which users get a value of `type_`; `zone` is the database's time zone."""
    if type_.is_decimal:
        return pa.decimal128(type_.precision, type_.scale)
    if type_.is_nested:
        parts = [logical_type(part, zone) for _, part in type_.parts]
        if type_.name == "STRUCT":
            return pa.struct([pa.field(name, part) for (name, _), part in zip(type_.parts, parts, strict=True)])
        return pa.list_(*parts) if type_.name == "ARRAY" else pa.map_(_of_keys(parts[0]), parts[1])
    return pa.timestamp("us", tz=zone) if type_.name == "TIMESTAMP" else _LOGICAL[type_.name]


def _of_keys(arrow: pa.DataType) -> pa.DataType:
    """What Arrow's keys of a map can be, which is not null: those of `map()`, of which there are none."""
    return pa.int8() if pa.types.is_null(arrow) else arrow


def type_of(arrow: pa.DataType) -> Type:
    """The type of which `arrow` is the logical type, in any zone; raises ValueError where there is none."""
    if pa.types.is_list(arrow):
        return array_of(type_of(arrow.value_type))
    if pa.types.is_map(arrow):
        return map_of(type_of(arrow.key_type), type_of(arrow.item_type))
    if pa.types.is_struct(arrow):
        return struct_of((field.name, type_of(field.type)) for field in arrow)
    if pa.types.is_decimal128(arrow):
        return decimal(arrow.precision, arrow.scale)
    if pa.types.is_timestamp(arrow):
        return TIMESTAMP if arrow.tz else TIMESTAMP_NTZ
    for name, logical in _LOGICAL.items():
        if logical == arrow:
            return Type(name)
    raise ValueError(f"no type is held as {arrow}")


def to_physical(array: pa.Array, type_: Type) -> pa.Array:
    """`array`, of exactly `logical_type(type_)`, in its physical form (no value is lost)."""
    if type_.is_nested:
        return nested.encoded(_inside(array, type_, to_physical), form_of(type_))
    target = physical_type(type_)
    if _is_view(type_):
        return array.view(target)
    if type_.is_decimal and type_.precision <= 18:
        return _unscaled(array)
    return array.cast(target)


def to_logical(array: pa.Array, type_: Type, zone: str = "UTC") -> pa.Array:
    """The inverse of `to_physical`."""
    if type_.name == "VOID":
        return pa.nulls(len(array))
    target = logical_type(type_, zone)
    if type_.is_nested:
        return _inside(nested.decoded(array, form_of(type_)), type_, lambda part, of: to_logical(part, of, zone))
    if _is_view(type_):
        return array.view(target)
    if type_.is_decimal and type_.precision <= 18:
        return _scaled(array, target)
    return array.cast(target)


def _is_view(type_: Type) -> bool:
    """Whether the bytes of a logical array are those of a physical one."""
    return type_.is_interval or type_.name in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")


def of_parts(values: Sequence[Any], type_: Type) -> pa.Array:
    """The physical array of values of a nested type, as lists and dicts (a map as a list of dicts) of physical values.

    Raises ValueError where a key stands in a map twice.
    """
    form = form_of(type_)
    return nested.encoded(pa.array(values, nested.arrow_type(form)), form)


def changed_within(array: pa.Array, type_: Type, change: Callable[[pa.Array, Type], pa.Array]) -> pa.Array:
    """A physical array of a nested type, which may be a declared one, in which `change` is done to the physical values
    that hold no others, each with its type.  Raises ValueError where a key then stands in a map twice."""
    form = form_of(as_held(type_))
    return nested.encoded(_inside(nested.decoded(array, form), type_, change), form)


@cache
def form_of(type_: Type) -> nested.NestedForm:
    """How values of a type are written within others."""
    if not type_.is_nested:
        return nested.Leaf(physical_type(type_))
    parts = tuple(form_of(part) for _, part in type_.parts)
    if type_.name == "ARRAY":
        return nested.Elements(parts[0])
    fields = nested.Fields(tuple(name for name, _ in type_.parts), parts)
    return fields if type_.name == "STRUCT" else nested.Elements(fields, sorted=True)


def _inside(array: pa.Array, type_: Type, convert: Callable[[pa.Array, Type], pa.Array]) -> pa.Array:
    """The array with each value that holds no other converted; a map may be an array of structs, and becomes a map."""
    if not type_.is_nested:
        return convert(array, type_)
    present = None if not array.null_count else array.is_valid()
    validity = None if present is None else pc.cast(present, pa.bool_()).buffers()[1]
    if type_.name == "STRUCT":
        children = [_inside(part, of, convert) for part, (_, of) in zip(array.flatten(), type_.parts, strict=True)]
        shape = pa.struct([pa.field(name, c.type) for (name, _), c in zip(type_.parts, children, strict=True)])
        return pa.Array.from_buffers(shape, len(array), [validity], children=children)
    offsets, values = nested.elements(array)
    buffers = [validity, pa.py_buffer(offsets.astype(np.int32))]
    if type_.name == "ARRAY":
        inner = _inside(values, type_.parts[0][1], convert)
        return pa.Array.from_buffers(pa.list_(inner.type), len(array), buffers, children=[inner])
    keys, items = (_inside(part, of, convert) for part, (_, of) in zip(values.flatten(), type_.parts, strict=True))
    keys = keys.cast(_of_keys(keys.type))
    shape = pa.map_(keys.type, items.type)
    entries = pa.StructArray.from_arrays([keys, items], fields=[shape.key_field, shape.item_field])
    return pa.Array.from_buffers(shape, len(array), buffers, children=[entries])


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
