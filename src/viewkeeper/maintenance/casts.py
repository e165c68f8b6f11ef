"""Implicit conversions on vectors (the `Cast` node)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import Type
from viewkeeper.maintenance import decimals
from viewkeeper.maintenance.vectors import Vector, dtype, null

_INTEGER_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_DAY_US = 86_400_000_000

Cast = Callable[[Vector, str], Vector]


def cast(source: Type, target: Type, place: tuple[int, int] | None) -> Cast:
    """The function of a vector of type `source` and the database's time zone that gives it as `target`.

    Raises TypeError for a pair that no implicit conversion has.
    """
    if source.name == "VOID":
        return lambda argument, _: null(target)
    if source == target:
        return lambda argument, _: argument
    pair = source.name, target.name
    if pair == ("DATE", "TIMESTAMP"):
        return lambda argument, zone: _at_start_of_day(_midnight(argument), zone)
    if pair == ("DATE", "TIMESTAMP_NTZ"):
        return lambda argument, _: _midnight(argument)
    if pair == ("TIMESTAMP_NTZ", "TIMESTAMP"):
        return _at_zone
    if pair == ("STRING", "BINARY"):
        return lambda argument, _: argument._replace(data=argument.data.cast(pa.large_binary()))
    convert = _number(source, target, place)
    return lambda argument, _: convert(argument)


def _number(source: Type, target: Type, place: tuple[int, int] | None) -> Callable[[Vector], Vector]:
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


def _at_start_of_day(argument: Vector, zone: str) -> Vector:
    """java.time's `atStartOfDay`: a day without midnight begins at its first moment, one with two at the earlier."""
    if zone == "UTC":
        return argument
    return argument._replace(data=_numbers(_assume(_times(argument), zone, nonexistent="latest")))


def _at_zone(argument: Vector, zone: str) -> Vector:
    """java.time's `atZone`: an hour that the clock skips is read, and one that it shows twice, as before the change."""
    if zone == "UTC":
        return argument
    local = _times(argument)
    times = _assume(local, zone, nonexistent="earliest")  # for a skipped hour, the last moment before the change
    return argument._replace(data=_numbers(times) + (_numbers(local) - _numbers(pc.local_timestamp(times))))


def _assume(local: pa.Array, zone: str, nonexistent: str) -> pa.Array:
    return pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent=nonexistent)


def _times(argument: Vector) -> pa.Array:
    data = argument.data if argument.valid is None else np.where(argument.valid, argument.data, 0)
    return pa.array(data).view(pa.timestamp("us"))


def _numbers(times: pa.Array) -> np.ndarray:
    return times.view(pa.int64()).to_numpy()
