"""Decimal arithmetic and rescaling on vectors: exact, rounded HALF_UP to the result's scale, range-checked.

An operation first gives the exact result, of the type that the operands' types imply, then brings it to the wanted
one.  By its type alone a value is held as int64 (at most 18 digits), Arrow's decimal128 (38) or limbs (limbs.py).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import MAX_PRECISION, Type, decimal, physical_type
from viewkeeper.evaluation import limbs as wide
from viewkeeper.evaluation.error_codes import NUMERIC_VALUE_OUT_OF_RANGE, pack_error
from viewkeeper.evaluation.vectors import Vector, both_valid, first_error, raise_where
from viewkeeper.plans.expressions import TextPlace

_INT64_DIGITS = 18
_LIMBS = 9  # 77 digits and the sign
_LIMBS_MORE = 4  # 38 digits
_NEGATION = Context(prec=34, rounding=ROUND_HALF_EVEN)

Valid = np.ndarray | None


def decimal_arithmetic(
    operator: str, left: Type, right: Type, result: Type, place: TextPlace | None
) -> Callable[[Vector, Vector], Vector]:
    """The function for `left operator right` of type DECIMAL `result`, raising at `place`."""
    exact = _exact_type(operator, left, right)
    if exact.precision <= _INT64_DIGITS:
        compute = _in_int64(operator, left, right, exact)
    elif exact.precision <= MAX_PRECISION:
        compute = _in_decimal128(operator, left, right)
    else:
        compute = _in_limbs(operator, left, right, exact)
    convert = rescale(exact, result, place)

    def run(a: Vector, b: Vector) -> Vector:
        return convert(Vector(compute(a, b), both_valid(a.valid, b.valid), first_error(a.errors, b.errors)))

    return run


def rescale(source: Type, target: Type, place: TextPlace | None) -> Callable[[Vector], Vector]:
    """The function that brings DECIMAL `source` to DECIMAL `target`, raising at `place` what does not fit."""
    if source == target:
        return lambda argument: argument
    digits = target.scale - source.scale
    if digits >= 0 and target.precision - source.precision >= digits:  # nothing to round, and everything fits
        if target.precision <= _INT64_DIGITS:
            factor = np.int64(10**digits)
            return lambda argument: argument._replace(data=argument.data * factor)
        arrow_type = physical_type(target)
        return lambda argument: argument._replace(data=_decimal128(argument, source).cast(arrow_type))
    return _through_limbs(source, target, digits, pack_error(NUMERIC_VALUE_OUT_OF_RANGE, place))


def negation(type_: Type, place: TextPlace | None) -> Callable[[Vector], Vector]:
    """The function for unary minus of DECIMAL `type_`.

    Spark's rounds to 34 digits, ties to even (Java's MathContext.DECIMAL128), and raises what then has too many.
    """
    if type_.precision <= _INT64_DIGITS:
        return lambda argument: argument._replace(data=-argument.data)
    if type_.precision <= _NEGATION.prec:
        return lambda argument: argument._replace(data=pc.negate(argument.data))
    longest, error = Decimal((0, (1,), _NEGATION.prec - type_.scale)), pack_error(NUMERIC_VALUE_OUT_OF_RANGE, place)
    least = pa.scalar(longest, physical_type(type_))

    def run(argument: Vector) -> Vector:
        data = argument.data
        long = pc.greater_equal(pc.abs(data), least)
        if not pc.any(long).as_py():
            return argument._replace(data=pc.negate(data))
        values = [data] if isinstance(data, pa.Scalar) else data
        rounded = [None if value is None else _NEGATION.minus(value) for value in (v.as_py() for v in values)]
        wrong = np.array([value is not None and value.adjusted() + type_.scale >= type_.precision for value in rounded])
        kept = [None if bad else value for value, bad in zip(rounded, wrong, strict=True)]
        array = pa.array(kept, physical_type(type_))
        held = array[0] if isinstance(data, pa.Scalar) else array
        return raise_where(argument._replace(data=held), wrong, error) if wrong.any() else argument._replace(data=held)

    return run


def from_integer(digits: int, target: Type, place: TextPlace | None) -> Callable[[Vector], Vector]:
    """The function for CAST to DECIMAL `target` of integers of at most `digits` digits."""
    source = decimal(digits, 0)
    convert = rescale(source, target, place)
    if digits > _INT64_DIGITS:
        return lambda argument: convert(argument._replace(data=_of_int64(argument.data, source, argument.valid)))
    return lambda argument: convert(argument._replace(data=argument.data.astype(np.int64)))


def to_double(source: Type) -> Callable[[Vector], Vector]:
    """The function for CAST of DECIMAL `source` to DOUBLE: the nearest double, ties to even."""
    if source.precision > _INT64_DIGITS:
        return lambda argument: argument._replace(data=_parsed(argument.data))
    divisor, wide_type = float(10**source.scale), decimal(_INT64_DIGITS + 1, source.scale)

    def run(argument: Vector) -> Vector:
        data = argument.data
        nearest = data / divisor  # is rounded once, since both are doubles exactly, up to 2**53
        rows = np.flatnonzero(np.abs(data) > 1 << 53)
        if len(rows):
            nearest[rows] = _parsed(_of_int64(data[rows], wide_type, None))
        return argument._replace(data=nearest)

    return run


def _exact_type(operator: str, left: Type, right: Type) -> Type:
    if operator == "*":
        return decimal(left.precision + right.precision + 1, left.scale + right.scale)
    scale = max(left.scale, right.scale)
    return decimal(max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale)


def _in_int64(operator: str, left: Type, right: Type, exact: Type) -> Callable[[Vector, Vector], np.ndarray]:
    if operator == "*":
        return lambda a, b: a.data * b.data
    compute = np.add if operator == "+" else np.subtract
    raise_left, raise_right = np.int64(10 ** (exact.scale - left.scale)), np.int64(10 ** (exact.scale - right.scale))
    return lambda a, b: compute(a.data * raise_left, b.data * raise_right)


def _in_decimal128(operator: str, left: Type, right: Type) -> Callable[[Vector, Vector], Any]:
    compute = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}[operator]  # Arrow gives the exact type
    return lambda a, b: compute(_decimal128(a, left), _decimal128(b, right))


def _in_limbs(operator: str, left: Type, right: Type, exact: Type) -> Callable[[Vector, Vector], np.ndarray]:
    def multiply(a: Vector, b: Vector) -> np.ndarray:
        return wide.multiply(_limbs(a, left, 4), _limbs(b, right, 4), _LIMBS)

    def add(a: Vector, b: Vector) -> np.ndarray:
        augend = wide.scale_up(_limbs(a, left, _LIMBS), exact.scale - left.scale)
        addend = wide.scale_up(_limbs(b, right, _LIMBS), exact.scale - right.scale)
        return wide.carry(augend + addend if operator == "+" else augend - addend)

    return multiply if operator == "*" else add


def _through_limbs(source: Type, target: Type, digits: int, error: int) -> Callable[[Vector], Vector]:
    def run(argument: Vector) -> Vector:
        limbs = _limbs(argument, source, _LIMBS)
        if digits > 0:
            limbs = wide.scale_up(wide.widen(limbs, _LIMBS + _LIMBS_MORE), digits)
        else:
            limbs = wide.round_off(limbs, -digits)
        result = raise_where(argument, wide.beyond(limbs, 10**target.precision), error)
        if target.precision <= _INT64_DIGITS:
            return result._replace(data=wide.to_int64(limbs))
        return result._replace(data=_plain(wide.to_decimal128(limbs, physical_type(target), result.valid)))

    return run


def _decimal128(vector: Vector, type_: Type) -> pa.Array | pa.Scalar:
    if isinstance(vector.data, np.ndarray):
        return _of_int64(vector.data, type_, vector.valid)
    return vector.data


def _of_int64(values: np.ndarray, type_: Type, valid: Valid) -> pa.Array | pa.Scalar:
    words = np.empty((len(values), 2), np.int64)
    words[:, 0] = values
    np.right_shift(values, 63, out=words[:, 1])
    return _plain(wide.decimals_of_words(words, pa.decimal128(type_.precision, type_.scale), valid))


def _plain(array: pa.Array) -> pa.Array | pa.Scalar:
    """One value is a scalar, so that constants stay constants."""
    return array[0] if len(array) == 1 else array


def _limbs(vector: Vector, type_: Type, count: int) -> np.ndarray:
    data = vector.data
    if type_.precision > MAX_PRECISION:
        return data
    if isinstance(data, np.ndarray):
        return wide.from_int64(data, count)
    return wide.from_decimal128(pa.array([data.as_py()], data.type) if isinstance(data, pa.Scalar) else data, count)


def _parsed(data: pa.Array | pa.Scalar) -> np.ndarray:
    # Arrow parses text to the nearest double; its own cast from decimal rounds more than once.
    if isinstance(data, pa.Scalar):
        data = pa.array([data.as_py()], data.type)
    return data.cast(pa.string()).cast(pa.float64()).fill_null(0.0).to_numpy()
