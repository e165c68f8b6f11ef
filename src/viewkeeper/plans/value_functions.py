"""Aggregates that need all values of a group, each with its number: percentiles, the mode, bits."""

from __future__ import annotations

_PERCENTILE = "percentile "
_OTHERS = frozenset(("mode", "bit_and", "bit_or", "bit_xor"))


def percentile_name(fraction: float) -> str:
    """The aggregate function that gives the value at `fraction` of the sorted values."""
    return _PERCENTILE + repr(fraction)


def fraction_of(function: str) -> float | None:
    """The inverse of `percentile_name`; None for another function."""
    return float(function.removeprefix(_PERCENTILE)) if function.startswith(_PERCENTILE) else None


def needs_all_values(function: str) -> bool:
    """Whether it is one of these (of DISTINCT values it is not yet)."""
    return function in _OTHERS or (function.startswith(_PERCENTILE) and not function.endswith("_distinct"))
