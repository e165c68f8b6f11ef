"""Base tables in other stores: how fast they are followed, how soon a write is in a view, what writers notice of it.

Servers, writers and the pipeline share the machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

import viewkeeper
from benchmarks.support.clients import Client
from benchmarks.support.foreign import Foreign, KafkaOrders, foreign, servers, write_at
from benchmarks.support.orders_drawn import AT_ONCE, drawn
from benchmarks.support.report import BenchReport, Series, say
from benchmarks.support.spark_kafka import read_by_spark
from viewkeeper.changes.positions import Cut, logs_of
from viewkeeper.database import Database

COLUMNS = "(id BIGINT, customer INT, price DECIMAL(15,2), PRIMARY KEY (id))"
VIEW = "CREATE VIEW spend AS SELECT customer, sum(price) AS total, count(*) AS n FROM orders GROUP BY customer"
_PROBE = 10**9
"""Customers from here on, and from twice that on, have a probe each."""


def run(folder: Path, small: bool) -> BenchReport:
    """Runs the experiment, with all that it makes in `folder`."""
    rows, seconds, probes = (2_000, 1.0, 5) if small else (1_000_000, 20.0, 100)
    report = BenchReport("stores", f"{rows:,} orders, writers for {seconds:g} s, calls of {AT_ONCE} rows",
                         "embedded: process; stores: as they come")  # fmt: skip
    speed = report.table("rows a second", "store", "its own client reads the log", "its own client scans",
                         "viewkeeper reads the log alone", "adopted, with a view", "to the scan",
                         "followed, with a view", "to the log alone")  # fmt: skip
    soon = report.table("from a foreign write to the view, milliseconds", "store", "read", "p50", "p90", "p99")
    writers = report.table("a foreign writer at half its most", "store", "most rows/s", "alone rows/s", "p99 ms",
                           "maintained rows/s", "p99 ms", "share")  # fmt: skip
    for kind, server, where in servers(folder):
        if kind == "kafka":
            KafkaOrders.on(server, "orders")
        with viewkeeper.connect(folder / f"{kind}-db", durability="process") as db:
            with closing(foreign(kind, where, "orders")) as orders:
                followed = _speeds(db, orders, rows, speed)
            if kind == "kafka":
                _spark(folder, where, rows, followed, report)
            with db.maintain(), closing(foreign(kind, where, "orders")) as orders:
                db.catch_up()
                _latency(db, orders, probes, soon)
            _writers(db, kind, where, seconds, rows, report, writers)
    return report


def _speeds(db: Database, orders: Foreign, rows: int, table: Series) -> float:
    kind = orders.kind
    say(f"stores: {kind}: {rows:,} rows are written")
    all_rows = drawn(rows, rows, 1)
    for at in range(0, rows, 1_000):
        orders.write(all_rows[at : at + 1_000])
    log, scan = _rate(orders.read_log), _rate(orders.scan)
    say(f"stores: {kind}: adopting")
    db.sql(f"CREATE TABLE orders {COLUMNS} {orders.declared()}; {VIEW}")
    _, seconds = _timed(db.catch_up)
    adopted = rows / seconds
    say(f"stores: {kind}: following")
    for at in range(0, rows, 1_000):
        orders.write(all_rows[at : at + 1_000])
    alone = _rate(lambda: _read_alone(db))
    _, seconds = _timed(db.catch_up)
    followed = rows / seconds
    table.add(kind, log, scan, alone, adopted, adopted / (scan or log), followed, followed / alone)
    return followed


def _read_alone(db: Database) -> int:
    """Reads and decodes what the views have not read yet of the log, in this process, and does nothing with it."""
    (table,) = db.catalog.outside
    snapshot = db._newest.version().snapshot
    ends = logs_of(table.id, db._logs.outside.of(table).ends().positions)
    reader, count = db._logs.reader, 0
    for slice_ in reader.slices(Cut.between(snapshot.positions, ends)):
        count += sum(len(rows) for _, rows in reader.read(slice_, {table.id: table}).operations)
    return count


def _spark(folder: Path, where: str, rows: int, followed: float, report: BenchReport) -> None:
    """The topic, with what was adopted and what was followed, by Spark's own source."""
    say("stores: kafka: Spark's own source reads it")
    cores = os.cpu_count() or 1
    with Client(read_by_spark, where, "orders", folder / "spark", cores) as client:
        read = client.result()
    if read.orders != rows:
        raise AssertionError(f"Spark's program has {read.orders:,} orders, and there are {rows:,}")
    table = report.table("a topic of envelopes, messages a second", "who", "messages/s", "ratio")
    table.add("viewkeeper, followed, with a view", followed, 1.0)
    table.add("Spark's source, foreachBatch that counts", read.alone, read.alone / followed)
    table.add("Spark's source, foreachBatch with rows and view", read.kept, read.kept / followed)


def _latency(db: Database, orders: Foreign, probes: int, table: Series) -> None:
    kind, view = orders.kind, db.view("spend")
    say(f"stores: {kind}: {probes} single writes")
    table.add(kind, "here", *_until_seen(orders, _PROBE, probes, lambda customer: view.get(customer) is not None))
    published = orders.published()
    if published is None:
        return
    say(f"stores: {kind}: {probes} single writes, until they are in a view in the store")
    db.sql(f"CREATE VIEW there {published} AS {VIEW.partition(' AS ')[2]}")
    db.catch_up()
    there = db.view("there")
    table.add(kind, "there", *_until_seen(
        orders, 2 * _PROBE, probes, lambda customer: there.get(customer, source="store") is not None
    ))  # fmt: skip
    db.sql("DROP VIEW there")


def _until_seen(orders: Foreign, first: int, probes: int, is_seen: Callable[[int], bool]) -> Iterator[float]:
    took = list[float]()
    for customer in range(first, first + probes):
        time.sleep(0.1)
        started = time.perf_counter()
        orders.write([(customer, customer, "1.00")])
        while not is_seen(customer):
            time.sleep(0.001)
        took.append(1000 * (time.perf_counter() - started))
    yield from (float(each) for each in np.percentile(took, [50, 90, 99]))


def _writers(
    db: Database, kind: str, where: str, seconds: float, keys: int, report: BenchReport, table: Series
) -> None:  # fmt: skip
    def written(rate: float) -> Any:
        with Client(write_at, kind, where, "orders", rate, seconds, keys) as client:
            return client.result()

    say(f"stores: {kind}: a writer alone, and beside the pipeline")
    most, _ = written(0.0)
    alone, took_alone = written(most / 2)
    with db.maintain():
        db.catch_up()
        beside, took_beside = written(most / 2)
    table.add(kind, most, alone, float(np.percentile(took_alone, 99)), beside, float(np.percentile(took_beside, 99)),
              beside / alone)  # fmt: skip
    report.figure(f"{kind}: a writer's rate at half its most, maintained against alone", 100 * beside / alone, "%",
                  at_least=95)  # fmt: skip


def _rate(action: Callable[[], int | None]) -> float:
    """Rows a second; 0 where there is nothing to do."""
    count, seconds = _timed(action)
    return 0.0 if count is None else count / seconds


def _timed(action: Any) -> tuple[Any, float]:
    started = time.perf_counter()
    return action(), time.perf_counter() - started
