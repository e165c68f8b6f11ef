"""Operations that came in by a log and could not be applied: what they are, and putting them again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from viewkeeper.catalog.model import REJECTED, Catalog, Table
from viewkeeper.errors import InputError, NotFound
from viewkeeper.pipeline.term import Term
from viewkeeper.stores.embedded import EmbeddedStore
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.file import ZoneFile
from viewkeeper.trace.lock import DriverLock
from viewkeeper.trace.naming import file_name
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.snapshot import Change, Snapshot

WAIT_SECONDS = 30.0
"""How long putting again waits for a statement that is being applied."""


def rejected_rows(snapshot: Snapshot, name: str | None) -> Iterator[dict[str, Any]]:
    """The rejected operations (of the table `name`) as dicts; a dropped table is shown by its id."""
    rows = _rejected(snapshot, name)
    names = {table.id: table.name for table in snapshot.catalog.tables}
    columns = [column.name for column in REJECTED.columns]
    for values in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        row = dict(zip(columns, values, strict=True))
        yield {**row, "table": names.get(row["table"], str(row["table"]))}


def put_again(storage: Storage, store: EmbeddedStore, name: str | None) -> int:
    """Does the rejected operations (of the table `name`) again and takes those that are now accepted off the list.

    Returns their number.  The list belongs to the driver, so a running pipeline must be stopped first: raises Busy.
    After a crash in the middle some may be done and still be on the list; doing them once more is harmless where the
    table has a primary key.
    """
    lock = DriverLock(storage)
    lock.acquire("statement", WAIT_SECONDS)
    term = Term(storage, lock)
    try:
        rows = _rejected(term.snapshot, name)
        accepted = _apply(term.snapshot.catalog, store, rows)
        if len(accepted):
            _take_off(term, rows.take(accepted))
        return len(accepted)
    finally:
        term.close()


def _rejected(snapshot: Snapshot, name: str | None) -> Rows:
    rows = snapshot.trace(REJECTED).scan()
    if name is None:
        return rows
    table = snapshot.catalog.find(name)
    if not isinstance(table, Table):
        raise NotFound(f"there is no table {name!r}; SHOW TABLES lists all")
    return rows.filter(rows.columns[0].to_numpy() == table.id)


def _apply(catalog: Catalog, store: EmbeddedStore, rows: Rows) -> np.ndarray:
    """The indices of the operations that the store took, in the order of their logs."""
    tables, nodes, sequences = (column.to_numpy() for column in rows.columns[:3])
    accepted = []
    for i in np.lexsort((sequences, nodes)):
        table = catalog.by_id(int(tables[i]))
        if isinstance(table, Table):
            try:
                store.apply(table, rows.columns[5][int(i)].as_py())
            except InputError:
                continue  # still not acceptable: it stays on the list
            accepted.append(int(i))
    return np.array(accepted, dtype=np.int64)


def _take_off(term: Term, rows: Rows) -> None:
    version = term.snapshot.version + 1
    with term.attempt() as attempt:
        writer = ZoneFile.writer(term.storage.state, file_name(version, term.epoch, 0, 0, attempt, "batch"))
        writer.add(REJECTED, Rows(rows.columns, -rows.weights))
        term.commit(Change("batch", version, added=[writer.finish().at(version, version)]))
