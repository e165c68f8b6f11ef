"""Views whose rows are written to outside stores, too: beside the batches, each by itself.

What a target's marker says is the truth, also after an answer that was lost.  From the version that it names the rows
that changed since are written, of several versions at once where they have come meanwhile; where that version is not
kept any more, or the target is ahead of the database, all rows are compared (docs/decisions/095-views-in-stores.md).
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from viewkeeper.catalog.model import ERRORS, Catalog, View
from viewkeeper.catalog.outside_store import Target
from viewkeeper.errors import Error, NotFound
from viewkeeper.jobs import ring
from viewkeeper.pipeline.term import Term
from viewkeeper.stores.outside.targets import (
    Begun,
    LaterEpoch,
    Marker,
    RowForm,
    TargetTaken,
    ViewTarget,
    Written,
    blocks,
    opened,
    parts_of,
    shown,
)
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.lease import Lease, LeaseLost
from viewkeeper.trace.points import reached
from viewkeeper.trace.snapshot import Change, Snapshot
from viewkeeper.trace.trace import changed_rows

THREADS_MAX = 256
"""A thread a target, at most: one that does not answer holds up no other."""

RETRY_SECONDS = (0.25, 5.0)
"""Before a target that could not be written is tried again: at first, and at most."""

LOOK_SECONDS = 1.0
"""So often a target to which there is nothing to write is looked at: it may have lost what it had."""

HELD_SECONDS = 600.0
"""For so long the version that a target has is kept where it cannot be written; afterwards all rows are compared."""

PATIENCE_SECONDS = 5.0
"""Where a target cannot be written after so long, `catch_up` says so and does not wait any more."""

BEGIN_TRIES = 5

log = logging.getLogger("viewkeeper")


class _Held(Error):
    """The view cannot be read as it is, so the target keeps its last good version."""


class _Stopped(Error):
    """The driver ends."""


@dataclass
class _Running:
    """What is being written: up to `upto`, of `view`; None: all of it is removed."""

    view: View | None
    upto: Snapshot
    lease: Lease
    result: Future[Marker | None]


class Publishing:
    """Keeps the targets of views up to date."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._pool = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="viewkeeper target")
        self._publications: dict[Target, _Publication] = {}
        self._stop = threading.Event()

    def step(self, term: Term) -> bool:
        """Takes up what is done, and begins what is to be done; whether a target has come further."""
        catalog = term.snapshot.catalog
        if not catalog.targets and not self._publications:
            return False
        for target in [each for each in self._publications if each not in catalog.targets]:
            self._publications.pop(target).close()
        moved = False
        views = published_views(catalog)
        for target in catalog.targets:
            publication = self._publications.get(target)
            if publication is None:
                publication = _Publication(target, self._storage.another(), self._pool, self._stop)
                self._publications[target] = publication
            if publication.settle():
                moved = True
            if target in views:
                publication.begin(term, views[target])
            elif not any(view.target == target for view in catalog.views):
                if publication.removed:
                    _forget(term, target)
                else:
                    publication.begin(term, None)
        return moved

    @property
    def running(self) -> list[Future[Marker | None]]:
        """What runs beside the steps."""
        return [each.running.result for each in self._publications.values() if each.running is not None]

    @property
    def barriers(self) -> list[int]:
        """Versions from which rows that changed are still to be found: merges do not cross them."""
        return [each.seen.version for each in self._publications.values() if each.seen is not None and each.is_behind]

    @property
    def last_error(self) -> str | None:
        """Why a target cannot be written at present."""
        return next((each.error for each in self._publications.values() if each.error is not None), None)

    def describe(self) -> list[dict[str, Any]]:
        """Of each target: its view, the version that is there, what is wrong, and when it was tried, for `status`."""
        return [each.describe() for each in self._publications.values()]

    def close(self) -> None:
        """Ends what is being written after its next block; whoever comes next goes on from the marker."""
        self._stop.set()
        wait(self.running, 1.0)
        for publication in self._publications.values():
            publication.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


