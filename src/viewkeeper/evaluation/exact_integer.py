"""Exact sums of integers and decimals: the state is one wide integer, in limbs (see limbs.py).

Integers and DECIMAL(p <= 18): two limbs, stored (high, low).  DECIMAL(p > 18): five, stored from high to low.  Exact
while a group holds fewer than 2**31 rows (bags count their multiplicity).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import MAX_PRECISION, Type, decimal, physical_type
from viewkeeper.evaluation import limbs as wide
from viewkeeper.evaluation.vectors import numbers, validity
from viewkeeper.plans.sums import limb_count

_INT64_BOUND = 1 << 63
_WEIGHT_BOUND = 1 << 31


def lift(values: pa.Array, weights: np.ndarray, type_: Type) -> list[pa.Array]:
    return _columns(_weighted(values, weights, type_))


def reduce(columns: list[pa.Array], starts: np.ndarray) -> list[pa.Array]:
    return _columns(_sums(_limbs(columns), starts))


def lift_reduce(values: pa.Array, weights: np.ndarray, starts: np.ndarray, type_: Type) -> list[pa.Array]:
    if limb_count(type_) == 2:
        data = _data(values, type_)
        if _product_bound(data, weights) * len(data) < _INT64_BOUND:  # then no sum leaves int64 on the way
            products = data if _all_one(weights) else data * weights
            sums = np.add.reduceat(products, starts, dtype=np.int64) if len(starts) else np.zeros(0, np.int64)
            return _columns(wide.from_int64(sums, 2))
    return _columns(_sums(_weighted(values, weights, type_), starts))


def over_frames(values: pa.Array, low: np.ndarray, high: np.ndarray, type_: Type) -> list[pa.Array]:
    limbs = _weighted(values, np.ones(len(values), np.int64), type_)
    return _columns(wide.carry(np.stack([differences(limb, low, high) for limb in limbs])))


def differences(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The sums of values[low[i]:high[i]] (int64), which fit, whatever the running sums do on the way."""
    running = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=running[1:])
    return running[high] - running[low]


def add(a: list[pa.Array], b: list[pa.Array]) -> list[pa.Array]:
    return _columns(wide.carry(_limbs(a) + _limbs(b)))


def combine(
    states: Sequence[list[pa.Array]], positions: Sequence[np.ndarray], signs: Sequence[int], length: int
) -> list[pa.Array]:
    sums = np.zeros((len(states[0]), length), np.int64)
    for state, position, sign in zip(states, positions, signs, strict=True):
        whole = len(position) == length  # then the positions are 0, 1, 2, ...
        for limb, values in zip(sums, _limbs(state), strict=True):
            if whole:
                limb += values if sign == 1 else -values
            else:
                limb[position] += values if sign == 1 else -values
    return _columns(wide.carry(sums))


def total(columns: list[pa.Array], result: Type) -> tuple[pa.Array, np.ndarray | None]:
    """The sum as `result` (BIGINT, or DECIMAL of the values' scale); NULL where it does not fit, and where that is."""
    sums = _limbs(columns)
    return decimal_or_bigint(sums, result, _overflow(sums, result))


def decimal_or_bigint(
    values: np.ndarray, result: Type, overflow: np.ndarray | None, null: np.ndarray | None = None
) -> tuple[pa.Array, np.ndarray | None]:
    """Limbs as a physical array; NULL where `overflow` or `null`."""
    missing = overflow if null is None else null if overflow is None else overflow | null
    if not result.is_decimal or result.precision <= 18:
        return pa.array(wide.to_int64(values), physical_type(result), mask=missing), overflow
    valid = None if missing is None else ~missing
    return wide.to_decimal128(wide.widen(values, 4), physical_type(result), valid), overflow


def average_double(columns: list[pa.Array], counts: np.ndarray) -> pa.Array:
    """The exact sum rounded to double, divided by the count; NULL where that is 0."""
    sums = _limbs(columns)
    fits = sums[1] == sums[1].astype(np.int32)
    nearest = wide.to_int64(sums).astype(np.float64) if fits.all() else wide.to_double(wide.widen(sums, 4), 0)
    return divided(nearest, counts)


def divided(sums: np.ndarray, counts: np.ndarray) -> pa.Array:
    """Doubles divided by counts; NULL where the count is 0."""
    none = counts == 0
    return pa.array(sums / np.where(none, 1, counts), mask=none if none.any() else None)


