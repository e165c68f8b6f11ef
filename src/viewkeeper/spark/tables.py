"""Arrow tables as what a query of a session names, and answers back as Arrow tables."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from viewkeeper.catalog.arrow_tables import declared_text, type_text
from viewkeeper.compiler.part_references import quoted
from viewkeeper.compiler.token_reader import read_type
from viewkeeper.spark.types import metadata_of, spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

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
                frame = local(session, table, _schema(table)).coalesce(1) if small else from_file(session, table, file)
                frame.createOrReplaceTempView(quoted(name))
            yield
        finally:
            for name in tables:
                session.catalog.dropTempView(name)


def answer_of(frame: DataFrame, zone: str) -> pa.Table:
    """The rows of `frame` in the types that users see, its TIMESTAMPs in the time zone `zone`."""
    return in_zone(_with_nulls(in_months(frame)).toArrow(), zone)


def _with_nulls(frame: DataFrame) -> DataFrame:
    """`frame`, what stands within its values nullable: Arrow takes no NULL for a struct whose fields are not."""
    from pyspark.sql import functions as f

    types = [_nullable(field.dataType) for field in frame.schema.fields]
    if types == [field.dataType for field in frame.schema.fields]:
        return frame
    names = [f"c{i}" for i in range(len(types))]
    columns = (f.col(name).cast(type_) for name, type_ in zip(names, types, strict=True))
    return frame.toDF(*names).select(*columns).toDF(*(field.name for field in frame.schema.fields))


def _nullable(type_: DataType) -> DataType:
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(type_, ArrayType):
        return ArrayType(_nullable(type_.elementType), True)
    if isinstance(type_, MapType):
        return MapType(_nullable(type_.keyType), _nullable(type_.valueType), True)
    if isinstance(type_, StructType):
        return StructType([StructField(field.name, _nullable(field.dataType), True) for field in type_.fields])
    return type_


def in_months(frame: DataFrame) -> DataFrame:
    """`frame`, its intervals of years and months, those within others too, as numbers of months: PySpark has no values
    for them."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import IntegerType

    fields = frame.schema.fields
    if not any(map(_has_months, (field.dataType for field in fields))):
        return frame
    by_number = frame.toDF(*(f"c{i}" for i in range(len(fields))))
    columns = [f.col(f"c{i}").cast(_with_months(field.dataType)).cast(_with_months(field.dataType, IntegerType()))
               if _has_months(field.dataType) else f.col(f"c{i}") for i, field in enumerate(fields)]  # fmt: skip
    return by_number.select(*columns).toDF(*(field.name for field in fields))


def _has_months(type_: DataType) -> bool:
    from pyspark.sql.types import IntegerType

    return _with_months(type_, IntegerType()) != type_


def _with_months(type_: DataType, months: DataType | None = None) -> DataType:
    """`type_` with `months`, or INTERVAL MONTH, for each interval of years and months within."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType, YearMonthIntervalType

    if isinstance(type_, YearMonthIntervalType):
        return months or YearMonthIntervalType(YearMonthIntervalType.MONTH, YearMonthIntervalType.MONTH)
    if isinstance(type_, ArrayType):
        return ArrayType(_with_months(type_.elementType, months), type_.containsNull)
    if isinstance(type_, MapType):
        return MapType(_with_months(type_.keyType, months), _with_months(type_.valueType, months),
                       type_.valueContainsNull)  # fmt: skip
    if isinstance(type_, StructType):
        return StructType([StructField(field.name, _with_months(field.dataType, months), field.nullable)
                           for field in type_.fields])  # fmt: skip
    return type_


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


def local(session: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """The rows of `table` (logical types), which go with the DataFrame."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import IntegerType, StructField, StructType

    months = [_has_months(field.dataType) for field in schema.fields]
    if not any(months):
        return session.createDataFrame(table, schema)
    names = [f"c{i}" for i in range(len(months))]
    given = StructType([StructField(name, _with_months(field.dataType, IntegerType()), field.nullable, field.metadata)
                        for name, field in zip(names, schema.fields, strict=True)])  # fmt: skip
    frame = session.createDataFrame(table.rename_columns(names), given)
    columns = [f.col(name).cast(_with_months(field.dataType)).cast(field.dataType) if month else f.col(name)
               for name, month, field in zip(names, months, schema.fields, strict=True)]  # fmt: skip
    return frame.select(*columns).toDF(*(field.name for field in schema.fields))


def from_file(session: SparkSession, table: pa.Table, path: Path) -> DataFrame:
    """The rows of `table` (logical types), by way of a Parquet file that is written at `path` and has to stay."""
    import pyarrow.parquet

    # Not lz4: filtering by a dictionary page of more than 8 KiB, Spark's reader takes sound ones for malformed.
    pyarrow.parquet.write_table(table, path, compression="snappy", store_schema=False)
    return session.read.schema(_schema(table)).parquet(str(path))


def _schema(table: pa.Table) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    found = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    for field, arrow in zip(found.fields, table.schema, strict=True):
        if (text := type_text(arrow)) is not None:
            field.dataType = spark_type(read_type(text))
        field.metadata = metadata_of(declared_text(arrow))
    return found
