"""Queries of users fail as part of the ordinary: pyspark's log of that, with its whole stack, is not wanted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_within = 0
_before = False


@contextmanager
def failures_unlogged() -> Iterator[None]:
    """pyspark's log of failing queries is off while any thread is within."""
    global _within, _before
    from pyspark.logger import PySparkLogger

    # By pyspark's own call: made by `logging`, it would take no keywords, and every later error would be a TypeError.
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    with _lock:
        if _within == 0:
            _before, logger.disabled = logger.disabled, True
        _within += 1
    try:
        yield
    finally:
        with _lock:
            _within -= 1
            if _within == 0:
                logger.disabled = _before
