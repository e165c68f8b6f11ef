"""HBase's Thrift 1 gateway, asked for one table."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import happybase
from Hbase_thrift import BatchMutation, IllegalArgument, IOError, Mutation, TScan  # as happybase has loaded it
from thriftpy2.thrift import TException

from viewkeeper.errors import Error, StoreAway

TIMEOUT_SECONDS = 30.0
"""So long the gateway may take to answer: it waits for regions that are being moved itself."""

WRITTEN_AT_ONCE = 1_000
SCANNED_AT_ONCE = 10_000
"""Rows of one scanner: none is kept open longer than it takes to read these."""

FETCHED_AT_ONCE = 1_000
_WRONG = ("TableNotFoundException", "NoSuchColumnFamilyException", "AccessDeniedException",
          "TableExistsException", "IllegalArgumentException")  # fmt: skip
"""Of HBase's errors those that waiting does not mend."""

_ROWS = "its rows cannot be read"

_Answer = TypeVar("_Answer")

FoundRow = tuple[bytes, Mapping[bytes, Any]]
"""A row's key, and its cells (`value`, `timestamp`) by their columns' names."""


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
            block: list[FoundRow] = self._asked(_ROWS, partial(self._block, start=start, columns=list(columns)))
            if block:
                yield block
                start = block[-1][0] + b"\0"
            if len(block) < SCANNED_AT_ONCE:
                return

    def row(self, key: bytes, columns: Sequence[bytes]) -> FoundRow | None:
        """The row of `key`; None where it has no cell in `columns`."""
        found = self._asked(_ROWS, lambda client: client.getRowWithColumns(self._table, key, list(columns), {}))
        return (found[0].row, found[0].columns) if found and found[0].columns else None

    def write(self, changes: Mapping[bytes, Mapping[bytes, bytes | None]]) -> None:
        """Sets cells, by row and column; what is None is deleted, a family's name stands for all its columns."""
        made = [
            BatchMutation(row, [Mutation(isDelete=value is None, column=column, value=value, writeToWAL=True)
                                for column, value in cells.items()])
            for row, cells in changes.items()
        ]  # fmt: skip
        for at in range(0, len(made), WRITTEN_AT_ONCE):
            self._asked("rows cannot be written", partial(self._mutate, rows=made[at : at + WRITTEN_AT_ONCE]))

    def close(self) -> None:
        """Hangs up."""
        with self._lock:
            self._hang_up()

    def _mutate(self, client: Any, rows: list[BatchMutation]) -> None:
        client.mutateRows(self._table, rows, {})

    def _block(self, client: Any, start: bytes, columns: list[bytes]) -> list[FoundRow]:
        scan = TScan(startRow=start, columns=columns, caching=FETCHED_AT_ONCE, sortColumns=False)
        scanner = client.scannerOpenWithScan(self._table, scan, {})
        try:
            found: list[FoundRow] = []
            while len(found) < SCANNED_AT_ONCE:
                rows = client.scannerGetList(scanner, min(FETCHED_AT_ONCE, SCANNED_AT_ONCE - len(found)))
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
        return Error(message) if any(each in why for each in _WRONG) else StoreAway(message)


def _text(message: bytes | str | None) -> str:
    return message.decode(errors="replace") if isinstance(message, bytes) else message or ""
