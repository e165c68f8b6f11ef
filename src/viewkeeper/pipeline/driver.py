"""The driver: requests, fills, batches, merges and garbage of one database, one step after the other.

It knows no Spark: `Maintainer` is given a `DriverExecutor`.  Everything that it commits goes through its `Term`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import Any, TypeVar

from viewkeeper.changes.positions import Positions, earlier, is_reached
from viewkeeper.errors import DeclarationError
from viewkeeper.pipeline import requests
from viewkeeper.pipeline.adopting import Adopting
from viewkeeper.pipeline.batches import OPERATIONS_MAX, Batches
from viewkeeper.pipeline.declare_script import of_this_spark
from viewkeeper.pipeline.dropped import forget_dropped
from viewkeeper.pipeline.feeding import Feeding
from viewkeeper.pipeline.fills import Fills, unready
from viewkeeper.pipeline.merging import AT_ONCE, Merging
from viewkeeper.pipeline.note import Note
from viewkeeper.pipeline.part_keeping import PartKeeping
from viewkeeper.pipeline.publishing import Publishing
from viewkeeper.pipeline.shortage import Patience
from viewkeeper.pipeline.term import Term
from viewkeeper.pipeline.work import DriverExecutor
from viewkeeper.stores.logs import Logs
from viewkeeper.streams.analyst import LazyAnalyst
from viewkeeper.trace.garbage import collect
from viewkeeper.trace.snapshot import Change, Snapshot

log = logging.getLogger("viewkeeper")

_Result = TypeVar("_Result")

IDLE_SECONDS = 0.02
"""Between two looks at logs and requests when nothing is to do: an idle look costs about 0.1 ms."""

LOOK_SECONDS = 0.01
"""The same for the pipeline: half as long, for a batch after a pause waits a little (batches.GATHERED_SECONDS)."""

QUIET_SECONDS = 3.0
"""After so long without a batch, merges go on to what only frees space."""

TIDY_SECONDS = 5.0
"""Between two rounds of log trimming and garbage collection."""

FORGETTING_SECONDS = 0.05
"""For so long a round removes rows of dropped tables, if there are any."""

LOG_KEPT_SECONDS = 60.0
"""Log entries stay for so long behind the positions of the oldest manifest that is kept."""


class Maintainer:
    """Keeps the views of one database up to date for as long as its `term` lasts.  For one thread."""

    def __init__(self, term: Term, logs: Logs, executor: DriverExecutor, operations_max: int = OPERATIONS_MAX) -> None:
        self.term = term
        self._logs, self._store = logs, logs.store
        self._pool = ThreadPoolExecutor(AT_ONCE + 2, thread_name_prefix="viewkeeper")
        self.batches = Batches(logs, executor, operations_max)
        self.adopting = Adopting(logs, executor, self._pool)
        self.fills = Fills(executor, self._pool)
        self.merging = Merging(executor, self._pool)
        self.publishing = Publishing(term.storage)
        self.feeding = Feeding(term.storage)
        self.parts = PartKeeping(executor, self._pool, term.storage, logs)
        self._analyst = executor.analyst
        self._waiting = {doing: Patience(doing) for doing in
                         ("the pipeline", "answering statements", "adopting tables", "building views anew",
                          "filling views", "keeping streams", "the next batch", "writing views to stores", "merging",
                          "tidying up", "removing dropped rows")}  # fmt: skip
        self.renewed: frozenset[int] = frozenset()  # what is built in place of what another Spark has computed
        self._is_renewed = False
        self._note = Note(term.storage.disk)
        self._last_batch = time.monotonic()
        self._tidied = 0.0
        self._forgetting = True

    @property
    def last_error(self) -> str | None:
        """What went wrong last and has not gone well since."""
        waiting = [each.error for each in self._waiting.values() if each.error is not None]
        waiting += self._logs.away(self.term.snapshot.catalog).values()
        waiting += [*self.adopting.errors.values(), *self.feeding.errors.values()]
        if waiting:
            return "; ".join(dict.fromkeys(waiting))
        doing = (self.batches, self.fills, self.merging, self.parts, self.publishing)
        return next((each.last_error for each in doing if each.last_error), None)

    def _renew(self) -> bool:
        """Has views built anew beside those that another Spark has a part in; what cannot be is told, and stays."""
        term = self.term
        try:
            catalog = of_this_spark(term.snapshot.catalog, LazyAnalyst(self._analyst))
        except DeclarationError as error:
            log.warning("views of another Spark are not built anew: %s", error)
            return True
        if catalog is not term.snapshot.catalog:
            self.renewed = unready(catalog) - unready(term.snapshot.catalog)
            term.commit(Change("catalog", term.snapshot.version + 1, catalog=catalog))
        return True

    def run(self, stop: threading.Event) -> None:
        """Maintains until `stop` is set."""
        while not stop.is_set():
            if not self.step():
                stop.wait(LOOK_SECONDS)

    def step(self) -> bool:
        """One round; whether it committed a batch, or anything that somebody may be waiting for.

        Raises StoreReplaced where the logs are not those that the views have read.  What the machine is too short of
        something to do is done in a later step; the rest goes on.
        """
        term, attempt = self.term, self._attempt
        if not attempt("the pipeline", self._begin):
            return False
        if not self._is_renewed:
            self._is_renewed = attempt("building views anew", self._renew) is True
        answered = attempt("answering statements", lambda: requests.answer_all(term, self._analyst))
        adopted = attempt("adopting tables", lambda: self.adopting.step(term))
        filled = attempt("filling views", lambda: self.fills.step(term))
        self.feeding.step(term.snapshot.catalog)
        kept = attempt("keeping streams", lambda: self.parts.step(term))
        cut = attempt("the next batch", lambda: self.batches.step(term))
        written = attempt("writing views to stores", lambda: self.publishing.step(term))
        now = time.monotonic()
        if cut is not None:
            self._last_batch = now
        quiet = now - self._last_batch > QUIET_SECONDS
        barriers = [*self.fills.barriers, *self.publishing.barriers]
        attempt("merging", lambda: self.merging.step(term, idle=quiet, barriers=barriers))
        if now - self._tidied > TIDY_SECONDS:
            attempt("tidying up", self._tidy)
            self._tidied = time.monotonic()
        if answered or self._forgetting:
            self._forgetting = attempt("removing dropped rows", self._forget) is not False
        self._note.write(self.describe)
        return bool(answered or adopted or filled or kept or written or cut is not None)

    def wait(self) -> None:
        """Returns when there may be something for the next step, after one that did nothing: as soon as work that runs
        beside the steps is done.  Looking for that again and again would take half of a core from it."""
        beside: tuple[Future[Any], ...] = (
            *self.adopting.running,
            *self.fills.running,
            *self.merging.running,
            *self.parts.running,
            *self.publishing.running,
        )
        running = [each for each in beside if not each.done()]
        if running:
            wait_for(running, IDLE_SECONDS, FIRST_COMPLETED)
        else:
            time.sleep(IDLE_SECONDS / 10)

    def _attempt(self, doing: str, action: Callable[[], _Result]) -> _Result | None:
        def settled() -> _Result:
            self.term.settle()  # what a commit that failed may have replaced must not be gone on from
            return action()

        return self._waiting[doing].attempt(settled)

    def _begin(self) -> bool:
        self._store.require_same(self.term.snapshot.positions, self.term.snapshot.hashes)
        return True

    def describe(self) -> dict[str, Any]:
        """What others are told of this driver."""
        return {
            "epoch": self.term.epoch, "operations": self.batches.operations, "counters": dict(self.batches.counters),
            "merges": self.merging.committed, "fill": self.fills.progress(),
            "outside": self._outside(), "lost": _by_text(self._logs.lost(self.term.snapshot.catalog)),
            "refused": _by_text(self.adopting.given_up),
            "unfilled": self.fills.errors(), "given_up": sorted(self.fills.given_up),
            "targets": self.publishing.describe(), "parts": self.parts.describe(), "last_error": self.last_error,
        }  # fmt: skip

    def close(self) -> None:
        """Ends the term; running merges are committed, and parts as far as they are built; a running fill is given
        up."""
        self.parts.hurry()
        try:
            self.feeding.close()
            self.publishing.close()
            self.adopting.abandon(self.term)
            self.fills.abandon(self.term)
            self.parts.finish(self.term)
            self.merging.finish(self.term)
        finally:
            self._pool.shutdown()
            self.parts.close()
            self._note.remove()
            self.term.close()

    def _tidy(self) -> None:
        self.term.beat()
        snapshot, now = self.term.snapshot, time.time()
        oldest = collect(self.term.storage, snapshot, self.term.running, now).oldest
        # A check of an older version that is held reads the log from there on.
        self._logs.forget(snapshot.catalog, earlier(snapshot.positions, oldest.positions), LOG_KEPT_SECONDS)
        self.parts.tidy(self.term, now)
        self._forgetting = True
        requests.clear_forgotten(self.term.storage.disk, now)

    def _outside(self) -> dict[str, str]:
        """By id (as text) why a table or stream in an outside store is not read or adopted at present."""
        return _by_text({**self._logs.away(self.term.snapshot.catalog), **self.adopting.errors, **self.feeding.errors})

    def _forget(self) -> bool:
        return forget_dropped(self.term, self._store, FORGETTING_SECONDS)


def _by_text(of: Mapping[int, str]) -> dict[str, str]:
    """The same by ids that JSON can have as names."""
    return {str(id_): why for id_, why in of.items()}


def caught_up(snapshot: Snapshot, ends: Positions, ids: frozenset[int]) -> bool:
    """Whether `snapshot` holds the logs up to `ends`, and nothing of `ids` waits to be adopted or filled."""
    return is_reached(ends, snapshot.positions) and not ids & unready(snapshot.catalog)
