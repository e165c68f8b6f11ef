"""What viewkeeper is measured against: the same three views, kept by SQLite's triggers, or recomputed every batch.

Each `load`s the base, then `apply`s batches; `answers` must be what a user would read after the batch.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.support.orders import QUERIES, OrderOperations, Workload, comparable
from viewkeeper.pipeline.spark_executor import JAVA_OPTIONS
from viewkeeper.spark.starting import local_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Baseline(Protocol):
    """Another way to keep the views."""

    name: str

    def load(self, workload: Workload) -> None:
        """Holds the base, with the views over it."""

    def apply(self, batch: OrderOperations) -> float:
        """Brings tables and views up to date, durably; the seconds that this took."""

    def answers(self) -> dict[str, np.ndarray]:
        """What the views hold, as `orders.comparable`."""

    def close(self) -> None:
        """Lets everything go."""


class SqliteTriggers:
    """SQLite, WAL, synced at each commit; hand-written triggers; a batch is one transaction.

    The customers do not change in this workload, so triggers on the orders are all it needs.
    """

    name = "SQLite, triggers"

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._db = sqlite3.connect(folder / "orders.sqlite", isolation_level=None)
        self._db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-1000000;")

    def load(self, workload: Workload) -> None:
        self._db.executescript(_SQLITE_TABLES)
        self._db.execute("BEGIN")
        customers = zip(range(workload.customers), workload.segment_of.tolist(), strict=True)
        self._db.executemany("INSERT INTO customer VALUES (?, ?)", customers)
        self._db.executemany("INSERT INTO orders VALUES (?, ?, ?)", _triples(workload.base))
        self._db.execute("COMMIT")
        self._db.executescript(_SQLITE_VIEWS)

    def apply(self, batch: OrderOperations) -> float:
        # The rows are made before the clock starts: making Python objects is not SQLite's doing.
        statements = [(_SQLITE_DELETE, [(id_,) for id_ in call.id.tolist()]) if call.delete[0] else
                      (_SQLITE_PUT, list(_triples(call))) for call in batch.calls()]  # fmt: skip
        started = time.perf_counter()
        self._db.execute("BEGIN")
        for statement, rows in statements:
            self._db.executemany(statement, rows)
        self._db.execute("COMMIT")
        return time.perf_counter() - started

    def answers(self) -> dict[str, np.ndarray]:
        return {name: np.array(self._db.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall(), dtype=np.int64)
                for name in QUERIES}  # fmt: skip

    def close(self) -> None:
        self._db.close()


class DuckDbRecompute:
    """DuckDB in a file, all cores: applies the batch to its tables, computes the views again, commits."""

    name = "DuckDB, recomputing"

    def __init__(self, folder: Path) -> None:
        import duckdb

        folder.mkdir(parents=True)
        self._db = duckdb.connect(str(folder / "orders.duckdb"))

    def load(self, workload: Workload) -> None:
        for name, table in (("orders", workload.base.table()), ("customer", workload.customer_table)):
            self._db.register("loaded", table)
            self._db.execute(f"CREATE TABLE {name} AS SELECT * FROM loaded")
        self._recompute()

    def apply(self, batch: OrderOperations) -> float:
        started = time.perf_counter()
        # Only the last operation of a key matters.  No index: a hash join per batch is quicker than keeping one.
        last = batch.last_of_each_key()
        self._db.execute("BEGIN")
        self._db.register("touched", pa.table({"id": last.id}))
        self._db.execute("DELETE FROM orders USING touched WHERE orders.id = touched.id")
        self._db.register("written", last[~last.delete].table())
        self._db.execute("INSERT INTO orders SELECT * FROM written")
        self._recompute()
        self._db.execute("COMMIT")
        return time.perf_counter() - started

    def answers(self) -> dict[str, np.ndarray]:
        return {name: comparable(self._db.sql(f"SELECT * FROM {name}").to_arrow_table()) for name in QUERIES}

    def close(self) -> None:
        self._db.close()

    def _recompute(self) -> None:
        for name, query in QUERIES.items():
            self._db.execute(f"CREATE OR REPLACE TABLE {name} AS {query}")


class SparkRecompute:
    """Spark, all cores: computes the views again from Parquet files, and writes them as such.

    Its base tables are brought up to date for it outside the clock, which favours it.
    """

    name = "Spark, recomputing"

    def __init__(self, folder: Path) -> None:
        from pyspark.sql import SparkSession

        cores = os.cpu_count() or 1
        folder.mkdir(parents=True)
        self._folder = folder
        active = SparkSession.getActiveSession()
        self._owned = active is None
        # Where there is a session, a new one of it: our settings and tables do not show in the one that is there.
        self._spark = started(cores) if active is None else active.newSession()
        self._spark.conf.set("spark.sql.shuffle.partitions", str(cores))
        self._orders = OrderOperations(*(np.empty(0, dtype) for dtype in (bool, np.int64, np.int64, np.int64)))

    def load(self, workload: Workload) -> None:
        self._orders = workload.base
        self._write("customer", workload.customer_table)
        self._write("orders", self._orders.table())
        self._recompute()

    def apply(self, batch: OrderOperations) -> float:
        last = batch.last_of_each_key()
        kept = self._orders[~np.isin(self._orders.id, last.id)]
        puts = last[~last.delete]
        self._orders = OrderOperations(*(np.concatenate([getattr(kept, name), getattr(puts, name)])
                                    for name in ("delete", "id", "customer", "cents")))  # fmt: skip
        self._write("orders", self._orders.table())
        started = time.perf_counter()
        self._recompute()
        return time.perf_counter() - started

    def answers(self) -> dict[str, np.ndarray]:
        return {name: comparable(pq.read_table(self._folder / name)) for name in QUERIES}

    def close(self) -> None:
        if self._owned:
            self._spark.stop()

    def _write(self, name: str, table: pa.Table) -> None:
        folder = self._folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        # Several files, so that every core has something to read.
        share = -(-table.num_rows // (os.cpu_count() or 1))
        for start in range(0, table.num_rows, share):
            pq.write_table(table.slice(start, share), folder / f"{start}.parquet")

    def _recompute(self) -> None:
        for name in ("orders", "customer"):
            self._spark.read.parquet(str(self._folder / name)).createOrReplaceTempView(name)
        for name, query in QUERIES.items():
            self._spark.sql(query).write.mode("overwrite").parquet(str(self._folder / name))


def started(cores: int, memory: str = "4g") -> SparkSession:
    """A session of `cores` cores, and its Java process if there is none yet, with so much memory."""
    settings = {"spark.ui.enabled": "false", "spark.driver.memory": memory, "spark.ui.showConsoleProgress": "false",
                "spark.driver.defaultJavaOptions": JAVA_OPTIONS}  # fmt: skip
    return local_spark(str(cores), "viewkeeper bench", settings)


def _triples(orders: OrderOperations) -> Any:
    return zip(orders.id.tolist(), orders.customer.tolist(), orders.cents.tolist(), strict=True)


_SQLITE_TABLES = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL, price INTEGER NOT NULL);
CREATE TABLE customer (id INTEGER PRIMARY KEY, segment INTEGER NOT NULL);
CREATE TABLE spend (customer INTEGER PRIMARY KEY, total INTEGER NOT NULL, n INTEGER NOT NULL);
CREATE TABLE segments (segment INTEGER PRIMARY KEY, total INTEGER NOT NULL, n INTEGER NOT NULL);
CREATE TABLE extremes (customer INTEGER PRIMARY KEY, low INTEGER, high INTEGER);
"""

