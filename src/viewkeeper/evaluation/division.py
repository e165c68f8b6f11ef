"""/ and % on vectors; a zero on the right raises, whatever the type.

Quotients and remainders of decimals are exact, then rounded HALF_UP to the result's scale.  (Spark cuts a quotient to
39 places first, which is the same.)  Where 64 bits or division by a divisor of 32 bits suffice, no Python integers are
needed; else they are (an array of objects), which is as exact and slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import MAX_PRECISION, Type, physical_type
from viewkeeper.evaluation import limbs as wide
from viewkeeper.evaluation.error_codes import (
    DIVIDE_BY_ZERO,
    NUMERIC_VALUE_OUT_OF_RANGE,
    REMAINDER_BY_ZERO,
    pack_error,
)
from viewkeeper.evaluation.vectors import Binary, Vector, both_valid, first_error, raise_where
from viewkeeper.plans.expressions import TextPlace

_INT64_DIGITS = 18
_SHORT_DIGITS = 9  # of a divisor below 2**32
_QUOTIENT_DIGITS = MAX_PRECISION + 1
_WORD = 1 << 64


def division(operator: str, left: Type, right: Type, result: Type, place: TextPlace | None) -> Binary:
    """The function for `left / right` or `left % right` of type `result`, raising at `place`."""
    by_zero = pack_error(DIVIDE_BY_ZERO if operator == "/" else REMAINDER_BY_ZERO, place)
    if result.is_decimal:
        compute = _quotient(left, right, result) if operator == "/" else _remainder(left, right, result)
        beyond = pack_error(NUMERIC_VALUE_OUT_OF_RANGE, place)
    elif operator == "/":
        compute, beyond = _divided, 0
    else:
        compute, beyond = _rest_of_floats if result.is_float else _rest_of_integers, 0

    def run(a: Vector, b: Vector) -> Vector:
        zero = _is_zero(b, right)
        valid = both_valid(a.valid, b.valid)
        nothing = Vector(None, valid, first_error(a.errors, b.errors))
        judged = raise_where(nothing, zero, by_zero)
        data, wrong = compute(a, b, zero)
        if wrong is not None:
            judged = raise_where(judged, wrong, beyond)
        return _finished(judged, data, result)

    return run


def _is_zero(vector: Vector, type_: Type) -> np.ndarray:
    """Where the data are zero; NULLs may be found too."""
    if isinstance(vector.data, np.ndarray):
        return vector.data == 0
    words = np.frombuffer(_array(vector.data).buffers()[1], np.int64).reshape(-1, 2)
    array = _array(vector.data)
    words = words[array.offset : array.offset + len(array)]
    return (words == 0).all(axis=1)


def _array(data: pa.Array | pa.Scalar) -> pa.Array:
    return pa.array([data.as_py()], data.type) if isinstance(data, pa.Scalar) else data


def _finished(vector: Vector, data: Any, type_: Type) -> Vector:
    """The vector with `data`: objects become what is held of DECIMAL `type_`."""
    if not isinstance(data, np.ndarray) or data.dtype != object:
        return vector._replace(data=data)
    if vector.valid is not None:
        data = np.where(vector.valid, data, 0)
    bound = 10**type_.precision
    data = np.where(np.abs(data) < bound, data, 0)  # what is beyond raises
    if type_.precision <= _INT64_DIGITS:
        return vector._replace(data=data.astype(np.int64))
    words = np.empty((len(data), 2), np.int64)
    words[:, 0] = (data % _WORD).astype(np.uint64).view(np.int64)
    words[:, 1] = (data // _WORD).astype(np.int64)
    array = wide.decimals_of_words(words, physical_type(type_), vector.valid)
    return vector._replace(data=array[0] if len(array) == 1 else array)


# Integers and floats

Quotients = tuple[Any, np.ndarray | None]
"""The data, and where they are beyond the type (None: nowhere)."""


def _divided(a: Vector, b: Vector, zero: np.ndarray) -> Quotients:
    with np.errstate(all="ignore"):
        return a.data / b.data, None


def _rest_of_floats(a: Vector, b: Vector, zero: np.ndarray) -> Quotients:
    with np.errstate(all="ignore"):
        return np.fmod(a.data, b.data), None


def _rest_of_integers(a: Vector, b: Vector, zero: np.ndarray) -> Quotients:
    # By -1 the remainder is that by 1; processors trap the smallest integer divided by -1.
    divisor = np.where(zero | (b.data == -1), b.data.dtype.type(1), b.data)
    return np.fmod(a.data, divisor), None


# Decimals

Compute = Callable[[Vector, Vector, np.ndarray], Quotients]


def _quotient(left: Type, right: Type, result: Type) -> Compute:
    digits = result.scale + right.scale - left.scale  # what the numerator is scaled up by
    if digits >= 0 and max(left.precision + digits, right.precision) <= _INT64_DIGITS:
        return lambda a, b, zero: _in_int64(a, b, zero, digits, result)
    if digits >= 0 and right.precision <= _SHORT_DIGITS:
        return lambda a, b, zero: _in_limbs(a, b, zero, digits, result)
    return lambda a, b, zero: _in_objects(a, b, zero, digits, result)


def _in_int64(a: Vector, b: Vector, zero: np.ndarray, digits: int, result: Type) -> Quotients:
    numerator, divisor = a.data * np.int64(10**digits), np.where(zero, 1, b.data)
    magnitude, by = np.abs(numerator), np.abs(divisor)
    quotient = _half_up(magnitude, by)
    signed = np.where((numerator < 0) != (divisor < 0), -quotient, quotient)
    return _held(signed, result)


def _half_up(magnitude: np.ndarray, by: np.ndarray) -> np.ndarray:
    quotient, rest = np.divmod(magnitude, by)
    return quotient + (rest >= by - rest)


def _held(values: np.ndarray, result: Type) -> Quotients:
    """int64 values as DECIMAL `result` is held."""
    if result.precision <= _INT64_DIGITS:
        wrong = np.abs(values) >= 10**result.precision
        return values, wrong if wrong.any() else None
    array = wide.to_decimal128(wide.from_int64(values, 4), physical_type(result))
    return array[0] if len(array) == 1 else array, None


def _in_limbs(a: Vector, b: Vector, zero: np.ndarray, digits: int, result: Type) -> Quotients:
    limbs = wide.from_int64(a.data, 13) if isinstance(a.data, np.ndarray) else wide.from_decimal128(_array(a.data), 13)
    divisor = np.where(zero, 1, b.data)
    if limbs.shape[1] == 1:  # also of no rows: then there is none of it either
        limbs = np.repeat(limbs, len(divisor), axis=1)
    minus = wide.negative(limbs)
    magnitude = wide.scale_up(wide.apply_sign(limbs, minus).copy(), digits)
    by = np.abs(divisor)
    quotient, rest = wide.divide(magnitude, by)
    quotient[0] += rest >= by - rest
    quotient = wide.carry(quotient)
    wrong = wide.beyond(quotient, 10**result.precision)
    signed = wide.apply_sign(quotient, minus != (divisor < 0))
    if result.precision <= _INT64_DIGITS:
        return wide.to_int64(signed), wrong if wrong.any() else None
    array = wide.to_decimal128(signed, physical_type(result))
    return array[0] if len(array) == 1 else array, wrong if wrong.any() else None


def _in_objects(a: Vector, b: Vector, zero: np.ndarray, digits: int, result: Type) -> Quotients:
    numerator, divisor = _objects(a.data) * 10 ** max(digits, 0), np.where(zero, 1, _objects(b.data))
    divisor = divisor * 10 ** max(-digits, 0)
    minus = (numerator < 0) != (divisor < 0)
    quotient = _object_half_up(abs(numerator), abs(divisor))
    wrong = quotient >= 10**result.precision
    return np.where(minus, -quotient, quotient), wrong.astype(np.bool_) if wrong.any() else None


def _object_half_up(magnitude: np.ndarray, by: Any) -> np.ndarray:
    return (2 * magnitude + by) // (2 * by)


def _objects(data: Any) -> np.ndarray:
    """Unscaled values as Python integers."""
    if isinstance(data, np.ndarray):
        return data.astype(object)
    array = _array(data)
    words = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)[array.offset : array.offset + len(array)]
    low = np.ascontiguousarray(words[:, 0]).view(np.uint64).astype(object)
    return words[:, 1].astype(object) * _WORD + low


def _has_more_digits(whole: np.ndarray) -> np.ndarray:
    """Where a whole number >= 0 is another one when it is cut to 39 digits: Java then finds no remainder."""
    found = np.zeros(len(whole), np.bool_)
    for i in np.flatnonzero(whole >= 10**_QUOTIENT_DIGITS):
        found[i] = bool(whole[i] % 10 ** (len(str(whole[i])) - _QUOTIENT_DIGITS))
    return found


def _remainder(left: Type, right: Type, result: Type) -> Compute:
    scale = max(left.scale, right.scale)
    up, down = scale - left.scale, scale - right.scale
    if result.scale == scale and max(left.precision + up, right.precision + down) <= _INT64_DIGITS:
        factor, other = np.int64(10**up), np.int64(10**down)

        def quick(a: Vector, b: Vector, zero: np.ndarray) -> Quotients:
            return _held(np.fmod(a.data * factor, np.where(zero, 1, b.data) * other), result)

        return quick

    def run(a: Vector, b: Vector, zero: np.ndarray) -> Quotients:
        numerator, divisor = _objects(a.data) * 10**up, np.where(zero, 1, _objects(b.data)) * 10**down
        whole, rest = abs(numerator) // abs(divisor), abs(numerator) % abs(divisor)
        impossible = _has_more_digits(whole)
        if result.scale < scale:
            rest = _object_half_up(rest, 10 ** (scale - result.scale))
        elif result.scale > scale:
            rest = rest * 10 ** (result.scale - scale)
        wrong = (rest >= 10**result.precision).astype(np.bool_) | impossible
        return np.where(numerator < 0, -rest, rest), wrong if wrong.any() else None

    return run
