"""CHAR(n) of tables: filled up with blanks, and compared so where Spark does, whichever way a text comes in and whoever
reads the query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner

import viewkeeper
from local_maintenance import catch_up
from viewkeeper import Database, DeclarationError, InputError
from viewkeeper.catalog.text_lengths import fitted, fitted_one
from viewkeeper.catalog.types import Type
from viewkeeper.cli import cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHAR3 = Type("CHAR", 3)
TEXTS = ["", " ", "ab", "abc", "ab ", "abc  ", "abcd", "a    ", "     ", "abc d", "ab\t", "é", "é\U0001f600é ",
         "ab\u00a0", "é\U0001f600éé"]  # fmt: skip

ROWS = [(1, "ab", "ab", "ab", "ab"), (2, "ab  ", "abc", "ab ", "ab   "), (3, "abc", "ab", None, "abc"),
        (4, None, "b", "b", "b"), (5, "", "", "", ""), (6, "b", None, "ab", "ab"), (7, "é", "é", "é", "é")]  # fmt: skip
"""Of a table (k INT, c CHAR(5), d CHAR(3), v VARCHAR(3), s STRING)."""

VALUES = [
    "c = 'ab'", "'ab' = c", "c < 'ab '", "c >= 'ab'", "c <> 'ab'", "NOT c = 'ab'", "c <=> 'ab'", "c IN ('ab', 'x')",
    "c NOT IN ('ab', 'abcdefg')", "c IN ('ab', NULL)", "c IN ('ab', CAST(NULL AS STRING))", "c IN ('ab', s)",
    "c IN (d)",
    "c IN (d, 'ab')", "d IN (c, d)", "c = d", "c < d", "c <=> d", "c = s", "c = v", "d = v", "(c) = ('ab')",
    "c IS DISTINCT FROM 'ab'", "c IS DISTINCT FROM d", "c BETWEEN 'ab' AND 'b'", "c NOT BETWEEN 'ab' AND 'ab  '",
    "CASE c WHEN 'ab' THEN 1 WHEN d THEN 2 ELSE 3 END", "coalesce(c, 'x') = 'ab'", "nullif(c, 'ab')", "c = 'ab     z'",
    "c = 'ab     '", "c = concat('a', 'b')", "c = 'a' || 'b'", "c = upper('ab')", "c = CAST('ab' AS STRING)",
    "c = CASE WHEN true THEN 'ab' END", "c LIKE 'ab'", "if(c = 'ab', c, d)", "length(c)", "c || '|'", "c = ''",
    "d = 'ab' OR c IS NULL", "c = :p", "c IN (:p)", "c = (SELECT 'ab')", "CAST(c AS STRING) = 'ab'", "upper(c) = 'AB'",
    "c = NULL", "equal_null(c, 'ab')", "decode(c, 'ab', 1, 0)", "struct(c) = struct('ab')", "array(c) = array('ab')",
    "format_string('%s|', if(c = 'ab', c, d))", "greatest(c, 'ab')",
]  # fmt: skip

QUERIES = [
    "SELECT * FROM (SELECT c FROM t UNION ALL SELECT s FROM t) WHERE c = 'ab'",
    "SELECT * FROM (SELECT s AS c FROM t UNION ALL SELECT c FROM t) WHERE c = 'ab'",
    "SELECT * FROM (SELECT d FROM t UNION SELECT c FROM t) WHERE d = 'ab'",
    "SELECT c FROM t INTERSECT SELECT d FROM t", "SELECT c FROM t EXCEPT SELECT d FROM t",
    "SELECT * FROM (SELECT c FROM t INTERSECT SELECT s FROM t) WHERE c = 'ab'",
    "SELECT x.k, y.k AS j FROM t x JOIN (SELECT k, d AS c FROM t) y USING (c)",
    "SELECT * FROM (SELECT c FROM t) FULL JOIN (SELECT d AS c FROM t) USING (c)",
    "SELECT c, n FROM (SELECT c FROM t) NATURAL JOIN (SELECT d AS c, k AS n FROM t)",
    "SELECT x.k, y.k AS j FROM t x LEFT JOIN t y ON x.c = y.d AND y.v = 'ab'",
    "SELECT c FROM (SELECT DISTINCT c FROM t) WHERE c = 'ab'",
    "SELECT c, count(*) AS n FROM t GROUP BY c HAVING c = 'ab'",
    "SELECT c AS e FROM t GROUP BY c HAVING e = 'ab'", "SELECT m FROM (SELECT max(c) AS m FROM t) WHERE m = 'ab'",
    "WITH q AS (SELECT c AS e FROM t) SELECT * FROM q WHERE e = 'ab'",
    "SELECT c, d, count(*) AS n FROM t GROUP BY ROLLUP (c, d) HAVING c = 'ab'",
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM t z WHERE z.d = t.c AND z.k <> t.k)",
    "SELECT k FROM t WHERE c IN (SELECT d FROM t)",
    "SELECT k FROM t WHERE (c, k) IN (SELECT c, k FROM t WHERE d = 'ab')",
    "SELECT k, (SELECT max(z.k) FROM t z WHERE z.d = t.c) AS m FROM t",
    "SELECT * FROM (SELECT c, row_number() OVER (PARTITION BY c ORDER BY k) AS r FROM t) WHERE c = 'ab'",
    "SELECT k, lag(c) OVER (ORDER BY k) = 'ab' AS b FROM t",
    "SELECT * FROM (SELECT k, c FROM t ORDER BY k LIMIT 2) WHERE c = 'ab'",
    "SELECT x FROM t LATERAL VIEW explode(array(c)) AS x WHERE x = 'ab' OR c = 'b'",
    "SELECT count(c) FILTER (WHERE c = 'ab') AS n, max(c) = 'ab' AS m FROM t", "SELECT k FROM t ORDER BY c = 'ab', k",
    "SELECT * FROM (SELECT y.c FROM t x LEFT JOIN t y ON x.k = y.k + 1) WHERE c = 'ab'",
    "SELECT z.q, k FROM (VALUES ('ab')) AS z(q) JOIN t ON z.q = c", "SELECT k FROM t WHERE c = 'ab' AND k IN (1, 2)",
    "SELECT k, count(*) AS n FROM t GROUP BY k, c = 'ab'", "SELECT * FROM t PIVOT (count(k) FOR c IN ('ab' AS p))",
]  # fmt: skip


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.sql("""CREATE TABLE t (k CHAR(3) PRIMARY KEY, v CHAR(3) NOT NULL DEFAULT 'x');
                        CREATE TABLE texts (s STRING); CREATE VIEW by_key AS SELECT k, v, v = 'ab' AS b FROM t;
                        CREATE VIEW above AS SELECT k FROM by_key WHERE k = 'ab'""")
        yield database


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path_factory.mktemp("read") / "db", durability="process") as database:
        database.sql("CREATE TABLE t (k INT PRIMARY KEY, c CHAR(5), d CHAR(3), v VARCHAR(3), s STRING)")
        database.table("t").put_many([dict(zip("kcdvs", row, strict=True)) for row in ROWS])
        catch_up(database)
        yield database


@pytest.fixture(scope="module")
def chars(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose table `t` is Spark's own, with CHAR columns."""
    session = spark.newSession()
    session.sql("CREATE TABLE chars (k INT, c CHAR(5), d CHAR(3), v VARCHAR(3), s STRING) USING parquet")
    try:
        session.createDataFrame(ROWS, "k INT, c STRING, d STRING, v STRING, s STRING").write.insertInto("chars")
        session.table("chars").createOrReplaceTempView("t")
        yield session
    finally:
        session.sql("DROP TABLE chars")


