"""What a store of base tables must do, whatever keeps its rows.

`tests/stores/test_store_contract.py` holds stores to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Table
from viewkeeper.changes.operations import Operations
from viewkeeper.changes.positions import Cut, Hashes, LogName, LogPlace, Positions, Token
from viewkeeper.changes.verify import LogBatch
from viewkeeper.errors import InputError

DURABILITIES = ("sync", "process")
"""How safe a write is that was acknowledged: from the machine's death too, or from the process's alone."""

NO_HASHES: Hashes = MappingProxyType({})


@dataclass(frozen=True)
class Traits:
    """How stores differ.

    `consistent_cuts`: a batch never splits a `put_many`, nor holds a write without those acknowledged before it
    (otherwise order is promised per key only).  `refuses_in_transaction`: partial puts that would leave a NOT NULL
    column unset are refused by `put` (otherwise rejected from the log).  `keyless_tables`: it can keep tables without a
    primary key.  `atomic_changes`: it has `change`.  `key_bytes_max`: the longest key, in the store's own encoding.
    """

    consistent_cuts: bool
    refuses_in_transaction: bool
    keyless_tables: bool
    atomic_changes: bool
    key_bytes_max: int


def require_durability(durability: str | None) -> None:
    """Raises InputError where there is no such durability; None is the one that is there, or the default."""
    if durability not in (None, *DURABILITIES):
        raise InputError(f"durability={durability!r}: expected one of {', '.join(DURABILITIES)}")


@dataclass(frozen=True)
class TableScan:
    """All rows of a table as of one moment, and the logs' ends at that moment (`positions`).

    `batches` are in logical types, one column a declared column, and last the hidden row id (BIGINT) where the table
    has no key; read them within the `with` block of `scan`.
    """

    positions: dict[LogName, int]
    batches: Iterator[pa.RecordBatch]


class Moment(ABC):
    """All tables as of one moment, and the logs' ends at that moment: `positions`, their running hashes, and `stamp`,
    the greatest that was given."""

    positions: dict[LogName, int]
    hashes: dict[LogName, str]
    stamp: int

    @abstractmethod
    def rows(self, table: Table) -> Iterator[tuple[int, list[pa.Array]]]:
        """All rows of a table, so many at a time: their node, and their physical columns in declared order, last the
        hidden row id where the table has no key."""

    @abstractmethod
    def holds(self, table: Table, keys: Sequence[pa.Array]) -> np.ndarray:
        """bool[n]: whether there is a row with each key, given as canonical physical columns (or the row ids)."""

    @abstractmethod
    def found(self, table: Table, keys: Sequence[pa.Array]) -> list[pa.Array]:
        """The rows with these keys, as far as they are there, as `rows` gives them; the table has a key."""


ComputeChange = Callable[[Moment], Sequence[Operations]]
"""What is to be done on a table, in order, given all tables as of one moment."""


class Numbered(NamedTuple):
    """A call's id from a source that numbers its calls in order: only the greatest number is remembered, and whatever
    is not above it counts as a duplicate."""

    source: str
    number: int


LogSlice = Any
"""A part of a range of the logs that is read at once: the store's own plain data, which travels pickled."""

Interval = tuple[int, int]
"""Hashes of keys: the least and the greatest, both inclusive."""

WHOLE_RING: Interval = (0, (1 << 64) - 1)


class LogReader(Protocol):
    """Reads the logs of one store, in any process: it travels pickled, in jobs, beside the slices to be read."""

    def cut(self, limit: int, after: Positions, hashes: Hashes = NO_HASHES) -> Cut:
        """The end of the batch behind `after`, of about `limit` operations (see `Traits.consistent_cuts`).

        Raises StoreReplaced where the logs have not the running hashes `hashes` at `after`.
        """

    def slices(self, cut: Cut) -> tuple[LogSlice, ...]:
        """What has to be read for all that is in `cut`, whenever and however often: none where it is empty."""

    def read(self, slice_: LogSlice, tables: Mapping[int, Table], interval: Interval = WHOLE_RING) -> LogBatch:
        """The operations of a slice on keys whose hashes lie in `interval`.

        A reader that has to decode all of them anyway gives them all.  What is rejected, or is of tables that are not
        in `tables`, is told to whoever asks for the hash 0; others may be told of it too.  Raises StoreReplaced where
        the logs have not the running hashes of the cut, Damaged where they do not go back as far.
        """

    def forget(self, positions: Positions, older_than_seconds: float) -> int:
        """Remove log entries at or before `positions` that are older than that; how many.

        The last entry of each log stays: the next sequence and stamp follow from it.  The running hashes at `positions`
        stay known.
        """


