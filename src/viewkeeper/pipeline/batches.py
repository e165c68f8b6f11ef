"""One batch: a consistent cut of the logs, run through the zones, committed as the next version."""

from __future__ import annotations

import logging
import time
from collections import Counter

from viewkeeper.catalog.model import Catalog
from viewkeeper.changes.positions import Cut, Positions, is_reached
from viewkeeper.errors import Fenced, is_shortage
from viewkeeper.maintenance import declare_tables
from viewkeeper.maintenance.zones import failed_operator
from viewkeeper.pipeline import tasks
from viewkeeper.pipeline.declare_script import declared_anew
from viewkeeper.pipeline.programs import programs_without, zone_programs
from viewkeeper.pipeline.shortage import APART_SECONDS, Apart
from viewkeeper.pipeline.term import Term
from viewkeeper.pipeline.work import DriverExecutor, LogRange, ZoneWork
from viewkeeper.stores.contract import LogReader
from viewkeeper.stores.logs import Logs
from viewkeeper.trace.receipt import Receipt
from viewkeeper.trace.snapshot import Change

OPERATIONS_MAX = 1_000_000
"""A batch takes what the logs hold, up to about this."""

OPERATIONS_LEAST = 1_000
"""A batch that ran into a shortage is tried again with half as many operations, down to so many; memory may suffice for
these."""

CHAINED_MAX = 300_000
"""Up to so many operations the whole chain is one task: stages would cost more than a second core saves
(docs/decisions/030-spark-jobs.md)."""

ATTEMPTS = 3

GATHERED_SECONDS = (0.005, 0.03)
"""The first batch after a pause waits until nothing more has come for so long, but at most so long in all: what a
program writes in several calls is one batch then, where it would be two, and late by the first."""

log = logging.getLogger("viewkeeper")


