"""Files of rows, and which rows of them have which key.

A file is never changed, so what is known of it stays true for as long as it is there.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from viewkeeper.stores.outside.delta.commits import ChangedFile, read_rows
from viewkeeper.stores.outside.delta.folder import LakeFolder
from viewkeeper.stores.outside.delta.view_form import ViewForm
from viewkeeper.trace.arrange import take_all
from viewkeeper.trace.grouping import spread, stable_argsort
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.keys import equal_rows
from viewkeeper.trace.rows import Rows

ROWS_A_FILE = 200_000
"""At most.  A row that changes has its file written anew."""

ALIKE_MAX = 8
"""So many small files of about one size become one, so that many small writings leave few files."""

OURS = "viewkeeper-"
"""What names of files that were written here begin with: such a one may be there without a table, after a crash."""

_TEXT_MAX = 64
"""Longer texts are no bounds in a file's statistics."""


@dataclass(frozen=True)
class RowFile:
    """A file of the table: `stats` as Delta's log has them, where it was written here."""

    path: str
    size: int
    rows: int
    stats: str | None = None

    def added(self) -> AddAction:
        assert self.stats is not None, "it was written here"
        return AddAction(self.path, self.size, {}, _now(), True, self.stats)

    def removed(self) -> RemoveAction:
        return RemoveAction(self.path, True, _now(), self.size, {})


