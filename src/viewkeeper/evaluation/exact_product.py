"""Exact sums of products of DOUBLEs, and the variance and the like that follow from them.

The product of two doubles is an integer multiple of 2**-2148; a sum of products is kept as exact_float.py keeps sums,
in windows of that exponent.  (NaN and infinities are counted in the sums themselves, which stand beside it.)  What is a
moment of n pairs follows from n*sum(x*y) - sum(x)*sum(y), which is computed exactly and rounded once; then come a
division and, for a deviation, a root.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from viewkeeper.evaluation import limbs as wide
from viewkeeper.evaluation.exact_float import (
    LimbParts,
    combine_windows,
    pack_parts,
    parts_over_frames,
    stored_parts,
    window_words,
)
from viewkeeper.evaluation.vectors import validity

_EXPONENT = -2148  # of the lowest bit of limb 0
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


class Scaled(NamedTuple):
    """Doubles beyond their range: `value * 2**exponent`; the exponents are even."""

    value: np.ndarray
    exponent: np.ndarray


def lift_reduce(one: pa.Array, other: pa.Array, weights: np.ndarray, starts: np.ndarray) -> pa.Array:
    """The sums of `weight * one * other`, DOUBLEs that lie sorted by group, as windows; a pair with NULL, NaN or an
    infinity gives zero."""
    group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(weights)))
    return pack_parts([_parts(one, other, weights, group)], len(starts))


def over_frames(one: pa.Array, other: pa.Array, low: np.ndarray, high: np.ndarray) -> pa.Array:
    """The sums of `one * other`, DOUBLEs, over rows low[i] to high[i], as windows; pairs as in `lift_reduce`."""
    return parts_over_frames(_parts(one, other, np.ones(len(one), np.int64), np.arange(len(one))), low, high)


def _parts(one: pa.Array, other: pa.Array, weights: np.ndarray, group: np.ndarray) -> list[LimbParts]:
    """`weight * one * other` of each row, which is of group `group`, as parts of four limbs (or five)."""
    (a, known), (b, too) = _finite(one), _finite(other)
    if not (known.all() and too.all()):
        known &= too
        a, b, weights = np.where(known, a, 0.0), np.where(known, b, 0.0), np.where(known, weights, 0)
    (first, low), (second, high) = _split(a), _split(b)
    place = low + high
    shift = (place & 31).astype(np.uint64)
    limbs = [limb << shift for limb in _multiplied(first, second)]
    before = np.zeros_like(first)
    carried = []
    for limb in [*limbs, before]:
        carried.append(((limb & _LOW) + (before >> _32)).view(np.int64))
        before = limb
    signs = np.where(np.signbit(a) != np.signbit(b), -weights, weights)
    if not (np.abs(weights) <= 1).all():
        carried = list(wide.carry(np.stack([*carried, np.zeros_like(weights)])))
        products = wide.carry(np.stack([limb * signs for limb in carried]))
        carried, signs = list(products), np.ones_like(weights)
    return [LimbParts(group, (place >> 5) + i, limb * signs) for i, limb in enumerate(carried)]


def reduce(windows: pa.Array, starts: np.ndarray) -> pa.Array:
    """The sums of windows that lie sorted by group."""
    group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(windows)))
    return pack_parts([stored_parts(windows, group)], len(starts))


def add(a: pa.Array, b: pa.Array) -> pa.Array:
    """Row by row the sum of two windows; NULL counts as zero."""
    rows = np.arange(len(a))
    return combine_windows([a, b], [rows, rows], [1, 1], len(rows))


def _finite(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The values, and which of them are finite and there."""
    data = np.frombuffer(values.buffers()[1] or b"", np.float64)[values.offset : values.offset + len(values)]
    valid = validity(values)
    return data, np.isfinite(data) if valid is None else np.isfinite(data) & valid


