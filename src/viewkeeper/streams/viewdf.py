"""The plan of a view that Spark SQL computes, one query a part: a ViewDF (paper 003, section 4.1) or a plain view."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from viewkeeper.catalog.codec import stored
from viewkeeper.catalog.model import PartView
from viewkeeper.compiler.references import PartQuery, Subscript
from viewkeeper.streams.program import Input


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

    `timed` are the names of those parts whose hidden column PART_TIMESTAMP the query may name.
    """

    query: PartQuery
    parts: tuple[NamedInput, ...]
    tables: tuple[NamedDimension, ...]
    timed: tuple[str, ...]

    @cached_property
    def named_inputs(self) -> tuple[tuple[str, Input], ...]:
        """What is read, by the name that stands for it."""
        return tuple((part.name, Input(part.object, part.low, part.high)) for part in self.parts)

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """What is read."""
        return tuple(input_ for _, input_ in self.named_inputs)

    @property
    def dimensions(self) -> tuple[tuple[str, int], ...]:
        """Ids of tables and core views, by the names that stand for them."""
        return tuple((table.name, table.object) for table in self.tables)


@stored
@dataclass(frozen=True)
class ViewDFPlan:
    """`initialize` computes the view's first part, `update` every later one; each by position, converted to the types
    of the view's columns."""

    initialize: PlannedQuery
    update: PlannedQuery


def inputs(view: PartView, initial: bool = False) -> tuple[Input, ...]:
    """What a part of a view that Spark SQL computes reads: a later one, or the initial one."""
    assert isinstance(view.plan, ViewDFPlan)
    return view.plan.initialize.inputs if initial else view.plan.update.inputs
