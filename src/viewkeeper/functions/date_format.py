"""date_format(timestamp, pattern): for the patterns of plain numbers, which are the same in every language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import STRING, TIMESTAMP, Type
from viewkeeper.functions.date_parts import month
from viewkeeper.functions.function import Computed, Function, Signature, taking
from viewkeeper.functions.moments import DAY_US, first_of_month, first_of_year, local, months_of, years_of

_PIECE = re.compile(r"yyyy|MM?|dd?|D(?!D)|DDD|HH?|mm?|ss?|S{1,6}(?!S)|'(?:[^']|'')*'|[^A-Za-z'\[\]{}#]")


def _read(pattern: str) -> list[str] | None:
    """The pattern's pieces; None where it has others than those that are known here."""
    found = _PIECE.findall(pattern)
    letters = [piece for piece in found if piece[0].isalpha()]
    apart = all(a[0] != b[0] or not a[0].isalpha() for a, b in zip(found, found[1:], strict=False))
    return found if pattern and "".join(found) == pattern and apart and letters else None


def _result(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    known = isinstance(values[1], str) and _read(values[1]) is not None
    return taking(STRING, TIMESTAMP, STRING)(types, values) if known else None


def _kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
    times, pattern = arguments
    return formatted(local(times, types[0], zone), pattern, times), None


def formatted(clock: np.ndarray, pattern: str, times: pa.Array) -> pa.Array:
    """The microseconds since 1970 that clocks show, written by `pattern`; NULL where `times` are."""
    day, second = clock // DAY_US, clock % DAY_US // 1_000_000
    pieces: list[Any] = []
    for piece in _read(pattern) or ():
        numbers = _numbers(piece, clock, day, second)
        if numbers is None:
            literal = piece[1:-1].replace("''", "'") if len(piece) > 2 else piece.replace("''", "'")
            pieces.append(pa.scalar(literal, pa.large_string()))
            continue
        values, width = numbers
        _, which = (distinct := np.unique(values, return_inverse=True))
        texts = pa.array([f"{value:0{width}}" for value in distinct[0].tolist()], pa.large_string())
        pieces.append(texts.take(pa.array(which)))
    joined = pc.binary_join_element_wise(*pieces, pa.scalar("", pa.large_string()))
    return pc.if_else(times.is_valid(), joined, None) if times.null_count else joined


def _numbers(piece: str, clock: np.ndarray, day: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, int] | None:
    """What a piece shows, and how many digits at least; None for a piece that stands for itself."""
    width = len(piece)
    match piece[0]:
        case "y":
            return years_of(day), width
        case "M":
            return month(day), width
        case "d":
            return day - first_of_month(months_of(day)) + 1, width
        case "D":
            return day - first_of_year(years_of(day)) + 1, width
        case "H":
            return second // 3600, width
        case "m":
            return second // 60 % 60, width
        case "s":
            return second % 60, width
        case "S":
            return clock % 1_000_000 // 10 ** (6 - width), width
    return None


DATE_FORMAT = Function("date_format", "a TIMESTAMP and a constant pattern of yyyy, MM, dd, HH, mm, ss and S", _result,
                       _kernel, 2, 2, constants=(1,))  # fmt: skip
