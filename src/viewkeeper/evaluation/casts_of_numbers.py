"""CAST between numbers, and from and to BOOLEAN."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import Type, decimal
from viewkeeper.evaluation import decimals
from viewkeeper.evaluation import limbs as wide
from viewkeeper.evaluation.error_codes import CAST_OVERFLOW, pack_error
from viewkeeper.evaluation.vectors import Vector, dtype, raise_where
from viewkeeper.plans.expressions import TextPlace

_INTEGER_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_INT64_DIGITS = 18

Convert = Callable[[Vector], Vector]


def number_cast(source: Type, target: Type, place: TextPlace | None) -> Convert:
    """The function of a vector of type `source` that gives it as `target`, raising at `place`."""
    if source.name == "BOOLEAN":
        return _of_boolean(target, place)
    if target.name == "BOOLEAN":
        return _to_boolean(source)
    if source.is_number and target.is_number:
        return _number(source, target, place)
    raise TypeError(f"no conversion from {source} to {target}")


def _of_boolean(target: Type, place: TextPlace | None) -> Convert:
    if not target.is_decimal:
        return lambda argument: argument._replace(data=argument.data.astype(dtype(target)))
    convert = decimals.rescale(decimal(1, 0), target, place)
    return lambda argument: convert(argument._replace(data=argument.data.astype(np.int64)))


def _to_boolean(source: Type) -> Convert:
    if not (source.is_decimal and source.precision > _INT64_DIGITS):
        return lambda argument: argument._replace(data=argument.data != 0)

    def of_decimal(argument: Vector) -> Vector:
        words = _words(_array(argument.data))
        return argument._replace(data=(words != 0).any(axis=1))

    return of_decimal


def _number(source: Type, target: Type, place: TextPlace | None) -> Convert:
    if target.is_decimal and source.is_decimal:
        return decimals.rescale(source, target, place)
    if target.is_decimal and source.is_integer:
        return decimals.from_integer(_INTEGER_DIGITS[source.name], target, place)
    if target.is_decimal:
        raise TypeError(f"no conversion from {source} to {target}")
    if source.is_decimal:
        if target.is_integer:
            return _whole_of_decimal(source, target, place)
        return decimals.to_double(source) if target.name == "DOUBLE" else _decimal_to_float(source)
    if target.is_float:
        return lambda argument: argument._replace(data=_as_float(argument.data, dtype(target)))
    return _whole_of_float(target, place) if source.is_float else _narrowed(source, target, place)


def _as_float(values: np.ndarray, kind: type) -> np.ndarray:
    with np.errstate(over="ignore"):
        return values.astype(kind)


def _narrowed(source: Type, target: Type, place: TextPlace | None) -> Convert:
    kind, error = dtype(target), pack_error(CAST_OVERFLOW, place)
    if np.dtype(dtype(source)).itemsize <= np.dtype(kind).itemsize:
        return lambda argument: argument._replace(data=argument.data.astype(kind))
    limits = np.iinfo(kind)

    def narrow(argument: Vector) -> Vector:
        data = argument.data
        wrong = (data < limits.min) | (data > limits.max)
        return raise_where(argument._replace(data=data.astype(kind)), wrong, error)

    return narrow


def _whole_of_float(target: Type, place: TextPlace | None) -> Convert:
    """Cut towards zero; as in Java 2**63 is still a BIGINT, the greatest."""
    kind, error = dtype(target), pack_error(CAST_OVERFLOW, place)
    limits = np.iinfo(kind)
    most = float(limits.max)

    def cut(argument: Vector) -> Vector:
        data = argument.data.astype(np.float64)
        with np.errstate(invalid="ignore"):
            wrong = ~((np.floor(data) <= most) & (np.ceil(data) >= float(limits.min)))
            saturated = ~wrong & (data >= float(1 << 63))
            whole = np.where(wrong | saturated, 0, data).astype(np.int64)
        whole = np.where(saturated, limits.max, whole).astype(kind)
        return raise_where(argument._replace(data=whole), wrong, error)

    return cut


def _whole_of_decimal(source: Type, target: Type, place: TextPlace | None) -> Convert:
    kind, error = dtype(target), pack_error(CAST_OVERFLOW, place)
    limits = np.iinfo(kind)
    if source.precision <= _INT64_DIGITS:
        unit = np.int64(10**source.scale)

        def cut(argument: Vector) -> Vector:
            magnitude = np.abs(argument.data) // unit
            whole = np.where(argument.data < 0, -magnitude, magnitude)
            wrong = (whole < limits.min) | (whole > limits.max)
            return raise_where(argument._replace(data=whole.astype(kind)), wrong, error)

        return cut
    if target.name != "BIGINT":
        # Spark goes by way of a DOUBLE, in which digits far behind the point may round up to the next whole number.
        to_double, whole = decimals.to_double(source), _whole_of_float(target, place)
        return lambda argument: whole(to_double(argument))

    def cut_wide(argument: Vector) -> Vector:
        array = _array(argument.data)
        limbs = wide.from_decimal128(array, 5)
        minus = wide.negative(limbs)
        magnitude = wide.apply_sign(limbs, minus)
        digits = source.scale
        while digits > 0:
            magnitude, _ = wide.divide(magnitude, 10 ** min(digits, 9))
            digits -= 9
        signed = wide.apply_sign(magnitude.copy(), minus)
        least = np.iinfo(np.int64).min
        low = wide.to_int64(signed)
        wrong = wide.beyond(signed, 1 << 63) & ~(minus & (low == least) & ~wide.beyond(signed, (1 << 63) + 1))
        return raise_where(argument._replace(data=low), wrong, error)

    return cut_wide


def _decimal_to_float(source: Type) -> Convert:
    """The nearest FLOAT, rounded once: by way of the text, since a DOUBLE between would be a second rounding."""

    def run(argument: Vector) -> Vector:
        data = argument.data
        if isinstance(data, np.ndarray):
            words = np.empty((len(data), 2), np.int64)
            words[:, 0], words[:, 1] = data, data >> 63
            data = wide.decimals_of_words(words, pa.decimal128(source.precision, source.scale), argument.valid)
        texts = _array(data).cast(pa.string())
        return argument._replace(data=pc.fill_null(texts.cast(pa.float32()), 0).to_numpy())

    return run


def _array(data: pa.Array | pa.Scalar) -> pa.Array:
    return pa.array([data.as_py()], data.type) if isinstance(data, pa.Scalar) else data


def _words(array: pa.Array) -> np.ndarray:
    if not len(array):
        return np.zeros((0, 2), np.int64)
    return np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)[array.offset : array.offset + len(array)]
