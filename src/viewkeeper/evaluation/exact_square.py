"""Exact sums of the squares of DOUBLEs, and the variance that follows from them.

The square of a double is an integer multiple of 2**-2148; a sum of squares is kept as exact_float.py keeps sums, in
windows of that exponent.  (NaN and infinities are counted in the sum itself, which stands beside it.)  The variance of
n values of sum s and sum of squares q is (n*q - s*s) / n**2, or / n*(n-1) for a sample: the numerator is computed
exactly and rounded once; then come one division and, for the deviation, one root.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewkeeper.evaluation import limbs as wide
from viewkeeper.evaluation.exact_float import LimbParts, pack_parts, stored_parts, window_words
from viewkeeper.evaluation.vectors import validity

_EXPONENT = -2148  # of the lowest bit of limb 0
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def lift_reduce(values: pa.Array, starts: np.ndarray) -> pa.Array:
    """The sums of the squares of DOUBLEs that lie sorted by group, as windows; NULL, NaN and infinities give zero."""
    data = np.frombuffer(values.buffers()[1] or b"", np.float64)[values.offset : values.offset + len(values)]
    valid = validity(values)
    counts = np.isfinite(data) if valid is None else np.isfinite(data) & valid
    if not counts.all():
        data = np.where(counts, data, 0.0)
    group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(data)))
    bits = data.view(np.uint64)
    exponent = (bits >> np.uint64(52) & np.uint64(0x7FF)).astype(np.int64)
    mantissa = bits & np.uint64(0xFFFFFFFFFFFFF) | (exponent > 0).astype(np.uint64) << np.uint64(52)
    position = 2 * np.maximum(exponent - 1, 0)
    shift = (position & 31).astype(np.uint64)
    limbs = [limb << shift for limb in _squared(mantissa)]
    first = position >> 5
    parts = []
    before = np.zeros_like(mantissa)
    for i, limb in enumerate([*limbs, before]):
        value = (limb & _LOW) + (before >> _32)
        parts.append(LimbParts(group, first + i, value.view(np.int64)))
        before = limb
    return pack_parts([parts], len(starts))


def _squared(mantissa: np.ndarray) -> list[np.ndarray]:
    """The four limbs of the squares of numbers below 2**53."""
    low, high = mantissa & _LOW, mantissa >> _32
    first, cross, last = low * low, 2 * low * high, high * high
    second = (first >> _32) + (cross & _LOW)
    third = (cross >> _32) + (last & _LOW) + (second >> _32)
    return [first & _LOW, second & _LOW, third & _LOW, (last >> _32) + (third >> _32)]


def variance(
    sums: list[pa.Array], squares: pa.Array, counts: np.ndarray, *, sample: bool, root: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The variances (with `root` the deviations), and where they are NULL: without a value, or a sample of one."""
    rows = np.arange(len(counts))
    products = stored_parts(squares, rows)
    parts = []
    for part in products:
        value = part.value * counts[part.group]
        parts += [
            LimbParts(part.group, part.limb, value & wide.MASK),
            LimbParts(part.group, part.limb + 1, value >> 32),
        ]
    divisors = counts * (counts - 1 if sample else counts)
    null = divisors == 0
    windows = pack_parts([parts, _minus_squares(sums[0])], len(counts))
    result = _divided(windows, np.where(null, 1, divisors), root)
    odd = np.zeros(len(counts), np.bool_)
    for column in sums[1:]:
        odd |= column.to_numpy() > 0
    return np.where(odd, np.nan, result), null


def _minus_squares(windows: pa.Array) -> list[LimbParts]:
    """What the negative squares of sums contribute."""
    words, first, count = window_words(windows)
    parts = []
    for size in np.unique(count[count > 0]):
        rows = np.flatnonzero(count == size)
        limbs = words[first[rows] + 1 + np.arange(size)[:, None]].astype(np.int64)
        limbs[-1] = limbs[-1].astype(np.int32)
        place = 2 * words[first[rows]].astype(np.int64)
        for i, limb in enumerate(wide.multiply(limbs, limbs, 2 * int(size))):
            parts.append(LimbParts(rows, place + i, -limb))
    return parts


def _divided(windows: pa.Array, divisors: np.ndarray, root: bool) -> np.ndarray:
    """Windows of squares divided; the quotient is found near 1, so that nothing overflows on the way."""
    words, first, count = window_words(windows)
    result = np.zeros(len(windows))
    for size in np.unique(count[count > 0]):
        rows = np.flatnonzero(count == size)
        limbs = words[first[rows] + 1 + np.arange(size)[:, None]].astype(np.int64)
        limbs[-1] = limbs[-1].astype(np.int32)
        quotient = wide.to_double(limbs, -32 * int(size)) / divisors[rows]
        exponent = 32 * (words[first[rows]].astype(np.int64) + int(size)) + _EXPONENT
        with np.errstate(over="ignore"):
            result[rows] = np.ldexp(np.sqrt(quotient), exponent // 2) if root else np.ldexp(quotient, exponent)
    return result
