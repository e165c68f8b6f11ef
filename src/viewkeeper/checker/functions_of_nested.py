"""Functions of arrays, structs and maps of one row, in plain Python.

Such a value is bytes here, as in `checker.tables`; within one it is a list, a dict or a list of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from viewkeeper.catalog.types import Type, logical_type, to_logical, to_physical
from viewkeeper.checker.value_rules import Raised, order_key
from viewkeeper.plans.expressions import FunctionCall

_Values = Sequence[Any]


def opened(value: Any, type_: Type) -> Any:
    """What stands within a value; others as they are."""
    if value is None or not type_.is_nested:
        return value
    return to_logical(pa.array([value], pa.large_binary()), type_)[0].as_py()


def closed(value: Any, type_: Type) -> Any:
    """The inverse of `opened`."""
    if value is None or not type_.is_nested:
        return value
    return to_physical(pa.array([value], logical_type(type_)), type_)[0].as_py()


def of_nested(values: _Values, node: FunctionCall) -> Any:
    """The function of `node`, one of `OF_NESTED`, of these values, none of which is NULL where it is strict."""
    types = [argument.type for argument in node.arguments]
    given = [opened(value, type_) for value, type_ in zip(values, types, strict=True)]
    return closed(OF_NESTED[node.function](given, types, node), node.type)


def _form(value: Any, type_: Type) -> Any:
    """What tells two values apart."""
    return to_physical(pa.array([[value]], pa.list_(logical_type(type_))), Type("ARRAY", parts=(("element", type_),)))[
        0
    ].as_py()


def _map(given: _Values, types: Sequence[Type], node: FunctionCall) -> Any:
    seen = set()
    for key in given[::2]:
        if key is None:
            raise Raised("NULL_MAP_KEY", node.place)
        form = _form(key, types[0])
        if form in seen:
            raise Raised("DUPLICATED_MAP_KEY", node.place)
        seen.add(form)
    return list(zip(given[::2], given[1::2], strict=True))


def _low_bits(index: int) -> int:
    return (index + 2**31) % 2**32 - 2**31


def _of_array(raising: bool) -> Any:
    def find(given: _Values, types: Sequence[Type], node: FunctionCall) -> Any:
        held, index = given[0], _low_bits(given[1])
        if 0 <= index < len(held):
            return held[index]
        if raising:
            raise Raised("INVALID_ARRAY_INDEX", node.place)
        return None

    return find


def _at(raising: bool) -> Any:
    def find(given: _Values, types: Sequence[Type], node: FunctionCall) -> Any:
        held, index = given
        if types[0].name == "MAP":
            return _value(given, types, node)
        if abs(index) > len(held):
            if raising:
                raise Raised("INVALID_ARRAY_INDEX_IN_ELEMENT_AT", node.place)
            return None
        if index == 0:
            raise Raised("INVALID_INDEX_OF_ZERO", node.place)
        return held[index - 1 if index > 0 else index]

    return find


def _value(given: _Values, types: Sequence[Type], node: FunctionCall) -> Any:
    key = types[0].parts[0][1]
    wanted = _form(given[1], key)
    return next((value for each, value in given[0] if _form(each, key) == wanted), None)


def _has_key(given: _Values, types: Sequence[Type], node: FunctionCall) -> bool:
    key = types[0].parts[0][1]
    return _form(given[1], key) in [_form(each, key) for each, _ in given[0]]


def _contains(given: _Values, types: Sequence[Type], node: FunctionCall) -> bool | None:
    held, wanted = given
    if _form(wanted, types[1]) in [_form(each, types[1]) for each in held if each is not None]:
        return True
    return None if None in held else False


def _field(given: _Values, types: Sequence[Type], node: FunctionCall) -> Any:
    held, index = given
    if types[0].name == "STRUCT":
        return held[types[0].parts[index][0]]
    name = types[0].parts[0][1].parts[index][0]
    return [None if each is None else each[name] for each in held]


def order_of(value: Any) -> Any:
    """What sorts values, those within structs included, NULL below all."""
    if value is None:
        return (False,)
    return (True, tuple(map(order_of, value.values())) if isinstance(value, dict) else order_key(value))


def _sort_array(given: _Values, types: Sequence[Type], node: FunctionCall) -> list[Any]:
    return sorted(given[0], key=order_of, reverse=len(given) > 1 and not given[1])


def _array_sort(given: _Values, types: Sequence[Type], node: FunctionCall) -> list[Any]:
    return sorted(given[0], key=lambda each: (each is None, order_of(each)))


def _slice(given: _Values, types: Sequence[Type], node: FunctionCall) -> list[Any]:
    held, start, length = given
    first = start - 1 if start > 0 else len(held) + start
    return list(held[first : first + length]) if first >= 0 else []


_Made = Callable[[_Values, Sequence[Type], FunctionCall], Any]
OF_NULLS: dict[str, _Made] = {
    "array": lambda given, types, node: list(given), "map": _map,
    "named_struct": lambda given, types, node: dict(zip(given[::2], given[1::2], strict=True)),
}  # fmt: skip
"""Those that take NULLs, too."""

OF_NESTED: dict[str, _Made] = OF_NULLS | {
    "element of array": _of_array(True), "get": _of_array(False), "value of map": _value, "field of struct": _field,
    "element_at": _at(True), "try_element_at": _at(False), "array_contains": _contains, "map_contains_key": _has_key,
    "sort_array": _sort_array, "array_sort": _array_sort, "slice": _slice,
    "array_join": lambda given, types, node: given[1].join(each for each in given[0] if each is not None),
    "split": lambda given, types, node: given[0].split(given[1]),
    **dict.fromkeys(("size", "array_size"), lambda given, types, node: len(given[0])),
}  # fmt: skip
