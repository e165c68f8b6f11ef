"""CAST on vectors (the `Cast` node), implicit and explicit, as Spark in ANSI mode.

Which casts there are is said by `compiler/coercion.py`; texts are read in casts_of_text.py, numbers converted in
casts_of_numbers.py, and all written as texts in casts_to_text.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.time_zones import start_of_day, to_local, to_utc
from viewkeeper.catalog.types import DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ, Type
from viewkeeper.evaluation.casts_of_nested import nested_cast
from viewkeeper.evaluation.casts_of_numbers import number_cast
from viewkeeper.evaluation.casts_of_text import text_cast
from viewkeeper.evaluation.casts_to_text import as_text
from viewkeeper.evaluation.error_codes import CAST_OVERFLOW, CODE_BITS, DATETIME_OVERFLOW, pack_error
from viewkeeper.evaluation.vectors import Vector, first_error, null, raise_where
from viewkeeper.functions.moments import DAY_US, beyond_moments
from viewkeeper.plans.expressions import TextPlace

CastFunction = Callable[[Vector, str], Vector]


def cast(source: Type, target: Type, place: TextPlace | None, tried: bool = False) -> CastFunction:
    """The function of a vector of type `source` and the database's time zone that gives it as `target`; `tried`: what
    cannot be converted is NULL.

    Raises TypeError for a pair that no conversion has.
    """
    run = _cast(source, target, place, tried)
    if not tried:
        return run

    def run_tried(argument: Vector, zone: str) -> Vector:
        # Where an error stands nothing is valid, so that without its error it is NULL.  Spark has what is beyond the
        # years, which therefore still raises.
        result = run(argument, zone)
        if result.errors is None or result.errors is argument.errors:
            return result
        beyond = np.where(result.errors >> CODE_BITS == DATETIME_OVERFLOW, result.errors, 0)
        return result._replace(errors=first_error(argument.errors, beyond if beyond.any() else None))

    return run_tried


def _cast(source: Type, target: Type, place: TextPlace | None, tried: bool) -> CastFunction:
    if source.name == "VOID":
        return lambda argument, _: null(target)
    if source == target:
        return lambda argument, _: argument
    if source.is_nested:
        return nested_cast(source, target, lambda old, new: cast(old, new, place, tried))
    pair = source, target
    if source.is_interval:
        return lambda argument, _: argument
    if pair in _MOMENTS:
        return _MOMENTS[pair]
    if pair == (STRING, Type("BINARY")):
        return lambda argument, _: argument._replace(data=argument.data.cast(pa.large_binary()))
    if source == STRING:
        return text_cast(target, place)
    if target == STRING:
        return as_text(source)
    if source == TIMESTAMP:
        return _counted(target, place)
    if target == TIMESTAMP:
        return _as_timestamp(source, place)
    convert = number_cast(source, target, place)
    return lambda argument, _: convert(argument)


def _midnight(argument: Vector, zone: str) -> Vector:
    return argument._replace(data=argument.data * np.int64(DAY_US))


def _first_moment(argument: Vector, zone: str) -> Vector:
    return argument._replace(data=start_of_day(_midnight(argument, zone).data, zone))


def _day(argument: Vector, zone: str) -> Vector:
    return argument._replace(data=(argument.data // DAY_US).astype(np.int32))


def _on_clock(argument: Vector, zone: str) -> Vector:
    return argument._replace(data=to_local(argument.data, zone))


def _by_clock(argument: Vector, zone: str) -> Vector:
    return argument._replace(data=to_utc(argument.data, zone))


_MOMENTS: dict[tuple[Type, Type], CastFunction] = {
    (DATE, TIMESTAMP): _first_moment, (DATE, TIMESTAMP_NTZ): _midnight, (TIMESTAMP_NTZ, TIMESTAMP): _by_clock,
    (TIMESTAMP, TIMESTAMP_NTZ): _on_clock, (TIMESTAMP_NTZ, DATE): _day,
    (TIMESTAMP, DATE): lambda argument, zone: _day(_on_clock(argument, zone), zone),
}  # fmt: skip

_SECOND = 1_000_000


def _counted(target: Type, place: TextPlace | None) -> CastFunction:
    """A TIMESTAMP as the seconds since 1970: whole ones, or with their fraction."""
    if target.is_float:
        kind = np.float64 if target.name == "DOUBLE" else np.float32
        return lambda argument, _: argument._replace(data=(argument.data / float(_SECOND)).astype(kind))
    if not target.is_integer:
        raise TypeError(f"no conversion from TIMESTAMP to {target}")
    convert = number_cast(Type("BIGINT"), target, place)
    return lambda argument, _: convert(argument._replace(data=argument.data // _SECOND))


def _as_timestamp(source: Type, place: TextPlace | None) -> CastFunction:
    """Seconds since 1970; beyond the years 1 to 9999 there is none."""
    beyond, overflow = pack_error(DATETIME_OVERFLOW, place), pack_error(CAST_OVERFLOW, place)
    if source.is_float:

        def of_float(argument: Vector, zone: str) -> Vector:
            with np.errstate(all="ignore"):
                wanted = argument.data.astype(np.float64) * _SECOND
            lost = ~(np.abs(wanted) < float(1 << 63))
            times = np.where(lost, 0, wanted).astype(np.int64)
            result = raise_where(argument._replace(data=times), lost, overflow)
            return raise_where(result, beyond_moments(times, TIMESTAMP, zone), beyond)

        return of_float
    if not source.is_integer:
        raise TypeError(f"no conversion from {source} to TIMESTAMP")

    def of_integer(argument: Vector, zone: str) -> Vector:
        most = (1 << 62) // _SECOND
        times = np.clip(argument.data.astype(np.int64), -most, most) * _SECOND
        return raise_where(argument._replace(data=times), beyond_moments(times, TIMESTAMP, zone), beyond)

    return of_integer
