"""Names, types and nullability of outputs, and the values of constants, are Spark's: compared with Spark itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import product
from typing import TYPE_CHECKING

import pytest

from compiler_catalog import COLUMN_TYPES, EVERY_TYPE, catalog_of, query_of
from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Type,
)
from viewkeeper.compiler.conversion import can_be_stored
from viewkeeper.compiler.literals import convert
from viewkeeper.errors import DeclarationError
from viewkeeper.plans.expressions import Literal
from viewkeeper.plans.relations import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CATALOG = catalog_of(EVERY_TYPE + "CREATE TABLE u (Uid INT PRIMARY KEY, k INT, v DECIMAL(15,2))")

CONSTANTS = [
    "1", "1.5", "1e2", "5L", "3S", "2Y", "2.5F", "2D", "0.001", "NULL", "'7'", "'1.5'", "'x'", "'2020-01-01'", "TRUE",
    "X'01'", "DATE '2020-01-01'", "TIMESTAMP '2020-01-01 10:00:00'", "TIMESTAMP_NTZ '2020-01-01 10:00:00'", "-3",
    "123456789012", "9999999999999999999", "12345.678BD",
]  # fmt: skip

SINGLE = [
    "-{0}", "- {0}", "NOT {0}", "{0} IS NULL", "{0} IS NOT NULL", "NOT {0} IS NULL", "coalesce({0})", "({0})",
    "CASE WHEN {0} THEN 1 END", "CASE WHEN bo THEN {0} END", "CASE WHEN bo THEN {0} ELSE NULL END",
    "{0} IN (NULL)", "NOT (NOT {0})", "-(-{0})", "{0} = {0} AND n_bo", "t.{0}", "NOT NOT {0}",
]  # fmt: skip

PAIRS = [
    "{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / {1}", "{0} % {1}", "{0} = {1}", "{0} <> {1}", "{0} < {1}",
    "{0} <=> {1}",
    "{0} IN ({1}, {0})", "{0} BETWEEN {1} AND {0}", "coalesce({0}, {1})", "CASE WHEN bo THEN {0} ELSE {1} END",
    "CASE {0} WHEN {1} THEN 1 END",
    "{0} AND {1}", "{0} OR {1}",
]  # fmt: skip

AGGREGATES = ["count({0})", "sum({0})", "avg({0})", "min({0})", "max({0})", "sum({0}) + 1", "-avg({0})",
              "coalesce(sum({0}), 0)", "CASE WHEN count(*) > 2 THEN max({0}) END", "sum({0}) - sum(n_i)",
              "sum({0} * 2)"]  # fmt: skip

SPELLINGS = [
    "0.0000001", "0.000001", "0.000000000", "1.5e-10BD", "-0.00000012", "0.0000001 < d", "1e20BD",
    "i < 2.5", "2.5 >= i", "bi > (-1.5)", "i + 1 <= 0.5", "NOT true IS NULL", "(i = NULL) IS NOT NULL", "! bo = true",
    "bo = (i < 2.5)", "(i IN (1)) = bo", "bo <> bo = bo",
    "5", "-5", "- 5", "-(5)", "- -5", "1 - 5", "1-5", "1 - -5", "1-(-5)", "i - (2 - 1)", "(i + 1) * 2", "i+sm*2-3",
    "- i * 2", "-5 * i", "i*-1L", "-2147483648", "2147483648", "9223372036854775808", "-9223372036854775808",
    "-9223372036854775808L", "-128Y", "-32768S", "1.", ".5", "1.50", "000.10", "0.0", "0", "00012", "1e3", "1e-10",
    "1.5e20",
    "1e5BD", "1.5e3BD", "1e-3BD", "100BD", "1.25F", "0.1F", "1e-7F", "16777217F", "3.4e38F", "123456789.0D",
    "1e7D", "9999999D", "0.001D", "0.0001D", "-1.5", "-1e3", "-5L", "- 5S", ".5D", ".5BD", ".5F", "-.5", "-0.0D",
    "true", "FALSE", "NULL", "'abc'", "'it''s'", '"dq"', '"d""q"', "'a\\tb'", "'a\\\\b'", "'a\\u0041'", "'a\\101'",
    "'\\uD83D\\uDE00'", "'\\uD83D' '\\uDE00'", "'\\uD83D'", "'\\uDE00\\uD83D'", "'\\uD83D\\uD83D\\uDE00'",
    "'\\U0001F600'", "'\\U00110000'", "'a\\U00210000'", "'\\UFFFFFFFF'", "'\\177\\377\\400'",
    "'a\\%b\\_c'", "'a\\qb'", "'x' 'y'", "'x'  \n 'y' 'z'", "'it\\'s'", "r'a\\n'", "''", "'ü😀' ", "X'1f'", "X'F'",
    "DATE '2020-1-5'", "DATE '2020'", "TIMESTAMP '2020-01-01'", "TIMESTAMP '2020-01-01 10:00:00.120'",
    "timestamp '2020-01-01 00:00:00+02:00'", "TIMESTAMP '2020-01-01T10:00'",
    "TIMESTAMP '2020-01-01 10:00:00.123456789'",
    "TIMESTAMP '2020-06-01 10:00:00 Europe/Berlin'", "TIMESTAMP '2020-01-01 10:00:00Z'",
    "TIMESTAMP_NTZ '2020-01-01 01:00:00'", "timestamp_ntz '2020-1-1 1:2:3'",
    "i = 1", "i == 1", "i <> 1", "i != 1", "i <=> 1", "i NOT IN (1, 2)", "NOT i IN (1, 2)", "i NOT BETWEEN 1 AND 2",
    "i in (1)", "st in ('a', 'b')", "bo AND i = 1 AND sm = 2 AND ti = 3", "bo OR i=1 OR n_bo", "(bo OR n_bo) OR bo",
    "bo AND n_bo OR bo", "bo and n_bo and bo and n_bo and bo", "bo or n_bo or bo or bo or n_bo or bo or bo",
    "NOT (i IS NOT NULL)", "NOT i IS NOT NULL", "CASE i WHEN 1 THEN 'x' ELSE 'y' END",
    "CASE WHEN i = 1 THEN 1 WHEN i = 2 THEN 2L ELSE 3.5 END", "case i when 1L then 'a' when 2 then null end",
    "CASE WHEN TRUE THEN NULL END", "I", "t.I", "`i`", "(i)", "i AS x", "i x", "i `a b`", "(i < 2) = (bi > 2)",
    "i < 2 = true", "i IN (1, 2.5, 3L)", "i IN ('1', 2)", "p IN (1, 2.555)", "p*p", "q*q", "z*z", "p+q", "z+q", "p*q",
    "p*-2", "p + -1", "p*(1-p)", "1 + '15'", "COALESCE(n_i, n_bi, 0)", "coalesce(n_st, 'none')", "n_i + 1 + n_bi * 2",
    "i + NULL", "p + NULL", "NULL * p", "NULL + NULL", "-NULL", "NULL = NULL", "NULL IS NULL", "NOT NULL",
    "NULL AND TRUE", "1 IN (NULL)", "coalesce(NULL, NULL)", "coalesce(NULL, p)", "DATE '2020-01-01' = da",
    "n_i is null",
    "1 / 2", "i / 2", "p / 3", "3 / p", "i % 2", "-i % 3", "- i / 2", "i % -2", "p % 2.5", "NULL / 2", "NULL % 2",
    "1 / NULL", "NULL / 2.5", "NULL % 2.5", "NULL / NULL", "NULL % NULL", "'6' / 2", "'7' % 3", "'6' / p", "'6' % d",
    "i / p * 2 % 3", "f % 1F", "f / 2", "f / f", "p / q / z", "(i + 1) / (i - 1)", "i / 2 = 1.5", "p % q < i / 3L",
    "CAST(st AS VARCHAR(1))", "cast(12345 as char(3))", "TRY_CAST(i AS VARCHAR(2))", "st::varchar(1)", "i::char(1)",
    "upper(cast(st AS CHAR(9)))",
    "i/*c*/+1", "i -- c\n + 1",
    "upper(st)", "UPPER( st )", "upper('x')", "length(st)", "Length(X'01')", "abs(-i)", "abs(p) + abs(-1.5)",
    "year(da)", "year(DATE '2020-01-01')", "YEAR(ts) + 1", "substring(st, 1, 2)", "substring(st, -2)",
    "substring(upper(st), sm, length(st) - 1)", "substring((st), (1))", "coalesce(upper(n_st), 'x')", "-abs(d)",
]  # fmt: skip

TEXTS = [
    "5", " 5 ", "+5", "-5", "5.0", "", "x", "9223372036854775808", "1.5", "1e3", ".5", "5.", "NaN", "1_0", "2020",
    "2020-1",
    "2020-01-05", "2020-1-5 ", "2020-01-05 10:11", "2020-01-05T10:11:12.5", "2020-02-30", "2020-01-05 24:00:00",
    "20200105",
    "2020-01-05 10:00:00+01:00", "2020-01-05 10:00:00 UTC", "2020-01-05 10:00:00 America/New_York", "2020-01-05x",
    "2020-01-05 x", "true", "T", " yes ", "0", "on", "NO",
]  # fmt: skip

QUERIES = [
    "SELECT * FROM u", "SELECT u.*, 1 FROM u", "SELECT UID FROM u", "SELECT x.uid FROM u x",
    "SELECT u.UID AS a, k b FROM u",
    "SELECT * FROM t JOIN u ON t.i = u.uid", "SELECT b.* FROM u a JOIN u b ON a.k = b.k AND a.v > b.v",
    "SELECT i FROM t, u WHERE i = uid", "SELECT i AS x, count(*) FROM t GROUP BY x",
    "SELECT i+1, count(*) FROM t GROUP BY 1",
    "SELECT i+1 AS x, count(*) c FROM t GROUP BY 1 HAVING x > 1 AND c > 2 AND sum(bi) > 1",
    "SELECT i+1+2, count(*) FROM t GROUP BY i+1", "SELECT t.i, I FROM t GROUP BY i", "SELECT i FROM t GROUP BY i, 'x'",
    "SELECT 'x', 1, count(*) FROM t",
    "SELECT count(1), count(*), count(NULL), count(i+1), count('x'), count(true) FROM t",
    "SELECT a.* FROM (SELECT i, i+1 FROM t) a", "SELECT `(i + 1)` FROM (SELECT i, i+1 FROM t)",
    "SELECT x, y FROM (SELECT i, bi FROM t) AS a(x, y)",
    "SELECT * FROM (SELECT k, sum(v) s FROM u GROUP BY k) WHERE s > 1",
    "SELECT sum(k) AS k FROM u HAVING k > 1", "SELECT sum(k) AS k FROM u GROUP BY k HAVING k > 1",
    "SELECT u.k, sum(v) FROM u GROUP BY K ORDER BY sum(uid), count(*)", "SELECT k AS x FROM u ORDER BY -x, k, 1",
    "SELECT k FROM u ORDER BY v LIMIT 2 OFFSET 1",
    "SELECT sum(t.n_p), sum(T.I + 1), COUNT(u.k) FROM t JOIN u ON uid = i",
    "SELECT SUM(v), Count( * ), avg(k) FROM u",
    "SELECT k, k + 1 AS l, l2 FROM (SELECT k, k AS l2 FROM u) GROUP BY k, l2",
    "SELECT k + 1, -(k + 1), (k + 1) * 2 FROM u GROUP BY k + 1", "SELECT max(k) FROM u GROUP BY v, k",
    "SELECT k FROM u GROUP BY k HAVING count(*) > 1 AND min(v) IS NOT NULL", "SELECT 1 AS one FROM u",
    "SELECT a.k FROM u a JOIN u b ON a.uid = b.uid JOIN u c ON b.k = c.k", "SELECT (sum(k)), count(*) `n n` FROM u",
    "SELECT c.k FROM u a, u b, u c WHERE a.uid = c.uid AND c.k = b.k",
    "SELECT DISTINCT k, v + 1 FROM u", "SELECT DISTINCT k FROM u ORDER BY k DESC LIMIT 3",
    "SELECT DISTINCT sum(v) FROM u GROUP BY k", "SELECT count(*) FROM (SELECT DISTINCT k FROM u)",
    *(f"SELECT * FROM u a {join} u b ON a.uid = b.k AND a.v > b.v" for join in (
        "LEFT JOIN", "LEFT OUTER JOIN", "RIGHT JOIN", "FULL JOIN", "FULL OUTER JOIN", "LEFT SEMI JOIN", "SEMI JOIN",
        "LEFT ANTI JOIN", "ANTI JOIN")),
    "SELECT a.uid, b.uid + 1, c.uid FROM u a LEFT JOIN u b ON a.k = b.k FULL JOIN u c ON c.uid = b.uid WHERE b.v > 1",
    "SELECT a.uid, d.uid FROM u a SEMI JOIN u b ON a.k = b.k JOIN u d ON a.uid = d.uid RIGHT JOIN u c ON c.uid = d.k",
    "SELECT b.uid, count(a.k) FROM u a RIGHT JOIN u b ON a.uid = b.uid GROUP BY b.uid HAVING count(a.k) > 1",
    "SELECT s.n FROM u LEFT JOIN (SELECT k, count(*) AS n FROM u GROUP BY k) s ON u.k = s.k",
    "WITH w AS (SELECT k, v FROM u) SELECT * FROM w", "WITH w(a, b) AS (SELECT k, v FROM u), u AS (SELECT a FROM w) "
    "SELECT u.*, w.b FROM u JOIN w ON u.a = w.a", "SELECT * FROM (WITH w AS (SELECT k FROM u) SELECT k AS l FROM w)",
    *(f"SELECT {a} FROM t {op} SELECT {b} FROM t" for op in ("UNION ALL", "INTERSECT", "EXCEPT") for a, b in (
        ("i, n_i", "bi, i"), ("p", "i"), ("n_p", "q"), ("f", "d"), ("i", "n_d"), ("da", "n_ts"), ("nt", "da"),
        ("i", "NULL"), ("ti", "sm"), ("p AS one", "1.5"), ("st", "n_st"))),
    "SELECT k FROM u UNION SELECT uid FROM u", "SELECT uid FROM u UNION DISTINCT SELECT k FROM u",
    "SELECT k FROM u MINUS SELECT 1", "SELECT k FROM u UNION SELECT k FROM u INTERSECT ALL SELECT 1L",
    "(SELECT k FROM u) EXCEPT ALL (SELECT v FROM u UNION ALL VALUES (1)) ORDER BY k DESC LIMIT 2",
    "SELECT uid FROM u UNION ALL SELECT 1 ORDER BY 1", "VALUES (1, 'a'), (2.5, NULL)", "SELECT * FROM VALUES 1, 2L",
    "SELECT v.* FROM (VALUES (1, NULL), (NULL, 2)) AS v(a, b)", "SELECT 1, 'x' AS y", "SELECT count(*), 1 + 1",
    "SELECT * FROM u a JOIN u b USING (k)", "SELECT * FROM u a LEFT JOIN u b USING (k, v)",
    "SELECT * FROM u a RIGHT JOIN u b USING (V, k)", "SELECT * FROM u a FULL JOIN u b USING (uid)",
    "SELECT * FROM u a SEMI JOIN u b USING (k)", "SELECT * FROM u NATURAL JOIN (SELECT k, v + 1 AS w FROM u)",
    "SELECT k, a.k, b.k FROM u a FULL JOIN u b USING (k) JOIN u c USING (k)",
    "SELECT a.*, b.* FROM u a JOIN u b USING (k)",
    "SELECT * FROM t CROSS JOIN u", "SELECT * FROM u a, u b LEFT JOIN u c ON a.k = c.k", "SELECT * FROM u a JOIN u b",
    "SELECT * FROM u a LEFT JOIN u b ON a.k < b.k", "SELECT k AS l, l + 1 AS m, m * 2 AS n FROM u",
    "SELECT sum(k) AS s, s + 1 AS t, v FROM u GROUP BY v", "SELECT k, v, sum(uid) FROM u GROUP BY ALL",
    "SELECT (SELECT max(k) FROM u), uid IN (SELECT uid FROM u), uid NOT IN (SELECT uid FROM u), (SELECT 1) + 1 FROM u",
    "SELECT EXISTS (SELECT * FROM u), NOT EXISTS (SELECT k FROM u b WHERE b.v > 1), sum((SELECT 1)) FROM u GROUP "
    "BY ALL",
    "SELECT (SELECT sum(v) FROM u b WHERE b.uid = u.k) AS s FROM u WHERE (k, v) IN (SELECT k, v FROM u)",
    "SELECT k FROM u WHERE k > (SELECT max(uid) FROM u b WHERE b.k = u.k) AND EXISTS (SELECT * FROM t WHERE p = u.v)",
    "SELECT uid IN (SELECT 1.5) AS x, uid IN (SELECT 2L) AS y, uid NOT IN (SELECT 1) AS z FROM u",
    "SELECT k, sum(v) FROM u GROUP BY k HAVING k IN (SELECT uid FROM u) AND max(v) > (SELECT avg(v) FROM u b "
    "WHERE b.k = u.k)",
    "SELECT a.k FROM u a JOIN u b ON a.k = b.k AND EXISTS (SELECT * FROM u c WHERE c.k = b.k) AND a.v IN (SELECT 1)",
    "SELECT k FROM u WHERE EXISTS (WITH w AS (SELECT k FROM u b WHERE b.uid = u.uid) SELECT * FROM w)",
    "SELECT k FROM u WHERE EXISTS (SELECT * FROM (SELECT k FROM u b WHERE b.uid = u.uid) w)",
    "SELECT 1 AS x FROM u HAVING true", "SELECT k + 1 AS k, k FROM u", "SELECT sum(v) FROM u GROUP BY ALL",
]  # fmt: skip

REFUSED_BY_SPARK_TOO = [
    "SELECT k FROM u a, u b WHERE a.k = b.k", "SELECT nope FROM u", "SELECT x.k FROM u", "SELECT u.k FROM u x",
    "SELECT sum(sum(k)) FROM u", "SELECT k FROM u WHERE sum(k) > 1", "SELECT k, sum(v) FROM u",
    "SELECT k FROM u GROUP BY sum(k)", "SELECT k c FROM u GROUP BY 3", "SELECT * FROM u GROUP BY k",
    "SELECT k FROM u HAVING k > 1", "SELECT k FROM u UNION SELECT k, v FROM u", "SELECT k FROM u UNION SELECT true",
    "SELECT * FROM VALUES (1), (2, 3)", "SELECT k FROM u WHERE k > (SELECT max(k), 1 FROM u)",
    "SELECT k AS a, (SELECT max(b.k) FROM u b WHERE b.uid = a) AS m FROM u",
    "SELECT k, (SELECT max(b.v) FROM u b WHERE b.k = u.k) AS m FROM u GROUP BY k",
    "SELECT a.k FROM u a JOIN u b ON a.k = b.k AND a.v = (SELECT max(v) FROM u c WHERE c.k = b.k)",
    "WITH a AS (SELECT 1), a AS (SELECT 2) SELECT * FROM a",
    "SELECT m AS l, k AS m FROM u",
    "SELECT * FROM u a JOIN u b USING (nope)", "SELECT k FROM u a FULL JOIN u b USING (uid)", "SELECT * FROM nope, u",
    "WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a", "SELECT k AS x, v AS x, x FROM u",
    "SELECT k + v FROM u GROUP BY ALL HAVING max(uid) > uid", "SELECT k FROM u ORDER BY 2",
    "SELECT k x, v x FROM u ORDER BY x",
    "SELECT k FROM u WHERE k", "SELECT k FROM u WHERE NULL", "SELECT k FROM u WHERE 'true'", "SELECT nope.* FROM u",
    "SELECT k FROM nope", "SELECT count(u.*) FROM u", "SELECT sum(*) FROM u", "SELECT k FROM u LIMIT -1",
    "SELECT k FROM u LIMIT 'x'", "SELECT 1e400 FROM u", "SELECT 300Y FROM u", "SELECT 9223372036854775808L FROM u",
    "SELECT 123456789012345678901234567890123456789 FROM u", "SELECT DATE '2020-13-01' FROM u",
    "SELECT DATE '2020-01-01x' FROM u", "SELECT TIMESTAMP '2020-01-01 25:00:00' FROM u", "SELECT '1' + '2' FROM u",
    "SELECT k = true FROM u", "SELECT k FROM u GROUP BY k HAVING v > 1", "SELECT v AS k, count(*) FROM u GROUP BY k",
    "SELECT k+1, count(*) FROM u GROUP BY 1 HAVING x > 1", "SELECT CASE WHEN NULL THEN 1 END FROM u", "SELECT k FROM",
    "SELECT coalesce() FROM u", "SELECT k IN () FROM u",
    "SELECT x FROM (SELECT k FROM u) AS a(x, y)", "SELECT DISTINCT k FROM u ORDER BY v",
    "SELECT b.k FROM u a SEMI JOIN u b ON a.k = b.k", "SELECT a.k FROM u a RIGHT ANTI JOIN u b ON a.k = b.k",
    "SELECT a.k FROM u a OUTER JOIN u b ON a.k = b.k", "SELECT DISTINCT FROM u", "SELECT DISTINCT DISTINCT k FROM u",
    "SELECT a.k FROM u a LEFT INNER JOIN u b ON a.k = b.k",
    "SELECT a.k FROM u a SEMI JOIN u b ON a.k = b.k JOIN u c ON b.k = c.k",
]  # fmt: skip


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    for table in CATALOG.tables:
        schema = ", ".join(f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in table.columns)
        spark.createDataFrame([], schema).createOrReplaceTempView(table.name)
    yield spark
    for table in CATALOG.tables:
        spark.catalog.dropTempView(table.name)


def spark_type(type_: Type) -> str:
    return str(type_).lower()


def ours(sql: str) -> list[tuple[str, str, bool]] | str:
    """Name, type and nullability of each output; the reason where the query is refused."""
    try:
        query = query_of(CATALOG, sql)
    except DeclarationError as refused:
        return str(refused)
    columns = query.relation.columns[: query.visible]
    return [(column.name, spark_type(column.type), column.nullable) for column in columns]


def sparks(session: SparkSession, sql: str) -> list[tuple[str, str, bool]] | str:
    from pyspark.errors import PySparkException

    try:
        fields = session.sql(sql).schema
    except PySparkException as refused:
        return str(refused).splitlines()[0]
    return [(field.name, field.dataType.simpleString(), field.nullable) for field in fields]


def differences(our: list[tuple[str, str, bool]] | str, their: list[tuple[str, str, bool]] | str) -> list[object]:
    """What we admit and Spark sees otherwise: name and type must be the same, and never NULL here never NULL there."""
    if isinstance(our, str):
        return []
    if isinstance(their, str):
        return [(our, their)]
    return [(o, t) for o, t in zip(our, their, strict=True) if o[:2] != t[:2] or (t[2] and not o[2])]


def compare_all(session: SparkSession, expressions: list[str]) -> int:
    """Compares those of `expressions` over `t` that we admit, many in one query; returns their number."""
    admitted = [(e, o) for e in expressions if not isinstance(o := ours(f"SELECT {e} FROM t"), str)]
    wrong = []
    for start in range(0, len(admitted), 200):
        part = admitted[start : start + 200]
        their = sparks(session, f"SELECT {', '.join(e for e, _ in part)} FROM t")
        for i, (expression, our) in enumerate(part):
            alone = sparks(session, f"SELECT {expression} FROM t") if isinstance(their, str) else their[i : i + 1]
            wrong += [(expression, *each) for each in [differences(our, alone)] if each]
    assert not wrong
    return len(admitted)


def operands() -> Iterator[str]:
    for name in COLUMN_TYPES:
        yield name
        yield f"n_{name}"


def test_every_operator_over_two_columns_has_sparks_name_type_and_nullability(session: SparkSession) -> None:
    pairs = product(COLUMN_TYPES, (f"n_{name}" for name in COLUMN_TYPES))
    assert compare_all(session, [shape.format(*pair) for pair in pairs for shape in PAIRS]) > 1000


def test_every_operator_over_a_column_and_a_constant_has_sparks_name_type_and_nullability(
    session: SparkSession,
) -> None:
    expressions = [
        shape.format(*pair)
        for shapes, pairs in ((PAIRS, product(COLUMN_TYPES, CONSTANTS)), (PAIRS[:6], product(CONSTANTS, COLUMN_TYPES)))
        for pair, shape in product(pairs, shapes)
    ]
    assert compare_all(session, expressions) > 2000


def test_every_operator_over_one_value_has_sparks_name_type_and_nullability(session: SparkSession) -> None:
    assert compare_all(session, [shape.format(name) for name in operands() for shape in SINGLE]) > 300


def test_every_aggregate_has_sparks_name_type_and_nullability(session: SparkSession) -> None:
    assert compare_all(session, [shape.format(name) for name in operands() for shape in AGGREGATES]) > 200


def test_every_way_to_write_an_expression_is_admitted_and_named_as_in_spark(session: SparkSession) -> None:
    refused = {text: reason for text in SPELLINGS if isinstance(reason := ours(f"SELECT {text} FROM t"), str)}
    assert not refused
    assert compare_all(session, SPELLINGS) == len(SPELLINGS)


@pytest.mark.parametrize("sql", QUERIES)
def test_every_shape_of_query_is_admitted_and_has_sparks_outputs(session: SparkSession, sql: str) -> None:
    our = ours(sql)
    assert not isinstance(our, str), our
    assert not differences(our, sparks(session, sql))


@pytest.mark.parametrize("sql", REFUSED_BY_SPARK_TOO)
def test_what_spark_refuses_is_refused(session: SparkSession, sql: str) -> None:
    assert isinstance(sparks(session, sql), str)
    assert isinstance(ours(sql), str)


def test_constants_have_the_values_that_spark_gives_them(session: SparkSession) -> None:
    constants = {}
    for text in SPELLINGS:
        relation = query_of(CATALOG, f"SELECT {text} FROM t").relation
        assert isinstance(relation, Project)
        if isinstance(relation.outputs[0], Literal):
            constants[text] = relation.outputs[0].value
    assert len(constants) > 70
    row = session.sql(f"SELECT {', '.join(constants)}").collect()[0]
    for (text, our), their in zip(constants.items(), row, strict=True):
        if isinstance(our, datetime) and our.tzinfo:
            our = our.astimezone().replace(tzinfo=None)  # PySpark answers in the machine's zone
        assert (our, type(our)) == (their, bytes if isinstance(their, bytearray) else type(their)), text


@pytest.mark.parametrize("type_", [BIGINT, DOUBLE, BOOLEAN, DATE, TIMESTAMP, TIMESTAMP_NTZ, BINARY], ids=str)
def test_a_text_becomes_what_spark_makes_of_it_or_is_refused(session: SparkSession, type_: Type) -> None:
    row = session.sql("SELECT " + ", ".join(f"try_cast('{text}' AS {type_})" for text in TEXTS)).collect()[0]
    converted = 0
    for text, their in zip(TEXTS, row, strict=True):
        try:
            our = convert(text, STRING, type_, "UTC")
        except ValueError:
            continue
        if isinstance(our, datetime) and our.tzinfo:
            our = our.astimezone().replace(tzinfo=None)
        assert our == their, text
        converted += 1
    assert converted >= 4


def test_what_a_column_of_a_table_takes_is_sparks_ansi_store_assignment(spark: SparkSession) -> None:
    """Of all pairs of types; the rest of INSERT, UPDATE and MERGE is CAST."""
    jvm = spark._jvm
    assert jvm is not None
    types = [column.type for table in CATALOG.tables if table.name == "t" for column in table.columns[1::2]]
    assert len(types) == len(COLUMN_TYPES)
    of_spark = {type_: jvm.org.apache.spark.sql.types.DataType.fromDDL(str(type_)) for type_ in types}
    takes = jvm.org.apache.spark.sql.catalyst.expressions.Cast.canANSIStoreAssign
    for source, target in product(types, types):
        assert can_be_stored(source, target) == takes(of_spark[source], of_spark[target]), (source, target)
