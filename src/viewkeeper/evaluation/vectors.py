"""`Vector`: a column while an expression is computed; and the way from Arrow's physical arrays to it and back."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import INTERVALS, Type, physical_type


class Vector(NamedTuple):
    """One value a row, or one value for all rows.

    `data` is a NumPy array (BOOLEAN as bool, every other type of fixed width as its physical number), or Arrow data for
    strings, binary and DECIMAL(p > 18).  A constant has length 1 in NumPy and is an Arrow scalar.  `valid` (bool, None:
    all) and `errors` (int64, None: none) have length n or 1, but 1 if the data are a constant number.  Where an error
    stands, `valid` is False; where `valid` is False, `data` means nothing.
    """

    data: Any
    valid: np.ndarray | None
    errors: np.ndarray | None


Binary = Callable[[Vector, Vector], Vector]
"""An operation on two."""


_DTYPES = {"BOOLEAN": np.bool_, "TINYINT": np.int8, "SMALLINT": np.int16, "INT": np.int32, "FLOAT": np.float32,
           "DOUBLE": np.float64, "DATE": np.int32, "VOID": np.bool_,
           **{name: np.int32 for name in INTERVALS if Type(name).is_month_interval}}  # fmt: skip
_EPOCH, _MICROSECOND = datetime.datetime(1970, 1, 1), datetime.timedelta(microseconds=1)


def in_arrow(type_: Type) -> bool:
    """Whether a vector's data of `type_` are Arrow's and not NumPy's."""
    return type_.is_bytes or type_.is_nested or (type_.is_decimal and type_.precision > 18)


def dtype(type_: Type) -> Any:
    """NumPy's type of a vector's data; int64 for BIGINT, DECIMAL(p <= 18) and the timestamps."""
    return _DTYPES.get(type_.name, np.int64)


def null(type_: Type) -> Vector:
    """NULL for all rows."""
    data = pa.scalar(None, physical_type(type_)) if in_arrow(type_) else np.zeros(1, dtype(type_))
    return Vector(data, np.zeros(1, np.bool_), None)


def constant(value: Any, type_: Type) -> Vector:
    """The logical Python value of a Literal, for all rows."""
    if value is None:
        return null(type_)
    if in_arrow(type_):
        return Vector(pa.scalar(value, physical_type(type_)), None, None)
    return Vector(np.array([_physical(value, type_)], dtype(type_)), None, None)


def _physical(value: Any, type_: Type) -> Any:
    if type_.is_decimal:
        return int(Decimal(value).scaleb(type_.scale))
    if type_.name == "DATE":
        return (value - _EPOCH.date()).days
    if type_.name in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        return (value - _EPOCH.replace(tzinfo=value.tzinfo)) // _MICROSECOND
    return value // _MICROSECOND if type_.is_time_interval else value


def read(array: pa.Array | pa.Scalar, type_: Type) -> Vector:
    """A physical array, or a physical scalar that stands for all rows; shares its memory where it can."""
    if isinstance(array, pa.Scalar):
        if not array.is_valid:
            return null(type_)
        if in_arrow(type_):
            return Vector(array, None, None)
        return Vector(np.array([array.as_py()], dtype(type_)), None, None)
    valid = validity(array)
    return Vector(array if in_arrow(type_) else numbers(array, type_), valid, None)


def numbers(array: pa.Array, type_: Type) -> np.ndarray:
    """A fixed-width physical array's values as NumPy holds them in a vector; anything where it is NULL."""
    kind = np.dtype(np.int8) if type_.name in ("BOOLEAN", "VOID") else np.dtype(dtype(type_))
    values = np.frombuffer(array.buffers()[1] or b"", kind)[array.offset : array.offset + len(array)]
    return values != 0 if kind.itemsize == 1 and type_.name != "TINYINT" else values


