"""What an operation costs with ten times the base: zone programs and merges alone, and a small batch beside Spark."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import numpy as np

import viewkeeper
from benchmarks.support.baselines import SparkRecompute
from benchmarks.support.orders import CALL, VIEWS, Workload, answers, differing, write
from benchmarks.support.report import BenchReport, Series, say
from viewkeeper.database import Database
from viewkeeper.jobs.job import Job
from viewkeeper.pipeline.batches import Batches
from viewkeeper.pipeline.fills import Fills, unfilled
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.merging import Merging
from viewkeeper.pipeline.term import Term, acquired
from viewkeeper.pipeline.work import MergeWork
from viewkeeper.stores.embedded import EmbeddedStore
from viewkeeper.stores.logs import Logs
from viewkeeper.streams.analyst import Analyst
from viewkeeper.trace.local_disk import local_storage
from viewkeeper.trace.receipt import Receipt

BATCH = 100_000
SMALL_BATCHES = 20
RECOMPUTED = 3


class MeteredExecutor:
    """Runs jobs in this process; adds up their seconds, CPU seconds and bytes written, batches and merges apart."""

    servers, queries, answers = 1, None, None

    def __init__(self) -> None:
        self._local = LocalExecutor()
        self.reset()

    def reset(self) -> None:
        """Starts to count anew."""
        self.seconds, self.cpu, self.bytes = ({"batches": 0.0, "merges": 0.0} for _ in range(3))

    def run(self, job: Job) -> list[Receipt]:
        """What the tasks of `job` wrote."""
        kind = "merges" if isinstance(job.work, MergeWork) else "batches"
        wall, cpu = time.perf_counter(), time.process_time()
        receipts: list[Receipt] = self._local.run(job)
        self.seconds[kind] += time.perf_counter() - wall
        self.cpu[kind] += time.process_time() - cpu
        self.bytes[kind] += sum(receipt.file.length for receipt in receipts if receipt.file is not None)
        return receipts

    def analyst(self) -> Analyst:
        """There are no ViewDFs."""
        return self._local.analyst()

    def close(self) -> None:
        """Nothing was started."""


class AtOnce(Executor):
    """Does what it is given before it returns: merges run after the batches, never beside them."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(work(*arguments, **named))
        return future


def run(folder: Path, small: bool) -> BenchReport:
    """Runs the experiment, with all that it makes in `folder`."""
    orders, operations = ((2_500, 25_000), 2_000) if small else ((1_500_000, 15_000_000), 2_000_000)
    batch, small_batches = (CALL, 2) if small else (BATCH, SMALL_BATCHES)
    report = BenchReport(
        "scale", f"{orders[0]:,} and {orders[1]:,} orders, {operations:,} operations in batches of {batch:,}",
        "states and commits synced; the logs are written unsynced (their writing is not measured)",
    )  # fmt: skip
    costs = report.table("per operation, zone programs and merges alone", "orders", "of which", "microseconds",
                         "CPU microseconds", "bytes written")  # fmt: skip
    totals = []
    for count in orders:
        workload = Workload(count, operations + 2 * CALL * small_batches)
        totals.append(_costs(folder / f"orders-{count}", workload, operations, batch, costs))
    (seconds, cpu, written), (seconds_large, cpu_large, written_large) = totals
    name = "an operation with ten times the base"
    report.figure(f"{name}, time", seconds_large / seconds, "times", at_most=1.3)
    report.figure(f"{name}, CPU time", cpu_large / cpu, "times")
    report.figure("bytes written per operation, smaller base", written, "bytes")
    report.figure("bytes written per operation, larger base", written_large, "bytes")
    _beside_spark(folder, workload, operations, small_batches, report)
    return report


def _costs(root: Path, workload: Workload, operations: int, batch: int, costs: Series) -> tuple[float, float, float]:
    """Seconds, CPU seconds and bytes of one operation."""
    with viewkeeper.connect(root, durability="process") as db:
        say(f"scale: loading {len(workload.base):,} orders")
        workload.load(db)
        executor = MeteredExecutor()
        _maintain(root, executor, 1_000_000)
        db.sql(VIEWS)
        say("scale: filling the views")
        _maintain(root, executor, 1_000_000)
        write(db, workload.operations[:operations])
        executor.reset()
        say(f"scale: {operations:,} operations")
        _maintain(root, executor, batch)
        wrong = differing(answers(db), workload.expected(operations))
        if wrong:
            raise AssertionError(f"these views are wrong: {wrong}")
    meters = executor.seconds, executor.cpu, executor.bytes
    for kind in executor.seconds:
        seconds, cpu, written = (meter[kind] / operations for meter in meters)
        costs.add(len(workload.base), kind, 1e6 * seconds, 1e6 * cpu, written)
    seconds, cpu, written = (sum(meter.values()) / operations for meter in meters)
    return seconds, cpu, written


def _maintain(root: Path, executor: MeteredExecutor, batch: int) -> None:
    """What a pipeline does until all is in, one step after another, with the merges that its batches ask for."""
    storage, store = local_storage(root), EmbeddedStore(root)
    term, pool = Term(storage, acquired(storage, "pipeline", 0.0)), AtOnce()
    batches, merging, fills = Batches(Logs.of(store), executor, batch), Merging(executor, pool), Fills(executor, pool)
    try:
        while batches.step(term) is not None or unfilled(term.snapshot.catalog):
            fills.step(term)
            while merging.step(term, idle=False, barriers=fills.barriers):
                pass
    finally:
        term.close()
        store.close()


def _beside_spark(folder: Path, workload: Workload, done: int, batches: int, report: BenchReport) -> None:
    """Small batches through Spark with the larger base, against Spark's recompute of the views."""
    say(f"scale: batches of {CALL:,} through Spark, {len(workload.base):,} orders")
    with viewkeeper.connect(folder / f"orders-{len(workload.base)}", durability="sync") as db, db.maintain():
        times = [_small_batch(db, workload, done + CALL * number) for number in range(2 * batches)]
        ours = float(np.median(times[batches:]))
        written = done + CALL * 2 * batches
        wrong = differing(answers(db), workload.expected(written))
    say("scale: the same recomputed by Spark")
    spark = SparkRecompute(folder / "recompute")
    spark.load(workload)
    theirs = [spark.apply(workload.operations[CALL * number :][:CALL]) for number in range(RECOMPUTED)]
    wrong += differing(spark.answers(), workload.expected(CALL * RECOMPUTED))
    spark.close()
    table = report.table(f"a batch of {CALL:,} operations, {len(workload.base):,} orders", "system", "s", "results")
    table.add("viewkeeper, written and in all views", ours, f"WRONG: {wrong}" if wrong else "equal")
    table.add("Spark, recomputing", float(np.median(theirs)), f"WRONG: {wrong}" if wrong else "equal")
    report.figure("quicker than Spark's recompute", float(np.median(theirs)) / ours, "times", at_least=10)
    report.note("batches through Spark: everything synced; from the call of put_many or delete_many to the first read")


def _small_batch(db: Database, workload: Workload, start: int) -> float:
    """Seconds from a call that writes a batch until it can be read."""
    call = workload.operations[start : start + CALL]
    orders = db.table("orders")
    started = time.perf_counter()
    token = orders.delete_many(call.id.tolist()) if call.delete[0] else orders.put_many(call.table())
    db.view("spend").get(0, after=token, timeout=300)
    return time.perf_counter() - started
