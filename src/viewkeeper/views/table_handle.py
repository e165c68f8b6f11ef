"""A base table as users hold it: rows are written and read as the table is declared at that moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from viewkeeper.catalog.model import PartView, Stream, Table
from viewkeeper.catalog.types import logical_type
from viewkeeper.changes.positions import Token
from viewkeeper.errors import InputError, LayoutChanged, NotFound, RowError
from viewkeeper.files import read_rows
from viewkeeper.stores.logs import Logs
from viewkeeper.streams.spark.follow import Follow, follow
from viewkeeper.views.layout_of_now import with_layout_of_now
from viewkeeper.views.reader import ViewReader
from viewkeeper.views.table_follow import TableFollow
from viewkeeper.views.version_sources import Newest


class TableHandle:
    """A base table: rows are written and read here at once, whatever has been maintained."""

    def __init__(self, newest: Newest, logs: Logs, name: str) -> None:
        self._newest = newest
        self._store, self._logs = logs.store, logs
        self.name = name
        self._table()

    def put(self, row: Mapping[str, Any]) -> Token:
        """Sets the named columns of one row; None makes a column NULL.  The token is for `get(..., after=token)`."""
        table = self._table()
        if table.outside is not None:
            return self._logs.outside.of(table).put_many([row])
        try:
            return self._store.put(table, row)
        except LayoutChanged:
            return with_layout_of_now(lambda: self._store.put(self._table(), row))

    def put_many(self, rows: Any) -> Token:
        """`put` of many rows, in order: dicts, a pyarrow Table or RecordBatch, a pandas DataFrame.

        One call is one atomic step; of a pyarrow RecordBatchReader, one a record batch.
        """
        table = self._table()
        if table.outside is not None:
            return self._logs.outside.of(table).put_many(rows)
        if not isinstance(rows, pa.RecordBatchReader):
            given = list(rows) if isinstance(rows, Iterator) else rows
            return with_layout_of_now(lambda: self._store.put_many(self._table(), given))
        token = Token()
        for batch in rows:
            token |= self.put_many(batch)
        return token

    def load(self, *files: str | Path, null: str | None = None) -> Iterator[tuple[int, Token]]:
        """Puts the rows of Parquet, CSV, Arrow or JSON-lines files in their order, one atomic step a batch.

        Yields (number of rows, token) of each batch when it is written: iterate, or nothing is.  What stands in a file
        is read as the columns are declared; in CSV, an empty field without quotes is NULL, or one that is `null`.
        Raises InputError, which names the row and says how many rows before it are written.
        """
        for file in files:
            written = 0
            types = {column.name.lower(): logical_type(column.type, "UTC") for column in self._table().columns}
            for rows in read_rows(Path(file), types, null):
                try:
                    token = self.put_many(rows)
                except RowError as error:
                    said = f"; of {file}, {written:,} rows before are written" if written else ""
                    raise InputError(f"{error.at(rows.place(error.row))}{said}") from None
                written += len(rows)
                yield len(rows), token

    def follow(
        self, df: Any, *, name: str, op: str | None = None, trigger: dict[str, Any] | None = None
    ) -> Follow:  # fmt: skip
        """Puts and deletes what a Spark streaming DataFrame gives, each row once, until `.stop()` of what is returned.

        Columns go by their names.  The column `op` says what is done with a row: "put", or Debezium's "c", "r" and "u";
        "delete", or "d", of which only the key counts.  Without `op` all rows are put.  A micro-batch is one atomic
        step; one with a row that the table cannot take ends the follow.  What was taken is remembered in the database
        under `name`: the next follow of that name goes on from there.  `trigger` are the arguments of Spark's
        `DataStreamWriter.trigger`.  Raises Busy while another follow of the name is live.
        """
        root = self._newest.version().snapshot.storage.root
        return follow(TableFollow(root, self._newest, self._store, self._table(), op), df, name, trigger=trigger)

    def delete(self, key: Any, columns: Sequence[str] | None = None) -> Token | bool:
        """Deletes the row of `key`, or makes its `columns` NULL.  In a table without a key: one row equal to the dict
        `key`, and False if there is none."""
        table = self._table()
        if table.outside is not None:
            return self._logs.outside.of(table).delete(key, columns)
        return with_layout_of_now(lambda: self._store.delete(self._table(), key, columns))

    def delete_many(self, keys: Iterable[Any]) -> Token:
        """`delete` of the rows of many keys, one atomic step."""
        table = self._table()
        if table.outside is not None:
            return self._logs.outside.of(table).delete_many(keys)
        given = list(keys) if isinstance(keys, Iterable) else keys
        return with_layout_of_now(lambda: self._store.delete_many(self._table(), given))

    def get(
        self, key: Any, *, index: str | None = None, after: Token | str | None = None, timeout: float = 30.0
    ) -> Any:
        """The row of `key` as written, as a dict, or None; by an index, a list of the rows at the newest version."""
        if index is not None:
            return ViewReader(self._newest, self.name).get(key, index=index, after=after, timeout=timeout)
        table = self._table()
        if table.outside is not None:
            return self._logs.outside.of(table).get(key)
        try:
            return self._store.get(table, key)
        except LayoutChanged:
            return with_layout_of_now(lambda: self._store.get(self._table(), key))

    def _table(self) -> Table:
        found = self._newest.version().catalog.find(self.name)
        if not isinstance(found, Table):
            raise NotFound(f"{self._what(found)}; SHOW TABLES lists all")
        return found

    def _what(self, found: object) -> str:
        if isinstance(found, Stream):
            return f"{self.name!r} is a stream: rows are appended, with db.stream({self.name!r}) or viewkeeper load"
        if isinstance(found, PartView):
            return f"{self.name!r} is a view over streams, not a table: it is read with db.view({self.name!r})"
        return f"{self.name!r} is not a table" if found else f"the table {self.name!r} does not exist"