def published_views(catalog: Catalog) -> dict[Target, View]:
    """The views that are written to targets: what is filled, and is not to be put in the place of another."""
    kept = (view for view in catalog.views if view.filled is not None and view.stopped is None)
    return {view.target: view for view in kept if view.target is not None and view.replaces is None}


def unpublished(
    catalog: Catalog, version: int, described: list[dict[str, Any]], since: float
) -> dict[str, str | None]:  # fmt: skip
    """The views that are not yet written to their targets as of `version`, by name, and why not, if that was still
    so when it was tried so long after `since` (seconds since 1970); `described` is what the driver says of its
    targets."""
    by_view = {each["view"]: each for each in described}
    found: dict[str, str | None] = {}
    for view in published_views(catalog).values():
        said = by_view.get(view.id)
        if said is None or all(said[name] is None or said[name] < version for name in ("version", "held_at")):
            lasts = said is not None and said["tried"] > since + PATIENCE_SECONDS
            found[view.name] = said["error"] if said is not None and lasts else None
    return found


def _forget(term: Term, target: Target) -> None:
    snapshot = term.snapshot
    left = tuple(each for each in snapshot.catalog.targets if each != target)
    term.commit(Change("catalog", snapshot.version + 1, catalog=replace(snapshot.catalog, targets=left)))


