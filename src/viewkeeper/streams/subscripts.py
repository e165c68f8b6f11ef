"""Exact inverses of subscripts: which parts j of a view name which parts of a source (paper 003, 4.1 and 4.3).

A subscript is floor((factor * j + offset) / divisor), so it never falls as j rises.
"""

from __future__ import annotations

from viewkeeper.plans.references import Subscript

UNBOUNDED = 2**62
"""Stands for "any j, however great" (and its negative for however small): subscripts stay far below it."""


def greatest_at_most(subscript: Subscript, part: int) -> int:
    """The greatest j whose subscript is at most `part`; UNBOUNDED or -UNBOUNDED where that is every j or none."""
    if subscript.factor == 0:
        return UNBOUNDED if subscript.at(0) <= part else -UNBOUNDED
    return (subscript.divisor * (part + 1) - 1 - subscript.offset) // subscript.factor


def lowest_at_least(subscript: Subscript, part: int) -> int:
    """The lowest j whose subscript is at least `part`; -UNBOUNDED or UNBOUNDED where that is every j or none."""
    if subscript.factor == 0:
        return -UNBOUNDED if subscript.at(0) >= part else UNBOUNDED
    return -((subscript.offset - subscript.divisor * part) // subscript.factor)


def naming(low: Subscript, high: Subscript, first: int, last: int) -> tuple[int, int]:
    """The lowest and greatest j that may name any of the parts `first` to `last` by `low..high`; lowest > greatest
    where none does."""
    return lowest_at_least(high, first), greatest_at_most(low, last)
