"""Runs jobs on Spark: an RDD job each, a Spark stage a stage, few large rows.

RDDs for now: docs/decisions/030-spark-jobs.md.  Spark's own user interface shows each job's title.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewkeeper.jobs.job import Job
from viewkeeper.jobs.spark import first_stage, itself, later_stage
from viewkeeper.pipeline.merging import AT_ONCE
from viewkeeper.pipeline.spark_answers import SparkAnswers
from viewkeeper.pipeline.work import Answers
from viewkeeper.spark.processes import loss_named
from viewkeeper.spark.starting import local_spark
from viewkeeper.streams.analyst import Analyst
from viewkeeper.streams.spark.analyst import SparkAnalyst
from viewkeeper.streams.spark.queries import QueryRunner

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
        "spark.driver.defaultJavaOptions": JAVA_OPTIONS,
    }
    return local_spark(threads, "viewkeeper", settings), True


class SparkExecutor:
    """Runs jobs in the Spark context of `spark`; with `owned`, `close` stops it."""

    def __init__(self, spark: SparkSession, servers: int, owned: bool = False) -> None:
        self.servers, self.queries = servers, QueryRunner(lambda: spark).query
        self.answers: Answers | None = SparkAnswers(lambda: spark)
        self._spark, self._owned = spark, owned
        self._context: SparkContext = spark.sparkContext
        if (self._context.master or "").startswith("local"):
            # Else workers run whatever python3 is on the PATH, which need not know viewkeeper.
            self._context.pythonExec = sys.executable
        self._numbers_rdds: dict[int, RDD[int]] = {}

    def run(self, job: Job) -> list[Any]:
        """What the tasks of the last stage yielded; raises Error where Spark's Java process is lost."""
        first, *later = job.stages
        with self._named(job.work.title):
            yielded = self._numbers(first.tasks).mapPartitions(partial(first_stage, job.work, first.run))
            for stage in later:
                sent = yielded.partitionBy(stage.tasks, itself)
                yielded = sent.mapPartitionsWithIndex(partial(later_stage, job.work, stage.run))
            return [result for _, result in yielded.collect()]

    def analyst(self) -> Analyst:
        """Spark's own analysis."""
        return SparkAnalyst(lambda: self._spark)

    def close(self) -> None:
        """Stops Spark where it was started for this executor."""
        if self._owned:
            self._spark.stop()

    def _numbers(self, tasks: int) -> RDD[int]:
        """One partition a task, holding its number; made once, since `parallelize` costs a round to the JVM."""
        if tasks not in self._numbers_rdds:
            self._numbers_rdds[tasks] = self._context.parallelize(range(tasks), tasks)
        return self._numbers_rdds[tasks]

    @contextlib.contextmanager
    def _named(self, title: str) -> Iterator[None]:
        with loss_named():
            self._context.setJobDescription(title)
            try:
                yield
            finally:
                self._context.setJobDescription("")
