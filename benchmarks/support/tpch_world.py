"""The tables of TPC-H and what happens to them, in viewkeeper and, outside the clock, the same in DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.support.report import say
from viewkeeper.database import Database
from viewkeeper.demo.changes import OrderBook
from viewkeeper.demo.tpch import load
from viewkeeper.demo.writer import order_book
from viewkeeper.errors import Timeout

OTHERS = {"region": None, "nation": None, "supplier": "s_acctbal", "customer": "c_acctbal", "part": "p_size",
          "partsupp": "ps_supplycost"}  # fmt: skip
"""The tables beside orders and lineitem, and the column of each in which rows change."""

KEYS = {"region": ["r_regionkey"], "nation": ["n_nationkey"], "supplier": ["s_suppkey"], "customer": ["c_custkey"],
        "part": ["p_partkey"], "partsupp": ["ps_partkey", "ps_suppkey"], "orders": ["o_orderkey"],
        "lineitem": ["l_orderkey", "l_linenumber"]}  # fmt: skip

_MOST_OF_LINES = 10
"""A batch changes at most one in so many lines, or the tables would soon hold nothing of TPC-H."""


class Mirror:
    """The same rows in DuckDB, a database in a file."""

    def __init__(self, file: Path, tables: Sequence[Path]) -> None:
        self.duckdb = duckdb.connect(str(file), config={"memory_limit": "3GB"})
        for table in tables:
            self.duckdb.execute(f"CREATE TABLE {table.stem} AS SELECT * FROM read_parquet('{table}')")

    def make(self, change: TableChange) -> None:
        """Rows that are new, new values of some columns of rows that are there, or rows that go."""
        table, names = change.table, change.rows.column_names
        self.duckdb.register("given", change.rows)
        if change.deletes:
            self._without(table)
        elif len(names) == len(self.duckdb.table(table).columns):
            self._without(table)
            self.duckdb.execute(f"INSERT INTO {table} BY NAME SELECT * FROM given")
        else:
            values = ", ".join(f"{name} = given.{name}" for name in names if name not in KEYS[table])
            self.duckdb.execute(f"UPDATE {table} SET {values} FROM given WHERE {_same(table)}")

    def _without(self, table: str) -> None:
        self.duckdb.execute(f"DELETE FROM {table} USING given WHERE {_same(table)}")


def _same(table: str) -> str:
    return " AND ".join(f"{table}.{name} = given.{name}" for name in KEYS[table])


@dataclass(frozen=True)
class TableChange:
    """One atomic step in `table`: rows to put, or, `deletes`, keys of rows that go."""

    table: str
    rows: pa.Table
    deletes: bool = False

    @cached_property
    def keys(self) -> list[object]:
        """As `delete_many` takes them."""
        return [tuple(row.values()) if len(row) > 1 else next(iter(row.values())) for row in self.rows.to_pylist()]


class World:
    """The tables, and what may happen to them: orders and their lines come, change and go; of each other table some
    rows change, go, and come back as they were."""

    def __init__(self, db: Database, mirror: Mirror) -> None:
        self._db, self._mirror, self._book = db, mirror, order_book(db)
        self._random = np.random.default_rng(11)
        self._rows = {name: db.sql(f"SELECT * FROM {name}").to_arrow() for name in OTHERS}
        self._away: dict[str, pa.Table] = {}
        (lines,) = db.sql("SELECT count(*) AS n FROM lineitem")
        self.most = int(lines["n"]) // _MOST_OF_LINES

    def of_orders(self, operations: int) -> list[TableChange]:
        """About so many operations on orders and lineitem, which are in the mirror already."""
        count = max(1, operations // 15)
        come, amended, cancelled = (
            make(self._book, count) for make in (OrderBook.receive, OrderBook.amend, OrderBook.cancel)
        )
        orders, numbers = zip(*cancelled.cancelled_lines, strict=True)
        return self._mirrored([
            TableChange("orders", come.orders), TableChange("lineitem", come.lines),
            TableChange("orders", amended.orders), TableChange("lineitem", amended.lines),
            TableChange("orders", pa.table({"o_orderkey": cancelled.cancelled_orders}), True),
            TableChange("lineitem", pa.table({"l_orderkey": orders, "l_linenumber": numbers}), True),
        ])  # fmt: skip

    def of_others(self, operations: int) -> list[TableChange]:
        """About so many operations on each other table, but at most on a tenth of its rows; in the mirror already."""
        changes = []
        for name, column in OTHERS.items():
            if name in self._away:
                changes.append(TableChange(name, self._away.pop(name)))
            rows = self._some(name, operations)
            if column is not None:
                values = self._rows[name].column(column)
                drawn = values.take(pa.array(self._random.integers(0, len(values), len(rows))))
                index = rows.schema.get_field_index(column)
                changes.append(TableChange(name, rows.set_column(index, rows.schema.field(index), drawn)))
            self._away[name] = gone = self._some(name, operations)
            changes.append(TableChange(name, gone.select(KEYS[name]), True))
        return self._mirrored(changes)

    def write(self, changes: Sequence[TableChange]) -> None:
        """Writes them into the database."""
        for change in changes:
            if change.deletes:
                self._db.table(change.table).delete_many(change.keys)
            else:
                self._db.table(change.table).put_many(change.rows)

    def _mirrored(self, changes: list[TableChange]) -> list[TableChange]:
        for change in changes:
            self._mirror.make(change)
            assert change.keys or not change.deletes  # made before any clock runs
        return changes

    def _some(self, name: str, count: int) -> pa.Table:
        rows = self._rows[name]
        most = max(1, min(count, len(rows) // 10))
        return rows.take(pa.array(np.unique(self._random.integers(0, len(rows), most))))


def filled(db: Database, files: list[Path]) -> None:
    """Loads the files, and tells how far it is."""
    total, done, told = sum(pq.ParquetFile(file).metadata.num_rows for file in files), 0, 0
    for rows in load(db, files):
        done += rows
        if 10 * done // total > told:
            told = 10 * done // total
            say(f"tpch: {done:,} of {total:,} rows are written")
    caught_up(db)


def caught_up(db: Database) -> None:
    """`catch_up`, and tells every some seconds how far it is."""
    while True:
        try:
            db.catch_up(timeout=20)
        except Timeout:
            behind = sum(node["lag_operations"] for node in db.lag()["nodes"])
            say(f"tpch: {behind:,} operations are yet to come in" if behind else "tpch: views are being filled")
        else:
            return
