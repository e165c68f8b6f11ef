"""Spark's word on the queries of views before they are declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

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
    decimal,
)
from viewkeeper.errors import DeclarationError
from viewkeeper.streams.spark.analyst import SparkAnalyst
from viewkeeper.streams.spark.hidden import without_hidden

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

M = (Column("ts", TIMESTAMP, False), Column("src", STRING), Column("loss", INT))
N = (Column("src", STRING), Column("rtt", DOUBLE))
TABLES = {"m_1": M, "n_1": N, "dim": (Column("src", STRING, False), Column("name", STRING))}


@pytest.fixture(scope="module")
def analyst(spark: SparkSession) -> SparkAnalyst:
    return SparkAnalyst(lambda: spark)


def shown(analyst: SparkAnalyst, sql: str) -> list[tuple[str, str, bool]]:
    found = analyst.columns(sql, TABLES, timed=("m_1", "n_1"))
    return [(column.name, str(column.type), column.nullable) for column in found]


@pytest.mark.spark
def test_columns_are_named_typed_and_nullable_as_spark_says(analyst: SparkAnalyst) -> None:
    """Each result column has Spark's name, the catalog's type for Spark's, and Spark's word on NULL."""
    sql = "SELECT New.ts, loss + 1, sum(loss) OVER () AS total, count(*) OVER () AS n FROM m_1 AS New"
    assert shown(analyst, sql) == [("ts", "TIMESTAMP", False), ("(loss + 1)", "INT", True), ("total", "BIGINT", True),
                                   ("n", "BIGINT", False)]  # fmt: skip


@pytest.mark.spark
def test_every_type_of_the_catalog_passes(analyst: SparkAnalyst) -> None:
    """A column of any type that a table can have comes out of a query with the same type and nullability."""
    types = (BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, decimal(5, 2), decimal(38, 10), STRING, BINARY,
             DATE, TIMESTAMP, TIMESTAMP_NTZ)  # fmt: skip
    columns = tuple(Column(f"c{i}", type_, i % 2 == 0) for i, type_ in enumerate(types))
    assert analyst.columns("SELECT * FROM t", {"t": columns}) == columns


@pytest.mark.spark
@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM m_1 AS New WHERE PART_TIMESTAMP > TIMESTAMP '2015-01-01 00:00:00'", "ts src loss"),
        ("SELECT New.*, n.rtt FROM m_1 AS New JOIN n_1 AS n ON New.PART_TIMESTAMP = n.PART_TIMESTAMP",
         "ts src loss rtt"),
        ("SELECT * FROM m_1 AS a NATURAL JOIN n_1 AS b WHERE a.PART_TIMESTAMP = b.part_timestamp", "src ts loss rtt"),
        ("SELECT * FROM m_1 AS a JOIN n_1 AS b USING (src) WHERE b.`PART_TIMESTAMP` IS NOT NULL", "src ts loss rtt"),
        ("SELECT * EXCEPT (ts) FROM m_1 AS a WHERE PART_TIMESTAMP IS NOT NULL", "src loss"),
        ("SELECT PART_TIMESTAMP, count(*) AS n FROM m_1 AS a GROUP BY PART_TIMESTAMP ORDER BY PART_TIMESTAMP",
         "PART_TIMESTAMP n"),
        ("SELECT * FROM (SELECT *, part_timestamp FROM m_1 AS a) q WHERE PART_TIMESTAMP > ts",
         "ts src loss PART_TIMESTAMP"),
        ("SELECT a.x FROM m_1 AS a(t, s, x) WHERE a.PART_TIMESTAMP = t", "x"),
        ("SELECT * FROM m_1 AS a WHERE EXISTS (SELECT * FROM n_1 AS b WHERE b.PART_TIMESTAMP = a.PART_TIMESTAMP)",
         "ts src loss"),
        ("WITH w AS (SELECT *, PART_TIMESTAMP AS p FROM m_1 AS a) SELECT * FROM w JOIN n_1 AS b ON b.part_timestamp=p",
         "ts src loss p src rtt"),
        ("SELECT date(PART_TIMESTAMP) FROM m_1 AS a", "PART_TIMESTAMP"),
        ("SELECT src, 1 AS PART_TIMESTAMP FROM m_1 AS a ORDER BY PART_TIMESTAMP", "src PART_TIMESTAMP"),
        ("SELECT src FROM m_1 AS a WHERE PART_TIMESTAMP > ts UNION ALL SELECT src FROM n_1 AS b", "src"),
        ("SELECT count(*) AS n, count(a.*) AS k FROM m_1 AS a WHERE PART_TIMESTAMP > ts", "n k"),
        ("SELECT * FROM (m_1 AS a JOIN n_1 AS b USING (src)) WHERE a.PART_TIMESTAMP > ts", "src ts loss rtt"),
    ],
)  # fmt: skip
def test_part_timestamp_is_hidden(analyst: SparkAnalyst, sql: str, names: str) -> None:
    """PART_TIMESTAMP can be named wherever a column can, and shows in no *, NATURAL JOIN or USING."""
    assert [name for name, _, _ in shown(analyst, sql)] == names.split()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("sql", "message", "place"),
    [
        ("SELECT src,\n  los FROM m_1 AS New", "`los` cannot be resolved", (2, 3)),
        ("SELECT * FROM m_1 AS a WHERE PART_TIMESTAMP > ts AND\n los > 1", "`los` cannot be resolved", (2, 2)),
        ("SELECT src FROM m_1 AS a WHERE\n loss + ts > ts", "DATATYPE_MISMATCH", (2, 2)),
        ("SELECT src FROM m_1 AS a, n_1 AS b", "ambiguous", (1, 8)),
        ("SELECT src src src FROM m_1 AS a", "Syntax error", (1, 16)),
        ("SELECT nofunc(src) FROM m_1 AS a", "UNRESOLVED_ROUTINE", (1, 8)),
        ("SELECT PART_TIMESTAMP FROM m_1 AS a JOIN n_1 AS b ON true",
         "write a.PART_TIMESTAMP or b.PART_TIMESTAMP", (1, 8)),
        ("SELECT d.PART_TIMESTAMP FROM dim AS d", "cannot be resolved", (1, 8)),
        ("SELECT a.src FROM m_1 AS a JOIN n_1 AS b USING (PART_TIMESTAMP)", "PART_TIMESTAMP", None),
        ("SELECT * FROM m_1 AS a PIVOT (sum(loss) FOR src IN ('x')) WHERE PART_TIMESTAMP > ts", "PIVOT", (1, 65)),
        ("SELECT array(loss) AS l FROM m_1 AS a", "the column l is of type ARRAY<INT>", None),
        ("SELECT map(src, loss) FROM m_1 AS a", "MAP<STRING,INT>", None),
        ("SELECT struct(src) AS s FROM m_1 AS a", "select its fields", None),
        ("SELECT ts - ts AS d FROM m_1 AS a", "INTERVAL", None),
        ("SELECT NULL AS v FROM m_1 AS a", "VOID", None),
        ("SELECT src COLLATE UTF8_LCASE AS v FROM m_1 AS a", "COLLATE", None),
        ("SELECT src, rand() FROM m_1 AS a", "rand cannot stand in a view", (1, 13)),
        ("SELECT * FROM m_1 AS a WHERE ts < current_timestamp()", "current_timestamp", (1, 35)),
        ("SELECT * FROM m_1 AS a WHERE ts < now()", "now", (1, 35)),
        ("SELECT * FROM m_1 AS a WHERE date(ts) = current_date", "current_date", (1, 41)),
        ("SELECT unix_timestamp() FROM m_1 AS a", "unix_timestamp cannot stand in a view", (1, 8)),
        ("SELECT Random() FROM m_1 AS a", "random cannot stand in a view", (1, 8)),
        ("SELECT uuid() FROM m_1 AS a", "uuid", (1, 8)),
        ("SELECT monotonically_increasing_id() FROM m_1 AS a", "row_number", (1, 8)),
        ("SELECT src FROM m_1 AS a WHERE loss > (SELECT max(rtt) * rand() FROM n_1 AS b)", "rand", (1, 58)),
        ("SELECT TIMESTAMP 'now' FROM m_1 AS a", "another one each time", (1, 8)),
        ("SELECT src, CAST(' Now ' AS TIMESTAMP) AS t FROM m_1 AS a", "another moment each time", (1, 13)),
        ("SELECT src, try_cast('today' AS DATE) AS t FROM m_1 AS a", "another moment each time", (1, 13)),
        ("SELECT src, 'now'::TIMESTAMP_NTZ AS t FROM m_1 AS a", "another moment each time", None),
        ("SELECT src, date('yesterday') AS t FROM m_1 AS a", "another moment each time", (1, 13)),
        ("SELECT src FROM m_1 AS a WHERE ts < 'tomorrow'", "another moment each time", None),
        ("SELECT src, CAST(concat('n', 'ow') AS TIMESTAMP) AS t FROM m_1 AS a", "another moment each time", (1, 13)),
        ("SELECT src, to_date('today') AS t FROM m_1 AS a", "another moment each time", (1, 13)),
        ("SELECT src, try_to_timestamp('now') AS t FROM m_1 AS a", "another moment each time", (1, 13)),
        ("SELECT first(src) FROM m_1 AS a", "min_by", (1, 8)),
        ("SELECT array_join(collect_list(src), ',') FROM m_1 AS a", "sort_array", (1, 19)),
        ("SELECT src FROM m_1 AS a LIMIT 5", "ORDER BY", (1, 26)),
        ("SELECT src FROM m_1 TABLESAMPLE (10 PERCENT) AS a", "another one each time", (1, 21)),
        ("SELECT reflect('java.util.UUID', 'randomUUID') FROM m_1 AS a", "Java method", (1, 8)),
        ("SELECT src FROM secret", "secret is no stream", (1, 17)),
        ("SELECT src FROM m_1 AS a WHERE src IN (SELECT s FROM secret)", "secret is no stream", (1, 54)),
        ("SELECT * FROM parquet.`/tmp/x`", "parquet./tmp/x is no stream", (1, 15)),
        ("SELECT * FROM global_temp.secret", "global_temp.secret is no stream", (1, 15)),
        ("SELECT * FROM IDENTIFIER('secret')", "secret is no stream", (1, 26)),
        ("DROP TABLE m_1", "expected a query", (1, 1)),
        ("WITH x AS (SELECT 1 AS a) INSERT INTO m_1 SELECT * FROM x", "INSERT", (1, 27)),
        ("SELECT 1; SELECT 2", "without a semicolon", (1, 9)),
        ("SELECT TRANSFORM(src) USING 'cat' AS (x) FROM m_1 AS a", "script", (1, 8)),
        ("", "expected a query", (1, 1)),
    ],
)  # fmt: skip
def test_a_wrong_query_is_refused_with_its_place(
    spark: SparkSession, analyst: SparkAnalyst, sql: str, message: str, place: tuple[int, int] | None
) -> None:
    """What cannot be a view's query is refused in one line that names what is wrong, and where."""
    spark.range(1).selectExpr("'a' AS src", "'b' AS s").createOrReplaceTempView("secret")
    spark.table("secret").createOrReplaceGlobalTempView("secret")
    with pytest.raises(DeclarationError) as refused:
        analyst.columns(sql, TABLES, timed=("m_1", "n_1"))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value) and "Project" not in str(refused.value)
    assert (refused.value.line, refused.value.column) == (place or (None, None))


