"""INSERT of queries that only Spark answers: over tables as they are written, all or nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import viewkeeper
from local_maintenance import catch_up
from viewkeeper import Database, DeclarationError, InputError, ViewBroken

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process", zone="Europe/Berlin") as database:
        database.sql("""CREATE TABLE t (id BIGINT PRIMARY KEY, g STRING, n INT, v VARCHAR(4) DEFAULT 'none');
                        CREATE TABLE bag (g STRING, x DOUBLE); CREATE VIEW big AS SELECT id, n FROM t WHERE n > 1;
                        INSERT INTO t (id, g, n) VALUES (1, 'abc', 1), (2, 'abd', 2), (3, NULL, 3)""")
        catch_up(database)
        yield database


def rows(db: Database, query: str) -> list[tuple[Any, ...]]:
    catch_up(db)
    return [tuple(row.values()) for row in db.sql(query)]


def test_what_only_spark_answers_is_inserted(db: Database, spark: SparkSession) -> None:
    """Over rows that no view has seen yet, its own table's among them."""
    db.sql("INSERT INTO t (id, g, n) VALUES (4, 'new', 40)")
    assert db.sql("INSERT INTO t (id, g, v) SELECT id + 10, soundex(g), soundex(g) FROM t").affected == 4
    assert rows(db, "SELECT id, g, n, v FROM t WHERE id > 10 ORDER BY id") == [
        (11, "A120", None, "A120"), (12, "A130", None, "A130"), (13, None, None, None), (14, "N000", None, "N000")
    ]  # fmt: skip
    db.sql("INSERT INTO bag SELECT g, approx_count_distinct(id) FROM t WHERE id < 10 GROUP BY g")
    assert rows(db, "SELECT g, x FROM bag WHERE g = 'abc'") == [("abc", 1.0)]
    db.sql("INSERT INTO t (id, g) VALUES (20, soundex('xyz')); INSERT INTO t (id) FROM range(30, 32)")
    assert rows(db, "SELECT id, g, v FROM t WHERE id >= 20 ORDER BY id") == [
        (20, "X200", "none"), (30, None, "none"), (31, None, "none")]  # fmt: skip
    db.sql("INSERT INTO bag BY NAME SELECT skewness(n) AS x, 'big' AS g FROM big")
    (x,) = spark.sql("SELECT skewness(n) FROM VALUES (2), (3), (40) AS v(n)").collect()[0]
    assert rows(db, "SELECT x FROM bag WHERE g = 'big'") == [(x,)]


def test_defaults_and_nulls_stand_beside_what_only_spark_knows(db: Database) -> None:
    db.sql("""CREATE TABLE d (id INT PRIMARY KEY, s STRING DEFAULT 'it''s', n SMALLINT DEFAULT 3, x FLOAT DEFAULT 0.5,
              m DECIMAL(5,2) DEFAULT 1.5, day DATE DEFAULT DATE '2024-01-31', b BINARY DEFAULT X'00ff',
              at TIMESTAMP DEFAULT TIMESTAMP '2024-07-01 12:00:00.5', ok BOOLEAN DEFAULT true,
              w TIMESTAMP_NTZ DEFAULT TIMESTAMP_NTZ '2024-01-01', a ARRAY<INT>, e STRING)""")
    db.sql("INSERT INTO d (id) VALUES (1)")
    alike = ", ".join(["DEFAULT"] * 10)
    db.sql(f"INSERT INTO d VALUES (length(soundex('a')) - 2, {alike}, DEFAULT), (3, soundex(:s), {alike})", s="abc")
    one, two, three = rows(db, "SELECT * FROM d ORDER BY id")
    assert two[1:] == one[1:] and three[2:] == one[2:] and three[1] == "A120"
    db.sql("INSERT INTO d (id, s, n) SELECT 4, NULL, :n FROM t WHERE soundex(g) = 'A120'", n=None)
    db.sql("INSERT INTO d BY NAME SELECT NULL AS x, length(soundex('a')) + 1 AS id, :n AS a", n=None)
    assert rows(db, "SELECT id, s, n, x, a FROM d WHERE id > 3 ORDER BY id") == [
        (4, None, None, 0.5, None), (5, "it's", 3, None, None)]  # fmt: skip
    db.sql(
        """MERGE INTO d USING (SELECT :id AS id, :none AS s, NULL AS n, soundex('a') AS e) AS c ON d.id = c.id
              WHEN MATCHED AND soundex(d.s) = 'I320' THEN UPDATE SET s = c.s, n = c.n, e = c.e
              WHEN NOT MATCHED THEN INSERT (id, e, s, n) VALUES (c.id, c.e, c.s, DEFAULT)""",
        id=1,
        none=None,
    )
    assert rows(db, "SELECT s, n, x, e FROM d WHERE id = 1") == [(None, None, 0.5, "A000")]


