"""Arrow tables as what a query of a session names, and answers back as Arrow tables."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from viewkeeper.compiler.part_references import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SMALL_ROWS = 20_000
"""Up to so many rows in all, what a query costs is planning: tables are local relations of one partition; beyond,
Parquet files."""


@contextmanager
def named_tables(session: SparkSession, tables: Mapping[str, pa.Table]) -> Iterator[None]:
    """`tables` (logical types, nullability as in their schemas) as views of the session while the block runs."""
    small = sum(map(len, tables.values())) <= SMALL_ROWS
    with tempfile.TemporaryDirectory(prefix="viewkeeper-") as folder:
        try:
            for number, (name, table) in enumerate(tables.items()):
                file = Path(folder) / f"{number}.parquet"
                frame = _local(session, table) if small else _from_file(session, table, file)
                frame.createOrReplaceTempView(quoted(name))
            yield
        finally:
            for name in tables:
                session.catalog.dropTempView(name)


def in_zone(table: pa.Table, zone: str) -> pa.Table:
    """`table` without metadata, its TIMESTAMPs in the time zone `zone` (Spark gives them in UTC)."""
    return table.cast(pa.schema([pa.field(f.name, _type_in_zone(f.type, zone)) for f in table.schema]))


def _type_in_zone(type_: pa.DataType, zone: str) -> pa.DataType:
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", zone) if type_.tz else type_
    if pa.types.is_list(type_):
        return pa.list_(_type_in_zone(type_.value_type, zone))
    if pa.types.is_map(type_):
        return pa.map_(_type_in_zone(type_.key_type, zone), _type_in_zone(type_.item_type, zone))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _type_in_zone(field.type, zone)) for field in type_])
    return type_


def _local(session: SparkSession, table: pa.Table) -> DataFrame:
    return session.createDataFrame(table, _schema(table)).coalesce(1)


def _from_file(session: SparkSession, table: pa.Table, path: Path) -> DataFrame:
    import pyarrow.parquet

    # Not lz4: filtering by a dictionary page of more than 8 KiB, Spark's reader takes sound ones for malformed.
    pyarrow.parquet.write_table(table, path, compression="snappy", store_schema=False)
    return session.read.schema(_schema(table)).parquet(str(path))


def _schema(table: pa.Table) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
