"""Spark's worker collects garbage after each task, for as long as everything is looked at that viewkeeper's modules and
catalogs hold: several times as long as a small batch takes."""

from __future__ import annotations

import gc
import time

WHOLE_SECONDS = 60.0
"""So often everything is looked at: what was kept once may have been dropped, and be a cycle."""


class Collections:
    """Called before each task of a worker, which has collected after the one before: what is there now, is needed."""

    def __init__(self) -> None:
        self._whole: float | None = None

    def spare(self, now: float | None = None) -> None:
        """The next collections leave alone what is there now, but for one every `WHOLE_SECONDS`."""
        now = time.monotonic() if now is None else now
        if self._whole is None:
            self._whole = now
        if now - self._whole >= WHOLE_SECONDS:
            self._whole = now
            gc.unfreeze()
        else:
            gc.freeze()


of_this_worker = Collections()
