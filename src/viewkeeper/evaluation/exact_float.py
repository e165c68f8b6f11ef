"""Exact sums of FLOAT and DOUBLE: every double is an integer multiple of 2**-1074, so a sum is a wide integer too.

Kulisch's long accumulator, stored sparsely.  The state is the canonical window of that integer: BINARY, empty for zero,
else an int32 (the index of the window's first limb of 32 bits) and then the limbs as uint32, low first, in two's
complement; the first is not zero and the last is needed for the value or its sign.  So equal sums have equal bytes.
NaN, +infinity and -infinity are counted beside it (three BIGINT).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import Type
from viewkeeper.evaluation import limbs as wide
from viewkeeper.evaluation.exact_integer import differences, divided
from viewkeeper.evaluation.vectors import numbers, validity

_CELLS = 1 << 22  # the dense table of limbs that is summed at a time: 32 MiB
_HEADROOM = 2  # limbs above the highest contribution: sums of 2**31 of them and the sign
_EXPONENT = -1074  # of the lowest bit of limb 0


class LimbParts(NamedTuple):
    """Contributions to sums: `value` (int64, |value| < 2**33) at limb `limb` of the sum of `group` (ascending)."""

    group: np.ndarray
    limb: np.ndarray
    value: np.ndarray


def lift(values: pa.Array, weights: np.ndarray, type_: Type) -> list[pa.Array]:
    return lift_reduce(values, weights, np.arange(len(values)), type_)


def lift_reduce(values: pa.Array, weights: np.ndarray, starts: np.ndarray, type_: Type) -> list[pa.Array]:
    data = numbers(values, type_).astype(np.float64, copy=False)
    valid = validity(values)
    if valid is not None:
        data = np.where(valid, data, 0.0)
    groups = len(starts)
    group = np.repeat(np.arange(groups), np.diff(starts, append=len(data)))
    finite = np.isfinite(data)
    if finite.all():
        none = pa.array(np.zeros(groups, np.int64))
        return [pack_parts([_parts(data, weights, group)], groups), none, none, none]
    special = ~finite
    windows = pack_parts([_parts(np.where(finite, data, 0.0), weights, group)], groups)
    odd, odd_group, odd_weights = data[special], group[special], weights[special]
    counts = []
    for kind in (np.isnan(odd), odd == np.inf, odd == -np.inf):
        count = np.zeros(groups, np.int64)
        np.add.at(count, odd_group[kind], odd_weights[kind])
        counts.append(pa.array(count))
    return [windows, *counts]


def over_frames(values: pa.Array, low: np.ndarray, high: np.ndarray, type_: Type) -> list[pa.Array]:
    data = numbers(values, type_).astype(np.float64, copy=False)
    valid = validity(values)
    if valid is not None:
        data = np.where(valid, data, 0.0)
    kinds = (np.isnan(data), data == np.inf, data == -np.inf)
    counts = [pa.array(differences(kind.astype(np.int64), low, high)) for kind in kinds]
    data = np.where(kinds[0] | kinds[1] | kinds[2], 0.0, data)
    parts = _parts(data, np.ones(len(data), np.int64), np.arange(len(data)))
    return [parts_over_frames(parts, low, high), *counts]


def parts_over_frames(parts: list[LimbParts], low: np.ndarray, high: np.ndarray) -> pa.Array:
    """The windows of the sums of what rows low[i] to high[i] have in `parts`."""
    some = [part.value != 0 for part in parts]  # a zero has the lowest exponent there is
    parts = [LimbParts(*(each[there] for each in part)) for part, there in zip(parts, some, strict=True) if there.any()]
    if not parts:
        return pa.array([b""] * len(low), pa.large_binary())
    lowest = min(int(part.limb.min()) for part in parts)
    width = max(int(part.limb.max()) for part in parts) - lowest + 1 + _HEADROOM
    limbs = np.zeros((width, len(low)), np.int64)
    for i in range(width - _HEADROOM):
        column = np.zeros(len(low), np.int64)
        for part in parts:
            here = part.limb == lowest + i
            column[part.group[here]] += part.value[here]
        limbs[i] = differences(column, low, high)
    return _pack(wide.carry(limbs), lowest)


def reduce(columns: list[pa.Array], starts: np.ndarray) -> list[pa.Array]:
    group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(columns[0])))
    windows = pack_parts([stored_parts(columns[0], group)], len(starts))
    return [windows, *(pa.array(_segment_sums(_count(column), starts)) for column in columns[1:])]


def add(a: list[pa.Array], b: list[pa.Array]) -> list[pa.Array]:
    rows = np.arange(len(a[0]))
    windows = pack_parts([stored_parts(a[0], rows), stored_parts(b[0], rows)], len(rows))
    return [windows, *(pa.array(_count(x) + _count(y)) for x, y in zip(a[1:], b[1:], strict=True))]


def combine(
    states: Sequence[list[pa.Array]], positions: Sequence[np.ndarray], signs: Sequence[int], length: int
) -> list[pa.Array]:
    windows = combine_windows([state[0] for state in states], positions, signs, length)
    counts = []
    for kind in (1, 2, 3):
        count = np.zeros(length, np.int64)
        for state, position, sign in zip(states, positions, signs, strict=True):
            count[position] += sign * _count(state[kind])
        counts.append(pa.array(count))
    return [windows, *counts]


def combine_windows(
    windows: Sequence[pa.Array], positions: Sequence[np.ndarray], signs: Sequence[int], length: int
) -> pa.Array:
    """`combine` for the windows alone; they may have any exponent, as long as it is one."""
    parts = []
    for column, position, sign in zip(windows, positions, signs, strict=True):
        some = stored_parts(column, position)
        parts.append(some if sign == 1 else [part._replace(value=sign * part.value) for part in some])
    return pack_parts(parts, length)


def total(columns: list[pa.Array]) -> np.ndarray:
    """The doubles nearest to the sums (ties to even); NaN and infinities as IEEE adds them."""
    nearest = _nearest(columns[0])
    nan, plus, minus = (_count(column) > 0 for column in columns[1:])
    if plus.any() or minus.any():
        nearest = np.where(plus, np.inf, np.where(minus, -np.inf, nearest))
    nan = nan | (plus & minus)
    return np.where(nan, np.nan, nearest) if nan.any() else nearest


def average(columns: list[pa.Array], counts: np.ndarray) -> pa.Array:
    return divided(total(columns), counts)


def _segment_sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    return np.add.reduceat(values, starts) if len(starts) else np.zeros(0, np.int64)


def _count(column: pa.Array) -> np.ndarray:
    return column.fill_null(0).to_numpy() if column.null_count else column.to_numpy()


def _parts(values: np.ndarray, weights: np.ndarray, group: np.ndarray) -> list[LimbParts]:
    """Finite doubles times weights as parts of three (or, for weights beyond +-1, four) limbs."""
    bits = values.view(np.int64)
    exponent = bits >> 52 & 0x7FF
    mantissa = bits & 0xFFFFFFFFFFFFF | (exponent > 0).astype(np.int64) << 52
    unit = bool((np.abs(weights) <= 1).all())
    sign = 1 | bits >> 63
    mantissa *= sign * weights if unit else sign
    position = np.maximum(exponent - 1, 0)
    index, shift = position >> 5, position & 31
    low, high = (mantissa & wide.MASK) << shift, (mantissa >> 32) << shift
    limbs = [low & wide.MASK, (low >> 32) + (high & wide.MASK), high >> 32]
    if not unit:
        if int(np.abs(weights).max()) >= 1 << 31:
            raise ValueError("weights of 2**31 and more cannot be summed exactly")
        limbs = list(wide.carry(np.stack([*limbs, np.zeros_like(low)])) * weights)
        limbs = list(wide.carry(np.stack(limbs)))
    return [LimbParts(group, index + i, value) for i, value in enumerate(limbs)]


def stored_parts(windows: pa.Array, group: np.ndarray) -> list[LimbParts]:
    """The limbs of stored windows; row i belongs to `group[i]`."""
    words, first, count = window_words(windows)
    parts = []
    for i in range(int(count.max(initial=0))):
        rows = np.flatnonzero(count > i)
        limb = words[first[rows] + 1 + i]
        last = count[rows] == i + 1
        value = np.where(last, limb.view(np.int32).astype(np.int64), limb.astype(np.int64))
        parts.append(LimbParts(group[rows], words[first[rows]].astype(np.int64) + i, value))
    return parts


def window_words(windows: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All words of stored windows; and for each row the position of its first word, and how many limbs it has."""
    buffers = windows.buffers()
    offsets = np.frombuffer(buffers[1], np.int64)[windows.offset : windows.offset + len(windows) + 1]
    begin, end = offsets[:-1], offsets[1:]
    base = int(begin[0]) if len(begin) else 0
    size = int(end[-1]) - base if len(begin) else 0
    words = np.frombuffer(buffers[2] or b"", np.uint8)[base : base + size].view(np.uint32)
    count = np.maximum(((end - begin) >> 2) - 1, 0)
    valid = validity(windows)
    return words, (begin - base) >> 2, count if valid is None else np.where(valid, count, 0)


