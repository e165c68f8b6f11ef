"""What an outside store must give for a table of it to be a base table: ends of its logs, ranges of them read again and
again, and, where it has them, the rows themselves.

Other programs write such a table with their own clients; its own log drives the views.  The order of operations is
promised per key.  Everything here may be called from any thread and in any process: a table is opened from its
declaration alone.
"""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import REJECTED, Column, Table
from viewkeeper.catalog.outside_store import OutsideStore
from viewkeeper.catalog.types import physical_type
from viewkeeper.changes.operations import Operations, TableForm
from viewkeeper.changes.positions import Token, logs_of
from viewkeeper.changes.verify import LogBatch
from viewkeeper.errors import Error, InputError, LogLost
from viewkeeper.stores.intake import TableIntake
from viewkeeper.stores.outside.said import said_of
from viewkeeper.trace.rows import Rows


@dataclass(frozen=True)
class OutsideTraits:
    """How outside stores differ; shown by DESCRIBE.

    `order`: of what the log promises the order.  `rows`: the store holds the rows themselves, which an adoption scans
    and `get` looks up; else there is only the log.  `writable`: `put` and `delete` through viewkeeper are done there.
    `partial`: a put may name some of the columns only.  `keyless`: tables without a PRIMARY KEY can be kept.
    """

    order: str
    rows: bool
    writable: bool
    partial: bool
    keyless: bool

    def __str__(self) -> str:
        said = [f"order per {self.order}", "its rows and their log" if self.rows else "a log, and no rows to look up",
                "written by put and delete, too" if self.writable else "written there alone"]  # fmt: skip
        return ", ".join([*said, *([] if self.partial or not self.writable else ["whole rows at a time"])])


class PartRange(NamedTuple):
    """What lies behind `after` and not behind `upto` in the log `part` of a table; `identity` tells the log from
    another one that has come in its place."""

    table: int
    part: str
    after: int
    upto: int
    identity: str


class NoOperation(NamedTuple):
    """An entry of a log that is no operation on the table: where it is, when it was written (microseconds since 1970),
    why, and its bytes."""

    sequence: int
    stamp: int
    reason: str
    data: bytes


@dataclass
class ReadPart:
    """What a range of a log holds: operations with their sequences and stamps (int64), and what is none.  Stamps do not
    fall along a part: by them operations on a key that lives in several parts are ordered.  Where the store keeps a
    timestamp with each cell they are these, in any order."""

    operations: list[tuple[Operations, np.ndarray, np.ndarray]] = field(default_factory=list)
    bad: list[NoOperation] = field(default_factory=list)

    def as_batch(self, form: TableForm, node: int) -> LogBatch:
        """The same as zone 1 takes it; `node` is what `rejected` says of the part."""
        rows = [(form.table.id, form.as_rows(each, node, sequences, stamps))
                for each, sequences, stamps in self.operations if len(each)]  # fmt: skip
        bad = self.bad
        values: list[Sequence[Any]] = [
            [form.table.id] * len(bad), [node] * len(bad), [each.sequence for each in bad],
            [each.stamp for each in bad], [each.reason for each in bad], [each.data for each in bad],
        ]  # fmt: skip
        columns = [pa.array(each, physical_type(column.type))
                   for each, column in zip(values, REJECTED.columns, strict=True)]  # fmt: skip
        return LogBatch(rows, Rows(columns, np.ones(len(bad), np.int64)), {})


class NoRow(NamedTuple):
    """What stands in a store where the rows of a table are, and is none: why, for people, and the values (physical) of
    its key, None where it has none."""

    message: str
    key: tuple[Any, ...] | None


class Scanned(NamedTuple):
    """Some rows of a store, as operations with their stamps (int64, as in ReadPart), and what is none."""

    operations: list[tuple[Operations, np.ndarray]]
    bad: list[NoRow] = []  # noqa: RUF012 - nobody adds to it

    def all_rows(self) -> list[tuple[Operations, np.ndarray]]:
        """The operations, where all are rows; else raises Error."""
        if self.bad:
            raise Error(self.bad[0].message)
        return self.operations


@dataclass(frozen=True)
class LogEnds:
    """The ends of a table's logs, and the identity of each (32 hexadecimal digits), by part."""

    positions: dict[str, int]
    identities: dict[str, str]


