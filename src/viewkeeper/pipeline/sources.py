"""What enters zone 1: operations of the logs, the signed rows of base tables for a fill, or those of streams' parts.

Every view server reads the whole range of the embedded store's logs and keeps the rows whose keys it owns.  Decoding is
cheaper than a shuffle (docs/decisions/030-spark-jobs.md), and one stage is saved.  Logs of outside stores come over a
network, and are often JSON: where several servers share a batch, each reads some of their parts, in a stage before.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import REJECTED, Table
from viewkeeper.jobs import ring
from viewkeeper.maintenance.operators import arrivals
from viewkeeper.maintenance.task import Sent
from viewkeeper.pipeline.context import ZoneContext
from viewkeeper.pipeline.programs import programs_without
from viewkeeper.pipeline.work import GivenOperations, LogRange, TableDifference, TableRows, ZoneWork
from viewkeeper.stores.outside.contract import PartRange
from viewkeeper.streams.part_changes import PartChanges
from viewkeeper.trace.arrange import key_words, words_of
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.disk import STATE, Disk
from viewkeeper.trace.grouping import group_rows
from viewkeeper.trace.hashing import canonical, hash_columns
from viewkeeper.trace.points import reached
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.snapshot import Snapshot
from viewkeeper.trace.trace import difference

REJECTS = "rejected"
"""The target of what cannot be applied of the parts that a stage before zone 1 has read."""


def read(work: ZoneWork, server: int, storage: Storage, base: Snapshot, context: ZoneContext) -> dict[str, list[Sent]]:
    """The share of `server` in the source of `work`, by target of zone 1."""
    if isinstance(work.source, LogRange):
        operations = _operations(work, work.source, server, base, context)
    elif isinstance(work.source, GivenOperations):
        operations = _given(work.disk, work.source, base)
    elif isinstance(work.source, PartChanges):
        return _changes(work, work.source, server, base)
    else:
        shares = {f"delta:{id_}": _signed(work, server, storage, base, id_) for id_ in work.source.tables}
        found = {target: [share] for target, share in shares.items() if share is not None}
        return found | _changes(work, work.source.parts, server, base)
    inbox: dict[str, list[Sent]] = {}
    for target, sent in operations:
        inbox.setdefault(target, []).append(_own(sent, server, work.servers))
    reached("log read")
    return inbox


def _changes(work: ZoneWork, changes: PartChanges, server: int, base: Snapshot) -> dict[str, list[Sent]]:
    """The server's share of what came to parts and went from them."""
    inbox: dict[str, list[Sent]] = {}
    for operator in programs_without(base.catalog, work.fill, work.left_out).arrivals:
        of = base.catalog.source(operator.object)
        for target, signed in ((arrivals.came, changes.came), (arrivals.expired, changes.expired)):
            pieces, name = signed.get(of.id), target(of.id, operator.timed)
            if pieces is not None and name not in inbox:
                rows = pieces.read(work.disk, of.columns, of.length, timed=operator.timed)
                columns = [canonical(column) for column in rows.columns]
                own = _own(Sent(rows, hash_columns(columns, len(rows))), server, work.servers)
                inbox[name] = [_netted(own)]
    return inbox


def _netted(sent: Sent) -> Sent:
    """Without rows that go and come again: of parts that were written anew."""
    if not (sent.rows.weights < 0).any() or not (sent.rows.weights > 0).any():
        return sent
    groups = group_rows(sent.hashes, [canonical(column) for column in sent.rows.columns])
    weights = np.add.reduceat(sent.rows.weights[groups.order], groups.starts)
    firsts = groups.firsts[weights != 0]
    return Sent(Rows(sent.rows.take(firsts).columns, weights[weights != 0]), sent.hashes[firsts])


