"""Spark and DuckDB compute a query of TPC-H again, over the rows that the views are of."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.support.tpch_world import KEYS
from viewkeeper.checker.compare import compare
from viewkeeper.database import Database
from viewkeeper.spark.tables import answer_of


@dataclass(frozen=True)
class Recomputed:
    """Seconds, and how the answer differs from the view's; `notes` are what was looked at less closely."""

    seconds: float
    problem: str = ""
    notes: str = ""

    def __str__(self) -> str:
        return f"NO: {self.problem}" if self.problem else f"yes{self.notes and '; ' + self.notes}"


@dataclass(frozen=True)
class BySpark(Recomputed):
    """`handed`: the seconds in which the tables became the Parquet files that the query read."""

    handed: float = 0.0


class SparkBeside:
    """Spark as the database `db` has started it, in a session of its own with as many partitions as there are cores."""

    def __init__(self, db: Database, folder: Path) -> None:
        from pyspark.sql import SparkSession

        self._db, self._folder = db, folder
        folder.mkdir(exist_ok=True)
        db.sql("SELECT count(*) FROM region", engine="spark")  # it starts
        self._session = SparkSession.builder.getOrCreate().newSession()
        self._session.conf.set("spark.sql.shuffle.partitions", str(os.cpu_count()))
        self._session.conf.set("spark.sql.session.timeZone", "UTC")

    def recompute(self, name: str, text: str) -> BySpark:
        """Compares what Spark finds with the view, exactly."""
        with self._db.snapshot() as held:
            started = time.perf_counter()
            for table in (table for table in KEYS if re.search(rf"\b{table}\b", text)):
                file = str(self._folder / f"{table}.parquet")
                pq.write_table(held.sql(f"SELECT * FROM {table}").to_arrow(), file)
                self._session.read.parquet(file).createOrReplaceTempView(table)
            handed = time.perf_counter() - started
            started = time.perf_counter()
            answer = answer_of(self._session.sql(text), "UTC")
            seconds = time.perf_counter() - started
            found = compare(answer, held.view(name).to_arrow())
        problem = "" if found.equal else found.shape or f"{found.rows} rows differ, as {found.differing[0]}"
        return BySpark(seconds, problem, handed=handed)


def by_duckdb(connection: duckdb.DuckDBPyConnection, text: str, view: pa.Table) -> Recomputed:
    """Compares what DuckDB finds with `view`: exactly, but for columns that are DOUBLE there and DECIMAL here, of which
    as many digits as stand here."""
    started = time.perf_counter()
    done = connection.execute(text)
    rows = done.fetchall()
    seconds = time.perf_counter() - started
    rough = [i for i, column in enumerate(done.description or ()) if str(column[1]) == "DOUBLE"]
    ours = list(zip(*(column.to_pylist() for column in view.columns), strict=True))
    problem = _problem(ours, rows, {i: _step(view.schema.types[i]) for i in rough})
    names = ", ".join(view.column_names[i] for i in rough)
    return Recomputed(seconds, problem, names and f"DOUBLE there: {names}")


def _step(type_: pa.DataType) -> float:
    return float(10**-type_.scale) if pa.types.is_decimal(type_) else 0.0


def _problem(ours: Sequence[tuple[Any, ...]], theirs: Sequence[tuple[Any, ...]], steps: Mapping[int, float]) -> str:
    if len(ours) != len(theirs):
        return f"{len(ours)} rows here, {len(theirs)} there"

    def order(row: tuple[Any, ...]) -> list[Any]:
        exact = [value for i, value in enumerate(row) if i not in steps]
        return [(value is not None, value) for value in (*exact, *(row[i] for i in steps))]

    pairs = list(zip(sorted(ours, key=order), sorted(theirs, key=order), strict=True))
    wrong = [pair for pair in pairs if not _rows_agree(*pair, steps)]
    return f"{len(wrong)} rows differ, as {wrong[0][0]} here, {wrong[0][1]} there" if wrong else ""


def _rows_agree(ours: Sequence[Any], theirs: Sequence[Any], steps: Mapping[int, float]) -> bool:
    return all(_agree(*pair, steps.get(i)) for i, pair in enumerate(zip(ours, theirs, strict=True)))


def _agree(ours: Any, theirs: Any, step: float | None) -> bool:
    if step is None or ours is None or theirs is None:
        return bool(ours == theirs)
    return abs(float(ours) - float(theirs)) <= 0.51 * step + 1e-12 * abs(float(Decimal(ours)))
