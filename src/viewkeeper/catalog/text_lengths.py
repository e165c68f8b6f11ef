"""Texts for a VARCHAR(n) or CHAR(n): blanks behind character n are cut off, as Spark does on writing, and all else
there is too long; a CHAR(n) is filled up with blanks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import DECLARED_TEXTS, Type, changed_within


class _TooLong(Exception):
    """A text within an array, struct or map."""


def fitted(array: pa.Array, declared: Type) -> tuple[pa.Array, np.ndarray]:
    """A physical array as a column of the type `declared` (`Column.declared`) holds it, and which values it cannot
    hold; where one of those stands within others, the first of them alone is told.

    Raises ValueError where two keys of a map become one.
    """
    if declared.name in DECLARED_TEXTS:
        return _fitted_texts(array, declared)
    try:
        return changed_within(array, declared, _leaf), np.zeros(len(array), bool)
    except _TooLong:
        return array, np.arange(len(array)) == _first_too_long(array, declared)


def fitted_one(text: str, declared: Type) -> str | None:
    """The same for one text; None where it is too long."""
    if len(text.rstrip(" ")) > declared.precision:
        return None
    kept = text[: declared.precision]
    return kept.ljust(declared.precision) if declared.name == "CHAR" else kept


def _fitted_texts(texts: pa.Array, declared: Type) -> tuple[pa.Array, np.ndarray]:
    length = declared.precision
    lengths = pc.utf8_length(texts)
    kept, too_long = texts, np.zeros(len(texts), bool)
    long = pc.fill_null(pc.greater(lengths, length), False)
    if pc.any(long, min_count=0).as_py():
        trimmed = pc.utf8_length(pc.utf8_rtrim(texts, " "))
        too_long = pc.fill_null(pc.greater(trimmed, length), False).to_numpy(zero_copy_only=False)
        kept = pc.if_else(long, pc.utf8_slice_codeunits(texts, 0, length), texts)
    if declared.name == "CHAR" and pc.any(pc.less(lengths, length), min_count=0).as_py():
        kept = pc.utf8_rpad(kept, length, " ")
    return kept, too_long


def _leaf(array: pa.Array, of: Type) -> pa.Array:
    if of.name not in DECLARED_TEXTS:
        return array
    kept, too_long = _fitted_texts(array, of)
    if too_long.any():
        raise _TooLong
    return kept


def _first_too_long(array: pa.Array, declared: Type) -> int:
    first, behind = 0, len(array)
    while behind - first > 1:
        middle = (first + behind) // 2
        try:
            changed_within(array.slice(first, middle - first), declared, _leaf)
            first = middle
        except _TooLong:
            behind = middle
    return first
