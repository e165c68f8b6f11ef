"""Operations that came in by a log and could not be applied, and rows that a stream could not take: what they are, and
putting them again."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from viewkeeper.catalog.model import REJECTED, Catalog, Stream, Table
from viewkeeper.catalog.types import logical_type
from viewkeeper.errors import InputError, NotFound
from viewkeeper.files import json_object
from viewkeeper.pipeline.term import Term, acquired
from viewkeeper.stores.contract import Store
from viewkeeper.streams.intake.append import StreamTarget, append
from viewkeeper.streams.intake.conversion import Conversion
from viewkeeper.streams.intake.given import batches
from viewkeeper.streams.intake.stream_log import StreamLog
from viewkeeper.streams.intake.taking import NO_NODE
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.file import ZoneFile
from viewkeeper.trace.naming import file_name
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.snapshot import Change, Snapshot


def rejected_rows(snapshot: Snapshot, name: str | None) -> Iterator[dict[str, Any]]:
    """What was rejected (of the table or stream `name`) as dicts; what was dropped since is shown by its id.

    Of a stream, `operation` is the row as a JSON text, `sequence` the place of its append in the stream's log.
    """
    rows = _rejected(snapshot, name)
    names = {table.id: table.name for table in snapshot.catalog.tables}
    names |= {stream.id: stream.name for stream in snapshot.catalog.streams}
    columns = [column.name for column in REJECTED.columns]
    lists = [column.to_pylist() for column in rows.columns]
    for *values, weight in zip(*lists, rows.weights.tolist(), strict=True):
        row = dict(zip(columns, values, strict=True))
        if row["node"] == NO_NODE:
            row["operation"] = row["operation"].decode()
        for _ in range(weight):
            yield {**row, "table": names.get(row["table"], str(row["table"]))}


def put_again(storage: Storage, store: Store, name: str | None) -> int:
    """Does what was rejected (of the table or stream `name`) again and takes what is now accepted off the list.

    Returns their number.  The list belongs to the driver, so a running pipeline must be stopped first: raises Busy.
    After a crash in the middle some may be done and still be on the list; doing them once more is harmless for a
    stream, and where a table has a primary key.
    """
    term = Term(storage, acquired(storage, "statement"))
    try:
        rows = _rejected(term.snapshot, name)
        tables = _apply(term.snapshot.catalog, store, rows)
        streams = [_append_again(storage, stream, term.snapshot.catalog.zone, rows)
                   for stream in term.snapshot.catalog.streams if stream.outside is None]  # fmt: skip
        accepted = np.concatenate([tables, *streams])
        if len(accepted):
            _take_off(term, rows.take(accepted))
        return int(rows.weights[accepted].sum())
    finally:
        term.close()


def _rejected(snapshot: Snapshot, name: str | None) -> Rows:
    rows = snapshot.trace(REJECTED).scan()
    if name is None:
        return rows
    found = snapshot.catalog.find(name)
    if not isinstance(found, (Table, Stream)):
        raise NotFound(f"there is no table or stream {name!r}; SHOW TABLES and SHOW STREAMS list what there is")
    return rows.filter(rows.columns[0].to_numpy() == found.id)


def _apply(catalog: Catalog, store: Store, rows: Rows) -> np.ndarray:
    """The indices of the operations that the store took, in the order of their logs."""
    tables, nodes, sequences = (column.to_numpy() for column in rows.columns[:3])
    accepted = []
    for i in np.lexsort((sequences, nodes)):
        table = catalog.by_id(int(tables[i]))
        if isinstance(table, Table) and table.outside is None:  # others are put there, with what wrote them
            try:
                store.apply(table, rows.columns[5][int(i)].as_py())
            except InputError:
                continue  # still not acceptable: it stays on the list
            accepted.append(int(i))
    return np.array(accepted, dtype=np.int64)


def _append_again(storage: Storage, stream: Stream, zone: str, rows: Rows) -> np.ndarray:
    """The indices of the rows of `stream` that it took now, in one append: with an id that is made of them, so that
    after a crash it is not done twice."""
    mine = np.flatnonzero(rows.columns[0].to_numpy() == stream.id)
    if not len(mine):
        return mine
    with StreamLog(storage.root, storage.disk) as log:
        watermark = log.watermark(stream.id)
    types = {column.name.lower(): logical_type(column.type) for column in stream.columns}
    conversion, given, accepted, digest = Conversion(stream, zone, time.time()), [], [], hashlib.sha256()
    for i in mine.tolist():
        operation = rows.columns[5][i].as_py()
        row = json_object(operation, types)
        if not any(conversion.rows(batch, watermark)[1] for batch in batches(stream, [row])):
            given += [row] * int(rows.weights[i])
            accepted.append(i)
            digest.update(f"{rows.columns[2][i]} {rows.weights[i]} {len(operation)} ".encode() + operation)
    if given:
        append(StreamTarget(storage, stream, zone), given, f"rejected, and put again: {digest.hexdigest()}")
    return np.array(accepted, dtype=np.int64)


def _take_off(term: Term, rows: Rows) -> None:
    version = term.snapshot.version + 1
    with term.attempt() as attempt:
        writer = ZoneFile.writer(term.storage.disk, file_name(version, term.epoch, 0, 0, attempt, "batch"))
        writer.add(REJECTED, Rows(rows.columns, -rows.weights))
        term.commit(Change("batch", version, added=[writer.finish().at(version, version)]))
