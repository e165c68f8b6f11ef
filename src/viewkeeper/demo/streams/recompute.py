"""The same views computed anew by Spark SQL, from all rows of the stream: an answer of another make, to compare."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from viewkeeper.database import Database, HeldSnapshot
from viewkeeper.demo.streams.views import VIEWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Again(NamedTuple):
    """A view's parts, computed anew: how many rows the view has, whether they are the same, and the seconds taken."""

    rows: int
    is_same: bool
    seconds: float


def recompute(db: Database, spark: SparkSession) -> Iterator[tuple[str, Again]]:
    """Each view's name, and what came of computing all its parts from the rows of the newest version."""
    with db.snapshot() as snapshot, tempfile.TemporaryDirectory(prefix="viewkeeper-demo-") as folder:
        m = snapshot.stream("m")
        first, last = m.first, m.newest
        _register(spark, Path(folder), "rows_of_m", m.to_arrow())
        _register(spark, Path(folder), "hosts", snapshot.sql("SELECT * FROM hosts").to_arrow())
        spark.sql("SELECT *, unix_seconds(ts) DIV 60 AS part FROM rows_of_m").createOrReplaceTempView("m")
        for view in VIEWS:
            begin = time.perf_counter()
            expected = spark.sql(view.again.format(first=first, last=last)).toArrow()
            seconds = time.perf_counter() - begin
            found = _parts(snapshot, view.name)
            yield view.name, Again(len(found), _bag(found) == _bag(expected), seconds)
        for name in ("m", "rows_of_m", "hosts"):
            spark.catalog.dropTempView(name)


def _register(spark: SparkSession, folder: Path, name: str, rows: pa.Table) -> None:
    file = folder / f"{name}.parquet"
    pq.write_table(rows, file, store_schema=False)
    spark.read.parquet(str(file)).createOrReplaceTempView(name)


def _parts(snapshot: HeldSnapshot, view: str) -> pa.Table:
    """The rows of all parts, the subscript first."""
    reader = snapshot.view(view)
    tables = []
    for part in range(reader.first, reader.next) if reader.first is not None else ():
        rows = reader.part(part).to_arrow()
        tables.append(rows.add_column(0, "part", pa.array([part] * len(rows), pa.int64())))
    return pa.concat_tables(tables) if tables else pa.table({"part": []})


def _bag(rows: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))
