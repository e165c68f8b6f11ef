"""Aggregates that need all values of a group, each with its number: percentiles, the mode, bits, lists in order, and
what stands beside the least or the greatest value."""

from __future__ import annotations

import re
from ast import literal_eval

_PERCENTILE = "percentile "
_DISCRETE = "percentile_disc "
_DESCENDING = " desc"
_LIST, _SET = "sorted list", "sorted set"
_JOINED = re.compile("joined( once)?( in descending order)? by (.*)", re.DOTALL)
EXTREMES_BY = frozenset(("min_by", "max_by"))
"""The first of two values where the second is the least or the greatest, where there is one: the argument is a struct
of the second and the first.  Where several rows have that, it is the least (the greatest) of their first values."""

_OTHERS = frozenset(("mode", "mode desc", "bit_and", "bit_or", "bit_xor")) | EXTREMES_BY


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
    joined = _JOINED.fullmatch(function)
    return function.endswith(_DESCENDING) if joined is None else joined[2] is not None


def list_name(*, once: bool, descending: bool) -> str:
    """The aggregate function that gives an array of the values in order; `once`: each once."""
    return f"{_SET if once else _LIST}{_DESCENDING if descending else ''}"


def is_list(function: str) -> bool:
    """Whether `list_name` has named it."""
    return function.removesuffix(_DESCENDING) in (_LIST, _SET)


def lists_once(function: str) -> bool:
    """Whether a list, or what is joined, has each value once."""
    joined = _JOINED.fullmatch(function)
    return function.startswith(_SET) if joined is None else joined[1] is not None


def joined_name(separator: str, *, once: bool, descending: bool) -> str:
    """The aggregate function that joins texts in their order; `once`: each once."""
    return f"joined{' once' if once else ''}{' in descending order' if descending else ''} by {separator!r}"


def separator_of(function: str) -> str | None:
    """What a function that `joined_name` has named puts between texts; None for another function."""
    joined = _JOINED.fullmatch(function)
    return None if joined is None else str(literal_eval(joined[3]))


def needs_all_values(function: str) -> bool:
    """Whether it is one of these (of DISTINCT values it is not yet)."""
    if is_list(function) or separator_of(function) is not None:
        return True
    return function in _OTHERS or (function.startswith((_PERCENTILE, _DISCRETE)) and not function.endswith("_distinct"))
