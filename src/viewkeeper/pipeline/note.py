"""What the running driver tells others about itself: `<root>/pipeline.json`, rewritten about once a second.

It is for people (`status`, the progress in NotReady): nothing is decided by it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from viewkeeper.trace.local import LocalDisk

EVERY_SECONDS = 0.5


class Note:
    """Writes the note of one driver."""

    def __init__(self, root: Path) -> None:
        self._path, self._disk = root / "pipeline.json", LocalDisk()
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
                self._disk.replace(self._path, json.dumps(note).encode())
                self._written = note

    def remove(self) -> None:
        """The driver ends."""
        self._path.unlink(missing_ok=True)


def read_note(root: Path) -> dict[str, Any] | None:
    """What the driver last said; None where there is none (or a killed one has left a note behind that says so)."""
    try:
        return json.loads((root / "pipeline.json").read_bytes())
    except FileNotFoundError:
        return None
