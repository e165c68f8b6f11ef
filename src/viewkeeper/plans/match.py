"""What a MATCH_RECOGNIZE view is, as plain data: its pattern, conditions and measures, bound and typed.

Columns are positions in `MatchPlan.columns`: the source's, then PART_TIMESTAMP.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from viewkeeper.catalog.codec import stored
from viewkeeper.catalog.model import Column, PartPlan
from viewkeeper.catalog.types import Type
from viewkeeper.plans.expressions import Expression, TextPlace
from viewkeeper.plans.rewriting import references
from viewkeeper.plans.text import expression_text


@stored
@dataclass(frozen=True)
class MatchElement:
    """`least` to `most` rows (None: any number) that satisfy variable number `variable`, as many as can be."""

    variable: int
    least: int
    most: int | None

    def text(self, variables: Sequence[str]) -> str:
        """As one would write it."""
        signs = {(1, 1): "", (0, None): "*", (1, None): "+", (0, 1): "?"}
        most = "" if self.most is None else self.most
        return variables[self.variable] + signs.get((self.least, self.most), f"{{{self.least},{most}}}")


@stored
@dataclass(frozen=True)
class MatchOrder:
    """One term of ORDER BY within a part."""

    column: int
    ascending: bool
    nulls_first: bool


@stored
@dataclass(frozen=True)
class MatchPrevious:
    """`column` of the row that stands `rows` before in the partition; NULL where there is none."""

    column: int
    rows: int


@stored
@dataclass(frozen=True)
class MatchSlot:
    """One value of a match, from the rows of `variable` (None: all of its rows).

    `function` is first, last (of the row that stands `offset` further in; NULL where there is none), count_star, count,
    sum, min, max, avg, or classifier (the variable of the last row).  `argument` is over `MatchPlan.columns`.
    """

    function: str
    variable: int | None
    argument: Expression | None
    offset: int
    type: Type
    nullable: bool
    place: TextPlace | None

    def text(self, variables: Sequence[str]) -> str:
        """What it is, for people."""
        of = "" if self.variable is None else f" of {variables[self.variable]}"
        argument = "*" if self.function == "count_star" else ""
        if self.argument is not None:
            argument = expression_text(self.argument)
        offset = f", {self.offset}" if self.offset else ""
        return f"{self.function.removesuffix('_star')}({argument}{offset}){of}"


@stored
@dataclass(frozen=True)
class MatchPlan(PartPlan):
    """`conditions` has one for each of `variables` (None: always true), over `columns` and behind them `previous`.

    `outputs` and `predicate` (the query's WHERE) are over a match: the `partition` columns, then `slots`.  `past` says
    where the search goes on: behind the match, else at the row behind its first.
    """

    kind = "match"
    title = "MATCH_RECOGNIZE"

    columns: tuple[Column, ...]
    partition: tuple[int, ...]
    order: tuple[MatchOrder, ...]
    variables: tuple[str, ...]
    elements: tuple[MatchElement, ...]
    conditions: tuple[Expression | None, ...]
    previous: tuple[MatchPrevious, ...]
    slots: tuple[MatchSlot, ...]
    outputs: tuple[Expression, ...]
    predicate: Expression | None
    past: bool

    @property
    def depth(self) -> int:
        """How many rows before a row its conditions look at."""
        return max((previous.rows for previous in self.previous), default=0)

    @property
    def kept(self) -> tuple[int, ...]:
        """The columns that are needed of rows of earlier parts: for the group, the measures and PREV."""
        found = {*self.partition, *(previous.column for previous in self.previous)}
        for slot in self.slots:
            found |= references(slot.argument) if slot.argument is not None else set()
        return tuple(sorted(found))

    @property
    def uses_part_time(self) -> bool:
        """Whether PART_TIMESTAMP, the last of `columns`, is read at all."""
        last = len(self.columns) - 1
        conditions = (references(condition) for condition in self.conditions if condition is not None)
        return last in self.kept or any(last in found for found in conditions)

    @property
    def carries(self) -> bool:
        """Whether a part needs anything of the parts before it."""
        return self.depth > 0 or len(self.elements) > 1 or self.elements[0].least > 1

    def looks_back(self, variable: int) -> bool:
        """Whether the condition of `variable` has a PREV."""
        condition = self.conditions[variable]
        return condition is not None and max(references(condition), default=0) >= len(self.columns)

    def positions(self) -> Iterator[tuple[int, bool, bool]]:
        """The pattern as single positions: the variable, whether it may be taken again, whether it may be left out.

        A{2,} is A A+, A{2,4} is A A A? A?.
        """
        for element in self.elements:
            for n in range(element.least):
                yield element.variable, element.most is None and n == element.least - 1, False
            if element.most is None:
                if not element.least:
                    yield element.variable, True, True
            else:
                for _ in range(element.most - element.least):
                    yield element.variable, False, True
