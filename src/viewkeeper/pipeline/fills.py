"""Filling new views and indexes from DELTA, beside the batches.

A fill starts from all rows of the tables as of a held version; then takes what changed up to a newer version, in
rounds, until little is left; takes that between two batches, and becomes visible in one commit.  Until then its runs
are in no manifest: a kill leaves nothing but files of an older epoch, and the next driver starts again.

A fill that fails is narrowed down: what its failing operator feeds, or else each half, is filled apart, until what
fails is one view or index.  That one is tried again from time to time; all others are filled.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Executor as Pool
from concurrent.futures import Future
from dataclasses import dataclass, replace

from viewkeeper.catalog.model import Catalog, Index, Stored, Table, View
from viewkeeper.changes.positions import operations_between
from viewkeeper.errors import Fenced, is_shortage
from viewkeeper.maintenance.declare_tables import mark_filled
from viewkeeper.maintenance.zones import failed_operator
from viewkeeper.pipeline import tasks
from viewkeeper.pipeline.batches import CHAINED_MAX
from viewkeeper.pipeline.declare_script import declared_anew, runs_without_use
from viewkeeper.pipeline.part_sources import changes_of, index_of
from viewkeeper.pipeline.programs import zone_programs
from viewkeeper.pipeline.replacing import swapped
from viewkeeper.pipeline.term import Term
from viewkeeper.pipeline.work import DriverExecutor, TableDifference, TableRows, ZoneWork
from viewkeeper.streams.part_changes import all_rows
from viewkeeper.trace.lease import Lease
from viewkeeper.trace.receipt import Receipt, RunRef
from viewkeeper.trace.snapshot import Change, Snapshot

ROUNDS_MAX = 20
RETRY_SECONDS = 1.0
"""Before a failed fill is tried again; ten times as long after each further failure, `RETRY_SECONDS_MAX` at most."""

RETRY_SECONDS_MAX = 100.0
GIVEN_UP = 3
"""Failures in a row after which nobody waits for a fill any longer; also how often a fill is tried again as it is where
nothing says which view's program failed."""

log = logging.getLogger("viewkeeper")


def unfilled(catalog: Catalog) -> frozenset[int]:
    """The ids of views and indexes that cannot be read yet."""
    items = [i for i in catalog.whole if isinstance(i, (View, Index))]
    return frozenset(i.id for i in items if i.filled is None and i.stopped is None)


def unadopted(catalog: Catalog) -> frozenset[int]:
    """The ids of tables in outside stores that cannot be read yet."""
    return frozenset(t.id for t in catalog.outside if t.outside is not None and t.outside.adopted is None)


def unready(catalog: Catalog) -> frozenset[int]:
    """The ids of tables, views and indexes that cannot be read yet."""
    return unfilled(catalog) | unadopted(catalog)


def held_back(catalog: Catalog) -> frozenset[int]:
    """The ids of what cannot be filled before a table that it reads, directly or through others, is adopted."""
    back = set(unadopted(catalog))
    if back:
        for item in catalog.objects:
            below = item.reads if isinstance(item, View) else (item.on,) if isinstance(item, Index) else ()
            if back.intersection(below):
                back.add(item.id)
    return frozenset(back)


@dataclass
class _Fill:
    """A fill under way.  `rounds` are the receipts so far; `seen` is the snapshot up to which they go, and `upto` the
    one that the running round goes to; each is held by a lease."""

    ids: frozenset[int]
    objects: Mapping[int, Stored]
    rows: int
    started: float
    attempt: int
    seen: Snapshot | None
    upto: Snapshot
    leases: dict[int, Lease]
    rounds: list[list[Receipt]]
    running: Future[list[Receipt]]


@dataclass
class _Failing:
    """A view or index that could not be filled, though nothing else was: how often, why, and when it is tried again."""

    failures: int
    error: str
    retry_at: float


