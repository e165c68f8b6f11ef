"""Functions of Python's, called over columns.

A function is given Arrow arrays, or pandas Series of these types: whole numbers and BOOLEAN the nullable ones (Int64,
boolean ...), so that a column looks the same whether or not it has a NULL; FLOAT and DOUBLE NumPy's, NULL being NaN;
the rest objects (str, bytes, Decimal, date), TIMESTAMP and TIMESTAMP_NTZ datetime64[us], the former with the zone.
NaN that comes back in a Series of NumPy's is NULL.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.model import PythonFunction
from viewkeeper.catalog.types import DATE, TIMESTAMP, TIMESTAMP_NTZ, Type, logical_type, to_logical, to_physical
from viewkeeper.functions.function import numbers
from viewkeeper.functions.moments import DAY_US, FIRST_DAY, LAST_DAY

ROWS_MAX = 65_536
"""So many values a function is given at once."""

RAISING_MAX = 10_000
"""So many values of one batch may raise; each costs a few calls."""


class FunctionUnfit(RuntimeError):
    """A function that cannot be called, or whose answers are none, whatever it is given."""


Answered = tuple[pa.Array, dict[int, str]]
"""Physical values, NULL where the function raised; and there, by position, what it raised."""


def answered(
    function: PythonFunction, arguments: Sequence[pa.Array], types: Sequence[Type], left_out: np.ndarray, zone: str
) -> Answered:
    """What `function` says to physical `arguments`, but where `left_out`; what raises is found by halves.

    Raises FunctionUnfit, which names the function and says what to do.
    """
    call, given = _loaded(function), [to_logical(each, t, zone) for each, t in zip(arguments, types, strict=True)]
    places = np.flatnonzero(~left_out)
    waiting = [places[i : i + ROWS_MAX] for i in range(0, len(places), ROWS_MAX)]
    found: list[tuple[np.ndarray, pa.Array]] = []
    raised: dict[int, str] = {}
    while waiting:
        rows = waiting.pop()
        try:
            found.append((rows, _said(function, call, [each.take(pa.array(rows)) for each in given], zone)))
        except FunctionUnfit:
            raise
        except Exception as error:  # noqa: BLE001 - whatever somebody else's function raises is said of its row
            if len(rows) > 1:
                waiting += np.array_split(rows, 2)
                continue
            raised[int(rows[0])] = _told(error)
            if len(raised) > RAISING_MAX:
                raise FunctionUnfit(f"{function.name} raises for more than {RAISING_MAX:,} new values of one batch, "
                                    f"the last time {_told(error).splitlines()[-1]}; mend it, and declare it again by "
                                    "db.function") from error  # fmt: skip
    at = np.full(len(left_out), -1)
    rows = np.concatenate([rows for rows, _ in found] or [np.zeros(0, np.int64)])
    at[rows] = np.arange(len(rows))
    empty = to_physical(pa.array([], logical_type(function.returns, zone)), function.returns)
    return pa.concat_arrays([empty, *(v for _, v in found)]).take(pa.array(at, mask=at < 0)), raised


@lru_cache(maxsize=64)
def _loaded(function: PythonFunction) -> Callable[..., Any]:
    try:
        loaded: Callable[..., Any] = pickle.loads(function.code)
    except Exception as error:
        raise FunctionUnfit(f"the function {function.name} cannot be loaded in this process ({type(error).__name__}: "
                            f"{error}); install here what its module needs, or declare it again by db.function from "
                            "where it can be loaded") from error  # fmt: skip
    return loaded


def _said(function: PythonFunction, call: Callable[..., Any], given: list[pa.Array], zone: str) -> pa.Array:
    said = call(*(given if function.arrow else map(_series, given)))
    if function.arrow:
        column = said.combine_chunks() if isinstance(said, pa.ChunkedArray) else said
        if not isinstance(column, pa.Array):
            raise _unfit(function, f"returned {_kind(said)}, not an Arrow array")
    else:
        if isinstance(said, (str, bytes, dict)) or not hasattr(said, "__len__") or getattr(said, "ndim", 1) != 1:
            raise _unfit(function, f"returned {_kind(said)}, not a column: a pandas Series")
        column = pa.array(said, from_pandas=True)
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if len(column) != len(given[0]):
        raise _unfit(function, f"returned {len(column):,} values for {len(given[0]):,} rows; one for each is wanted")
    return _as_returned(function, column, zone)


def _unfit(function: PythonFunction, what: str) -> FunctionUnfit:
    return FunctionUnfit(f"{function.name} {what}; mend it, and declare it again by db.function")


def _kind(value: object) -> str:
    kind = type(value).__name__
    return f"an {kind}" if kind[0].lower() in "aeiou" else f"a {kind}"


def _series(column: pa.Array) -> Any:
    import pandas as pd

    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        name = "boolean" if pa.types.is_boolean(column.type) else str(column.type).capitalize()
        return column.to_pandas(types_mapper=lambda _: pd.api.types.pandas_dtype(name))
    if pa.types.is_floating(column.type):
        return pd.Series(column.to_numpy(zero_copy_only=False))
    return column.to_pandas(date_as_object=True, coerce_temporal_nanoseconds=False)


def _as_returned(function: PythonFunction, column: pa.Array, zone: str) -> pa.Array:
    """`column` in the physical form of what the function returns; raises ValueError where a value is none."""
    type_, target = function.returns, logical_type(function.returns, zone)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.null_count < len(column) and _family(column.type) != _family(target):
        raise _unfit(function, f"returned values of Arrow's type {column.type}, and is declared to return {type_}")
    if pa.types.is_null(column.type) or column.null_count == len(column):
        return to_physical(pa.nulls(len(column), target), type_)
    if pa.types.is_timestamp(column.type):
        if type_ == TIMESTAMP and column.type.tz is None:  # what clocks show
            column = pc.assume_timezone(column, zone, ambiguous="earliest", nonexistent="latest")
        elif type_ != TIMESTAMP and column.type.tz is not None:
            column = pc.local_timestamp(column)
    if type_.is_decimal and pa.types.is_integer(column.type):
        column = column.cast(pa.decimal256(76, type_.scale))
    values = to_physical(column.cast(target), type_)
    if type_ in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        unit = 1 if type_ == DATE else DAY_US
        days = numbers(values).astype(np.int64) // unit
        if ((days < FIRST_DAY) | (days > LAST_DAY))[values.is_valid().to_numpy(zero_copy_only=False)].any():
            raise ValueError("a date or time outside the years 1 to 9999")
    return values


def _family(type_: pa.DataType) -> str:
    """Types of which one becomes another without a text being read or written."""
    kinds = pa.types
    if kinds.is_integer(type_) or kinds.is_floating(type_) or kinds.is_decimal(type_):
        return "number"
    if kinds.is_date(type_) or kinds.is_timestamp(type_):
        return "moment"
    if kinds.is_string(type_) or kinds.is_large_string(type_) or kinds.is_string_view(type_):
        return "text"
    return "bytes" if kinds.is_binary(type_) or kinds.is_large_binary(type_) else str(type_)


_TOLD_MAX = 2_000


def _told(error: Exception) -> str:
    """The traceback from the function on."""
    inside = error.__traceback__
    while inside is not None and inside.tb_frame.f_code.co_filename == __file__:
        inside = inside.tb_next
    text = "".join(traceback.format_exception(type(error), error, inside)).strip()
    return text if len(text) <= _TOLD_MAX else "... " + text[-_TOLD_MAX:]
