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
    if source.name == "DATE" and target.name == "TIMESTAMP":
        return _midnight
    if source.name == "DATE" and target.name == "TIMESTAMP_NTZ":
        return lambda argument, _: argument._replace(data=argument.data * np.int64(_DAY_US))
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


def _midnight(argument: Vector, zone: str) -> Vector:
    local = argument.data * np.int64(_DAY_US)
    if zone == "UTC":
        return argument._replace(data=local)
    if argument.valid is not None:
        local = np.where(argument.valid, local, 0)
    # As java.time's atStartOfDay: the first moment of a day that has no midnight, the earlier of two midnights.
    times = pc.assume_timezone(
        pa.array(local).view(pa.timestamp("us")), zone, ambiguous="earliest", nonexistent="latest"
    )
    return argument._replace(data=times.view(pa.int64()).to_numpy())
