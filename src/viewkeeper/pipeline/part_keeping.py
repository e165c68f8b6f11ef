"""The driver's keeping of streams: rounds that compute beside the batches, and are committed between them."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Executor as Pool
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from viewkeeper.catalog.model import Catalog, Stream
from viewkeeper.changes.positions import Positions, is_reached
from viewkeeper.errors import Fenced, StoreReplaced, is_shortage
from viewkeeper.pipeline.batches import ATTEMPTS, stop_failing_views
from viewkeeper.pipeline.part_sources import kept_with
from viewkeeper.pipeline.term import Term
from viewkeeper.pipeline.work import DriverExecutor
from viewkeeper.stores.logs import Logs
from viewkeeper.streams.intake.stream_log import STREAMS, StreamLog
from viewkeeper.streams.intake.taking import idle_seal, sealed_after
from viewkeeper.streams.keeping.round import Round
from viewkeeper.streams.keeping.settled import is_settled, may_be_mended
from viewkeeper.streams.keeping.stage import RoundStage
from viewkeeper.streams.keeping.upkeep import Stopped
from viewkeeper.streams.part_files import close_deleted_part_files
from viewkeeper.streams.progress import StreamProgress
from viewkeeper.streams.readers import fills_from
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.garbage import named_files
from viewkeeper.trace.points import reached
from viewkeeper.trace.snapshot import Snapshot

RETRY_SECONDS = 1.0
RETRY_SECONDS_MAX = 60.0
IDLE_LOOK_SECONDS = 0.5

_FAILED = "keeping streams failed"

log = logging.getLogger("viewkeeper")


@dataclass(frozen=True)
class _Running:
    round: Round
    result: Future[RoundStage]


@dataclass(frozen=True)
class _Next:
    """The round to come: it takes the streams' logs up to `upto`, when what the tables' logs held then, up to `ends`,
    is in."""

    upto: Mapping[int, int]
    ends: Positions

    def may_begin(self, snapshot: Snapshot) -> bool:
        return is_reached(self.ends, snapshot.positions)


class PartKeeping:
    """Keeps streams and the views over them.  Streams whose log is another than the one that was read are left out."""

    def __init__(self, executor: DriverExecutor, pool: Pool, storage: Storage, logs: Logs) -> None:
        self._failed: str | None = None
        self._replaced: dict[int, StoreReplaced] = {}
        self.seconds: dict[int, list[float]] = {}
        self._executor, self._pool, self._storage, self._logs = executor, pool, storage, logs
        self._next: _Next | None = None
        self._running: _Running | None = None
        self._done: tuple[Catalog, Any] | None = None  # the catalog and the progress that the last round left
        self._more = False
        self.failures, self._retry_at = 0, 0.0
        self._looked_idle = 0.0
        self._catalog: Catalog | None = None
        self._tidy_due = False

    @property
    def last_error(self) -> str | None:
        """What went wrong last and has not gone well since; else which streams are left out."""
        return self._failed or "; ".join(f"{_FAILED}: {_told(error)}" for error in self._replaced.values()) or None

    @property
    def running(self) -> list[Future[RoundStage]]:
        """What runs beside the steps."""
        return [] if self._running is None else [self._running.result]

    def step(self, term: Term) -> bool:
        """Begins a round where there is something to do, or commits one that is done; whether it committed."""
        self._forget_dropped(term.snapshot.catalog)
        if not term.snapshot.catalog.streams:
            return False
        if self._running is not None:
            return self._running.result.done() and self._finish(term, self._running)
        self._leave_out(term.snapshot)
        self._seal_idle(term.snapshot)
        if self._next is None and time.monotonic() >= self._retry_at and self._is_due(term.snapshot):
            # In this order: whoever has put a row into a table and then appended finds the one joined with the other.
            upto = {stream.id: self._intake.end(stream.id) for stream in self._readable(term.snapshot)}
            self._next = _Next(upto, self._logs.ends(term.snapshot.catalog))
        if self._next is not None and self._next.may_begin(term.snapshot):
            self._begin(term, self._next.upto)
        return False

    def _begin(self, term: Term, upto: Mapping[int, int]) -> None:
        snapshot, attempt = term.snapshot, term.begin_attempt()
        try:
            round_ = Round(
                snapshot, self._intake, self._executor, term.epoch, attempt, self.seconds, self._tidy_due, upto
            )
        except BaseException:
            term.end_attempt(attempt)
            raise
        self._done, self._more, self._tidy_due, self._next = (snapshot.catalog, snapshot.progress), False, False, None
        self._running = _Running(round_, self._pool.submit(round_.run))

    def hurry(self) -> None:
        """Has the running round come to its end soon, with what it has built by then."""
        if self._running is not None:
            self._running.round.stop.set()

    def finish(self, term: Term) -> None:
        """Waits for the running round, and commits it."""
        if self._running is not None:
            self._running.result.exception()
            self._finish(term, self._running)

    def close(self) -> None:
        """Lets go of the log."""
        if "_intake" in self.__dict__:
            self._intake.close()

    @cached_property
    def _intake(self) -> StreamLog:
        """Opened when the first stream is met."""
        return StreamLog(self._storage.root, self._storage.disk)

    def describe(self) -> dict[str, Any]:
        """What the last parts of each view took (seconds), for the driver's note."""
        return {str(view): round(sum(times) / len(times), 6) for view, times in self.seconds.items() if times}

    def tidy(self, term: Term, now: float) -> None:
        """Lets go of log entries and files that are long in, and has old parts looked through in the next round."""
        self._tidy_due = True
        if not self._has_log:
            return
        named, oldest = named_files(term.storage, now)
        for stream in term.snapshot.catalog.streams:
            # Whoever reads an older version, which is held or was replaced a moment ago, may want its open rows.
            self._intake.trim(stream.id, StreamProgress.from_dict(oldest.progress.get(stream.id)).position)
        self._intake.sweep(named, now)
        close_deleted_part_files()

    def _forget_dropped(self, catalog: Catalog) -> None:
        """What is left in the log of streams that are no more goes, whoever dropped them."""
        if catalog is not self._catalog:
            if self._has_log:
                self._intake.forget_dropped(catalog)
            self._catalog = catalog

    @property
    def _has_log(self) -> bool:
        """Whether there has ever been a stream with rows."""
        return (self._storage.root / STREAMS).is_dir()

    def _leave_out(self, snapshot: Snapshot) -> None:
        """Finds the streams whose logs are not those that their parts were taken from, and tells of those."""
        replaced = replaced_streams(self._intake, snapshot)
        for id_ in replaced.keys() - self._replaced.keys():
            log.warning("%s: %s", _FAILED, _told(replaced[id_]))
        if replaced.keys() != self._replaced.keys():
            self._done = None
        self._replaced = replaced

    def _readable(self, snapshot: Snapshot) -> list[Stream]:
        return [stream for stream in snapshot.catalog.streams if stream.id not in self._replaced]

    def _fail(self, error: Exception) -> None:
        """Nothing was committed; the same is tried again, later and later."""
        told = f"{_FAILED}: {_told(error)}"
        if told != self._failed:
            log.warning("%s", told)
        self._failed = told
        self._done = None
        self._retry_at = time.monotonic() + min(RETRY_SECONDS * 2**self.failures, RETRY_SECONDS_MAX)
        if not is_shortage(error):  # a shortage is waited for, however long it lasts
            self.failures += 1

    def _is_due(self, snapshot: Snapshot) -> bool:
        if self._more or self._tidy_due or self._done is None:
            return True
        if self._done[0] is not snapshot.catalog or self._done[1] is not snapshot.progress:
            return True  # a declaration, or ALTER VIEW, which may leave the catalog
        return may_be_mended(snapshot) or any(
            self._intake.end(stream.id) > StreamProgress.from_dict(snapshot.progress.get(stream.id)).position
            for stream in self._readable(snapshot)
        )

    def _finish(self, term: Term, running: _Running) -> bool:
        self._running = None
        try:
            stage = running.result.result()
            self._more = running.round.more
            committed = not stage.is_empty and self._commit(term, running.round, stage)
            self.failures, self._failed = 0, None
            return committed
        except Fenced:
            raise
        except Stopped:
            self._done = None
            return False
        except Exception as error:  # noqa: BLE001 - nothing was committed; the same is tried again, later and later
            self._fail(error)
            return False
        finally:
            term.end_attempt(running.round.attempt)

    def _commit(self, term: Term, round_: Round, stage: RoundStage) -> bool:
        if not _fits(term.snapshot, stage.snapshot):
            self._more = True  # streams or views were declared, altered or dropped meanwhile
            return False
        try:
            kept = kept_with(stage, term, self._executor, round_.attempt)
        except Exception as error:
            is_last = self.failures + 1 >= ATTEMPTS
            if (
                isinstance(error, Fenced)
                or is_shortage(error)
                or not is_last
                or not stop_failing_views(term, str(error))
            ):
                raise
            self._more = True
            return True
        stamp = time.time_ns() // 1000
        reached("before parts")
        version = term.snapshot.version + 1
        change = stage.change(term.storage, version, term.epoch, round_.attempt, stamp)
        term.commit(replace(change, added=[*change.added, *kept]))
        if self._done is not None:
            self._done = (self._done[0], term.snapshot.progress)
        reached("after parts")
        return True

    def _seal_idle(self, snapshot: Snapshot) -> None:
        """Seals by the wall clock, where a stream says IDLE and no row has come for so long."""
        now = time.time()
        if now - self._looked_idle < IDLE_LOOK_SECONDS:
            return
        self._looked_idle = now
        for stream in self._readable(snapshot):
            if stream.idle is not None:
                progress = StreamProgress.from_dict(snapshot.progress.get(stream.id))
                upto = idle_seal(stream, progress, self._intake.last_append(stream.id), now)
                if upto is not None:
                    self._intake.seal(stream, upto, f"idle for {stream.idle} s")


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _fits(now: Snapshot, then: Snapshot) -> bool:
    """Whether what was computed over `then` may be committed after `now`."""
    same = now.catalog is then.catalog or (
        now.catalog.streams == then.catalog.streams
        and now.catalog.part_views == then.catalog.part_views
        and fills_from(now.catalog) <= fills_from(then.catalog)  # their parts may have expired in the round
    )
    return same and now.progress == then.progress


