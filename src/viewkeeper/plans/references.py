"""Part references, `t[j]`, `t[j-1]`, `t[j-w+1..j]`, `t[i*60-59..i*60]`: which parts a query names and a plan reads
(paper 003, 4.1)."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

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

    def text(self, variable: str) -> str:
        """As one would write it."""
        common = gcd(self.factor, self.divisor)
        factor, offset, divisor = self.factor // common, self.offset // common, self.divisor // common
        if factor == 0:
            return str(offset // divisor)
        text = variable if factor == 1 else f"{variable}*{factor}"
        text += f"{offset:+d}" if offset else ""
        if divisor == 1:
            return text
        return f"({text}) DIV {divisor}" if text != variable else f"{variable} DIV {divisor}"


def parts_text(name: str, low: Subscript, high: Subscript, variable: str = "j") -> str:
    """The parts `low` to `high` of what is called `name`, as one would write them."""
    first, last = low.text(variable), high.text(variable)
    return f"{name}[{first}]" if first == last else f"{name}[{first}..{last}]"


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
