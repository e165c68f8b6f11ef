"""RANGE frames that reach so far in values of the order are Spark's over every type of order: names, types, values."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from bags import bag
from compiler_catalog import catalog_of, query_of
from one_table import answered_twice
from viewkeeper.checker.tables import rows_of, table_of
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.spark.sessions import own_session
from viewkeeper.spark.tables import answer_of, local
from viewkeeper.spark.types import schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG = catalog_of(
    "CREATE TABLE t (id INT, g INT, i INT, y TINYINT, l BIGINT, x DOUBLE, f FLOAT, m DECIMAL(5,2), w DECIMAL(38,2), "
    "a DATE, p TIMESTAMP, u TIMESTAMP_NTZ, d INTERVAL DAY, c INTERVAL MONTH, s STRING, PRIMARY KEY (id))"
)
(SCAN,) = CATALOG.tables


def _hour(*fields: int) -> datetime.datetime:
    return datetime.datetime(2024, *fields, tzinfo=datetime.UTC)  # type: ignore[misc,arg-type]


_D, _N, _T, _M = datetime.date, datetime.datetime, datetime.timedelta, Decimal
ROWS: list[tuple[Any, ...]] = [
    (1, 1, 1, 1, 1, 1.0, 1.5, _M("1.00"), _M("1.00"), _D(2024, 1, 31), _hour(3, 30, 12), _N(2024, 3, 30, 12), _T(1), 1,
     "a"),
    (2, 1, 3, 2, 1, 1.5, 2.5, _M("1.01"), _M("2.50"), _D(2024, 2, 29), _hour(3, 31, 11), _N(2024, 3, 31, 12), _T(2), 2,
     "b"),
    (3, 1, 3, 4, 6, -0.0, 2.5, _M("2.00"), _M("-1.00"), _D(2024, 2, 29), _hour(3, 31, 12), _N(2024, 4, 30), _T(3), 14,
     None),
    (4, 1, *[None] * 12, "c"),
    (5, 2, 4, 9, 8, math.nan, math.nan, _M("-3.00"), _M("2.51"), _D(2024, 3, 31), _hour(4, 1, 11), _N(2024, 5, 31),
     _T(-4), -3, "d"),
    (6, 2, 7, 6, 9, math.inf, -math.inf, _M("999.99"), _M("3.50"), _D(1582, 10, 15), _hour(10, 26, 12),
     _N(1582, 10, 15), _T(5), 0, "e"),
    (7, 2, *[None] * 12, "f"),
    (8, 2, -5, -7, 8, 1e300, 16777216.0, _M("999.98"), _M("3.49"), _D(1582, 10, 4), _hour(10, 27, 12),
     _N(1582, 10, 4), _T(5), 1, "g"),
]  # fmt: skip

FRAMES = {
    "i": ("2 PRECEDING AND 1 FOLLOWING", "CURRENT ROW AND 2 FOLLOWING", "3 PRECEDING AND 1 PRECEDING",
          "1 FOLLOWING AND UNBOUNDED FOLLOWING", "UNBOUNDED PRECEDING AND 1 PRECEDING", "0 PRECEDING AND 0 FOLLOWING"),
    "i DESC": ("1 PRECEDING AND CURRENT ROW", "1 FOLLOWING AND 3 FOLLOWING"),
    "i NULLS LAST": ("2 PRECEDING AND UNBOUNDED FOLLOWING", "1 PRECEDING AND 1 FOLLOWING"),
    "y": ("2 PRECEDING AND 100 FOLLOWING",), "l DESC NULLS FIRST": ("1 PRECEDING AND 5 FOLLOWING",),
    "i + 1": ("2 PRECEDING AND CURRENT ROW",), "x": ("1 PRECEDING AND 0.5 FOLLOWING", "0.5D PRECEDING AND 1 FOLLOWING"),
    "x DESC": ("1 PRECEDING AND CURRENT ROW",), "f": ("1 PRECEDING AND CURRENT ROW", "1.1 PRECEDING AND 1 FOLLOWING"),
    "m": ("1 PRECEDING AND 1.0 FOLLOWING", "0.01 PRECEDING AND CURRENT ROW"),
    "w": ("0.99 PRECEDING AND 1 FOLLOWING",), "a DESC": ("30 PRECEDING AND 1 FOLLOWING",),
    "a": ("INTERVAL 1 MONTH PRECEDING AND CURRENT ROW", "INTERVAL '31' DAY PRECEDING AND INTERVAL 11 DAY FOLLOWING"),
    "p": ("INTERVAL 24 HOUR PRECEDING AND CURRENT ROW", "INTERVAL 1 DAY PRECEDING AND INTERVAL 1 DAY FOLLOWING",
          "INTERVAL 1 MONTH PRECEDING AND INTERVAL 7 MONTH FOLLOWING", "INTERVAL '9' MINUTE PRECEDING AND CURRENT ROW"),
    "u": ("INTERVAL 24 HOUR PRECEDING AND CURRENT ROW", "INTERVAL 1 MONTH PRECEDING AND CURRENT ROW"),
    "d": ("INTERVAL 1 DAY PRECEDING AND CURRENT ROW",), "c DESC": ("INTERVAL 1 MONTH PRECEDING AND CURRENT ROW",),
}  # fmt: skip
CALLS = ("sum(id)", "min(s)", "max(id)", "avg(l)", "count(s)")


def queries() -> list[str]:
    """Every frame, over partitions and without."""
    found = []
    for order, frames in FRAMES.items():
        for frame in frames:
            n = len(found)
            by = f"{('PARTITION BY g ', '')[n % 2]}ORDER BY {order}"
            found.append(f"{CALLS[n % len(CALLS)]} OVER ({by} RANGE BETWEEN {frame}) AS f{n}")
            found.append(f"count(*) OVER ({by} RANGE BETWEEN {frame}) AS f{n + 1}")
    return found


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_values_are_sparks_over_every_type_of_order(spark: SparkSession, zone: str) -> None:
    """At the ends of months, where clocks change, among NULL, NaN and infinities."""
    text = f"SELECT id, {', '.join(queries())} FROM t"
    relation = query_of(replace(CATALOG, zone=zone), text).relation
    ours = answered_twice(relation, SCAN, ROWS, zone)
    session = own_session(spark, zone)
    local(session, table_of(SCAN.columns, ROWS, zone), schema(SCAN.columns)).createOrReplaceTempView("t")
    theirs = list(rows_of(answer_of(session.sql(text), zone)))
    for mine, other in zip(sorted(ours), sorted(theirs), strict=True):
        for name, one, two in zip(["id", *queries()], mine, other, strict=True):
            assert bag([[one]]) == bag([[two]]), (name, mine[0], one, two)


ENDS = [
    (1, _D(1, 1, 1), datetime.datetime(1, 1, 2, tzinfo=datetime.UTC), _N(1, 1, 1)),
    (2, _D(1, 1, 31), datetime.datetime(1, 1, 31, tzinfo=datetime.UTC), _N(1, 1, 31, 23)),
    (3, None, None, None),
    (4, _D(9999, 11, 30), datetime.datetime(9999, 11, 30, 23, tzinfo=datetime.UTC), _N(9999, 11, 30, 23, 59, 59)),
    (5, _D(9999, 12, 1), datetime.datetime(9999, 12, 1, tzinfo=datetime.UTC), _N(9999, 12, 30)),
    (
        6,
        _D(9999, 12, 31),
        datetime.datetime(9999, 12, 31, 3, tzinfo=datetime.UTC),
        _N(9999, 12, 31, 23, 59, 59, 999999),
    ),
    (7, _D(2024, 2, 29), datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC), _N(2024, 2, 29)),
]
"""Dates that stand for no beginning and no end."""


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_a_frame_that_reaches_beyond_the_years_ends_with_them(spark: SparkSession, zone: str) -> None:
    catalog = catalog_of("CREATE TABLE e (id INT, a DATE, p TIMESTAMP, u TIMESTAMP_NTZ, PRIMARY KEY (id))")
    (scan,) = catalog.tables
    days, months, hours = "INTERVAL {} DAY", "INTERVAL {} MONTH", "INTERVAL {} HOUR"
    calls = [
        f"{call} OVER (ORDER BY {order}{way} RANGE BETWEEN {far.format(n)} PRECEDING AND {far.format(m)} FOLLOWING)"
        for order, fars in (("a", ("{}", days, months)), ("p", (days, months, hours)), ("u", (days, months, hours)))
        for far in fars
        for way in ("", " DESC NULLS FIRST")
        for call, n, m in (("sum(id)", 1, 40), ("count(*)", 30, 0))
    ]
    text = f"SELECT id, {', '.join(f'{call} AS f{i}' for i, call in enumerate(calls))} FROM e"
    relation = query_of(replace(catalog, zone=zone), text).relation
    ours = answered_twice(relation, scan, ENDS, zone)
    session = own_session(spark, zone)
    local(session, table_of(scan.columns, ENDS, zone), schema(scan.columns)).createOrReplaceTempView("e")
    theirs = list(rows_of(answer_of(session.sql(text), zone)))
    for mine, other in zip(sorted(ours), sorted(theirs), strict=True):
        for name, one, two in zip(["id", *calls], mine, other, strict=True):
            assert one == two, (name, mine[0], one, two)


@pytest.mark.spark
def test_names_and_types_are_sparks(spark: SparkSession) -> None:
    frames = [
        ("i", "1 PRECEDING"), ("i DESC", "BETWEEN 2 FOLLOWING AND 3 FOLLOWING"), ("a", "INTERVAL 2 DAY PRECEDING"),
        ("a", "BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING"), ("x", "0.5D PRECEDING"),
        ("p", "BETWEEN INTERVAL 1 WEEK PRECEDING AND INTERVAL 2 DAY FOLLOWING"),
    ]  # fmt: skip
    text = f"SELECT {', '.join(f'sum(l) OVER (ORDER BY {order} RANGE {frame})' for order, frame in frames)} FROM t"
    session = own_session(spark, "UTC")
    local(session, table_of(SCAN.columns, ROWS, "UTC"), schema(SCAN.columns)).createOrReplaceTempView("t")
    fields = [(each.name, each.dataType.simpleString(), each.nullable) for each in session.sql(text).schema]
    ours = query_of(CATALOG, text).relation.columns
    assert [(each.name, str(each.type).lower(), each.nullable) for each in ours] == fields


@pytest.mark.parametrize(
    "order, frame, kind, message",
    [
        ("i", "BETWEEN 2 FOLLOWING AND 1 FOLLOWING", DeclarationError, "begins before it ends"),
        ("i, l", "1 PRECEDING", DeclarationError, "needs one term in ORDER BY"),
        ("i", "i PRECEDING", NotSupported, "such a bound"),
        ("y", "128 PRECEDING", NotSupported, "type INT beside an order of type TINYINT"),
        ("m", "0.001 PRECEDING", NotSupported, "beside an order of type DECIMAL"),
        ("s", "1 PRECEDING", NotSupported, "beside an order of type STRING"),
        ("p", "1 PRECEDING", NotSupported, "beside an order of type TIMESTAMP"),
        ("p", "BETWEEN INTERVAL 1 DAY PRECEDING AND INTERVAL 1 MONTH FOLLOWING", NotSupported, "different types"),
        ("a", "BETWEEN 1 PRECEDING AND INTERVAL 1 DAY FOLLOWING", NotSupported, "different types"),
        ("l", "1 PRECEDING", NotSupported, "give the output an alias"),
    ],
)
def test_others_are_refused_or_sparks(order: str, frame: str, kind: type[DeclarationError], message: str) -> None:
    with pytest.raises(kind, match=message):
        query_of(CATALOG, f"SELECT count(*) OVER (ORDER BY {order} RANGE {frame}) FROM t")