class _Publication:
    """One target.  The driver's thread calls all but `_write` and what that calls, which run in a thread of the pool,
    one at a time."""

    def __init__(self, target: Target, storage: Storage, pool: ThreadPoolExecutor, stop: threading.Event) -> None:
        self.target = target
        self.running: _Running | None = None
        self.seen: Snapshot | None = None
        self.is_behind = False
        self.removed = False
        self.error: str | None = None
        self._storage, self._pool, self._stop = storage, pool, stop
        self._view: int | None = None
        self._done: Marker | None = None
        self._known: Marker | None = None
        self._lease: Lease | None = None
        self._opened: ViewTarget | None = None
        self._held: str | None = None
        self._held_at: int | None = None
        self._failing_since, self._pause, self._retry_at = 0.0, 0.0, 0.0
        self._tried, self._looked, self._next_at = 0.0, 0.0, 0.0
        self._unfinished: tuple[Snapshot, Lease] | None = None
        self._ids: tuple[int, ...] = ()

    def describe(self) -> dict[str, Any]:
        done, version = self._done, None
        if done is not None and done.view == self._view:
            version = done.at.version
        return {"view": self._view, "kind": self.target.kind, "version": version, "error": self.error,
                "held": self._held, "held_at": self._held_at, "tried": self._tried}  # fmt: skip

    def begin(self, term: Term, view: View | None) -> None:
        """Starts to write what there is to write."""
        snapshot = term.snapshot
        self._view = None if view is None else view.id
        self.removed = self.removed and view is None
        self.is_behind = self._done is None or self._done.at.version < snapshot.version
        same = view is not None and self._done is not None and self._done.view == view.id
        now = time.monotonic()
        if self.running is not None or (same and not self.is_behind and now - self._looked < LOOK_SECONDS):
            return
        if self.error is not None and self._lease is not None and now - self._failing_since > HELD_SECONDS:
            self._let_go()
        if now < self._retry_at or (view is not None and now < self._next_at):
            return
        self._looked = now
        self._ids = () if view is None else lineage(snapshot.catalog, view)
        live = frozenset(each.id for each in published_views(snapshot.catalog).values())
        # What was begun is ended first: in rows of it that are there a later version may be like an earlier one.
        unfinished, self._unfinished = self._unfinished, None
        upto, lease = unfinished or (snapshot, Lease(term.storage, snapshot.number))
        at = Written(upto.version, *upto.ref)
        mine = Marker(snapshot.database, 0, 0, at, term.epoch)
        if view is not None:
            mine = mine._replace(view=view.id, state=view.stored.state.id)
        result = self._pool.submit(self._write, view, mine, snapshot.catalog.zone, live)
        self.running = _Running(view, upto, lease, result)

    def settle(self) -> bool:
        """Takes up what is done; whether the target has come further."""
        running = self.running
        if running is None or not running.result.done():
            return False
        self.running = None
        try:
            done = running.result.result()
        except _Held as held:
            running.lease.close()
            self._held, self._held_at = str(held), running.upto.version
            self._retry_at = time.monotonic() + RETRY_SECONDS[0]
            return True
        except Exception as error:  # noqa: BLE001 - it holds up its own view alone, whatever it is; it is tried again
            if self._lease is not None and running.view is not None:
                self._unfinished = running.upto, running.lease
            else:
                running.lease.close()
            self._failed(running.view, error)
            return False
        self._let_go()
        self.seen, self._lease, self._done = running.upto, running.lease, done
        self.removed = running.view is None
        self.error, self._held, self._held_at, self._pause, self._retry_at = None, None, None, 0.0, 0.0
        assert self._opened is not None, "it was written"
        self._next_at = time.monotonic() + self._opened.pause_seconds
        return True

    def close(self) -> None:
        """Nothing is written any more by this driver."""
        if self.running is not None:
            self.running.lease.close()
            self.running.result.add_done_callback(lambda _: self._end())
        else:
            self._end()
        self._let_go()

    def _end(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _let_go(self) -> None:
        leases = [self._lease, None if self._unfinished is None else self._unfinished[1]]
        self._lease, self.seen, self._unfinished = None, None, None
        for lease in leases:
            if lease is not None:
                lease.close()

    def _failed(self, view: View | None, error: Exception) -> None:
        what = "rows of a dropped view cannot be removed from" if view is None else f"{view.name} cannot be written to"
        message = f"{what} {self.target.kind}: {str(error).strip() or type(error).__name__}"
        if self.error is None:
            self._failing_since = time.monotonic()
        if message != self.error and not isinstance(error, _Stopped):
            log.warning("%s; it is tried again", message)
        self.error, self._tried = message, time.time()
        self._pause = min(2 * self._pause, RETRY_SECONDS[1]) if self._pause else RETRY_SECONDS[0]
        self._retry_at = time.monotonic() + self._pause

    # In a thread of its own

    def _write(self, view: View | None, mine: Marker, zone: str, live: frozenset[int]) -> Marker | None:
        try:
            if self._opened is None:
                self._opened = opened(self.target)
            if view is None:
                self._remove(self._opened, mine, live)
                return None
            now = self._storage.at(mine.at.manifest, mine.at.identity)
            self._require_whole(view, now)
            for attempt in range(BEGIN_TRIES):
                try:
                    self._bring(self._opened, view, now, mine, zone)
                    return mine
                except Begun:
                    self._known = None
                    if attempt == BEGIN_TRIES - 1:
                        raise
            raise AssertionError("the loop returns or raises")
        except Exception:
            self._known = None  # what has been done of it the marker says
            raise

    def _require_whole(self, view: View, now: Snapshot) -> None:
        errors = now.trace(ERRORS)
        for id_ in self._ids if len(errors.runs) else ():
            rows = errors.get([id_])
            if rows:
                _, code, place, row = rows[0][0]
                raise _Held(f"{view.name} has {code} at {place} for {row}: its target keeps the last version without")

    def _bring(self, target: ViewTarget, view: View, now: Snapshot, mine: Marker, zone: str) -> None:
        if self._known is not None and self._known.at == mine.at and target.marker() == self._known:
            return  # nothing to write, and nothing is lost
        was, all_of_it = (self._known, False) if self._known is not None else self._begun(target, view, mine)
        form = RowForm(view, zone)
        target.prepare(form)
        if was is None:
            for rows in blocks(now.trace(view.stored.state)):
                self._require_going()
                block = shown(view, rows)
                target.write(form, mine.at, block, block.take(np.zeros(0, np.int64)))
                reached("target rows")
        elif all_of_it or (was.view, was.state) != (mine.view, mine.state):
            self._reconcile(target, form, view, now, mine.at)
        else:
            self._go_on(target, form, view, now, mine, was)
        self._complete(target, mine)

    def _complete(self, target: ViewTarget, mine: Marker) -> None:
        reached("before marker")
        target.complete(mine)
        reached("after marker")
        self._known = mine

    def _begun(self, target: ViewTarget, view: View, mine: Marker) -> tuple[Marker | None, bool]:
        """What the target says of itself, and whether all of it is to be compared: since nothing of it was whole yet,
        or it is ahead of the database."""
        try:
            was, ahead = target.begin(mine), False
        except LaterEpoch:
            if self._storage.another().newest().epoch != mine.epoch:
                raise
            was, ahead = target.begin(mine, force=True), True
        if was is None or was.at.version < 0:
            return was, True
        if ahead or was.at.version > mine.at.version:
            log.warning(
                "%s: %s has version %d of epoch %d, and the database is at version %d: an older copy of it was put "
                "back; the view is written again as a whole", view.name, self.target.kind, was.at.version, was.epoch,
                mine.at.version,
            )  # fmt: skip
            return was, True
        return was, False

    def _go_on(
        self, target: ViewTarget, form: RowForm, view: View, now: Snapshot, mine: Marker, was: Marker
    ) -> None:  # fmt: skip
        """Writes what has changed since the version that is there; first the rest of one that was begun, if any was."""
        steps = [was.at] if was.writing in (None, mine.at) else [was.at, was.writing]
        with ExitStack() as leases:
            kept = [self._kept(at, leases) for at in steps if at is not None]
            snapshots = [each for each in kept if each is not None]
            if len(snapshots) < len(kept):
                if was.writing is not None:
                    # Were this cut off, the marker would name what is written now, and no more what was begun before.
                    self._complete(target, mine._replace(at=Written()))
                self._reconcile(target, form, view, now, mine.at)
                return
            for older, newer, at in zip(snapshots, [*snapshots[1:], now], [*steps[1:], mine.at], strict=True):
                assert at is not None
                self._write_changes(target, form, view, older, newer, at)
                if newer is not now:
                    self._complete(target, mine._replace(at=at))

    def _kept(self, at: Written, leases: ExitStack) -> Snapshot | None:
        """The snapshot of a version, if it is still kept, and a lease on it."""
        held = self.seen is not None and self.seen.ref == (at.manifest, at.identity)
        try:
            if not held:  # else the driver's thread has a lease
                leases.enter_context(Lease(self._storage, at.manifest))
            return self._storage.at(at.manifest, at.identity)
        except (LeaseLost, NotFound):
            return None

    def _write_changes(
        self, target: ViewTarget, form: RowForm, view: View, before: Snapshot, now: Snapshot, at: Written
    ) -> None:  # fmt: skip
        older, newer = before.trace(view.stored.state), now.trace(view.stored.state)
        last = max((run.ref.last for run in older.runs if run.ref is not None), default=-1)
        fresh = sum(len(run) for run in newer.runs if run.ref is None or run.ref.last > last)
        parts = parts_of(fresh)
        for i in range(parts):
            self._require_going()
            gone, came = changed_rows(older, newer, *ring.interval(i, parts))
            gone, came = shown(view, gone), shown(view, came)
            if len(gone) or len(came):
                target.write(form, at, came, gone)
                reached("target rows")

    def _reconcile(self, target: ViewTarget, form: RowForm, view: View, now: Snapshot, at: Written) -> None:
        rows = (shown(view, block) for block in blocks(now.trace(view.stored.state)))
        for _, mending in target.deviations(form, rows):
            self._require_going()
            target.mend(at, mending)
            reached("target rows")

    def _remove(self, target: ViewTarget, mine: Marker, live: frozenset[int]) -> None:
        self._known = None
        try:
            was = target.marker()
        except TargetTaken:
            return
        if was is None or was.database != mine.database or was.view in live:
            return
        try:
            target.begin(mine)
        except LaterEpoch:
            if self._storage.another().newest().epoch != mine.epoch:
                raise
            target.begin(mine, force=True)
        target.clear()

    def _require_going(self) -> None:
        if self._stop.is_set():
            raise _Stopped("the driver ends")


def lineage(catalog: Catalog, view: View) -> tuple[int, ...]:
    """The ids of the view and of the views below it."""
    found, stack = {view.id}, [view]
    while stack:
        for below in map(catalog.by_id, stack.pop().reads):
            if isinstance(below, View) and below.id not in found:
                found.add(below.id)
                stack.append(below)
    return tuple(found)
