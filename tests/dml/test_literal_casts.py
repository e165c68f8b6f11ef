"""`::` behind a literal: signs of numbers and types of texts are parts of the literal, as in Spark's grammar.

Every value and name here was seen in Spark.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import viewkeeper
from local_maintenance import catch_up
from viewkeeper import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = datetime.date(2024, 1, 1)
AT = datetime.datetime(2024, 1, 1)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path_factory.mktemp("casts") / "db", durability="process", zone="UTC") as database:
        database.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 5), (-200, 6)")
        catch_up(database)
        yield database


TYPED: list[tuple[str, Any, str]] = [
    ("date'2024-01-01'::timestamp", AT.replace(tzinfo=datetime.UTC), "CAST(DATE '2024-01-01' AS TIMESTAMP)"),
    ("DATE '2024-01-01' :: timestamp_ntz", AT, "CAST(DATE '2024-01-01' AS TIMESTAMP_NTZ)"),
    ("timestamp'2024-01-01 10:00:00'::date", DAY, "CAST(TIMESTAMP '2024-01-01 10:00:00' AS DATE)"),
    ("timestamp_ntz'2024-01-01 10:00:00'::date", DAY, "CAST(TIMESTAMP_NTZ '2024-01-01 10:00:00' AS DATE)"),
    ("timestamp_ltz'2024-01-01 10:00:00'::date", DAY, "CAST(TIMESTAMP '2024-01-01 10:00:00' AS DATE)"),
    ("timestamp'2024-01-01 10:30:00'::bigint", 1704105000, "CAST(TIMESTAMP '2024-01-01 10:30:00' AS BIGINT)"),
    ("timestamp'2024-01-01 10:30:00'::double", 1704105000.0, "CAST(TIMESTAMP '2024-01-01 10:30:00' AS DOUBLE)"),
    ("date'2024-01-01'::timestamp::string", "2024-01-01 00:00:00",
     "CAST(CAST(DATE '2024-01-01' AS TIMESTAMP) AS STRING)"),
    ("date'2024-01-01' + 1::int", DAY + datetime.timedelta(1), "date_add(DATE '2024-01-01', CAST(1 AS INT))"),
    ("'2024-01-01'::date::string", "2024-01-01", "CAST(CAST(2024-01-01 AS DATE) AS STRING)"),
]  # fmt: skip

SIGNED: list[tuple[str, Any, str]] = [
    ("-1::string", "-1", "CAST(-1 AS STRING)"),
    ("- 1 :: string", "-1", "CAST(-1 AS STRING)"),
    ("-/* c */1::string", "-1", "CAST(-1 AS STRING)"),
    ("-1::string::int", -1, "CAST(CAST(-1 AS STRING) AS INT)"),
    ("-128::tinyint", -128, "CAST(-128 AS TINYINT)"),
    ("-2147483648::int", -(2**31), "CAST(-2147483648 AS INT)"),
    ("-9223372036854775808::string", "-9223372036854775808", "CAST(-9223372036854775808 AS STRING)"),
    ("-9223372036854775808L::string", "-9223372036854775808", "CAST(-9223372036854775808 AS STRING)"),
    ("-128Y::string", "-128", "CAST(-128 AS STRING)"),
    ("-32768S::string", "-32768", "CAST(-32768 AS STRING)"),
    ("-1.5::string", "-1.5", "CAST(-1.5 AS STRING)"),
    ("-.5::string", "-0.5", "CAST(-0.5 AS STRING)"),
    ("- 1.5BD::string", "-1.5", "CAST(-1.5 AS STRING)"),
    ("-1e3::string", "-1000.0", "CAST(-1000.0 AS STRING)"),
    ("-1::decimal(5,2)", Decimal("-1.00"), "CAST(-1 AS DECIMAL(5,2))"),
    ("-1::interval day", datetime.timedelta(-1), "CAST(-1 AS INTERVAL DAY)"),
    ("1::interval day", datetime.timedelta(1), "CAST(1 AS INTERVAL DAY)"),
    ("coalesce(-1::string, 'z')", "-1", "coalesce(CAST(-1 AS STRING), z)"),
    ("array(-1::string, '2')", ["-1", "2"], "array(CAST(-1 AS STRING), 2)"),
    ("not -1::boolean", False, "(NOT CAST(-1 AS BOOLEAN))"),
    ("- -1::string", 1.0, "(- CAST(-1 AS STRING))"),
    ("-(-1)::string", 1.0, "(- CAST(-1 AS STRING))"),
    ("-(1)::string", -1.0, "(- CAST(1 AS STRING))"),
    ("+1::string", 1.0, "(+ CAST(1 AS STRING))"),
    ("- +1::string", -1.0, "(- (+ CAST(1 AS STRING)))"),
    ("-a::string", -5.0, "(- CAST(a AS STRING))"),
    ("-'1'::string", -1.0, "(- CAST(1 AS STRING))"),
    ("1 - 1::string", 0, "(1 - CAST(1 AS STRING))"),
    ("1 -1::string", 0, "(1 - CAST(1 AS STRING))"),
    ("a -1::string", 4, "(a - CAST(1 AS STRING))"),
    ("1 - -1::string", 2, "(1 - CAST(-1 AS STRING))"),
    ("-5::string % 3", -2, "(CAST(-5 AS STRING) % 3)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value", "name"), TYPED + SIGNED, ids=[each[0] for each in TYPED + SIGNED])
def test_a_cast_behind_a_literal_is_of_the_whole_literal(db: Database, text: str, value: Any, name: str) -> None:
    ((answer,),) = [row.items() for row in db.sql(f"SELECT {text} FROM t WHERE id = 1")]
    assert (answer, type(answer[1])) == ((name, value), type(value))


def test_a_signed_number_is_cast_in_conditions_and_where_a_parameter_is_filled_in(db: Database) -> None:
    assert [row["id"] for row in db.sql("SELECT id FROM t WHERE id > -128::tinyint")] == [1]
    assert list(db.sql("SELECT ?::string AS x, -?::string AS y", [-4, 4])) == [{"x": "-4", "y": "-4"}]


def test_a_view_keeps_what_such_a_cast_gives(db: Database) -> None:
    db.sql("""CREATE VIEW v AS SELECT id, -1::string AS x, date'2024-01-01'::timestamp AS y, max(-128::tinyint) AS z
              FROM t GROUP BY id""")
    catch_up(db)
    assert [tuple(row.values()) for row in db.sql("SELECT * FROM v WHERE id = 1")] == [
        (1, "-1", AT.replace(tzinfo=datetime.UTC), -128)]  # fmt: skip


@pytest.mark.spark
def test_spark_is_given_such_casts_as_they_were_meant(tmp_path: Path, spark: SparkSession) -> None:
    """Where it computes a call of each row, an aggregate of the touched groups, or the whole query."""
    queries = {
        "calls": """SELECT id, soundex(-1::string) AS s, filter(array(-1::string, '2'), e -> e = -1::string) AS f,
                    hex(-1.5BD::string || -128Y::string) AS h, hex((-a::string)::string) AS m, soundex('2') AS t,
                    hex(date'2024-01-01'::timestamp::string) AS d, hex((- -1::string)::string) AS n FROM t""",
        "groups": """SELECT a % 2 AS g, skewness(a * -1::tinyint) AS s, max(-128::tinyint) AS b,
                     max_by(timestamp'2024-01-01 10:00:00'::date, a) AS d
                     FROM t WHERE a > -128::tinyint GROUP BY a % 2""",
        "whole": """SELECT id, -1::string AS x, date'2024-01-01'::timestamp_ntz AS y, INTERVAL 1 DAY 2 HOURS AS i
                    FROM t WHERE id > -128::tinyint
                    AND id NOT IN (SELECT -5::bigint FROM t WHERE soundex(a::string) = 'x')""",
        "signs": "SELECT -'1'::string AS a, '2024-01-01'::date::string AS b, soundex('x') AS c",
    }
    spark.sql("SELECT 1L AS id, 5 AS a UNION ALL SELECT -200L, 6").createOrReplaceTempView("t")
    with viewkeeper.connect(tmp_path / "db", durability="process", zone="UTC") as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 5), (-200, 6)")
        for name, query in queries.items():
            db.sql(f"CREATE VIEW {name} AS {query}")
        db.catch_up()
        for name, query in queries.items():
            theirs = sorted(tuple(row) for row in spark.sql(query).collect())
            assert sorted(tuple(row.values()) for row in db.sql(f"SELECT * FROM {name}")) == theirs
