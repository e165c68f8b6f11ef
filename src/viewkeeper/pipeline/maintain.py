"""What `db.maintain()` and `db.catch_up()` are made of: who drives, in which thread, and for how long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from viewkeeper.changes.positions import Positions, table_of
from viewkeeper.errors import Busy, Error, LogLost, Timeout, storage_named
from viewkeeper.pipeline.batches import OPERATIONS_MAX
from viewkeeper.pipeline.driver import IDLE_SECONDS, Maintainer, caught_up
from viewkeeper.pipeline.fills import GIVEN_UP, held_back, unready
from viewkeeper.pipeline.note import read_note
from viewkeeper.pipeline.part_keeping import entries_in, stream_goals, streams_caught_up
from viewkeeper.pipeline.term import Term, acquired
from viewkeeper.pipeline.work import DriverExecutor
from viewkeeper.stores.logs import Logs
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.disk import Lock
from viewkeeper.trace.snapshot import Snapshot

WAITING_SECONDS = 0.005
"""Between two looks at how far the pipeline of another is."""

DRIVING_SECONDS = 0.25
"""Between two tries to take the lock of another driver, which may have died: a try takes 50 ms."""

CANNOT_BE_FILLED = "drop what cannot be filled, or mend what it reads"


class Maintenance:
    """A pipeline that runs in the background of this process, from its making until `stop`, or until its block ends.

    Raises `Busy` where another process, or another part of this one, maintains the database.
    """

    def __init__(
        self, storage: Storage, logs: Logs, make_executor: Callable[[], DriverExecutor],
        operations_max: int = OPERATIONS_MAX,
    ) -> None:  # fmt: skip
        self._lock = acquired(storage, "pipeline")
        self._storage, self._logs = storage, logs
        self._make_executor, self._operations_max = make_executor, operations_max
        self._stop = threading.Event()
        self._ready = threading.Event()
        # A flag that is polled: `join`, when Ctrl-C interrupts it, takes a running thread for ended (bpo-45274), and an
        # Event's lock may stay locked.
        self._ended = False
        self._error: BaseException | None = None
        try:
            threading.Thread(target=self._run, name="viewkeeper pipeline", daemon=True).start()
        except BaseException:  # no more threads, say
            self._lock.release()
            raise
        try:
            self._ready.wait()
        except BaseException:  # Ctrl-C: its maker goes on to close what the pipeline uses.
            self._end()
            raise
        self._raise()

    def wait(self, timeout: float | None = None) -> None:
        """Returns when the pipeline has ended, or after `timeout` seconds; raises what ended it."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._ended and (deadline is None or time.monotonic() < deadline):
            time.sleep(IDLE_SECONDS)
        self._raise()

    def stop(self) -> None:
        """Ends the pipeline after the batch that it is at; raises what ended it before."""
        self._stop.set()
        self.wait()

    def __enter__(self) -> Maintenance:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._end()
        if error is None:
            self._raise()

    def _end(self) -> None:
        self._stop.set()
        while not self._ended:
            time.sleep(IDLE_SECONDS)

    def _run(self) -> None:
        try:
            with storage_named(self._storage.root):
                _drive(self._storage, self._logs, self._make_executor, self._lock, self._operations_max, self._work)
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for this thread
            self._error = error
        finally:
            self._ready.set()
            self._ended = True

    def _work(self, maintainer: Maintainer) -> None:
        self._ready.set()
        maintainer.run(self._stop)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error


