"""Tables and views as Spark DataFrames, and SELECTs that Spark runs."""

from __future__ import annotations

import itertools
import re
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet

from viewkeeper.catalog.model import Index
from viewkeeper.pipeline.spark import loss_named
from viewkeeper.views.result import Result
from viewkeeper.views.spark_session import SparkUse
from viewkeeper.views.version import Version, repeated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WORD = re.compile(r"\w+")


class SparkFrames:
    """Hands rows to Spark as Parquet files, which stay until `close`: what a DataFrame shows does not change, whatever
    is committed meanwhile.  Spark is started when first needed."""

    def __init__(self, spark: SparkUse) -> None:
        self._spark = spark
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._numbers = itertools.count(1)

    def frame(self, version: Version, name: str, allow_stale: bool = False) -> DataFrame:
        """The rows of a table or view as of `version`."""
        shape = version.shape(name)
        table = shape.table(repeated(version.rows(shape, allow_stale)).columns)
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="viewkeeper-")
        file = Path(self._folder.name) / f"{next(self._numbers)}.parquet"
        pyarrow.parquet.write_table(table, file, store_schema=False)
        return self._spark.session().read.parquet(str(file))

    def close(self) -> None:
        """Deletes the files; the DataFrames cannot be read any more."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def run_on_spark(spark: SparkUse, version: Version, text: str) -> Result:
    """What Spark answers to one SELECT, with all tables and views of `version` at hand."""
    named = set(_WORD.findall(text.lower()))
    # Rows are copied only of what the text may mean: a name that does not stand in it cannot be meant.
    meant = [item.name for item in version.catalog.everything()
             if not isinstance(item, Index) and named.issuperset(_WORD.findall(item.name.lower()))]  # fmt: skip
    frames, session = SparkFrames(spark), spark.session()
    with loss_named(), closing(frames):
        try:
            for name in meant:
                frames.frame(version, name).createOrReplaceTempView(f"`{name}`")
            return Result(_in_zone(session.sql(text).toArrow(), version.catalog.zone))
        finally:
            for name in meant:
                session.catalog.dropTempView(name)


def _in_zone(table: pa.Table, zone: str) -> pa.Table:
    """`table` as Spark gives it, with its TIMESTAMPs shown in the database's time zone."""
    for i, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            type_ = pa.timestamp("us", zone)
            table = table.set_column(i, field.with_type(type_), table.column(i).cast(type_))
    return table
