"""Aggregates that need all values of a group, each with its number: percentiles, the mode, bits, lists in order."""

from __future__ import annotations

from ast import literal_eval

_PERCENTILE = "percentile "
_DISCRETE = "percentile_disc "
_DESCENDING = " desc"
_LIST, _SET = "sorted list", "sorted set"
_JOINED, _JOINED_DESCENDING = "joined by ", "joined in descending order by "
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
    return function.endswith(_DESCENDING) or function.startswith(_JOINED_DESCENDING)


def list_name(*, once: bool, descending: bool) -> str:
    """The aggregate function that gives an array of the values in order; `once`: each once."""
    return f"{_SET if once else _LIST}{_DESCENDING if descending else ''}"


def is_list(function: str) -> bool:
    """Whether `list_name` has named it."""
    return function.removesuffix(_DESCENDING) in (_LIST, _SET)


def lists_once(function: str) -> bool:
    """Whether a list has each value once."""
    return function.startswith(_SET)


def joined_name(separator: str, *, descending: bool) -> str:
    """The aggregate function that joins texts in their order."""
    return f"{_JOINED_DESCENDING if descending else _JOINED}{separator!r}"


def separator_of(function: str) -> str | None:
    """What a function that `joined_name` has named puts between texts; None for another function."""
    for name in (_JOINED_DESCENDING, _JOINED):
        if function.startswith(name):
            return str(literal_eval(function.removeprefix(name)))
    return None


def needs_all_values(function: str) -> bool:
    """Whether it is one of these (of DISTINCT values it is not yet)."""
    if is_list(function) or function.startswith((_JOINED, _JOINED_DESCENDING)):
        return True
    return function in _OTHERS or (function.startswith((_PERCENTILE, _DISCRETE)) and not function.endswith("_distinct"))