class Fills:
    """Fills what the catalog says is not filled, one fill at a time; several views declared together are one fill."""

    def __init__(self, executor: DriverExecutor, pool: Pool) -> None:
        self._executor, self._pool = executor, pool
        self._fill: _Fill | None = None
        self._apart: list[frozenset[int]] = []  # what a failed fill was divided into
        self._failing: dict[int, _Failing] = {}
        self._whole = _Failing(0, "", 0.0)  # of fills of which nothing says which view failed

    @property
    def last_error(self) -> str | None:
        """Why what is still not filled could not be."""
        errors = dict.fromkeys(each.error for each in self._failing.values())
        return "; ".join(errors) or self._whole.error or None

    @property
    def failures(self) -> int:
        """How often in a row what fails most has failed."""
        return max([self._whole.failures, *(each.failures for each in self._failing.values())])

    @property
    def given_up(self) -> frozenset[int]:
        """The views and indexes that have failed so often that nobody should wait for them."""
        return frozenset(id_ for id_, each in self._failing.items() if each.failures >= GIVEN_UP)

    def errors(self) -> dict[str, str]:
        """By id (as text) why each view or index that fails could not be filled."""
        return {str(id_): each.error for id_, each in self._failing.items()}

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

    @property
    def running(self) -> list[Future[list[Receipt]]]:
        """What runs beside the steps."""
        return [] if self._fill is None else [self._fill.running]

    def step(self, term: Term) -> bool:
        """Starts, continues or ends a fill; True where it did something that others may wait for."""
        fill, catalog = self._fill, term.snapshot.catalog
        if fill is not None and not _is_as_it_was(fill, catalog):
            self.abandon(term)
            return True
        if fill is None:
            ids = self._next(unfilled(catalog) - held_back(catalog))
            if ids:
                self._start(term, ids)
            return bool(ids)
        if not fill.running.done():
            return False
        try:
            fill.rounds.append(fill.running.result())
            self._advance(term, fill)
        except Fenced:
            raise
        except Exception as error:  # noqa: BLE001 - a fill that fails stops no other view; it is tried again
            self.abandon(term)
            if is_shortage(error):
                raise  # the machine's, not a view's: the driver waits
            self._failed(catalog, fill.ids, str(error))
        return True

    def _next(self, waiting: frozenset[int]) -> frozenset[int]:
        """Which of what waits is to be filled now, together."""
        self._failing = {id_: each for id_, each in self._failing.items() if id_ in waiting}
        self._apart = [ids for each in self._apart if (ids := each & waiting)]
        now = time.monotonic()
        if now < self._whole.retry_at:
            return frozenset()
        if self._apart:
            return self._apart.pop(0)
        # What has never failed comes first, and is not held up by what has.
        return waiting - self._failing.keys() or frozenset(
            id_ for id_, each in self._failing.items() if each.retry_at <= now
        )

    def _failed(self, catalog: Catalog, ids: frozenset[int], message: str) -> None:
        """Sees to it that what made the filling of `ids` fail is narrowed down, or tried again later."""
        error = f"filling {_names(catalog, ids)} failed: {message}"
        log.warning("%s", error)
        if len(ids) == 1:
            (id_,) = ids
            before = self._failing.get(id_)
            self._failing[id_] = _again(error, before.failures if before else 0)
            return
        operator = failed_operator(message)
        culprits = ids & zone_programs(catalog, ids).over(operator) if operator is not None else frozenset[int]()
        if not culprits and self._whole.failures + 1 < GIVEN_UP:
            self._whole = _again(error, self._whole.failures)
            return
        self._whole = _Failing(GIVEN_UP if not culprits else 0, "", 0.0)  # from now on without a pause
        if not culprits or culprits == ids:
            listed = sorted(ids)
            culprits = frozenset(listed[len(listed) // 2 :])
        self._apart[:0] = [ids - culprits, culprits]

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
        program = zone_programs(snapshot.catalog, ids)
        tables = tuple(sorted(program.tables))
        parts = all_rows(program.in_parts, index_of(snapshot))
        rows = sum(run.rows for id_ in tables for run in snapshot.states.get(_delta(snapshot.catalog, id_), ()))
        rows += parts.rows
        lease = Lease(term.storage, snapshot.number)
        attempt = term.begin_attempt()
        work = self._work(term, snapshot, ids, attempt, TableRows(snapshot.ref, tables, parts), rows)
        self._fill = _Fill(
            ids=ids, objects={i.id: i.stored for i in snapshot.catalog.whole}, rows=rows, started=time.time(),
            attempt=attempt, seen=None, upto=snapshot, leases={snapshot.number: lease},
            rounds=[], running=self._pool.submit(tasks.run_zones, self._executor, work),
        )  # fmt: skip

    def _advance(self, term: Term, fill: _Fill) -> None:
        """After a round: the next one, or the last small one and the commit."""
        if fill.seen is not None:
            fill.leases.pop(fill.seen.number).close()
        fill.seen, snapshot = fill.upto, term.snapshot
        program = zone_programs(fill.seen.catalog, fill.ids)
        parts = changes_of(program.in_parts, fill.seen, snapshot)
        behind = operations_between(fill.seen.positions, snapshot.positions) + parts.rows
        if behind and fill.seen.number != snapshot.number:
            source = TableDifference(fill.seen.ref, snapshot.ref, tuple(sorted(program.tables)), parts)
            work = self._work(term, fill.seen, fill.ids, fill.attempt, source, behind)
            work = replace(work, private=_runs(_ranged(fill.rounds, snapshot.version)))
            if behind > CHAINED_MAX and len(fill.rounds) < ROUNDS_MAX:
                fill.leases[snapshot.number] = Lease(term.storage, snapshot.number)
                fill.upto, fill.running = snapshot, self._pool.submit(tasks.run_zones, self._executor, work)
                return
            fill.rounds.append(tasks.run_zones(self._executor, work))
        self._commit(term, fill)

    def _commit(self, term: Term, fill: _Fill) -> None:
        version = term.snapshot.version + 1
        added = _ranged(fill.rounds, version)
        filled = mark_filled(term.snapshot.catalog, fill.ids, version)
        catalog = swapped(filled)
        gone: list[RunRef] = []
        if catalog is not filled:
            catalog = declared_anew(catalog)
            gone = runs_without_use(term.snapshot, catalog)
        term.commit(Change("fill", version, added=added, removed=gone, catalog=catalog))
        self._whole = _Failing(0, "", 0.0)
        self._failing = {id_: each for id_, each in self._failing.items() if id_ not in fill.ids}
        self.abandon(term)

    def _work(
        self, term: Term, base: Snapshot, ids: frozenset[int], attempt: int, source: TableRows | TableDifference,
        rows: int,
    ) -> ZoneWork:  # fmt: skip
        program = zone_programs(base.catalog, ids)
        zones = program.filled()
        root = term.storage.root
        # One view server less than a batch may use: batches and other views go on meanwhile.
        servers = max(1, self._executor.servers - 1) if rows > CHAINED_MAX else 1
        return ZoneWork(
            root=str(root), disk=term.storage.disk, base=base.ref, version=base.version, epoch=term.epoch,
            attempt=attempt, source=source, servers=servers, zones=tuple(sorted(zones)), fill=ids,
            asking=program.asking(zones),
            title=f"viewkeeper {root.name}: filling {_names(base.catalog, ids)}, {rows:,} rows",
        )  # fmt: skip


def _is_as_it_was(fill: _Fill, catalog: Catalog) -> bool:
    """Whether what the fill shares with others is still kept for it: nothing was dropped since it began, no table has
    got other columns, and what it fills was not declared anew."""
    now = {item.id: item.stored for item in catalog.whole}
    if not fill.objects.keys() <= now.keys():
        return False
    same = fill.ids | (fill.objects.keys() & {table.id for table in catalog.tables})
    return all(now[id_] == fill.objects[id_] for id_ in same)


def _again(error: str, failures: int) -> _Failing:
    pause = min(RETRY_SECONDS * 10**failures, RETRY_SECONDS_MAX)
    return _Failing(failures + 1, error, time.monotonic() + pause)


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
    names = sorted(item.name for item in catalog.whole if item.id in ids)
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")
