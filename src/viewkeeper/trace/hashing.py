"""The hash of a key: 64 bits, the same for ever (files depend on it), whole columns at a time.

    state = SEED
    for each column:  state = (state ^ code(value)) * STEP;  state ^= state >> 32
    hash = finish(state)                                     (all modulo 2**64)

`finish` is the finaliser of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
The code of a value, on its canonical form (`keys.canonical`):

| NULL                        | NULL_CODE                                                                       |
| integers, int64 decimals    | the value, sign-extended to 64 bits                                             |
| float64, float32            | its IEEE bits, zero-extended                                                    |
| decimal128                  | low word ^ (high word * STEP)                                                   |
| string, binary              | length * STEP + the sum over its little-endian 8-byte words w[j], the last one  |
|                             | padded with zero bytes, of  fold(fold((w[j] ^ (j + 1) * GOLDEN) * STEP) * WORD) |
|                             | where fold(x) = x ^ x >> 32                                                     |
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import Type
from viewkeeper.trace.keys import canonical, numbered, numbers, offsets, valid

SEED = 0x243F6A8885A308D3  # the digits of pi
NULL_CODE = 0x13198A2E03707344
STEP = 0xD6E8FEB86659FD93  # odd, of good avalanche (Wellons' "xmx" search)
WORD = 0xFF51AFD7ED558CCD  # murmur3
GOLDEN = 0x9E3779B97F4A7C15  # 2**64 / the golden ratio
_FINISH = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # splitmix64

_ALL = 2**64 - 1
_NAN64, _NAN32 = 0x7FF8000000000000, 0x7FC00000
_32 = np.uint64(32)
_EXACT = Context(prec=80)


def finish(state: np.ndarray) -> np.ndarray:
    """The last mixing of a uint64 array; may change it in place."""
    state ^= state >> np.uint64(30)
    state *= np.uint64(_FINISH[0])
    state ^= state >> np.uint64(27)
    state *= np.uint64(_FINISH[1])
    state ^= state >> np.uint64(31)
    return state


def finish_value(state: int) -> int:
    """The scalar twin of `finish`."""
    state = ((state ^ state >> 30) * _FINISH[0]) & _ALL
    state = ((state ^ state >> 27) * _FINISH[1]) & _ALL
    return state ^ state >> 31


def hash_columns(columns: Sequence[pa.Array], length: int) -> np.ndarray:
    """uint64[length]: the hash of each row of `columns` (physical, or `keys.numbered`); of no columns: one constant."""
    state = np.full(length, SEED, dtype=np.uint64)
    for column in columns:
        state ^= _codes(column)
        state *= np.uint64(STEP)
        state ^= state >> _32
    return finish(state)


def hash_values(values: Sequence[object], types: Sequence[Type]) -> int:
    """`hash_columns` of one row, given as physical Python values."""
    state = SEED
    for value, type_ in zip(values, types, strict=True):
        code = NULL_CODE if value is None else _VALUE_CODES.get(type_.name, int)(value)
        if type_.name == "DECIMAL" and isinstance(value, Decimal):
            code = _decimal_code(value, type_.scale)
        state = ((state ^ code & _ALL) * STEP) & _ALL
        state ^= state >> 32
    return finish_value(state)


def _codes(column: pa.Array) -> np.ndarray:
    type_ = column.type
    if pa.types.is_dictionary(type_):
        codes = _bytes_codes(column.dictionary)[column.indices.fill_null(0).to_numpy()]
    elif pa.types.is_large_string(type_) or pa.types.is_large_binary(type_):
        column = numbered(column)
        if pa.types.is_dictionary(column.type):
            return _codes(column)
        codes = _bytes_codes(column)
    elif pa.types.is_decimal128(type_):
        words = numbers(column).view(np.uint64)
        codes = words[:, 0] ^ words[:, 1] * np.uint64(STEP)
    elif type_ == pa.float32():
        codes = numbers(canonical(column)).view(np.uint32).astype(np.uint64)
    elif type_ == pa.float64():
        codes = numbers(canonical(column)).view(np.uint64)
    else:
        codes = numbers(column).astype(np.int64, copy=False).view(np.uint64)
    present = valid(column)
    return codes if present is None else np.where(present, codes, np.uint64(NULL_CODE))


def _bytes_codes(column: pa.Array) -> np.ndarray:
    ends = offsets(column)
    first, size = int(ends[0]), int(ends[-1] - ends[0])
    lengths = np.diff(ends)
    codes = lengths.astype(np.uint64) * np.uint64(STEP)
    if not size:
        return codes
    # A copy with room behind it: a word may be read from any byte.
    text = np.zeros(size + 8, dtype=np.uint8)
    text[:size] = np.frombuffer(column.buffers()[2], dtype=np.uint8, count=size, offset=first)
    unaligned = np.ndarray((size + 1,), dtype="<u8", buffer=text, strides=(1,))
    counts = (lengths + 7) >> 3
    stops = np.cumsum(counts)
    starts = stops - counts
    nth = np.arange(stops[-1]) - np.repeat(starts, counts)
    words = unaligned[np.repeat(ends[:-1] - first, counts) + 8 * nth]
    some = np.flatnonzero(lengths)
    words[stops[some] - 1] &= np.uint64(_ALL) >> ((-lengths[some] & 7) << 3).astype(np.uint64)
    words ^= (nth + 1).view(np.uint64) * np.uint64(GOLDEN)
    words *= np.uint64(STEP)
    words ^= words >> _32
    words *= np.uint64(WORD)
    words ^= words >> _32
    codes[some] += np.add.reduceat(words, starts[some])
    return codes


def _bytes_code(data: bytes) -> int:
    code = len(data) * STEP
    for nth, start in enumerate(range(0, len(data), 8), 1):
        word = ((int.from_bytes(data[start : start + 8], "little") ^ nth * GOLDEN & _ALL) * STEP) & _ALL
        word = ((word ^ word >> 32) * WORD) & _ALL
        code += word ^ word >> 32
    return code


def _float_code(value: float) -> int:
    if value != value:
        return _NAN64
    return int.from_bytes(struct.pack("<d", value + 0.0), "little")


def _float32_code(value: float) -> int:
    if value != value:
        return _NAN32
    return int.from_bytes(struct.pack("<f", value + 0.0), "little")


def _decimal_code(value: Decimal, scale: int) -> int:
    unscaled = int(value.scaleb(scale, _EXACT))
    return (unscaled & _ALL) ^ ((unscaled >> 64) * STEP)


_VALUE_CODES: dict[str, Callable[..., int]] = {
    "STRING": lambda text: _bytes_code(text.encode()),
    **dict.fromkeys(("BINARY", "ARRAY", "STRUCT", "MAP"), _bytes_code),
    "FLOAT": _float32_code, "DOUBLE": _float_code,
}  # fmt: skip
