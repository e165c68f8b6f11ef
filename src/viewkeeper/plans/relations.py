"""Bound relations: a query as a tree, independent of how it is kept.

`columns` is what a relation yields.  Expressions refer to the columns of their input by position; those of a join see
the left columns, then the right ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from viewkeeper.catalog.codec import stored
from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import BIGINT, INT, Type, struct_of
from viewkeeper.plans.expressions import Expression, Literal, TextPlace, as_column, operands
from viewkeeper.plans.outside import SparkAggregate
from viewkeeper.plans.product_sums import VARIANCES
from viewkeeper.plans.value_functions import needs_all_values


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
class Constants(Relation):
    """The rows of VALUES.  A SELECT without FROM reads one row without columns."""

    rows: tuple[tuple[Literal, ...], ...]
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
        return tuple(map(as_column, self.names, self.outputs))


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
        keys = tuple(map(as_column, self.key_names, self.keys))
        return keys + tuple(Column(n, c.type, c.nullable) for n, c in zip(self.call_names, self.calls, strict=True))


@stored
@dataclass(frozen=True)
class Order:
    """One term of ORDER BY over the query's output column `index` (which may be hidden, see `Query`)."""

    index: int
    ascending: bool
    nulls_first: bool


@stored
@dataclass(frozen=True)
class Limit(Relation):
    """In the order of `order`, the rows behind the first `offset`, `limit` of them (None: all).

    Rows that the order finds equal are alike in all that is shown of them, so that which come is settled.
    """

    input: Relation
    order: tuple[Order, ...]
    limit: int | None
    offset: int

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        return self.input.columns


@stored
@dataclass(frozen=True)
class Frame:
    """The rows around a row that a window function is computed of: from `start` to `end`, None being the partition's
    first and its last row.

    ROWS (`unit`) are counted from the row's own place, rows before it by negative numbers.  RANGE counts in values of
    the order; 0 is the row itself and all rows that the order finds equal to it, or where a call's `bounds` say.
    """

    unit: str
    start: int | None
    end: int | None


@stored
@dataclass(frozen=True)
class OverCall:
    """A function of a row's place among the rows of its partition, in the order of `order`; rows that this finds equal
    stand in the order of `ties`, which are no part of what is asked.

    `arguments` are columns (LAG's second is its default), the first of type `of`; `number` is a constant: how many
    buckets, how far away, which value.  `bounds` are columns with the values of the order at which a RANGE frame begins
    and ends (None: the frame says it).  `type` is Spark's result type; `place` names it.
    """

    function: str
    arguments: tuple[int, ...]
    of: Type | None
    number: int | None
    ignore_nulls: bool
    order: tuple[Order, ...]
    ties: tuple[Order, ...]
    frame: Frame
    type: Type
    nullable: bool
    place: TextPlace | None
    bounds: tuple[int | None, int | None] = (None, None)  # the last, as catalogs hold calls by position

    @property
    def columns(self) -> set[int]:
        """The columns that it reads."""
        ordered = (term.index for term in (*self.order, *self.ties))
        return {*ordered, *self.arguments, *(bound for bound in self.bounds if bound is not None)}


OF_FRAMES = ("count_star", "count", "sum", "avg", "min", "max", *VARIANCES)
"""Window functions of the rows of a frame, in whatever order they stand."""


def tells_equals_apart(function: str, frame: Frame) -> bool:
    """Whether a window function depends on how rows stand that its order finds equal."""
    if function in ("rank", "dense_rank", "percent_rank", "cume_dist"):
        return False
    if needs_all_values(function):
        return False
    return function not in OF_FRAMES or (frame.unit == "ROWS" and (frame.start, frame.end) != (None, None))


@stored
@dataclass(frozen=True)
class Windows(Relation):
    """Each row with the value of each of `calls` behind it; rows of one partition have equal columns `partition`.

    `settled` is what Spark's text needs so that it answers the same: further terms of the ORDER BY of calls, by their
    places; None where no text says it.  With `first`, (number of a call, n), rows may be missing for which the call is
    above n: nobody asks for them.
    """

    input: Relation
    partition: tuple[int, ...]
    calls: tuple[OverCall, ...]
    call_names: tuple[str, ...]
    settled: tuple[tuple[TextPlace, str], ...] | None
    first: tuple[int, int] | None = None

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        calls = zip(self.call_names, self.calls, strict=True)
        return self.input.columns + tuple(Column(name, call.type, call.nullable) for name, call in calls)


