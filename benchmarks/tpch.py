"""The 22 queries of TPC-H as views, each kept while all eight tables change, beside Spark's and DuckDB's recompute."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import viewkeeper
from benchmarks.support.report import BenchReport, number, say
from benchmarks.support.tpch_queries import texts_of
from benchmarks.support.tpch_recompute import BySpark, Recomputed, SparkBeside, by_duckdb
from benchmarks.support.tpch_world import Mirror, TableChange, World, caught_up, filled
from viewkeeper.database import Database
from viewkeeper.demo.tpch import SCHEMA, generate
from viewkeeper.errors import InputError
from viewkeeper.maintenance.declare_tables import states
from viewkeeper.trace.local_disk import local_storage

BATCHES = 3
QUERIES = range(1, 23)
FEW, MANY = 10, 100_000
"""Operations in the batches that are measured beside those of `--changes`."""

MEGABYTE = 1_000_000


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
    folder: Path, small: bool, scale: float = 0.1, changes: int = 1_000, queries: Sequence[int] = QUERIES
) -> BenchReport:
    """Runs the experiment, with all that it makes in `folder`."""
    scale, changes = (0.001, 100) if small else (scale, changes)
    texts = {number: text for number, text in texts_of(scale).items() if number in queries}
    report = BenchReport("tpch", f"scale factor {scale:g}, batches of about {changes:,} changes", "process")
    with viewkeeper.connect(folder / "tpch", durability="process") as db:
        say(f"tpch: making scale factor {scale:g}")
        db.sql(SCHEMA)
        files = generate(scale, folder / "tables")
        mirror = Mirror(folder / "mirror.duckdb", files)
        with db.maintain():
            filled(db, files)
            spark = SparkBeside(db, folder / "files")
            bench = _Bench(db, World(db, mirror), mirror, spark, texts, changes, report)
            alone = bench.each()
            bench.together(alone)
        mirror.duckdb.close()
    if scale >= 1 and len(texts) == len(QUERIES):
        bench.promises(alone)
    _notes(report)
    return report


@dataclass(frozen=True)
class _Alone:
    """A query as the only view: the seconds of a batch, and of recomputing."""

    batch: float
    spark: BySpark
    duckdb: Recomputed


@dataclass(frozen=True)
class _Bench:
    db: Database
    world: World
    mirror: Mirror
    spark: SparkBeside
    texts: Mapping[int, str]
    changes: int
    report: BenchReport

    def each(self) -> list[_Alone]:
        """Each query as the only view."""
        many = min(MANY, self.world.most)
        speeds = self.report.table(
            "each query as the only view, and its recompute", "query", "kept by", "fill s", "batch s", "Spark s",
            "times", "Spark with tables handed over s", "times", "DuckDB s", "times", "rows", "as DuckDB's", "right",
        )  # fmt: skip
        sizes = self.report.table("its other batches, seconds, and its states", "query", f"of {FEW}", f"of {many:,}",
                                  "of the other tables", "states MB", "of the base's %")  # fmt: skip
        found = []
        for of in self.texts:
            alone, kept_by, fill, others = self._alone(of, many)
            found.append(alone)
            batch, spark, duck = alone.batch, alone.spark, alone.duckdb
            rows = len(self.db.view(f"q{of}").to_arrow())
            whole = spark.seconds + spark.handed
            speeds.add(f"Q{of}", kept_by, fill, batch, spark.seconds, spark.seconds / batch, whole, whole / batch,
                       duck.seconds, duck.seconds / batch, rows, str(duck), str(spark))  # fmt: skip
            state, base = self._bytes()
            sizes.add(f"Q{of}", *others, state / MEGABYTE, 100 * state / base)
            self.db.sql(f"DROP VIEW q{of}")
            say(f"tpch: Q{of}: batch {number(batch)} s, others {', '.join(map(number, others))} s; Spark "
                f"{number(spark.seconds)} s and {number(spark.handed)} s before, right: {spark}; DuckDB "
                f"{number(duck.seconds)} s, equal: {duck}; states {number(state / MEGABYTE)} MB")  # fmt: skip
        self._figures(found, sum(row[1] == "operators" for row in speeds.rows))
        self.report.figure("bytes of the base's states", base / MEGABYTE, "MB")
        return found

    def _alone(self, of: int, many: int) -> tuple[_Alone, str, float, list[float]]:
        """Also what keeps it, the seconds of filling it, and of other batches."""
        say(f"tpch: Q{of}")
        fill = _seconds(partial(self._declare, [of]))
        by_spark = any("  SPARK" in row["plan"] for row in self.db.sql(f"EXPLAIN VIEW q{of}"))
        batch = median(self._batch(self.world.of_orders(self.changes)) for _ in range(BATCHES))
        others = [self._batch(self.world.of_orders(size)) for size in (FEW, many)]
        others.append(self._batch(self.world.of_others(max(1, self.changes // 100))))
        alone = _Alone(batch, self.spark.recompute(f"q{of}", self.texts[of]), self._by_duckdb(of))
        return alone, "Spark" if by_spark else "operators", fill, others

    def together(self, alone: Sequence[_Alone]) -> None:
        """All queries as views of one database: each compared with DuckDB's answer after every batch, and checked by
        Spark after the last one."""
        say("tpch: all together")
        self._declare(self.texts)
        spark, duck = sum(each.spark.seconds for each in alone), sum(each.duckdb.seconds for each in alone)
        table = self.report.table("all together", "batch", "seconds", "Spark s", "times", "DuckDB s", "times",
                                  "as DuckDB's", "right")  # fmt: skip
        for batch in range(BATCHES + 1):
            others = batch == BATCHES
            seconds = self._batch(self.world.of_others(max(1, self.changes // 100)) if others
                                  else self.world.of_orders(self.changes))  # fmt: skip
            say(f"tpch: all together: {number(seconds)} s")
            differ = [f"Q{of}: {found.problem}" for of in self.texts if (found := self._by_duckdb(of)).problem]
            right = ""
            if others:
                wrong = [each for each in self.db.check_all() if not each.ok]
                right = f"NOT {wrong[0].view}: {wrong[0].problem}" if wrong else "all"
                self.report.figure("wrong after all batches together", len(wrong), "queries", at_most=0)
            table.add("of the other tables" if others else batch + 1, seconds, spark, spark / seconds, duck,
                      duck / seconds, "; ".join(differ) or "all", right)  # fmt: skip

    def promises(self, alone: Sequence[_Alone]) -> None:
        """What is promised at scale factor 1."""
        table = self.report.series[-1]
        slowest = max(float(row[1]) for row in table.rows[:BATCHES])
        self.report.figure("slower than Spark's recompute", sum(each.spark.seconds < each.batch for each in alone),
                           "queries", at_most=0)  # fmt: skip
        self.report.figure("ten times quicker, of 22", sum(each.spark.seconds >= 10 * each.batch for each in alone),
                           "queries", at_least=18)  # fmt: skip
        self.report.figure("all together against recomputing them", float(table.rows[0][2]) / slowest, "times",
                           at_least=20)  # fmt: skip

    def _figures(self, found: Sequence[_Alone], native: int) -> None:
        add, count = self.report.figure, len(self.texts)
        add("queries that are kept", len(found), "queries", at_least=count)
        add("by our own operators, whole", native, "queries")
        add("right after the batches", sum(not each.spark.problem for each in found), "queries", at_least=count)
        add("as DuckDB's after the batches", sum(not each.duckdb.problem for each in found), "queries")
        add("ten times quicker than Spark, its tables at hand",
            sum(each.spark.seconds >= 10 * each.batch for each in found), "queries")  # fmt: skip
        add("ten times quicker than Spark with its tables handed over",
            sum(each.spark.seconds + each.spark.handed >= 10 * each.batch for each in found), "queries")  # fmt: skip
        add("quicker than DuckDB", sum(each.duckdb.seconds > each.batch for each in found), "queries")

    def _declare(self, numbers: Sequence[int] | Mapping[int, str]) -> None:
        self.db.sql(";".join(f"CREATE VIEW q{of} AS {self.texts[of]}" for of in numbers))
        caught_up(self.db)

    def _batch(self, changes: Sequence[TableChange]) -> float:
        """Seconds from before the first write until all is in the views."""
        started = time.perf_counter()
        self.world.write(changes)
        self.db.catch_up()
        return time.perf_counter() - started

    def _by_duckdb(self, of: int) -> Recomputed:
        return by_duckdb(self.mirror.duckdb, self.texts[of], self.db.view(f"q{of}").to_arrow())

    def _bytes(self) -> tuple[int, int]:
        """Of the states of the views, and of the tables."""
        snapshot = local_storage(self.db.root).newest()
        tables = {table.stored.state.id for table in snapshot.catalog.tables}
        sizes = {id_: sum(run.bytes for run in snapshot.states.get(id_, ())) for id_ in states(snapshot.catalog)}
        base = sum(size for id_, size in sizes.items() if id_ in tables)
        return sum(sizes.values()) - base, base


def _seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def _notes(report: BenchReport) -> None:
    report.note(f"a batch: orders come, change and go, with their lines; it changes a tenth of the lines at most "
                f"(so that of {MANY:,} is smaller on small tables), and one of the other tables "
                "a tenth of each at most")  # fmt: skip
    report.note("Spark reads Parquet files of the tables; what writes them is in the time with tables handed over")
    report.note("DuckDB reads its own tables, to which the same changes were made outside the clock; what is DOUBLE "
                "there and DECIMAL here is compared to the digits that stand here, all else exactly")  # fmt: skip
    report.note(f"the seconds of a query's batch are the median of {BATCHES}; writing it is in them")
    report.note("after all batches of a query its view is compared with both answers, with Spark's exactly")
