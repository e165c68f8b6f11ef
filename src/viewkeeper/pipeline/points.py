"""Named places at which the fault tests kill a process.

`VIEWKEEPER_FAULT="<name>:<count>:<file>"` kills the process, as `kill -9` does, that reaches the point `name` for the
`count`-th time.  The file counts the passes of all processes that share it, so that each run has exactly one fault.
Without the variable a point costs one test of a constant.
"""

from __future__ import annotations

import os
import signal

POINTS = ("log read", "zone file written", "before commit", "after commit", "merge", "fill")

_FAULT = os.environ.get("VIEWKEEPER_FAULT")


def reached(name: str) -> None:
    """Says that the process has come to the point `name`, one of `POINTS`."""
    if _FAULT is not None:
        _count(name, *_FAULT.split(":", 2))


def _count(name: str, wanted: str, count: str, file: str) -> None:
    if name != wanted:
        return
    descriptor = os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    try:
        os.write(descriptor, b".")
        passes = os.lseek(descriptor, 0, os.SEEK_CUR)
    finally:
        os.close(descriptor)
    if passes == int(count):
        os.kill(os.getpid(), signal.SIGKILL)
