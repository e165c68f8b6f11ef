"""Aggregates that need all values of a group, each with its number: percentiles, the mode, bits."""

from __future__ import annotations

_PERCENTILE = "percentile "
_DISCRETE = "percentile_disc "
_DESCENDING = " desc"
_OTHERS = frozenset(("mode", "mode desc", "bit_and", "bit_or", "bit_xor"))


def percentile_name(fraction: float, *, discrete: bool = False, descending: bool = False) -> str:
    """The aggregate function that gives the value at `fraction` of the sorted values; `discrete`: one of them."""
    return f"{_DISCRETE if discrete else _PERCENTILE}{fraction!r}{_DESCENDING if descending else ''}"


def fraction_of(function: str) -> float | None:
    """The fraction of a function that `percentile_name` has named; None for another function."""
    return float(function.split()[1]) if function.startswith((_PERCENTILE, _DISCRETE)) else None


def is_discrete(function: str) -> bool:
    """Whether a percentile is always one of the values."""
    return function.startswith(_DISCRETE)


def is_descending(function: str) -> bool:
    """Whether values are in descending order to it."""
    return function.endswith(_DESCENDING)


def needs_all_values(function: str) -> bool:
    """Whether it is one of these (of DISTINCT values it is not yet)."""
    return function in _OTHERS or (function.startswith((_PERCENTILE, _DISCRETE)) and not function.endswith("_distinct"))
