"""CAST of STRING to every other type.

Texts of the usual shapes are read by columns.  Of other shapes each different text is read in Python, one at a time
(text_numbers.py, text_moments.py), since there is no end of them.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.time_zones import to_utc
from viewkeeper.catalog.types import INTEGER_BITS, MAX_PRECISION, TIMESTAMP, TIMESTAMP_NTZ, Type, physical_type
from viewkeeper.evaluation.error_codes import (
    CAST_INVALID_INPUT,
    DATETIME_OVERFLOW,
    NUMERIC_OUT_OF_SUPPORTED_RANGE,
    NUMERIC_VALUE_OUT_OF_RANGE,
    pack_error,
)
from viewkeeper.evaluation.text_moments import read_date, read_moment
from viewkeeper.evaluation.text_numbers import read_decimal, read_double, read_float
from viewkeeper.evaluation.vectors import Vector, dtype, raise_where
from viewkeeper.functions.moments import DAY_US, beyond_dates, beyond_moments, first_of_month
from viewkeeper.functions.text_bytes import bytes_of
from viewkeeper.plans.expressions import TextPlace

TextCast = Callable[[Vector, str], Vector]
Read = tuple[Any, dict[int, np.ndarray]]
"""The data, and where (bool) the text cannot be read, by error code."""

_BLANKS = "".join(map(chr, [*range(33), 127]))
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")


def text_cast(target: Type, place: TextPlace | None) -> TextCast:
    """The function of a vector of texts and the database's time zone that gives it as `target`, raising at `place`."""
    read = _reader(target)

    def run(argument: Vector, zone: str) -> Vector:
        constant = isinstance(argument.data, pa.Scalar)
        texts = pa.array([argument.data.as_py()], argument.data.type) if constant else argument.data
        data, wrong = read(texts, zone)
        if constant and isinstance(data, pa.Array):
            data = data[0]
        result = argument._replace(data=data)
        for code, rows in wrong.items():
            result = raise_where(result, rows, pack_error(code, place))
        return result

    return run


def _reader(target: Type) -> Callable[[pa.Array, str], Read]:
    if target.is_integer:
        return lambda texts, zone: _integers(texts, target)
    if target.is_float:
        return lambda texts, zone: _floats(texts, target)
    if target.is_decimal:
        return lambda texts, zone: _decimals(texts, target)
    return {"BOOLEAN": _booleans, "DATE": _dates, "TIMESTAMP": _timestamps, "TIMESTAMP_NTZ": _clocks}[target.name]


def _mask(tests: pa.Array) -> np.ndarray:
    """Arrow's booleans, with False for NULL."""
    found: np.ndarray = pc.fill_null(tests, False).to_numpy(zero_copy_only=False)
    return found


def _by_text(texts: pa.Array, rows: np.ndarray, read: Callable[[str], Any]) -> tuple[np.ndarray, list[Any]]:
    """The rows (numbers) where `rows`, and what `read` makes of each; it is asked once for each different text."""
    numbers = np.flatnonzero(rows)
    known: dict[str, Any] = {}
    found = []
    for text in texts.take(pa.array(numbers)).to_pylist():
        if text not in known:
            known[text] = read(text)
        found.append(known[text])
    return numbers, found


def _integers(texts: pa.Array, target: Type) -> Read:
    trimmed = pc.utf8_trim(texts, _BLANKS)
    good = _mask(pc.match_substring_regex(trimmed, r"\A[+-]?[0-9]+\z"))
    minus = _mask(pc.starts_with(trimmed, "-"))
    digits = pc.utf8_ltrim(pc.utf8_ltrim(trimmed, "+-"), "0")
    short = good & _mask(pc.less_equal(pc.binary_length(digits), 19))
    there = pc.if_else(pa.array(short & _mask(pc.greater(pc.binary_length(digits), 0))), digits, "0")
    magnitude = there.cast(pa.uint64()).to_numpy()
    limit = np.uint64(1 << (INTEGER_BITS[target.name] - 1))
    fits = short & (magnitude < limit + minus.astype(np.uint64))
    signed = np.where(minus, ~magnitude + np.uint64(1), magnitude).view(np.int64)
    return np.where(fits, signed, 0).astype(dtype(target)), {CAST_INVALID_INPUT: ~fits}


