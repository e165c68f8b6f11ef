"""What a database consists of: tables, views, indexes, and the states that hold them.

All are plain, frozen values.  A catalog is part of a manifest; a change makes a new one.  Ids are never used again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from viewkeeper.catalog.codec import stored
from viewkeeper.catalog.types import BIGINT, BINARY, INT, STRING, Type


@stored(shared=True)
@dataclass(frozen=True)
class Column:
    """A named, typed column; `nullable` is False only where NULL is impossible."""

    name: str
    type: Type
    nullable: bool = True


@stored(shared=True)
@dataclass(frozen=True)
class StateSpec:
    """The shape of one trace.

    `kind` is "keyed" (the newest row of a key wins), "weighted" (a multiset: weights add up) or "ordered" (weighted,
    and sorted within a key by the last column, for MIN and MAX).  The first `key` columns are the key.  With `member`
    the first column (INT, part of the key) says to which view of a family a row belongs.
    """

    id: int
    kind: str
    columns: tuple[Column, ...]
    key: int
    member: bool = False


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
class Table:
    """A base table.  `key` holds column positions; empty: a hidden row id (BIGINT) is the key, the first column of the
    state, shown to nobody.  The state is its DELTA."""

    id: int
    name: str
    columns: tuple[Column, ...]
    key: tuple[int, ...]
    stored: Stored


@stored
@dataclass(frozen=True)
class View:
    """A maintained view.  `key` holds positions in `columns`; `unique` is False where rows are a bag.

    `reads` are the ids of the tables and views in its query.  `filled` is the version from which it can be read, None
    while it is being filled.  `stopped` says why it is kept up to date no more, where its program failed: what is
    stored is its last good version.
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


@stored
@dataclass(frozen=True)
class Index:
    """Another way into a table or view (`on`: its id): all rows by `columns` (positions in the table or view)."""

    id: int
    name: str
    on: int
    columns: tuple[int, ...]
    stored: Stored
    filled: int | None = None
    stopped: str | None = None


@stored
@dataclass(frozen=True)
class Stream:
    """A stream, cut by time into parts of `length` seconds: part i holds the rows whose `time` column (a position in
    `columns`) lies in [i * length, (i + 1) * length), in Unix time.  (Paper 003, section 2.)

    All times are in seconds.  `lateness`: how long after a part's end it is sealed, in event time.  `horizon`: rows
    that lie further behind the watermark are rejected, None: none.  `idle`: after so long without a row the wall clock
    seals, None: never.  `ahead`: rows further after the wall clock are rejected.  `expire`: parts older than this,
    behind the watermark, may go; None: never.
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


@stored
@dataclass(frozen=True)
class PartView:
    """A view over streams, kept part by part.  (Paper 003, section 4.1.)

    `kind` is "viewdf" (INITIALIZE and UPDATE, run by Spark SQL), "plain", "pattern", "window", "match" or "helper" (a
    hidden one that others read).  `plan` is the kind's own (plans/).  `reads` are the ids of the streams and
    part views it reads, `dimensions` those of base tables and core views.  `helpers` are the objects that its program
    writes beside it.  `first` is its initial subscript where that was fixed when it was declared; `fills`: it is filled
    from the oldest kept part on.
    """

    id: int
    name: str
    sql: str
    kind: str
    columns: tuple[Column, ...]
    length: int
    reads: tuple[int, ...]
    dimensions: tuple[int, ...]
    plan: Any = field(hash=False, compare=False)
    helpers: tuple[HelperParts, ...] = ()
    first: int | None = None
    fills: bool = False
    expire: int | None = None


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
"""Error rows of every view (02, "Errors are data"): a view with a row here raises when it is read."""

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
and one for each run of empty parts (`part` to `last`).  See streams/parts.py."""

FIRST_FREE_ID = 16


@stored
@dataclass(frozen=True)
class Catalog:
    """All declarations at one version.  `plan` is the maintenance plan (`plans.maintenance`)."""

    tables: tuple[Table, ...] = ()
    views: tuple[View, ...] = ()
    indexes: tuple[Index, ...] = ()
    next_id: int = FIRST_FREE_ID
    zone: str = "UTC"
    plan: Any = field(default=None, hash=False, compare=False)
    streams: tuple[Stream, ...] = ()
    part_views: tuple[PartView, ...] = ()

    def find(self, name: str) -> Table | View | Index | None:
        """The table, view or index called `name`, in any case of letters."""
        return self._by_name.get(_folded(name))

    def by_id(self, id_: int) -> Table | View | Index | None:
        """The table, view or index with this id."""
        return self._by_id.get(id_)

    def find_parts(self, name: str) -> Stream | PartView | None:
        """The stream or part view called `name`, in any case of letters."""
        return self._parts_by_name.get(_folded(name))

    def parts_by_id(self, id_: int) -> Stream | PartView | None:
        """The stream or part view with this id."""
        return self._parts_by_id.get(id_)

    def everything(self) -> Iterator[Table | View | Index]:
        """Tables, views, indexes, in that order."""
        yield from self.tables
        yield from self.views
        yield from self.indexes

    def parts(self) -> Iterator[Stream | PartView]:
        """Streams, then the views over them, each behind those it reads."""
        yield from self.streams
        yield from self.part_views

    def readable_names(self) -> list[str]:
        """The names that can stand in FROM: what people named."""
        hidden = {view.name for view in self.part_views if view.kind == "helper"}
        named = [item.name for item in (*self.parts(), *self.everything()) if not isinstance(item, Index)]
        return [name for name in dict.fromkeys(named) if name not in hidden]

    @cached_property
    def _by_name(self) -> dict[str, Table | View | Index]:
        return {item.name.lower(): item for item in self.everything()}

    @cached_property
    def _by_id(self) -> dict[int, Table | View | Index]:
        return {item.id: item for item in self.everything()}

    @cached_property
    def _parts_by_name(self) -> dict[str, Stream | PartView]:
        return {item.name.lower(): item for item in self.parts()}

    @cached_property
    def _parts_by_id(self) -> dict[int, Stream | PartView]:
        return {item.id: item for item in self.parts()}


def _folded(name: object) -> str:
    """Nothing is called by what is no text, which users may hand in."""
    return name.lower() if isinstance(name, str) else ""