@stored
@dataclass(frozen=True)
class SparkQuery(Relation):
    """What Spark SQL answers to the query `sql` over all rows of the tables and views `objects`: (name, id) of each.
    `reason` is why it is not made of our own operators."""

    sql: str
    objects: tuple[tuple[str, int], ...]
    columns: tuple[Column, ...]
    reason: str


@stored
@dataclass(frozen=True)
class ComputedColumn(Relation):
    """The rows of `input`, each with what `call` says of it, and the error where it raised (see `outside.Kept`)."""

    input: Relation
    call: Expression

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        return (*self.input.columns, Column("value", self.call.type), Column("error", BIGINT, False))


@stored
@dataclass(frozen=True)
class AskedGroups(Relation):
    """One row a group: the keys, what Spark says to each of `calls`, and the error where it raised (see
    `outside.Kept`).  Without keys there is always exactly one row."""

    input: Relation
    keys: tuple[Expression, ...]
    key_names: tuple[str, ...]
    calls: tuple[SparkAggregate, ...]

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        keys = tuple(map(as_column, self.key_names, self.keys))
        # Where it raised there is no value.
        values = tuple(Column(f"value {i}", call.type) for i, call in enumerate(self.calls))
        return (*keys, *values, Column("error", BIGINT, False))


@stored
@dataclass(frozen=True)
class AskedOver(Relation):
    """Each row with what Spark says to each of `calls` behind it: of all rows of its partition, or of a frame in their
    order (`SparkAggregate.over`).  Rows of one partition have equal columns `partition`; of what is said to the rows of
    a partition the columns `told` (one tuple a call) tell the values apart."""

    input: Relation
    partition: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    call_names: tuple[str, ...]
    told: tuple[tuple[int, ...], ...]

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        calls = zip(self.call_names, self.calls, strict=True)
        return self.input.columns + tuple(Column(name, call.type, call.nullable) for name, call in calls)


@stored
@dataclass(frozen=True)
class UnionAll(Relation):
    """All rows of all `inputs`, whose columns have the same types one by one."""

    inputs: tuple[Relation, ...]

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        return tuple(
            replace(each[0], nullable=any(c.nullable for c in each))
            for each in zip(*(input_.columns for input_ in self.inputs), strict=True)
        )


@stored
@dataclass(frozen=True)
class SetOperation(Relation):
    """`kind` is INTERSECT (each row that both sides have) or EXCEPT (each row that only the left has).

    Rows are equal where all their columns are, NULL being equal to NULL.  With `all`, a row that comes m times on the
    left and n times on the right comes min(m, n) times, or m - n times; else once.
    """

    kind: str
    all: bool
    left: Relation
    right: Relation

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        both = zip(self.left.columns, self.right.columns, strict=True)
        return tuple(replace(a, nullable=a.nullable and (b.nullable or self.kind == "EXCEPT")) for a, b in both)


@stored
@dataclass(frozen=True)
class Repeat(Relation):
    """Each row as often as `times`, a whole number, says: not at all where it is 0 or less."""

    input: Relation
    times: Expression

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        return self.input.columns


@stored
@dataclass(frozen=True)
class Explode(Relation):
    """Each row once for each element of the array in its column number `index` (of a map: for each entry, a struct of
    its key and value), with the element's place, from 0, and the element.

    A row without elements, or with NULL, comes not at all, or with `outer` once, with NULLs.
    """

    input: Relation
    index: int
    outer: bool

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        of = self.input.columns[self.index].type
        element = struct_of(of.parts) if of.name == "MAP" else of.parts[0][1]
        return (*self.input.columns, Column("pos", INT, self.outer), Column("col", element))


def inputs_of(relation: Relation) -> Iterator[Relation]:
    """The relations that `relation` is made from, in the order in which they are written."""
    for value in _parts(relation):
        if isinstance(value, Relation):
            yield value


def expressions_of(relation: Relation) -> Iterator[Expression]:
    """The expressions that `relation` itself computes, those of its inputs left out."""
    for value in _parts(relation):
        if isinstance(value, AggregateCall):
            value = value.argument
        if isinstance(value, Expression):
            yield value


def _parts(relation: Relation) -> list[Any]:
    parts: list[Any] = []
    for name in operands(type(relation)):
        value = getattr(relation, name)
        if isinstance(value, tuple):
            parts += value
        else:
            parts.append(value)
    return parts


@dataclass(frozen=True)
class Query:
    """A SELECT: the relation, its order, and its limit.  Only the first `visible` columns are shown; further ones exist
    for ORDER BY alone."""

    relation: Relation
    visible: int
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
