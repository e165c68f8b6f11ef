"""A Delta table (`contract.OutsideTable`): its log has one part, and a position is a version of the table plus one."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
from deltalake import DeltaTable

from viewkeeper.catalog.model import Column, Table
from viewkeeper.errors import Error, LogLost
from viewkeeper.stores.columns import plainly_held
from viewkeeper.stores.outside.contract import LogEnds, PartRange, ReadPart, Scanned, identity_of
from viewkeeper.stores.outside.delta.commits import Commit, Gone, read_commit, read_rows
from viewkeeper.stores.outside.delta.folder import LakeFolder, check_place, metadata_of
from viewkeeper.stores.outside.delta.schema import FEED, Metadata
from viewkeeper.stores.outside.lakes.committed_rows import CommitMark, CommittedRows
from viewkeeper.stores.outside.lakes.committed_table import PART, CommittedTable
from viewkeeper.stores.outside.lakes.lake_columns import misfit, spelled

_SAMPLED = 200
"""What so many commits hold says what more of them do."""

_COUNTED_MAX = 10_000
_PUT, _DELETE = ("insert", "update_postimage"), ("delete", "update_preimage")


class DeltaLakeTable(CommittedTable):
    """Rows of a Delta table, and its change data feed."""

    def __init__(self, table: Table, zone: str) -> None:
        super().__init__(table, zone)
        assert table.outside is not None
        self._folder = LakeFolder(dict(table.outside.options), self._said)
        self.place = self._folder.path
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

    def require_there(self) -> None:
        version, metadata = self._look()
        if (why := metadata.unreadable or misfit(metadata.held(), self.table.columns)) is not None:
            raise Error(f"{self.place}: {why}")
        if not metadata.has_feed:
            raise Error(f"{self.place}: its change data feed is off; switch it on: ALTER TABLE delta.`{self.place}` "
                        f"SET TBLPROPERTIES ({FEED} = true)")  # fmt: skip
        if self.form.keyless:
            self._require_beginning()
        else:
            self._require_unique(self._keys(self._at(version), metadata), all_rows=True)

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
            raise LogLost(self._said(f"the Delta table at {self.place} {why}: drop the table, and create it again"))
        self._require_fit(metadata, version)
        changes = self._changes()
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

    def scan(self, since: Mapping[str, int]) -> Iterator[Scanned]:
        version, metadata = self._look()
        self._require_fit(metadata, version)
        opened = self._at(version)
        self._require_unique(self._keys(opened, metadata), all_rows=False)
        yield from self._blocks(self._scanned(opened, metadata, self.table.columns))

    def close(self) -> None:
        with self._lock:
            self._folder.close()

    def _look(self) -> tuple[int, Metadata]:
        """The newest version, and what the table is then."""
        with self._translated(), self._lock:
            opened = self._folder.newest()
            return opened.version(), metadata_of(opened)

    def _called(self, position: int) -> str:
        return f"version {position - 1}"

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
        mark = CommitMark(commit.version + 1, commit.stamp)
        for file in commit.files:
            for change, rows in read_rows(files, file, names):
                if change in _PUT:
                    changes.put(mark, rows, file.partition)
                elif change in _DELETE:
                    changes.delete(mark, rows, file.partition)
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
            raise Error(f"{self.place}: a table without PRIMARY KEY is read from its first version, which {why}; "
                        "declare a PRIMARY KEY")  # fmt: skip

    def _keys(self, opened: DeltaTable, metadata: Metadata) -> Iterator[pa.RecordBatch]:
        return self._scanned(opened, metadata, [self.table.columns[i] for i in self.table.key])

    def _scanned(self, opened: DeltaTable, metadata: Metadata, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
        names = spelled(metadata.held(), columns)
        with self._translated():
            for batch in pa.RecordBatchReader.from_stream(opened.scan(columns=names)):
                yield pa.RecordBatch.from_arrays([
                    _without_empty(values) if name in metadata.partitioned_by else values
                    for name, values in zip(names, batch.columns, strict=True)
                ], names)  # fmt: skip

    def _require_fit(self, metadata: Metadata, version: int) -> None:
        """Raises Error where the table, as of `version`, cannot be read any more; it may be again."""
        if (why := metadata.unreadable) is not None:
            raise Error(self._said(f"from version {version} on {why}"))
        if (why := misfit(metadata.held(), self.table.columns)) is not None:
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
                f"{gone} is gone from {self.place}, as VACUUM or the clean-up of its log does it, before it had been "
                "read: keep files for longer (delta.deletedFileRetentionDuration, delta.logRetentionDuration), drop "
                "the table, and create it again"
            )) from None  # fmt: skip

    def _translated(self) -> AbstractContextManager[None]:
        return self._folder.translated()


def _without_empty(values: pa.Array) -> pa.Array:
    """Values of a partition: an empty text says NULL there, whatever the column's type (Delta's protocol)."""
    values = plainly_held(values)
    if not pa.types.is_large_string(values.type) and not pa.types.is_string(values.type):
        return values
    return pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values)