class Batches:
    """Runs batches; `operations` and `counters` add up what they held and counted."""

    def __init__(self, logs: Logs, executor: DriverExecutor, operations_max: int = OPERATIONS_MAX) -> None:
        self.operations = 0
        self.counters: Counter[str] = Counter()
        self.last_error: str | None = None
        self._logs, self._executor, self._operations_max = logs, executor, operations_max
        self._limit = operations_max  # of the next batch: fewer while the machine is short of something
        self._apart = Apart()
        self._idle = False

    def step(self, term: Term) -> Cut | None:
        """Commits the next batch and returns its cut; None where the logs hold nothing new."""
        after, catalog = term.snapshot.positions, term.snapshot.catalog
        ends = self._logs.ends(catalog)
        if is_reached(ends, after):
            self._idle = True
            return None
        if self._idle:
            self._gather(catalog, ends)
            self._idle = False
        cut = self._logs.cut(catalog, self._limit, after, term.snapshot.hashes)
        if not cut.operations:
            return None
        for tried in range(1, ATTEMPTS + 1):
            with term.attempt() as attempt:
                try:
                    work = work_of(term, self._logs.reader, cut, attempt, self._executor.servers)
                    receipts = tasks.run_zones(self._executor, work)
                except Fenced:
                    raise
                except Exception as error:  # noqa: BLE001 - whatever went wrong in a task, a new attempt may succeed
                    if self._logs.hold_up(error):
                        return None  # the next batch goes without that table's log
                    if is_shortage(error):
                        fewer = max(min(cut.operations, self._limit) // 2, OPERATIONS_LEAST)
                        self._limit = min(fewer, self._operations_max)
                        if self._stop_for_shortage(term, cut, str(error)):
                            return cut
                        raise
                    self.last_error = f"batch {term.snapshot.version + 1} failed: {error}"
                    if tried == ATTEMPTS:
                        if not stop_failing_views(term, str(error)):
                            raise
                        return cut
                    log.warning("%s; it is tried again", self.last_error)
                    continue
                self._commit(term, cut, receipts)
                return cut
        raise AssertionError("the last attempt returns or raises")

    def _gather(self, catalog: Catalog, ends: Positions) -> None:
        quiet, most = GATHERED_SECONDS
        for _ in range(round(most / quiet)):
            time.sleep(quiet)
            before, ends = ends, self._logs.ends(catalog)
            if is_reached(ends, before):
                return

    def _stop_for_shortage(self, term: Term, cut: Cut, message: str) -> bool:
        """Stops the view that the machine cannot keep, where it has long been clear which; whether it did."""

        def succeeds(left_out: frozenset[int]) -> bool:
            with term.attempt() as attempt:
                try:
                    work = work_of(term, self._logs.reader, cut, attempt, self._executor.servers, left_out)
                    tasks.run_zones(self._executor, work)
                except Exception as error:
                    if not is_shortage(error):
                        raise
                    return False
                return True

        catalog, operator = term.snapshot.catalog, failed_operator(message)
        suspects = set() if operator is None else zone_programs(catalog, None).over(operator)
        culprit = self._apart.culprit(catalog, suspects, succeeds)
        if culprit is None:
            return False
        reason = (
            f"the machine cannot keep it: its program, run apart, has failed for {APART_SECONDS:g} s while the "
            f"others' succeeded: {_told(message)}"
        )
        _stop(term, {culprit}, reason)
        self._apart.went_well()
        return True

    def _commit(self, term: Term, cut: Cut, receipts: list[Receipt]) -> None:
        version = term.snapshot.version + 1
        added = [receipt.at(version, version) for receipt in receipts]
        change = Change("batch", version, positions=cut.positions, hashes=cut.hashes, added=added, stamp=cut.stamp)
        term.commit(change)
        self.last_error = None
        self._apart.went_well()
        self._limit = min(2 * self._limit, self._operations_max)
        self.operations += cut.operations
        for receipt in receipts:
            self.counters.update(receipt.counters)


def stop_failing_views(term: Term, message: str) -> bool:
    """Stops the views whose program failed, so that the others go on; False where that is not what failed."""
    snapshot = term.snapshot
    operator = failed_operator(message)
    ids = set() if operator is None else zone_programs(snapshot.catalog, None).over(operator)
    if not ids:
        return False
    _stop(term, ids, f"its program failed in version {snapshot.version + 1}: {_told(message)}")
    return True


def _told(message: str) -> str:
    """The line that names the operator, of the pages that Spark wraps around it."""
    lines = message.strip().splitlines() or [""]
    return next((line for line in lines if failed_operator(line) is not None), lines[0]).strip()


def _stop(term: Term, ids: set[int], reason: str) -> None:
    snapshot = term.snapshot
    catalog = declare_tables.stop(snapshot.catalog, ids, reason)
    log.error("views are stopped: %s", reason)
    # What waits to be filled must not share what these views needed, which nobody keeps any more.
    term.commit(Change("catalog", snapshot.version + 1, catalog=declared_anew(catalog)))


def work_of(
    term: Term, log: LogReader, cut: Cut, attempt: int, servers: int, left_out: frozenset[int] = frozenset()
) -> ZoneWork:
    """The work that makes the version after the newest from `cut` of `log`, without the programs of `left_out`."""
    snapshot = term.snapshot
    program = programs_without(snapshot.catalog, None, left_out)
    zones = program.reach([table.id for table in snapshot.catalog.tables]) | {1}
    root, version = term.storage.root, snapshot.version + 1
    return ZoneWork(
        root=str(root), disk=term.storage.disk, base=snapshot.ref, version=version, epoch=term.epoch, attempt=attempt,
        source=LogRange(log, log.slices(cut)), servers=servers if cut.operations > CHAINED_MAX else 1,
        zones=tuple(sorted(zones)), asking=program.asking(zones),
        title=f"viewkeeper {root.name}: batch {version}, {cut.operations:,} operations",
        left_out=left_out,
    )  # fmt: skip
