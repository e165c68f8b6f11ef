"""The plan of a view that Spark SQL computes, one query a part: a ViewDF (paper 003, section 4.1) or a plain view."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from viewkeeper.catalog.codec import stored
from viewkeeper.catalog.model import PartPlan
from viewkeeper.plans.references import Input, PartQuery, Subscript
from viewkeeper.plans.relations import Relation


@stored
@dataclass(frozen=True)
class NamedInput:
    """Parts `low` to `high` of `object`, which stand in the query as `name`."""

    name: str
    object: int
    low: Subscript
    high: Subscript


@stored
@dataclass(frozen=True)
class NamedDimension:
    """The table or core view `object`, which stands in the query as `name`."""

    name: str
    object: int


@stored
@dataclass(frozen=True)
class PlannedQuery:
    """A query and what the names in `query.sql` mean: `parts` and `tables` name each of its references once.

    `timed` are the names of those parts whose hidden column PART_TIMESTAMP the query may name.  `relation` is the same
    query for our own operators, where they know all of it and it reads one part, of which PART_TIMESTAMP is then the
    last column.
    """

    query: PartQuery
    parts: tuple[NamedInput, ...]
    tables: tuple[NamedDimension, ...]
    timed: tuple[str, ...]
    relation: Relation | None = None

    @cached_property
    def named_inputs(self) -> tuple[tuple[str, Input], ...]:
        """What is read, by the name that stands for it."""
        return tuple((part.name, Input(part.object, part.low, part.high)) for part in self.parts)

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """What is read."""
        return tuple(input_ for _, input_ in self.named_inputs)

    @property
    def objects(self) -> dict[str, int]:
        """Ids of all that is read, by the names that stand for it."""
        return {part.name: part.object for part in self.parts} | dict(self.dimensions)

    @property
    def dimensions(self) -> tuple[tuple[str, int], ...]:
        """Ids of tables and core views, by the names that stand for them."""
        return tuple((table.name, table.object) for table in self.tables)


@stored
@dataclass(frozen=True)
class Earlier:
    """The queries by which parts before `until` were made: ALTER VIEW has given the view others since."""

    until: int
    initialize: PlannedQuery
    update: PlannedQuery


@stored
@dataclass(frozen=True)
class QueryPlan(PartPlan):
    """`initialize` computes the view's first part, `update` every later one; each by position, converted to the types
    of the view's columns.  `earlier` are older queries, which still hold for older parts, by rising `until`."""

    initialize: PlannedQuery
    update: PlannedQuery
    earlier: tuple[Earlier, ...] = ()

    def query(self, part: int, first: int | None) -> PlannedQuery:
        """What computes `part`, where `first` is the view's initial subscript."""
        sides: QueryPlan | Earlier = next((old for old in self.earlier if part < old.until), self)
        return sides.initialize if part == first else sides.update

    @cached_property
    def queries(self) -> tuple[PlannedQuery, ...]:
        """All queries by which parts are computed."""
        sides: list[QueryPlan | Earlier] = [*self.earlier, self]
        return tuple(query for each in sides for query in (each.initialize, each.update))


@stored
@dataclass(frozen=True)
class ViewDFPlan(QueryPlan):
    """INITIALIZE and UPDATE, as written."""

    kind = "viewdf"
    title = "INITIALIZE and UPDATE"


@stored
@dataclass(frozen=True)
class PlainPlan(QueryPlan):
    """One query for every part, of one source's part: `initialize` and `update` are the same."""

    kind = "plain"
    title = "part by part"
