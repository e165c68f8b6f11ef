"""A database whose streams and views over them have parts that were written by hand, for tests of reading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from viewkeeper.catalog.model import PARTS, Catalog, Column, PartView, Stream, Table
from viewkeeper.catalog.types import BIGINT, INT, STRING, TIMESTAMP
from viewkeeper.plans.references import PartQuery, Subscript
from viewkeeper.plans.viewdf import NamedInput, PlannedQuery, ViewDFPlan
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.part_files import PartWriter
from viewkeeper.streams.part_index import Part, PartIndex, read_index, rows_of
from viewkeeper.streams.progress import StreamProgress
from viewkeeper.streams.view_progress import ViewProgress
from viewkeeper.trace.file import ZoneFile
from viewkeeper.trace.local_disk import local_storage
from viewkeeper.trace.naming import file_name
from viewkeeper.trace.receipt import Receipt, RunRef
from viewkeeper.trace.snapshot import Change, Snapshot
from written import physical, stored_as

Row = tuple[Any, ...]

M = Stream(16, "M", (Column("ts", TIMESTAMP, False), Column("src", STRING), Column("loss", INT)), 0, 60)
HOSTS = Table(18, "hosts", (Column("name", STRING, False), Column("site", STRING)), (0,),
              stored_as("keyed", 19, [Column("name", STRING, False), Column("site", STRING)], [0]))  # fmt: skip


def same_part(stream: Stream) -> PlannedQuery:
    """A query that reads part j of a stream for part j."""
    j = Subscript(1, 0)
    text = f"SELECT src, loss FROM {stream.name}[j]"
    return PlannedQuery(PartQuery(text, text, ()), (NamedInput("m", stream.id, j, j),), (), ())


LOSSES = PartView(17, "losses", "INITIALIZE ... UPDATE ...", (Column("src", STRING), Column("n", BIGINT)),
                  60, (16,), (), ViewDFPlan(same_part(M), same_part(M)))  # fmt: skip


class PartDatabase:
    """Each `write` is a version; `hand` gives names to files."""

    def __init__(self, root: Path, zone: str = "UTC", catalog: Catalog | None = None) -> None:
        declared = Catalog((HOSTS, M, LOSSES), next_id=20)
        self.storage = local_storage(root)
        self.storage.initialise(replace(catalog or declared, zone=zone))
        self.snapshot: Snapshot = self.storage.newest()
        self._attempts = 0

    def write(
        self, of: Stream | PartView, parts: Mapping[int, Sequence[Row]] = {}, empty: Iterable[tuple[int, int]] = (),
        stamp: int | None = None, **progress: Any,
    ) -> Snapshot:  # fmt: skip
        """Writes the rows of `parts`, makes the runs `empty` parts without rows, and says how far `of` is."""
        version = self.snapshot.version + 1
        index = before = read_index(self.snapshot).get(of.id, PartIndex())
        receipts, stamp = [], version * 1_000_000 if stamp is None else stamp
        ref, pieces = self._file(of, version, parts)
        for part, rows in parts.items():
            index = index.put(Part(part, part, len(rows), version, stamp, (pieces[part],) if rows else ()))
        for first, last in empty:
            index = index.put(Part(first, last, 0, version, stamp))
        if ref is not None:
            run = RunRef(of.id, ref.name, 0, sum(map(len, parts.values())), ref.length, min(parts), max(parts),
                         version, version)  # fmt: skip
            receipts.append(Receipt(ref, (run,)))
        changes, removed = index.difference(before)
        if changes or removed:
            writer = ZoneFile.writer(self.storage.disk, self._name(version, "parts"))
            writer.add(PARTS, rows_of({of.id: changes}, {of.id: removed}))
            receipts.append(writer.finish().at(version, version))
        kind = StreamProgress if isinstance(of, Stream) else ViewProgress
        told = replace(kind.from_dict(self.snapshot.progress.get(of.id)), **progress)
        self.snapshot = self.storage.next(
            self.snapshot, Change("parts", version, added=receipts, progress={of.id: told.to_dict()})
        )
        return self.snapshot

    def hosts(self, rows: Sequence[Row]) -> Snapshot:
        """Puts rows into the table."""
        version = self.snapshot.version + 1
        held = physical(HOSTS.columns, rows, [1] * len(rows)).select(sorted((0, 1), key=HOSTS.stored.order.__getitem__))
        writer = ZoneFile.writer(self.storage.disk, self._name(version, "table"))
        writer.add(HOSTS.stored.state, held)
        self.snapshot = self.storage.next(
            self.snapshot, Change("batch", version, added=[writer.finish().at(version, version)])
        )
        return self.snapshot

    def _file(self, of: Stream | PartView, version: int, parts: Mapping[int, Sequence[Row]]) -> Any:
        writer = PartWriter(self.storage.disk, self._name(version, "rows") + ".parquet", of.columns, "UTC", False)
        for part, rows in sorted(parts.items()):
            if rows:
                columns = physical(of.columns, rows, [1] * len(rows)).columns
                writer.add(part, Block(columns, np.zeros(len(rows), dtype=np.uint64)))
        return writer.finish()

    def _name(self, version: int, what: str) -> str:
        self._attempts += 1
        return file_name(version, 1, 0, 0, self._attempts, "batch") + "-" + what
