"""Implicit conversions on vectors (the `CastFunction` node)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.time_zones import start_of_day, to_utc
from viewkeeper.catalog.types import Type
from viewkeeper.maintenance import decimals
from viewkeeper.maintenance.vectors import Vector, dtype, null
from viewkeeper.plans.expressions import TextPlace

_INTEGER_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_DAY_US = 86_400_000_000

CastFunction = Callable[[Vector, str], Vector]


def cast(source: Type, target: Type, place: TextPlace | None) -> CastFunction:
    """The function of a vector of type `source` and the database's time zone that gives it as `target`.

    Raises TypeError for a pair that no implicit conversion has.
    """
    if source.name == "VOID":
        return lambda argument, _: null(target)
    if source == target:
        return lambda argument, _: argument
    pair = source.name, target.name
    if pair == ("DATE", "TIMESTAMP"):
        return lambda argument, zone: argument._replace(data=start_of_day(_midnight(argument).data, zone))
    if pair == ("DATE", "TIMESTAMP_NTZ"):
        return lambda argument, _: _midnight(argument)
    if pair == ("TIMESTAMP_NTZ", "TIMESTAMP"):
        return lambda argument, zone: argument._replace(data=to_utc(argument.data, zone))
    if pair == ("STRING", "BINARY"):
        return lambda argument, _: argument._replace(data=argument.data.cast(pa.large_binary()))
    convert = _number(source, target, place)
    return lambda argument, _: convert(argument)


def _number(source: Type, target: Type, place: TextPlace | None) -> Callable[[Vector], Vector]:
    if target.is_decimal and source.is_decimal:
        return decimals.rescale(source, target, place)
    if target.is_decimal and source.is_integer:
        return decimals.from_integer(_INTEGER_DIGITS[source.name], target, place)
    if target.name == "DOUBLE" and source.is_decimal:
        return decimals.to_double(source)
    kind = dtype(target)
    if source.is_integer and target.is_integer:
        widens = np.dtype(dtype(source)).itemsize < np.dtype(kind).itemsize
    else:
        widens = (source.is_integer and target.is_float) or (source.name == "FLOAT" and target.name == "DOUBLE")
    if widens:
        return lambda argument: argument._replace(data=argument.data.astype(kind))
    raise TypeError(f"no implicit conversion from {source} to {target}")


def _midnight(argument: Vector) -> Vector:
    return argument._replace(data=argument.data * np.int64(_DAY_US))
