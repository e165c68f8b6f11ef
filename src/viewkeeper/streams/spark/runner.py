"""Runs works on Spark: an RDD job each, of one task where there is little to do, else of a stage or two.

In one stage each view server reads its interval from files, or prepares the source itself and keeps what is in the
interval.  Shuffled programs with many view servers have two: a stage prepares slices of the source, and hands each view
server its rows; the next computes the intervals.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol

from viewkeeper.streams.calling import ProgramFailed
from viewkeeper.streams.own_queries import is_own, own_query
from viewkeeper.streams.preparing import Slice, gathered, is_direct, prepare_tasks, run_prepare, servers_for
from viewkeeper.streams.running import IntervalResult, combined, run_interval
from viewkeeper.streams.spark.processes import leave_interrupts_to_the_driver, loss_named
from viewkeeper.streams.work import Outcome, QueryWork, Work

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.sql import SparkSession

Parcel = bytes | ProgramFailed
"""What a server is sent: rows, or why there are none."""


class Queries(Protocol):
    """Computes the parts that Spark SQL computes."""

    def query(self, work: QueryWork) -> Outcome:
        """Computes a part."""


class SparkRunner:
    """Runs works in the Spark context of `spark`, several at once from several threads; `queries` runs the others."""

    def __init__(self, spark: SparkSession, servers: int, queries: Queries) -> None:
        self.servers = servers
        self._queries = queries
        self._context: SparkContext = spark.sparkContext
        if (self._context.master or "").startswith("local"):
            # Else workers run whatever python3 is on the PATH, which need not know viewkeeper.
            self._context.pythonExec = sys.executable
        self._rdds: dict[int, RDD[int]] = {}

    def run(self, work: Work) -> Outcome:
        """Computes parts of a generated view; raises Error where Spark's Java process is lost."""
        started = time.perf_counter()
        servers = servers_for(work, self.servers)
        with self._named(work.title):
            results = self._results(work, servers).collect()
        return combined(work, [result for _, result in sorted(results, key=lambda item: item[0])], started)

    def query(self, work: QueryWork) -> Outcome:
        """Computes a part of a view that is a query: by our own operators in a task, or by Spark SQL."""
        if is_own(work):
            with self._named(work.title):
                (outcome,) = self._partitions(1).mapPartitions(partial(_own_query, work)).collect()
            if outcome.error is None:
                return outcome  # else Spark has the word: it computes only those columns that are used
        return self._queries.query(work)

    def _results(self, work: Work, servers: int) -> RDD[tuple[int, IntervalResult]]:
        if is_direct(work, servers):
            return self._partitions(servers).mapPartitions(partial(_direct, work, servers))
        tasks = prepare_tasks(work)
        parcels = self._partitions(len(tasks)).mapPartitions(partial(_prepare, work, tasks, servers))
        return parcels.partitionBy(servers, _own).mapPartitionsWithIndex(partial(_interval, work, servers))

    def _partitions(self, count: int) -> RDD[int]:
        """One partition for each number below `count`; made once, since `parallelize` costs a round to the JVM."""
        if count not in self._rdds:
            self._rdds[count] = self._context.parallelize(range(count), count)
        return self._rdds[count]

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


def _own_query(work: QueryWork, _: Iterable[int]) -> Iterator[Outcome]:
    leave_interrupts_to_the_driver()
    yield own_query(work)


def _direct(work: Work, servers: int, numbers: Iterable[int]) -> Iterator[tuple[int, IntervalResult]]:
    """Intervals whose rows are prepared where they are computed, or need not be."""
    leave_interrupts_to_the_driver()
    for server in numbers:
        yield server, run_interval(work, server, servers)


def _prepare(
    work: Work, tasks: list[list[Slice]], servers: int, numbers: Iterable[int]
) -> Iterator[tuple[int, Parcel]]:
    leave_interrupts_to_the_driver()
    for number in numbers:
        try:
            payloads = run_prepare(work, tasks[number], servers)
        except ProgramFailed as failed:
            yield 0, failed
            continue
        for server, payload in enumerate(payloads):
            if payload is not None:
                yield server, payload


def _interval(
    work: Work, servers: int, server: int, parcels: Iterable[tuple[int, Parcel]]
) -> Iterator[tuple[int, IntervalResult]]:
    leave_interrupts_to_the_driver()
    payloads = []
    for _, parcel in parcels:
        if isinstance(parcel, ProgramFailed):
            yield server, IntervalResult(error=str(parcel))
            return
        payloads.append(parcel)
    yield server, run_interval(work, server, servers, gathered(work, payloads))