def test_one_text_and_many_are_fitted_alike() -> None:
    kept, too_long = fitted(pa.array([*TEXTS, None], pa.large_string()), CHAR3)
    assert [None if bad else text for text, bad in zip(kept.to_pylist(), too_long, strict=True)] == [
        *(fitted_one(text, CHAR3) for text in TEXTS), None]  # fmt: skip


@pytest.mark.spark
def test_spark_fills_up_and_refuses_alike(spark: SparkSession) -> None:
    kept = {i: fitted_one(text, CHAR3) for i, text in enumerate(TEXTS)}
    spark.sql("CREATE TABLE as_char (i INT, v CHAR(3)) USING parquet")
    try:
        for i, text in enumerate(TEXTS):
            rows = spark.createDataFrame([(i, text)], "i INT, v STRING")
            if kept[i] is None:
                with pytest.raises(Exception, match="EXCEED_LIMIT_LENGTH"):
                    rows.write.insertInto("as_char")
            else:
                rows.write.insertInto("as_char")
        found = {row.i: row.v for row in spark.table("as_char").collect()}
    finally:
        spark.sql("DROP TABLE as_char")
    assert found == {i: text for i, text in kept.items() if text is not None}


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_filled_up_or_refused_whichever_way_it_comes(db: Database, text: str) -> None:
    t, kept = db.table("t"), fitted_one(text, CHAR3)
    db.table("texts").put({"s": text})
    ways = [
        lambda: t.put({"k": text, "v": text}),
        lambda: t.put_many([{"k": text, "v": text}]),
        lambda: t.put_many(pa.table({"k": [text], "v": [text]})),
        lambda: t.put_many(pd.DataFrame({"k": [text], "v": [text]})),
        lambda: db.sql("INSERT INTO t VALUES (:s, :s)", s=text),
        lambda: db.sql("INSERT INTO t SELECT s, s FROM texts"),
        lambda: db.sql("MERGE INTO t USING texts ON k = s WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s, s)"),
    ]
    for way in ways:
        if kept is None:
            with pytest.raises(InputError, match=r"CHAR\(3\)"):
                way()
            continue
        way()
        catch_up(db)
        assert list(db.sql("SELECT k, v FROM t")) == [{"k": kept, "v": kept}]
        assert t.get(text) == {"k": kept, "v": kept}
        assert list(db.view("by_key").rows()) == [{"k": kept, "v": kept, "b": kept == "ab "}]
        assert list(db.view("above").rows()) == [{"k": kept}] * (kept == "ab ")
        assert t.delete(text)


