"""An Iceberg table as its writers see it: rows by their id, written with `pyiceberg`, and a model of them in Python."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import AlwaysTrue, EqualTo, In
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record
from pyroaring import BitMap

SCHEMA = pa.schema([("id", pa.int64()), ("g", pa.int32()), ("a", pa.int64()), ("note", pa.string())])
_FIELD = b"PARQUET:field_id"
_DELETES = pa.schema([
    pa.field("file_path", pa.string(), False, {_FIELD: b"2147483546"}),
    pa.field("pos", pa.int64(), False, {_FIELD: b"2147483545"}),
])  # fmt: skip
Row = dict[str, Any]


class IcebergWriter:
    """`rows` is the model: what the table holds; `partitioned_by` are columns and transforms, as `bucket[4]`."""

    def __init__(
        self, folder: Path, partitioned_by: dict[str, str] | None = None, version: int = 2, schema: pa.Schema = SCHEMA
    ) -> None:
        folder.mkdir()
        self.folder, self.schema = folder, schema
        self.uri = f"sqlite:///{folder}/catalog.db"
        self.catalog = load_catalog("foreign", type="sql", uri=self.uri, warehouse=str(folder))
        self.catalog.create_namespace("shop")
        self.partitioned_by, self.version = partitioned_by or {}, version
        self.rows: dict[int, Row] = {}
        self.make()

    def make(self) -> None:
        table = self.catalog.create_table("shop.t", self.schema, properties={"format-version": str(self.version)})
        if self.partitioned_by:
            with table.update_spec() as spec:
                for column, transform in self.partitioned_by.items():
                    spec.add_field(column, transform)

    def make_anew(self) -> None:
        self.catalog.drop_table("shop.t")
        self.rows.clear()
        self.make()

    @property
    def options(self) -> str:
        return f"OPTIONS (table 'shop.t', catalog 'foreign', catalog.type 'sql', catalog.uri '{self.uri}')"

    @property
    def table(self) -> Table:
        return self.catalog.load_table("shop.t")

    @property
    def snapshots(self) -> list[int]:
        return [snapshot.snapshot_id for snapshot in self.table.snapshots()]

    def append(self, rows: list[Row]) -> None:
        """Rows whose keys are not there yet."""
        self.table.append(self._arrow(rows))
        self.rows |= {row["id"]: row for row in rows}

    def merge(self, rows: list[Row], deleted: Iterable[int] = ()) -> None:
        """In one commit: puts `rows`, and deletes what is `deleted`."""
        gone = {*deleted, *(row["id"] for row in rows)}
        with self.table.transaction() as transaction:
            transaction.delete(In("id", gone))
            transaction.append(self._arrow(rows))
        for id_ in gone:
            self.rows.pop(id_, None)
        self.rows |= {row["id"]: row for row in rows}

    def put(self, row: Row) -> None:
        (self.merge if row["id"] in self.rows else self.append)([row])

    def upsert(self, rows: list[Row]) -> None:
        self.table.upsert(self._arrow(rows), ["id"])
        self.rows |= {row["id"]: row for row in rows}

    def delete(self, id_: int) -> None:
        self.table.delete(EqualTo("id", id_))
        self.rows.pop(id_, None)

    def move(self, id_: int, to: int) -> None:
        """Gives a row another key, which no row has."""
        if (row := self.rows.pop(id_, None)) is not None:
            self.rows[to] = {**row, "id": to}
            self.table.overwrite(self._arrow([self.rows[to]]), EqualTo("id", id_))

    def overwrite(self, rows: list[Row]) -> None:
        """Puts `rows` in the place of all."""
        self.table.overwrite(self._arrow(rows), AlwaysTrue())
        self.rows = {row["id"]: row for row in rows}

    def delete_rows(self, ids: Iterable[int], as_vector: bool = False) -> None:
        """Merge-on-read: the positions of rows go into a delete file for each file that has some, in Parquet, or as a
        deletion vector."""
        table, wanted = self.table, set(ids)
        deletes = []
        for task in table.scan().plan_files():
            stored = pq.read_table(task.file.file_path.removeprefix("file://"), columns=["id"])["id"].to_pylist()
            places = [place for place, id_ in enumerate(stored) if id_ in wanted]
            if places:
                write = self._vector if as_vector else self._positions
                deletes.append(write(task.file, places))
        for id_ in wanted:
            self.rows.pop(id_, None)
        if deletes:
            self.add_deletes(deletes)

    def delete_by_value(self, id_: int) -> None:
        """An equality delete, as Flink writes them."""
        path = self._file_name("parquet")
        pq.write_table(pa.table({"id": pa.array([id_], pa.int64())}), path)
        self.add_deletes([self._data_file(path, FileFormat.PARQUET, DataFileContent.EQUALITY_DELETES, 1)])

    def expire(self, snapshots: Iterable[int]) -> None:
        """Snapshots, by their ids, are not known any more."""
        self.table.maintenance.expire_snapshots().by_ids(list(snapshots)).commit()

    def roll_back(self, snapshot: int, rows: dict[int, Row]) -> None:
        """To a snapshot in which the table held `rows`."""
        self.table.manage_snapshots().rollback_to_snapshot(snapshot).commit()
        self.rows = dict(rows)

    def add_deletes(self, deletes: list[DataFile]) -> None:
        with self.table.transaction() as transaction:
            properties = {"added-position-deletes": str(sum(file.record_count for file in deletes))}
            producer = _RowDelta(Operation.DELETE, transaction, self.table.io, snapshot_properties=properties)
            producer.deletes = deletes
            producer.commit()

    def compact(self, said: bool = True) -> None:
        """Puts all rows into one file, in one snapshot, which may say that it changed no data."""
        table = self.table
        files = [task.file for task in table.scan().plan_files()]
        if not files:
            return
        rows = table.scan().to_arrow().cast(schema_to_pyarrow(table.schema()))
        with table.transaction() as transaction, transaction.update_snapshot().overwrite() as snapshot:
            for file in files:
                snapshot.delete_data_file(file)
            path = self._file_name("parquet")
            pq.write_table(rows, path)
            snapshot.append_data_file(self._data_file(path, FileFormat.PARQUET, DataFileContent.DATA, len(rows)))
        if said:
            self._say_that_it_replaced()

    def change(self, chance: random.Random, steps: int, keys: int = 12) -> None:
        """Commits of all kinds."""
        for _ in range(steps):
            kind, id_ = chance.random(), chance.randrange(keys)
            drawn = [self._drawn(chance, i) for i in chance.sample(range(keys), chance.randrange(1, 4))]
            if kind < 0.25:
                self.merge(drawn, chance.sample(range(keys), 2))
            elif kind < 0.4:
                self.upsert(drawn)
            elif kind < 0.5:
                self.delete(id_)
            elif kind < 0.65:
                new = [i for i in range(keys) if i not in self.rows][:3]
                self.append([self._drawn(chance, i) for i in new] or [self._drawn(chance, max(self.rows) + 1)])
            elif kind < 0.72:
                self.move(id_, max([*self.rows, keys]) + 1)
            elif kind < 0.78:
                self.overwrite([self._drawn(chance, i) for i in chance.sample(range(keys), keys // 2)])
            elif kind < 0.94:
                self.delete_rows(chance.sample(range(keys), 2), chance.random() < 0.5)
            elif not self.partitioned_by:
                self.compact()

    def _drawn(self, chance: random.Random, id_: int) -> Row:
        return {"id": id_, "g": chance.choice([None, 1, 2]), "a": chance.choice([None, 1, 2, 9]),
                "note": chance.choice(["x", "y z%/", "", None])}  # fmt: skip

    def _arrow(self, rows: list[Row]) -> pa.Table:
        return pa.Table.from_pylist(rows, self.schema)

    def _file_name(self, end: str) -> str:
        folder = self.folder / "shop" / "t" / "data"
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder / f"{uuid.uuid4()}.{end}")

    def _positions(self, file: DataFile, places: list[int]) -> DataFile:
        path = self._file_name("parquet")
        pq.write_table(pa.table([[file.file_path] * len(places), places], schema=_DELETES), path)
        bound = {2147483546: file.file_path.encode()}
        return self._data_file(path, FileFormat.PARQUET, DataFileContent.POSITION_DELETES, len(places), file, bound)

    def _vector(self, file: DataFile, places: list[int]) -> DataFile:
        """A Puffin file with one blob (Iceberg's spec, "Puffin", `deletion-vector-v1`), without bounds."""
        vector = (1).to_bytes(8, "little") + bytes(4) + BitMap(places).serialize()
        blob = (len(vector) + 4).to_bytes(4, "big") + b"\xd1\xd3\x39\x64" + vector + bytes(4)
        properties = {"referenced-data-file": file.file_path, "cardinality": str(len(places))}
        described = {"type": "deletion-vector-v1", "fields": [2147483645], "snapshot-id": -1, "sequence-number": -1,
                     "offset": 4, "length": len(blob), "properties": properties}  # fmt: skip
        footer = json.dumps({"blobs": [described]}).encode()
        path = self._file_name("puffin")
        Path(path).write_bytes(
            b"PFA1" + blob + b"PFA1" + footer + len(footer).to_bytes(4, "little") + bytes(4) + b"PFA1"
        )
        return self._data_file(path, FileFormat.PUFFIN, DataFileContent.POSITION_DELETES, len(places), file)

    def _data_file(
        self, path: str, format_: FileFormat, content: DataFileContent, rows: int, of: DataFile | None = None,
        bound: dict[int, bytes] | None = None,
    ) -> DataFile:  # fmt: skip
        table = self.table
        file = DataFile.from_args(
            content=content, file_path=path, file_format=format_,
            partition=Record() if of is None else of.partition,
            record_count=rows, file_size_in_bytes=Path(path).stat().st_size, column_sizes={}, value_counts={},
            null_value_counts={}, nan_value_counts={}, lower_bounds=bound or {}, upper_bounds=bound or {},
            key_metadata=None, split_offsets=None, equality_ids=None, sort_order_id=None,
        )  # fmt: skip
        file.spec_id = of.spec_id if of is not None else table.spec().spec_id
        return file

    def _say_that_it_replaced(self) -> None:
        """`pyiceberg` calls all that removes files an overwrite; other writers say of a compaction what it is."""
        path = Path(self.table.metadata_location.removeprefix("file://"))
        metadata = json.loads(path.read_text())
        newest = max(metadata["snapshots"], key=lambda snapshot: snapshot["sequence-number"])
        newest["summary"]["operation"] = "replace"
        path.write_text(json.dumps(metadata))


class _DeleteManifestWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _RowDelta(_FastAppendFiles):
    """A snapshot that adds delete files, which `pyiceberg` reads and cannot write."""

    deletes: list[DataFile]

    def _manifests(self) -> list[ManifestFile]:
        found = self._existing_manifests()
        for spec_id in {file.spec_id for file in self.deletes}:
            spec: PartitionSpec = self.spec(spec_id)
            with _DeleteManifestWriter(
                spec, self.schema(), self.new_manifest_output(), self._snapshot_id, self._compression
            ) as writer:
                for file in self.deletes:
                    if file.spec_id == spec_id:
                        writer.add(ManifestEntry.from_args(
                            status=ManifestEntryStatus.ADDED, snapshot_id=self._snapshot_id, sequence_number=None,
                            file_sequence_number=None, data_file=file,
                        ))  # fmt: skip
            found.append(writer.to_manifest_file())
        return found
