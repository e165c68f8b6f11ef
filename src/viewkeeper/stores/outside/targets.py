"""Where a view's rows are written to beside its state: what such a store must give, and the kinds there are.

Rows are written as a whole, by the view's key, and absolutely: what is written twice is the same.  A *marker* beside
them says which version is there, whole, and whose.  Whoever writes has *begun*: from then on nobody who began before
can write, however late what he sent arrives (docs/decisions/095-views-in-stores.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from viewkeeper.catalog.model import Column, View
from viewkeeper.catalog.outside_store import Target
from viewkeeper.errors import Error, NotSupported
from viewkeeper.jobs import ring
from viewkeeper.stores.outside.outside_kinds import loaded
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.trace import Trace

ROWS_AT_ONCE = 50_000
"""About so many rows of a view are looked at, at once."""

RESERVED = "viewkeeper:"
"""What names beside those of columns begin with."""

KINDS: Mapping[str, tuple[str, str]] = {
    "cassandra": ("viewkeeper.stores.outside.cassandra.view_target", "CassandraTarget"),
    "delta": ("viewkeeper.stores.outside.delta.lake_target", "DeltaTarget"),
    "hbase": ("viewkeeper.stores.outside.hbase.cell_target", "HBaseTarget"),
    "kafka": ("viewkeeper.stores.outside.kafka.target", "KafkaTarget"),
    "redis": ("viewkeeper.stores.outside.redis.target", "RedisTarget"),
}
"""Where each kind is: module and class.  A store's client is loaded when a view is written there."""


class Begun(Error):
    """Somebody else has begun to write, or the store has lost what was written: whoever wants to go on begins anew."""


class LaterEpoch(Error):
    """The target has been written by a driver of a later epoch than this one."""


class TargetTaken(Error):
    """The target holds what is not this view's."""


class Written(NamedTuple):
    """Which version of a database: its number, and its manifest's number and identity."""

    version: int = -1
    manifest: int = 0
    identity: str = ""

    def __str__(self) -> str:
        return f"{self.version} {self.manifest} {self.identity}"

    @staticmethod
    def parse(text: str) -> Written:
        """The inverse of `str`."""
        version, manifest, identity = text.split(" ")
        return Written(int(version), int(manifest), identity)


class Marker(NamedTuple):
    """What a target says of itself: the view with the id `view`, kept in the state `state`, of `database` is there,
    whole, as of `at` (version -1: none yet); written in `epoch`.  `writing` is what was begun to be written since."""

    database: str
    view: int
    state: int
    at: Written = Written()
    epoch: int = 0
    writing: Written | None = None


@dataclass(frozen=True)
class Deviation:
    """A row of a target that is not the view's: its key there, what it should be and what it is; None: not there."""

    key: str
    expected: dict[str, Any] | None
    found: dict[str, Any] | None

    def __str__(self) -> str:
        return f"{self.key}: expected {self.expected or 'nothing'}, found {self.found or 'nothing'}"