def test_conditions_of_statements_find_what_is_filled_up(db: Database) -> None:
    db.sql("INSERT INTO t VALUES ('a', 'b'), ('b', 'b')")
    assert db.sql("UPDATE t SET v = 'c' WHERE k = 'a'").affected == 1
    with pytest.raises(InputError, match=r"column v, which begins with 'b  ', is longer than CHAR\(3\)"):
        db.sql("UPDATE t SET v = concat(v, '!') WHERE k = 'b'")
    with pytest.raises(InputError, match="k = 'a  '"):
        db.sql("INSERT INTO t (k) VALUES ('a ')")
    assert db.sql("DELETE FROM t WHERE v = 'c   '").affected == 1
    assert db.sql("MERGE INTO t USING (SELECT 'b' AS x) ON k = x WHEN MATCHED THEN DELETE").affected == 0  # as in Spark
    assert db.sql("MERGE INTO t AS o USING t AS n ON o.k = n.v WHEN MATCHED THEN DELETE").affected == 1


def test_columns_are_added_and_described_with_their_length(db: Database) -> None:
    db.sql("INSERT INTO t (k) VALUES ('a'); ALTER TABLE t ADD COLUMN w CHAR(2) DEFAULT 'y'")
    catch_up(db)
    assert list(db.sql("SELECT v, w FROM t WHERE w = 'y'")) == [{"v": "x  ", "w": "y "}]
    for name in ("t", "by_key"):
        described = {row["col_name"]: row["data_type"] for row in db.sql(f"DESCRIBE {name}")}
        assert (described["k"], described["v"]) == ("char(3)", "char(3)")
    with pytest.raises(DeclarationError, match=r"the DEFAULT of w is longer than CHAR\(2\)"):
        db.sql("ALTER TABLE t ALTER COLUMN w SET DEFAULT 'xyz'")
    with pytest.raises(DeclarationError, match=r"CHAR\(0\): the length is at least 1"):
        db.sql("CREATE TABLE u (c CHAR(0))")
    db.close()
    with viewkeeper.connect(db.root) as again:
        with pytest.raises(InputError, match=r"column w CHAR\(2\): 'xyz' has 3 characters, more than CHAR\(2\)"):
            again.table("t").put({"k": "b", "w": "xyz"})
        assert list(again.sql("SELECT k FROM by_key WHERE k = 'a'")) == [{"k": "a  "}]