@pytest.mark.spark
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT first(src) OVER (PARTITION BY loss ORDER BY ts) AS f FROM m_1 AS a",
        "SELECT array_join(sort_array(collect_list(src)), ',') AS l FROM m_1 AS a",
        "SELECT size(collect_set(src)) AS l FROM m_1 AS a",
        "SELECT listagg(src, ',') WITHIN GROUP (ORDER BY src) AS l FROM m_1 AS a",
        "SELECT src FROM m_1 AS a ORDER BY ts LIMIT 5",
        "SELECT src FROM VALUES ('x') AS v(src) JOIN dim USING (src)",
        "WITH secret AS (SELECT src FROM m_1 AS a) SELECT * FROM secret",
        "SELECT src FROM m_1 AS a LATERAL VIEW explode(array(1, 2)) e AS x WHERE x > 1",
        "SELECT 'now' AS n, src FROM m_1 AS a -- the end",
        "SELECT CAST('2015-01-01' AS DATE) AS d, to_timestamp(src) AS t FROM m_1 AS a WHERE ts > '2015-01-01'",
        "SELECT to_date('01/02/2015', 'dd/MM/yyyy') AS d, CAST(CAST(NULL AS STRING) AS DATE) AS n FROM m_1 AS a",
    ],
)
def test_what_has_the_same_answer_each_time_is_taken(analyst: SparkAnalyst, sql: str) -> None:
    """Functions that depend on an order are taken where the query gives one."""
    assert len(shown(analyst, sql)) >= 1


@pytest.mark.spark
def test_the_settings_of_the_users_session_stay(spark: SparkSession, analyst: SparkAnalyst) -> None:
    """An analysis leaves no views and no settings behind in the session that it was given."""
    before = {item.name for item in spark.catalog.listTables()}
    zone = spark.conf.get("spark.sql.session.timeZone")
    analyst.columns("SELECT * FROM m_1", TABLES, zone="Asia/Tokyo")
    assert {item.name for item in spark.catalog.listTables()} == before
    assert spark.conf.get("spark.sql.session.timeZone") == zone


def test_a_place_in_the_rewritten_query_is_found_in_the_text() -> None:
    """Whatever stands in both texts has the place in which it was typed."""
    text = "SELECT *,\n  PART_TIMESTAMP, a.*, loss\nFROM m AS a\nWHERE PART_TIMESTAMP > x"
    query = without_hidden(text, frozenset({"m"}))
    for word in ("loss", "FROM", "WHERE", "x"):
        line, column = query.place(query.sql.rindex(word))
        assert text.split("\n")[line - 1][column - 1 :].startswith(word)
