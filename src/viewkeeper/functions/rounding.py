"""ceil, floor, round and bround of numbers that are whole or decimal; ceil and floor of DOUBLE too.

Round and bround of DOUBLE and FLOAT are not here: Spark rounds the text that Java prints, which before Java 19 was not
always the shortest one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import BIGINT, DOUBLE, INT, MAX_PRECISION, STRING, VOID, Type, decimal, physical_type
from viewkeeper.functions.function import Computed, Function, Signature, implicit, made, numbers, wrong_where

_INT64_DIGITS, _ROOM = 18, 76


def _whole(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    type_ = types[0]
    if type_.is_decimal and type_.scale == 0:
        return type_, (type_,)
    if type_.is_decimal:
        return decimal(type_.precision - type_.scale + 1, 0), (type_,)
    if type_.is_integer:
        return BIGINT, (BIGINT,)
    return (BIGINT, (DOUBLE,)) if type_.is_float or type_ in (STRING, VOID) else None


def _to_whole(name: str, of_float: Any, of_decimal: Callable[..., pa.Array], *aliases: str) -> Function:
    def kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
        (values,), (type_,) = arguments, types
        if type_.is_decimal:
            return _decimal_whole(values, type_, of_decimal), None
        if type_ == BIGINT:
            return values, None
        rounded = of_float(numbers(values))
        return _exact_longs(rounded, values)

    def shown(name: str, arguments: Sequence[str]) -> str:
        return f"{name if name in aliases else name.upper()}({arguments[0]})"

    return Function(name, "a number", _whole, kernel, aliases=aliases, shown=shown, raises="ARITHMETIC_OVERFLOW",
                    may_raise=lambda type_: type_ == BIGINT)  # fmt: skip


def _exact_longs(rounded: np.ndarray, values: pa.Array) -> Computed:
    """What is beyond raises, as NaN does."""
    big = float(1 << 63)
    with np.errstate(invalid="ignore"):
        wrong = ~((rounded >= -big) & (rounded < big))
        inside = np.where(wrong, 0, rounded).astype(np.int64)
    return made(inside, values), wrong_where(wrong)


def _wide(values: pa.Array, type_: Type) -> pa.Array:
    """Decimals with room for whatever a rounding makes of them."""
    if type_.precision <= _INT64_DIGITS:
        words = np.empty((len(values), 2), np.int64)
        words[:, 0] = numbers(values)
        words[:, 1] = words[:, 0] >> 63
        validity = values.is_valid().buffers()[1] if values.null_count else None
        narrow = pa.decimal128(MAX_PRECISION, type_.scale)
        values = pa.Array.from_buffers(narrow, len(values), [validity, pa.py_buffer(words)])
    return values.cast(pa.decimal256(_ROOM, type_.scale))


def _held(values: pa.Array, result: Type) -> pa.Array:
    """Wide decimals, rounded already, in the physical form of `result`."""
    target = physical_type(result)
    if target != pa.int64():
        return values.cast(target)
    cut = values.cast(pa.decimal128(MAX_PRECISION, result.scale))
    unscaled = pa.Array.from_buffers(pa.decimal128(MAX_PRECISION, 0), len(cut), cut.buffers(), offset=cut.offset)
    return unscaled.cast(pa.int64())


def _decimal_whole(values: pa.Array, type_: Type, of_decimal: Callable[..., pa.Array]) -> pa.Array:
    result, _ = _whole([type_], []) or (type_, ())
    return _held(of_decimal(_wide(values, type_)), result)


def _rounded(types: Sequence[Type], values: Sequence[Any]) -> Signature | None:
    type_, digits = types[0], values[1]
    if not implicit(types[1], INT) or not isinstance(digits, int) or not -MAX_PRECISION <= digits <= MAX_PRECISION:
        return None
    if type_.is_integer:
        return type_, (type_, INT)
    if not type_.is_decimal:
        return None
    whole = type_.precision - type_.scale + 1
    if digits < 0:
        return decimal(min(max(whole, 1 - digits), MAX_PRECISION), 0), (type_, INT)
    scale = min(type_.scale, digits)
    return decimal(min(whole + scale, MAX_PRECISION), scale), (type_, INT)


def _rounding(name: str, mode: str) -> Function:
    def kernel(arguments: Sequence[Any], types: Sequence[Type], zone: str) -> Computed:
        values, digits = arguments
        type_ = types[0]
        if type_.is_integer:
            return _round_integers(values, digits, mode)
        signature = _rounded(types, [None, digits])
        assert signature is not None
        return _round_decimals(values, type_, signature[0], digits, mode)

    return Function(name, "a whole number or a DECIMAL, and a constant INT", _rounded, kernel, 1, 2, defaults=(0,),
                    constants=(1,), raises="ARITHMETIC_OVERFLOW")  # fmt: skip


def _round_integers(values: pa.Array, digits: int, mode: str) -> Computed:
    if digits >= 0:
        return values, None
    held = numbers(values)
    if digits < -19:
        return made(np.zeros_like(held), values), None
    unit, minus = np.uint64(10**-digits), held < 0
    magnitude = held.astype(np.int64).astype(np.uint64)
    magnitude = np.where(minus, ~magnitude + np.uint64(1), magnitude)
    quotient, rest = np.divmod(magnitude, unit)
    up = (rest > unit - rest) | ((rest == unit - rest) & ((quotient % np.uint64(2) == 1) | (mode != "half_to_even")))
    rounded = (quotient + up.astype(np.uint64)) * unit
    limits = np.iinfo(held.dtype)
    wrong = rounded > np.where(minus, np.uint64(-limits.min), np.uint64(limits.max))
    signed = np.where(minus, ~rounded + np.uint64(1), rounded).view(np.int64)
    return made(np.where(wrong, 0, signed).astype(held.dtype), values), wrong_where(wrong)


def _round_decimals(values: pa.Array, type_: Type, result: Type, digits: int, mode: str) -> Computed:
    wide = _wide(values, type_)
    if -digits > type_.precision - type_.scale:
        wide = pc.if_else(wide.is_valid(), pa.scalar(Decimal(0), wide.type), None)
    elif digits < type_.scale:
        wide = pc.round(wide, ndigits=digits, round_mode=mode)
    if result.precision - result.scale + type_.scale >= _ROOM:
        return _held(wide, result), None  # all that there is fits
    bound = pa.scalar(Decimal(10) ** (result.precision - result.scale), wide.type)
    wrong = pc.fill_null(pc.greater_equal(pc.abs(wide), bound), False).to_numpy(zero_copy_only=False)
    if wrong.any():
        wide = pc.if_else(pa.array(wrong), pa.scalar(Decimal(0), wide.type), wide)
    return _held(wide, result), {"NUMERIC_VALUE_OUT_OF_RANGE": wrong}


CEIL = _to_whole("ceil", np.ceil, pc.ceil, "ceiling")
FLOOR = _to_whole("floor", np.floor, pc.floor)
ROUND = _rounding("round", "half_towards_infinity")
BROUND = _rounding("bround", "half_to_even")
