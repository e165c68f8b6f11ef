"""HBase's Thrift 1 gateway, asked for one table."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import happybase
from Hbase_thrift import (  # as happybase has loaded it
    AlreadyExists,
    BatchMutation,
    ColumnDescriptor,
    IllegalArgument,
    IOError,
    Mutation,
    TScan,
)
from thriftpy2.thrift import TException

from viewkeeper.errors import Error, StoreAway

TIMEOUT_SECONDS = 30.0
"""So long the gateway may take to answer: it waits for regions that are being moved itself."""

WRITTEN_AT_ONCE, BYTES_AT_ONCE = 1_000, 4_000_000
"""At most so many rows, and about so many bytes, go by one call."""

SCANNED_AT_ONCE = 10_000
"""Rows of one scanner: none is kept open longer than it takes to read these."""

FETCHED_AT_ONCE = 1_000
_NO_TABLE, _NO_FAMILY = "TableNotFoundException", "NoSuchColumnFamilyException"
_WRONG = ("AccessDeniedException", "NamespaceNotFoundException",
          "TableExistsException", "IllegalArgumentException")  # fmt: skip
"""Of HBase's errors those that waiting does not mend."""

_ROWS = "its rows cannot be read"

_Answer = TypeVar("_Answer")

CellChanges = Mapping[bytes, Mapping[bytes, bytes | None]]
"""RowCells by row and column; None is a deletion."""

FoundRow = tuple[bytes, Mapping[bytes, Any]]
"""A row's key, and its cells (`value`, `timestamp`) by their columns' names."""


class NoTable(Error):
    """There is no such table."""


class NoFamily(Error):
    """The table has no such family."""