def _split(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mantissas without their signs, and their places in bits."""
    bits = data.view(np.uint64)
    exponent = (bits >> np.uint64(52) & np.uint64(0x7FF)).astype(np.int64)
    mantissa = bits & np.uint64(0xFFFFFFFFFFFFF) | (exponent > 0).astype(np.uint64) << np.uint64(52)
    return mantissa, np.maximum(exponent - 1, 0)


def _multiplied(a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    """The four limbs of the products of numbers below 2**53."""
    a_low, a_high, b_low, b_high = a & _LOW, a >> _32, b & _LOW, b >> _32
    first, cross, last = a_low * b_low, a_low * b_high + a_high * b_low, a_high * b_high
    second = (first >> _32) + (cross & _LOW)
    third = (cross >> _32) + (last & _LOW) + (second >> _32)
    return [first & _LOW, second & _LOW, third & _LOW, (last >> _32) + (third >> _32)]


def variance(
    sums: list[pa.Array], squares: pa.Array, counts: np.ndarray, *, sample: bool, root: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The variances (with `root` the deviations), and where they are NULL: without a value, or a sample of one."""
    divisors = counts * (counts - 1 if sample else counts)
    null = divisors == 0
    found = deviations(sums, sums, squares, counts)
    result = unscaled(Scaled(found.value / np.where(null, 1, divisors), found.exponent), root=root)
    return np.where(is_odd(sums), np.nan, result), null


def is_odd(sums: list[pa.Array]) -> np.ndarray:
    """Whether NaN or an infinity is among what was added up."""
    odd = np.zeros(len(sums[0]), np.bool_)
    for column in sums[1:]:
        odd |= column.fill_null(0).to_numpy() > 0
    return odd


def deviations(one: list[pa.Array], other: list[pa.Array], products: pa.Array, counts: np.ndarray) -> Scaled:
    """n*sum(x*y) - sum(x)*sum(y), of the sums of x and y and the sums of their products."""
    parts = []
    for part in stored_parts(products, np.arange(len(counts))):
        value = part.value * counts[part.group]
        parts += [
            LimbParts(part.group, part.limb, value & wide.MASK),
            LimbParts(part.group, part.limb + 1, value >> 32),
        ]
    windows = pack_parts([parts, _minus_products(one[0], other[0])], len(counts))
    words, first, count = window_words(windows)
    result = Scaled(np.zeros(len(windows)), np.zeros(len(windows), np.int64))
    for size in np.unique(count[count > 0]):
        rows = np.flatnonzero(count == size)
        result.value[rows] = wide.to_double(_limbs(words, first[rows], int(size)), -32 * int(size))
        result.exponent[rows] = 32 * (words[first[rows]].astype(np.int64) + int(size)) + _EXPONENT
    return result


def unscaled(of: Scaled, *, root: bool = False) -> np.ndarray:
    """As doubles; with `root` their roots."""
    with np.errstate(over="ignore"):
        found: np.ndarray
        found = np.ldexp(np.sqrt(of.value), of.exponent // 2) if root else np.ldexp(of.value, of.exponent)
    return found


def _limbs(words: np.ndarray, first: np.ndarray, size: int) -> np.ndarray:
    """Those of windows of `size` limbs, canonical."""
    limbs = words[first + 1 + np.arange(size)[:, None]].astype(np.int64)
    limbs[-1] = limbs[-1].astype(np.int32)
    return limbs


def _minus_products(one: pa.Array, other: pa.Array) -> list[LimbParts]:
    """What the products of sums contribute, turned."""
    (words, first, count), (others, begin, number) = window_words(one), window_words(other)
    parts = []
    some = (count > 0) & (number > 0)
    for size, length in np.unique(np.stack([count[some], number[some]]), axis=1).T.tolist():
        rows = np.flatnonzero((count == size) & (number == length))
        mine, theirs = _limbs(words, first[rows], size), _limbs(others, begin[rows], length)
        place = words[first[rows]].astype(np.int64) + others[begin[rows]].astype(np.int64)
        for i, limb in enumerate(wide.multiply(mine, theirs, size + length)):
            parts.append(LimbParts(rows, place + i, -limb))
    return parts
