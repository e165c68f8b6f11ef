"""What a window of rows aggregates to, row by row in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

Values = list[Any]
_EXACT = Context(prec=200, rounding=ROUND_HALF_UP)


def present(values: Iterable[Any]) -> Values:
    """Without NULLs."""
    return [value for value in values if value is not None]


def order(value: Any) -> Any:
    """Spark's order: NaN is the greatest number."""
    return (value != value, 0 if value != value else value) if isinstance(value, float) else value


def plain(value: Any) -> Any:
    """Equal for what GROUP BY and DISTINCT take for one value."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    return value


def double_sum(values: Values) -> float:
    """As IEEE adds specials; else the exact sum rounded once."""
    odd = [value for value in values if not math.isfinite(value)]
    if odd:
        return math.nan if any(v != v for v in odd) or len(set(odd)) > 1 else odd[0]
    return rounded(sum((Fraction(value) for value in values), Fraction(0)))


def rounded(value: Fraction) -> float:
    """The nearest double."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def total(values: Values) -> Any:
    """SUM."""
    some = present(values)
    if not some:
        return None
    if isinstance(some[0], float):
        return double_sum(some)
    return sum(some, Decimal(0)) if isinstance(some[0], Decimal) else sum(some)


def average(values: Values) -> Any:
    """AVG; of decimals with four more digits."""
    some = present(values)
    if not some:
        return None
    if isinstance(some[0], Decimal):
        scale = -some[0].as_tuple().exponent + 4  # type: ignore[operator]
        quotient = _EXACT.divide(sum(some, Decimal(0)), Decimal(len(some)))
        return quotient.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    return (double_sum(some) if isinstance(some[0], float) else float(sum(some))) / len(some)


def variance(values: Values, sample: bool) -> float | None:
    """VAR_POP and VAR_SAMP, in fractions."""
    exact = _variance(values, sample)
    return rounded(exact) if isinstance(exact, Fraction) else exact


def deviation(values: Values, sample: bool) -> float | None:
    """STDDEV_POP and STDDEV_SAMP; the root is taken before anything is rounded to what a double can hold."""
    exact = _variance(values, sample)
    if not isinstance(exact, Fraction) or not exact:
        return 0.0 if exact == 0 else exact  # type: ignore[return-value]
    half = (exact.numerator.bit_length() - exact.denominator.bit_length()) // 2
    return math.ldexp(math.sqrt(exact / Fraction(4) ** half), half)


def _variance(values: Values, sample: bool) -> Fraction | float | None:
    some = [float(value) for value in present(values)]
    n = len(some)
    if n == 0 or (sample and n == 1):
        return None
    if not all(map(math.isfinite, some)):
        return math.nan
    mean = sum(map(Fraction, some), Fraction(0)) / n
    return sum(((Fraction(value) - mean) ** 2 for value in some), Fraction(0)) / (n - 1 if sample else n)


def percentile(values: Values, fraction: float) -> float | None:
    """Spark's: the value at (n - 1) * fraction, interpolated."""
    some = sorted(present(values), key=order)
    if not some:
        return None
    position = (len(some) - 1) * fraction
    low, high = some[math.floor(position)], some[math.ceil(position)]
    if order(low) == order(high):
        return float(low)
    return float(low) + (position - math.floor(position)) * (float(high) - float(low))


def distinct(values: Values) -> Values:
    """Each value once."""
    return list({plain(value): value for value in present(values)}.values())


def least(values: Values) -> Any:
    """MIN."""
    return min(present(values), key=order, default=None)


def greatest(values: Values) -> Any:
    """MAX."""
    return max(present(values), key=order, default=None)


def bool_and(values: Values) -> bool | None:
    """TRUE where no value is FALSE."""
    return all(present(values)) if present(values) else None


def bool_or(values: Values) -> bool | None:
    """TRUE where a value is TRUE."""
    return any(present(values)) if present(values) else None


Aggregate = Callable[[list[tuple[Any, ...]]], Any]


def window(
    parts: dict[int, list[tuple[Any, ...]]], part: int, length: int, key: Callable[[tuple[Any, ...]], Sequence[Any]],
    outputs: Sequence[Aggregate], *, always: bool = False,
) -> list[tuple[Any, ...]]:  # fmt: skip
    """The rows of the window that ends with `part`: the key's values, then an output for each aggregate."""
    groups: dict[Any, tuple[Sequence[Any], list[tuple[Any, ...]]]] = {}
    for i in range(part - length + 1, part + 1):
        for row in parts.get(i, ()):
            values = key(row)
            groups.setdefault(tuple(map(plain, values)), (values, []))[1].append(row)
    if always and not groups:
        groups[()] = ((), [])
    return [(*values, *(output(rows) for output in outputs)) for values, rows in groups.values()]


def shown(rows: Iterable[tuple[Any, ...]], digits: int = 13) -> list[str]:
    """Comparable rows: doubles to `digits` digits where a function rounds more than once, -0.0 as 0.0."""
    return sorted(repr(tuple(_shown(value, digits) for value in row)) for row in rows)


def _shown(value: Any, digits: int) -> Any:
    if isinstance(value, float):
        return "NaN" if value != value else float(f"{value + 0.0:.{digits}g}")
    return value.normalize(_EXACT) if isinstance(value, Decimal) else value
