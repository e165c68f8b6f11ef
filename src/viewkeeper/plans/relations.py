"""Bound relations: a query as a tree, independent of how it is kept.

`columns` is what a relation yields.  Expressions refer to the columns of their input by position; those of a join see
the left columns, then the right ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from viewkeeper.catalog.codec import stored
from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import Type
from viewkeeper.plans.expressions import Expression, TextPlace


class Relation:
    """The root of all relations."""

    columns: tuple[Column, ...]


@stored
@dataclass(frozen=True)
class Scan(Relation):
    """All rows of a table or view (`object`: its id)."""

    object: int
    name: str
    columns: tuple[Column, ...]


@stored
@dataclass(frozen=True)
class Filter(Relation):
    """The rows for which `predicate` is TRUE."""

    input: Relation
    predicate: Expression

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        return self.input.columns


@stored
@dataclass(frozen=True)
class Project(Relation):
    """One output column for each of `outputs`."""

    input: Relation
    outputs: tuple[Expression, ...]
    names: tuple[str, ...]

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        return tuple(Column(n, e.type, e.nullable) for n, e in zip(self.names, self.outputs, strict=True))


@stored
@dataclass(frozen=True)
class InnerJoin(Relation):
    """Inner join on `left_keys[i] = right_keys[i]` (pairs of one type; each over its own side's columns), and then
    `residual` (over both) where not None."""

    left: Relation
    right: Relation
    left_keys: tuple[Expression, ...]
    right_keys: tuple[Expression, ...]
    residual: Expression | None

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        return self.left.columns + self.right.columns


OUTER_KINDS = ("LEFT", "RIGHT", "FULL", "SEMI", "ANTI")


@stored
@dataclass(frozen=True)
class OuterJoin(Relation):
    """A join that also says which rows match nothing, on `left_keys[i] = right_keys[i]` (as in `InnerJoin`) and
    `condition` (over both sides' columns) where not None.

    `kind` is LEFT, RIGHT or FULL: the pairs, and the rows of that side (of both) that match nothing, with NULLs for the
    other side's columns; or SEMI or ANTI: the rows of the left that match something, or nothing.
    """

    left: Relation
    right: Relation
    left_keys: tuple[Expression, ...]
    right_keys: tuple[Expression, ...]
    condition: Expression | None
    kind: str

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        if self.kind in ("SEMI", "ANTI"):
            return self.left.columns
        left = nullable(self.left.columns) if self.kind in ("RIGHT", "FULL") else self.left.columns
        return left + (nullable(self.right.columns) if self.kind in ("LEFT", "FULL") else self.right.columns)


def nullable(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The same columns, in rows that an outer join may have filled up with NULLs."""
    return tuple(replace(column, nullable=True) for column in columns)


@stored
@dataclass(frozen=True)
class AggregateCall:
    """`function` is count_star, count, sum, min, max or avg; `type` is Spark's result type; `place` names it."""

    function: str
    argument: Expression | None
    type: Type
    nullable: bool
    place: TextPlace | None


@stored
@dataclass(frozen=True)
class GroupBy(Relation):
    """One row a group: the keys, then the calls.  Without keys there is always exactly one row."""

    input: Relation
    keys: tuple[Expression, ...]
    key_names: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    call_names: tuple[str, ...]

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        keys = tuple(Column(n, e.type, e.nullable) for n, e in zip(self.key_names, self.keys, strict=True))
        return keys + tuple(Column(n, c.type, c.nullable) for n, c in zip(self.call_names, self.calls, strict=True))


@dataclass(frozen=True)
class Order:
    """One term of ORDER BY over the query's output column `index` (which may be hidden, see `Query`)."""

    index: int
    ascending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Query:
    """A SELECT: the relation, its order, and its limit.  Only the first `visible` columns are shown; further ones exist
    for ORDER BY alone."""

    relation: Relation
    visible: int
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
