"""Views added to a large table that is written, beside others: the lag of these meanwhile, and a kill in the middle."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np

import viewkeeper
from benchmarks.support.clients import Client, maintain, watch_lag, write_steadily
from benchmarks.support.orders import VIEWS, Workload
from benchmarks.support.report import BenchReport, Series, say
from viewkeeper.database import Database

ADDED = {
    "dear": "SELECT id, price FROM orders WHERE price > 9000",
    "by_price": "SELECT price, count(*) AS n, min(id) AS oldest FROM orders GROUP BY price",
    "placed": "SELECT o.id, o.price, c.segment FROM orders o JOIN customer c ON o.customer = c.id",
}
"""Views of three classes; none can share a state with those that are there before."""

PER_SECOND = 2_000
CALL = 100
PATIENCE_SECONDS = 600.0
KILLED_AFTER = 0.3
"""The pipeline is killed when so large a part of the time that the fill took at first is over."""


def run(folder: Path, small: bool) -> BenchReport:
    """Runs the experiment, with all that it makes in `folder`."""
    orders, before = (5_000, 1.0) if small else (1_000_000, 20.0)
    # More than will be written: the writers are stopped when the views are there.
    size = orders, orders * 3
    workload, root = Workload(*size), folder / "fill"
    report = BenchReport("fill", f"{orders:,} orders, three views, {PER_SECOND:,} operations/s", "everything synced")
    with viewkeeper.connect(root) as db:
        say(f"fill: loading {orders:,} orders")
        workload.load(db)
        db.sql(VIEWS)
        db.catch_up()
        loaded = _written(db)
        with Client(write_steadily, root, size, CALL, PER_SECOND, 3600.0):
            while _written(db) == loaded:
                time.sleep(0.01)
            with db.maintain():
                seconds = _fill_beside(db, folder / "marks", before, report)
            say("fill: the same views again, and a pipeline that is killed on the way")
            db.sql("".join(f"DROP VIEW {name};" for name in ADDED))
            _kill_and_resume(db, seconds, report)
        db.catch_up()
        say("fill: checking")
        wrong = [checked.view for checked in db.check_all() if not checked.ok]
        report.figure("wrong views, of all, after the kill", len(wrong), "views", at_most=0)
    report.note("lag: how long the oldest operation that is not in the views has been waiting, seen from a process "
                "of its own a hundred times a second")  # fmt: skip
    return report


def _fill_beside(db: Database, marks: Path, before: float, report: BenchReport) -> float:
    """Measures the lag before and while the views are filled; the seconds that the fill took."""
    lags = report.table("lag of the views that were there, s", "when", "seconds", "p50", "p90", "p99", "worst")
    marks.mkdir()
    with Client(watch_lag, db.root, marks) as watcher:
        while not (marks / "started").exists():
            time.sleep(0.01)
        say(f"fill: {before:g} s of writing, to compare")
        time.sleep(before / 2)  # to get warm
        started = time.time()
        time.sleep(before)
        declared = time.time()
        _declare(db)
        _wait_until_filled(db)
        filled = time.time()
        (marks / "enough").touch()
        seen = watcher.result()
    quiet, busy = _row(lags, "before", seen, started, declared), _row(lags, "during", seen, declared, filled)
    report.figure("three views declared and filled", filled - declared, "s")
    report.figure("p99 lag of the others meanwhile", busy, "s", at_most=max(2 * quiet, 1.0))
    wrong = [checked.view for checked in db.check_all(ADDED) if not checked.ok]
    report.figure("wrong views of the three", len(wrong), "views", at_most=0)
    return filled - declared


def _row(lags: Series, when: str, seen: np.ndarray, start: float, end: float) -> float:
    lag = seen[(seen[:, 0] >= start) & (seen[:, 0] < end), 1]
    if not len(lag):
        lag = seen[-1:, 1]
    p50, p90, p99 = (float(value) for value in np.percentile(lag, [50, 90, 99]))
    lags.add(when, end - start, p50, p90, p99, float(lag.max()))
    return p99


def _kill_and_resume(db: Database, seconds: float, report: BenchReport) -> None:
    """Kills a pipeline in another process in the middle of the fill; the next one fills the views by itself."""
    db.catch_up()  # before: both would want to be the driver
    with Client(maintain, db.root) as pipeline:
        _declare(db)
        _wait_until_filled(db, or_says="is being filled")
        time.sleep(seconds * KILLED_AFTER)
        os.kill(pipeline.pid, signal.SIGKILL)
    report.figure("views filled when the pipeline was killed", _progress(db).count(""), "views")
    started = time.perf_counter()
    with db.maintain():
        _wait_until_filled(db)
    report.figure("filled by the next pipeline, Spark's start included", time.perf_counter() - started, "s")


def _written(db: Database) -> int:
    return sum(node["end"] for node in db.lag()["nodes"])


def _declare(db: Database) -> None:
    db.sql("".join(f"CREATE VIEW {name} AS {query};\n" for name, query in ADDED.items()))


def _progress(db: Database) -> list[str]:
    """Of each added view: what reading it says, "" when it is filled."""
    said = []
    for name in ADDED:
        try:
            db.view(name).get(0)
            said.append("")
        except viewkeeper.NotReady as waiting:
            said.append(str(waiting))
    return said


def _wait_until_filled(db: Database, or_says: str | None = None) -> None:
    """Until each added view is filled, or says so."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not all(said == "" or (or_says is not None and or_says in said) for said in _progress(db)):
        if time.monotonic() > end:
            raise viewkeeper.Timeout(f"the views are not filled after {PATIENCE_SECONDS:g} s: {_progress(db)}")
        time.sleep(0.01)
