"""Reading a view of 1,000,000 rows by key, in another process, while the pipeline commits five batches a second."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import viewkeeper
from benchmarks.support.clients import Client, read_by_key, write_steadily
from benchmarks.support.orders import Workload
from benchmarks.support.report import BenchReport, Series, say
from viewkeeper.database import Database

BATCHES_PER_SECOND = 5
BATCH = 1_000
WAYS = (("one after another", 0.0), ("one a millisecond", 0.001))


def run(folder: Path, small: bool) -> BenchReport:
    """Runs the experiment, with all that it makes in `folder`."""
    rows, seconds = (10_000, 0.6) if small else (1_000_000, 30.0)
    size = rows, min(int(BATCHES_PER_SECOND * BATCH * 3 * seconds * len(WAYS)), 3 * rows)
    root, workload = folder / "get", Workload(*size)
    report = BenchReport("get", f"a view of {rows:,} rows, {BATCHES_PER_SECOND} batches of {BATCH:,} a second",
                    "everything synced")  # fmt: skip
    table = report.table("view.get(key), microseconds", "reads", "pipeline", "count", "p50", "p99", "p99.9", "worst",
                         "commits/s")  # fmt: skip
    with viewkeeper.connect(root) as db:
        say(f"get: loading {rows:,} rows")
        workload.load(db)
        db.sql("CREATE VIEW placed AS SELECT id, customer, price FROM orders")
        db.catch_up()
        for name, pause in WAYS:
            _read(db, rows, name, pause, seconds / 3, table, "none")
        writing = 2 * seconds * len(WAYS) + 30
        with db.maintain(), Client(write_steadily, root, size, BATCH, BATCHES_PER_SECOND * BATCH, writing):
            time.sleep(min(seconds, 10))
            for name, pause in WAYS:
                p99, commits = _read(db, rows, name, pause, seconds, table, "running")
                report.figure(f"p99, {name}, while the pipeline commits", p99, "ms", at_most=0.1)
                report.figure(f"commits meanwhile, {name}", commits, "a second", at_least=0.9 * BATCHES_PER_SECOND)
    return report


def _read(
    db: Database, rows: int, name: str, pause: float, seconds: float, table: Series, pipeline: str
) -> tuple[float, float]:
    """Milliseconds of the 99th percentile, and commits a second."""
    say(f"get: reading {name}, pipeline: {pipeline}")
    before, started = db.status()["version"], time.perf_counter()
    with Client(read_by_key, db.root, "placed", rows, seconds, pause) as client:
        took = 1e6 * client.result()
    commits = (db.status()["version"] - before) / (time.perf_counter() - started)
    p50, p99, p999 = (float(value) for value in np.percentile(took, [50, 99, 99.9]))
    table.add(name, pipeline, len(took), p50, p99, p999, float(took.max()), commits)
    return p99 / 1000, commits
