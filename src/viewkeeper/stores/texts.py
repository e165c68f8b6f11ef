"""Texts in files to values of their columns' types: whole columns where all are plainly written, else one by one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import Type, logical_type
from viewkeeper.files import binary
from viewkeeper.stores.value_conversion import Converter, ValueRefused

_INTEGER = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|nan|[+-]?inf(inity)?", re.ASCII | re.IGNORECASE)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_SPACES = " \t"

_WITH_ZONE = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)$"
_TIME_LENGTHS = np.isin(np.arange(27), [10, 16, 19, *range(21, 27)])
"""Of which lengths a time without zone is."""


def _only(characters: str) -> np.ndarray:
    allowed = np.zeros(256, np.bool_)
    allowed[list(characters.encode())] = True
    return allowed


_DIGITS, _NUMBERS = _only("0123456789-"), _only("0123456789+-.eE")
_ALLOWED = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "DATE"), _DIGITS),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL"), _NUMBERS),
}
"""Written in these bytes alone, a text means to Arrow what it means here, or nothing."""


def plain(column: pa.Array, type_: Type) -> pa.Array:
    """A column (string) as an Arrow array that stands for the same values of `type_`.

    Raises ValueError where some text is none, or is written so that it must be looked at by itself.
    """
    if type_.name == "STRING":
        return column
    if type_.name == "BINARY":
        raise ValueError("hexadecimal digits are read one by one")
    if type_.name in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        return _times(column, with_zone=type_.name == "TIMESTAMP")
    if np.isin(list(_SPACES.encode()), data := _bytes(column)).any():
        column = pc.ascii_trim(column, _SPACES)
        data = _bytes(column)
    if (allowed := _ALLOWED.get(type_.name)) is not None and not allowed[data].all():
        raise ValueError("not plainly written")
    values = column.cast(pa.float64() if type_.is_float else logical_type(type_))
    if type_.is_float and not np.isfinite(pc.fill_null(values, 0).to_numpy()).all():
        raise ValueError("too great for a DOUBLE")
    return values


def reader(type_: Type, one: Converter) -> Callable[[str], Any]:
    """What makes a physical value of one text; `one` takes the Python value that it stands for.  It raises Refused."""

    def read(text: str) -> Any:
        return one(value_of(text, type_))

    return read


def value_of(text: str, type_: Type) -> Any:
    """The Python value that a text stands for; raises Refused."""
    if type_.name == "STRING":
        return text
    trimmed = text.strip(_SPACES)
    if type_.is_integer and _INTEGER.fullmatch(trimmed):
        return int(trimmed)
    if type_.is_float and _REAL.fullmatch(trimmed):
        value = float(trimmed)
        if np.isinf(value) and "inf" not in trimmed.lower():
            raise ValueRefused(f"{text} is too great for a DOUBLE")
        return value
    if type_.name == "BOOLEAN" and trimmed.lower() in _BOOLEANS:
        return _BOOLEANS[trimmed.lower()]
    if type_.name == "BINARY" and isinstance(data := binary(trimmed), bytes):
        return data
    if type_.is_integer or type_.is_float or type_.name in ("BOOLEAN", "BINARY"):
        raise ValueRefused(f"{text if len(text) <= 60 else text[:57] + '...'!r} is no {type_}")
    return trimmed


def _times(column: pa.Array, with_zone: bool) -> pa.Array:
    lengths = pc.fill_null(pc.binary_length(column), 10).to_numpy()
    if lengths.max(initial=0) < len(_TIME_LENGTHS) and _TIME_LENGTHS[lengths].all():
        try:
            return column.cast(pa.timestamp("us"))
        except pa.ArrowInvalid:
            pass
    if with_zone and pc.all(pc.match_substring_regex(column, _WITH_ZONE)).as_py():
        return column.cast(pa.timestamp("us", "UTC"))
    raise ValueError("not plainly written")


def _bytes(column: pa.Array) -> np.ndarray:
    """uint8: all texts of a column, one behind the other."""
    if not len(column) or column.buffers()[2] is None:
        return np.zeros(0, np.uint8)
    offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, 4 * column.offset)
    return np.frombuffer(column.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
