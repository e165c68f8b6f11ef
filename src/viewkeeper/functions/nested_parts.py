"""What stands within arrays, structs and maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import BIGINT, BOOLEAN, INT, VOID, Type, array_of
from viewkeeper.functions.function import Computed, Function, Kernel, Signature, implicit, made, numbers
from viewkeeper.functions.nested_columns import equal_form, listed, listed_in, physical, taken, within

_INDEX = "INVALID_ARRAY_INDEX"
_INDEX_OF_ELEMENT = "INVALID_ARRAY_INDEX_IN_ELEMENT_AT"
_ZERO = "INVALID_INDEX_OF_ZERO"
_NOWHERE = 1 << 32


def _is_list(type_: Type) -> bool:
    return type_.name == "ARRAY"


def _place_type(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    """An array, and a whole number."""
    held, index = types
    if not _is_list(held) or not (index.is_integer or index == VOID):
        return None
    return held.parts[0][1], (held, index if index.is_integer else INT)


def _element_type(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    """An array and an INT, or a map and a key of it."""
    if _is_list(types[0]):
        return None if types[1] == BIGINT else _place_type(types, values)
    return _value_type(types, values)


def _value_type(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    held, key = types
    if held.name != "MAP" or not _is_or_becomes(key, held.parts[0][1]):
        return None
    return held.parts[1][1], (held, held.parts[0][1])


def _is_or_becomes(type_: Type, wanted: Type) -> bool:
    return type_ == wanted or (type_.is_integer and wanted.is_integer and implicit(type_, wanted))


def _element(array: pa.Array, type_: Type, index: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    """The elements at `index`, which counts from 0, and where there are such."""
    held = listed(array, type_)
    there = (index >= 0) & (index < held.counts)
    found = taken(held.values, np.where(there, held.offsets[:-1] + index, 0), there)
    return physical(found, type_.parts[0][1]), there


def _whole(array: pa.Array) -> np.ndarray:
    """Spark takes the last 32 bits of an index."""
    return numbers(array).astype(np.int32).astype(np.int64)


def _of_array(raising: bool) -> Kernel:
    """What stands at an index that counts from 0."""

    def kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
        index = _whole(arguments[1])
        valid = pc.and_(arguments[0].is_valid(), arguments[1].is_valid()).to_numpy(zero_copy_only=False)
        found, there = _element(arguments[0], types[0], np.where(valid, index, -1))
        return found, (~there & valid) if raising else None

    return kernel


def _at(raising: bool) -> Kernel:
    """What stands at an index that counts from 1, or from the end below 0; or the value of a key."""

    def kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
        if not _is_list(types[0]):
            return _value(arguments, types, zone)
        valid = pc.and_(arguments[0].is_valid(), arguments[1].is_valid()).to_numpy(zero_copy_only=False)
        index = np.where(valid, _whole(arguments[1]), _NOWHERE)
        counts = listed(arguments[0], types[0]).counts
        found, there = _element(arguments[0], types[0], np.where(index > 0, index - 1, counts + index))
        zero = index == 0
        wrong = {_ZERO: zero}
        if raising:
            wrong[_INDEX_OF_ELEMENT] = ~there & valid & ~zero
        return pc.if_else(pa.array(zero), None, found) if zero.any() else found, wrong

    return kernel


def _value(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    """The value that a map has for a key."""
    held, (_, key_type), (_, value_type) = listed(arguments[0], types[0]), *types[0].parts
    places = held.first_where(_equal(held.values.field(0), arguments[1], key_type, held.rows))
    return physical(taken(held.values.field(1), places, places >= 0), value_type), None


def _equal(values: pa.Array, physical_wanted: pa.Array, type_: Type, rows: np.ndarray) -> pa.Array:
    """Where an element is what its row looks for."""
    wanted = equal_form(within(physical_wanted, type_), type_)
    return pc.equal(equal_form(values, type_), wanted.take(pa.array(rows)))


def _field_type(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    held, index = types[0], values[1]
    if held.name == "STRUCT":
        return held.parts[index][1], (held, INT)
    if _is_list(held) and held.parts[0][1].name == "STRUCT":
        return array_of(held.parts[0][1].parts[index][1]), (held, INT)
    return None


def _field(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    """A field of a struct, or of each struct of an array, by its number."""
    array, index = arguments
    if types[0].name == "STRUCT":
        return physical(within(array, types[0]).flatten()[index], types[0].parts[index][1]), None
    held = listed(array, types[0])
    fields = held.values.flatten()[index]
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return physical(listed_in(held.offsets, fields, valid), array_of(types[0].parts[0][1].parts[index][1])), None


def _size_type(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    return (INT, tuple(types)) if types[0].name in ("ARRAY", "MAP") else None


def _array_size_type(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    return (INT, tuple(types)) if _is_list(types[0]) else None


def _size(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    return made(listed(arguments[0], types[0]).counts.astype(np.int32), arguments[0]), None


def _contains_type(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    held, wanted = types
    if not _is_list(held) or held.has_map:
        return None
    element = held.parts[0][1]
    return (BOOLEAN, (held, element)) if _is_or_becomes(wanted, element) else None


def _contains(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    """NULL where it is not found among some that are NULL."""
    held = listed(arguments[0], types[0])
    found = held.any_where(_equal(held.values, arguments[1], types[1], held.rows))
    unknown = held.any_where(held.values.is_null()) & ~found
    answer = made(found.view(np.int8), *arguments)
    return pc.if_else(pa.array(unknown), None, answer) if unknown.any() else answer, None


def _has_key_type(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    signature = _value_type(types, values)
    return None if signature is None else (BOOLEAN, signature[1])


def _has_key(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    held = listed(arguments[0], types[0])
    found = held.any_where(_equal(held.values.field(0), arguments[1], types[1], held.rows))
    return made(found.view(np.int8), *arguments), None


def _indexed(name: str, shown: Sequence[str]) -> str:
    return f"{shown[0]}[{shown[1]}]"


ITEM = Function(
    "element of array", "an ARRAY and a whole number", _place_type, _of_array(True), 2, 2, nullable=True,
    raises=_INDEX, shown=_indexed, nested=True,
)  # fmt: skip
VALUE = Function(
    "value of map", "a MAP and a key", _value_type, _value, 2, 2, nullable=True, shown=_indexed, nested=True
)
FIELD = Function(
    "field of struct", "a STRUCT and a number", _field_type, _field, 2, 2, constants=(1,), nullable=True, nested=True
)
PARTS = (
    ITEM, VALUE, FIELD,
    Function("get", "an ARRAY and a whole number from 0", _place_type, _of_array(False), 2, 2, nullable=True,
             nested=True),
    Function("element_at", "an ARRAY and an INT from 1, or a MAP and a key", _element_type, _at(True), 2, 2,
             nullable=True, raises=_INDEX_OF_ELEMENT, nested=True),
    Function("try_element_at", "an ARRAY and an INT from 1, or a MAP and a key", _element_type, _at(False), 2, 2,
             nullable=True, raises=_ZERO, nested=True),
    Function("size", "an ARRAY or MAP", _size_type, _size, aliases=("cardinality",), nested=True),
    Function("array_size", "an ARRAY", _array_size_type, _size, nested=True),
    Function("array_contains", "an ARRAY, and a value of its type", _contains_type, _contains, 2, 2, nullable=True,
             nested=True),
    Function("map_contains_key", "a MAP and a key", _has_key_type, _has_key, 2, 2, nested=True),
)  # fmt: skip