class Gateway:
    """Asks the gateway at `address` (HOST:PORT) for the table called `table`; `said` is how errors are worded.

    All methods raise StoreAway where nobody answers, Error where something is wrong.  For any thread.
    """

    def __init__(self, address: str, table: bytes, transport: str, protocol: str, said: Callable[[str], str]) -> None:
        host, _, port = address.rpartition(":")
        self._address, self._table, self._said = address, table, said
        self._arguments = {"host": host, "port": int(port), "transport": transport, "protocol": protocol}
        self._lock = threading.Lock()
        self._connection: happybase.Connection | None = None

    def rows(self, columns: Sequence[bytes]) -> Iterator[list[FoundRow]]:
        """All rows that have a cell in `columns`, so many at a time, in the order of their keys."""
        start = b""
        while True:
            block = self.first_rows(SCANNED_AT_ONCE, columns, start)
            if block:
                yield block
                start = block[-1][0] + b"\0"
            if len(block) < SCANNED_AT_ONCE:
                return

    def first_rows(self, most: int, columns: Sequence[bytes], start: bytes = b"") -> list[FoundRow]:
        """The first rows from the key `start` on that have a cell in `columns`; without columns all rows."""
        return self._asked(_ROWS, partial(self._block, start=start, columns=list(columns), most=most))

    def row(self, key: bytes, columns: Sequence[bytes]) -> FoundRow | None:
        """The row of `key`; None where it has no cell in `columns`."""
        found = self._asked(_ROWS, lambda client: client.getRowWithColumns(self._table, key, list(columns), {}))
        return (found[0].row, found[0].columns) if found and found[0].columns else None

    def rows_of(self, keys: Sequence[bytes], columns: Sequence[bytes]) -> list[FoundRow]:
        """The rows of `keys` that have a cell in `columns`; without columns in any."""
        found = []
        for at in range(0, len(keys), FETCHED_AT_ONCE):
            part = list(keys[at : at + FETCHED_AT_ONCE])
            rows = self._asked(_ROWS, partial(self._rows_of, keys=part, columns=list(columns)))
            found += [(row.row, row.columns) for row in rows]
        return found

    def write(self, changes: CellChanges, stamp: int | None = None) -> None:
        """Sets cells, by row and column; what is None is deleted, a family's name stands for all its columns.  What is
        set of a row is one step.  `stamp` is the cells' timestamp, and that up to which is deleted, if it is not the
        server's time."""
        rows, size = list[BatchMutation](), 0
        for row, cells in changes.items():
            rows.append(BatchMutation(row, [_mutation(column, value) for column, value in cells.items()]))
            size += len(row) + sum(len(value or b"") for value in cells.values())
            if len(rows) == WRITTEN_AT_ONCE or size > BYTES_AT_ONCE:
                self._write(rows, stamp)
                rows, size = [], 0
        if rows:
            self._write(rows, stamp)

    def replace(self, row: bytes, column: bytes, old: bytes | None, new: bytes) -> bool:
        """Sets a cell if it is `old`, None: not there; whether it is `new` now."""
        done = self._asked("it cannot be written", lambda client: client.checkAndPut(
            self._table, row, column, old, _mutation(column, new), {}))  # fmt: skip
        if done:
            return True
        found = self.row(row, [column])  # a first try whose answer the gateway has lost may have done it
        return found is not None and found[1][column].value == new

    def families(self) -> list[bytes]:
        """The names of the table's families."""
        found = self._asked(_ROWS, lambda client: client.getColumnDescriptors(self._table))
        return [name.rstrip(b":") for name in found]

    def make(self, families: Sequence[bytes]) -> None:
        """Makes the table, of which one version of a cell is kept; harmless where there is one."""
        described = [
            ColumnDescriptor(name=name + b":", maxVersions=1, bloomFilterType="ROW", blockCacheEnabled=True)
            for name in families
        ]
        self._asked("it cannot be made", partial(self._make, families=described))

    def close(self) -> None:
        """Hangs up."""
        with self._lock:
            self._hang_up()

    def _write(self, rows: list[BatchMutation], stamp: int | None) -> None:
        self._asked("rows cannot be written", partial(self._mutate, rows=rows, stamp=stamp))

    def _mutate(self, client: Any, rows: list[BatchMutation], stamp: int | None) -> None:
        if stamp is None:
            client.mutateRows(self._table, rows, {})
        else:
            client.mutateRowsTs(self._table, rows, stamp, {})

    def _make(self, client: Any, families: list[ColumnDescriptor]) -> None:
        with suppress(AlreadyExists):
            client.createTable(self._table, families)

    def _rows_of(self, client: Any, keys: list[bytes], columns: list[bytes]) -> Any:
        if columns:
            return client.getRowsWithColumns(self._table, keys, columns, {})
        return client.getRows(self._table, keys, {})

    def _block(self, client: Any, start: bytes, columns: list[bytes], most: int) -> list[FoundRow]:
        at_once = min(FETCHED_AT_ONCE, most)
        scan = TScan(startRow=start, columns=columns, caching=at_once, sortColumns=False)
        scanner = client.scannerOpenWithScan(self._table, scan, {})
        try:
            found: list[FoundRow] = []
            while len(found) < most:
                rows = client.scannerGetList(scanner, min(at_once, most - len(found)))
                if not rows:
                    break
                found += [(row.row, row.columns) for row in rows]
            return found
        finally:
            client.scannerClose(scanner)

    def _asked(self, what: str, ask: Callable[[Any], _Answer]) -> _Answer:
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = happybase.Connection(timeout=int(1000 * TIMEOUT_SECONDS), **self._arguments)
                return ask(self._connection.client)
            except (IOError, IllegalArgument) as error:
                raise self._told(what, _text(error.message)) from error
            except (TException, OSError, EOFError) as error:
                self._hang_up()
                why = _text(getattr(error, "message", None)) or str(error) or type(error).__name__
                raise StoreAway(self._said(f"{what}: {why} ({self._address})")) from error

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _told(self, what: str, why: str) -> Error:
        """The error for what HBase says; its first line."""
        message = self._said(f"{what}: {(why.splitlines() or ['no reason'])[0]} ({self._address})")
        if _NO_TABLE in why:
            return NoTable(message)
        if _NO_FAMILY in why:
            return NoFamily(message)
        return Error(message) if any(each in why for each in _WRONG) else StoreAway(message)


def _mutation(column: bytes, value: bytes | None) -> Mutation:
    return Mutation(isDelete=value is None, column=column, value=value, writeToWAL=True)


def _text(message: bytes | str | None) -> str:
    return message.decode(errors="replace") if isinstance(message, bytes) else message or ""