@dataclass(frozen=True)
class KeyIndex:
    """The hashes of a file's keys, sorted, and the row of each."""

    hashes: np.ndarray
    rows: np.ndarray

    @staticmethod
    def of(hashes: np.ndarray) -> KeyIndex:
        """Of the hashes of rows as they stand."""
        order = stable_argsort(hashes)
        return KeyIndex(hashes[order], order.astype(np.int32))

    def in_order(self) -> np.ndarray:
        """The hashes of the rows as they stand."""
        found = np.empty_like(self.hashes)
        found[self.rows] = self.hashes
        return found

    def having(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(number in `hashes`, row): where they are the same."""
        starts = np.searchsorted(self.hashes, hashes)
        counts = np.searchsorted(self.hashes, hashes, side="right") - starts
        return np.repeat(np.arange(len(hashes)), counts), self.rows[spread(starts, counts)]


@dataclass
class RowFiles:
    """Reads and writes files in a folder, and remembers which keys they have (12 bytes a row)."""

    folder: LakeFolder
    form: ViewForm
    _indexes: dict[str, KeyIndex] = field(default_factory=dict)

    @staticmethod
    def of(opened: DeltaTable) -> list[RowFile]:
        """The files of a table in a version."""
        found = pa.table(opened.get_add_actions())
        columns = (found[name].to_pylist() for name in ("path", "size_bytes", "num_records"))
        return [RowFile(path, size, rows or 0) for path, size, rows in zip(*columns, strict=True)]

    def read(self, file: RowFile, names: Sequence[str] | None = None) -> pa.Table:
        """The rows of a file, as the form's schema has them: all columns, or some."""
        wanted = self.form.all_names if names is None else list(names)
        if not wanted:  # a view without a key is one row
            return self.read(file)
        _, columns = next(read_rows(self.folder.files, ChangedFile(file.path, "insert", file.rows, {}), wanted))
        return self.form.cast(columns, wanted)

    def index(self, file: RowFile) -> KeyIndex:
        """Which keys it has."""
        found = self._indexes.get(file.path)
        if found is None:
            table = self.read(file, self.form.key_names)
            found = self._indexes[file.path] = KeyIndex.of(hash_columns(self.form.keys(table), len(table)))
        return found

    def forget_but(self, paths: Iterable[str]) -> None:
        """Other files than these are not asked for any more."""
        self._indexes = {path: self._indexes[path] for path in paths if path in self._indexes}

    def having(self, file: RowFile, keys: Sequence[pa.Array], hashes: np.ndarray) -> tuple[pa.Table, np.ndarray] | None:
        """The file's rows, and which of them have one of `keys`; None where none has."""
        which, rows = self.index(file).having(hashes)
        if not len(rows):
            return None
        table = self.read(file)
        if keys:
            stored = self.form.keys(table.take(pa.array(rows)))
            rows = rows[equal_rows(stored, take_all(keys, which))]
        return (table, np.unique(rows)) if len(rows) else None

    def write(self, table: pa.Table, hashes: np.ndarray) -> RowFile:
        """A file of at least one row, with the hashes of their keys, which no table has yet."""
        path = f"{OURS}{uuid.uuid4()}.parquet"
        with self.folder.files.open_output_stream(path) as stream:
            pq.write_table(table, stream)
            size = stream.tell()
        self._indexes[path] = KeyIndex.of(hashes)
        return RowFile(path, size, len(table), _stats(table))


class Staged:
    """Rows that come and go, as files that are added and removed; nothing of it is in the table before the commit."""

    def __init__(self, store: RowFiles, committed: Iterable[RowFile], replaced: bool = False) -> None:
        """All rows of the table go where it is `replaced`."""
        self._store, self._form = store, store.form
        self._committed = {file.path: file for file in committed}
        self._live: dict[str, RowFile] = {} if replaced else dict(self._committed)
        self.replaced = replaced
        self._came: list[Rows] = []
        self._gone: list[Rows] = []
        self._waiting = 0

    def write(self, came: Rows, gone: Rows) -> None:
        """The rows `came` take the place of those with their keys, and what has the keys of `gone` goes.  Between two
        commits each key is named once."""
        self._came.append(came)
        self._gone.append(gone)
        self._waiting += len(came) + len(gone)
        if self._waiting >= ROWS_A_FILE:
            self._flush()

    def actions(self) -> list[AddAction | RemoveAction]:
        """What the table's log is to say; a table that is replaced has its old files removed by who replaces it."""
        self._flush()
        added = [file.added() for path, file in self._live.items() if path not in self._committed]
        removed = [file.removed() for path, file in self._committed.items() if path not in self._live]
        return [*added, *([] if self.replaced else removed)]

    def done(self) -> None:
        """It was committed."""
        self._store.forget_but(self._live)

    def _flush(self) -> None:
        if not self._waiting:
            return
        came = Rows.concat(self._came)
        gone = Rows.concat([Rows(self._form.keys_of(came), came.weights),
                            *(Rows(self._form.keys_of(each), each.weights) for each in self._gone)])  # fmt: skip
        self._came, self._gone, self._waiting = [], [], 0
        self._live |= {file.path: file for file in self._written(came, gone)}

    def _written(self, came: Rows, gone: Rows) -> list[RowFile]:
        """Takes the files that have rows with keys of `gone` from the live ones, and gives those in their place."""
        hashes = hash_columns(gone.columns, len(gone))
        pieces = [(self._form.table(came), hashes[: len(came)])]
        untouched = []
        written: list[RowFile] = []
        for path, file in list(self._live.items()):
            found = self._store.having(file, gone.columns, hashes)
            if found is None:
                untouched.append(file)
                continue
            table, rows = found
            keep = np.ones(len(table), dtype=bool)
            keep[rows] = False
            pieces.append((table.filter(pa.array(keep)), self._store.index(file).in_order()[keep]))
            del self._live[path]
            pieces = self._full(pieces, written)
        for file in _alike(untouched):
            pieces.append((self._store.read(file), self._store.index(file).in_order()))
            del self._live[file.path]
            pieces = self._full(pieces, written)
        table, hashes = _joined(pieces)
        return [*written, self._store.write(table, hashes)] if len(table) else written

    def _full(self, pieces: list[_Piece], written: list[RowFile]) -> list[_Piece]:
        """Writes full files of `pieces`, and gives what is left."""
        if sum(len(table) for table, _ in pieces) < ROWS_A_FILE:
            return pieces
        table, hashes = _joined(pieces)
        while len(table) >= ROWS_A_FILE:
            written.append(self._store.write(table.slice(0, ROWS_A_FILE), hashes[:ROWS_A_FILE]))
            table, hashes = table.slice(ROWS_A_FILE), hashes[ROWS_A_FILE:]
        return [(table, hashes)]


_Piece = tuple[pa.Table, np.ndarray]
"""Rows, and the hashes of their keys."""


def _joined(pieces: Sequence[_Piece]) -> _Piece:
    return pa.concat_tables([table for table, _ in pieces]), np.concatenate([hashes for _, hashes in pieces])


def _alike(files: Iterable[RowFile]) -> Iterator[RowFile]:
    """Small files of which there are many of about one size."""
    sizes: dict[int, list[RowFile]] = {}
    for file in files:
        if 2 * file.rows < ROWS_A_FILE:
            sizes.setdefault(file.rows.bit_length() // 3, []).append(file)
    return (file for alike in sizes.values() if len(alike) >= ALIKE_MAX for file in alike)


def _stats(table: pa.Table) -> str:
    """How many rows, and bounds of columns of which all that Delta's log can say is exact."""
    least: dict[str, object] = {}
    greatest: dict[str, object] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not (pa.types.is_integer(column.type) or pa.types.is_date(column.type) or pa.types.is_string(column.type)):
            continue
        bounds: Mapping[str, pa.Scalar] = pc.min_max(column)
        low, high = (bounds[end].cast(pa.string()).as_py() if pa.types.is_date(column.type) else bounds[end].as_py()
                     for end in ("min", "max"))  # fmt: skip
        if low is not None and not (isinstance(low, str) and max(len(low), len(high)) > _TEXT_MAX):
            least[name], greatest[name] = low, high
    nulls = {name: column.null_count for name, column in zip(table.column_names, table.columns, strict=True)
             if not pa.types.is_nested(column.type)}  # fmt: skip
    return json.dumps({"numRecords": len(table), "minValues": least, "maxValues": greatest, "nullCount": nulls})


def _now() -> int:
    return time.time_ns() // 1_000_000
