"""CAST and TRY_CAST between all types are Spark's, over the edges of each: values, names, and what raises."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from edge_values import BEYOND, DECIMALS, edge_values
from spark_differences import ZONE, compare_with_spark, ours
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
)  # fmt: skip
from viewkeeper.compiler.coercion import has_cast, why_no_native_cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TYPES = (BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, *DECIMALS, STRING, BINARY, DATE, TIMESTAMP,
         TIMESTAMP_NTZ)  # fmt: skip

LEFT_TO_SPARK = {
    (FLOAT, STRING), (DOUBLE, STRING), (BINARY, STRING),
    *((source, target) for source in (FLOAT, DOUBLE, TIMESTAMP) for target in DECIMALS),
    *((source, TIMESTAMP) for source in DECIMALS),
}  # fmt: skip


@pytest.fixture(autouse=True)
def zone(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.session.timeZone", ZONE)
    yield
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize("source", TYPES, ids=str)
def test_casts_are_sparks(spark: SparkSession, source: Type) -> None:
    """To every type: each value, and NULL by TRY_CAST just where CAST raises."""
    targets = [type_ for type_ in TYPES if has_cast(source, type_) and why_no_native_cast(source, type_, True) is None]
    rows = [(value,) for value in edge_values(source)]
    expressions = [f"{kind}(a AS {target})" for target in targets for kind in ("CAST", "TRY_CAST")]
    compare_with_spark(spark, [source], rows, expressions, raise_each=False)
    found = ours([source], rows, expressions)
    for cast, tried in zip(found[::2], found[1::2], strict=True):
        missing = {n for n, value in enumerate(tried.values) if value is None and cast.values[n] is not None}
        assert not missing and not set(tried.codes.values()) - {"DATETIME_OVERFLOW"}, cast.sql


def test_which_casts_there_are_is_what_spark_says(spark: SparkSession) -> None:
    """All that Spark has are native but for those named here, and it has no others."""
    from pyspark.errors import AnalysisException

    left = set()
    for source in TYPES:
        spark.createDataFrame([], f"a {source}").createOrReplaceTempView("edges")
        for target in TYPES:
            try:
                assert spark.sql(f"SELECT CAST(a AS {target}) FROM edges").schema
                there = True
            except AnalysisException:
                there = False
            assert there == has_cast(source, target), (source, target)
            if there and why_no_native_cast(source, target, True) is not None:
                left.add((source, target))
    assert left == LEFT_TO_SPARK


@pytest.mark.parametrize(
    ("source", "value", "target", "error"),
    [
        (STRING, "x", "INT", "CAST_INVALID_INPUT"), (STRING, "x", "DOUBLE", "CAST_INVALID_INPUT"),
        (STRING, "1e40", "DECIMAL(38,0)", "NUMERIC_OUT_OF_SUPPORTED_RANGE"),
        (STRING, "x", "DATE", "CAST_INVALID_INPUT"),
        (STRING, "1000", "DECIMAL(5,2)", "NUMERIC_VALUE_OUT_OF_RANGE"), (STRING, "x", "BOOLEAN", "CAST_INVALID_INPUT"),
        (STRING, "x", "TIMESTAMP", "CAST_INVALID_INPUT"), (STRING, "x", "TIMESTAMP_NTZ", "CAST_INVALID_INPUT"),
        (BIGINT, 2**40, "INT", "CAST_OVERFLOW"), (INT, 1000, "DECIMAL(5,2)", "NUMERIC_VALUE_OUT_OF_RANGE"),
        (DOUBLE, 1e30, "BIGINT", "CAST_OVERFLOW"), (DOUBLE, float("nan"), "TINYINT", "CAST_OVERFLOW"),
        (DECIMALS[6], Decimal(10**30), "BIGINT", "CAST_OVERFLOW"),
        (DECIMALS[3], Decimal(1000), "DECIMAL(5,2)", "NUMERIC_VALUE_OUT_OF_RANGE"),
        (BOOLEAN, True, "DECIMAL(9,9)", "NUMERIC_VALUE_OUT_OF_RANGE"),
    ],
)  # fmt: skip
def test_what_a_cast_raises_is_what_spark_raises(
    spark: SparkSession, source: Type, value: Any, target: str, error: str
) -> None:
    """The error's class, of each kind of cast."""
    sql = f"CAST(a AS {target})"
    assert compare_with_spark(spark, [source], [(value,), (None,)], [sql]) == {sql: {error}}


def test_what_lies_beyond_the_years_raises_by_cast_and_try_cast() -> None:
    """Spark has the year 10000, so NULL would be another answer."""
    dates = ours([STRING], [(text,) for text in BEYOND], ["CAST(a AS DATE)", "TRY_CAST(a AS DATE)"])
    assert [list(one.codes.values()) for one in dates] == [
        ["DATETIME_OVERFLOW"] * 3 + ["CAST_INVALID_INPUT"], ["DATETIME_OVERFLOW"] * 3,
    ]  # fmt: skip
    for expression in ("CAST(a AS TIMESTAMP)", "TRY_CAST(a AS TIMESTAMP)", "timestamp_seconds(a)"):
        (one,) = ours([BIGINT], [(253402300800,), (-62135596801,), (0,)], [expression])
        assert one.codes == {0: "DATETIME_OVERFLOW", 1: "DATETIME_OVERFLOW"}


def test_every_way_to_write_a_cast_is_named_as_in_spark(spark: SparkSession) -> None:
    """`::`, functions named for types, casts in casts and in expressions, implicit ones."""
    expressions = [
        "a::INT", "a::DECIMAL(10,2)", "CAST(a AS LONG)", "CAST(a AS INTEGER)", "CAST(a AS DEC(5,1))",
        "CAST(a AS NUMERIC)",
        "CAST(CAST(a AS INT) AS STRING)", "CAST(a AS INT) + 1", "int(a)", "string(int(a))", "double(a) + 1", "date(b)",
        "timestamp(b)", "to_date(b)", "to_timestamp(b)", "CAST('2020-01-01' AS DATE)", "'5'::BIGINT",
        "CAST(NULL AS INT)",
        "a = 5", "a + 1 > 2", "a IN (5, 7)", "a BETWEEN 1 AND 9", "b > DATE '2020-01-01'", "-a", "a / 2", "a * 2.0",
        "year(b)", "coalesce(a, 1)", "CASE WHEN a > 1 THEN 1 ELSE a END", "CAST(a AS BOOLEAN) AND TRUE", "float(a)",
        "TRY_CAST(a AS INT) IS NULL", "concat(CAST(a AS INT), '!')", "CAST(a AS BYTE)", "CAST(a AS SHORT)",
        "CAST(a AS REAL)",
    ]  # fmt: skip
    rows = [("1", "2020-01-05"), ("7", "2019-12-31 10:00:00"), (None, None)]
    compare_with_spark(spark, [STRING, STRING], rows, expressions)
