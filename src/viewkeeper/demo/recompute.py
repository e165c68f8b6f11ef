"""What the views would cost without viewkeeper: Spark runs their queries over the base tables, again and again."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from viewkeeper.database import Database
from viewkeeper.demo.views import VIEWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def recompute(db: Database, spark: SparkSession) -> Iterator[tuple[str, float]]:
    """Each view's name, and the seconds that Spark takes to answer its query from the base tables, in Parquet files.

    Reading the tables is counted, making the files is not; a view over a view includes the view below.
    """
    with _tables(db, spark):
        for view in VIEWS:
            begin = time.perf_counter()
            frame = spark.sql(view.query)
            frame.toArrow()
            yield view.name, time.perf_counter() - begin
            frame.createOrReplaceTempView(view.name)


@contextmanager
def _tables(db: Database, spark: SparkSession) -> Iterator[None]:
    """The base tables as Spark knows them."""
    names = [table.name for table in db.catalog.tables]
    with tempfile.TemporaryDirectory(prefix="viewkeeper-demo-") as folder:
        for name in names:
            file = Path(folder) / f"{name}.parquet"
            pq.write_table(db.sql(f"SELECT * FROM {name}").to_arrow(), file, store_schema=False)
            spark.read.parquet(str(file)).createOrReplaceTempView(name)
        yield
        for name in [*names, *(view.name for view in VIEWS)]:
            spark.catalog.dropTempView(name)
