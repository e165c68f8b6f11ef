"""How a pattern view is kept, as stored values: its hidden Helper's machine, and how its rows follow from the Helper's.

Expressions of the machine are over `2 * width` columns, a row's own and those of the group's row before it (PREV), and
then the slots: what is remembered of earlier variables (paper 003, Algorithm 1: auxlist).
"""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.catalog.codec import stored
from viewkeeper.catalog.types import Type
from viewkeeper.compiler.bind_pattern import BoundPattern, PatternOrder
from viewkeeper.compiler.expressions import Expression


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


@stored
@dataclass(frozen=True)
class PatternMatches:
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
class PatternAnswer:
    """The plan of the view over the Helper `helper`: `measures[i]` is the Helper's measure from which call i is read,
    -1 for COUNT(*).  `unique` are the columns that tell the rows of a part apart, None where rows may be equal."""

    helper: int
    bound: BoundPattern
    measures: tuple[int, ...]
    unique: tuple[int, ...] | None
