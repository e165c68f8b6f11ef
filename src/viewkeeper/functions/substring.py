"""substring, left and right of a text or bytes: from a 1-based position, or one that counts from the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import INT, STRING, Type
from viewkeeper.functions.function import Computed, Function, Signature, implicit, taking
from viewkeeper.functions.text_bytes import bytes_of, character_begins, pieces

_GREATEST, _LEAST = 2**31 - 1, -(2**31)


def _result(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    first = types[0] if types[0].is_bytes else STRING
    if not implicit(types[0], first) or not all(implicit(type_, INT) for type_ in types[1:]):
        return None
    return first, (first, *[INT] * (len(types) - 1))


def _whole(numbers: pa.Array) -> np.ndarray:
    values: np.ndarray = pc.fill_null(numbers, 0).to_numpy().astype(np.int64)
    return values


def _substring(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    texts, position, length = arguments
    return _cut(texts, _whole(position), _whole(length), types[0], arguments), None


def _left(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    texts, length = arguments
    return _cut(texts, np.ones(len(texts), np.int64), _whole(length), types[0], arguments), None


def _right(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    texts, length = arguments
    count = np.maximum(_whole(length), 0)
    return _cut(texts, -count, np.where(count > 0, _GREATEST, 0), types[0], arguments), None


def _cut(
    texts: pa.Array, position: np.ndarray, length: np.ndarray, type_: Type, arguments: Sequence[pa.Array]
) -> pa.Array:
    alike = len(texts) and position[0] >= 0 and (position == position[0]).all() and (length == length[0]).all()
    if alike and not any(column.null_count for column in arguments[1:]):
        return _cut_alike(texts, max(int(position[0]) - 1, 0), max(int(length[0]), 0), type_)
    offsets, data = bytes_of(texts)
    begins = character_begins(data, type_.name == "STRING")
    first = np.searchsorted(begins, offsets)  # the number of each text's first character, among all texts'
    count = np.diff(first)
    start = np.where(position > 0, position - 1, np.where(position < 0, count + position, 0))
    end = np.clip(start + length, _LEAST, _GREATEST)
    begin = np.clip(start, 0, count)
    end = np.clip(end, begin, count)
    places = np.append(begins, len(data))
    null = ~np.logical_and.reduce([column.is_valid().to_numpy(zero_copy_only=False) for column in arguments])
    return pieces(texts, places[first[:-1] + begin], places[first[:-1] + end], null)


def _cut_alike(texts: pa.Array, start: int, length: int, type_: Type) -> pa.Array:
    """The same piece of each."""
    cut = pc.utf8_slice_codeunits if type_ == STRING else pc.binary_slice
    return cut(texts, start, start + length)


SUBSTRING = Function("substring", "a STRING or BINARY, and INTs", _result, _substring, 2, 3, aliases=("substr",),
                     defaults=(_GREATEST,))  # fmt: skip
LEFT = Function("left", "a STRING or BINARY, and an INT", _result, _left, 2, 2)
RIGHT = Function("right", "a STRING and an INT", taking(STRING, STRING, INT), _right, 2, 2)