def catch_up(
    storage: Storage, logs: Logs, make_executor: Callable[[], DriverExecutor], timeout: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> int:  # fmt: skip
    """Returns the first version known to hold all that is in the logs now, with the views declared by now filled.

    The running pipeline does it where there is one; else this process maintains until then.  `progress` is told how
    many operations on tables and appends to streams are in, and how many are wanted.  Raises `Timeout`, which says how
    far it is, StoreReplaced where the logs are not those that the views have read.
    """
    newest = storage.newest()
    ends, ids = logs.ends_now(newest.catalog, newest.positions, newest.hashes), unready(newest.catalog)
    goals, replaced = stream_goals(newest)
    deadline = None if timeout is None else time.monotonic() + timeout
    waits_for: str | None = None
    drives_until = 0.0  # so long another driver is taken for alive
    written = logs.operations_between(newest.catalog, {}, ends)
    total = written + sum(goal.position for goal in goals.values())

    def tell(snapshot: Snapshot) -> int:
        done = written - logs.operations_between(newest.catalog, snapshot.positions, ends) + entries_in(snapshot, goals)
        if progress is not None:
            progress(done, total)
        return done

    while True:
        snapshot = storage.newest()
        logs.store.require_same(snapshot.positions, snapshot.hashes)
        done = tell(snapshot)
        if caught_up(snapshot, ends, ids) and streams_caught_up(snapshot, goals):
            return _caught_up_with(snapshot, replaced, logs.lost(snapshot.catalog))
        if deadline is not None and time.monotonic() > deadline:
            raise Timeout(
                f"not caught up within {timeout:g} s: {done:,} of {total:,} operations are in, "
                f"{len(ids & unready(snapshot.catalog))} views or indexes wait to be filled"
                + ("" if streams_caught_up(snapshot, goals) else ", and parts of streams or of views over them")
                + ("" if waits_for is None else f"; {waits_for}")
            )
        if time.monotonic() < drives_until:
            time.sleep(WAITING_SECONDS)
            continue
        try:
            lock = acquired(storage, "pipeline", 0.0)
        except Busy:
            drives_until = time.monotonic() + DRIVING_SECONDS
            if caught_up(snapshot, ends, frozenset()) and streams_caught_up(snapshot, goals):
                _require_filling(storage, snapshot, ids & unready(snapshot.catalog))
            continue

        def work(maintainer: Maintainer) -> None:
            nonlocal waits_for
            while not (caught_up(now := maintainer.term.snapshot, ends, ids) and streams_caught_up(now, goals)):
                if maintainer.step():
                    tell(maintainer.term.snapshot)
                else:
                    maintainer.wait()
                now = maintainer.term.snapshot
                _require_logs(logs.lost(now.catalog) | maintainer.adopting.given_up, now, ends, ids)
                stuck = ids & unready(now.catalog)
                if stuck and stuck <= maintainer.fills.given_up and caught_up(now, ends, frozenset()):
                    raise Error(f"{maintainer.fills.last_error}; {CANNOT_BE_FILLED}")
                if maintainer.parts.failures >= GIVEN_UP:
                    raise Error(str(maintainer.parts.last_error))
                if deadline is not None and time.monotonic() > deadline:
                    waits_for = maintainer.last_error
                    break

        _drive(storage, logs, make_executor, lock, OPERATIONS_MAX, work)


def _caught_up_with(snapshot: Snapshot, replaced: Sequence[Error], lost: dict[int, str]) -> int:
    """The version of a snapshot in which all is done that can be; raises why something cannot."""
    if replaced:
        raise replaced[0]
    if lost:
        raise LogLost("; ".join(lost.values()))
    return snapshot.version


def _require_logs(lost: dict[int, str], snapshot: Snapshot, ends: Positions, ids: frozenset[int]) -> None:
    """Raises LogLost where nothing is left to be done but for tables of outside stores that are `lost`, by id, and what
    reads them."""
    rest = {log: end for log, end in ends.items() if table_of(log) not in lost}
    if lost and caught_up(snapshot, rest, ids - lost.keys() - held_back(snapshot.catalog)):
        raise LogLost("; ".join(lost.values()))


def _require_filling(storage: Storage, snapshot: Snapshot, waiting: frozenset[int]) -> None:
    """Raises Error where the running pipeline says that all of `waiting` cannot be filled."""
    note = read_note(storage.disk)
    if waiting and note is not None and note["epoch"] == snapshot.epoch and waiting <= set(note["given_up"]):
        errors = "; ".join(dict.fromkeys(note["unfilled"][str(id_)] for id_ in sorted(waiting)))
        raise Error(f"{errors}; {CANNOT_BE_FILLED}")


def _drive(
    storage: Storage, logs: Logs, make_executor: Callable[[], DriverExecutor], lock: Lock, operations_max: int,
    work: Callable[[Maintainer], None],
) -> None:  # fmt: skip
    """Runs `work` with a driver that holds `lock`, which is released at the end."""
    try:
        executor = make_executor()
        try:
            maintainer = Maintainer(Term(storage.another(), lock), logs, executor, operations_max)
            try:
                work(maintainer)
            finally:
                maintainer.close()
        finally:
            executor.close()
    finally:
        lock.release()
