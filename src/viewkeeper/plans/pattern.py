"""A pattern view: its query as bound, the machine of its hidden Helper, and how its rows follow from the Helper's.

In the query, a condition or an argument is over four rows side by side, each of the source's `width` columns: the row
at hand, the group's row before it (PREV; NULL where there is none), and for a condition on two variables the last row
of the earlier one and the row before that.

Expressions of the machine are over `2 * width` columns, a row's own and those of the group's row before it (PREV), and
then the slots: what is remembered of earlier variables (paper 003, Algorithm 1: auxlist).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from viewkeeper.catalog.codec import stored
from viewkeeper.catalog.model import Column, HelperPlan, PartPlan
from viewkeeper.catalog.types import Type
from viewkeeper.plans.expressions import Expression, TextPlace, as_column
from viewkeeper.plans.text import expression_text


@stored
@dataclass(frozen=True)
class PatternCondition:
    """A term of WHERE.  It belongs to variable `owner` (from 1); `earlier` is the variable before it whose last row it
    reads too, 0 where there is none."""

    owner: int
    earlier: int
    predicate: Expression


@stored
@dataclass(frozen=True)
class PatternCall:
    """An aggregate over the rows of variable `variable` in the match, or of the whole match (0).

    `function` is count_star, count, sum, min, max, avg, first or last.
    """

    function: str
    variable: int
    argument: Expression | None
    type: Type
    nullable: bool
    place: TextPlace | None
    name: str


@stored
@dataclass(frozen=True)
class PatternOrder:
    """One term of ORDER BY, over a row."""

    expression: Expression
    ascending: bool
    nulls_first: bool


@stored
@dataclass(frozen=True)
class BoundPattern:
    """A pattern query as bound.

    `keys` are over a row, `outputs` over the keys and then the calls; places are lines and columns of `sql`.  `time` is
    the column by which rows are taken first, None over a view.
    """

    sql: str
    width: int
    variables: tuple[str, ...]
    plus: tuple[bool, ...]
    conditions: tuple[PatternCondition, ...]
    keys: tuple[Expression, ...]
    key_names: tuple[str, ...]
    order: tuple[PatternOrder, ...]
    time: int | None
    calls: tuple[PatternCall, ...]
    outputs: tuple[Expression, ...]
    names: tuple[str, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """What the view's rows hold."""
        return tuple(map(as_column, self.names, self.outputs))


@stored
@dataclass(frozen=True)
class PatternVariable:
    """A state of the machine.  A row belongs to it where `own` (over the row alone), `before` (over PREV too) and
    `cross` (over slots too) are TRUE, each a list of terms; errors count only where the terms before them hold."""

    name: str
    plus: bool
    own: tuple[Expression, ...]
    before: tuple[Expression, ...]
    cross: tuple[Expression, ...]


@stored
@dataclass(frozen=True)
class PatternSlot:
    """Column `column` (below `2 * width`) of the last row of variable `variable`, remembered up to variable `until`.

    `relation` says when a partial match with value x can do all that one with value y can, as far as this slot goes:
    x `relation` y; it is =, <= or >=.
    """

    variable: int
    column: int
    until: int
    type: Type
    relation: str


@stored
@dataclass(frozen=True)
class PatternMeasure:
    """What is kept up for aggregates: `function` is count, sum (for AVG too), min, max, first or last of `argument`
    over the rows of variable `variable`, 0: of the whole match."""

    function: str
    variable: int
    argument: Expression

    def text(self, variables: Sequence[PatternVariable]) -> str:
        """What it is, for people."""
        of = f" of {variables[self.variable - 1].name}" if self.variable else ""
        return f"{self.function}({expression_text(self.argument)}){of}"


@stored
@dataclass(frozen=True)
class PatternMatches(HelperPlan):
    """The plan of the Helper.

    `order` sorts the rows of a group behind `time`; `single`: a part has at most one row of a group.  `detailed`: which
    rows each variable has is kept too, since measures depend on it.  `previous` are the columns that PREV needs.
    `limit` is how many partial matches a group may have.
    """

    source: int
    width: int
    variables: tuple[PatternVariable, ...]
    keys: tuple[Expression, ...]
    order: tuple[PatternOrder, ...]
    time: int | None
    single: bool
    slots: tuple[PatternSlot, ...]
    previous: tuple[int, ...]
    measures: tuple[PatternMeasure, ...]
    detailed: bool
    limit: int | None


@stored
@dataclass(frozen=True)
class PatternAnswer(PartPlan):
    """The plan of the view over the Helper `helper`: `measures[i]` is the Helper's measure from which call i is read,
    -1 for COUNT(*).  `unique` are the columns that tell the rows of a part apart, None where rows may be equal."""

    kind = title = "pattern"

    helper: int
    bound: BoundPattern
    measures: tuple[int, ...]
    unique: tuple[int, ...] | None