def validity(array: pa.Array) -> np.ndarray | None:
    """True where not NULL; None if no value is NULL."""
    if not array.null_count:
        return None
    first = array.offset // 8
    bits = np.frombuffer(array.buffers()[0], np.uint8)[first : (array.offset + len(array) + 7) // 8]
    skip = array.offset - 8 * first
    return np.unpackbits(bits, bitorder="little")[skip : skip + len(array)].view(np.bool_)


def write(vector: Vector, type_: Type, length: int) -> tuple[pa.Array, np.ndarray | None]:
    """The physical array of `length` values, and the errors: None, or one int64 a row."""
    data, valid, errors = vector
    errors = write_errors(errors, length)
    if in_arrow(type_):
        return _write_arrow(data, valid, length), errors
    data = spread(data, length)
    if data.dtype == np.bool_:
        data = data.view(np.int8)
    mask = None if valid is None else ~spread(valid, length)
    return pa.array(data, physical_type(type_), mask=mask), errors


def write_errors(errors: np.ndarray | None, length: int) -> np.ndarray | None:
    """One int64 a row, or None if no row has an error."""
    return spread(errors, length) if errors is not None and length and errors.any() else None


def _write_arrow(data: pa.Array | pa.Scalar, valid: np.ndarray | None, length: int) -> pa.Array:
    if isinstance(data, pa.Scalar):
        data = pa.repeat(data, length)
    if valid is None or np.count_nonzero(valid) + data.null_count == len(valid):
        return data  # a row that is not valid is NULL in `data` too: the numbers of both agree
    return pc.if_else(pa.array(spread(valid, length)), data, None)


def common_length(vectors: Sequence[Vector]) -> tuple[int, bool]:
    """The number of rows of vectors of one batch, and whether all are constants (then it is 1)."""
    lengths = [1 if isinstance(vector.data, pa.Scalar) else len(vector.data) for vector in vectors]
    constant = all(isinstance(vector.data, (pa.Scalar, np.ndarray)) for vector in vectors)
    length = next((length for length in lengths if length != 1), 1)
    return length, constant and length == 1


def spread(values: np.ndarray, length: int) -> np.ndarray:
    """`values` of length `length` or 1, as `length` values."""
    return values if len(values) == length else np.repeat(values, length)


def choose(condition: np.ndarray, left: Any, right: Any) -> Any:
    """Vector data: `left` where `condition` holds, else `right`."""
    if isinstance(left, np.ndarray):
        return np.where(condition, left, right)
    return pc.if_else(pa.array(condition), left, right)


def true_where(vector: Vector) -> np.ndarray:
    """Where a BOOLEAN vector is TRUE (not NULL, no error)."""
    return vector.data if vector.valid is None else vector.data & vector.valid


def both_valid(left: np.ndarray | None, right: np.ndarray | None) -> np.ndarray | None:
    """Where both are valid."""
    if left is None or right is None:
        return right if left is None else left
    return left & right


def first_error(left: np.ndarray | None, right: np.ndarray | None) -> np.ndarray | None:
    """The left error where there is one, else the right."""
    if left is None or right is None:
        return right if left is None else left
    return np.where(left != 0, left, right)


def raise_where(vector: Vector, wrong: np.ndarray, error: int) -> Vector:
    """`vector` with `error` in the rows where `wrong` and valid."""
    if vector.valid is not None:
        wrong = wrong & vector.valid
    if not wrong.any():
        return vector
    valid = ~wrong if vector.valid is None else vector.valid & ~wrong
    return Vector(vector.data, valid, first_error(vector.errors, np.where(wrong, np.int64(error), np.int64(0))))


def raise_exactly_where(vector: Vector, wrong: np.ndarray, error: int) -> Vector:
    """The same where `vector` is NULL in the rows where it is `wrong`."""
    if not wrong.any():
        return vector
    return vector._replace(errors=first_error(vector.errors, np.where(wrong, np.int64(error), np.int64(0))))
