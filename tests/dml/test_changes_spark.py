"""UPDATE, DELETE and MERGE of what only Spark knows: the new rows are what Spark answers to the SELECT that says so."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import viewkeeper
from viewkeeper import Database, DeclarationError, InputError, NotSupported, ViewBroken
from viewkeeper.dml import rows_read, spark_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

T = [(1, "abc", 1, "none"), (2, "abd", 2, "x"), (3, None, 3, None), (4, "Zoë", -4, "none")]
S = [(1, "A120", 5), (7, "zz", 8), (9, None, 9)]


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[Database]:
    spark.createDataFrame(T, "id BIGINT, g STRING, n INT, v STRING").createOrReplaceTempView("t")
    spark.createDataFrame(S, "k BIGINT, g STRING, n INT").createOrReplaceTempView("s")
    with viewkeeper.connect(tmp_path / "db", durability="process", zone="Europe/Berlin") as database:
        database.sql("""CREATE TABLE t (id BIGINT PRIMARY KEY, g STRING, n INT, v VARCHAR(4) DEFAULT 'none');
                        CREATE TABLE s (k BIGINT PRIMARY KEY, g STRING, n INT); CREATE TABLE bag (g STRING, x DOUBLE);
                        INSERT INTO bag VALUES ('ab', 1), ('ab', 1), (NULL, 2)""")
        database.table("t").put_many([dict(zip(("id", "g", "n", "v"), row, strict=True)) for row in T])
        database.table("s").put_many([dict(zip(("k", "g", "n"), row, strict=True)) for row in S])
        yield database


def rows(db: Database, table: str = "t") -> list[tuple[Any, ...]]:
    db.sql(f"CREATE VIEW all_of_it AS SELECT * FROM {table}")
    db.catch_up()
    found = [tuple(row.values()) for row in db.view("all_of_it").rows()]
    db.sql("DROP VIEW all_of_it")
    return sorted(found, key=repr)


STATEMENTS = [
    ("UPDATE t SET g = soundex(g), n = NULL, v = DEFAULT WHERE id < 3",
     "SELECT id, if(id < 3, soundex(g), g), if(id < 3, NULL, n), if(id < 3, 'none', v) FROM t", 2),
    ("UPDATE t AS a SET a.n = length(soundex(a.g)) + a.n, g = reverse(soundex(g)) WHERE soundex(g) > 'A'",
     "SELECT id, if(soundex(g) > 'A', reverse(soundex(g)), g), if(soundex(g) > 'A', 4 + n, n), v FROM t", 3),
    ("UPDATE t SET id = id + length(soundex('x')), g /* a */ = 'it''s' || soundex(-- b\n g)",
     r"SELECT id + 4, 'it''s' || soundex(g), n, v FROM t", 4),
    ("UPDATE t SET g = (SELECT max(soundex(b.g)) FROM t AS b WHERE b.id <> t.id)",
     "SELECT id, (SELECT max(soundex(b.g)) FROM t AS b WHERE b.id <> t.id), n, v FROM t", 4),
    ("DELETE FROM t WHERE soundex(g) IN (SELECT g FROM s) OR n = -4",
     "SELECT * FROM t WHERE NOT coalesce(soundex(g) IN (SELECT g FROM s) OR n = -4, false)", 2),
    ("""MERGE INTO t USING s ON soundex(t.g) = s.g AND t.id = s.k
        WHEN MATCHED AND soundex(s.g) IS NULL THEN DELETE
        WHEN MATCHED THEN UPDATE SET n = s.n + length(soundex(s.g)), v = DEFAULT
        WHEN NOT MATCHED AND s.g IS NOT NULL THEN INSERT (id, g) VALUES (s.k + 100, soundex(s.g))
        WHEN NOT MATCHED BY SOURCE AND soundex(t.g) = 'Z000' THEN DELETE
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 'gone'""",
     """SELECT t.id, t.g, s.n + 4, 'none' FROM t JOIN s ON soundex(t.g) = s.g AND t.id = s.k UNION ALL
        SELECT 107, soundex('zz'), NULL, 'none' UNION ALL
        SELECT id, g, n, 'gone' FROM t WHERE id IN (2, 3)""", 5),
    ("""MERGE INTO t USING (SELECT k AS id, soundex(g) AS g, n, 'q' AS v FROM s) AS c ON t.id = c.id
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""",
     "SELECT * FROM t WHERE id > 1 UNION ALL SELECT k, soundex(g), n, 'q' FROM s", 3),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "becomes", "affected"), STATEMENTS)
def test_the_new_rows_are_what_spark_answers(
    db: Database, spark: SparkSession, statement: str, becomes: str, affected: int
) -> None:
    expected = sorted((tuple(row) for row in spark.sql(becomes).collect()), key=repr)
    assert db.sql(statement).affected == affected
    assert rows(db) == expected


def test_a_table_without_a_key(db: Database) -> None:
    assert db.sql("UPDATE bag SET g = soundex(g) WHERE x = 1").affected == 2
    assert rows(db, "bag") == [("A100", 1.0), ("A100", 1.0), (None, 2.0)]
    assert db.sql("DELETE FROM bag WHERE soundex(g) IS NULL").affected == 1
    assert db.sql("DELETE FROM bag WHERE soundex(g) = 'A000'").affected == 2


def test_parameters(db: Database) -> None:
    db.sql("UPDATE t SET g = soundex(:text), n = :n WHERE id = :id", text="it's; --", n=None, id=1)
    db.sql("INSERT INTO t (id, g) SELECT :id, soundex(:text)", id=50, text="q")
    db.sql("""MERGE INTO t USING s ON soundex(t.g) = s.g AND s.k > :low WHEN NOT MATCHED AND s.k = :k
              THEN INSERT (id, g) VALUES (s.k + :k, soundex(:text))""", low=0, k=7, text="a")  # fmt: skip
    db.sql("DELETE FROM t WHERE soundex(g) = soundex(:text)", text="Zoe")
    assert rows(db) == sorted([(1, "I320", None, "none"), *T[1:3], (14, "A000", None, "none"),
                               (50, "Q000", None, "none")], key=repr)  # fmt: skip


def test_parameters_by_place(db: Database) -> None:
    """Each goes where it stands, though the queries of a statement have its words in another order."""
    db.sql("UPDATE t SET g = soundex(?), n = ? WHERE id = ?", ["it's", None, 1])
    db.sql("""MERGE INTO t USING s ON soundex(t.g) = soundex(?) AND t.id = s.k + ?
              WHEN MATCHED AND t.n > ? THEN UPDATE SET g = ?, n = t.n + ? WHEN MATCHED THEN DELETE
              WHEN NOT MATCHED AND s.k > ? THEN INSERT (id, g, v) VALUES (s.k + ?, soundex(?), ?)""",
           ["abd", 1, 5, "no", 1, 8, 100, "z", None])  # fmt: skip
    assert rows(db) == sorted([(1, "I320", None, "none"), *T[2:], (109, "Z000", None, None)], key=repr)


def test_what_is_not_assigned_stays_whatever_its_type(db: Database) -> None:
    db.sql("""CREATE TABLE wide (k DECIMAL(38,3), d DATE, s STRING, f FLOAT, b BINARY, o BOOLEAN, z TIMESTAMP,
              w TIMESTAMP_NTZ, a ARRAY<STRUCT<x: INT, y: STRING>>, m MAP<STRING, DOUBLE>, i INTERVAL DAY TO SECOND,
              j INTERVAL YEAR, y TINYINT, PRIMARY KEY (k, d))""")
    row = {"k": Decimal("12345678901234567890.125"), "d": date(1, 1, 1), "s": "x", "f": -0.0, "b": b"\0\xff", "o": None,
           "z": "1582-10-10 01:02:03.000004", "w": "9999-12-31 23:59:59.999999", "a": [{"x": 1, "y": None}, None],
           "m": {"k": float("inf")}, "i": timedelta(days=-3, microseconds=1), "j": 24, "y": -128}  # fmt: skip
    db.table("wide").put(row)
    before = rows(db, "wide")
    assert db.sql("UPDATE wide SET s = soundex(s)").affected == 1
    assert rows(db, "wide") == [tuple("X000" if value == "x" else value for value in before[0])]


REFUSED = [
    ("UPDATE t SET g = soundex(nothing)", DeclarationError, r"nothing.*line 1, column 26"),
    ("UPDATE t SET n = 1,\n g = soundex(nothing)", DeclarationError, r"nothing.*line 2, column 14"),
    ("UPDATE t SET n = soundex(g)", DeclarationError, r"column n of t: STRING is not stored as INT.*column 14"),
    ("UPDATE t SET n = skewness(n)", DeclarationError, "MISSING_GROUP_BY"),
    ("UPDATE t SET n = 1 DIV (id - 1) + length(soundex(g))", ViewBroken, "DIVIDE_BY_ZERO"),
    ("UPDATE t SET v = concat(soundex(g), '!')", InputError, r"VARCHAR\(4\)"),
    ("UPDATE t SET id = length(soundex(g))", InputError, "would be NULL, and is in the key"),
    ("UPDATE t SET id = length(soundex('a'))", InputError, "two rows would have the key id = 4"),
    ("UPDATE t SET n = 9999999999 + length(soundex('a'))", ViewBroken, "CAST_OVERFLOW"),
    ("UPDATE t SET g = soundex(uuid())", DeclarationError, "uuid"),
    ("UPDATE t SET g = row_number() OVER (ORDER BY soundex(g))", DeclarationError, "window function cannot stand"),
    ("UPDATE t SET g = stack(2, soundex(g), 'b')", DeclarationError, "a generator cannot stand in SET"),
    ("UPDATE t SET g = json_tuple(soundex(g), 'b')", DeclarationError, "a generator cannot stand in SET"),
    ("UPDATE t SET g = soundex(g) WHERE crc32(n, 2) = 1", DeclarationError, r"WRONG_NUM_ARGS.*column 35"),
    ("UPDATE t SET g = soundex(:no)", DeclarationError, r"no value for the parameter :no.*column 26"),
    ("DELETE FROM t WHERE reflect('java.lang.System', 'exit', 1) = ''", NotSupported, "Java method"),
    ("MERGE INTO t USING s ON t.id > length(soundex(s.g)) - 4 WHEN MATCHED THEN UPDATE SET n = 1", InputError,
     "MERGE_CARDINALITY_VIOLATION"),
    ("MERGE INTO t USING s ON soundex(t.g) = s.g WHEN NOT MATCHED THEN INSERT *", DeclarationError, "no column id"),
    ("MERGE INTO t USING s ON t.id = s.k WHEN MATCHED AND soundex(t.g) THEN DELETE", DeclarationError,
     "WHEN needs a condition, not a value of type STRING"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "kind", "message"), REFUSED)
def test_what_is_refused_or_raises_changes_nothing(
    db: Database, statement: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message) as caught:
        db.sql(statement)
    assert "\0" not in str(caught.value)
    assert rows(db) == sorted(T, key=repr)


def test_it_is_computed_again_where_what_it_read_has_changed(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a condition that says the key, only the rows with it are read."""
    asked: list[int] = []
    meanwhile = [lambda: db.table("t").put({"id": 2, "g": "other"}), lambda: db.table("t").put({"id": 1, "g": "new"})]
    answered = spark_query.AnsweredQuery.rows

    def rows_then_write(query: spark_query.AnsweredQuery, scan: Any) -> Any:
        found = answered(query, scan)
        asked.append(len(scan(rows_read.TARGET_ID)))
        if meanwhile:
            another = threading.Thread(target=meanwhile.pop(0))
            another.start()
            another.join()
        return found

    monkeypatch.setattr(spark_query.AnsweredQuery, "rows", rows_then_write)
    db.sql("UPDATE t SET g = soundex(g) WHERE id = 1")
    assert (asked, db.table("t").get(1)["g"]) == ([1], "A120")
    db.sql("UPDATE t SET g = soundex(g) WHERE id = 1")
    assert (asked, db.table("t").get(1)["g"]) == ([1, 1, 1], "N000")