class OutsideTable(ABC):
    """One table in an outside store.

    Methods that talk to the store raise StoreAway where it does not answer, which is waited for, and Error where
    something is wrong with the table that somebody has to see to: LogLost, say, where the log was cut off before it had
    been read.
    """

    traits: ClassVar[OutsideTraits]
    poll_seconds: float = 0.02
    """Between two looks at the ends of its logs."""

    def __init__(self, table: Table, zone: str) -> None:
        assert table.outside is not None
        self.table, self.zone = table, zone
        self.form = TableForm(table, zone)
        self.intake = TableIntake(self.form, zone)

    @classmethod
    @abstractmethod
    def check(cls, options: Mapping[str, str], keyless: bool) -> None:
        """Raises InputError, naming the option, where a table cannot be declared with `options`."""

    @classmethod
    def columns(cls, options: Mapping[str, str]) -> list[Column]:
        """The columns of the store's own schema, which a declaration may leave out; `options` have passed `check`.

        Raises NotSupported where one is of a type that no column can have, InputError where the store has no schema.
        """
        raise InputError("this store has no schema of its own; name the columns of the table, and their types")

    @property
    def has_rows(self) -> bool:
        """Whether the store holds the rows themselves (`OutsideTraits.rows`), and an adoption takes them."""
        return self.traits.rows

    @abstractmethod
    def require_there(self) -> None:
        """Raises where the table cannot be adopted: because it is not there, is another one than is declared, or has
        lost the beginning of its log."""

    @abstractmethod
    def start(self) -> LogEnds:
        """Where the log is read from when the table is adopted, taken before its rows are."""

    @abstractmethod
    def ends(self) -> LogEnds:
        """The ends of the logs now."""

    @abstractmethod
    def read(self, range_: PartRange) -> ReadPart:
        """All of a range, the same whenever it is read; a missing beginning raises LogLost."""

    def estimate(self, after: int, upto: int) -> int:
        """About how many operations lie between two positions of one log."""
        return max(0, upto - after)

    def state_of(self, part: str) -> str:
        """What is to be said of the log `part` of which the end was seen last: "ok", and how full it is where it can
        be."""
        return "ok"

    def partway(self, part: str, after: int, end: int, operations: int) -> int:
        """A position behind `after`, and before `end`, with about so many `operations` before it: of more there are."""
        return after + max(1, (end - after) * operations // self.estimate(after, end))

    def is_finished(self, part: str, position: int) -> bool:
        """Whether nothing is missed of a part that has been read up to `position`, and is not there any more."""
        return True

    def rows(self, since: Mapping[str, int]) -> Iterator[Operations]:
        """All rows that the store holds, as puts, while others write: each at least once as it was at some moment, none
        of them before `since`, positions by part behind which the log is read after it."""
        raise InputError(f"{self.table.name}: this store holds a log, and no rows")

    def scan(self, since: Mapping[str, int]) -> Iterator[Scanned]:
        """The same a block after another, as operations with their timestamps, which a store that keeps such with cells
        says (`catalog.outside_store.TIMESTAMPED`), and with what is no row."""
        for operations in self.rows(since):
            yield Scanned([(operations, np.full(len(operations), time.time_ns() // 1000))])

    def get(self, key: Any) -> dict[str, Any] | None:
        """The row of `key` in the store, None where there is none."""
        raise InputError(f"{self.table.name}: this store has no look-up by key; read it with SELECT, or through a view")

    def write(self, operations: Operations) -> Mapping[str, int]:
        """Does `operations`, in order, and returns when they are acknowledged: positions that cover them, by part."""
        raise NotImplementedError

    def falls_back(self, part: str, end: int, at: int) -> Error:
        """What is wrong where the log `part` ends at `end`, and had been read up to `at`: it is lost for good, unless
        the store knows better."""
        return LogLost(said_of(self.table.id, self.table.name, is_shorter(part, end, at, "table")))

    @abstractmethod
    def forget(self, positions: Mapping[str, int]) -> None:
        """What lies before `positions` will not be read again."""

    @abstractmethod
    def close(self) -> None:
        """Give up what this process holds of the store."""

    def put_many(self, rows: Any) -> Token:
        """`put` of many rows (`stores.contract.Store.put_many`): in order, but not in one step."""
        self._require_writable()
        token = Token()
        for each in rows if isinstance(rows, pa.RecordBatchReader) else [rows]:
            operations = self.intake.rows(each)
            if operations.named is not None and not self.traits.partial:
                self._require_whole(operations)
            token |= self._written(operations)
        return token

    def delete(self, key: Any, columns: Sequence[str] | None = None) -> Token:
        """`delete` of the row of `key`, or of its `columns`."""
        self._require_writable()
        if columns is None:
            return self.delete_many([key])
        operations = self.intake.column_deletes(key, columns)
        if not self.traits.partial:
            raise InputError(
                f"{self.table.name}: what is written there are whole rows: put the row without these columns"
            )
        return self._written(operations)

    def delete_many(self, keys: Iterable[Any]) -> Token:
        """`delete` of the rows of many keys."""
        self._require_writable()
        if self.form.keyless:
            raise InputError(f"{self.table.name} has no primary key, and nothing is deleted from it")
        return self._written(self.intake.deletes(keys))

    def _require_whole(self, operations: Operations) -> None:
        assert operations.named is not None
        missing = np.flatnonzero((operations.named != self.form.everything).any(axis=1))
        if len(missing):
            bits = np.unpackbits(operations.named[missing[0]], bitorder="little")
            names = [column.name for i, column in enumerate(self.table.columns) if not bits[i]]
            raise InputError(f"{self.table.name}: what is written there are whole rows; row {missing[0]} lacks "
                             f"{', '.join(names)}")  # fmt: skip

    def _require_writable(self) -> None:
        if not self.traits.writable:
            raise InputError(f"{self.table.name}: rows of it are written in the store itself")

    def _written(self, operations: Operations) -> Token:
        if not len(operations):
            return Token()
        positions = self.write(operations)
        return Token(logs_of(self.table.id, positions))


def is_another(part: str, kind: str) -> str:
    """What is said of a log that is not the one that was read for a table or stream (`kind`)."""
    return (f"its log {part} is not the one that was read before, as if it had been deleted and made anew: drop the "
            f"{kind}, and create it again")  # fmt: skip


def is_shorter(part: str, end: int, at: int, kind: str) -> str:
    """What is said of a log that ends before the place up to which it was read for a table or stream (`kind`)."""
    return (f"its log {part} ends at {end}, and had been read up to {at}: the store has lost entries that it had "
            f"acknowledged; drop the {kind}, and create it again")  # fmt: skip


def identity_of(*parts: object) -> str:
    """The identity of a log, by what tells it from others: 32 hexadecimal digits."""
    return hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=16).hexdigest()


def declared(table: Table) -> tuple[object, ...]:
    """What an open table depends on, of its declaration."""
    assert isinstance(table.outside, OutsideStore)
    return (table.id, table.columns, table.key, table.details, table.outside.kind, table.outside.options)
