"""Named places at which the fault tests kill a process.

The variable `VIEWKEEPER_FAULTS` names a folder.  A file in it that is called like a point and says `<count> <pid>` has
process `pid` (0: the one that is there) killed, as by `kill -9`, when the point is reached for the `count`-th time, by
whatever process.  Without the variable a point costs one test of a constant.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

POINTS = ("log read", "zone file written", "before commit", "after commit", "merge", "fill")
WORKER_POINTS = ("log read", "zone file written", "merge", "fill")
"""Those that a worker reaches where jobs run on Spark."""

PART_POINTS = ("entries taken", "part file written", "part repaired", "before parts", "after parts", "parts rolled up",
               "parts expired", "dimension copied")  # fmt: skip
"""Those of keeping streams and the views over them."""

STORE_POINTS = ("call prepared", "between nodes", "call written", "part done")
"""Those of a call that writes on several nodes, and of who finishes one that died."""

TARGET_POINTS = ("target rows", "before marker", "after marker")
"""Those of writing a view to an outside store."""

_FOLDER = os.environ.get("VIEWKEEPER_FAULTS")


def reached(name: str) -> None:
    """Says that the process has come to the point `name`, one of those above."""
    if _FOLDER is not None:
        _count(Path(_FOLDER), name)


def arm(folder: Path, name: str, count: int, pid: int = 0) -> None:
    """From now on the `count`-th pass of the point `name` kills `pid`."""
    _passes(folder, name).unlink(missing_ok=True)
    (folder / name).write_text(f"{count} {pid}")


def passes(folder: Path, name: str) -> int:
    """How often the point has been reached since it was armed."""
    file = _passes(folder, name)
    return file.stat().st_size if file.exists() else 0


def _count(folder: Path, name: str) -> None:
    try:
        count, pid = map(int, (folder / name).read_text().split())
    except FileNotFoundError:
        return
    # Appending is atomic: each pass, of whatever process, finds its own number.
    descriptor = os.open(_passes(folder, name), os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    try:
        os.write(descriptor, b".")
        number = os.lseek(descriptor, 0, os.SEEK_CUR)
    finally:
        os.close(descriptor)
    if number == count:
        os.kill(pid or os.getpid(), signal.SIGKILL)


def _passes(folder: Path, name: str) -> Path:
    return folder / f"{name}.passes"
