"""Merges beside the batches: planned and committed by the driver's thread, run by others.

A merge changes no version.  Where its inputs have changed meanwhile its file is thrown away.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor as Pool
from concurrent.futures import Future, wait
from dataclasses import dataclass

from viewkeeper.errors import Fenced
from viewkeeper.maintenance.declare_tables import dead_members, states
from viewkeeper.pipeline.tasks import run_merge
from viewkeeper.pipeline.term import Term
from viewkeeper.pipeline.work import DriverExecutor, MergeWork
from viewkeeper.trace.merge import MergeTask, plan_merges
from viewkeeper.trace.receipt import Receipt
from viewkeeper.trace.snapshot import Change, MergeOutdated

AT_ONCE = 2
"""Merges at a time: a long one must not let the many short runs of the other states pile up."""

RETRY_SECONDS = 10.0
"""After a merge that failed."""

log = logging.getLogger("viewkeeper")


@dataclass(frozen=True)
class _Running:
    attempt: int
    task: MergeTask
    dead: Mapping[int, set[int]]
    result: Future[Receipt]

    @property
    def states(self) -> set[int]:
        return {merge.spec.id for merge in self.task.merges}


class Merging:
    """Keeps the runs of each state few; `committed` counts the merges."""

    def __init__(self, executor: DriverExecutor, pool: Pool) -> None:
        self.committed = 0
        self.last_error: str | None = None
        self._retry_at = 0.0
        self._executor, self._pool = executor, pool
        self._running: list[_Running] = []
        self._waiting: deque[MergeTask] = deque()
        self._settled: tuple[object, ...] | None = None
        self._cleaned: set[tuple[int, int]] = set()  # (state, dropped member) whose rows this term has merged away

    @property
    def running(self) -> list[Future[Receipt]]:
        """What runs beside the steps."""
        return [each.result for each in self._running]

    def step(self, term: Term, *, idle: bool, barriers: Sequence[int]) -> bool:
        """Commits merges that are done and starts others; whether any is still running.

        `idle` merges further than keeping up needs; no merge crosses one of the versions `barriers`.
        """
        for running in [r for r in self._running if r.result.done()]:
            self._commit(term, running)
        # All of a plan is started before the next is made: else short merges, which come first, would starve long ones.
        if not self._waiting and len(self._running) < AT_ONCE:
            self._plan(term, idle, barriers)
        while self._waiting and len(self._running) < AT_ONCE:
            task = self._waiting.popleft()
            if all(run in term.snapshot.states.get(run.state, ()) for run in task.runs):
                self._start(term, task)
        return bool(self._running)

    def finish(self, term: Term) -> None:
        """Waits for the running merges, and commits them."""
        self._waiting.clear()
        wait([running.result for running in self._running])
        for running in list(self._running):
            self._commit(term, running)

    def _plan(self, term: Term, idle: bool, barriers: Sequence[int]) -> None:
        snapshot = term.snapshot
        situation = (snapshot.number, idle, *barriers)
        if situation == self._settled or time.monotonic() < self._retry_at:
            return
        busy = set().union(*(running.states for running in self._running))
        specs = states(snapshot.catalog)
        # Part files stand in the manifest as runs too, but are no traces: streams/ rolls them up itself.
        runs = {state: refs for state, refs in snapshot.states.items() if state not in busy and state in specs}
        dead = dead_members(snapshot.catalog)
        dirty = {s for s, members in dead.items() if any((s, m) not in self._cleaned for m in members)}
        planned = plan_merges(runs, specs, snapshot.files, idle=idle, barriers=barriers, dirty=dirty)
        self._waiting.extend(planned)
        if not self._waiting and not busy:
            self._settled = situation

    def _start(self, term: Term, task: MergeTask) -> None:
        snapshot, attempt, root = term.snapshot, term.begin_attempt(), term.storage.root
        dead = dead_members(snapshot.catalog)
        work = MergeWork(
            disk=term.storage.disk, version=snapshot.version, epoch=term.epoch, attempt=attempt, task=task, dead=dead,
            title=f"viewkeeper {root.name}: merge at version {snapshot.version}, {task.rows:,} rows",
        )  # fmt: skip
        self._running.append(_Running(attempt, task, dead, self._pool.submit(run_merge, self._executor, work)))

    def _commit(self, term: Term, running: _Running) -> None:
        self._running.remove(running)
        try:
            receipt = running.result.result()
            term.commit(Change("merge", term.snapshot.version, added=[receipt], removed=running.task.runs))
            self.committed += 1
            self.last_error = None
            for state in running.states:
                if len(term.snapshot.states.get(state, ())) == sum(run.state == state for run in receipt.runs):
                    self._cleaned |= {(state, member) for member in running.dead.get(state, ())}
        except Fenced:
            raise
        except MergeOutdated as outdated:
            log.info("a merge is thrown away: %s", outdated)
        except Exception as error:  # noqa: BLE001 - whether a shortage or not, views are right without the merge; it is tried again
            self.last_error = f"a merge failed: {error}"
            log.warning("%s", self.last_error)
            self._retry_at = time.monotonic() + RETRY_SECONDS
        finally:
            term.end_attempt(running.attempt)
