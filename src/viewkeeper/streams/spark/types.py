"""Spark's types for the catalog's, and back."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import types as spark

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Type,
    decimal,
)  # fmt: skip

_TYPES: dict[Type, spark.DataType] = {
    BOOLEAN: spark.BooleanType(), TINYINT: spark.ByteType(), SMALLINT: spark.ShortType(), INT: spark.IntegerType(),
    BIGINT: spark.LongType(), FLOAT: spark.FloatType(), DOUBLE: spark.DoubleType(), STRING: spark.StringType(),
    BINARY: spark.BinaryType(), DATE: spark.DateType(), TIMESTAMP: spark.TimestampType(),
    TIMESTAMP_NTZ: spark.TimestampNTZType(),
}  # fmt: skip
_BACK = {type_: ours for ours, type_ in _TYPES.items()}


def spark_type(type_: Type) -> spark.DataType:
    """Spark's type for a column's."""
    return spark.DecimalType(type_.precision, type_.scale) if type_.is_decimal else _TYPES[type_]


def catalog_type(type_: spark.DataType) -> Type | None:
    """The catalog's type for Spark's; None where a column cannot have it."""
    return decimal(type_.precision, type_.scale) if isinstance(type_, spark.DecimalType) else _BACK.get(type_)


def schema(columns: Sequence[Column]) -> spark.StructType:
    """The schema of a DataFrame with these columns."""
    return spark.StructType([spark.StructField(c.name, spark_type(c.type), c.nullable) for c in columns])
