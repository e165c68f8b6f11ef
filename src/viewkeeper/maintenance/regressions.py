"""Variances, covariances, correlations and regressions, read off exact sums and exact sums of products.

Where Spark's are NULL, 0 or NaN, these are: of no pair; of one pair where a sample is asked for; where one side is the
same in all pairs.  NaN and infinities make NaN of what they are part of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import DOUBLE
from viewkeeper.evaluation import exact
from viewkeeper.evaluation.exact_product import Scaled, deviations, is_odd, unscaled, variance

_Y, _X = 0, 1


@dataclass(frozen=True)
class Moments:
    """What is known of the pairs of each group: how many (int64), for each side its exact sum, and for pairs of sides
    the exact sums of products."""

    counts: np.ndarray
    sums: Sequence[list[pa.Array]]
    products: Mapping[tuple[int, int], pa.Array]

    @cached_property
    def odd(self) -> list[np.ndarray]:
        """For each side, whether NaN or an infinity is among its values."""
        return [is_odd(each) for each in self.sums]

    def of(self, one: int, other: int) -> Scaled:
        """n times the sum of the products of what the two sides are above their averages."""
        return deviations(self.sums[one], self.sums[other], self.products[one, other], self.counts)

    def alike(self, side: int) -> np.ndarray:
        """Whether a side is the same in all pairs."""
        same: np.ndarray = (self.of(side, side).value == 0) & ~self.odd[side]
        return same


def moment(function: str, of: Moments) -> pa.Array:
    """`function` (one of `plans.product_sums.PRODUCTS`) for each group."""
    kind, _, by = function.partition("_")
    if kind in ("var", "stddev"):
        sums, squares = of.sums[_Y], of.products[_Y, _Y]
        values, null = variance(sums, squares, of.counts, sample=by == "samp", root=kind == "stddev")
        return pa.array(values, mask=null)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        values, null = _of_pairs(function, of)
    return pa.array(values, mask=null | (of.counts == 0))


def _of_pairs(function: str, of: Moments) -> tuple[np.ndarray, np.ndarray]:
    """The values, and where they are NULL, beside where there is no pair."""
    counts = of.counts
    if function in ("regr_sxx", "regr_syy", "regr_sxy", "covar_pop", "covar_samp"):
        one, other = {"regr_sxx": (_X, _X), "regr_syy": (_Y, _Y)}.get(function, (_Y, _X))
        divisors = counts if function.startswith("regr") else counts * (counts - (function == "covar_samp"))
        found = of.of(one, other)
        values = unscaled(Scaled(found.value / np.where(divisors == 0, 1, divisors), found.exponent))
        return np.where(of.odd[one] | of.odd[other], np.nan, values), divisors == 0
    odd = of.odd[_Y] | of.odd[_X]
    both, squared_x = of.of(_Y, _X), of.of(_X, _X)
    if function in ("regr_slope", "regr_intercept"):
        slope = unscaled(Scaled(both.value / squared_x.value, both.exponent - squared_x.exponent))
        if function == "regr_intercept":
            slope = _average(of, _Y) - slope * _average(of, _X)
        return np.where(odd, np.nan, slope), of.alike(_X)
    squared_y = of.of(_Y, _Y)
    exponent = squared_x.exponent + squared_y.exponent
    size = squared_x.value * squared_y.value
    if function == "corr":
        values = unscaled(Scaled(both.value / np.sqrt(size), both.exponent - exponent // 2))
        return np.where(odd, np.nan, values), of.alike(_X) | of.alike(_Y)
    values = unscaled(Scaled(both.value * both.value / size, 2 * both.exponent - exponent))
    return np.where(of.alike(_Y), 1.0, np.where(odd, np.nan, values)), of.alike(_X)


def _average(of: Moments, side: int) -> np.ndarray:
    """The averages of a side; of no pair 0."""
    values, _ = exact.total(of.sums[side], DOUBLE, DOUBLE)
    found: np.ndarray = values.to_numpy(zero_copy_only=False) / np.maximum(of.counts, 1)
    return found
