"""Runs jobs on Spark: one RDD job a batch, a stage a zone, few large rows.

RDDs for now: docs/decisions/030-spark-jobs.md.  Spark's own user interface names each job by its batch.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from viewkeeper.pipeline import blocks, tasks
from viewkeeper.pipeline.job import Job, MergeJob
from viewkeeper.pipeline.merging import AT_ONCE
from viewkeeper.spark.starting import local_spark
from viewkeeper.streams.analyst import Analyst
from viewkeeper.streams.spark.processes import leave_interrupts_to_the_driver, loss_named
from viewkeeper.streams.work import Runner
from viewkeeper.trace.receipt import Receipt

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.sql import SparkSession

TASK_FAILURES_MAX = 4
JAVA_OPTIONS = f"-Dlog4j2.configurationFile={Path(__file__).with_name('spark-log4j2.properties').as_uri()}"
"""Where Spark finds its log settings, so that its start is quiet too; a user's own Java options stay."""


def session(servers: int, ui: bool = False) -> tuple[SparkSession, bool]:
    """A session for `servers` view servers, and whether it was made here (its maker stops it).

    Where the process has a Spark session this is a new session of it, so that the user's settings stay as they are.
    """
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active.newSession(), False
    # More slots than view servers, so that a batch never waits for the merges and the fill that run beside it.
    threads = f"{servers + AT_ONCE + 1},{TASK_FAILURES_MAX}"
    settings = {
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        # Over Unix sockets (no faster here) every worker that idles for a minute ends with a traceback on stderr.
        "spark.python.unix.domain.socket.enabled": "false",
        "spark.driver.defaultJavaOptions": JAVA_OPTIONS,
    }
    return local_spark(threads, "viewkeeper", settings), True


class SparkExecutor:
    """Runs jobs in the Spark context of `spark`; with `owned`, `close` stops it."""

    def __init__(self, spark: SparkSession, servers: int, owned: bool = False) -> None:
        self.servers = servers
        self._spark, self._owned = spark, owned
        self._context: SparkContext = spark.sparkContext
        if (self._context.master or "").startswith("local"):
            # Else workers run whatever python3 is on the PATH, which need not know viewkeeper.
            self._context.pythonExec = sys.executable
        self._servers_rdds: dict[int, RDD[int]] = {}

    def run(self, job: Job) -> list[Receipt]:
        """What the tasks of `job` wrote."""
        with self._named(job.title):
            if job.servers == 1:
                return self._all_servers(1).mapPartitions(partial(_chain, job)).collect()
            first, *later = job.zones
            parcels = self._all_servers(job.servers).mapPartitions(partial(_first_zone, job, first))
            for zone in later:
                parcels = parcels.partitionBy(job.servers, _own)
                parcels = parcels.mapPartitionsWithIndex(partial(_later_zone, job, zone))
            return blocks.receipts(blocks.open_all(parcels.values().collect()))

    def merge(self, job: MergeJob) -> Receipt:
        """What the merge wrote."""
        with self._named(job.title):
            (receipt,) = self._all_servers(1).mapPartitions(partial(_merge, job)).collect()
            return receipt

    def part_runner(self) -> Runner:
        """Generated views as RDD jobs, ViewDFs as queries of Spark SQL."""
        from viewkeeper.streams.spark.queries import QueryRunner
        from viewkeeper.streams.spark.runner import SparkRunner

        return SparkRunner(self._spark, self.servers, QueryRunner(lambda: self._spark))

    def analyst(self) -> Analyst:
        """Spark's own analysis."""
        from viewkeeper.streams.spark.analyst import SparkAnalyst

        return SparkAnalyst(lambda: self._spark)

    def close(self) -> None:
        """Stops Spark where it was started for this executor."""
        if self._owned:
            self._spark.stop()

    def _all_servers(self, servers: int) -> RDD[int]:
        """One partition a view server, holding its number; made once, since `parallelize` costs a round to the JVM."""
        if servers not in self._servers_rdds:
            self._servers_rdds[servers] = self._context.parallelize(range(servers), servers)
        return self._servers_rdds[servers]

    @contextlib.contextmanager
    def _named(self, title: str) -> Iterator[None]:
        with loss_named():
            self._context.setJobDescription(title)
            try:
                yield
            finally:
                self._context.setJobDescription("")


def _own(server: int) -> int:
    return server


def _chain(job: Job, servers: Iterable[int]) -> Iterator[Receipt]:
    leave_interrupts_to_the_driver()
    for _ in servers:
        yield tasks.run_chain(job)


def _first_zone(job: Job, zone: int, servers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    leave_interrupts_to_the_driver()
    for server in servers:
        yield from tasks.run_zone(job, zone, server, ())


def _later_zone(job: Job, zone: int, server: int, sent: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    leave_interrupts_to_the_driver()
    return tasks.run_zone(job, zone, server, (parcel for _, parcel in sent))


def _merge(job: MergeJob, servers: Iterable[int]) -> Iterator[Receipt]:
    leave_interrupts_to_the_driver()
    for _ in servers:
        yield tasks.run_merge(job)
