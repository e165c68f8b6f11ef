"""Part references, `t[j]`, `t[j-1]`, `t[j-w+1..j]`, `t[i*60-59..i*60]`: which parts a query names and a plan reads
(paper 003, 4.1)."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.catalog.codec import stored
from viewkeeper.plans.expressions import TextPlace


@stored
@dataclass(frozen=True)
class Subscript:
    """floor((factor * j + offset) / divisor); `factor` is 0 for a constant and never negative, `divisor` at least 1."""

    factor: int
    offset: int
    divisor: int = 1

    def at(self, j: int) -> int:
        """The subscript for part `j` of the view."""
        return (self.factor * j + self.offset) // self.divisor


@stored
@dataclass(frozen=True)
class Reference:
    """One reference in a query: the parts `low` to `high` of `target`; both None: it is named without a subscript.

    `name` is the plain name that stands in its place in `PartQuery.sql`; `place` is (line, column) in the script.
    """

    name: str
    target: str
    low: Subscript | None
    high: Subscript | None
    place: TextPlace


@stored
@dataclass(frozen=True)
class PartQuery:
    """A query with part references: `text` as typed, `sql` without comments and with plain names in place of the
    references (each reference has a name of its own, and an alias: the one given, else its target's name)."""

    text: str
    sql: str
    references: tuple[Reference, ...]


@dataclass(frozen=True)
class Input:
    """The parts `low` to `high` (as functions of j) of a stream, view or helper that part j reads."""

    object: int
    low: Subscript
    high: Subscript
