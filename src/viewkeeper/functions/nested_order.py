"""The order of values, those within others included; and arrays in order, joined, cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import BOOLEAN, INT, STRING, Type, array_of
from viewkeeper.functions.function import Computed, Function, Signature
from viewkeeper.functions.nested_columns import listed, listed_in, physical

_PATTERN = frozenset("\\.[]{}()*+-?^$|")
"""What means something in a regular expression."""

_V, _NULL = "namedlambdavariable()", "(namedlambdavariable() IS NULL)"
_COMPARED = (
    f"lambdafunction((IF(({_NULL} AND {_NULL}), 0, (IF({_NULL}, 1, (IF({_NULL}, -1, (IF(({_V} < {_V}), -1, "
    f"(IF(({_V} > {_V}), 1, 0)))))))))), {_V}, {_V})"
)
"""How Spark shows what array_sort sorts by."""


def has_order(type_: Type) -> bool:
    """Whether values can be sorted here: plain ones, and structs of such."""
    return type_.name != "VOID" and (not type_.is_nested or type_.name == "STRUCT") and all(
        has_order(part) for _, part in type_.parts
    )  # fmt: skip


def sort_keys(values: pa.Array, type_: Type) -> list[np.ndarray]:
    """Numbers in the order of the values (as `nested_columns.within` gives them), the first ones first: NULL comes
    below all, NaN above."""
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    if type_.name == "STRUCT":
        parts = zip(values.flatten(), type_.parts, strict=True)
        return [valid, *(key for part, (_, of) in parts for key in sort_keys(part, of))]
    codes = pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy()
    return [valid, np.where(valid, codes, 0)]


def _sorted_type(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    held = types[0]
    if held.name != "ARRAY" or not has_order(held.parts[0][1]) or (len(types) > 1 and types[1] != BOOLEAN):
        return None
    return held, tuple(types)


def _sort_array(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    """In ascending order, NULLs first, or in descending order, NULLs last."""
    return _in_order(arguments[0], types[0], descending=len(arguments) > 1 and not arguments[1], nulls_first=True), None


def _array_sort(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    """In ascending order, NULLs last."""
    return _in_order(arguments[0], types[0], descending=False, nulls_first=False), None


def _in_order(array: pa.Array, type_: Type, *, descending: bool, nulls_first: bool) -> pa.Array:
    held = listed(array, type_)
    present, *codes = sort_keys(held.values, type_.parts[0][1])
    keys = [present if nulls_first else ~present, *codes]
    if descending:
        keys = [key.max(initial=0) - key.astype(np.int64) for key in keys]
    order = np.lexsort([*reversed(keys), held.rows])
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return physical(listed_in(held.offsets, held.values.take(pa.array(order)), valid), type_)


def _join_type(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    return (STRING, tuple(types)) if types[0] == array_of(STRING) and types[1] == STRING else None


def _array_join(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    """NULLs are left out."""
    array, separator = arguments
    held = listed(array, types[0])
    there = held.values.is_valid().to_numpy(zero_copy_only=False)
    ends = np.concatenate([[0], np.cumsum(there)])
    texts = listed_in(ends[held.offsets], held.values.filter(pa.array(there)))
    joined = pc.binary_join(texts, pa.scalar(separator, pa.large_string()))
    return pc.if_else(array.is_valid(), joined, None), None


def _slice_type(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    start, length = values[1:]
    whole = all(isinstance(each, int) and not isinstance(each, bool) for each in (start, length))
    return (types[0], (types[0], INT, INT)) if types[0].name == "ARRAY" and whole and start and length >= 0 else None


def _slice(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    """So many elements from one on, that is counted from 1, or from the end below 0; none where there is no such."""
    array, start, length = arguments
    held = listed(array, types[0])
    counts = held.counts
    first = np.full(len(counts), start - 1) if start > 0 else counts + start
    taken = np.where((first >= 0) & (first < counts), np.minimum(length, counts - first), 0)
    offsets = np.concatenate([[0], np.cumsum(taken)])
    places = np.repeat(held.offsets[:-1] + first - offsets[:-1], taken) + np.arange(offsets[-1])
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return physical(listed_in(offsets, held.values.take(pa.array(places, pa.int64())), valid), types[0]), None


def _split_type(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    pattern = values[1]
    plain = isinstance(pattern, str) and pattern != "" and not _PATTERN.intersection(pattern)
    return (array_of(STRING), (STRING, STRING)) if types == [STRING, STRING] and plain else None


def _split(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    return physical(pc.split_pattern(arguments[0], arguments[1]), array_of(STRING)), None


ORDERED = (
    Function("sort_array", "an ARRAY of values that have an order, and a constant BOOLEAN", _sorted_type, _sort_array,
             1, 2, constants=(1,), nested=True,
             shown=lambda name, given: f"{name}({', '.join([*given, *['true'] * (len(given) < 2)])})"),
    Function("array_sort", "an ARRAY of values that have an order", _sorted_type, _array_sort, nested=True,
             shown=lambda name, given: f"{name}({given[0]}, {_COMPARED})"),
    Function("array_join", "an ARRAY of STRINGs and a constant STRING", _join_type, _array_join, 2, 2, constants=(1,),
             nested=True),
    Function("slice", "an ARRAY, and constant INTs, the first not 0", _slice_type, _slice, 3, 3, constants=(1, 2),
             nested=True),
    Function("split", "a STRING and a constant that means nothing in a regular expression", _split_type, _split, 2, 2,
             constants=(1,), nested=True, shown=lambda name, given: f"{name}({', '.join(given)}, -1)"),
)  # fmt: skip
