"""From a put to all views: on an idle pipeline, and beside a steady 10,000 operations/s; what an idle pipeline uses."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import numpy as np

import viewkeeper
from benchmarks.support.clients import Client, wait_for_own_writes, write_steadily
from benchmarks.support.machine import CpuMeter
from benchmarks.support.orders import VIEWS, Workload
from benchmarks.support.report import BenchReport, Series, say

PER_SECOND = 10_000
CALL = 100
WRITERS = 2
"""Processes that share the steady writing: a synced call of 100 can take longer than its hundredth of a second."""


def run(folder: Path, small: bool) -> BenchReport:
    """Runs the experiment, with all that it makes in `folder`."""
    orders, probes, steady, idle = (10_000, 3, 1.0, 0.5) if small else (1_500_000, 200, 100.0, 60.0)
    size = orders, min(int(2 * PER_SECOND * steady), orders * 3)
    workload, root = Workload(*size), folder / "latency"
    report = BenchReport("latency", f"{orders:,} orders, three views, {probes} puts each", "everything synced")
    delays = report.table("from put to view, ms", "pipeline", "puts", "p50", "p90", "p99", "worst")
    with viewkeeper.connect(root) as db:
        say(f"latency: loading {orders:,} orders")
        workload.load(db)
        db.sql(VIEWS)
        db.catch_up()
        with db.maintain():
            _probe(root, workload, max(probes // 10, 1), None, "to get warm")
            p50, p99 = _probe(root, workload, probes, delays, "idle")
            report.figure("idle, p50", p50, "s", at_most=0.3)
            report.figure("idle, p99", p99, "s", at_most=1.0)
            with contextlib.ExitStack() as stack:
                steadily = root, size, CALL, PER_SECOND, steady, WRITERS
                writers = [stack.enter_context(Client(write_steadily, *steadily, part)) for part in range(WRITERS)]
                time.sleep(steady / 10)
                p50, p99 = _probe(root, workload, probes, delays, f"{PER_SECOND:,} operations/s")
                report.figure("steady, p50", p50, "s", at_most=0.3)
                report.figure("steady, p99", p99, "s", at_most=1.0)
                written = sum(writer.result() for writer in writers)
                report.figure(f"steady, written by put_many of {CALL}", written, "operations/s",
                              at_least=0.98 * PER_SECOND)  # fmt: skip
            db.catch_up()
            say("latency: idle")
            time.sleep(idle / 2)  # merges that only free space are over by then
            report.figure("an idle pipeline with its JVM", _idle_percent(idle), "% of a core", at_most=5)
    report.note("a put's time runs from the call to the first read in the same process that holds it")
    return report


def _probe(root: Path, workload: Workload, count: int, delays: Series | None, name: str) -> tuple[float, float]:
    say(f"latency: {count} puts, {name}")
    with Client(wait_for_own_writes, root, workload.customers, count, 0.15) as client:
        took: np.ndarray = client.result()
    p50, p90, p99 = (float(value) for value in np.percentile(took, [50, 90, 99]))
    if delays is not None:
        delays.add(name, count, 1000 * p50, 1000 * p90, 1000 * p99, 1000 * float(took.max()))
        say(f"latency: p50 {p50:.3f} s, p99 {p99:.3f} s")
    return p50, p99


def _idle_percent(seconds: float) -> float:
    with CpuMeter() as meter:
        time.sleep(seconds)
    return 100 * meter.seconds / seconds
