"""What a text means as a number, of whatever shape Java takes for one."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import MAX_PRECISION, Type
from viewkeeper.evaluation.error_codes import (
    CAST_INVALID_INPUT,
    NUMERIC_OUT_OF_SUPPORTED_RANGE,
    NUMERIC_VALUE_OUT_OF_RANGE,
)

_SPACE = "".join(map(chr, range(33)))
_REAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_HEXADECIMAL = re.compile(r"[+-]?0[xX]([0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?\d+", re.ASCII)
_NAMED = {"inf": np.inf, "+inf": np.inf, "infinity": np.inf, "+infinity": np.inf, "-inf": -np.inf,
          "-infinity": -np.inf, "nan": np.nan}  # fmt: skip
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,10})?")


def read_double(text: str) -> float | None:
    """As Java's `Double.parseDouble`, and Spark's names of what is not finite; None for what is no number."""
    return _read(text, float)


def read_float(text: str) -> float | None:
    """As Java's `Float.parseFloat`: rounded once."""
    return _read(text, _nearest_float)


def _read(text: str, nearest: Callable[[str], float]) -> float | None:
    trimmed = text.strip(_SPACE)
    number = trimmed[:-1] if trimmed[-1:] in ("d", "D", "f", "F") else trimmed
    if _REAL.fullmatch(number):
        return nearest(number)
    if _HEXADECIMAL.fullmatch(number):
        try:
            return float.fromhex(number)
        except OverflowError:
            return -np.inf if number[0] == "-" else np.inf
    if trimmed in ("+NaN", "-NaN"):
        return np.nan
    return _NAMED.get(trimmed.lower())


def _nearest_float(number: str) -> float:
    try:
        return float(pa.scalar(number).cast(pa.float32()).as_py())
    except pa.ArrowInvalid:  # beyond the range, or of a shape that Arrow does not know
        with np.errstate(over="ignore"):
            return float(np.float32(float(number)))


def read_decimal(text: str, target: Type) -> Decimal | int:
    """As Java's `BigDecimal`, rounded HALF_UP to the scale of `target`; an error code for what is none."""
    trimmed = text.strip(_SPACE)
    if not _DECIMAL.fullmatch(trimmed):
        return CAST_INVALID_INPUT
    value = Decimal(trimmed)
    digits = value.as_tuple()
    assert isinstance(digits.exponent, int)
    if len(digits.digits) + digits.exponent > MAX_PRECISION:
        return NUMERIC_OUT_OF_SUPPORTED_RANGE
    if value.adjusted() < -MAX_PRECISION - 2:
        return Decimal(0).scaleb(-target.scale)
    rounded = rescale(value, target.scale)
    if rounded and rounded.adjusted() >= target.precision - target.scale:
        return NUMERIC_VALUE_OUT_OF_RANGE
    return rounded


def rescale(value: Decimal, scale: int) -> Decimal:
    """`value` with exactly `scale` digits behind the point; raises InvalidOperation beyond 76 digits."""
    return value.quantize(Decimal(1).scaleb(-scale), rounding="ROUND_HALF_UP", context=Context(prec=76))
