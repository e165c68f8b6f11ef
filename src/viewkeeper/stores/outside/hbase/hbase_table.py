"""A table of HBase as a base table (`contract.OutsideTable`).

Its log are the files of the region servers' write-ahead logs (`wal_files`), its rows are read and written through the
Thrift gateway.  Operations are ordered by the timestamps of cells, as HBase has them: milliseconds since 1970, or
whatever a writer says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

import numpy as np

from viewkeeper.catalog.model import Table
from viewkeeper.catalog.operation_kinds import DELETE, DELETE_COLUMNS
from viewkeeper.catalog.outside_store import NEVER
from viewkeeper.changes.operations import Operations, bits
from viewkeeper.errors import Error, InputError, LogLost, StoreAway
from viewkeeper.stores.outside.cells import stamped
from viewkeeper.stores.outside.contract import (
    LogEnds,
    NoRow,
    OutsideTable,
    OutsideTraits,
    PartRange,
    ReadPart,
    Scanned,
    identity_of,
)
from viewkeeper.stores.outside.hbase.byte_spans import ByteSpans
from viewkeeper.stores.outside.hbase.client import FoundRow
from viewkeeper.stores.outside.hbase.description import Family, newest_description, read_families
from viewkeeper.stores.outside.hbase.encodings import scattered, shown
from viewkeeper.stores.outside.hbase.log_cells import CellDecoder, NoFollowing
from viewkeeper.stores.outside.hbase.mapping import CellMapping, require_readable
from viewkeeper.stores.outside.hbase.place import GATEWAY_OPTIONS, check_place, full_name, gateway_of, table_named
from viewkeeper.stores.outside.hbase.wal import LogUnreadable
from viewkeeper.stores.outside.hbase.wal_files import CLOSED, LogFileGone, LogFiles, placed, position
from viewkeeper.stores.outside.options import filled_in, require_known
from viewkeeper.stores.outside.said import said_of
from viewkeeper.stores.value_conversion import to_python


class HBaseTable(OutsideTable):
    """Rows whose columns are cells of HBase."""

    traits: ClassVar[OutsideTraits] = OutsideTraits(
        order="cell timestamp", rows=True, writable=True, partial=True, keyless=False
    )

    def __init__(self, table: Table, zone: str) -> None:
        super().__init__(table, zone)
        assert table.outside is not None
        self._options = filled_in(dict(table.outside.options))
        self._root = _folder(self._options["wal"])
        self._namespace, self._name = table_named(self._options["table"])
        self._mapping = CellMapping(self.intake, self._options)
        self._gateway = gateway_of(self._options, self._said)
        self._decoder = CellDecoder(self.intake, self._mapping, self._versions)
        self._files = LogFiles(self._root, full_name(self._options["table"]))
        self._described: tuple[object, dict[bytes, Family]] | None = None

    @classmethod
    def check(cls, options: Mapping[str, str], keyless: bool) -> None:
        require_known("hbase", options, ("thrift", "wal", "table", "key"),
                      ("columns", "family", "separator", *GATEWAY_OPTIONS))  # fmt: skip
        check_place(options)
        _folder(options["wal"])
        if keyless:
            raise InputError("a table in hbase needs a PRIMARY KEY: each row there has a key")
        require_readable(options)

    def require_there(self) -> None:
        if not self._description.is_dir():
            raise Error(self._said(f"there is no {self._description}: is wal the root folder (hbase.rootdir) of the "
                                   "cluster behind thrift?"))  # fmt: skip
        self.ends()
        for block in self._gateway.rows(self._columns):
            self._as_rows(block).all_rows()  # what is wrong with one row is often so with the first
            break

    def start(self) -> LogEnds:
        return self.ends()

    def ends(self) -> LogEnds:
        self._families()
        with self._translated():
            positions = self._files.look()
        identity = self._cluster()
        return LogEnds(positions, {part: identity_of(identity, part) for part in positions})

    def read(self, range_: PartRange) -> ReadPart:
        if range_.identity and range_.identity != identity_of(self._cluster(), range_.part):
            raise self._lost("its log is not the one that was read before, as if the cluster had been made anew")
        found = ReadPart()
        with self._translated():
            for data, entries in self._files.pieces(range_.part, range_.after, range_.upto):
                self._decoder.read(data, entries, found)
        return found

    def is_finished(self, part: str, position: int) -> bool:
        return placed(position)[1] == CLOSED

    def estimate(self, after: int, upto: int) -> int:
        if upto <= after:
            return 0
        return max(1, sum(self._files.operations(low, high) for _, low, high in self._files.sizes(after, upto)))

    def partway(self, part: str, after: int, end: int, operations: int) -> int:
        for file, low, high in self._files.sizes(after, end, part):
            count = self._files.operations(low, high)
            if count > operations:
                return position(file.time, low + max(1, (high - low) * operations // count))
            operations -= count
        return end

    def scan(self, since: Mapping[str, int]) -> Iterator[Scanned]:
        for block in self._gateway.rows(self._columns):
            yield self._as_rows(block)

    def get(self, key: Any) -> dict[str, Any] | None:
        (row,) = self._mapping.keys.encode(self.intake.deletes([key]).columns)
        found = self._gateway.row(row, self._columns)
        if found is None:
            return None
        shown_ = {column.name: None for column in self.table.columns}
        for operations, _ in self._as_rows([found]).all_rows():
            for i, array in enumerate(operations.columns):
                value, decode = array[0].as_py(), to_python(self.form.types[i], self.zone)
                if value is not None:
                    shown_[self.table.columns[i].name] = value if decode is None else decode(value)
        return shown_

    def write(self, operations: Operations) -> Mapping[str, int]:
        carried = dict(zip(self.form.carried(operations.kind), operations.columns, strict=True))
        rows = self._mapping.keys.encode([carried[i] for i in self.form.key])
        changes: dict[bytes, dict[bytes, bytes | None]] = {row: {} for row in rows}
        if operations.kind == DELETE:
            families = dict.fromkeys(self._families())
            for cells in changes.values():
                cells |= families
        else:
            for place in self._mapping.places:
                named = None if operations.named is None else bits(operations.named, place.column).tolist()
                values: Sequence[bytes | None] = [None] * len(rows)
                if operations.kind != DELETE_COLUMNS:
                    try:
                        values = place.encoding.encode(carried[place.column], self.form.types[place.column])
                    except InputError as refused:
                        name = self.table.columns[place.column].name
                        raise InputError(f"{self.table.name}, column {name}: {refused}") from None
                for at, (row, value) in enumerate(zip(rows, values, strict=True)):
                    if named is None or named[at]:
                        changes[row][place.name] = value  # of several the last
        self._gateway.write({row: cells for row, cells in changes.items() if cells})
        return self.ends().positions

    def forget(self, positions: Mapping[str, int]) -> None:
        """Nothing: how long old logs stay is HBase's own affair."""

    def close(self) -> None:
        self._gateway.close()

    @property
    def _columns(self) -> list[bytes]:
        return [place.name for place in self._mapping.places]

    def _as_rows(self, rows: Sequence[FoundRow]) -> Scanned:
        """Rows as operations with the timestamps of their cells."""
        keys, refused = self._mapping.keys.decode(ByteSpans.of([row for row, _ in rows]))
        bad = {at: NoRow(self._said(f"the row {shown(rows[at][0])} is none of it: {why}; mend or delete it"), None)
               for at, why in refused.items()}  # fmt: skip
        stamps = np.full((len(rows), len(self.form.values)), NEVER, np.int64)
        columns = {}
        for place in self._mapping.places:
            cells = [cells.get(place.name) for _, cells in rows]
            there = np.array([cell is not None for cell in cells], bool)
            given = [cell for cell in cells if cell is not None]
            stamps[there, self.form.values.index(place.column)] = [cell.timestamp for cell in given]
            column, refused = place.encoding.cells(
                ByteSpans.of([cell.value for cell in given]), self.intake.intakes[place.column]
            )
            for at, why in refused.items():
                row = int(np.flatnonzero(there)[at])
                why = self._said(f"row {shown(rows[row][0])}, column {self.table.columns[place.column].name}: {why}; "
                                 "mend the cell, or declare the column with its encoding")  # fmt: skip
                bad.setdefault(row, NoRow(why, tuple(key[row].as_py() for key in keys)))
            columns[place.column] = scattered(column, np.flatnonzero(there), len(rows))
        stamps[list(bad)] = NEVER  # there is nothing of these rows
        operations = stamped(self.form, keys, [columns[i] for i in self.form.values], stamps, None)
        return Scanned(list(operations), list(bad.values()))

    def _versions(self, family: bytes) -> int:
        """How many versions of a cell a family keeps."""
        return self._families()[family].versions

    def _families(self) -> dict[bytes, Family]:
        """The families in HBase.  Raises LogLost where the table is gone, Error where it has been altered so that it
        cannot be followed; it may be altered back."""
        try:
            found = newest_description(self._description)
            now = found.stat()
            mark = (found, now.st_ino, now.st_mtime_ns)
            if self._described is None or self._described[0] != mark:
                self._described = mark, read_families(found.read_bytes())
        except OSError as error:
            if (self._root / "data").is_dir() and not self._description.is_dir():
                raise self._lost("the table is gone from HBase, as if it had been dropped") from None
            raise StoreAway(self._said(f"{error.filename} cannot be read: {error.strerror}")) from error
        except ValueError as why:
            raise Error(self._said(f"{self._description} does not say how the table is declared: {why}")) from None
        families = self._described[1]
        for family in self._mapping.families:
            self._require_kept(family, families)
        return families

    def _require_kept(self, family: bytes, families: Mapping[bytes, Family]) -> None:
        declared = families.get(family)
        if declared is None:
            there = ", ".join(map(shown, sorted(families)))
            raise Error(self._said(f"the family {shown(family)} is not there in HBase; there are {there}"))
        if declared.seconds is not None:
            raise Error(self._said(f"cells of the family {shown(family)} expire after {declared.seconds} seconds, "
                                   "which no log tells: set its TTL to FOREVER, and delete rows instead"))  # fmt: skip
        if declared.ordered:
            raise Error(self._said(f"the family {shown(family)} has NEW_VERSION_BEHAVIOR, which is not supported"))

    @property
    def _description(self) -> Path:
        """The folder in which HBase keeps how the table is declared."""
        return self._root / "data" / self._namespace / self._name / ".tabledesc"

    def _cluster(self) -> str:
        """What tells the cluster from others."""
        try:
            return (self._root / "hbase.id").read_bytes().hex()
        except OSError as error:
            raise StoreAway(self._said(f"{self._root / 'hbase.id'} cannot be read: {error.strerror}")) from error

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except LogFileGone as gone:
            raise self._lost(f"{gone} is gone: HBase deletes old logs after a while (hbase.master.logcleaner.ttl), "
                             "and it had not been read") from None  # fmt: skip
        except LogUnreadable as why:
            raise Error(self._said(f"its log cannot be read: {why}")) from None
        except NoFollowing as why:
            raise self._lost(str(why)) from None
        except OSError as error:
            raise StoreAway(self._said(f"its log cannot be read: {error}")) from error

    def _lost(self, how: str) -> LogLost:
        return LogLost(self._said(f"{how}; drop the table, and create it again"))

    def _said(self, message: str) -> str:
        return said_of(self.table.id, self.table.name, message)


def _folder(uri: str) -> Path:
    """The folder that the option `wal` names."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise InputError(f"OPTIONS (wal {uri!r}): logs are read in a folder, file:///..., the root of HBase "
                         "(hbase.rootdir), as this machine sees it; other file systems are not supported")  # fmt: skip
    return Path(unquote(parts.path))
