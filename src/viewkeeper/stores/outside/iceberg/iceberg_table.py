"""An Iceberg table (`contract.OutsideTable`): its log has one part, and a position is a snapshot's sequence number."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table as PyIcebergTable
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from viewkeeper.catalog.model import Column, Table
from viewkeeper.errors import Error, LogLost
from viewkeeper.stores.outside.contract import LogEnds, PartRange, ReadPart, Scanned, identity_of
from viewkeeper.stores.outside.iceberg.iceberg_catalog import CatalogEntry, check_place
from viewkeeper.stores.outside.iceberg.iceberg_schema import changed_field, columns_of, projected
from viewkeeper.stores.outside.iceberg.snapshot_rows import SnapshotRows, UnreadableSnapshot
from viewkeeper.stores.outside.iceberg.snapshot_steps import Expired, position_of, snapshot_at, steps
from viewkeeper.stores.outside.lakes.committed_rows import CommitMark
from viewkeeper.stores.outside.lakes.committed_table import PART, CommittedTable
from viewkeeper.stores.outside.lakes.lake_columns import as_columns, misfit

_ROLLED_BACK = ("it was rolled back to an older snapshot, which its views will follow when the next one is committed; "
                "until then they hold what was there before")  # fmt: skip

_ROWS_AT_ONCE = 50_000
"""Rows of so many files are handed on together."""


class IcebergTable(CommittedTable):
    """Rows of an Iceberg table, and its snapshots."""

    def __init__(self, table: Table, zone: str) -> None:
        super().__init__(table, zone)
        assert table.outside is not None
        self._entry = CatalogEntry(dict(table.outside.options), self._said)
        self.place = self._entry.name
        self.poll_seconds = 0.1 if self._entry.is_local else 1.0
        self._lock = threading.Lock()
        self._seen: PyIcebergTable | None = None

    @classmethod
    def check(cls, options: Mapping[str, str], keyless: bool) -> None:
        check_place(options)

    @classmethod
    def columns(cls, options: Mapping[str, str]) -> list[Column]:
        entry = CatalogEntry(options)
        with entry.translated():
            schema = entry.newest().metadata.schema()
        entry.close()
        return as_columns(columns_of(schema))

    def require_there(self) -> None:
        opened = self._look()
        metadata, snapshot = opened.metadata, opened.metadata.current_snapshot()
        if metadata.format_version < 2:
            raise Error(f"{self.place}: its snapshots have no order, as it is of format version 1: ALTER TABLE ... "
                        "SET TBLPROPERTIES ('format-version' = '2'), and write to it once")  # fmt: skip
        if (why := misfit(columns_of(metadata.schema()), self.table.columns)) is not None:
            raise Error(f"{self.place}: {why}")
        if snapshot is not None and not position_of(metadata):
            raise Error(f"{self.place}: its newest snapshot was written when it was of format version 1: write to it "
                        "once")  # fmt: skip
        with self._followed(""):
            if self.form.keyless:
                self._reader(opened, ()).require_readable(snapshot)
                self._require_only_added(metadata)
            else:
                self._require_unique(self._rows(opened, snapshot, self._keys()), all_rows=True)

    def start(self) -> LogEnds:
        metadata = self._look().metadata
        return LogEnds({PART: 0 if self.form.keyless else position_of(metadata)}, {PART: _identity(metadata)})

    def ends(self) -> LogEnds:
        metadata = self._look().metadata
        self._require_fit(metadata, metadata.current_snapshot())
        return LogEnds({PART: position_of(metadata)}, {PART: _identity(metadata)})

    def falls_back(self, part: str, end: int, at: int) -> Error:
        with self._lock:
            seen = self._seen
        if seen is not None and any(snapshot.sequence_number == at for snapshot in seen.metadata.snapshots):
            return Error(self._said(_ROLLED_BACK))
        return super().falls_back(part, end, at)

    def read(self, range_: PartRange) -> ReadPart:
        opened = self._look()
        metadata = opened.metadata
        if opened.last_sequence_number < range_.upto or range_.identity not in ("", _identity(metadata)):
            why = "is not the one that was read before, as if it had been dropped and made anew"
            raise LogLost(self._said(f"the Iceberg table {self.place} {why}: drop the table, and create it again"))
        changes, stamp = self._changes(), 0
        with self._followed():
            self._require_fit(metadata, snapshot_at(metadata, range_.after))
            if not any(snapshot.sequence_number == range_.upto for snapshot in metadata.snapshots):
                raise Error(self._said(f"{self._called(range_.upto)} was withdrawn before it had been read"))
            rows = self._reader(opened, self.table.columns)
            for step in steps(metadata, range_.after, range_.upto):
                # Writers' clocks differ, and what comes later is later here.
                stamp = max(stamp, step.snapshot.timestamp_ms * 1_000)
                if not step.changes_nothing:
                    mark = CommitMark(step.snapshot.sequence_number or 0, stamp)
                    changes.replace(mark, *rows.difference(step.before, step.snapshot))
        return changes.as_read()

    def estimate(self, after: int, upto: int) -> int:
        if upto <= after:
            return 0
        try:
            return max(1, sum(step.rows for step in steps(self._known(), after, upto)))
        except (Expired, Error):  # whoever reads it tells
            return upto - after

    def partway(self, part: str, after: int, end: int, operations: int) -> int:
        """A snapshot in which the table has once been left: of several that came in one commit, as some writers
        overwrite rows, it is the last one.  The end, where no such is known."""
        with self._lock:
            opened = self._seen
        if opened is None:
            return end
        try:
            found, wanted = steps(opened.metadata, after, end), end
            for step in found:
                operations -= step.rows
                if operations <= 0:
                    wanted = step.snapshot.sequence_number or 0
                    break
            with self._entry.translated():
                log = opened.metadata.metadata_log
                at = bisect_left(log, wanted, key=lambda entry: _left_at(opened.io, entry.metadata_file))
                reached = _left_at(opened.io, log[at].metadata_file) if at < len(log) else end
        except (Expired, Error):  # whoever reads it tells
            return end
        return reached if any(step.snapshot.sequence_number == reached for step in found) else end

    def scan(self, since: Mapping[str, int]) -> Iterator[Scanned]:
        opened = self._look()
        with self._followed():
            snapshot = snapshot_at(opened.metadata, since[PART])
            self._require_fit(opened.metadata, snapshot)
            self._require_unique(self._rows(opened, snapshot, self._keys()), all_rows=False)
            yield from self._blocks(self._rows(opened, snapshot, self.table.columns))

    def close(self) -> None:
        with self._lock:
            self._seen = None
            self._entry.close()

    def _look(self) -> PyIcebergTable:
        """The table as it is now."""
        with self._entry.translated(), self._lock:
            self._seen = self._entry.newest()
            return self._seen

    def _known(self) -> TableMetadata:
        with self._lock:
            seen = self._seen
        return (self._look() if seen is None else seen).metadata

    def _called(self, position: int) -> str:
        return f"the snapshot with the sequence number {position}"

    def _keys(self) -> list[Column]:
        return [self.table.columns[i] for i in self.table.key]

    def _reader(self, opened: PyIcebergTable, columns: Sequence[Column]) -> SnapshotRows:
        return SnapshotRows(opened.metadata, opened.io, projected(opened.metadata.schema(), columns))

    def _rows(
        self, opened: PyIcebergTable, snapshot: Snapshot | None, columns: Sequence[Column]
    ) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.Table] = []
        for rows in self._reader(opened, columns).all(snapshot):
            waiting.append(rows)
            if sum(map(len, waiting)) >= _ROWS_AT_ONCE:
                yield from pa.concat_tables(waiting).combine_chunks().to_batches()
                waiting.clear()
        if waiting:
            yield from pa.concat_tables(waiting).combine_chunks().to_batches()

    def _require_only_added(self, metadata: TableMetadata) -> None:
        for step in steps(metadata, 0, position_of(metadata)):
            if step.has_deleted:
                raise Error(f"{self.place}: {self._called(step.snapshot.sequence_number or 0)} deletes or changes "
                            "rows, and a table without PRIMARY KEY is for rows that are only added; declare a PRIMARY "
                            "KEY")  # fmt: skip

    def _require_fit(self, metadata: TableMetadata, snapshot: Snapshot | None) -> None:
        """Raises Error where the table cannot be read any more behind `snapshot`; it may be again."""
        remedy = f"ALTER TABLE {self.table.name} DROP COLUMN ..., or drop the table and create it again"
        now = metadata.schema()
        if (why := misfit(columns_of(now), self.table.columns)) is not None:
            raise Error(self._said(f"{why}: {remedy}"))
        before = _schema_of(metadata, snapshot)
        name = None if before is None else changed_field(before, now, self.table.columns)
        if name is not None:
            raise Error(self._said(f"its column {name} is another one than it was, as if that had been renamed or "
                                   f"dropped, and one of its name been added: {remedy}"))  # fmt: skip

    @contextmanager
    def _followed(self, then: str = "; then drop the table, and create it again") -> Iterator[None]:
        """Raises LogLost where snapshots or their files are gone, or cannot be read, StoreAway where they cannot be
        reached."""
        with self._entry.translated():
            try:
                yield
            except UnreadableSnapshot as unreadable:
                raise LogLost(self._said(f"{self.place} {unreadable}{then}")) from None
            except (Expired, FileNotFoundError) as gone:
                raise LogLost(self._said(
                    f"{gone} is gone from {self.place}, as expire_snapshots or remove_orphan_files do it, before it "
                    "had been read: keep snapshots for longer (history.expire.max-snapshot-age-ms, "
                    "history.expire.min-snapshots-to-keep), drop the table, and create it again"
                )) from None  # fmt: skip


def _identity(metadata: TableMetadata) -> str:
    return identity_of(metadata.table_uuid)


def _schema_of(metadata: TableMetadata, snapshot: Snapshot | None) -> Schema | None:
    """The schema that the table had when a snapshot was written, if that is known."""
    if snapshot is None or snapshot.schema_id is None:
        return None
    return metadata.schema_by_id(snapshot.schema_id)


def _left_at(io: FileIO, metadata_file: str) -> int:
    """The position of the newest snapshot in an earlier state of the table."""
    return position_of(FromInputFile.table_metadata(io.new_input(metadata_file)))
