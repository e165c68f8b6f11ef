"""The rows that differ between two snapshots of an Iceberg table, by the files that each of them has.

Snapshots share manifests, which are never changed; only those of one of the two are read.  A file's rows are those
whose positions are in none of its delete files (Iceberg's spec, "Scan Planning").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.exceptions import ResolveError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.table.delete_file_index import DeleteFileIndex
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.puffin import PuffinFile
from pyiceberg.table.snapshots import Snapshot


class UnreadableSnapshot(Exception):
    """A snapshot has files that cannot be read here: why, and what to do."""


@dataclass(frozen=True)
class _LiveFile:
    """A file of rows, and the files that say which of its rows are deleted."""

    data: DataFile
    deletes: frozenset[str]


_NONE = np.zeros(0, np.int64)


@dataclass
class SnapshotRows:
    """Reads rows as `schema` has them, fields of the table's present schema."""

    metadata: TableMetadata
    io: FileIO
    schema: Schema
    _positions: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)

    def require_readable(self, snapshot: Snapshot | None) -> None:
        """Raises UnreadableSnapshot, as all that reads does."""
        self._live([] if snapshot is None else snapshot.manifests(self.io))

    def all(self, snapshot: Snapshot | None) -> Iterator[pa.Table]:
        """All rows of a snapshot, which may be none, a file at a time."""
        if snapshot is not None:
            live, deletes = self._live(snapshot.manifests(self.io))
            for file in live.values():
                yield self._but(file.data, self._deleted(file, deletes))

    def difference(self, earlier: Snapshot | None, later: Snapshot) -> tuple[pa.Table, pa.Table]:
        """Rows that have gone, and that have come, among which the same ones may be."""
        old, new = [] if earlier is None else earlier.manifests(self.io), later.manifests(self.io)
        if not any(manifest.content == ManifestContent.DELETES for manifest in (*old, *new)):
            shared = set(old) & set(new)
            old, new = ([manifest for manifest in each if manifest not in shared] for each in (old, new))
        (had, had_deletes), (has, has_deletes) = self._live(old), self._live(new)
        gone, came = [self._no_rows()], [self._no_rows()]
        for path in [*had, *(path for path in has if path not in had)]:
            was, now = had.get(path), has.get(path)
            if was is None and now is not None:
                came.append(self._but(now.data, self._deleted(now, has_deletes)))
            elif was is not None and now is None:
                gone.append(self._but(was.data, self._deleted(was, had_deletes)))
            elif was is not None and now is not None and was.deletes != now.deletes:
                before, since = self._deleted(was, had_deletes), self._deleted(now, has_deletes)
                gone.append(self._at(now.data, np.setdiff1d(since, before)))
                came.append(self._at(now.data, np.setdiff1d(before, since)))
        return pa.concat_tables(gone), pa.concat_tables(came)

    def _live(self, manifests: list[ManifestFile]) -> tuple[dict[str, _LiveFile], dict[str, DataFile]]:
        """The files of rows by their paths, and the delete files by theirs."""
        rows, deletes, index = [], dict[str, DataFile](), DeleteFileIndex()
        for entry in chain.from_iterable(manifest.fetch_manifest_entry(self.io) for manifest in manifests):
            file = entry.data_file
            if file.content == DataFileContent.EQUALITY_DELETES:
                raise UnreadableSnapshot(
                    "has equality deletes, which is not supported: rewrite its data files, so that they are applied, "
                    "and have it written by copy-on-write, or by merge-on-read with position deletes"
                )
            if file.content == DataFileContent.POSITION_DELETES:
                index.add_delete_file(entry, file.partition)
                deletes[file.file_path] = file
            elif file.file_format != FileFormat.PARQUET:
                raise UnreadableSnapshot(
                    f"has data files in {file.file_format.value}, which is not supported: have it written in Parquet "
                    "(write.format.default), and rewrite those"
                )
            else:
                rows.append((file, entry.sequence_number or 0))
        return {
            file.file_path: _LiveFile(file, frozenset(
                delete.file_path for delete in index.for_data_file(sequence, file, file.partition)
            ))
            for file, sequence in rows
        }, deletes  # fmt: skip

    def _deleted(self, file: _LiveFile, deletes: dict[str, DataFile]) -> np.ndarray:
        """The positions of its deleted rows, ascending."""
        found = [self._positions_in(deletes[path]).get(file.data.file_path, _NONE) for path in file.deletes]
        return np.unique(np.concatenate([_NONE, *found]))

    def _positions_in(self, file: DataFile) -> dict[str, np.ndarray]:
        """What a delete file says: positions by the paths of files."""
        found = self._positions.get(file.file_path)
        if found is None:
            found = self._positions[file.file_path] = _read_positions(self.io, file)
        return found

    def _at(self, file: DataFile, positions: np.ndarray) -> pa.Table:
        """The rows of a file at these positions."""
        return self._whole(file).take(pa.array(positions)) if len(positions) else self._no_rows()

    def _but(self, file: DataFile, positions: np.ndarray) -> pa.Table:
        """The rows of a file that are at others than these positions."""
        rows = self._whole(file)
        return rows.take(pa.array(np.setdiff1d(np.arange(len(rows)), positions))) if len(positions) else rows

    def _whole(self, file: DataFile) -> pa.Table:
        """All rows of a file, in their order, whatever was deleted."""
        scan, nothing = ArrowScan(self.metadata, self.io, self.schema, AlwaysTrue()), self._no_rows()
        try:
            batches = list(scan.to_record_batches([FileScanTask(file)]))
        except (ResolveError, ValueError) as error:
            raise UnreadableSnapshot(
                f"has a file that does not fit its schema, {file.file_path} ({error}): rewrite it"
            ) from error
        return pa.concat_tables([nothing, *(pa.Table.from_batches([batch]).cast(nothing.schema) for batch in batches)])

    def _no_rows(self) -> pa.Table:
        return schema_to_pyarrow(self.schema, include_field_ids=False).empty_table()


def _read_positions(io: FileIO, file: DataFile) -> dict[str, np.ndarray]:
    with io.new_input(file.file_path).open() as stream:
        if file.file_format == FileFormat.PUFFIN:
            vectors = deletion_vectors_from_puffin_file(PuffinFile(stream.read()))
            return {each.referenced_data_file: each.to_vector().to_numpy() for each in vectors}
        if file.file_format != FileFormat.PARQUET:
            raise UnreadableSnapshot(
                f"has delete files in {file.file_format.value}, which is not supported: have them written in Parquet "
                "(write.delete.format.default), and rewrite those"
            )
        rows = pq.read_table(stream, columns=["file_path", "pos"])
    paths, places = rows["file_path"].to_numpy(), rows["pos"].to_numpy()
    order = np.argsort(paths, kind="stable")
    names, begins = np.unique(paths[order], return_index=True)
    return dict(zip(names.tolist(), np.split(places[order], begins[1:]), strict=True))
