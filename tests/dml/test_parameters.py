"""Parameters: `?` and `:name`, where a value stands, where a word must, in what is declared, and as names."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import viewkeeper
from local_maintenance import catch_up
from viewkeeper import Database, DeclarationError, InputError, ViewBroken
from viewkeeper.compiler.filled_in import filled_in


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process", zone="Europe/Berlin") as database:
        database.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n INT, s STRING); CREATE TABLE u (id INT PRIMARY KEY)")
        database.sql("INSERT INTO t VALUES (?, ?, ?), (2, ?, '?'), (3, 30, NULL)", [1, 10, "a? :x", -5])
        catch_up(database)
        yield database


QUERIES: list[tuple[str, Any, list[tuple[Any, ...]]]] = [
    ("SELECT ? + 1, s, ? AS x, ? AS y FROM t WHERE id = ? -- ?", [5, "it's", -5, 1], [(6, "a? :x", "it's", -5)]),
    ("SELECT -? AS x, 1-? AS y, ?AS z", [5, -5, 7], [(-5, 6, 7)]),
    ("SELECT id FROM t ORDER BY id LIMIT ? OFFSET ?", (1, 1), [(2,)]),
    ("SELECT id FROM t ORDER BY id LIMIT :k", {"k": 1}, [(1,)]),
    ("SELECT n > :k, count(*) FROM t GROUP BY :one ORDER BY:one", {"k": 0, "one": 1}, [(False, 1), (True, 2)]),
    ("SELECT lag(n, :k) OVER (ORDER BY id) AS x FROM t ORDER BY id", {"k": 2}, [(None,), (None,), (10,)]),
    ("SELECT round(2.345, :k), CAST(1 AS DECIMAL(:p, :s))", {"k": 1, "p": 5, "s": 2}, [(Decimal("2.3"), Decimal(1))]),
    ("SELECT s LIKE '_?!%' ESCAPE :e FROM t WHERE id = 1", {"e": "!"}, [(False,)]),
    ("SELECT id FROM t ORDER BY id LIMIT ? + length('ab') OFFSET 3 - 2", [-1], [(2,)]),
    ("SELECT DATE '2024-01-31' + INTERVAL :m MONTH AS d", {"m": 1}, [(datetime.date(2024, 2, 29),)]),
    ("SELECT DATE '2024-01-31' + INTERVAL ? DAY AS d", [-31], [(datetime.date(2023, 12, 31),)]),
    ("SELECT IDENTIFIER(?), IDENTIFIER('T.Id') FROM IDENTIFIER(?) WHERE id = ?", ["n", "t", 1], [(10, 1)]),
    ("SELECT q.x FROM (SELECT IDENTIFIER('sum')(n) AS x FROM t) AS IDENTIFIER(:q)", {"q": "q"}, [(35,)]),
    ("SELECT IDENTIFIER('up' || r'p' || :f)('a') AS x", {"f": "er"}, [("A",)]),
    ("SELECT :engine AS e, :args AS a", {"engine": "x", "args": 1}, [("x", 1)]),
    ("SELECT id FROM t WHERE id = 1", [], [(1,)]),
]


@pytest.mark.parametrize(("text", "args", "rows"), QUERIES, ids=[text for text, _, _ in QUERIES])
def test_parameters_in_queries(db: Database, text: str, args: Any, rows: list[tuple[Any, ...]]) -> None:
    with db.snapshot() as snapshot:
        for answer in (db.sql(text, args), snapshot.sql(text, args)):
            assert [tuple(row.values()) for row in answer] == rows


def test_an_output_is_called_as_if_its_parameters_were_typed(db: Database) -> None:
    assert list(db.sql("SELECT ? + 1, ?, IDENTIFIER('ID') FROM t WHERE id = 1", [5, "x"]))[0].keys() == {
        "(5 + 1)", "x", "ID"}  # fmt: skip


def test_parameters_in_statements_that_change_rows(db: Database) -> None:
    db.sql("UPDATE t SET s = ?, n = n + ? WHERE id IN (?, ?)", ["x", 1, 2, 9])
    db.sql(
        """MERGE INTO IDENTIFIER(?) USING (SELECT ? AS k) AS c ON t.id = c.k WHEN MATCHED AND t.n > ? THEN
              UPDATE SET s = ? WHEN NOT MATCHED THEN INSERT (id, s) VALUES (c.k, ?)""",
        ["t", 3, 0, "merged", "new"],
    )
    db.sql("DELETE FROM t WHERE s = ?; INSERT INTO u SELECT id + ? FROM t", ["a? :x", 5])
    catch_up(db)
    assert [tuple(row.values()) for row in db.sql("SELECT * FROM t ORDER BY id")] == [(2, -4, "x"), (3, 30, "merged")]
    assert [row["id"] for row in db.sql("SELECT id FROM u ORDER BY id")] == [7, 8]


REFUSED: list[tuple[str, Any, type[Exception], str]] = [
    ("SELECT ? + 1,\n?", [5], DeclarationError, r"the text has 2 \?, and 1 values are given \(line 2, column 1\)"),
    ("SELECT ? + 1", [5, 6], DeclarationError, r"the text has 1 \?, and 2 values are given"),
    ("SELECT ?", None, DeclarationError, r"no value for the parameter \?: db.sql\(\.\.\., \[\.\.\., \.\.\.\]\)"),
    ("SELECT ? + :a", [5], DeclarationError, r"given by place, and :a is a parameter by name.*column 12"),
    ("SELECT ? + :a", {"a": 5}, DeclarationError, r"given by name, and \? is a parameter by place.*column 8"),
    ("SELECT :a", {"a": 1, "b": 2}, DeclarationError, ":b does not stand in the text"),
    ("SELECT :a", {"b": 2}, DeclarationError, ":b does not stand in the text"),
    ("SELECT 1, ?", [[1]], DeclarationError, r"this \?: \[1\] is no constant of SQL.*column 11"),
    ("SELECT ?", "x", InputError, "args='x': write a list"),
    ("SELECT ?", {1: 2}, InputError, "write a list"),
    ("SELECT id FROM t ORDER BY id LIMIT :k", {"k": -2}, DeclarationError, "LIMIT needs a .*column 36"),
    ("SELECT id FROM t ORDER BY id LIMIT :k", {"k": "2"}, DeclarationError, "LIMIT needs a whole .*column 36"),
    ("SELECT id FROM t ORDER BY id OFFSET ?", [None], DeclarationError, "OFFSET needs a whole .*column 37"),
    ("SELECT id,\n:`a b` FROM t", {"a b": 1}, DeclarationError, r"a word without backticks.*line 2, column 1\)"),
    ("SELECT id FROM t ORDER BY id LIMIT :k", {"k": 2**31}, DeclarationError, "LIMIT needs a whole number"),
    ("SELECT IDENTIFIER('a b') FROM t", None, DeclarationError, "'a b' is no name"),
    ("SELECT 1, IDENTIFIER(:x) FROM t", {"x": 5}, DeclarationError, r"takes a text, and is given 5.*column 22"),
    ("SELECT IDENTIFIER('no') FROM IDENTIFIER('t')", None, DeclarationError, r"no column no; .*column 8"),
    ("SELECT ?, IDENTIFIER('id') + nothing FROM t", [1], DeclarationError, r"no column nothing; .*column 30"),
    ("SELECT IDENTIFIER('\n`t`.id'), nothing FROM t", [], DeclarationError, "is no name"),
    ("SELECT IDENTIFIER(\n'`t`.id'), nothing FROM t", [], DeclarationError, r"nothing.*\(line 2, column 12\)"),
    ("SELECT :longer AS x, 1 DIV (id - 1) AS y FROM t", {"longer": 7}, ViewBroken, r"ZERO \(line 1, column 22\)"),
    ("SELECT 1;\n\n SELECT :longer, 1 DIV (id - 1) FROM t", {"longer": 7}, ViewBroken, r"ZERO \(line 3, column 18\)"),
    ("INSERT INTO u SELECT ?, 1 DIV (id - 1) FROM t", ["x"], DeclarationError, "1 columns|2 values"),
    ("INSERT INTO u SELECT ? DIV (id - 1) FROM t", [100], ViewBroken, r"DIVIDE_BY_ZERO \(line 1, column 22\)"),
    ("UPDATE t SET n = :longer, s = 1 DIV (id - 1)", {"longer": 100}, ViewBroken, r"ZERO \(line 1, column 31\)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "args", "kind", "message"), REFUSED, ids=[each[0] for each in REFUSED])
def test_what_is_refused_or_raises_says_where_it_was_typed(
    db: Database, text: str, args: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        db.sql(text, args)
    with pytest.raises(InputError, match="not both"):
        db.sql("SELECT :a, ?", [1], a=1)


GIVEN = {
    "i": 5, "negative": -7, "huge": 2**70, "d": Decimal("-0.050"), "whole": Decimal("5"), "f": 0.1, "f2": 1e300,
    "inf": float("-inf"), "s": "it's \\ \0 \n\U0001f600 \\% /*", "b": b"\0\xff", "ok": True,
    "day": datetime.date(1, 1, 1), "naive": datetime.datetime(2024, 7, 1, 12, 0, 0, 1),
    "utc": datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC),
}  # fmt: skip


def test_what_is_declared_keeps_parameters_as_constants(db: Database) -> None:
    """Of the same types and values as in a query."""
    outputs = ", ".join(f":{name} AS {name}" for name in GIVEN)
    db.sql(f"CREATE VIEW v AS SELECT id, {outputs} FROM t WHERE id=:i - 4", GIVEN)
    catch_up(db)
    declared, asked = db.sql("SELECT * FROM v").to_arrow(), db.sql(f"SELECT 1L AS id, {outputs}", GIVEN).to_arrow()
    assert declared.to_pylist() == asked.to_pylist()
    assert declared.schema.types == asked.schema.types
    db.sql("CREATE VIEW IDENTIFIER(?) AS SELECT id FROM IDENTIFIER(?) WHERE s = ?", ["w", "t", "?"])
    assert [row["query"] for row in db.sql("SHOW VIEWS")][1] == "SELECT id FROM `t` WHERE s = '?'"
    db.sql("CREATE TABLE d (id INT PRIMARY KEY, s STRING DEFAULT ?, n INT DEFAULT ?)", ["it's", -3])
    db.sql("INSERT INTO d (id) VALUES (1)")
    assert db.table("d").get(1) == {"id": 1, "s": "it's", "n": -3}
    with pytest.raises(DeclarationError, match=r"no value for the parameter :x.*column 45"):
        db.sql("CREATE VIEW x AS SELECT id FROM t WHERE s = :x")
    with pytest.raises(DeclarationError, match=r"the parameter :x: \[1\] is no constant.*column 45"):
        db.sql("CREATE VIEW x AS SELECT id FROM t WHERE s = :x", x=[1])


def test_a_question_mark_of_a_pattern_is_none() -> None:
    pattern = "SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A (B?|C)+?) DEFINE A AS n = ?)"
    assert filled_in(pattern, [5]).text == pattern.replace("= ?", "= 5")


def test_a_field_of_a_value_is_none() -> None:
    assert filled_in("SELECT payload:ref, a[0]:ref FROM t WHERE x=:ref", {"ref": 5}).text == (
        "SELECT payload:ref, a[0]:ref FROM t WHERE x=5")  # fmt: skip