@dataclass(frozen=True)
class StreamGoal:
    """What `catch_up` waits for: the entries of a stream's log up to `position`, which seal the parts before `sealed`
    (None: none)."""

    position: int
    sealed: int | None


def stream_goals(snapshot: Snapshot) -> tuple[dict[int, StreamGoal], list[StoreReplaced]]:
    """What the logs of all streams hold now, by stream id; and of which streams they are not those that were read."""
    goals: dict[int, StreamGoal] = {}
    if not snapshot.catalog.streams:
        return goals, []
    with StreamLog(snapshot.storage.root, snapshot.storage.disk) as intake:
        replaced = replaced_streams(intake, snapshot)
        for stream in snapshot.catalog.streams:
            if stream.id not in replaced:
                progress = StreamProgress.from_dict(snapshot.progress.get(stream.id))
                reach = intake.reach(stream.id, progress.position, progress.hash)
                goals[stream.id] = StreamGoal(reach.end, sealed_after(stream, progress, reach))
    return goals, list(replaced.values())


def replaced_streams(intake: StreamLog, snapshot: Snapshot) -> dict[int, StoreReplaced]:
    """The streams whose log is another than the one that their parts were taken from, by id."""
    found: dict[int, StoreReplaced] = {}
    for stream in snapshot.catalog.streams:
        progress = StreamProgress.from_dict(snapshot.progress.get(stream.id))
        try:
            intake.require_same(stream, progress.position, progress.hash)
        except StoreReplaced as error:
            found[stream.id] = error
    return found


def streams_caught_up(snapshot: Snapshot, goals: Mapping[int, StreamGoal]) -> bool:
    """Whether the parts that the goals name are visible, and all that can be built from them is."""
    catalog, progress = snapshot.catalog, dict(snapshot.progress)
    for stream in catalog.streams:
        at, goal = StreamProgress.from_dict(progress.get(stream.id)), goals.get(stream.id)
        if goal is None:
            continue  # declared later, or its log was replaced
        if at.position < goal.position or (goal.sealed is not None and (at.next is None or at.next < goal.sealed)):
            return False
        # What was sealed since does not count.
        progress[stream.id] = replace(at, next=goal.sealed).to_dict()
    return is_settled(catalog, progress) and not may_be_mended(snapshot)


def entries_in(snapshot: Snapshot, goals: Mapping[int, StreamGoal]) -> int:
    """How many of the entries that the goals name were taken."""
    positions = {id_: StreamProgress.from_dict(snapshot.progress.get(id_)).position for id_ in goals}
    return sum(min(positions[id_], goal.position) for id_, goal in goals.items())
