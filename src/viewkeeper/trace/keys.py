"""Physical Arrow arrays as keys: seen as NumPy numbers, brought to canonical form, compared and ordered exactly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SIGN = np.uint64(1 << 63)
SAMPLE_ROWS = 1 << 16
"""Rows of a column that tell whether its values repeat; a column of less than twice as many is not looked at."""

_SIGN32 = np.uint64(1 << 31)
_NUMBERS: dict[pa.DataType, np.dtype] = {
    pa.int8(): np.dtype(np.int8), pa.int16(): np.dtype(np.int16), pa.int32(): np.dtype(np.int32),
    pa.int64(): np.dtype(np.int64), pa.float32(): np.dtype(np.float32), pa.float64(): np.dtype(np.float64),
}  # fmt: skip
_BITS: dict[np.dtype, np.dtype] = {np.dtype(np.float32): np.dtype(np.int32), np.dtype(np.float64): np.dtype(np.int64)}


def number_type(type_: pa.DataType) -> np.dtype | None:
    """NumPy's type for a physical type of plain numbers; None for strings, binary and decimal128."""
    return _NUMBERS.get(type_)


def numbers(array: pa.Array) -> np.ndarray:
    """The values of a fixed-width array without a copy: shape (n,), for decimal128 int64 words (n, 2), low word first.

    Slots under a NULL hold anything.
    """
    if pa.types.is_decimal128(array.type):
        words = _from_buffer(array.buffers()[1], np.dtype(np.int64), 2 * array.offset, 2 * len(array))
        return words.reshape(-1, 2)
    return _from_buffer(array.buffers()[1], _NUMBERS[array.type], array.offset, len(array))


def offsets(array: pa.Array) -> np.ndarray:
    """The n + 1 int64 offsets of a large_string or large_binary array into its data buffer."""
    if not len(array):
        return np.zeros(1, dtype=np.int64)
    return _from_buffer(array.buffers()[1], np.dtype(np.int64), array.offset, len(array) + 1)


def valid(array: pa.Array) -> np.ndarray | None:
    """True where the array is not NULL; None if it is so everywhere."""
    return array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None


def with_null(columns: Iterable[pa.Array], length: int) -> np.ndarray:
    """bool[length]: the rows that have a NULL in any of `columns`: as a key they meet nothing."""
    null = np.zeros(length, dtype=bool)
    for column in columns:
        if column.null_count:
            null |= column.is_null().to_numpy(zero_copy_only=False)
    return null


def canonical(array: pa.Array) -> pa.Array:
    """The form of a key column in which equal keys have equal bits: -0.0 as 0.0, every NaN as one.

    Other types are canonical as they are.
    """
    if not pa.types.is_floating(array.type):
        return array
    values = numbers(array)
    changed = np.isnan(values) | ((values == 0) & np.signbit(values))
    if not changed.any():
        return array
    present = valid(array)
    clean = np.where(np.isnan(values), np.array(np.nan, values.dtype), values + np.array(0, values.dtype))
    return pa.array(clean, mask=None if present is None else ~present, from_pandas=False)


def numbered(array: pa.Array) -> pa.Array:
    """A column of strings or bytes as the distinct values and, of each row, the number of its value (dictionary type);
    the column as it is where it is of another type, or there are so many values that this would not pay.

    Numbering few values costs a third of hashing all rows; many, three times as much.
    """
    if len(array) < 2 * SAMPLE_ROWS or not (
        pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    ):
        return array
    distinct = pc.count_distinct(array.slice(0, SAMPLE_ROWS)).as_py()
    return array.dictionary_encode() if 0 < 2 * distinct <= SAMPLE_ROWS else array


def plain(array: pa.Array) -> pa.Array:
    """The values of what may be `numbered`."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def equal_rows(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> np.ndarray:
    """bool[n]: where row i of `left` (at least one column) is row i of `right`, bit for bit; NULL equals NULL."""
    equal = _equal(left[0], right[0])
    for one, other in zip(left[1:], right[1:], strict=True):
        equal &= _equal(one, other)
    return equal


def _equal(left: pa.Array, right: pa.Array) -> np.ndarray:
    if pa.types.is_decimal128(left.type):
        equal = (numbers(left) == numbers(right)).all(axis=1)
    elif left.type in _NUMBERS:
        equal = _bits(numbers(left)) == _bits(numbers(right))
    else:
        equal = pc.equal(left, right).fill_null(False).to_numpy(zero_copy_only=False)
    if not left.null_count and not right.null_count:
        return equal if equal.flags.writeable else equal.copy()
    absent, other = left.is_null().to_numpy(zero_copy_only=False), right.is_null().to_numpy(zero_copy_only=False)
    return np.where(absent | other, absent & other, equal)


def order_code(array: pa.Array) -> np.ndarray:
    """uint64[n] in the order of the values: NaN greatest, -0.0 as 0.0, strings by their bytes.

    Of fixed-width types, codes of different arrays can be compared; of strings, binary and decimal128 they are dense
    ranks within this array.  Under NULL: anything.
    """
    if array.type not in _NUMBERS:
        return pc.rank(array, sort_keys="ascending", tiebreaker="dense").to_numpy()
    if not pa.types.is_floating(array.type):
        return numbers(array).astype(np.int64).view(np.uint64) ^ SIGN
    values = numbers(canonical(array))
    wide = values.dtype == np.float64
    bits = values.view(np.uint64) if wide else values.view(np.uint32).astype(np.uint64)
    sign, mask = (SIGN, np.uint64(2**64 - 1)) if wide else (_SIGN32, np.uint64(2**32 - 1))
    return np.where(bits & sign, bits ^ mask, bits | sign)


def exact_codes(array: pa.Array) -> list[np.ndarray]:
    """Columns of numbers that are equal in two rows of this array exactly where `equal_rows` says so.

    For any one type their order is the same in all arrays, so that two sorts by them agree.
    """
    array = plain(array)
    present = valid(array)
    if pa.types.is_decimal128(array.type):
        codes = list(numbers(array).T)
    elif array.type in _NUMBERS:
        codes = [_bits(numbers(array))]
    else:
        codes = [order_code(array)]
    if present is None:
        return codes
    return [present, *(np.where(present, code, code.dtype.type(0)) for code in codes)]


def _bits(values: np.ndarray) -> np.ndarray:
    bits = _BITS.get(values.dtype)
    return values if bits is None else values.view(bits)


def _from_buffer(buffer: pa.Buffer | None, dtype: np.dtype, start: int, count: int) -> np.ndarray:
    if not count or buffer is None:
        return np.zeros(0, dtype=dtype)
    return np.frombuffer(buffer, dtype=dtype, count=count, offset=start * dtype.itemsize)