_SQLITE_PUT = """INSERT INTO orders VALUES (?, ?, ?)
ON CONFLICT (id) DO UPDATE SET customer = excluded.customer, price = excluded.price"""

_SQLITE_DELETE = "DELETE FROM orders WHERE id = ?"

_SQLITE_COMES = """
INSERT INTO spend VALUES (new.customer, new.price, 1)
    ON CONFLICT (customer) DO UPDATE SET total = total + new.price, n = n + 1;
INSERT INTO segments SELECT segment, new.price, 1 FROM customer WHERE id = new.customer
    ON CONFLICT (segment) DO UPDATE SET total = total + new.price, n = n + 1;
INSERT INTO extremes VALUES (new.customer, new.price, new.price)
    ON CONFLICT (customer) DO UPDATE SET low = min(low, new.price), high = max(high, new.price)
    WHERE new.price < low OR new.price > high;
"""

_SQLITE_GOES = """
UPDATE spend SET total = total - old.price, n = n - 1 WHERE customer = old.customer;
DELETE FROM spend WHERE customer = old.customer AND n = 0;
UPDATE segments SET total = total - old.price, n = n - 1
    WHERE segment = (SELECT segment FROM customer WHERE id = old.customer);
DELETE FROM segments WHERE n = 0;
UPDATE extremes SET low = (SELECT min(price) FROM orders WHERE customer = old.customer)
    WHERE customer = old.customer AND low = old.price;
UPDATE extremes SET high = (SELECT max(price) FROM orders WHERE customer = old.customer)
    WHERE customer = old.customer AND high = old.price;
DELETE FROM extremes WHERE customer = old.customer AND low IS NULL;
"""

_SQLITE_VIEWS = f"""
BEGIN;
CREATE INDEX by_customer ON orders (customer, price);
INSERT INTO spend SELECT customer, sum(price), count(*) FROM orders GROUP BY customer;
INSERT INTO segments SELECT c.segment, sum(o.price), count(*)
    FROM orders o JOIN customer c ON o.customer = c.id GROUP BY c.segment;
INSERT INTO extremes SELECT customer, min(price), max(price) FROM orders GROUP BY customer;
CREATE TRIGGER inserted AFTER INSERT ON orders BEGIN {_SQLITE_COMES} END;
CREATE TRIGGER deleted AFTER DELETE ON orders BEGIN {_SQLITE_GOES} END;
CREATE TRIGGER updated AFTER UPDATE ON orders BEGIN {_SQLITE_GOES} {_SQLITE_COMES} END;
COMMIT;
"""
