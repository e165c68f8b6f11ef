"""CAST to STRING: of everything but DOUBLE and FLOAT, whose text is not the same in every version of Java."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.time_zones import to_local
from viewkeeper.catalog.types import MAX_PRECISION, TIMESTAMP, Type
from viewkeeper.evaluation.vectors import Vector

_TEXT = pa.large_string()
_INT64_DIGITS = 18


def as_text(source: Type) -> Callable[[Vector, str], Vector]:
    """The function of a vector of type `source` and the database's time zone that gives it as texts."""
    if source.is_decimal:
        return lambda argument, _: _finished(argument, _of_decimal(argument.data, source))
    if source.is_integer:
        return lambda argument, _: _finished(argument, pa.array(argument.data).cast(_TEXT))
    if source.name == "BOOLEAN":
        true, false = pa.scalar("true", _TEXT), pa.scalar("false", _TEXT)
        return lambda argument, _: _finished(argument, pc.if_else(pa.array(argument.data), true, false))
    if source.name == "DATE":
        return lambda argument, _: _finished(argument, _of_date(argument))
    if source.name in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        return lambda argument, zone: _finished(argument, _of_moment(argument, source, zone))
    raise TypeError(f"no conversion from {source} to STRING")


def _finished(argument: Vector, texts: pa.Array) -> Vector:
    if len(texts) == 1 and isinstance(argument.data, (np.ndarray, pa.Scalar)):
        return argument._replace(data=texts[0])
    if argument.valid is not None and len(texts):
        texts = pc.if_else(pa.array(np.broadcast_to(argument.valid, len(texts))), texts, None)
    return argument._replace(data=texts)


def _kept(argument: Vector) -> np.ndarray:
    """The numbers, with 0 where they mean nothing."""
    return (
        argument.data
        if argument.valid is None
        else np.where(argument.valid, argument.data, argument.data.dtype.type(0))
    )


def _of_date(argument: Vector) -> pa.Array:
    return pa.array(_kept(argument)).view(pa.date32()).cast(_TEXT)


def _of_moment(argument: Vector, source: Type, zone: str) -> pa.Array:
    """Without the zeros at the fraction's end."""
    times = _kept(argument)
    times = to_local(times, zone) if source == TIMESTAMP else times
    if not (times % 1_000_000).any():
        return pa.array(times // 1_000_000).view(pa.timestamp("s")).cast(_TEXT)
    texts = pa.array(times).view(pa.timestamp("us")).cast(_TEXT)
    return pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".")


def _of_decimal(data: np.ndarray | pa.Array | pa.Scalar, source: Type) -> pa.Array:
    """All digits of the scale, without an exponent."""
    if isinstance(data, np.ndarray):
        digits = pa.array(data).cast(_TEXT)
    else:
        array = pa.array([data.as_py()], data.type) if isinstance(data, pa.Scalar) else data
        whole = pa.decimal128(MAX_PRECISION, 0)
        digits = pa.Array.from_buffers(whole, len(array), array.buffers(), offset=array.offset).cast(_TEXT)
    if source.scale == 0:
        return digits
    minus = pc.starts_with(digits, "-")
    magnitude = pc.utf8_lpad(pc.ascii_ltrim(digits, "-"), source.scale + 1, "0")
    front = pc.utf8_slice_codeunits(magnitude, 0, -source.scale)
    back = pc.utf8_slice_codeunits(magnitude, -source.scale)
    sign = pc.if_else(minus, pa.scalar("-", _TEXT), pa.scalar("", _TEXT))
    return pc.binary_join_element_wise(pc.binary_join_element_wise(sign, front, pa.scalar("", _TEXT)), back,
                                       pa.scalar(".", _TEXT))  # fmt: skip
