"""Aggregates of windows beyond those of core views, row by row: boolean ones, variances, percentiles, DISTINCT.

A variance is (n*q - s*s) / n*n, or / n*(n-1) for a sample, of n values with sum s and sum of squares q: the numerator
is exact and rounded once, then divided, then its root taken.  A percentile is Spark's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from viewkeeper.checker.value_rules import NAN, Raised, canonical, exact_average, exact_sum, order_key, plain_aggregate
from viewkeeper.compiler.bind_window import fraction_of
from viewkeeper.plans.expressions import Expression
from viewkeeper.plans.relations import AggregateCall

VARIANCES = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")


def aggregate(call: AggregateCall, argument: Expression, values: Sequence[Any]) -> Any:
    """The value of an aggregate over values none of which is NULL; raises `values.Raised`."""
    if call.function.startswith("try_"):
        try:
            return aggregate(replace(call, function=call.function.removeprefix("try_")), argument, values)
        except Raised:
            return None
    if call.function == "count_distinct":
        return distinct(values)
    if not values or call.function in ("count", "sum", "avg", "min", "max"):
        return plain_aggregate(call.function, values, argument.type, call.type, call.place)
    return further(call, argument, values)


def further(call: AggregateCall, argument: Expression, values: Sequence[Any]) -> Any:
    """The value of an aggregate over at least one value, none of them NULL; raises `values.Raised`."""
    function = call.function
    if function == "bool_and":
        return all(values)
    if function == "bool_or":
        return any(values)
    if function in VARIANCES:
        return _variance([float(value) for value in values], function.endswith("_samp"), function.startswith("stddev"))
    fraction = fraction_of(function)
    if fraction is not None:
        return _percentile(sorted(values, key=order_key), fraction)
    if function in ("sum_distinct", "avg_distinct"):
        once = list({canonical(value): value for value in values}.values())
        whole = exact_sum if function == "sum_distinct" else exact_average
        return whole(once, argument.type, call.type, call.place)
    raise TypeError(f"no such aggregate: {function}")


def distinct(values: Sequence[Any]) -> int:
    """COUNT(DISTINCT ...) of values (tuples, where it has several arguments) of which none is NULL."""
    return len({tuple(map(canonical, v)) if isinstance(v, tuple) else canonical(v) for v in values})


def _variance(values: Sequence[float], sample: bool, root: bool) -> float | None:
    n = len(values)
    if sample and n == 1:
        return None
    if not all(map(math.isfinite, values)):
        return NAN
    exact = [Fraction(value) for value in values]
    numerator = n * sum((value * value for value in exact), Fraction(0)) - sum(exact, Fraction(0)) ** 2
    if not numerator:
        return 0.0
    # Brought near 1 by an even power of two, so that nothing is lost to the range of a double on the way.
    half = (numerator.numerator.bit_length() - numerator.denominator.bit_length()) // 2
    quotient = float(numerator / Fraction(4) ** half) / (n * (n - 1 if sample else n))
    try:
        return math.ldexp(math.sqrt(quotient), half) if root else math.ldexp(quotient, 2 * half)
    except OverflowError:
        return math.inf


def _percentile(values: Sequence[Any], fraction: float) -> float:
    position = (len(values) - 1) * fraction
    low, high = values[math.floor(position)], values[math.ceil(position)]
    if order_key(low) == order_key(high):
        return float(low)
    return float(low) + (float(high) - float(low)) * (position - math.floor(position))
