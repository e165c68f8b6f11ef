"""Why no server outlives those for whom it was started, however they end.

A lifeline is the reading end of a pipe whose writing end is held by those for whom servers run. Beside each server, in
its group of processes, a shell reads there; it gets nothing until the last holder is gone, and then kills the group.
That needs no time and no help from who dies, so that kill -9 is covered too.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path


class Lifeline:
    """How long servers that are started with it live.  `reader` is the end from which nothing comes until they shall
    end; None: they live until they are stopped."""

    def __init__(self, reader: int | None) -> None:
        self.reader = reader


FOREVER = Lifeline(None)
"""Until somebody stops the server."""


@cache
def this_process() -> Lifeline:
    """As long as this process, and those that it makes by a bare fork."""
    return Lifeline(os.pipe()[0])  # nobody closes the other end: the system does


def of_fifo(path: Path) -> Lifeline:
    """As long as anybody has the FIFO `path` open for writing; if nobody has, a server dies when it is started."""
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # without waiting for a writer who may be gone
    os.set_blocking(reader, True)
    return Lifeline(reader)
