"""`rebase`: the views made equal to a store whose logs are not those that they have read.

What DELTA holds of each base table and what the store does are compared; the rows in which they differ are the
operations of one batch, which is committed with the positions and running hashes of the store at that moment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Table
from viewkeeper.catalog.operation_kinds import DELETE, PUT
from viewkeeper.changes.operations import ROW_ID_NODE_BITS, Operations, TableForm
from viewkeeper.changes.positions import LogName
from viewkeeper.permissions import open_new
from viewkeeper.pipeline import tasks
from viewkeeper.pipeline.batches import CHAINED_MAX
from viewkeeper.pipeline.programs import zone_programs
from viewkeeper.pipeline.term import Term, acquired
from viewkeeper.pipeline.work import DriverExecutor, GivenOperations, ZoneWork
from viewkeeper.stores.contract import Moment, Store
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.disk import STATE, Disk
from viewkeeper.trace.hashing import canonical, hash_columns
from viewkeeper.trace.keys import equal_rows
from viewkeeper.trace.naming import file_name
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.snapshot import Change
from viewkeeper.trace.trace import GREATEST_WORD, Trace

SCANNED_AT_ONCE = 200_000
"""About so many of DELTA's rows are looked up in the store at once."""

RebaseProgress = Callable[[str, int], None]


@dataclass(frozen=True)
class Rebased:
    """The version that is equal to the store; `done` is False where nothing had to be done.  `changed`: how many rows
    were put or deleted, by table; those without any are left out."""

    version: int
    done: bool
    changed: Mapping[str, int]


def rebase(
    storage: Storage, store: Store, make_executor: Callable[[], DriverExecutor], progress: RebaseProgress | None = None
) -> Rebased:
    """See `Database.rebase`.  Killed on the way, it leaves everything as it was."""
    newest = storage.newest()
    if not store.replaced(newest.positions, newest.hashes):
        return Rebased(newest.version, False, {})
    lock = acquired(storage, "rebase")
    try:
        executor = make_executor()
        try:
            return _rebase(Term(storage.another(), lock), store, executor, progress or _silent)
        finally:
            executor.close()
    finally:
        lock.release()


def _rebase(term: Term, store: Store, executor: DriverExecutor, progress: RebaseProgress) -> Rebased:
    before = term.snapshot
    replaced = store.replaced(before.positions, before.hashes)
    tables = [table for table in before.catalog.tables if table.outside is None]
    changed: dict[int, int] = {}
    with term.attempt() as attempt:
        files = {table.id: file_name(before.version + 1, term.epoch, 0, 0, attempt, "rebase", "arrow")
                 for table in tables}  # fmt: skip
        try:
            with store.at_one_moment() as moment:
                for table in tables:
                    count = _write_difference(term.storage.disk, files[table.id], table,
                                              before.trace(table.stored.state), moment, progress)  # fmt: skip
                    if count:
                        changed[table.id] = count
            doubtful: dict[LogName, int] = {
                node: max(before.positions.get(node, 0), moment.positions[node]) for node in replaced
            }
            change = Change("rebase", before.version + 1, positions={**before.positions, **moment.positions},
                            hashes={**before.hashes, **moment.hashes},
                            stamp=moment.stamp, rebased=before.rebased | doubtful)  # fmt: skip
            _commit(term, executor, change, GivenOperations({id_: files[id_] for id_ in changed}), attempt,
                    sum(changed.values()))  # fmt: skip
        finally:
            term.storage.disk.delete([f"{STATE}/{name}" for name in files.values()])
    return Rebased(
        term.snapshot.version, True, {t.name: changed[t.id] for t in before.catalog.tables if t.id in changed}
    )


def _commit(
    term: Term, executor: DriverExecutor, change: Change, source: GivenOperations, attempt: int, operations: int
) -> None:  # fmt: skip
    snapshot, root = term.snapshot, term.storage.root
    if not operations:
        term.commit(change)
        return
    program = zone_programs(snapshot.catalog, None)
    zones = program.reach(source.tables) | {1}
    work = ZoneWork(
        root=str(root), disk=term.storage.disk, base=snapshot.ref, version=change.version, epoch=term.epoch,
        attempt=attempt, source=source, servers=executor.servers if operations > CHAINED_MAX else 1,
        zones=tuple(sorted(zones)), asking=program.asking(zones),
        title=f"viewkeeper {root.name}: rebase {change.version}, {operations:,} operations",
    )  # fmt: skip
    receipts = tasks.run_zones(executor, work)
    term.commit(replace(change, added=[receipt.at(change.version, change.version) for receipt in receipts]))


def _write_difference(
    disk: Disk, name: str, table: Table, delta: Trace, moment: Moment, progress: RebaseProgress
) -> int:
    """Writes the operations that make DELTA's rows those of the store; how many."""
    form, compared, written = TableForm(table), 0, 0
    schema = pa.schema([(str(i), type_) for i, type_ in enumerate(form.operation_types())])
    path = disk.scratch(f"{STATE}/{name}")
    os.close(open_new(path))
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for looked_at, rows in chain(_puts(form, delta, moment), _deletes(form, delta, moment)):
            compared += looked_at
            progress(table.name, compared)
            if len(rows):
                writer.write_batch(pa.RecordBatch.from_arrays(rows.columns, schema=schema))
                written += len(rows)
    disk.upload(path, f"{STATE}/{name}")
    return written


def _puts(form: TableForm, delta: Trace, moment: Moment) -> Iterator[tuple[int, Rows]]:
    """The store's rows that DELTA does not hold as they are; before them, how many were looked at."""
    table, width = form.table, len(form.types)
    key = table.key or (width,)
    order = table.stored.order if table.key else (*table.stored.order, 0)
    for node, unsorted in moment.rows(table):
        length = len(unsorted[0])
        hashes = hash_columns([canonical(unsorted[i]) for i in key], length)
        by_hash = np.argsort(hashes, kind="stable")
        columns = [column.take(pa.array(by_hash)) for column in unsorted]
        found, old = delta.lookup(hashes[by_hash], [canonical(columns[i]) for i in key], columns=list(order))
        changed = pa.array(np.flatnonzero(~(found & equal_rows(columns, old))))
        puts = [column.take(changed) for column in columns]
        if table.key:
            sequences = np.full(len(changed), moment.positions[node])
        else:  # The row id is made of node and sequence.
            sequences = puts[width].to_numpy() & ((1 << ROW_ID_NODE_BITS) - 1)
        yield length, form.as_rows(Operations(PUT, puts[:width]), node, sequences, _stamps(moment, len(changed)))


def _deletes(form: TableForm, delta: Trace, moment: Moment) -> Iterator[tuple[int, Rows]]:
    """Deletes of DELTA's rows that the store does not hold."""
    table = form.table
    key = [table.stored.order[i] for i in table.key] if table.key else [0]
    slices = delta.rows // SCANNED_AT_ONCE + 1
    edges = [i * (GREATEST_WORD + 1) // slices for i in range(slices + 1)]
    for low, above in pairwise(edges):
        held = delta.scan(key, low, above - 1)
        gone = np.flatnonzero(~moment.holds(table, held.columns))
        keys = [column.take(pa.array(gone)) for column in held.columns]
        rows = form.as_rows(Operations(DELETE, keys), 0, np.zeros(len(gone), np.int64), _stamps(moment, len(gone)))
        yield len(held), rows


def _stamps(moment: Moment, count: int) -> np.ndarray:
    return np.full(count, moment.stamp, np.int64)


def _silent(table: str, rows: int) -> None:
    """Progress that nobody asked for."""
