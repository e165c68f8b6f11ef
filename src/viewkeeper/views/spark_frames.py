"""Tables and views as Spark DataFrames, and SELECTs that Spark runs."""

from __future__ import annotations

import itertools
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet

from viewkeeper.catalog.model import Index
from viewkeeper.views.result import Result
from viewkeeper.views.version import Version, repeated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WORD = re.compile(r"\w+")


class SparkFrames:
    """Hands rows to Spark as Parquet files, which stay until `close`: what a DataFrame shows does not change, whatever
    is committed meanwhile.  `session` is called when first needed."""

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        self._session = session
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
        return self._session().read.parquet(str(file))

    def select(self, version: Version, text: str) -> Result:
        """What Spark answers to one SELECT, with all tables and views of `version` at hand."""
        named = set(_WORD.findall(text.lower()))
        for item in version.catalog.everything():
            # Rows are copied only of what the text may mean: a name that does not stand in it cannot be meant.
            if not isinstance(item, Index) and named.issuperset(_WORD.findall(item.name.lower())):
                self.frame(version, item.name).createOrReplaceTempView(f"`{item.name}`")
        return Result(in_zone(self._session().sql(text).toArrow(), version.catalog.zone))

    def close(self) -> None:
        """Deletes the files; the DataFrames cannot be read any more."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def in_zone(table: pa.Table, zone: str) -> pa.Table:
    """`table` as Spark gives it, with its TIMESTAMPs shown in the database's time zone."""
    for i, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            type_ = pa.timestamp("us", zone)
            table = table.set_column(i, field.with_type(type_), table.column(i).cast(type_))
    return table
