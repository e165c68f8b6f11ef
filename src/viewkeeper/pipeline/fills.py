"""Filling new views and indexes from DELTA, beside the batches (02, "New views, changed views, dropped views").

A fill starts from all rows of the tables as of a held version; then takes what changed up to a newer version, in
rounds, until little is left; takes that between two batches, and becomes visible in one commit.  Until then its runs
are in no manifest: a kill leaves nothing but files of an older epoch, and the next driver starts again.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import Executor as Pool
from concurrent.futures import Future
from dataclasses import dataclass, replace

from viewkeeper.catalog.model import Catalog, Index, Table, View
from viewkeeper.errors import Fenced
from viewkeeper.maintenance.declare import mark_filled
from viewkeeper.pipeline import tasks
from viewkeeper.pipeline.batches import CHAINED_MAX
from viewkeeper.pipeline.job import Executor, Job, TableDifference, TableRows
from viewkeeper.pipeline.term import Term
from viewkeeper.trace.lease import Lease
from viewkeeper.trace.receipt import Receipt, RunRef
from viewkeeper.trace.snapshot import Change, Snapshot

ROUNDS_MAX = 20
RETRY_SECONDS = 1.0
"""Before a failed fill is tried again; ten times as long after each further failure, `RETRY_SECONDS_MAX` at most."""

RETRY_SECONDS_MAX = 100.0
GIVEN_UP = 3
"""Failures in a row after which nobody waits for a fill any longer."""

log = logging.getLogger("viewkeeper")


def unfilled(catalog: Catalog) -> frozenset[int]:
    """The ids of views and indexes that cannot be read yet."""
    items = [i for i in catalog.everything() if isinstance(i, (View, Index))]
    return frozenset(i.id for i in items if i.filled is None and i.stopped is None)


@dataclass
class _Fill:
    """A fill under way.  `rounds` are the receipts so far; `seen` is the snapshot up to which they go, and `upto` the
    one that the running round goes to; each is held by a lease."""

    ids: frozenset[int]
    objects: frozenset[int]
    rows: int
    started: float
    attempt: int
    seen: Snapshot | None
    upto: Snapshot
    leases: dict[int, Lease]
    rounds: list[list[Receipt]]
    running: Future[list[Receipt]]


class Fills:
    """Fills what the catalog says is not filled, one fill at a time; several views declared together are one fill."""

    def __init__(self, executor: Executor, pool: Pool) -> None:
        self.failures = 0
        self.last_error: str | None = None
        self._executor, self._pool = executor, pool
        self._fill: _Fill | None = None
        self._retry_at = 0.0

    @property
    def barriers(self) -> list[int]:
        """The versions from which a fill still needs the difference."""
        fill = self._fill
        return [] if fill is None else [s.version for s in (fill.seen, fill.upto) if s is not None]

    def progress(self) -> dict[str, object] | None:
        """What the running fill is about: ids, rows to read, whether they are read, rounds, when it started."""
        fill = self._fill
        if fill is None:
            return None
        return {"ids": sorted(fill.ids), "rows": fill.rows, "read": bool(fill.rounds), "rounds": len(fill.rounds),
                "started": fill.started}  # fmt: skip

    def step(self, term: Term) -> bool:
        """Starts, continues or ends a fill; True where it did something that others may wait for."""
        fill = self._fill
        if fill is not None and not fill.objects <= {i.id for i in term.snapshot.catalog.everything()}:
            # Something was dropped: what this fill shares with others may no longer be kept for it.
            self.abandon(term)
            return True
        if fill is None:
            ids = unfilled(term.snapshot.catalog)
            if not ids or time.monotonic() < self._retry_at:
                return False
            self._start(term, ids)
            return True
        if not fill.running.done():
            return False
        try:
            fill.rounds.append(fill.running.result())
            self._advance(term, fill)
        except Fenced:
            raise
        except Exception as error:  # noqa: BLE001 - a fill that fails stops no other view; it is tried again
            self.last_error = f"filling {_names(term.snapshot.catalog, fill.ids)} failed: {error}"
            log.warning("%s", self.last_error)
            self.abandon(term)
            self._retry_at = time.monotonic() + min(RETRY_SECONDS * 10**self.failures, RETRY_SECONDS_MAX)
            self.failures += 1
        return True

    def abandon(self, term: Term) -> None:
        """Gives the running fill up; what it wrote is garbage."""
        fill, self._fill = self._fill, None
        if fill is not None:
            fill.running.cancel()
            for lease in fill.leases.values():
                lease.close()
            # Its tasks may still be writing: the files are deleted under a later epoch, or when the round is over.
            fill.running.add_done_callback(lambda _: term.end_attempt(fill.attempt))

    def _start(self, term: Term, ids: frozenset[int]) -> None:
        snapshot = term.snapshot
        program = tasks.zone_programs(snapshot.catalog, ids)
        tables = tuple(sorted(program.tables))
        rows = sum(run.rows for id_ in tables for run in snapshot.states.get(_delta(snapshot.catalog, id_), ()))
        attempt = term.begin_attempt()
        job = self._job(term, snapshot, ids, attempt, TableRows(snapshot.number, tables), rows)
        self._fill = _Fill(
            ids=ids, objects=frozenset(i.id for i in snapshot.catalog.everything()), rows=rows, started=time.time(),
            attempt=attempt, seen=None, upto=snapshot, leases={snapshot.number: Lease(term.storage, snapshot.number)},
            rounds=[], running=self._pool.submit(self._executor.run, job),
        )  # fmt: skip

    def _advance(self, term: Term, fill: _Fill) -> None:
        """After a round: the next one, or the last small one and the commit."""
        if fill.seen is not None:
            fill.leases.pop(fill.seen.number).close()
        fill.seen, snapshot = fill.upto, term.snapshot
        behind = sum(snapshot.positions.values()) - sum(fill.seen.positions.values())
        if behind and fill.seen.number != snapshot.number:
            job = self._difference(term, fill, snapshot, behind)
            if behind > CHAINED_MAX and len(fill.rounds) < ROUNDS_MAX:
                fill.leases[snapshot.number] = Lease(term.storage, snapshot.number)
                fill.upto, fill.running = snapshot, self._pool.submit(self._executor.run, job)
                return
            fill.rounds.append(self._executor.run(job))
        self._commit(term, fill)

    def _commit(self, term: Term, fill: _Fill) -> None:
        version = term.snapshot.version + 1
        added = _ranged(fill.rounds, version)
        catalog = mark_filled(term.snapshot.catalog, fill.ids, version)
        term.commit(Change("fill", version, added=added, catalog=catalog))
        self.failures, self.last_error = 0, None
        self.abandon(term)

    def _difference(self, term: Term, fill: _Fill, newer: Snapshot, operations: int) -> Job:
        assert fill.seen is not None
        tables = tuple(sorted(tasks.zone_programs(fill.seen.catalog, fill.ids).tables))
        source = TableDifference(fill.seen.number, newer.number, tables)
        job = self._job(term, fill.seen, fill.ids, fill.attempt, source, operations)
        return replace(job, private=_runs(_ranged(fill.rounds, newer.version)))

    def _job(
        self, term: Term, base: Snapshot, ids: frozenset[int], attempt: int, source: TableRows | TableDifference,
        rows: int,
    ) -> Job:  # fmt: skip
        zones = tasks.zone_programs(base.catalog, ids).reach(source.tables) | {1}
        root = term.storage.root
        # One view server less than a batch may use: batches and other views go on meanwhile.
        servers = max(1, self._executor.servers - 1) if rows > CHAINED_MAX else 1
        return Job(
            root=str(root), base=base.number, version=base.version, epoch=term.epoch, attempt=attempt, source=source,
            servers=servers, zones=tuple(sorted(zones)), fill=ids,
            title=f"viewkeeper {root.name}: filling {_names(base.catalog, ids)}, {rows:,} rows",
        )  # fmt: skip


def _delta(catalog: Catalog, table: int) -> int:
    item = catalog.by_id(table)
    assert isinstance(item, Table)
    return item.stored.state.id


def _ranged(rounds: list[list[Receipt]], version: int) -> list[Receipt]:
    """The receipts of all rounds with version ranges that keep the rounds in order and end with `version`."""
    first = version - len(rounds) + 1
    return [receipt.at(first + i, first + i) for i, receipts in enumerate(rounds) for receipt in receipts]


def _runs(receipts: list[Receipt]) -> dict[int, tuple[RunRef, ...]]:
    runs: dict[int, tuple[RunRef, ...]] = {}
    for receipt in receipts:
        for run in receipt.runs:
            runs[run.state] = (*runs.get(run.state, ()), run)
    return runs


def _names(catalog: Catalog, ids: frozenset[int]) -> str:
    names = sorted(item.name for item in catalog.everything() if item.id in ids)
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")
