"""Three views over 1,500,000 orders: working off 2,000,000 operations, beside SQLite, DuckDB and Spark.

Every system starts from the same base and does the same batches; one that needs more than a minute does the first of
them only.  Wherever it stops, its views are compared with what plain NumPy says they must hold there.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import viewkeeper
from benchmarks.support.baselines import Baseline, DuckDbRecompute, SparkRecompute, SqliteTriggers
from benchmarks.support.machine import CpuMeter
from benchmarks.support.orders import VIEWS, Workload, answers, differing, write
from benchmarks.support.report import BenchReport, Series, say
from viewkeeper.database import Database
from viewkeeper.errors import Timeout
from viewkeeper.pipeline.batches import OPERATIONS_MAX

SERVERS = 2
WARM_SECONDS = 5.0
BASELINES: Sequence[Callable[[Path], Baseline]] = (SqliteTriggers, DuckDbRecompute, SparkRecompute)


def run(folder: Path, small: bool, baselines: Sequence[Callable[[Path], Baseline]] = BASELINES) -> BenchReport:
    """Runs the experiment, with all that it makes in `folder`."""
    orders, operations, singles = (5_000, 6_000, 1_000) if small else (1_500_000, 2_000_000, 200_000)
    sizes = (1_000, 3_000, OPERATIONS_MAX) if small else (1_000, 10_000, 100_000, OPERATIONS_MAX)
    seconds = 5.0 if small else 60.0
    workload = Workload(orders, operations)
    report = BenchReport(
        "w3", f"{orders:,} orders, {workload.customers:,} customers, {operations:,} operations",
        "viewkeeper: logs, states and commits synced; SQLite: WAL, synchronous=FULL; DuckDB: a file, synced at commit; "
        "Spark: Parquet, not synced",
    )  # fmt: skip
    speeds = report.table("changes/s", "batch", "system", "operations done", "seconds", "changes/s", "ms a batch",
                          "CPU microseconds a change", "results")  # fmt: skip
    ours = _viewkeeper(folder, workload, sizes, singles, seconds, speeds, report)
    theirs = {}
    for make in baselines:
        for size in sizes:
            theirs[make, size] = _baseline(folder, make, workload, size, seconds, speeds)
    backlog = ours[OPERATIONS_MAX]
    report.figure("backlog", backlog, "changes/s", at_least=400_000)
    if 100_000 in ours:
        report.figure("batches of 100,000", ours[100_000], "changes/s", at_least=170_000)
    triggers = [speed for (make, _), speed in theirs.items() if make is SqliteTriggers]
    if triggers:
        report.figure("backlog against SQLite's triggers at their best", backlog / max(triggers), "times", at_least=20)
    report.note("a batch is at most so many operations; the batch of 1,000,000 is what the pipeline takes of a backlog")
    report.note(f"a run ends after {seconds:g} s, with the batches done by then")
    report.note("CPU: of all processes; of a baseline also what prepares its batches outside the clock")
    report.note("Spark's base tables are brought up to date outside the clock, which favours it")
    return report


def _viewkeeper(
    folder: Path,
    workload: Workload,
    sizes: Sequence[int],
    singles: int,
    seconds: float,
    speeds: Series,
    report: BenchReport,
) -> dict[int, float]:  # fmt: skip
    base, full = folder / "base", folder / "backlog"
    found = {}
    # The first connection stays open, and with it Spark: what is measured is a pipeline that has been running.
    with viewkeeper.connect(base) as first:
        say(f"w3: loading {len(workload.base):,} orders")
        workload.load(first)
        first.sql(VIEWS)
        first.catch_up()
        shutil.copytree(base, full)
        with viewkeeper.connect(full) as db:
            started = time.perf_counter()
            write(db, workload.operations)
            written = len(workload.operations) / (time.perf_counter() - started)
        report.figure("writing by put_many of 1,000, synced", written, "operations/s")
        _work_off(shutil.copytree(full, folder / "warm"), workload, sizes[0], WARM_SECONDS, None)
        for size in sizes:
            found[size] = _work_off(shutil.copytree(full, folder / f"of-{size}"), workload, size, seconds, speeds)
        _one_by_one(shutil.copytree(base, folder / "singles"), workload, singles, report)
    return found


def _work_off(place: Path, workload: Workload, size: int, seconds: float, speeds: Series | None) -> float:
    say(f"w3: viewkeeper, batches of {size:,}" + (" (to get warm)" if speeds is None else ""))
    with viewkeeper.connect(place) as db:
        version, start = _reached(db)
        with db.maintain(servers=SERVERS, batch=size):
            with CpuMeter() as cpu:
                started = time.perf_counter()
                with contextlib.suppress(Timeout):
                    db.catch_up(timeout=seconds)
                taken = time.perf_counter() - started
            newest, position = _reached(db)
        # What was committed while the pipeline stopped counts for the comparison, not for the speed.
        wrong = differing(answers(db), workload.expected(_reached(db)[1] - start))
    shutil.rmtree(place)
    return _add(speeds, size, "viewkeeper", position - start, taken, cpu.seconds, newest - version, wrong)


def _one_by_one(place: Path, workload: Workload, singles: int, report: BenchReport) -> None:
    say(f"w3: {singles:,} operations one by one")
    operations = workload.operations[:singles]
    with viewkeeper.connect(place, durability="process") as db:
        orders = db.table("orders")
        rows = operations.table().to_pylist()
        started = time.perf_counter()
        for delete, row in zip(operations.delete.tolist(), rows, strict=True):
            if delete:
                orders.delete(row["id"])
            else:
                orders.put(row)
        written = time.perf_counter() - started
        with db.maintain(servers=SERVERS):
            started = time.perf_counter()
            db.catch_up()
            read = time.perf_counter() - started
        wrong = differing(answers(db), workload.expected(singles))
    report.figure('written one by one, durability="process"', singles / written, "operations/s")
    report.figure("the same read back into all views", singles / read, "changes/s", at_least=200_000)
    report.note(f"one by one: results {_verdict(wrong)}")


def _baseline(
    folder: Path, make: Callable[[Path], Baseline], workload: Workload, size: int, seconds: float, speeds: Series
) -> float:
    place = folder / f"baseline-{size}"
    baseline = make(place)
    say(f"w3: {baseline.name}, batches of {size:,}")
    baseline.load(workload)
    taken, done, batches, started = 0.0, 0, 0, time.perf_counter()
    with CpuMeter() as cpu:
        while done < len(workload.operations) and taken < seconds and time.perf_counter() - started < 2 * seconds:
            batch = workload.operations[done : done + size]
            taken += baseline.apply(batch)
            done, batches = done + len(batch), batches + 1
    wrong = differing(baseline.answers(), workload.expected(done))
    baseline.close()
    shutil.rmtree(place)
    return _add(speeds, size, baseline.name, done, taken, cpu.seconds, batches, wrong)


def _add(
    speeds: Series | None, size: int, name: str, done: int, seconds: float, cpu: float, batches: int, wrong: list[str]
) -> float:
    """Adds a row to `speeds`; the speed."""
    if speeds is not None:
        speeds.add(size, name, done, seconds, done / seconds, 1000 * seconds / max(batches, 1),
                   1e6 * cpu / max(done, 1), _verdict(wrong))  # fmt: skip
        say(f"w3: {name}: {done / seconds:,.0f} changes/s over {done:,}")
    return done / seconds


def _reached(db: Database) -> tuple[int, int]:
    """The version, and how many operations it holds."""
    state = db.status()
    return state["version"], sum(node["position"] for node in state["nodes"])


def _verdict(wrong: list[str]) -> str:
    return f"WRONG: {', '.join(wrong)}" if wrong else "equal"