def _floats(texts: pa.Array, target: Type) -> Read:
    plain = _mask(pc.match_substring_regex(texts, r"\A-?[0-9]{1,17}(\.[0-9]{1,17})?\z"))
    arrow = pa.float64() if target.name == "DOUBLE" else pa.float32()
    values = pc.if_else(pa.array(plain), texts, "0").cast(arrow).to_numpy().copy()
    numbers, found = _by_text(
        texts, ~plain & _mask(texts.is_valid()), read_double if target.name == "DOUBLE" else read_float
    )
    wrong = np.zeros(len(texts), np.bool_)
    wrong[numbers] = [value is None for value in found]
    values[numbers] = [0.0 if value is None else value for value in found]
    return values, {CAST_INVALID_INPUT: wrong}


def _decimals(texts: pa.Array, target: Type) -> Read:
    plain = _mask(pc.match_substring_regex(texts, r"\A-?[0-9]{1,37}(\.[0-9]{1,37})?\z"))
    wide = pc.if_else(pa.array(plain), texts, "0").cast(pa.decimal256(76, 37))
    bound = Decimal(10) ** (target.precision - target.scale)
    if target.scale < 37:
        wide = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
    outside = _mask(pc.greater_equal(pc.abs(wide), pa.scalar(bound, pa.decimal256(76, 37))))
    numbers, found = _by_text(texts, ~plain & _mask(texts.is_valid()), lambda text: read_decimal(text, target))
    wrong = {code: np.zeros(len(texts), np.bool_) for code in (CAST_INVALID_INPUT, NUMERIC_OUT_OF_SUPPORTED_RANGE)}
    wrong[NUMERIC_VALUE_OUT_OF_RANGE] = outside
    values = pc.if_else(pa.array(outside), pa.scalar(Decimal(0), wide.type), wide).cast(
        pa.decimal128(MAX_PRECISION, target.scale)
    )
    if len(numbers):
        for code, rows in wrong.items():
            rows[numbers] = [value == code for value in found]
        read = np.full(len(texts), None, object)
        read[numbers] = [value if isinstance(value, Decimal) else Decimal(0) for value in found]
        values = pc.coalesce(pa.array(read, values.type), values)
    if target.precision > 18:
        return values.cast(physical_type(target)), wrong
    words = np.frombuffer(values.buffers()[1] or b"", np.int64).reshape(-1, 2)
    return np.ascontiguousarray(words[values.offset : values.offset + len(values), 0]), wrong


def _is_one_of(texts: pa.Array, words: tuple[str, ...]) -> np.ndarray:
    found: np.ndarray = pc.is_in(texts, value_set=pa.array(words, texts.type)).to_numpy(zero_copy_only=False)
    return found


def _booleans(texts: pa.Array, zone: str) -> Read:
    words = pc.ascii_lower(pc.utf8_trim(texts, _BLANKS))
    true, false = (_is_one_of(words, each) for each in (_TRUE, _FALSE))
    return true, {CAST_INVALID_INPUT: ~(true | false)}


_SHAPE = np.frombuffer(b"dddd-dd-dd dd:dd:dd", np.uint8)


