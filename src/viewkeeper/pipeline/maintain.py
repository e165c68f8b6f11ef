"""What `db.maintain()` and `db.catch_up()` are made of: who drives, in which thread, and for how long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any

from viewkeeper.changes.positions import Positions, table_of
from viewkeeper.errors import Busy, Error, LogLost, StoreAway, Timeout, storage_named
from viewkeeper.pipeline.batches import OPERATIONS_MAX
from viewkeeper.pipeline.driver import IDLE_SECONDS, Maintainer, caught_up
from viewkeeper.pipeline.feeding import ends_of_sources, unfed
from viewkeeper.pipeline.fills import GIVEN_UP, held_back, unready
from viewkeeper.pipeline.note import read_note
from viewkeeper.pipeline.part_keeping import entries_in, stream_goals, streams_caught_up
from viewkeeper.pipeline.publishing import published_views, unpublished
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
    """Returns the first version known to hold all that is in the logs now, with the views declared by now filled, and
    those that are written to outside stores, too, written there.

    The running pipeline does it where there is one; else this process maintains until then.  `progress` is told how
    many operations on tables and appends to streams are in, and how many are wanted.  Raises `Timeout`, which says how
    far it is, StoreReplaced where the logs are not those that the views have read, StoreAway where one to write to is.
    """
    wanted = _Wanted(storage.newest(), logs, timeout, progress)
    drives_until = 0.0  # so long another driver is taken for alive
    while True:
        snapshot = storage.newest()
        logs.store.require_same(snapshot.positions, snapshot.hashes)
        done = wanted.tell(snapshot)
        if wanted.is_in(snapshot) and wanted.is_written(snapshot, partial(_described, storage, snapshot)):
            return _caught_up_with(snapshot, wanted.replaced, logs.lost(snapshot.catalog), wanted.unknown)
        wanted.require_time(snapshot, done)
        if time.monotonic() < drives_until:
            time.sleep(WAITING_SECONDS)
            continue
        try:
            lock = acquired(storage, "pipeline", 0.0)
        except Busy:
            drives_until = time.monotonic() + DRIVING_SECONDS
            wanted.require_others(snapshot, read_note(storage.disk))
            continue
        _drive(storage, logs, make_executor, lock, OPERATIONS_MAX, wanted.maintain)


class _Wanted:
    """What `catch_up` waits for, as of `newest`, and for how long."""

    def __init__(
        self, newest: Snapshot, logs: Logs, timeout: float | None, progress: Callable[[int, int], None] | None
    ) -> None:  # fmt: skip
        self._logs, self._timeout, self._progress, self._catalog = logs, timeout, progress, newest.catalog
        self._ends, self.unknown = logs.ends_now(newest.catalog, newest.positions, newest.hashes)
        self.ids = unready(newest.catalog)
        self._sources = ends_of_sources(newest.catalog)
        self._goals, self.replaced = stream_goals(newest)
        self._began = time.time()
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._waits_for: str | None = None
        self._in_logs = logs.operations_between(newest.catalog, {}, self._ends)
        self._total = self._in_logs + sum(goal.position for goal in self._goals.values())
        self._version: int | None = None  # the first that holds all, which then has to be written to stores
        self._unwritten: dict[str, str | None] = {}
        self._written = False

    def tell(self, snapshot: Snapshot) -> int:
        """Tells how many operations and appends are in, and returns it."""
        left = self._logs.operations_between(self._catalog, snapshot.positions, self._ends)
        done = self._in_logs - left + entries_in(snapshot, self._goals)
        if self._progress is not None:
            self._progress(done, self._total)
        return done

    def is_in(self, snapshot: Snapshot, ids: frozenset[int] | None = None) -> bool:
        """Whether all that was in the logs is in, and what was declared is filled, or of that just `ids`."""
        if self._sources and not unfed(snapshot, self._sources):
            self._sources = {}
            self._goals, self.replaced = stream_goals(snapshot)
        return (
            not self._sources
            and caught_up(snapshot, self._ends, self.ids if ids is None else ids)
            and streams_caught_up(snapshot, self._goals)
        )

    def is_written(self, snapshot: Snapshot, described: Callable[[], list[dict[str, Any]]]) -> bool:
        """Whether views that are written to outside stores, too, are there as of the first version that holds all;
        `described` gives what the driver says of them.  Raises StoreAway where none of what is left can be."""
        self._version = snapshot.version if self._version is None else self._version
        if not self._written:
            some = published_views(snapshot.catalog)
            self._unwritten = unpublished(snapshot.catalog, self._version, described(), self._began) if some else {}
            reasons = [reason for reason in self._unwritten.values() if reason is not None]
            if reasons and len(reasons) == len(self._unwritten):
                raise StoreAway(f"{'; '.join(reasons)}; all else is done, and this will be as soon as it can be")
            self._written = not self._unwritten
        return self._written

    def require_time(self, snapshot: Snapshot, done: int) -> None:
        """Raises Timeout where there is none left."""
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise Timeout(
                f"not caught up within {self._timeout:g} s: {done:,} of {self._total:,} operations are in, "
                f"{len(self.ids & unready(snapshot.catalog))} views or indexes wait to be filled"
                + ("; streams wait for rows of outside stores" if self._sources else "")
                + ("" if streams_caught_up(snapshot, self._goals) else ", and parts of streams or of views over them")
                + (f"; not yet written to their stores: {', '.join(self._unwritten)}" if self._unwritten else "")
                + ("" if self._waits_for is None else f"; {self._waits_for}")
            )

    def require_others(self, snapshot: Snapshot, note: Mapping[str, Any] | None) -> None:
        """Raises Error where the running pipeline says in its note that what is left to be done cannot be."""
        if note is None or note["epoch"] != snapshot.epoch:
            return
        lost, refused = ({int(id_): why for id_, why in note[what].items()} for what in ("lost", "refused"))
        _require_logs(lost, refused, snapshot, self._ends, self.ids)
        waiting = self.ids & unready(snapshot.catalog)
        if waiting and waiting <= set(note["given_up"]) and self.is_in(snapshot, frozenset()):
            errors = "; ".join(dict.fromkeys(note["unfilled"][str(id_)] for id_ in sorted(waiting)))
            raise Error(f"{errors}; {CANNOT_BE_FILLED}")

    def maintain(self, maintainer: Maintainer) -> None:
        """Maintains until all is done, or there is no time left."""
        while not (
            self.is_in(now := maintainer.term.snapshot) and self.is_written(now, maintainer.publishing.describe)
        ):
            if maintainer.step():
                self.tell(maintainer.term.snapshot)
            else:
                maintainer.wait()
            self.ids |= maintainer.renewed
            self._require_possible(maintainer)
            if self._deadline is not None and time.monotonic() > self._deadline:
                self._waits_for = maintainer.last_error
                break

    def _require_possible(self, maintainer: Maintainer) -> None:
        now = maintainer.term.snapshot
        _require_logs(self._logs.lost(now.catalog), maintainer.adopting.given_up, now, self._ends, self.ids)
        stuck = self.ids & unready(now.catalog)
        if stuck and stuck <= maintainer.fills.given_up and caught_up(now, self._ends, frozenset()):
            raise Error(f"{maintainer.fills.last_error}; {CANNOT_BE_FILLED}")
        lost = maintainer.feeding.lost
        if lost and self._sources and set(unfed(now, self._sources)) <= lost.keys():
            raise LogLost("; ".join(lost.values()))
        if maintainer.parts.failures >= GIVEN_UP:
            raise Error(str(maintainer.parts.last_error))


def _described(storage: Storage, snapshot: Snapshot) -> list[dict[str, Any]]:
    """What the running pipeline says of outside stores that views are written to; nothing where there is none."""
    note = read_note(storage.disk)
    return note["targets"] if note is not None and note["epoch"] == snapshot.epoch else []


def _caught_up_with(
    snapshot: Snapshot, replaced: Sequence[Error], lost: Mapping[int, str], unknown: Mapping[int, Error]
) -> int:
    """The version of a snapshot in which all is done that can be; raises why something cannot: what logs `unknown`
    tables have nobody knows."""
    if replaced:
        raise replaced[0]
    if lost:
        raise LogLost("; ".join(lost.values()))
    if unknown:
        only_away = all(isinstance(each, StoreAway) for each in unknown.values())
        raise (StoreAway if only_away else Error)("; ".join(map(str, unknown.values())))
    return snapshot.version


def _require_logs(
    lost: Mapping[int, str], refused: Mapping[int, str], snapshot: Snapshot, ends: Positions, ids: frozenset[int]
) -> None:  # fmt: skip
    """Raises LogLost where nothing is left to be done but for tables of outside stores that are `lost`, by id, and what
    reads them; Error where some of these are `refused`, as they cannot be adopted."""
    stopped = {**lost, **refused}
    rest = {log: end for log, end in ends.items() if table_of(log) not in stopped}
    if stopped and caught_up(snapshot, rest, ids - stopped.keys() - held_back(snapshot.catalog)):
        raise (Error if refused else LogLost)("; ".join(stopped.values()))


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