KEYED = """CREATE TABLE k (c CHAR(3), v VARCHAR(2), w INT, PRIMARY KEY (c, v)); CREATE INDEX ix ON k (c);
CREATE VIEW d AS SELECT c, count(*) AS n FROM k GROUP BY c; CREATE VIEW cv AS SELECT c, v, w FROM k;
CREATE INDEX by_v ON cv (v, c); CREATE VIEW above AS SELECT c, n FROM d WHERE c < 'b';
CREATE VIEW computed AS SELECT upper(c) AS u, count(*) AS n FROM k GROUP BY upper(c)"""


def test_keys_of_views_and_indexes_are_filled_up_as_those_of_tables(tmp_path: Path) -> None:
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql(KEYED)
        db.table("k").put_many([{"c": "ab", "v": "x", "w": 1}, {"c": "b", "v": "y", "w": 2}])
        catch_up(db)
        k, d, cv = db.table("k"), db.view("d"), db.view("cv")
        row = {"c": "ab ", "v": "x", "w": 1}
        for text in ("ab", "ab ", "ab   "):
            assert k.get((text, "x")) == row
            assert k.get(text, index="ix") == [row]
            assert cv.get((text, "x")) == row
            assert cv.get(("x", text), index="by_v") == [row]
            assert d.get(text) == db.view("above").get(text) == {"c": "ab ", "n": 1}
            assert [found["c"] for found in d.scan(text, "b")] == ["ab "]
            assert [found["c"] for found in cv.scan(upper=(text, "y"))] == ["ab "]
            with db.snapshot() as s:
                assert s.view("d").get(text) == {"c": "ab ", "n": 1}
        assert db.view("computed").get("AB") is None
        assert db.view("computed").get("AB ") == {"u": "AB ", "n": 1}
        assert d.get(None) is None
        assert [found["c"] for found in d.scan("aaaaa", "abzz")] == ["ab "]
        assert [found["v"] for found in cv.scan(("ab", "wwww"), ("ab", "xxxx"))] == ["x"]


def test_keys_that_are_too_long_are_refused_as_by_tables(tmp_path: Path) -> None:
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql(KEYED)
        catch_up(db)
        k, d, cv = db.table("k"), db.view("d"), db.view("cv")
        too_long = r"\.c \(CHAR\(3\)\): 'abcd' has 4 characters, more than CHAR\(3\)"
        for read in (lambda: d.get("abcd"), lambda: k.get("abcd", index="ix")):
            with pytest.raises(InputError, match=too_long):
                read()
        with pytest.raises(InputError, match=r"cv\.v \(VARCHAR\(2\)\): 'xyz' has 3 characters, more than VARCHAR\(2\)"):
            cv.get(("a", "xyz"))
        with pytest.raises(InputError, match=r"cv is read by \(c CHAR\(3\), v VARCHAR\(2\)\)"):
            cv.get("a")
        with pytest.raises(InputError, match=r"d is ordered by \(c CHAR\(3\)\)"):
            list(d.scan(("a", "b")))
        with pytest.raises(InputError, match=r"computed is read by \(u STRING\)"):
            db.view("computed").get(())


def test_the_command_line_reads_by_chars(tmp_path: Path) -> None:
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql(KEYED)
        db.table("k").put({"c": "ab", "v": "x", "w": 1})
        catch_up(db)

    def said(*args: str) -> str:
        result = CliRunner().invoke(cli, ["get", "--db", str(tmp_path / "db"), *args])
        return result.output + str(result.exception)

    assert "ab" in said("d", "ab") and "ab" in said("k", "--index", "ix", "ab")
    assert "more than CHAR(3)" in said("d", "abcd")
    assert "d is read by (c CHAR(3)), one argument each" in said("d", "a", "b")


