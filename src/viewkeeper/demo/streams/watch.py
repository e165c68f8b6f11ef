"""How views follow a stream: which parts were built and repaired, and how long after a part was sealed."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from viewkeeper.database import Database
from viewkeeper.demo.streams.views import VIEWS
from viewkeeper.views.parts_at_version import Changed

SHOWN = 6
"""So many repairs are remembered."""


class Repair(NamedTuple):
    """Parts `first` to `last` of a view came out otherwise than before, in one version."""

    view: str
    first: int
    last: int
    version: int


class StreamWatch:
    """What was seen since it was made; `told` is what the feeder said last.

    `lags` are the seconds from the storing of the row that sealed a part to the commit of a view's part made of it.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self.begin = time.monotonic()
        self.built: Counter[str] = Counter()
        self.repaired: Counter[str] = Counter()
        self.repairs: deque[Repair] = deque(maxlen=SHOWN)
        self.lags: list[float] = []
        self.told: Mapping[str, Any] = {}
        with db.snapshot() as snapshot:
            self.first_version = self.version = snapshot.version
            self.next = {view.name: snapshot.view(view.name).next for view in VIEWS}
        self._sealed: dict[int, float] = {}

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return time.monotonic() - self.begin

    @property
    def versions(self) -> int:
        """Committed since it was made."""
        return self.version - self.first_version

    def look(self, told: Mapping[str, Any]) -> None:
        """Sees what has been committed since it last looked; `told` is the feeder's last word."""
        self.told = told
        self._sealed.update(told["sealed"])
        if self._db.lag()["version"] == self.version:
            return
        with self._db.snapshot() as snapshot:
            since = self.version
            self.version = snapshot.version
            for view in VIEWS:
                reader = snapshot.view(view.name)
                self._changes(view.name, reader.changed_since(since), reader.next)

    def _changes(self, view: str, changes: Sequence[Changed], after: int | None) -> None:
        before = self.next[view]
        for change in changes:
            old = 0 if before is None else max(0, min(change.last, before - 1) - change.first + 1)
            if old:
                self.repaired[view] += old
                self.repairs.append(Repair(view, change.first, change.first + old - 1, change.version))
            self.built[view] += change.last - change.first + 1 - old
            if view != "quarters":
                self._built(range(change.first + old, change.last + 1), change.time.timestamp())
        self.next[view] = after

    def _built(self, parts: range, at: float) -> None:
        self.lags += [max(0.0, at - self._sealed[part]) for part in parts if part in self._sealed]
