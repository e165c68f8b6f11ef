"""The Spark session that the databases of this process share.  Nothing is started before it is needed."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

from viewkeeper.interrupts import uninterrupted
from viewkeeper.pipeline.spark_answers import SparkAnswers
from viewkeeper.pipeline.spark_executor import SparkExecutor, session
from viewkeeper.pipeline.work import Answers
from viewkeeper.spark.processes import is_lost, loss_named
from viewkeeper.spark.sessions import own_session
from viewkeeper.streams.analyst import Analyst
from viewkeeper.streams.spark.analyst import SparkAnalyst
from viewkeeper.streams.spark.sessions import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("viewkeeper.progress")

_lock = threading.Lock()
_users = 0
_started: SparkSession | None = None


class SparkUse:
    """One database's use of Spark.  Where the process has a session, that one serves, its settings untouched; else one
    is started, and stopped when the last database that uses it is closed."""

    def __init__(self, zone: str) -> None:
        self._zone = zone
        self._session: SparkSession | None = None
        self._queries: Sessions | None = None

    def session(self, servers: int | None = None) -> SparkSession:
        """A session with the database's SQL settings, with room for so many view servers (None: one a core)."""
        global _users
        with _lock, loss_named():
            if self._session is None:
                self._session = own_session(_found_or_started(servers or os.cpu_count() or 1), self._zone)
                _users += 1
            return self._session

    def executor(self, servers: int | None = None) -> SparkExecutor:
        """An executor of so many view servers (None: one a core)."""
        return SparkExecutor(self.session(servers), servers or os.cpu_count() or 1)

    def queries(self) -> Sessions:
        """Sessions for single queries."""
        with _lock:
            if self._queries is None:
                self._queries = Sessions(self.session)
            return self._queries

    def analyst(self) -> Analyst:
        """Who is asked about the queries of ViewDFs when they are declared."""
        return SparkAnalyst(self.session)

    def answers(self) -> Answers:
        """Who answers queries over rows that are handed over."""
        return SparkAnswers(self.session)

    def close(self) -> None:
        """Ends the use; once is enough."""
        global _users, _started
        with _lock:
            if self._session is None:
                return
            self._session = self._queries = None
            _users -= 1
            if _users == 0 and _started is not None:
                stopped, _started = _started, None
                _stop(stopped)


def _stop(session: SparkSession) -> None:
    try:
        session.stop()
    except Exception as error:
        if not is_lost(error):  # Else there is nothing left to stop.
            raise


def _found_or_started(servers: int) -> SparkSession:
    global _started
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # Asked of the context: a session is active only in the threads that made or used it.
    if SparkContext._active_spark_context is not None:
        return SparkSession(SparkContext.getOrCreate())
    log.info("starting Spark, which takes 10 to 20 seconds")
    with uninterrupted():  # A Java process whose start is left half done runs on for ever.
        _started, _ = session(servers)
    return _started
