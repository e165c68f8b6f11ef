"""Spark SQL as the judge: the view's own query over given tables, in a session of our own settings.

What a query costs here is planning, not data, so small tables become one partition each: no query over them has a
shuffle, or more than one task (30 ms instead of 100), and several queries are planned and run at once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from viewkeeper.compiler.part_references import quoted
from viewkeeper.spark.asking import ask
from viewkeeper.spark.sessions import active, own_session
from viewkeeper.streams.spark.quiet import failures_unlogged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SMALL_ROWS = 20_000
"""Up to so many rows in all, tables are local relations of one partition; beyond, Parquet files."""

_SMALL = {"spark.sql.adaptive.enabled": "false", "spark.sql.codegen.wholeStage": "false",
          "spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.autoBroadcastJoinThreshold": "-1",
          "spark.sql.shuffle.partitions": "1"}  # fmt: skip
_AT_ONCE = 4


@dataclass(frozen=True)
class SparkRaised:
    """Spark's query failed while it ran: its error class, and its message."""

    condition: str
    message: str


class SparkJudge:
    """Answers of Spark SQL.  `zone` is the database's time zone; the settings of `spark` are not touched."""

    def __init__(self, spark: SparkSession, zone: str = "UTC") -> None:
        self._zone = zone
        self._small = own_session(spark, zone, _SMALL)
        self._large = own_session(spark, zone)

    def answers(self, queries: Mapping[str, str], tables: Mapping[str, pa.Table]) -> dict[str, pa.Table | SparkRaised]:
        """The answer of each query (name to SELECT text) over `tables` (name to logical Arrow table).

        A query that Spark cannot analyse raises pyspark's AnalysisException; nullability comes from the Arrow schemas.
        """
        small = sum(len(table) for table in tables.values()) <= SMALL_ROWS
        session = self._small if small else self._large
        with tempfile.TemporaryDirectory(prefix="viewkeeper-check-") as folder, failures_unlogged(), active(session):
            for i, (name, table) in enumerate(tables.items()):
                frame = _local(session, table) if small else _from_file(session, table, Path(folder) / f"{i}.parquet")
                frame.createOrReplaceTempView(quoted(name))
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                found = list(threads.map(lambda text: self._answer(session, text), queries.values()))
            for name in tables:
                session.catalog.dropTempView(name)
        return dict(zip(queries, found, strict=True))

    def _answer(self, session: SparkSession, text: str) -> pa.Table | SparkRaised:
        from pyspark.errors import AnalysisException, ParseException, PySparkException

        try:
            return _in_zone(ask(session, text).toArrow(), self._zone)
        except (AnalysisException, ParseException):
            raise
        except PySparkException as error:
            return SparkRaised(error.getCondition() or type(error).__name__, str(error).splitlines()[0])


def _local(session: SparkSession, table: pa.Table) -> DataFrame:
    return session.createDataFrame(table, _schema(table)).coalesce(1)


def _from_file(session: SparkSession, table: pa.Table, path: Path) -> DataFrame:
    # Not lz4: filtering by a dictionary page of more than 8 KiB, Spark's reader takes sound ones for malformed.
    pq.write_table(table, path, compression="snappy", store_schema=False)
    return session.read.schema(_schema(table)).parquet(str(path))


def _schema(table: pa.Table) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(table.schema, prefer_timestamp_ntz=True)


def _in_zone(table: pa.Table, zone: str) -> pa.Table:
    """`table` without metadata, its TIMESTAMPs in the database's zone (Spark gives them in UTC)."""
    types = [pa.timestamp("us", zone) if pa.types.is_timestamp(f.type) and f.type.tz else f.type for f in table.schema]
    return table.cast(pa.schema([pa.field(f.name, t) for f, t in zip(table.schema, types, strict=True)]))
