"""Memory over a run ten times as long, and how much disk the states take once nothing is to do."""

from __future__ import annotations

import time
from pathlib import Path

import viewkeeper
from benchmarks.support.clients import Client, write_steadily
from benchmarks.support.machine import anonymous_bytes
from benchmarks.support.orders import VIEWS, Workload
from benchmarks.support.report import BenchReport, say
from viewkeeper.database import Database
from viewkeeper.maintenance.declare_tables import states
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.disk import STATE
from viewkeeper.trace.local_disk import local_storage

PER_SECOND = 10_000
CALL = 1_000
SAMPLES_PER_SECOND = 2
MEGABYTE = 1_000_000


def run(folder: Path, small: bool) -> BenchReport:
    """Runs the experiment, with all that it makes in `folder`."""
    orders, seconds, idle = (10_000, 0.3, 1.0) if small else (1_500_000, 20.0, 180.0)
    size = orders, min(int(PER_SECOND * seconds * 11), orders * 3)
    root, workload = folder / "memory", Workload(*size)
    report = BenchReport("memory", f"{orders:,} orders, three views, {PER_SECOND:,} operations/s", "everything synced")
    with viewkeeper.connect(root) as db:
        say(f"memory: loading {orders:,} orders")
        workload.load(db)
        db.sql(VIEWS)
        db.catch_up()
        with db.maintain(), Client(write_steadily, root, size, CALL, PER_SECOND, seconds * 10.5) as writer:
            say(f"memory: {seconds * 10:g} s of changes")
            samples = _samples(seconds * 10, without=[writer.server])
            written = writer.result()
            db.catch_up()
            say(f"memory: {idle:g} s without changes")
            time.sleep(idle)
        _report_memory(report, samples, seconds)
        report.figure("operations/s written", written, "operations/s")
        _report_files(report, local_storage(root), db)
    report.note("anonymous memory is what no file backs: mapped state files are not in it")
    return report


def _samples(seconds: float, without: list[int]) -> list[dict[str, int]]:
    found, started = [], time.perf_counter()
    while time.perf_counter() - started < seconds:
        found.append(anonymous_bytes(without))
        time.sleep(1 / SAMPLES_PER_SECOND)
    return found


def _report_memory(report: BenchReport, samples: list[dict[str, int]], seconds: float) -> None:
    """The greatest in the second half of the first `seconds`, beside the greatest in a window as long at the end."""
    tenth = max(len(samples) // 10, 2)
    early, late = samples[tenth // 2 : tenth], samples[-(tenth // 2) :]
    table = report.table("anonymous memory, MB", "processes", f"in {seconds:g} s", f"in {10 * seconds:g} s", "growth %")
    total = [max(sum(sample.values()) for sample in window) for window in (early, late)]
    for name in samples[0]:
        before, after = (max(sample[name] for sample in window) for window in (early, late))
        table.add(name, before / MEGABYTE, after / MEGABYTE, 100 * (after / before - 1) if before else 0.0)
    for name in ("driver", "workers"):
        before, after = (max(sample[name] for sample in window) for window in (early, late))
        report.figure(f"{name}: growth over a run ten times as long", 100 * (after / before - 1), "%", at_most=10)
    report.figure("driver, JVM and workers together", 100 * (total[1] / total[0] - 1), "%", at_most=10)


def _report_files(report: BenchReport, storage: Storage, db: Database) -> None:
    snapshot = storage.newest()
    live = 0
    table = report.table("states once idle, MB", "state", "rows", "Arrow size", "in runs", "runs")
    for spec in states(snapshot.catalog).values():
        rows = snapshot.trace(spec).scan()
        size = sum(column.nbytes for column in rows.columns)
        runs = snapshot.states.get(spec.id, ())
        title = f"{spec.id} {spec.kind}: {', '.join(column.name for column in spec.columns)}"
        table.add(title, len(rows), size / MEGABYTE, sum(run.bytes for run in runs) / MEGABYTE, len(runs))
        live += size
    names = [table.name for table in snapshot.catalog.tables] + [view.name for view in snapshot.catalog.views]
    shown = sum(db.sql(f"SELECT * FROM {name}").to_arrow().nbytes for name in names)
    files = sum(storage.disk.stat(f"{STATE}/{name}").bytes for name in storage.disk.list(STATE))
    report.figure("state files against the Arrow size of all live rows of the states", files / live, "times", at_most=3)
    report.figure("state files against the Arrow size of all tables and views", files / shown, "times")
