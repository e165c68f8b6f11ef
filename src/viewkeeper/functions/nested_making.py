"""Arrays, structs and maps of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import VOID, Type, array_of, map_of, struct_of
from viewkeeper.functions.function import Computed, Function, Signature
from viewkeeper.functions.nested_columns import equal_form, listed_in, physical, side_by_side, within

_MOST = 200


def _array_type(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    if not types:
        return array_of(VOID), ()
    return (array_of(types[0]), tuple(types)) if len(set(types)) == 1 else None


def _array(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    if not arguments:
        return physical(listed_in(np.zeros(2, np.int64), pa.array([], pa.int8())), array_of(VOID)), None
    columns = [within(array, type_) for array, type_ in zip(arguments, types, strict=True)]
    offsets = np.arange(len(columns[0]) + 1) * len(columns)
    return physical(listed_in(offsets, side_by_side(columns)), array_of(types[0])), None


def _struct_type(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    names = values[::2]
    plain = all(isinstance(name, str) for name in names) and len({str(name).lower() for name in names}) == len(names)
    if len(types) % 2 or not plain:
        return None
    return struct_of(zip(map(str, names), types[1::2], strict=True)), tuple(types)


def _struct(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    made = struct_of(zip(arguments[::2], types[1::2], strict=True))
    columns = [within(array, type_) for array, type_ in zip(arguments[1::2], types[1::2], strict=True)]
    fields = [pa.field(name, column.type) for name, column in zip(arguments[::2], columns, strict=True)]
    return physical(pa.StructArray.from_arrays(columns, fields=fields), made), None


def _map_type(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    if not types:
        return map_of(VOID, VOID), ()
    keys, items = set(types[::2]), set(types[1::2])
    if len(types) % 2 or len(keys) != 1 or len(items) != 1 or types[0] == VOID or types[0].has_map:
        return None
    return map_of(types[0], types[1]), tuple(types)


def _map(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    """The first entry whose key is NULL, or stands in front of it already, is the one that raises."""
    if not arguments:
        nothing = pa.StructArray.from_arrays([pa.array([], pa.int8())] * 2, ["key", "value"])
        return physical(listed_in(np.zeros(2, np.int64), nothing), map_of(VOID, VOID)), None
    keys, items = ([within(array, type_) for array in arguments[i::2]] for i, type_ in enumerate(types[:2]))
    forms = [equal_form(key, types[0]) for key in keys]
    length = len(keys[0])
    missing, twice = np.zeros(length, np.bool_), np.zeros(length, np.bool_)
    for i, form in enumerate(forms):
        missing |= form.is_null().to_numpy(zero_copy_only=False) & ~twice
        for other in forms[:i]:
            twice |= pc.fill_null(pc.equal(form, other), False).to_numpy(zero_copy_only=False) & ~missing
    whole = ~(missing | twice)
    entries = pa.StructArray.from_arrays([side_by_side(keys), side_by_side(items)], ["key", "value"])
    made = listed_in(np.arange(length + 1) * len(keys), entries, whole)
    return physical(made, map_of(*types[:2])), {"NULL_MAP_KEY": missing, "DUPLICATED_MAP_KEY": twice}


def _never(nullable: Any) -> bool:
    return False


ARRAY = Function("array", "values of one type", _array_type, _array, 0, _MOST, nulls=_never, nested=True)
NAMED_STRUCT = Function(
    "named_struct", "constant names, each with a value", _struct_type, _struct, 2, _MOST,
    constants=tuple(range(0, _MOST, 2)), nulls=_never, nested=True,
)  # fmt: skip
MAP = Function(
    "map", "keys of one type, each with a value of another", _map_type, _map, 0, _MOST, nulls=_never, nested=True,
    raises="DUPLICATED_MAP_KEY",
)  # fmt: skip
MAKING = (ARRAY, NAMED_STRUCT, MAP)
