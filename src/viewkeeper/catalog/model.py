"""What a database consists of: tables, views, indexes, streams, and the states that hold them.

All are plain, frozen values.  A catalog is part of a manifest; a change makes a new one.  Ids are never used again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

from viewkeeper.catalog.codec import stored
from viewkeeper.catalog.outside_store import OutsideStore, Target
from viewkeeper.catalog.types import BIGINT, BINARY, INT, STRING, Type


@stored(shared=True)
@dataclass(frozen=True)
class Column:
    """A named, typed column; `nullable` is False only where NULL is impossible.

    `declared` is the type with its CHAR(n) and VARCHAR(n), where there are such: `type` has STRINGs for them.  It goes
    with a column through queries as long as nothing is computed of it, as in Spark, which compares CHARs by it.
    """

    name: str
    type: Type
    nullable: bool = True
    declared: Type | None = None


@stored(shared=True)
@dataclass(frozen=True)
class StateSpec:
    """The shape of one trace.

    `kind` is "keyed" (the newest row of a key wins), "weighted" (a multiset: weights add up) or "ordered" (weighted,
    and sorted within a key by the last column, for MIN and MAX).  The first `key` columns are the key.  With `member`
    the first column (INT, part of the key) says to which view of a family a row belongs.  `added` are, for the last
    columns of a DELTA, the physical values of rows that were written before there were these columns.  With `order`,
    (column, ascending, NULL first) each, a weighted state has the rows of a key sorted by these, then by all columns.
    Rows of a keyed state that agree in the first `together` columns of the key, where that is not 0, stand together and
    have one owner.
    """

    id: int
    kind: str
    columns: tuple[Column, ...]
    key: int
    member: bool = False
    added: tuple[Any, ...] = ()
    order: tuple[tuple[int, bool, bool], ...] = ()
    together: int = 0


@stored
@dataclass(frozen=True)
class Stored:
    """Where the rows of a table, view or index are read.

    `order[i]` is the state's column that holds the i-th column of the table or view; `member` selects the rows of one
    view in the state of its family, None where the state is the view's own.
    """

    state: StateSpec
    order: tuple[int, ...]
    member: int | None = None


@stored
@dataclass(frozen=True)
class Default:
    """What a column of a new row gets that does not name it: a constant, as it is written, and as a physical value."""

    text: str
    value: Any


@stored
@dataclass(frozen=True)
class ColumnDetails:
    """What is declared of a column of a table beside its name and type.

    `id` is the column's own, never given again in the table.  Of a column that was added later, `added` is the
    catalog's next id then, and `before` the physical value of rows that were written before.  `length` is the n of a
    VARCHAR(n) that was declared before columns said so themselves.
    """

    default: Default | None = None
    id: int = 0
    added: int = 0
    before: Any = None
    comment: str | None = None
    length: int | None = None


@stored
@dataclass(frozen=True)
class TableLayout:
    """The columns of a table as they were once, with their ids: rows and log entries of then have these."""

    columns: tuple[Column, ...]
    key: tuple[int, ...]
    ids: tuple[int, ...]


@stored
@dataclass(frozen=True)
class Table:
    """A base table.  `key` holds column positions; empty: a hidden row id (BIGINT) is the key, the first column of the
    state, shown to nobody.  The state is its DELTA.  `details` are those of the columns; empty: nothing is declared.

    `layouts` are the earlier ones, oldest first.  `held` says where the state holds what DELTA yields, in that order,
    columns that were dropped since too, where that is not just the columns.  `outside` is where its rows are if not in
    the embedded store.
    """

    id: int
    name: str
    columns: tuple[Column, ...]
    key: tuple[int, ...]
    stored: Stored
    details: tuple[ColumnDetails, ...] = ()
    layouts: tuple[TableLayout, ...] = ()
    held: tuple[int, ...] = ()
    comment: str | None = None
    outside: OutsideStore | None = None

    @cached_property
    def layout(self) -> TableLayout:
        """The present one."""
        ids = tuple(each.id for each in self.details) or tuple(range(len(self.columns)))
        return TableLayout(self.columns, self.key, ids)

    @cached_property
    def yielded(self) -> tuple[int, ...]:
        """Where the state holds the columns that DELTA yields, in their order."""
        return self.held or (self.stored.order if self.key else (*self.stored.order, 0))

    @cached_property
    def given(self) -> tuple[int | None, ...]:
        """Which column of an operation is for each that DELTA yields; None where it was dropped."""
        places: dict[int, int] = {} if self.key else {0: len(self.columns)}
        places |= {place: i for i, place in enumerate(self.stored.order)}
        return tuple(places.get(place) for place in self.yielded)

    def seen_at(self, id_: int) -> Table:
        """The table without the columns that were added when the catalog had come to `id_`, or later."""
        count = sum(each.added <= id_ for each in self.details) if self.details else len(self.columns)
        if count == len(self.columns):
            return self
        stored = replace(self.stored, order=self.stored.order[:count])
        return replace(self, columns=self.columns[:count], details=self.details[:count], stored=stored)

    @cached_property
    def defaults(self) -> tuple[Default | None, ...]:
        """Of each column."""
        return tuple(each.default for each in self.details) or (None,) * len(self.columns)

    @cached_property
    def declared(self) -> tuple[Type | None, ...]:
        """Of each column its type as it is declared, where that says how long texts are."""
        lengths = [each.length for each in self.details] or [None] * len(self.columns)
        return tuple(column.declared if length is None else Type("VARCHAR", length)
                     for column, length in zip(self.columns, lengths, strict=True))  # fmt: skip


@stored
@dataclass(frozen=True)
class View:
    """A maintained view.  `key` holds positions in `columns`; `unique` is False where rows are a bag.

    `reads` are the ids of the tables, views and streams in its query.  `filled` is the version from which it can be
    read, None while it is being filled.  `stopped` says why it is kept up to date no more, where its program failed:
    what is stored is its last good version.  `asked` is the query as Spark gets it, None where it has no part in the
    view.  `replaces` is the id of the view whose place and name it takes once it is filled.  `written` is the catalog's
    next id when the query was written, None: the view's own; columns added to tables since are not in the query.
    `forgets`: the rows of a stream's expired parts go from it.  `target` is where its rows are written, too.
    """

    id: int
    name: str
    sql: str
    columns: tuple[Column, ...]
    key: tuple[int, ...]
    unique: bool
    reads: tuple[int, ...]
    stored: Stored
    filled: int | None = None
    stopped: str | None = None
    asked: str | None = None
    replaces: int | None = None
    written: int | None = None
    comment: str | None = None
    forgets: bool = False
    target: Target | None = None

    @property
    def saw(self) -> int:
        """Up to which id the catalog is what the query means (`Catalog.seen_at`)."""
        return self.id if self.written is None else self.written

    @property
    def declared(self) -> tuple[Type | None, ...]:
        """As of a table: what its columns are declared as."""
        return tuple(column.declared for column in self.columns)


@stored
@dataclass(frozen=True)
class Index:
    """Another way into a table or view (`on`: its id): all rows by `columns` (positions in the table or view).
    `replaces` is the id of the index whose place and name it takes, with its view."""

    id: int
    name: str
    on: int
    columns: tuple[int, ...]
    stored: Stored
    filled: int | None = None
    stopped: str | None = None
    replaces: int | None = None


@stored
@dataclass(frozen=True)
class Stream:
    """A stream, cut by time into parts of `length` seconds: part i holds the rows whose `time` column (a position in
    `columns`) lies in [i * length, (i + 1) * length), in Unix time.  (Paper 003, section 2.)

    All times are in seconds.  `lateness`: how long after a part's end it is sealed, in event time.  `horizon`: rows
    that lie further behind the watermark are rejected, None: none.  `idle`: after so long without a row the wall clock
    seals, None: never.  `ahead`: rows further after the wall clock are rejected.  `expire`: parts older than this,
    behind the watermark, may go; None: never.  `outside`: where its rows come from if nobody appends them here.
    """

    id: int
    name: str
    columns: tuple[Column, ...]
    time: int
    length: int
    lateness: int = 0
    horizon: int | None = None
    idle: int | None = None
    ahead: int = 86_400
    expire: int | None = None
    outside: OutsideStore | None = None


class PartPlan:
    """How a view over streams is kept: the root of all such plans.  What stands in plans/ tells them apart by class;
    `kind` is how people are told, in one word, and `title` in as many as it takes."""

    kind: ClassVar[str]
    title: ClassVar[str]
    hidden: ClassVar[bool] = False


class CatalogPlan:
    """How tables, views over them and indexes are kept, all in one: the root of `plans.maintenance.Plan`."""


class HelperPlan(PartPlan):
    """How a helper is kept, which other views read and people do not."""

    kind = title = "helper"
    hidden = True


@stored
@dataclass(frozen=True)
class PartView:
    """A view over streams, kept part by part.  (Paper 003, section 4.1.)

    `plan` says how.  `reads` are the ids of the streams and
    part views it reads, `dimensions` those of base tables and core views.  `helpers` are the objects that its program
    writes beside it.  `first` is its initial subscript where that was fixed when it was declared; `fills`: it is filled
    from the oldest kept part on.
    """

    id: int
    name: str
    sql: str
    columns: tuple[Column, ...]
    length: int
    reads: tuple[int, ...]
    dimensions: tuple[int, ...]
    plan: PartPlan = field(hash=False, compare=False)
    helpers: tuple[HelperParts, ...] = ()
    first: int | None = None
    fills: bool = False
    expire: int | None = None

    @property
    def kind(self) -> str:
        """What its plan is called."""
        return self.plan.kind

    @property
    def hidden(self) -> bool:
        """Whether it is a helper of other views, and has no name that people gave."""
        return self.plan.hidden


@stored
@dataclass(frozen=True)
class HelperParts:
    """Parts that the program of a view keeps for itself."""

    id: int
    name: str
    columns: tuple[Column, ...]


ERRORS = StateSpec(
    1, "weighted", (Column("view", BIGINT, False), Column("code", STRING, False), Column("place", STRING, False),
                    Column("row", STRING, False)), 1)  # fmt: skip
"""Error rows of every view: a view with a row here raises when it is read."""

REJECTED = StateSpec(
    2, "weighted", (Column("table", BIGINT, False), Column("node", INT, False), Column("sequence", BIGINT, False),
                    Column("stamp", BIGINT, False), Column("reason", STRING, False),
                    Column("operation", BINARY, False)), 3)  # fmt: skip
"""Operations that came in by a log and cannot be applied."""

PARTS = StateSpec(
    3, "keyed", (Column("object", BIGINT, False), Column("part", BIGINT, False), Column("last", BIGINT, False),
                 Column("rows", BIGINT, False), Column("updated", BIGINT, False), Column("stamp", BIGINT, False),
                 Column("pieces", STRING, False), Column("dimensions", STRING, False)), 2)  # fmt: skip
"""The part catalog (paper 003, section 4.1): a row for each part that has rows or was ever changed after it was made,
and one for each run of empty parts (`part` to `last`).  See streams/part_index.py."""

FIRST_FREE_ID = 16


@stored(shared=True)
@dataclass(frozen=True)
class PythonFunction:
    """A function of Python's: `code` is what pickle makes it of again, which takes and gives Arrow arrays (`arrow`) or
    pandas Series.  `version` counts the codes that have had the name; `fingerprint` is equal for equal code, wherever
    its lines stand."""

    name: str
    returns: Type
    arrow: bool
    deterministic: bool
    version: int
    fingerprint: str
    code: bytes


InParts = Stream | PartView
"""What is cut into parts by time."""

CatalogObject = Table | View | Index | Stream | PartView


class Scannable(Protocol):
    """Whatever has columns can be scanned."""

    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def columns(self) -> tuple[Column, ...]: ...


_KINDS = {Table: "table", View: "view", Index: "index", Stream: "stream", PartView: "view"}


def kind_of(item: CatalogObject) -> str:
    """What people call such an object."""
    return "helper of a view" if isinstance(item, PartView) and item.hidden else _KINDS[type(item)]


@stored
@dataclass(frozen=True)
class Catalog:
    """All declarations at one version: `objects` in the order in which they were made, but each view behind what it
    reads; of names, whatever the case of their letters, and ids each has its own.  `plan` is what
    `plans.maintenance.plan_of` gives, None before there is a table.  `targets` are all that may hold rows of views: of
    those that are here, and of dropped ones until their rows are gone from there."""

    objects: tuple[CatalogObject, ...] = ()
    next_id: int = FIRST_FREE_ID
    zone: str = "UTC"
    functions: tuple[PythonFunction, ...] = ()
    plan: CatalogPlan | None = field(default=None, hash=False, compare=False)
    targets: tuple[Target, ...] = ()

    def seen_at(self, id_: int) -> Catalog:
        """The catalog in which tables lack the columns that were added when it had come to `id_`, or later: what a
        query of then means, whatever `*` stands in it."""
        then = [(table, table.seen_at(id_)) for table in self.tables]
        changed = [seen for table, seen in then if seen is not table]
        return self.changing(changed) if changed else self

    def find(self, name: object) -> CatalogObject | None:
        """What is called `name`, in any case of letters; nothing is called by what is no text."""
        return self._by_name.get(name.lower()) if isinstance(name, str) else None

    def function(self, name: str) -> PythonFunction | None:
        """The function of Python's that is called `name`, in any case of letters."""
        return next((each for each in self.functions if each.name.lower() == name.lower()), None)

    def by_id(self, id_: int) -> CatalogObject | None:
        """What has this id."""
        return self._by_id.get(id_)

    def source(self, id_: int) -> InParts:
        """The stream or view over streams with this id, which another reads; so it is there."""
        found = self._by_id[id_]
        assert isinstance(found, InParts), f"{found.name} has no parts"
        return found

    def scannable(self, name: str) -> Table | View | None:
        """The table or view called `name`: what a query can name that says nothing of parts."""
        found = self.find(name)
        return found if isinstance(found, (Table, View)) else None

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The base tables."""
        return tuple(each for each in self.objects if isinstance(each, Table))

    @cached_property
    def outside(self) -> tuple[Table, ...]:
        """The base tables that are in outside stores."""
        return tuple(table for table in self.tables if table.outside is not None)

    @cached_property
    def views(self) -> tuple[View, ...]:
        """The views over tables, each behind those it reads."""
        return tuple(each for each in self.objects if isinstance(each, View))

    @cached_property
    def indexes(self) -> tuple[Index, ...]:
        """The indexes."""
        return tuple(each for each in self.objects if isinstance(each, Index))

    @cached_property
    def streams(self) -> tuple[Stream, ...]:
        """The streams."""
        return tuple(each for each in self.objects if isinstance(each, Stream))

    @cached_property
    def part_views(self) -> tuple[PartView, ...]:
        """The views over streams, each behind those it reads."""
        return tuple(each for each in self.objects if isinstance(each, PartView))

    @cached_property
    def whole(self) -> tuple[Table | View | Index, ...]:
        """What is not cut into parts: tables, views, indexes, in that order."""
        return (*self.tables, *self.views, *self.indexes)

    @cached_property
    def in_parts(self) -> tuple[InParts, ...]:
        """What is cut into parts: streams, then the views over them."""
        return (*self.streams, *self.part_views)

    def readable_names(self) -> list[str]:
        """The names that can stand in FROM: what people named."""
        shown = (view for view in self.part_views if not view.hidden)
        readable: list[Scannable] = [*self.streams, *shown, *self.tables, *self.views]
        return [item.name for item in readable]

    def adding(self, *new: CatalogObject) -> Catalog:
        """The catalog with `new` behind the rest."""
        return replace(self, objects=(*self.objects, *new))

    def changing(self, changed: Iterable[CatalogObject]) -> Catalog:
        """The catalog in which `changed` stand where what has their ids stood."""
        by_id = {each.id: each for each in changed}
        return replace(self, objects=tuple(by_id.get(each.id, each) for each in self.objects))

    def without(self, ids: Collection[int]) -> Catalog:
        """The catalog without what has these ids."""
        return replace(self, objects=tuple(each for each in self.objects if each.id not in ids))

    @cached_property
    def _by_name(self) -> dict[str, CatalogObject]:
        # Of two, which only a hidden helper's made-up name could bring about, the first counts: what was there before.
        return {each.name.lower(): each for each in reversed(self.objects)}

    @cached_property
    def _by_id(self) -> dict[int, CatalogObject]:
        return {each.id: each for each in self.objects}
