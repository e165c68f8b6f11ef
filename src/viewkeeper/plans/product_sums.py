"""Aggregates that are moments of values, or of pairs of values."""

from __future__ import annotations

_Y, _X = 0, 1

VARIANCES = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
"""Those of one argument."""

PRODUCTS: dict[str, tuple[tuple[int, int], ...]] = {
    **dict.fromkeys(VARIANCES, ((_Y, _Y),)),
    **dict.fromkeys(("covar_pop", "covar_samp", "regr_sxy"), ((_Y, _X),)),
    "regr_syy": ((_Y, _Y),), "regr_sxx": ((_X, _X),),
    **dict.fromkeys(("regr_slope", "regr_intercept"), ((_Y, _X), (_X, _X))),
    **dict.fromkeys(("corr", "regr_r2"), ((_Y, _Y), (_Y, _X), (_X, _X))),
}  # fmt: skip
"""For each moment the products, of its first argument and its second (0 and 1), whose sums it follows from."""
