"""Spark sessions for queries: each used by one thread at a time, so that the names in it are the query's own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from viewkeeper.spark.sessions import active, own_session
from viewkeeper.spark.tables import SMALL_ROWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_A_PARTITION = 250_000

# One partition a table, no shuffle, no adaptive plan.
_SMALL = {
    "spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}  # fmt: skip


class Sessions:
    """Sessions of the Spark that `factory` gives a session of; its own settings are not touched.

    They are kept: a new one costs 50 ms.  There are as many as were ever used at once.
    """

    def __init__(self, factory: Callable[[], SparkSession]) -> None:
        self._factory = factory
        self._lock = threading.Lock()
        self._idle: dict[bool, list[SparkSession]] = {True: [], False: []}

    @contextmanager
    def session(self, zone: str, rows: int | None) -> Iterator[SparkSession]:
        """A session of `own_session`'s in the time zone `zone`, set for a query over so many rows."""
        small = rows is not None and rows <= SMALL_ROWS
        session = self._take(small, zone)
        session.conf.set("spark.sql.session.timeZone", zone)
        if rows is not None and not small:
            session.conf.set("spark.sql.shuffle.partitions", str(max(2, min(200, rows // ROWS_A_PARTITION))))
        try:
            with active(session):
                yield session
        finally:
            with self._lock:
                self._idle[small].append(session)

    def _take(self, small: bool, zone: str) -> SparkSession:
        with self._lock:
            while self._idle[small]:
                session = self._idle[small].pop()
                if session.sparkContext._jsc is not None:  # else its Spark was stopped
                    return session
        return own_session(self._factory(), zone, _SMALL if small else None)
