"""Tables and views as Spark DataFrames, and SELECTs that Spark runs."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession

from viewkeeper.catalog.model import Index
from viewkeeper.views.result import Result
from viewkeeper.views.version import Version, repeated


class SparkFrames:
    """Hands rows to Spark as Parquet files, which stay until `close`: what a DataFrame shows does not change, whatever
    is committed meanwhile."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._folder = tempfile.TemporaryDirectory(prefix="viewkeeper-")
        self._files = 0

    def frame(self, version: Version, name: str, allow_stale: bool = False) -> DataFrame:
        """The rows of a table or view as of `version`."""
        shape = version.shape(name)
        table = shape.table(repeated(version.rows(shape, allow_stale)).columns)
        self._files += 1
        file = Path(self._folder.name) / f"{self._files}.parquet"
        pyarrow.parquet.write_table(table, file, store_schema=False)
        return self._spark.read.parquet(str(file))

    def select(self, version: Version, text: str) -> Result:
        """What Spark answers to `text`, with all tables and views of `version` at hand."""
        words = {word.lower() for word in re.findall(r"\w+", text)}
        for found in version.catalog.everything():
            # A name that does not stand in the text cannot be meant; its rows need not be copied.
            if not isinstance(found, Index) and set(re.findall(r"\w+", found.name.lower())) <= words:
                self.frame(version, found.name).createOrReplaceTempView(f"`{found.name}`")
        return Result(pa.Table.from_batches(self._spark.sql(text).toArrow().to_batches()))

    def close(self) -> None:
        self._folder.cleanup()