class Store(ABC):
    """Rows of base tables on nodes, and a log of operations a node.

    Rows: a row exists from the first put of its key until a delete of the row; columns never set are NULL; put of None
    and delete of a column make them NULL; a put after a delete starts from an empty row.  Row and log entry are one
    atomic step.  Sequences grow per node by one an operation, from 1.  All methods may be called from any thread, and
    from several processes on the same store.
    """

    traits: Traits
    nodes: int
    log: LogReader

    @abstractmethod
    def put(self, table: Table, row: Mapping[str, Any]) -> Token:
        """Set the named columns of one row.  Raises InputError, naming column and reason, and then changes nothing."""

    @abstractmethod
    def put_many(self, table: Table, rows: Any) -> Token:
        """`put` of many rows in order: dicts, an Arrow table, batch or reader, or a pandas DataFrame.

        One atomic step (a reader: one per record batch).  One bad row refuses all, naming row, key, column.
        """

    @abstractmethod
    def delete(self, table: Table, key: Any, columns: Sequence[str] | None = None) -> Token | bool:
        """Delete the row of `key` (a tuple where several columns are the key), or make its `columns` NULL.

        In a table without a key, `key` is a whole row as a dict, and one equal row goes; False if there is none.
        """

    @abstractmethod
    def delete_many(self, table: Table, keys: Iterable[Any]) -> Token:
        """`delete` of the rows of many keys, one atomic step."""

    def change(self, table: Table, compute: ComputeChange) -> Token:
        """Does what `compute` gives, in one atomic step: what it was told of the moment still holds at that step.

        It may be called several times, and holds others up where they write all the time what it reads: it has no
        effects and waits for nobody.  What it raises is raised, and nothing is changed.
        """
        raise InputError(f"{table.name}: this store has no atomic steps over what is read and written, as statements "
                         "that change rows need; write rows with put and delete")  # fmt: skip

    def do_step(self, table: Table, operations: Sequence[Operations], step: Numbered) -> Token | None:
        """Does `operations`, in order, in one atomic step, unless that step of its source, or a later one, has been
        done on the table: None then."""
        raise InputError(f"{table.name}: this store does not remember what was done, as following a stream needs")

    @abstractmethod
    def apply(self, table: Table, operation: bytes) -> Token:
        """Do a rejected operation again, given the bytes that `rejected` keeps of it.

        Raises InputError where it can still not be done.
        """

    @abstractmethod
    def get(self, table: Table, key: Any) -> dict[str, Any] | None:
        """The row of `key` as written, at once; None if there is none."""

    @abstractmethod
    def scan(self, table: Table) -> AbstractContextManager[TableScan]:
        """All rows, and the positions that they agree with."""

    @abstractmethod
    def rows(self, table: Table) -> Iterator[pa.RecordBatch]:
        """All rows as of one moment, in logical types."""

    @abstractmethod
    def at_one_moment(self) -> AbstractContextManager[Moment]:
        """All tables as of one moment, to be read within the `with` block."""

    @abstractmethod
    def ends(self) -> dict[LogName, int]:
        """The last sequence of each node's log; takes no lock."""

    @abstractmethod
    def stamp_after(self, node: int, position: int) -> int | None:
        """The stamp of the first operation behind `position` on `node`, None where there is none; takes no lock."""

    @abstractmethod
    def compare(self, node: int, *places: tuple[int, str]) -> list[LogPlace]:
        """For each position and running hash: whether the log of `node` up to there is the one that has that hash."""

    @abstractmethod
    def replaced(self, positions: Positions, hashes: Hashes) -> dict[int, str]:
        """The nodes whose logs are not those that have `hashes` at `positions`, and how that shows."""

    @abstractmethod
    def require_same(self, positions: Positions, hashes: Hashes) -> None:
        """Raises StoreReplaced where any node is `replaced`; costs microseconds."""

    @abstractmethod
    def stored_tables(self) -> set[int]:
        """The ids of the tables that have rows, dropped ones too; costs microseconds a table."""

    @abstractmethod
    def forget(self, tables: Collection[int], seconds: float) -> bool:
        """Remove the rows of tables, given by id, in small steps, for about so long; whether any may be left."""

    @abstractmethod
    def close(self) -> None:
        """Give up what this process holds of the store."""
