"""Aggregates of windows beyond those of core views, row by row: boolean ones, variances, percentiles, DISTINCT.

A variance is (n*q - s*s) / n*n, or / n*(n-1) for a sample, of n values with sum s and sum of squares q: the numerator
is exact and rounded once, then divided, then its root taken.  A percentile is Spark's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from operator import and_, or_, xor
from typing import Any

from viewkeeper.catalog.types import DOUBLE, Type, array_of
from viewkeeper.checker.functions_of_nested import closed, opened, order_of
from viewkeeper.checker.value_rules import NAN, Raised, canonical, exact_sum, order_key, plain_aggregate
from viewkeeper.plans.expressions import Expression
from viewkeeper.plans.product_sums import PRODUCTS, VARIANCES
from viewkeeper.plans.relations import AggregateCall
from viewkeeper.plans.value_functions import (
    EXTREMES_BY,
    fraction_of,
    is_descending,
    is_discrete,
    is_list,
    lists_once,
    separator_of,
)


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
        return variance(function, values)
    if function.endswith("_distinct"):
        once = list({canonical(value): value for value in values}.values())
        return aggregate(replace(call, function=function.removesuffix("_distinct")), argument, once)
    if function in PRODUCTS:
        return _of_pairs(function, [tuple(map(float, pair)) for pair in values])
    return of_all_values(function, values, argument.type)


def of_all_values(function: str, values: Sequence[Any], of: Type) -> Any:
    """One of `plans.value_functions` of at least one value, none of them NULL."""
    fraction = fraction_of(function)
    if fraction is not None:
        ordered = sorted(values, key=order_key, reverse=is_descending(function))
        if is_discrete(function):
            return float(ordered[max(math.ceil(len(ordered) * fraction) - 1, 0)])
        return _percentile(ordered, fraction)
    if function in ("mode", "mode desc"):
        numbers = Counter(values)
        first = max if function == "mode desc" else min
        return first((value for value in numbers if numbers[value] == max(numbers.values())), key=order_key)
    if function in EXTREMES_BY:
        there = [opened(canonical(value), of) for value in values]
        chosen = min(there, key=order_of) if function == "min_by" else max(there, key=order_of)
        return closed(chosen["value"], of.parts[1][1])
    if is_list(function):
        return _listed(values, of, once=lists_once(function), descending=is_descending(function))
    separator = separator_of(function)
    if separator is not None:
        texts = set(values) if lists_once(function) else values
        return separator.join(sorted(texts, key=order_key, reverse=is_descending(function)))
    if function.startswith("bit_"):
        return reduce({"bit_and": and_, "bit_or": or_, "bit_xor": xor}[function], values)
    raise TypeError(f"no such aggregate: {function}")


def _listed(values: Sequence[Any], of: Type, *, once: bool, descending: bool) -> bytes:
    """An array of values in order."""
    there = [opened(canonical(value), of) for value in values]
    ordered = sorted(there, key=order_of, reverse=descending)
    if once:
        ordered = [value for i, value in enumerate(ordered) if not i or order_of(value) != order_of(ordered[i - 1])]
    return bytes(closed(ordered, array_of(of)))


def distinct(values: Sequence[Any]) -> int:
    """COUNT(DISTINCT ...) of values (tuples, where it has several arguments) of which none is NULL."""
    return len({tuple(map(canonical, v)) if isinstance(v, tuple) else canonical(v) for v in values})


def variance(function: str, given: Sequence[Any]) -> float | None:
    """One of VARIANCES of values, none of them NULL; NULL of none."""
    values, sample, root = list(map(float, given)), function.endswith("_samp"), function.startswith("stddev")
    n = len(values)
    if not n:
        return None
    if sample and n == 1:
        return None
    if not all(map(math.isfinite, values)):
        return NAN
    exact = [Fraction(value) for value in values]
    numerator = n * sum((value * value for value in exact), Fraction(0)) - sum(exact, Fraction(0)) ** 2
    found, half = _near_one(numerator)
    quotient = found / (n * (n - 1 if sample else n))
    return _moved(math.sqrt(quotient), half) if root else _moved(quotient, 2 * half)


def _near_one(exact: Fraction) -> tuple[float, int]:
    """Brought near 1 by an even power of two, so that nothing is lost to the range of a double on the way; and half the
    power."""
    half = (exact.numerator.bit_length() - exact.denominator.bit_length()) // 2
    return float(exact / Fraction(4) ** half), half


def _moved(value: float, power: int) -> float:
    try:
        return math.ldexp(value, power)
    except OverflowError:
        return math.copysign(math.inf, value)


def _of_pairs(function: str, pairs: Sequence[tuple[float, ...]]) -> float | None:
    """A covariance, correlation or part of a regression of y on x, of at least one pair (y, x)."""
    n = len(pairs)
    ys, xs = ([pair[i] for pair in pairs] for i in (0, 1))
    sides = {"regr_sxx": (xs, xs), "regr_syy": (ys, ys)}.get(function, (ys, xs))
    if function in ("regr_sxx", "regr_syy", "regr_sxy", "covar_pop", "covar_samp"):
        by = n if function.startswith("regr") else n * (n - 1 if function == "covar_samp" else n)
        found, half = _product(*sides)
        return None if not by else _moved(found / by, 2 * half)
    if _alike(xs):
        return None
    if function == "regr_r2" and _alike(ys):
        return 1.0
    (c, c_half), (x, x_half), (y, y_half) = _product(ys, xs), _product(xs, xs), _product(ys, ys)
    if function in ("regr_slope", "regr_intercept"):
        slope = _moved(c / x, 2 * c_half - 2 * x_half)
        averages = [exact_sum(side, DOUBLE, DOUBLE, None) / n for side in (ys, xs)]
        return slope if function == "regr_slope" else averages[0] - slope * averages[1]
    if function == "corr":
        return None if _alike(ys) else _moved(c / math.sqrt(x * y), 2 * c_half - x_half - y_half)
    return _moved(c * c / (x * y), 4 * c_half - 2 * x_half - 2 * y_half)


def _alike(values: Sequence[float]) -> bool:
    """Whether they are one number."""
    return math.isfinite(values[0]) and all(value == values[0] for value in values)


def _product(one: Sequence[float], other: Sequence[float]) -> tuple[float, int]:
    """What two sides are above their averages, multiplied and added up, n times; see `_near_one`."""
    if not all(map(math.isfinite, (*one, *other))):
        return NAN, 0
    a, b = list(map(Fraction, one)), list(map(Fraction, other))
    products = sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))
    return _near_one(len(a) * products - sum(a, Fraction(0)) * sum(b, Fraction(0)))


def _percentile(values: Sequence[Any], fraction: float) -> float:
    position = (len(values) - 1) * fraction
    low, high = values[math.floor(position)], values[math.ceil(position)]
    if order_key(low) == order_key(high):
        return float(low)
    return float(low) + (float(high) - float(low)) * (position - math.floor(position))
