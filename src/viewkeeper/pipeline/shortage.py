"""Shortages: what the machine lacks (room on the disk, memory, open files, a worker) is no view's defect.

The driver waits, tells what it waits for, and tries again.  A view is stopped for a shortage only where its program,
run apart, has failed for `APART_SECONDS` while the others' succeeded.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from viewkeeper.catalog.model import Catalog, Index, View
from viewkeeper.errors import TOLD_SHORTAGE, is_shortage

PAUSES_SECONDS = (0.5, 30.0)
"""Before a first try again, and at most; twice as long after each failure."""

APART_SECONDS = 300.0
"""So long a view's program fails, run apart, before the view is stopped."""

SUSPECTED_SECONDS = 10.0
"""So long a batch fails before the programs of its views are run apart."""

clock: Callable[[], float] = time.monotonic
log = logging.getLogger("viewkeeper")

_Result = TypeVar("_Result")


class Patience:
    """Tries one thing that a driver does again and again, with longer and longer pauses while there is a shortage;
    `error` says which."""

    def __init__(self, doing: str) -> None:
        self.error: str | None = None
        self._doing, self._pause, self._retry_at = doing, PAUSES_SECONDS[0], 0.0

    def attempt(self, action: Callable[[], _Result]) -> _Result | None:
        """What `action` gives; None in a pause, and where it runs into a shortage.  Raises everything else."""
        if self.error is not None and clock() < self._retry_at:
            return None
        try:
            result = action()
        except Exception as error:
            if not is_shortage(error):
                raise
            self._failed(error)
            return None
        self.error, self._pause = None, PAUSES_SECONDS[0]
        return result

    def _failed(self, error: Exception) -> None:
        told = f"{self._doing} waits, since the machine is short of something: {_brief(error)}; it is tried again"
        if self.error is None:  # told once, however long it lasts
            log.warning("%s", told)
        self.error = told
        self._retry_at, self._pause = clock() + self._pause, min(2 * self._pause, PAUSES_SECONDS[1])


def _brief(error: Exception) -> str:
    """What is short, without the pages that Spark wraps around it."""
    lines = str(error).strip().splitlines()
    named = [line.strip() for line in lines if TOLD_SHORTAGE.search(line)]
    return f"{type(error).__name__}: {(named or lines or ['memory, or address space (ulimit -v)'])[0]}"


class Apart:
    """Finds the view that a batch cannot be made for, by running the programs of its views apart."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._failing: dict[int, float] = {}  # view -> since when its program, run apart, fails

    def went_well(self) -> None:
        """The batch succeeded."""
        self._since, self._failing = None, {}

    def culprit(
        self, catalog: Catalog, suspects: Collection[int], succeeds: Callable[[frozenset[int]], bool]
    ) -> int | None:
        """The view or index to be stopped, after one more failure of the batch; None where there is none yet.

        `suspects` are the ids of what failed, empty where nothing says so.  `succeeds` runs the batch without the views
        and indexes that it is given.
        """
        now = clock()
        if self._since is None:
            self._since = now
        if now - self._since < SUSPECTED_SECONDS:
            return None
        kept = {i.id for i in catalog.whole if isinstance(i, View | Index) and i.filled and not i.stopped}
        for id_ in sorted(kept.intersection(suspects) or kept):
            if succeeds(frozenset(kept - _needed(catalog, id_))):
                self._failing.pop(id_, None)
            else:
                self._failing.setdefault(id_, now)
        if not self._failing or not succeeds(frozenset(self._failing)):
            self._failing = {}  # the others fail, too: it is no view's
            return None
        id_ = min(self._failing, key=lambda each: (self._failing[each], each))
        return id_ if now - self._failing[id_] >= APART_SECONDS else None


def _needed(catalog: Catalog, id_: int) -> set[int]:
    """What a view or index stands on, itself included."""
    item = catalog.by_id(id_)
    below: Iterable[int] = item.reads if isinstance(item, View) else (item.on,) if isinstance(item, Index) else ()
    return {id_}.union(*(_needed(catalog, each) for each in below))