def _signed(work: ZoneWork, server: int, storage: Storage, base: Snapshot, id_: int) -> Sent | None:
    """The server's share of a table's signed rows, None where there are none."""
    table = base.catalog.by_id(id_)
    assert isinstance(table, Table) and isinstance(work.source, TableRows | TableDifference)
    spec, (low, high) = table.stored.state, ring.interval(server, work.servers)
    if isinstance(work.source, TableRows):
        trace = storage.at(*work.source.at).trace(spec)
        if server == 0:  # damage that one server finds stops them all
            for run in trace.runs:
                run.verify()
        rows = trace.scan(low=low, high=high)
    else:
        older, newer = storage.at(*work.source.older), storage.at(*work.source.newer)
        rows = difference(older.trace(spec), newer.trace(spec), low, high)
    if not len(rows):
        return None
    hashes = words_of(spec, [canonical(column) for column in rows.columns], len(rows))
    return Sent(rows.select(table.yielded), hashes)


def _operations(
    work: ZoneWork, source: LogRange, server: int, base: Snapshot, context: ZoneContext
) -> Iterator[tuple[str, Sent]]:
    tables = {table.id: table for table in base.catalog.tables}
    for slice_ in source.slices:
        if work.servers > 1 and isinstance(slice_, PartRange):
            continue  # `read_parts` has read it
        batch = source.reader.read(slice_, tables, ring.interval(server, work.servers))
        if server == 0:  # one server speaks for what is read by all
            context.write(REJECTED, batch.rejected)
            for id_, number in batch.skipped.items():
                context.count(f"skipped:{id_}", number)
        for id_, rows in batch.operations:
            yield f"ops:{id_}", Sent(rows, key_hashes(tables[id_], rows))


def has_parts(work: ZoneWork) -> bool:
    """Whether parts of outside logs are read in a stage of their own."""
    return work.servers > 1 and work.carried is None and isinstance(work.source, LogRange) and any(
        isinstance(slice_, PartRange) for slice_ in work.source.slices
    )  # fmt: skip


def read_parts(work: ZoneWork, server: int, base: Snapshot) -> dict[str, list[Sent]]:
    """What the parts of outside logs hold that `server` is to read, by target of zone 1, whoever owns its keys; what is
    rejected of them has the target `REJECTS`, and the hash 0."""
    assert isinstance(work.source, LogRange)
    tables = {table.id: table for table in base.catalog.tables}
    parts = [slice_ for slice_ in work.source.slices if isinstance(slice_, PartRange)]
    found: dict[str, list[Sent]] = {}
    for part in parts[server :: work.servers]:
        batch = work.source.reader.read(part, tables)
        if len(batch.rejected):
            found.setdefault(REJECTS, []).append(Sent(batch.rejected, np.zeros(len(batch.rejected), np.uint64)))
        for id_, rows in batch.operations:
            found.setdefault(f"ops:{id_}", []).append(Sent(rows, key_hashes(tables[id_], rows)))
    return found


def _given(disk: Disk, source: GivenOperations, base: Snapshot) -> Iterator[tuple[str, Sent]]:
    for id_ in source.tables:
        table = base.catalog.by_id(id_)
        assert isinstance(table, Table)
        with pa.OSFile(str(disk.local(f"{STATE}/{source.files[id_]}"))) as file, pa.ipc.open_file(file) as reader:
            for i in range(reader.num_record_batches):
                batch = reader.get_batch(i)
                rows = Rows(batch.columns, np.ones(len(batch), np.int64))
                yield f"ops:{id_}", Sent(rows, key_hashes(table, rows))


def key_hashes(table: Table, rows: Rows) -> np.ndarray:
    """The hash of each operation's primary key (or hidden row id), which is also its row's word in DELTA: uint64[n]."""
    positions = table.key or (len(table.columns),)
    together = table.stored.state.together
    return key_words([canonical(rows.columns[i]) for i in positions], len(rows), together)


def _own(sent: Sent, server: int, servers: int) -> Sent:
    if servers == 1:
        return sent
    mine = np.flatnonzero(ring.are_within(sent.hashes, *ring.interval(server, servers)))
    return Sent(sent.rows.take(mine), sent.hashes[mine])