@pytest.mark.spark
@pytest.mark.parametrize("query", [*(f"SELECT k, {value} AS r FROM t" for value in VALUES), *QUERIES])
def test_queries_say_what_spark_says_of_its_own_tables(read: Database, chars: SparkSession, query: str) -> None:
    said = sorted(
        map(str, (tuple(row) for row in chars.sql(query, args={"p": "ab"} if ":p" in query else None).collect()))
    )
    given = {"p": "ab"} if ":p" in query else {}
    for engine in ("viewkeeper", "spark"):
        found = read.sql(query, engine=engine, **given).to_arrow()
        assert sorted(str(tuple(row.values())) for row in found.to_pylist()) == said


WITHIN = "a ARRAY<CHAR(3)>, s STRUCT<x: CHAR(2), y: ARRAY<VARCHAR(2)>>, m MAP<CHAR(2), VARCHAR(2)>"
HELD = [
    (["a", "abc  ", None], {"x": "b", "y": ["c   "]}, {"k": "v  "}),
    (None, {"x": None, "y": None}, {}),
    ([], None, None),
]
SHOWN = [(["a  ", "abc", None], {"x": "b ", "y": ["c "]}, [("k ", "v ")]), (None, {"x": None, "y": None}, []),
         ([], None, None)]  # fmt: skip
TOO_LONG = {"a": ["a", "abcd"], "s": {"x": "a", "y": ["abc"]}, "m": {"abc": "a"}}


def test_what_stands_within_others_is_fitted_too(tmp_path: Path) -> None:
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql(f"CREATE TABLE t (k INT PRIMARY KEY, {WITHIN}); CREATE TABLE u (k INT PRIMARY KEY, {WITHIN})")
        t, rows = db.table("t"), [dict(zip("kasm", (k, *row), strict=True)) for k, row in enumerate(HELD)]
        shown = [dict(zip("kasm", (k, *row), strict=True)) for k, row in enumerate(SHOWN)]
        types = pa.schema([("k", pa.int32()), ("a", pa.list_(pa.string())),
                           ("s", pa.struct([("x", pa.string()), ("y", pa.list_(pa.string()))])),
                           ("m", pa.map_(pa.string(), pa.string()))])  # fmt: skip
        listed = [{**row, "m": None if row["m"] is None else list(row["m"].items())} for row in rows]
        for given in (rows, pa.Table.from_pylist(listed, types)):
            t.put_many(given)
            catch_up(db)
            assert sorted(db.sql("SELECT * FROM t"), key=lambda row: row["k"]) == shown
            db.sql("DELETE FROM t")
        db.sql("""INSERT INTO u VALUES (0, array('a', 'abc  ', NULL), named_struct('x', 'b', 'y', array('c   ')),
                  map('k', 'v  '))""")
        catch_up(db)
        assert list(db.sql("SELECT * FROM u")) == shown[:1]
        for name, value in TOO_LONG.items():
            with pytest.raises(
                InputError, match=rf"column {name} .*: .* has \d characters, more than (VAR)?CHAR\(\d\)"
            ):
                t.put({"k": 9, name: value})
        with pytest.raises(InputError, match=r"within a value for the column a, .* is longer than ARRAY<CHAR\(3\)>"):
            db.sql("UPDATE u SET a = array('abcd')")
        with pytest.raises(InputError, match="a key stands in a map twice"):
            db.sql("UPDATE u SET m = map('a', 'x', 'a ', 'y')")


@pytest.mark.spark
def test_chars_within_others_are_compared_as_spark_compares_them(tmp_path: Path, spark: SparkSession) -> None:
    columns, rows = (
        "k INT, a ARRAY<CHAR(3)>, b ARRAY<CHAR(5)>",
        [(1, ["x"], ["x"]), (2, ["x"], ["y"]), (3, ["x"], None)],
    )
    spark.sql(f"CREATE TABLE within ({columns}) USING parquet")
    try:
        spark.createDataFrame(rows, columns.replace("CHAR(3)", "STRING").replace("CHAR(5)", "STRING")).write.insertInto(
            "within"
        )
        with viewkeeper.connect(tmp_path / "db", durability="process") as db:
            db.sql(f"CREATE TABLE within ({columns}, PRIMARY KEY (k))")
            db.table("within").put_many([dict(zip("kab", row, strict=True)) for row in rows])
            catch_up(db)
            for value in ("a = b", "a <=> b", "a = array('x')", "a[0] = 'x'", "a < b", "array_contains(a, 'x')"):
                query = f"SELECT k, {value} AS r FROM within"
                said = sorted(str(tuple(row)) for row in spark.sql(query).collect())
                assert sorted(str(tuple(row.values())) for row in db.sql(query)) == said, value
    finally:
        spark.sql("DROP TABLE within")


