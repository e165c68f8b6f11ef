"""The rows of a view's table in Cassandra: reading them, and how they compare with the view's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from cassandra.concurrent import execute_concurrent
from cassandra.query import BoundStatement

from viewkeeper.stores.outside.cassandra.cluster import Connection, Page
from viewkeeper.stores.outside.cassandra.row_access import scanned
from viewkeeper.stores.outside.cassandra.view_layout import Cell, TableKey, ViewLayout
from viewkeeper.trace.hashing import hash_columns

ROWS_A_PAGE = 1_000
_READS_AT_ONCE = 100

TableRow = tuple[Cell, ...]


class RowsThere:
    """Reads the table at `place`, whose rows are laid out so."""

    def __init__(self, connection: Connection, place: str, layout: ViewLayout) -> None:
        self._connection, self._place, self._layout = connection, place, layout

    def all(self) -> Iterator[list[pa.Array]]:
        """All rows, some at a time, a column after another."""
        names, keys = self._layout.names, self._layout.key_names
        for page in scanned(self._connection, names, self._place, keys, ROWS_A_PAGE):
            if page.count:
                yield _columns(page)

    def having(self, keys: Sequence[TableKey]) -> list[TableRow | None]:
        """The rows with these keys; None: there is none."""
        where = " AND ".join(f"{name} = ?" for name in self._layout.key_names)
        query = self._connection.prepared(f"SELECT {', '.join(self._layout.names)} FROM {self._place} WHERE {where}")
        asked = [(bound(query, key), None) for key in keys]
        done = execute_concurrent(self._connection.session(), asked, concurrency=_READS_AT_ONCE)
        found = list[TableRow | None]()
        for _, pages in done:
            rows = [row for page in pages for row in rows_of(_columns(page))]
            found.append(rows[0] if rows else None)
        return found


class ComparedRows:
    """All rows of the table by their hashes, 16 bytes a row, for comparing them with those of the view."""

    def __init__(self, table: RowsThere, width: int) -> None:
        self._table, self._width = table, width
        keys, wholes = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
        for columns in table.all():
            key, whole = self._hashes(columns)
            keys.append(key)
            wholes.append(whole)
        key, whole = np.concatenate(keys), np.concatenate(wholes)
        order = np.lexsort((whole, key))
        self._keys, self._wholes = key[order], whole[order]
        self._seen = np.zeros(len(order), dtype=bool)

    def wrong(self, expected: Sequence[pa.Array]) -> np.ndarray:
        """Which of some rows of the view are not there as they are (bool[n])."""
        places = self._places(expected)
        self._seen[places[places >= 0]] = True
        return places < 0

    def found(self, rows: Sequence[TableRow | None]) -> None:
        """That these rows are of keys that the view has."""
        there = [row for row in rows if row is not None]
        if there:
            columns = [pa.array(cells, pa.large_binary()) for cells in zip(*there, strict=True)]
            places = self._places(columns)
            self._seen[places[places >= 0]] = True

    def left(self) -> Iterator[list[TableRow]]:
        """The rows that the view has not, after all of its own have been looked at, some at a time."""
        if self._seen.all():
            return
        for columns in self._table.all():
            places = self._places(columns)
            left = np.flatnonzero((places >= 0) & ~self._seen[places]) if len(self._seen) else np.zeros(0, np.int64)
            if len(left):
                yield rows_of([column.take(pa.array(left)) for column in columns])

    def _hashes(self, columns: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
        count = len(columns[0])
        return hash_columns(columns[: self._width], count), hash_columns(columns, count)

    def _places(self, columns: Sequence[pa.Array]) -> np.ndarray:
        """Where rows stand among those of the table (int64[n]); -1: they are not there as they are."""
        key, whole = self._hashes(columns)
        begins = np.searchsorted(self._keys, key)
        ends = np.searchsorted(self._keys, key, side="right")
        for row in np.flatnonzero(ends - begins > 1).tolist():  # keys that share a hash
            begins[row] += np.searchsorted(self._wholes[begins[row] : ends[row]], whole[row])
        there = begins < ends
        there[there] = self._wholes[begins[there]] == whole[there]
        return np.where(there, begins, -1)


def bound(statement: object, cells: Sequence[object]) -> BoundStatement:
    """A prepared statement with values that are cells already."""
    made = BoundStatement(statement)
    made.values = list(cells)
    return made


def rows_of(columns: Sequence[pa.Array]) -> list[TableRow]:
    """Columns as rows."""
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def _columns(page: Page) -> list[pa.Array]:
    return [page.column(at).texts(binary=True) for at in range(len(page.names))]
