"""What the running driver tells others about itself: `<root>/pipeline.json`, rewritten about once a second.

It is for people (`status`, the progress in NotReady), and tells who waits what he need not wait for: nothing else is
decided by it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from typing import Any

from viewkeeper.trace.disk import Disk

EVERY_SECONDS = 0.5
NAME = "pipeline.json"


class Note:
    """Writes the note of one driver."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._started = time.time()
        self._written_at = 0.0
        self._written: dict[str, Any] | None = None

    def write(self, describe: Callable[[], dict[str, Any]]) -> None:
        """Brings the note up to date with what `describe` says, if it is old."""
        now = time.monotonic()
        if now - self._written_at < EVERY_SECONDS:
            return
        self._written_at = now
        note = {"pid": os.getpid(), "started": self._started, **describe()}
        if note != self._written:
            with contextlib.suppress(OSError):  # A full disk, say: nobody needs the note to go on.
                self._disk.put(NAME, json.dumps(note).encode())
                self._written = note

    def remove(self) -> None:
        """The driver ends."""
        self._disk.delete([NAME])


def read_note(disk: Disk) -> dict[str, Any] | None:
    """What the driver last said; None where there is none (or a killed one has left a note behind that says so)."""
    try:
        return json.loads(disk.read(NAME))
    except FileNotFoundError:
        return None