@pytest.mark.parametrize(
    ("sql", "kind", "message"),
    [
        ("INSERT INTO t (id, g) SELECT 1, soundex('a')", InputError, "a row with the key id = 1 already"),
        ("INSERT INTO t (id, g) SELECT 9, soundex(nothing) FROM t", DeclarationError, r"nothing.*line 1, column 41"),
        ("INSERT INTO t (id, n) SELECT 9, soundex('a')", DeclarationError, "STRING is not stored as INT"),
        ("INSERT INTO t (id) SELECT soundex('a'), 2", DeclarationError, "1 columns, and there are 2 values|is to get"),
        ("INSERT INTO t (id, g, n) SELECT id + 50, soundex(g), 1 DIV (id - 1) FROM t", ViewBroken, "DIVIDE_BY_ZERO"),
        ("INSERT INTO t (id, v) SELECT 9, concat(soundex('a'), '!')", InputError, r"VARCHAR\(4\)"),
        ("INSERT INTO t (id, n) SELECT 9, rand() > soundex('a')", DeclarationError, "rand"),
        ("INSERT INTO t (id, g) SELECT id + 9, soundex(g) FROM t LIMIT 1", DeclarationError, "LIMIT"),
        ("INSERT INTO t (id, v, g) VALUES (9, DEFAULT, soundex('a')), (8, DEFAULT,\n nothing)", DeclarationError,
         r"nothing.*line 2, column 2"),
        ("INSERT INTO t (id, g) VALUES (9, soundex('a')), (8, DEFAULT + 1)", DeclarationError, r"near \+"),
        ("INSERT INTO t (id, g) SELECT 9, soundex('a') FROM parquet.`/tmp/x`", DeclarationError, "no table or view"),
    ],
)  # fmt: skip
def test_what_is_refused_or_raises_changes_nothing(db: Database, sql: str, kind: type[Exception], message: str) -> None:
    before = rows(db, "SELECT id, g, n, v FROM t ORDER BY id")
    with pytest.raises(kind, match=message):
        db.sql(sql)
    assert rows(db, "SELECT id, g, n, v FROM t ORDER BY id") == before


def test_views_that_spark_answers_are_read_as_their_tables_are_written(db: Database) -> None:
    """Those of which Spark has a part, and views over them, too, in statements of ours and of Spark's."""
    db.sql("""CREATE VIEW pivoted AS SELECT * FROM (SELECT g, n FROM t) PIVOT (sum(n) FOR g IN ('abc' AS a));
              CREATE VIEW sounding AS SELECT id, soundex(g) AS s FROM t;
              CREATE VIEW above AS SELECT a + 1 AS a FROM pivoted;
              CREATE VIEW skewed AS SELECT g, skewness(n) AS x, count(*) AS c FROM t GROUP BY g""")

    def read(query: str) -> list[tuple[Any, ...]]:
        db.catch_up()
        return [tuple(row.values()) for row in db.sql(query)]

    db.sql("INSERT INTO t (id, g, n) VALUES (4, 'abc', 40)")
    db.sql("INSERT INTO bag SELECT 'a', a FROM above UNION ALL SELECT s, id FROM sounding WHERE s = 'A130'")
    db.sql("INSERT INTO bag SELECT soundex(g), c FROM skewed WHERE g = 'abc'")
    db.sql("UPDATE t SET n = (SELECT a FROM pivoted) WHERE id IN (SELECT id FROM sounding WHERE s = 'A120')")
    assert read("SELECT g, x FROM bag ORDER BY g, x") == [("A120", 2.0), ("A130", 2.0), ("a", 42.0)]
    assert read("SELECT id, n FROM t ORDER BY id") == [(1, 41), (2, 2), (3, 3), (4, 41)]
    db.sql("MERGE INTO t USING sounding AS q ON t.id = q.id AND q.s IS NULL WHEN MATCHED THEN DELETE")
    db.sql("DELETE FROM t WHERE n * 2 + 1 = (SELECT max(a) FROM above)")
    assert read("SELECT id FROM t") == [(2,)]


def test_each_is_one_step_beside_other_writers(db: Database) -> None:
    """Two count on from what is there, one puts rows: what was changed meanwhile is read again, and nothing is lost."""
    db.sql("CREATE TABLE log (id INT PRIMARY KEY, who STRING)")

    def count(name: str) -> None:
        for _ in range(4):
            db.sql(
                "INSERT INTO log SELECT coalesce(max(id), 0) + 1, concat(:by, left(soundex('a'), 0)) FROM log", by=name
            )

    def put() -> None:
        for i in range(20):
            db.table("log").put({"id": -i, "who": "put"})
            time.sleep(0.05)

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(count, "a"), pool.submit(count, "b"), pool.submit(put)]:
            done.result()
    assert rows(db, "SELECT id FROM log ORDER BY id") == [(i,) for i in range(-19, 9)]
    assert rows(db, "SELECT who, count(*) FROM log GROUP BY who ORDER BY who") == [("a", 4), ("b", 4), ("put", 20)]