def average_decimal(
    columns: list[pa.Array], counts: np.ndarray, type_: Type, result: Type
) -> tuple[pa.Array, np.ndarray | None]:
    """Spark's AVG of decimals: the sum must fit in DECIMAL(p + 10, s); the quotient is rounded once, HALF_UP.

    (Spark divides to 39 digits after the point, cut off and not rounded, so that rounding them is as good as exact.)
    """
    sums = _limbs(columns)
    overflow = _overflow(sums, decimal(min(type_.precision + 10, MAX_PRECISION), type_.scale))
    none = counts == 0
    quotient = _rounded(sums, result.scale - type_.scale, np.where(none, 1, counts))
    too_wide = wide.beyond(quotient, 10**result.precision)
    overflow = too_wide if overflow is None else overflow | too_wide
    overflow &= ~none
    return decimal_or_bigint(quotient, result, overflow if overflow.any() else None, none if none.any() else None)


def average_interval(
    columns: list[pa.Array], counts: np.ndarray, result: Type
) -> tuple[pa.Array, np.ndarray | None]:  # fmt: skip
    """Spark's AVG of intervals: the sum must fit; the quotient is rounded HALF_UP."""
    sums = _limbs(columns)
    none = counts == 0
    quotient = _rounded(sums, 0, np.where(none, 1, counts))
    return decimal_or_bigint(quotient[:2], result, _overflow(sums, result), none if none.any() else None)


def _rounded(sums: np.ndarray, digits: int, divisor: np.ndarray) -> np.ndarray:
    """sums * 10**digits / divisor, rounded HALF_UP, one limb wider."""
    values = wide.widen(sums, len(sums) + 1)
    minus = wide.negative(values)
    quotient, remainder = wide.divide(wide.scale_up(wide.apply_sign(values, minus), digits), divisor)
    quotient[0] += 2 * remainder >= divisor
    return wide.apply_sign(wide.carry(quotient), minus)


def _overflow(sums: np.ndarray, result: Type) -> np.ndarray | None:
    if result.is_decimal:
        wrong = wide.beyond(sums, 10**result.precision) if 10**result.precision < 1 << (32 * len(sums) + 31) else None
    elif result.is_month_interval:
        months = wide.to_int64(sums)
        wrong = (sums[1] != sums[1].astype(np.int32)) | (months != months.astype(np.int32))
    else:
        wrong = sums[1] != sums[1].astype(np.int32)
    return wrong if wrong is not None and wrong.any() else None


def _weighted(values: pa.Array, weights: np.ndarray, type_: Type) -> np.ndarray:
    if limb_count(type_) == 2:
        result = wide.from_int64(_data(values, type_), 2)
    else:
        result = wide.from_decimal128(values, 5)
        valid = validity(values)
        if valid is not None:
            result[:, ~valid] = 0
    if _all_one(weights):
        return result
    if greatest_magnitude(weights) >= _WEIGHT_BOUND:
        raise ValueError("weights of 2**31 and more cannot be summed exactly")
    return wide.carry(result * weights)


def _data(values: pa.Array, type_: Type) -> np.ndarray:
    data = numbers(values, type_).astype(np.int64, copy=False)
    valid = validity(values)
    return data if valid is None else np.where(valid, data, 0)


def _all_one(weights: np.ndarray) -> bool:
    return bool((weights == 1).all())


def _product_bound(values: np.ndarray, weights: np.ndarray) -> int:
    return greatest_magnitude(values) * greatest_magnitude(weights)


def greatest_magnitude(values: np.ndarray) -> int:
    """The greatest absolute value, as a Python int; 0 for none."""
    return max(int(values.max()), -int(values.min())) if len(values) else 0


def _sums(limbs: np.ndarray, starts: np.ndarray) -> np.ndarray:
    if not len(starts):
        return np.zeros((len(limbs), 0), np.int64)
    return wide.carry(np.stack([np.add.reduceat(limb, starts) for limb in limbs]))


def _limbs(columns: list[pa.Array]) -> np.ndarray:
    """Stored columns (high first; NULL counts as zero) as limbs (low first)."""
    result = np.empty((len(columns), len(columns[0])), np.int64)
    for i, column in enumerate(reversed(columns)):
        result[i] = column.fill_null(0).to_numpy() if column.null_count else column.to_numpy()
    return result


def _columns(limbs: np.ndarray) -> list[pa.Array]:
    return [pa.array(limb) for limb in limbs[::-1]]
