"""substring(text or bytes, position[, length]): from a 1-based position, or one that counts from the end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from viewkeeper.catalog.types import INT, Type
from viewkeeper.functions.function import Computed, Function

_GREATEST, _LEAST = 2**31 - 1, -(2**31)


def _result(types: Sequence[Type]) -> tuple[Type, tuple[Type, ...]] | None:
    narrow = all(type_.name in ("TINYINT", "SMALLINT", "INT") for type_ in types[1:])
    return (types[0], (types[0], INT, INT)) if types[0].is_bytes and narrow else None


def _kernel(arguments: Sequence[pa.Array], types: Sequence[Type], zone: str) -> Computed:
    texts = arguments[0]
    position, length = (pc.fill_null(numbers, 0).to_numpy().astype(np.int64) for numbers in arguments[1:])
    offsets, data = _bytes(texts)
    begins = _character_begins(data, types[0].name == "STRING")
    first = np.searchsorted(begins, offsets)  # the number of each text's first character, among all texts'
    count = np.diff(first)
    start = np.where(position > 0, position - 1, np.where(position < 0, count + position, 0))
    end = np.clip(start + length, _LEAST, _GREATEST)
    begin = np.clip(start, 0, count)
    end = np.clip(end, begin, count)
    places = np.append(begins, len(data))
    low, high = places[first[:-1] + begin], places[first[:-1] + end]
    lengths = high - low
    ends = np.cumsum(lengths)
    index = np.arange(ends[-1] if len(ends) else 0) + np.repeat(low - ends + lengths, lengths)
    null = ~np.logical_and.reduce([column.is_valid().to_numpy(zero_copy_only=False) for column in arguments])
    made = pa.Array.from_buffers(
        texts.type, len(texts), [None, pa.py_buffer(np.append(0, ends).astype(np.int64)), pa.py_buffer(data[index])]
    )
    return (pc.if_else(pa.array(null), None, made) if null.any() else made), None


def _bytes(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The n + 1 int64 offsets of the texts in their bytes (uint8), from 0."""
    _, offsets, data = texts.buffers()
    if not len(texts):
        return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.uint8)
    held = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    whole = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, dtype=np.uint8)
    return held - held[0], whole[held[0] : held[-1]]


def _character_begins(data: np.ndarray, utf8: bool) -> np.ndarray:
    """Where a character begins (int64), ascending."""
    return np.flatnonzero((data & 0xC0) != 0x80) if utf8 else np.arange(len(data))


SUBSTRING = Function(
    "substring", exp.Substring, ("this", "start", "length"), "a STRING or BINARY, and INTs", _result, _kernel,
    defaults=(("length", _GREATEST),),
)  # fmt: skip
