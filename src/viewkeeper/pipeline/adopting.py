"""Adopting tables of outside stores, which are full and being written (docs/decisions/094-outside-stores.md).

First where the log is, committed; then all rows, so many at a time, while nothing of the log is read; then the log from
there on.  The table can be read when the log has been applied up to where it ended after the last row was read: what
the log says twice over of a row that was read later is the same again, since each operation says what a column is, not
by how much it changes.  A kill on the way begins the rows again, from the same place in the log.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from concurrent.futures import Executor as Pool
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Catalog, Table
from viewkeeper.catalog.outside_store import OutsideStore
from viewkeeper.changes.operations import Operations, TableForm
from viewkeeper.changes.positions import by_part, is_reached, logs_of
from viewkeeper.errors import Error, StoreAway, is_shortage
from viewkeeper.permissions import open_new
from viewkeeper.pipeline import tasks
from viewkeeper.pipeline.batches import CHAINED_MAX
from viewkeeper.pipeline.fills import GIVEN_UP, unadopted
from viewkeeper.pipeline.programs import zone_programs
from viewkeeper.pipeline.term import Term
from viewkeeper.pipeline.work import DriverExecutor, GivenOperations, ZoneWork
from viewkeeper.stores.logs import Logs
from viewkeeper.stores.outside.contract import LogEnds, OutsideTable
from viewkeeper.stores.outside.said import untagged
from viewkeeper.trace.disk import STATE, Disk
from viewkeeper.trace.naming import file_name
from viewkeeper.trace.snapshot import Change

ROWS_AT_ONCE = 500_000
"""About so many rows are one step, between which batches of other tables go on."""

RETRY_SECONDS = (0.5, 30.0)
"""Before a table that could not be adopted is tried again: at first, and at most."""

log = logging.getLogger("viewkeeper")


@dataclass
class _Step:
    """What is being read of one table: where its logs are, before any row is read and behind the last one, or rows,
    into the file `name`: how many."""

    table: int
    attempt: int
    name: str
    running: Future[LogEnds | int]


@dataclass
class _Failing:
    """`failures` in a row that waiting alone does not mend."""

    error: str
    failures: int
    pause: float
    retry_at: float


class Adopting:
    """Adopts the tables of outside stores, one after another; `errors` are why, by id, some cannot be at present."""

    def __init__(self, logs: Logs, executor: DriverExecutor, pool: Pool) -> None:
        self._logs, self._executor, self._pool = logs, executor, pool
        self._step: _Step | None = None
        self._rows: Iterator[tuple[Operations, np.ndarray]] | None = None
        self._failing: dict[int, _Failing] = {}

    @property
    def errors(self) -> dict[int, str]:
        """By id, why tables could not be adopted."""
        return {id_: each.error for id_, each in self._failing.items()}

    @property
    def given_up(self) -> dict[int, str]:
        """Those of them that have failed so often that nobody should wait for them, though their store answers."""
        return {id_: each.error for id_, each in self._failing.items() if each.failures >= GIVEN_UP}

    @property
    def running(self) -> list[Future[LogEnds | int]]:
        """What runs beside the steps."""
        return [] if self._step is None else [self._step.running]

    def step(self, term: Term) -> bool:
        """Starts, continues or ends the adoption of a table; True where it committed."""
        catalog = term.snapshot.catalog
        waiting = unadopted(catalog)
        self._failing = {id_: each for id_, each in self._failing.items() if id_ in waiting}
        if not waiting:
            return False
        if self._settle(term):
            return True
        if self._step is None:
            table = self._next(catalog)
            if table is not None:
                self._begin(term, table)
            return False
        return self._step.running.done() and self._finish(term, self._step)

    def abandon(self, term: Term) -> None:
        """Gives up what is under way; what has been committed stays."""
        step, self._step, self._rows = self._step, None, None
        if step is not None:
            step.running.cancel()
            step.running.add_done_callback(lambda _: term.end_attempt(step.attempt))

    def _settle(self, term: Term) -> bool:
        """Says of tables that they can be read, whose logs have been read up to their goal."""
        snapshot = term.snapshot
        done = [
            t
            for t in snapshot.catalog.outside
            if t.outside is not None
            and t.outside.adopted is None
            and t.outside.scanned is not None
            and is_reached(logs_of(t.id, dict(t.outside.goal)), snapshot.positions)
        ]
        if not done:
            return False
        version = snapshot.version + 1
        catalog = snapshot.catalog.changing([_with(table, adopted=version) for table in done])
        term.commit(Change("adopt", version, catalog=catalog))
        return True

    def _next(self, catalog: Catalog) -> Table | None:
        now = time.monotonic()
        for table in catalog.outside:
            failing = self._failing.get(table.id)
            if (
                table.outside is not None
                and table.outside.scanned is None
                and (failing is None or failing.retry_at <= now)
            ):
                return table
        return None

    def _begin(self, term: Term, table: Table) -> None:
        assert table.outside is not None
        try:
            opened = self._logs.outside.of(table)
        except Error as error:
            self._failed(table, error)
            return
        attempt = term.begin_attempt()
        name = file_name(term.snapshot.version + 1, term.epoch, 0, 0, attempt, "adopt", "arrow")
        if table.outside.followed is None:
            running: Future[LogEnds | int] = self._pool.submit(_start, opened)
        else:
            if self._rows is None:
                scanned = opened.scan(by_part(table.id, term.snapshot.positions)) if opened.has_rows else ()
                self._rows = chain.from_iterable(each.all_rows() for each in scanned)
            running = self._pool.submit(self._read_rows, term.storage.disk, name, opened)
        self._step = _Step(table.id, attempt, name, running)

    def _read_rows(self, disk: Disk, name: str, opened: OutsideTable) -> int | LogEnds:
        """Writes the next rows to a file; how many, or, behind the last of them, where the logs end."""
        assert self._rows is not None
        form, written = TableForm(opened.table), 0
        schema = pa.schema([(str(i), type_) for i, type_ in enumerate(form.operation_types())])
        path = disk.scratch(f"{STATE}/{name}")
        os.close(open_new(path))
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for operations, stamps in self._rows:
                count = len(operations)
                rows = form.as_rows(operations, 0, np.zeros(count, np.int64), stamps)
                writer.write_batch(pa.RecordBatch.from_arrays(rows.columns, schema=schema))
                written += count
                if written >= ROWS_AT_ONCE:
                    break
        if not written:
            path.unlink()
            return opened.ends()
        disk.upload(path, f"{STATE}/{name}")
        return written

    def _finish(self, term: Term, step: _Step) -> bool:
        self._step = None
        table = term.snapshot.catalog.by_id(step.table)
        try:
            found = step.running.result()
            if not isinstance(table, Table) or table.outside is None:
                self._rows = None
                return False  # it has been dropped meanwhile
            if isinstance(found, int):
                self._commit_rows(term, table, step, found)
            elif isinstance(found, LogEnds):
                self._commit_ends(term, table, table.outside, found)
        except (Error, OSError) as error:
            self._rows = None
            if is_shortage(error):
                raise
            if isinstance(table, Table):
                self._failed(table, error)
            return False
        finally:
            term.end_attempt(step.attempt)
        self._failing.pop(step.table, None)
        return True

    def _commit_ends(self, term: Term, table: Table, outside: OutsideStore, found: LogEnds) -> None:
        snapshot, version = term.snapshot, term.snapshot.version + 1
        if outside.followed is None:
            positions = dict(snapshot.positions) | logs_of(table.id, found.positions)
            hashes = dict(snapshot.hashes) | logs_of(table.id, found.identities)
            catalog = snapshot.catalog.changing([_with(table, followed=version, begun=time.time())])
            term.commit(Change("adopt", version, positions=positions, hashes=hashes, catalog=catalog))
            return
        self._rows = None
        goal = tuple(sorted(found.positions.items()))
        catalog = snapshot.catalog.changing([_with(table, scanned=version, goal=goal)])
        term.commit(Change("adopt", version, catalog=catalog))

    def _commit_rows(self, term: Term, table: Table, step: _Step, count: int) -> None:
        snapshot = term.snapshot
        program = zone_programs(snapshot.catalog, None)
        zones = program.reach([table.id]) | {1}
        version = snapshot.version + 1
        try:
            work = ZoneWork(
                root=str(term.storage.root), disk=term.storage.disk, base=snapshot.ref, version=version,
                epoch=term.epoch, attempt=step.attempt, source=GivenOperations({table.id: step.name}),
                servers=self._executor.servers if count > CHAINED_MAX else 1,
                zones=tuple(sorted(zones)), asking=program.asking(zones),
                title=f"viewkeeper {term.storage.root.name}: adopting {table.name}, {count:,} rows",
            )  # fmt: skip
            receipts = tasks.run_zones(self._executor, work)
            term.commit(Change("adopt", version, added=[each.at(version, version) for each in receipts]))
        finally:
            term.storage.disk.delete([f"{STATE}/{step.name}"])

    def _failed(self, table: Table, error: Exception) -> None:
        failing = self._failing.get(table.id)
        message = f"{table.name} cannot be adopted: {untagged(str(error)).strip() or type(error).__name__}"
        if failing is None or failing.error != message:
            log.warning("%s; it is tried again", message)
        pause = RETRY_SECONDS[0] if failing is None else min(2 * failing.pause, RETRY_SECONDS[1])
        failures = 0 if isinstance(error, StoreAway) else 1 + (failing.failures if failing is not None else 0)
        self._failing[table.id] = _Failing(message, failures, pause, time.monotonic() + pause)


def _start(opened: OutsideTable) -> LogEnds:
    opened.require_there()
    return opened.start()


def _with(table: Table, **changed: object) -> Table:
    assert table.outside is not None
    return replace(table, outside=replace(table.outside, **changed))  # type: ignore[arg-type]