@pytest.mark.spark
def test_streams_hold_chars(tmp_path: Path) -> None:
    queries = {
        "plain": "SELECT c, v, c = 'ab' AS is_ab FROM e",
        "by_spark": "SELECT c, soundex(v) AS x FROM e WHERE c = 'ab'",
    }
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql(
            """CREATE STREAM e (at TIMESTAMP NOT NULL, c CHAR(3), v VARCHAR(2)) TIMESTAMP BY at PARTITION LENGTH 60"""
        )
        db.sql(";".join(f"CREATE VIEW {name} AS {query}" for name, query in queries.items()))
        db.sql("CREATE VIEW counted AS SELECT c, count(*) AS n FROM e GROUP BY c")
        rows = [
            {"at": f"2024-01-01 00:{minute:02}:00", "c": c, "v": v}
            for minute, (c, v) in enumerate([("ab", "x "), ("ab  ", "x   "), ("b", None), ("abcd", "y"), ("c", "y")])
        ]
        db.stream("e").append(rows)
        db.catch_up()
        shown = [row["c"] for row in db.sql("SELECT c FROM e ORDER BY at")]
        assert shown == ["ab ", "ab ", "b  "]  # one is too long, and the last part is open
        assert [row["c"] for row in db.sql("SELECT c FROM e WHERE c = 'ab'")] == ["ab ", "ab "]
        for name, query in queries.items():
            said = sorted(map(str, db.sql(query, engine="spark")))
            assert sorted(map(str, db.sql(f"SELECT * FROM {name}"))) == said
        assert db.view("counted").get("ab") == {"c": "ab ", "n": 2}
        assert [row["data_type"] for row in db.sql("DESCRIBE plain")] == ["char(3)", "varchar(2)", "boolean"]


VIEWS = [
    "SELECT k, regexp_count(c, 'a') AS n FROM t WHERE soundex(c) = 'A100' AND c = 'ab'",
    "SELECT k FROM t WHERE exists(array(1), x -> c = 'ab')",
    "SELECT c, skewness(k) FILTER (WHERE c = 'ab') AS n FROM t GROUP BY c",
    "SELECT c, approx_count_distinct(CASE WHEN d = 'ab' THEN 1 END) AS n FROM t GROUP BY c HAVING c = 'ab'",
    "SELECT d, n FROM (SELECT d, count(*) AS n FROM t GROUP BY GROUPING SETS ((d), (c, d), ())) WHERE d = 'ab'",
    "SELECT c FROM (SELECT c FROM t GROUP BY GROUPING SETS ((d), (c))) WHERE c = 'ab'",
    "SELECT x.c FROM t x WHERE x.k = (SELECT min(y.k) FROM t y WHERE y.d = x.c)",
    "SELECT k, c FROM t WHERE c IN ('ab') OR d NOT IN ('b', 'ab')",
]  # fmt: skip


@pytest.mark.spark
def test_views_compare_chars_whoever_computes_what(tmp_path: Path) -> None:
    """By our operators, and by Spark on the delta and on touched groups, which is told what columns are."""
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql("CREATE TABLE t (k INT PRIMARY KEY, c CHAR(5), d CHAR(3), v VARCHAR(3), s STRING)")
        db.sql("; ".join(f"CREATE VIEW v{i} AS {query}" for i, query in enumerate(VIEWS)))
        db.table("t").put_many([dict(zip("kcdvs", row, strict=True)) for row in ROWS])
        db.catch_up()
        assert {each.verdict for each in db.check_all([f"v{i}" for i in range(len(VIEWS))])} == {"right"}
        assert all(len(db.sql(f"SELECT * FROM v{i}").to_arrow()) for i in range(len(VIEWS)))