def _fields(texts: pa.Array, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Where (bool) a text has the shape yyyy-MM-dd or, with 19 characters, yyyy-MM-dd HH:mm:ss; and the digits of those
    rows, a column a character."""
    offsets, data = bytes_of(texts)
    shaped = np.diff(offsets) == length
    starts = offsets[:-1][shaped]
    characters = data[starts[:, None] + np.arange(length)]
    digit = _SHAPE[:length] == ord("d")
    good = (characters[:, digit] >= 48).all(axis=1) & (characters[:, digit] <= 57).all(axis=1)
    mark = characters[:, ~digit] == _SHAPE[:length][~digit]
    if length > 10:
        mark[:, 2] |= characters[:, 10] == ord("T")
    good &= mark.all(axis=1)
    shaped[shaped] = good
    return shaped, characters[good].astype(np.int64) - 48


def _number(digits: np.ndarray, first: int, count: int) -> np.ndarray:
    value = digits[:, first]
    for i in range(first + 1, first + count):
        value = value * 10 + digits[:, i]
    return value


def _shaped_days(digits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The days since 1970 of yyyy-MM-dd, and where there is such a day."""
    year, month, day = _number(digits, 0, 4), _number(digits, 5, 2), _number(digits, 8, 2)
    there = (month >= 1) & (month <= 12) & (year >= 1)
    months = (year - 1970) * 12 + np.clip(month, 1, 12) - 1
    found = first_of_month(months) + day - 1
    return found, there & (day >= 1) & (found < first_of_month(months + 1))


def _dates(texts: pa.Array, zone: str) -> Read:
    shaped, digits = _fields(texts, 10)
    days, known = np.zeros(len(texts), np.int64), shaped.copy()
    days[shaped], known[shaped] = _shaped_days(digits)
    numbers, found = _by_text(texts, ~known & _mask(texts.is_valid()), read_date)
    wrong = np.zeros(len(texts), np.bool_)
    wrong[numbers] = [value is None for value in found]
    days[numbers] = [0 if value is None else value for value in found]
    return days.astype(np.int32), {CAST_INVALID_INPUT: wrong, DATETIME_OVERFLOW: beyond_dates(days)}


def _shaped_moments(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """What clocks show by texts of the usual shapes, in microseconds since 1970, and where there are such."""
    times, known = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.bool_)
    for length in (10, 19):
        shaped, digits = _fields(texts, length)
        days, there = _shaped_days(digits)
        clock = days * DAY_US
        if length > 10:
            hour, minute, second = (_number(digits, first, 2) for first in (11, 14, 17))
            there &= (hour < 24) & (minute < 60) & (second < 60)
            clock += (hour * 3600 + minute * 60 + second) * 1_000_000
        times[shaped], known[shaped] = clock, there
    return times, known


def _timestamps(texts: pa.Array, zone: str) -> Read:
    clocks, wrong, zones = _moments(texts)
    times = to_utc(clocks, zone)
    for written, rows in zones.items():
        if isinstance(written, int):
            times[rows] = clocks[rows] - written * 1_000_000
        else:
            times[rows] = to_utc(clocks[rows], written)
    return times, {CAST_INVALID_INPUT: wrong, DATETIME_OVERFLOW: ~wrong & beyond_moments(times, TIMESTAMP, zone)}


def _clocks(texts: pa.Array, zone: str) -> Read:
    clocks, wrong, _ = _moments(texts)  # a zone that is written means nothing
    return clocks, {CAST_INVALID_INPUT: wrong, DATETIME_OVERFLOW: beyond_moments(clocks, TIMESTAMP_NTZ, zone)}


def _moments(texts: pa.Array) -> tuple[np.ndarray, np.ndarray, dict[str | int, list[int]]]:
    """What clocks show, where a text is no time, and the rows that name a zone, by it (or its seconds from UTC)."""
    clocks, known = _shaped_moments(texts)
    numbers, found = _by_text(texts, ~known & _mask(texts.is_valid()), read_moment)
    wrong = np.zeros(len(texts), np.bool_)
    wrong[numbers] = [value is None for value in found]
    clocks[numbers] = [0 if value is None else value[0] for value in found]
    zones: dict[str | int, list[int]] = {}
    for number, value in zip(numbers.tolist(), found, strict=True):
        if value is not None and value[1] is not None:
            zones.setdefault(value[1], []).append(number)
    return clocks, wrong, zones