def pack_parts(parts: list[list[LimbParts]], groups: int) -> pa.Array:
    """The canonical windows of the sums of all parts, one for each group."""
    flat = [part for some in parts for part in some if len(part.limb)]
    if not flat:
        return pa.array([b""] * groups, pa.large_binary())
    low = min(int(part.limb.min()) for part in flat)
    width = max(int(part.limb.max()) for part in flat) - low + 1 + _HEADROOM
    step = max(_CELLS // width, 1)
    pieces = [_dense(flat, low, width, start, min(start + step, groups)) for start in range(0, groups, step)]
    return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)


def _dense(parts: list[LimbParts], low: int, width: int, start: int, stop: int) -> pa.Array:
    """Sums the parts of the groups from `start` to `stop` in a table of `width` limbs from limb `low` on."""
    table = np.zeros(width * (stop - start), np.int64)
    for group, limb, value in parts:
        first, last = np.searchsorted(group, (start, stop))
        cells = limb[first:last] - low
        cells *= stop - start
        cells += group[first:last]
        cells -= start
        np.add.at(table, cells, value[first:last])
    return _pack(wide.carry(table.reshape(width, stop - start)), low)


def _pack(limbs: np.ndarray, low: int) -> pa.Array:
    """Canonical limbs, whose top fits in 31 bits and a sign, as windows."""
    width, length = limbs.shape
    sign = limbs[-1] >> 63 & wide.MASK
    words = limbs.astype(np.uint32)
    first = np.full(length, width, np.int64)
    count = np.zeros(length, np.int64)  # up to the highest limb that differs from the sign, and one for the sign bit
    for i in range(width - 1, -1, -1):
        first[words[i] != 0] = i
    for i in range(width):
        bound = i + 1 + (words[i] >> 31 != sign & 1)
        count = np.where(words[i] != sign, bound, count)
    count = np.where(first == width, 0, np.maximum(count, first + 1) - first)
    ends = np.cumsum(np.where(count > 0, count + 1, 0))
    offsets = np.concatenate([[0], ends]) << 2
    out = np.empty(int(ends[-1]) if length else 0, np.uint32)
    some = np.flatnonzero(count)
    out[offsets[some] >> 2] = first[some] + low
    for i in range(int(count.max(initial=0))):
        rows = some if i == 0 else np.flatnonzero(count > i)
        out[(offsets[rows] >> 2) + 1 + i] = words[first[rows] + i, rows]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), length, [None, pa.py_buffer(offsets), pa.py_buffer(out)])


def _nearest(windows: pa.Array) -> np.ndarray:
    words, first, count = window_words(windows)
    result = np.zeros(len(windows))
    if not len(windows):
        return result
    for size in np.unique(count[count > 0]):
        rows = np.flatnonzero(count == size)
        limbs = words[first[rows] + 1 + np.arange(size)[:, None]].astype(np.int64)
        limbs[-1] = limbs[-1].astype(np.int32)
        exponent = 32 * words[first[rows]].astype(np.int64) + _EXPONENT
        result[rows] = wide.to_double(limbs, exponent)
    return result
