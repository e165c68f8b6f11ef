"""Constant texts within texts: instr, locate, position, contains, startswith, endswith, substring_index, split_part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import BOOLEAN, INT, STRING, Type
from viewkeeper.functions.function import Computed, Function, Signature, made, taking
from viewkeeper.functions.text_bytes import booleans, bytes_of, character_begins, is_ascii, null_where, pieces

_CONSTANT = "a STRING and a constant one"


def _position(texts: pa.Array, search: str, start: int = 1) -> pa.Array:
    """The 1-based number of the character at which `search` is first found from character `start` on; 0: nowhere."""
    if not search:
        return made(np.ones(len(texts), np.int32), texts)
    if start < 1:
        return made(np.zeros(len(texts), np.int32), texts)
    behind = pc.utf8_slice_codeunits(texts, start - 1) if start > 1 else texts
    found = pc.fill_null(pc.find_substring(behind, search), -1).to_numpy().astype(np.int64)
    if is_ascii(behind):
        return made(np.where(found < 0, 0, found + start).astype(np.int32), texts)
    offsets, data = bytes_of(behind)
    begins = character_begins(data)
    first = offsets[:-1]
    number = np.searchsorted(begins, first + np.maximum(found, 0)) - np.searchsorted(begins, first)
    return made(np.where(found < 0, 0, number + start).astype(np.int32), texts)


def _instr(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    return _position(*arguments), None


def _locate(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    search, texts, start = arguments
    return _position(texts, search, start), None


def _testing(name: str, test: Callable[..., pa.Array]) -> Function:
    def kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
        return booleans(test(*arguments)), None

    return Function(name, _CONSTANT, taking(BOOLEAN, STRING, STRING), kernel, 2, 2, constants=(1,))


def _before_or_behind(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    search = values[1]
    # Spark looks for the next one a byte behind the last one's beginning, so that those of "aa" overlap.
    overlaps = isinstance(search, str) and any(search[:n] == search[-n:] for n in range(1, len(search)))
    return None if overlaps else taking(STRING, STRING, STRING, INT)(types, values)


def _substring_index(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    texts, search, count = arguments
    offsets, _ = bytes_of(texts)
    low, high = offsets[:-1], offsets[1:]
    if not search or count == 0:
        return pieces(texts, low, low, null_where(texts)), None
    split = pc.split_pattern(texts, search, max_splits=min(abs(count), 2**31 - 1), reverse=count < 0)
    cut = pc.fill_null(pc.list_value_length(split), 0).to_numpy() > abs(count)
    outermost = pc.list_element(pc.if_else(pa.array(cut), split, pa.scalar(["", ""], split.type)), 0)
    if count > 0:
        parts = split.flatten()
        last = np.asarray(split.offsets)[1:] - 1
        outermost = parts.take(pa.array(np.maximum(last, 0))) if len(parts) else outermost
    lost = pc.fill_null(pc.binary_length(outermost), 0).to_numpy() + len(search.encode())
    if count > 0:
        return pieces(texts, low, np.where(cut, high - lost, high), null_where(texts)), None
    return pieces(texts, np.where(cut, low + lost, low), high, null_where(texts)), None


def _from_one(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    return None if values[2] == 0 else taking(STRING, STRING, STRING, INT)(types, values)


def _split_part(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    texts, search, number = arguments
    if not search:
        return (texts if number in (1, -1) else pc.if_else(texts.is_valid(), pa.scalar("", texts.type), None)), None
    split = pc.split_pattern(texts, search)
    offsets = np.asarray(split.offsets)
    which = offsets[:-1] + number - 1 if number > 0 else offsets[1:] + number
    there = (which >= offsets[:-1]) & (which < offsets[1:])
    parts = split.flatten().take(pa.array(which, mask=~there))
    return pc.if_else(texts.is_valid(), pc.fill_null(parts, ""), None), None


INSTR = Function("instr", _CONSTANT, taking(INT, STRING, STRING), _instr, 2, 2, constants=(1,))
LOCATE = Function("locate", "a constant STRING, a STRING and a constant INT", taking(INT, STRING, STRING, INT), _locate,
                  2, 3, aliases=("position",), defaults=(1,), constants=(0, 2))  # fmt: skip
CONTAINS = _testing("contains", pc.match_substring)
STARTSWITH = _testing("startswith", pc.starts_with)
ENDSWITH = _testing("endswith", pc.ends_with)
SUBSTRING_INDEX = Function("substring_index", "a STRING, a constant one that does not overlap itself, a constant INT",
                           _before_or_behind, _substring_index, 3, 3, constants=(1, 2))  # fmt: skip
SPLIT_PART = Function("split_part", "a STRING, a constant one and a constant INT that is not 0", _from_one, _split_part,
                      3, 3, constants=(1, 2))  # fmt: skip
