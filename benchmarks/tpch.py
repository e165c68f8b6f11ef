"""The 22 queries of TPC-H as views, each kept while all eight tables change, beside Spark's recompute of the query."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import viewkeeper
from benchmarks.support.report import BenchReport, say
from benchmarks.support.tpch_queries import texts_of
from viewkeeper.database import Database
from viewkeeper.demo.changes import OrderBook
from viewkeeper.demo.tpch import SCHEMA, generate, load
from viewkeeper.demo.writer import order_book, write
from viewkeeper.errors import InputError

BATCHES = 3

OTHERS = {"region": None, "nation": None, "supplier": "s_acctbal", "customer": "c_acctbal", "part": "p_size",
          "partsupp": "ps_supplycost"}  # fmt: skip
"""The tables beside orders and lineitem, and the column of each in which rows change."""

KEYS = {"region": ["r_regionkey"], "nation": ["n_nationkey"], "supplier": ["s_suppkey"], "customer": ["c_custkey"],
        "part": ["p_partkey"], "partsupp": ["ps_partkey", "ps_suppkey"]}  # fmt: skip


def options(arguments: Sequence[str]) -> dict[str, Any]:
    """The command line's arguments as those of `run`; raises InputError."""
    found: dict[str, Any] = {}
    waiting = list(arguments)
    while waiting:
        name, _, value = waiting.pop(0).partition("=")
        if name == "--small":
            found["small"] = True
            continue
        if name not in _READ:
            raise InputError(f"bench tpch does not know {name!r}; it takes --scale S, --changes N, --queries 1,6 and "
                             "--small")  # fmt: skip
        value = value or (waiting.pop(0) if waiting else "")
        try:
            found[name.removeprefix("--")] = _READ[name](value)
        except ValueError:
            raise InputError(f"{name} {value!r}: expected a number") from None
    return found


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


_READ: dict[str, Callable[[str], Any]] = {"--scale": float, "--changes": int, "--queries": _numbers}


def run(
    folder: Path, small: bool, scale: float = 0.1, changes: int = 1_000, queries: Sequence[int] = tuple(range(1, 23))
) -> BenchReport:
    """Runs the experiment, with all that it makes in `folder`."""
    scale, changes = (0.001, 100) if small else (scale, changes)
    texts = {number: text for number, text in texts_of(scale).items() if number in queries}
    report = BenchReport("tpch", f"scale factor {scale:g}, batches of about {changes:,} changes", "process")
    with viewkeeper.connect(folder / "tpch", durability="process") as db:
        say(f"tpch: loading scale factor {scale:g}")
        db.sql(SCHEMA)
        for _ in load(db, generate(scale, folder / "tables")):
            pass
        with db.maintain():
            db.catch_up()
            world = _World(db)
            spark = _each(db, world, texts, changes, report)
            _together(db, world, texts, changes, spark, report)
    return report


def _each(db: Database, world: _World, texts: Mapping[int, str], changes: int, report: BenchReport) -> float:
    """Each query as the only view; the seconds that Spark takes for all of them."""
    table = report.table("each query as the only view", "query", "kept by", "fill s", "batch s", "Spark's recompute s",
                         "times as quick", "rows", "right")  # fmt: skip
    native = right = quicker = 0
    total = 0.0
    for number, text in texts.items():
        say(f"tpch: Q{number}")
        name = f"q{number}"
        fill = _seconds(partial(_declare, db, {name: text}))
        by_spark = any("  SPARK" in row["plan"] for row in db.sql(f"EXPLAIN VIEW {name}"))
        world.change(changes)
        batch = _seconds(db.catch_up)
        spark = _seconds(partial(db.sql, text, engine="spark"))
        found = db.check(name)
        table.add(f"Q{number}", "Spark" if by_spark else "operators", fill, batch, spark, spark / batch, found.rows,
                  "yes" if found.ok else f"NO: {found.problem}")  # fmt: skip
        native, right, quicker = native + (not by_spark), right + found.ok, quicker + (spark > 10 * batch)
        total += spark
        db.sql(f"DROP VIEW {name}")
    report.figure("queries that are kept", len(texts), "queries", at_least=len(texts))
    report.figure("by our own operators, whole", native, "queries")
    report.figure("right after a batch", right, "queries", at_least=len(texts))
    report.figure("ten times quicker than Spark's recompute", quicker, "queries")
    return total


def _together(
    db: Database, world: _World, texts: Mapping[int, str], changes: int, spark: float, report: BenchReport
) -> None:
    """All queries as views of one database; every one is checked after every batch."""
    say("tpch: all together")
    _declare(db, {f"q{number}": text for number, text in texts.items()})
    table = report.table("all together", "batch", "seconds", "Spark's recompute s", "times as quick", "right")
    wrong = 0
    for batch in range(1, BATCHES + 1):
        world.change(changes)
        seconds = _seconds(db.catch_up)
        found = [each for each in db.check_all() if not each.ok]
        wrong += len(found)
        table.add(batch, seconds, spark, spark / seconds, "all" if not found else f"NOT {found[0].view}")
    report.figure("wrong in any of the batches", wrong, "queries", at_most=0)


def _declare(db: Database, views: Mapping[str, str]) -> None:
    db.sql(";".join(f"CREATE VIEW {name} AS {text}" for name, text in views.items()))
    db.catch_up()


def _seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


class _World:
    """The tables, and what may happen to them: orders and their lines come, change and go; of each other table some
    rows change, go, and come back as they were."""

    def __init__(self, db: Database) -> None:
        self._db, self._book = db, order_book(db)
        self._random = np.random.default_rng(11)
        self._rows = {name: db.sql(f"SELECT * FROM {name}").to_arrow() for name in OTHERS}
        self._away: dict[str, pa.Table] = {}

    def change(self, operations: int) -> None:
        """About so many operations, on all eight tables."""
        orders = max(1, operations // 15)
        for make in (OrderBook.receive, OrderBook.amend, OrderBook.cancel):
            write(self._db, make(self._book, orders))
        for name, column in OTHERS.items():
            table, key = self._db.table(name), KEYS[name]
            if name in self._away:
                table.put_many(self._away.pop(name))
            rows = self._some(name, max(1, operations // 100))
            if column is not None:
                changed = (
                    self._rows[name].column(column).take(pa.array(self._random.permutation(len(self._rows[name]))))
                )
                index = rows.schema.get_field_index(column)
                table.put_many(rows.set_column(index, rows.schema.field(index), changed.slice(0, len(rows))))
            self._away[name] = gone = self._some(name, max(1, operations // 200))
            table.delete_many([tuple(row.values()) if len(key) > 1 else row[key[0]]
                               for row in gone.select(key).to_pylist()])  # fmt: skip

    def _some(self, name: str, count: int) -> pa.Table:
        rows = self._rows[name]
        chosen = np.unique(self._random.integers(0, len(rows), min(count, len(rows))))
        return rows.take(pa.array(chosen))
