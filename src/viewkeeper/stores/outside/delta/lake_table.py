"""A Delta table (`contract.OutsideTable`): its log has one part, and a position is a version of the table plus one."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
from deltalake import DeltaTable

from viewkeeper.catalog.model import Column, Table
from viewkeeper.catalog.operation_kinds import PUT
from viewkeeper.changes.operations import Operations
from viewkeeper.errors import Error, LogLost
from viewkeeper.stores.columns import plainly_held
from viewkeeper.stores.outside.contract import LogEnds, OutsideTable, OutsideTraits, PartRange, ReadPart, identity_of
from viewkeeper.stores.outside.delta.commits import Commit, Gone, read_commit, read_rows
from viewkeeper.stores.outside.delta.committed_rows import CommittedRows
from viewkeeper.stores.outside.delta.folder import LakeFolder, check_place, metadata_of
from viewkeeper.stores.outside.delta.schema import FEED, Metadata
from viewkeeper.stores.outside.said import said_of
from viewkeeper.stores.value_conversion import to_python
from viewkeeper.trace.grouping import group_rows
from viewkeeper.trace.hashing import hash_columns

PART = "0"
_SAMPLED = 200
"""What so many commits hold says what more of them do."""

_COUNTED_MAX = 10_000
_PUT, _DELETE = ("insert", "update_postimage"), ("delete", "update_preimage")


class DeltaLakeTable(OutsideTable):
    """Rows of a Delta table, and its change data feed."""

    traits: ClassVar[OutsideTraits] = OutsideTraits(
        order="key", rows=True, writable=False, partial=False, keyless=True
    )  # fmt: skip

    def __init__(self, table: Table, zone: str) -> None:
        super().__init__(table, zone)
        assert table.outside is not None
        self._folder = LakeFolder(dict(table.outside.options), self._said)
        self._path = self._folder.path
        self.poll_seconds = 0.1 if self._folder.is_local else 1.0
        self._lock = threading.Lock()
        self._counts: dict[int, int] = {}

    @classmethod
    def check(cls, options: Mapping[str, str], keyless: bool) -> None:
        check_place(options)

    @classmethod
    def columns(cls, options: Mapping[str, str]) -> list[Column]:
        folder = LakeFolder(options)
        with folder.translated():
            return metadata_of(folder.newest()).as_columns()

    @property
    def has_rows(self) -> bool:
        """A table without a key is read from its first commit: rows that are read twice would be two rows."""
        return not self.form.keyless

    def require_there(self) -> None:
        version, metadata = self._look()
        if (why := metadata.unreadable or metadata.misfit(self.table.columns)) is not None:
            raise Error(f"{self._path}: {why}")
        if not metadata.has_feed:
            raise Error(f"{self._path}: its change data feed is off; switch it on: ALTER TABLE delta.`{self._path}` "
                        f"SET TBLPROPERTIES ({FEED} = true)")  # fmt: skip
        if self.form.keyless:
            self._require_beginning()
        else:
            self._require_unique(self._at(version), metadata)

    def start(self) -> LogEnds:
        version, metadata = self._look()
        return LogEnds({PART: 0 if self.form.keyless else version + 1}, {PART: identity_of(metadata.id)})

    def ends(self) -> LogEnds:
        version, metadata = self._look()
        self._require_fit(metadata, version)
        return LogEnds({PART: version + 1}, {PART: identity_of(metadata.id)})

    def read(self, range_: PartRange) -> ReadPart:
        version, metadata = self._look()
        if version < range_.upto - 1 or (range_.identity and identity_of(metadata.id) != range_.identity):
            why = "is not the one that was read before, as if it had been deleted and made anew"
            raise LogLost(self._said(f"the Delta table at {self._path} {why}: drop the table, and create it again"))
        self._require_fit(metadata, version)
        changes = CommittedRows(self.intake)
        with self._translated(), self._kept():
            files = self._folder.files
            stamp = 0
            for number in range(range_.after, range_.upto):
                commit = read_commit(files, number)
                # Writers' clocks differ, and what comes later is later here.
                stamp = max(stamp, commit.stamp)
                self._require_readable(commit)
                self._take(files, replace(commit, stamp=stamp), changes)
        return changes.as_read()

    def estimate(self, after: int, upto: int) -> int:
        sampled = range(after, min(upto, after + _SAMPLED))
        if not sampled:
            return 0
        try:
            with self._translated():
                found = sum(map(self._count, sampled))
        except (Gone, Error):  # whoever reads it tells
            return upto - after
        return max(1, found * (upto - after) // len(sampled))

    def rows(self) -> Iterator[Operations]:
        version, metadata = self._look()
        self._require_fit(metadata, version)
        opened = self._at(version)
        self._require_unique(opened, metadata)
        for batch in self._scanned(opened, metadata, self.table.columns):
            yield Operations(PUT, self._good(batch, range(len(self.table.columns))))

    def forget(self, positions: Mapping[str, int]) -> None:
        """Nothing: how long versions stay is the table's own affair."""

    def close(self) -> None:
        with self._lock:
            self._folder.close()

    def _look(self) -> tuple[int, Metadata]:
        """The newest version, and what the table is then."""
        with self._translated(), self._lock:
            opened = self._folder.newest()
            return opened.version(), metadata_of(opened)

    def _at(self, version: int) -> DeltaTable:
        with self._translated():
            return self._folder.at(version)

    def _count(self, version: int) -> int:
        found = self._counts.get(version)
        if found is None:
            if len(self._counts) >= _COUNTED_MAX:
                self._counts.clear()
            found = self._counts[version] = read_commit(self._folder.files, version).rows
        return found

    def _take(self, files: pa.fs.FileSystem, commit: Commit, changes: CommittedRows) -> None:
        names = [column.name for column in self.table.columns]
        for file in commit.files:
            for change, rows in read_rows(files, file, names):
                if change in _DELETE and self.form.keyless:
                    raise LogLost(self._said(
                        f"version {commit.version} deletes or changes rows, and the table has no PRIMARY KEY to find "
                        "them by: drop the table, and create it again with a PRIMARY KEY"
                    ))  # fmt: skip
                if change in _PUT:
                    changes.put(commit, rows, file.partition)
                elif change in _DELETE:
                    changes.delete(commit, rows, file.partition)
                else:
                    raise Error(self._said(f"version {commit.version} has changes of an unknown kind, {change!r}"))

    def _require_beginning(self) -> None:
        try:
            with self._translated():
                first = read_commit(self._folder.files, 0)
        except Gone:
            first = None
        if first is None or first.metadata is None or not first.metadata.has_feed:
            why = "is gone from its log" if first is None else "was made without the change data feed"
            raise Error(f"{self._path}: a table without PRIMARY KEY is read from its first version, which {why}; "
                        "declare a PRIMARY KEY")  # fmt: skip

    def _require_unique(self, opened: DeltaTable, metadata: Metadata) -> None:
        """Raises Error where a key stands in several rows, or in one as NULL: Delta has no keys."""
        columns = [self.table.columns[i] for i in self.table.key]
        batches = [self._good(batch, self.table.key) for batch in self._scanned(opened, metadata, columns)]
        if not batches:
            return
        keys = [pa.concat_arrays(column) for column in zip(*batches, strict=True)]
        groups = group_rows(hash_columns(keys, len(keys[0])), keys)
        twice = np.flatnonzero(groups.lengths > 1)
        if len(twice):
            at = int(groups.firsts[twice[0]])
            decoders = [to_python(self.form.types[i], self.zone) for i in self.table.key]
            values = [value if decode is None else decode(value)
                      for decode, value in zip(decoders, (key[at].as_py() for key in keys), strict=True)]  # fmt: skip
            listed = ", ".join(f"{column.name} = {value!r}" for column, value in zip(columns, values, strict=True))
            raise Error(f"{self._path}: the key {listed} stands in {groups.lengths[twice[0]]} rows; choose a PRIMARY "
                        "KEY of which each row has its own, or leave it out")  # fmt: skip

    def _scanned(self, opened: DeltaTable, metadata: Metadata, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
        names = metadata.spelled(columns)
        with self._translated():
            for batch in pa.RecordBatchReader.from_stream(opened.scan(columns=names)):
                yield pa.RecordBatch.from_arrays([
                    _without_empty(values) if name in metadata.partitioned_by else values
                    for name, values in zip(names, batch.columns, strict=True)
                ], names)  # fmt: skip

    def _good(self, batch: pa.RecordBatch, which: Sequence[int]) -> list[pa.Array]:
        """The columns `which` of the table as physical ones; raises Error where a value cannot be in one."""
        changes = CommittedRows(self.intake)
        columns, reasons = changes.converted(batch.columns, which)
        if reasons:
            row, reason = min(reasons.items())
            key = {name: batch.column(name)[row].as_py() for name in batch.schema.names[:3]}
            raise Error(f"{self._path}: the row that begins with {key}: {reason}")
        return columns

    def _require_fit(self, metadata: Metadata, version: int) -> None:
        """Raises Error where the table, as of `version`, cannot be read any more; it may be again."""
        if (why := metadata.unreadable) is not None:
            raise Error(self._said(f"from version {version} on {why}"))
        if (why := metadata.misfit(self.table.columns)) is not None:
            raise Error(self._said(f"in version {version} {why}: ALTER TABLE {self.table.name} DROP COLUMN ..., or "
                                   "drop the table and create it again"))  # fmt: skip

    def _require_readable(self, commit: Commit) -> None:
        if commit.has_vectors:
            raise LogLost(self._said(f"version {commit.version} deletes rows by deletion vectors, which is not "
                                     "supported: drop the table, and create it again without them"))  # fmt: skip
        if any("://" in file.path or file.path.startswith("/") for file in commit.files):
            raise LogLost(self._said(f"version {commit.version} has files that lie elsewhere, as a shallow clone has, "
                                     "which is not supported: drop the table, and take one with its own"))  # fmt: skip
        if commit.metadata is None:
            return
        self._require_fit(commit.metadata, commit.version)
        if not commit.metadata.has_feed:
            raise LogLost(self._said(f"the change data feed was switched off in version {commit.version}: switch it "
                                     "on, drop the table, and create it again"))  # fmt: skip

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Raises LogLost where a file is gone."""
        try:
            yield
        except Gone as gone:
            raise LogLost(self._said(
                f"{gone} is gone from {self._path}, as VACUUM or the clean-up of its log does it, before it had been "
                "read: keep files for longer (delta.deletedFileRetentionDuration, delta.logRetentionDuration), drop "
                "the table, and create it again"
            )) from None  # fmt: skip

    def _translated(self) -> AbstractContextManager[None]:
        return self._folder.translated()

    def _said(self, message: str) -> str:
        return said_of(self.table.id, self.table.name, message)


def _without_empty(values: pa.Array) -> pa.Array:
    """Values of a partition: an empty text says NULL there, whatever the column's type (Delta's protocol)."""
    values = plainly_held(values)
    if not pa.types.is_large_string(values.type) and not pa.types.is_string(values.type):
        return values
    return pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values)