class ViewTarget(ABC):
    """The rows of one view in an outside store, for one thread.  All methods raise StoreAway where the store does not
    answer."""

    what: ClassVar[str]
    """What is written there, for people."""
    pause_seconds: float = 0.0
    """Between the end of a writing and the beginning of the next one, at least."""

    def __init__(self, target: Target) -> None:
        self.target = target

    @classmethod
    @abstractmethod
    def check(cls, options: Mapping[str, str]) -> None:
        """Raises InputError, naming the option, where no view can be written to a place with such options."""

    @classmethod
    @abstractmethod
    def collide(cls, one: Mapping[str, str], other: Mapping[str, str]) -> bool:
        """Whether the rows of two views would get into each other's way."""

    @classmethod  # noqa: B027 - most stores take all rows
    def fit(cls, options: Mapping[str, str], form: RowForm) -> None:
        """Raises InputError, naming the option, where such options cannot lay out rows of `form`."""

    @abstractmethod
    def marker(self) -> Marker | None:
        """What it says of itself; None where it is empty.  Raises TargetTaken where it holds something else."""

    @abstractmethod
    def begin(self, mine: Marker, *, force: bool = False) -> Marker | None:
        """Makes this the only one that can write, and says what the marker was before.

        Raises TargetTaken where it holds something else, and, unless `force`, LaterEpoch.
        """

    def require_place(self) -> None:  # noqa: B027 - most stores make what they need
        """Raises Error where what has to be there before a view can be declared is not."""

    def prepare(self, form: RowForm) -> None:  # noqa: B027 - most stores need not know
        """Says how the rows are laid out that are written next, also where there are none."""

    @abstractmethod
    def write(self, form: RowForm, at: Written, came: Rows, gone: Rows) -> None:
        """Writes the rows `came`, and removes the keys of `gone` that none of them has; raises Begun."""

    @abstractmethod
    def complete(self, marker: Marker) -> None:
        """Says that all of the version that the marker is `at` is there; raises Begun."""

    @abstractmethod
    def deviations(self, form: RowForm, rows: Iterable[Rows]) -> Iterator[tuple[list[Deviation], Mending]]:
        """How what is there deviates from `rows`, all of the view's, and what mends it, a block after another."""

    @abstractmethod
    def mend(self, at: Written, mending: Mending) -> None:
        """Writes what `deviations` gave; raises Begun."""

    @abstractmethod
    def clear(self) -> None:
        """Removes all rows, and then the marker; raises Begun."""

    @abstractmethod
    def get(self, form: RowForm, key: Rows) -> list[dict[str, Any]]:
        """The rows there with the key in the first row of `key`, which has the columns of the view's key."""

    @abstractmethod
    def close(self) -> None:
        """Gives up what this process holds of the store."""


Mending = list[Any]
"""What a kind of target writes in order to mend, and knows itself."""


class HasForm(Protocol):
    """A view, or what one will be of: its columns, which of them are its key, and whether that is unique."""

    @property
    def columns(self) -> tuple[Column, ...]: ...
    @property
    def key(self) -> tuple[int, ...]: ...
    @property
    def unique(self) -> bool: ...


class RowForm:
    """How the rows of a view are laid out, and the time zone of its database."""

    def __init__(self, view: HasForm, zone: str) -> None:
        self.columns, self.key, self.unique, self.zone = view.columns, view.key, view.unique, zone

    def keys(self, rows: Rows) -> Rows:
        """The key columns of rows."""
        return rows.select(self.key)


def shown(view: View, rows: Rows) -> Rows:
    """Of rows of the view's state those of the view, its columns in their order."""
    member = view.stored.member
    if member is not None:
        rows = rows.filter(rows.columns[0].to_numpy() == np.int32(member))
    return rows.select(view.stored.order)


def parts_of(rows: int) -> int:
    """In how many parts so many rows are looked at."""
    return min(max(1, -(-rows // ROWS_AT_ONCE)), ring.INTERVALS)


def blocks(trace: Trace) -> Iterator[Rows]:
    """All live rows of a state, so many at a time."""
    parts = parts_of(trace.rows)
    for i in range(parts):
        rows = trace.scan(None, *ring.interval(i, parts))
        if len(rows):
            yield rows


def target_kind(kind: str) -> type[ViewTarget]:
    """The class of targets in stores of `kind`.

    Raises NotSupported where there is no such kind, InputError where its client is not installed.
    """
    place = KINDS.get(kind.lower())
    if place is None:
        raise NotSupported(f"USING {kind}: views are written to {', '.join(KINDS)}; without USING a view is kept here")
    found = loaded(kind, place)
    assert issubclass(found, ViewTarget)
    return found


def opened(target: Target) -> ViewTarget:
    """The target, open; asks nobody.  Raises InputError where a secret or a client is missing."""
    return target_kind(target.kind)(target)
