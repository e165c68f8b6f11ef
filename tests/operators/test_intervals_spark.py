"""Intervals, and what they and dates and times make of each other, are Spark's: names, types and values."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from bags import bag
from compiler_catalog import catalog_of, query_of
from one_table import answered_twice
from viewkeeper.checker.row_evaluator import Answer, evaluate
from viewkeeper.checker.tables import rows_of, table_of
from viewkeeper.errors import ViewBroken
from viewkeeper.spark.sessions import own_session
from viewkeeper.spark.tables import answer_of, local
from viewkeeper.spark.types import schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CATALOG = catalog_of(
    "CREATE TABLE t (id INT, g INT, a DATE, b DATE, p TIMESTAMP, q TIMESTAMP, u TIMESTAMP_NTZ, v TIMESTAMP_NTZ, "
    "d INTERVAL DAY, h INTERVAL DAY TO HOUR, s INTERVAL DAY TO SECOND, m INTERVAL MONTH, y INTERVAL YEAR TO MONTH, "
    "n INT, l BIGINT, PRIMARY KEY (id))"
)
(SCAN,) = CATALOG.tables


def _utc(*fields: int) -> datetime.datetime:
    return datetime.datetime(*fields, tzinfo=datetime.UTC)  # type: ignore[misc,arg-type]


def _days(days: float, **more: int) -> datetime.timedelta:
    return datetime.timedelta(days=days, **more)


_D, _N = datetime.date, datetime.datetime
ROWS: list[tuple[Any, ...]] = [
    (1, 1, _D(1, 1, 3), _D(9999, 12, 30), _utc(1, 1, 3), _utc(9999, 12, 30), _N(1, 1, 1), _N(9999, 12, 31, 23),
     _days(3), _days(-2, hours=5), _days(-1, microseconds=1), 14, -15, 2, -3),
    (2, 1, _D(2024, 3, 30), _D(2024, 4, 1), _utc(2024, 3, 30, 12), _utc(2024, 3, 31, 12), _N(2024, 3, 31, 2, 30),
     _N(2024, 3, 31, 3, 30), _days(-1), _days(0), _days(106_751_990), 2**30, 5, -2, 7),
    (3, 2, _D(1582, 10, 4), _D(1582, 10, 15), _utc(2024, 10, 26, 12), _utc(2024, 10, 27, 0, 30), _N(1970, 1, 1),
     _N(1969, 12, 31, 23, 59, 59, 999_999), _days(7), _days(7), _days(0, microseconds=-3), -1, 2**30, 1, 1 << 20),
    (4, 2, *[None] * 13),
    (5, 3, _D(1, 1, 1), _D(1, 1, 1), _utc(2038, 1, 19, 3, 14, 8), _utc(1883, 11, 18, 12), _N(2024, 2, 29), None,
     _days(7), _days(1), _days(0, microseconds=5), -7, 7, 3, -2),
]  # fmt: skip

OF_A_ROW = """
b - a, a - b, p - q, u - v, a - p, q - a, a - u, v - b, -d, -m, negative(d), negative(m), d + h, h - s,
m + y, y - m, d * n, n * h, l * d, m * n,
d / 2, s / n, h / -7, m / n, y / -2, d > h, d = INTERVAL '168' HOUR, m < INTERVAL '1' YEAR, s BETWEEN h AND d,
coalesce(d, INTERVAL '1' MINUTE), CASE WHEN n > 1 THEN h ELSE d END, nullif(m, y), d IN (INTERVAL '3' DAY, h),
p + INTERVAL '24' HOUR, p + INTERVAL '1' DAY, q - INTERVAL '49' HOUR, INTERVAL '3' MONTH + p, u + INTERVAL '25' HOUR,
u - INTERVAL '36' HOUR, INTERVAL '90' MINUTE, INTERVAL '2' WEEK, INTERVAL '-3' YEAR, d + INTERVAL '1' HOUR,
INTERVAL '1' MONTH - m, -INTERVAL '5' SECOND, d IS NULL, d <=> h
"""  # A time near the years 1 and 9999 stands in no sum of it.

COUNTED_ON = {
    "(2, 3, 4)": "a + d, a - d, d + a, a + h, h + b, a - h, p + d, p - h, h + q, u + d, u - h, v + h, p + d + h, "
                 "q - d * n, u + h / n, a + INTERVAL '0' DAY, a + (p - q), b - (u - v), q + (p - q), "
                 "u + (v - u), p - (q - p)",
    "(4, 5)": "p + y, y + u, u - m, p - m, q + m, q - y, a + y, a - m, b + y, u + y + m, p + d - h, u - d, p + s, "
              "u - s, a + d",
}  # fmt: skip
"""By the rows in which nothing goes beyond the years 1 and 9999."""

OF_A_GROUP = """
sum(d), avg(d), min(h), max(s), sum(m), avg(m), avg(y), count(d), sum(b - a), avg(q - p), count(DISTINCT d),
sum(DISTINCT d), max(p - q), avg(h) FILTER (WHERE n > 0), min(d) + max(h), sum(d) / count(*)
"""


def ours(text: str, zone: str) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
    relation = query_of(replace(CATALOG, zone=zone), text).relation
    columns = [(column.name, str(column.type).lower()) for column in relation.columns]
    return columns, answered_twice(relation, SCAN, ROWS, zone)


def spark_says(spark: SparkSession, text: str, zone: str) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
    session = own_session(spark, zone)
    local(session, table_of(SCAN.columns, ROWS, zone), schema(SCAN.columns)).createOrReplaceTempView("t")
    found = session.sql(text)
    columns = [(field.name, field.dataType.simpleString()) for field in found.schema]
    return columns, list(rows_of(answer_of(found, zone)))


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_those_of_a_row_are_sparks(spark: SparkSession, zone: str) -> None:
    text = f"SELECT id, {OF_A_ROW} FROM t WHERE id > 1"
    columns, rows = ours(text, zone)
    expected, answer = spark_says(spark, text, zone)
    assert columns == expected
    assert bag(rows) == bag(answer)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("ids", COUNTED_ON)
def test_times_are_counted_on_as_in_spark(spark: SparkSession, ids: str, zone: str) -> None:
    text = f"SELECT id, {COUNTED_ON[ids]} FROM t WHERE id IN {ids}"
    columns, rows = ours(text, zone)
    expected, answer = spark_says(spark, text, zone)
    assert columns == expected
    assert bag(rows) == bag(answer)
    judged = evaluate(query_of(replace(CATALOG, zone=zone), text).relation, {SCAN.id: Answer(ROWS)}, zone)
    assert bag(list(judged.rows)) == bag(answer)


def test_those_of_the_first_and_last_years_are_sparks(spark: SparkSession) -> None:
    text = "SELECT b - a, q - p, v - u, p - a, d - s, (b - a) / 7 FROM t WHERE id IN (1, 5)"
    columns, rows = ours(text, "UTC")
    expected, answer = spark_says(spark, text, "UTC")
    assert (columns, bag(rows)) == (expected, bag(answer))


@pytest.mark.parametrize("rest", ["GROUP BY g", "WHERE id > 9"])
def test_those_of_a_group_are_sparks(spark: SparkSession, rest: str) -> None:
    text = f"SELECT {'g,' if rest == 'GROUP BY g' else ''} {OF_A_GROUP.replace('', '')} FROM t {rest}"
    columns, rows = ours(text, "Europe/Berlin")
    expected, answer = spark_says(spark, text, "Europe/Berlin")
    assert columns == expected
    assert bag(rows) == bag(answer)


WRONG = {
    "s + s": "INTERVAL_ARITHMETIC_OVERFLOW", "-s - s - s": "INTERVAL_ARITHMETIC_OVERFLOW",
    "s * 2": "ARITHMETIC_OVERFLOW",
    "y * 2": "ARITHMETIC_OVERFLOW", "m + y": "INTERVAL_ARITHMETIC_OVERFLOW", "d / 0": "INTERVAL_DIVIDED_BY_ZERO",
    "p + s": "DATETIME_OVERFLOW", "u - s": "DATETIME_OVERFLOW", "a + y": "DATETIME_OVERFLOW",
    "p - m": "DATETIME_OVERFLOW", "a + d * 106751990": "DATETIME_OVERFLOW", "u - y": "DATETIME_OVERFLOW",
}  # fmt: skip


@pytest.mark.parametrize("raising", WRONG)
def test_what_does_not_fit_raises(raising: str) -> None:
    relation = query_of(CATALOG, f"SELECT {raising} FROM t").relation
    with pytest.raises(ViewBroken, match=WRONG[raising]):
        answered_twice(relation, SCAN, [(*ROWS[1][:11], 2**30, 2**30, 0, 0)])
    judged = evaluate(relation, {SCAN.id: Answer([(*ROWS[1][:11], 2**30, 2**30, 0, 0)])})
    assert [error.code for error in judged.errors] == [WRONG[raising]]


def test_sums_raise_where_they_do_not_fit() -> None:
    for text in ("SELECT sum(s) FROM t", "SELECT avg(s) FROM t", "SELECT sum(m) FROM t", "SELECT avg(m) FROM t"):
        relation = query_of(CATALOG, text).relation
        rows = [(i, *ROWS[1][1:11], 2**30, *ROWS[1][12:]) for i in range(2)]
        with pytest.raises(ViewBroken, match="INTERVAL_ARITHMETIC_OVERFLOW"):
            answered_twice(relation, SCAN, rows)
        judged = evaluate(relation, {SCAN.id: Answer(rows)})
        assert [error.code for error in judged.errors] == ["INTERVAL_ARITHMETIC_OVERFLOW"]
