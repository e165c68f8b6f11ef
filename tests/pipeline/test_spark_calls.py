"""Views kept by our own operators but for calls that Spark computes, for what a batch brings."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import viewkeeper
from questions import asked
from viewkeeper.database import Database
from viewkeeper.errors import ViewBroken
from viewkeeper.pipeline import batches, fills, spark_calls
from viewkeeper.plans.maintenance import Memo, SparkAnswer, plan_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLES = """
CREATE TABLE t (id INT, a STRING, b STRING, x DOUBLE, d DATE, m DECIMAL(9, 2), at TIMESTAMP, raw BINARY,
                PRIMARY KEY (id));
CREATE TABLE u (name STRING, n INT);
"""

QUERIES = {
    "near": "SELECT id, levenshtein(a, b) FROM t WHERE levenshtein(t.a, b) < 4 AND soundex(a) <> 'X'",
    "mixed": "SELECT id, upper(soundex(a)) AS s, exp(x) AS e, atan2(x, -0.0D) AS angle, try_to_number(a, '9') AS n, "
             "date_format(at, 'EEEE') AS day, months_between(at, d) AS months, hex(raw), m, to_json(map(id, m)) FROM t",
    "grouped": "SELECT soundex(a) AS s, count(*) AS n, max(levenshtein(a, b)) AS far, sum(m) AS m FROM t "
               "GROUP BY soundex(a) HAVING soundex(a) IS NOT NULL",
    "joined": "SELECT t.id, u.n FROM t LEFT JOIN u ON soundex(t.a) = soundex(u.name)",
    "on_sides": "SELECT t.id, u.n FROM t FULL JOIN u ON t.id = u.n AND soundex(t.a) > 'R' AND soundex(name) <> 'X'",
    "on_both": "SELECT t.id, u.name FROM t LEFT JOIN u ON levenshtein(t.a, u.name) < 3",
    "lambdas": "SELECT id, aggregate(transform(array(id, length(a)), y -> y + id), 0, (s, y) -> s + y) AS n FROM t",
    "cased": "SELECT id, CASE WHEN id > 2 THEN elt(id - 2, a, b) ELSE a END AS e FROM t WHERE id < 5",
    "renamed (k, v)": "SELECT soundex(name), bit_count(n) FROM u",
    "over_it": "SELECT s, n, levenshtein(s, 'A000') AS far FROM grouped WHERE n > 0",
    "ranked": "SELECT id, row_number() OVER (PARTITION BY soundex(a) ORDER BY bit_count(length(b)), id) AS r FROM t",
    "first": "SELECT id, base64(raw) AS r, typeof(x) AS t FROM t ORDER BY soundex(a) LIMIT 3",
}  # fmt: skip

WORDS = ["robert", "rupert", "", None, "tymczak", "é", "7"]


@pytest.fixture
def database(spark: SparkSession, tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.sql(TABLES)
        yield database


def change(database: Database, chance: random.Random) -> None:
    for _ in range(6):
        key = chance.randrange(8)
        if chance.random() < 0.3:
            database.table("t").delete(key)
            continue
        database.table("t").put({
            "id": key, "a": chance.choice(WORDS), "b": chance.choice(WORDS), "m": chance.choice(["1.5", None, "2"]),
            "x": chance.choice([0.0, -0.0, 1.5, None, float("nan")]), "d": chance.choice(["2024-02-29", None]),
            "at": chance.choice(["2024-03-31T00:30:00", "0001-01-01T00:00:00", None]),
            "raw": chance.choice([b"", b"\0x", None]),
        })  # fmt: skip
    database.table("u").put({"name": chance.choice(WORDS), "n": chance.randrange(3)})


@pytest.mark.parametrize("staged", [False, True])
def test_views_with_calls_that_spark_computes_are_sparks_answer_after_every_batch(
    database: Database, monkeypatch: pytest.MonkeyPatch, staged: bool
) -> None:
    """Of every kind of place where a call may stand; in one task, and in stages of two servers."""
    if staged:
        monkeypatch.setattr(batches, "CHAINED_MAX", 0)
        monkeypatch.setattr(fills, "CHAINED_MAX", 0)
    chance = random.Random(3)
    change(database, chance)
    database.sql(";".join(f"CREATE VIEW {name} AS {query}" for name, query in QUERIES.items()))
    database.catch_up()
    operators = plan_of(database._newest.version().catalog).operators
    assert not any(isinstance(operator, SparkAnswer) for operator in operators)
    change(database, chance)
    database.catch_up()
    assert [str(report) for report in database.check_all() if not report.ok] == []
    assert {*next(iter(database.view("mixed").scan()))} >= {"id", "hex(raw)", "to_json(map(id, m))"}


def test_spark_is_asked_for_what_it_has_not_said_yet(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for what a row has had already, not for what goes, and not in a batch without either."""
    database.sql("CREATE VIEW v AS SELECT id, soundex(a) AS s FROM t")
    database.catch_up()
    questions, table = asked(monkeypatch), database.table("t")
    table.put_many([{"id": i, "a": WORDS[i % 2]} for i in range(50)])
    database.catch_up()
    assert [len(question.tables[spark_calls.ROWS]) for question in questions] == [2]
    table.put({"id": 60, "a": "robert"})
    table.delete(1)
    database.table("u").put({"n": 1})
    database.catch_up()
    assert len(questions) == 1 and len(list(database.view("v").scan())) == 50


def test_a_value_that_raises_is_an_error_row_and_the_rest_is_kept(database: Database) -> None:
    """It names its row, its place and Spark's own class, and goes with the row."""
    database.sql("CREATE VIEW v AS SELECT id,\n elt(if(id < 0, 2, id), a, b) AS e FROM t")
    table = database.table("t")
    table.put_many([{"id": i, "a": "x", "b": "y"} for i in (1, 2, 3, -1, 0, 7)])
    database.catch_up()
    with pytest.raises(ViewBroken, match=r"INVALID_(ARRAY_)?INDEX.* at 2:2") as caught:
        list(database.view("v").scan())
    assert "id=" in str(caught.value)
    assert all(report.ok for report in database.check_all())
    for gone in (3, 0, 7):
        table.delete(gone)
    database.catch_up()
    assert {(row["id"], row["e"]) for row in database.view("v").scan()} == {(1, "x"), (2, "y"), (-1, "y")}
    assert all(report.ok for report in database.check_all())


def test_a_view_of_very_many_values_that_raise_stops_and_no_other(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rather than that all others wait for hundreds of queries."""
    monkeypatch.setattr(spark_calls, "RAISING_MAX", 2)
    database.sql("CREATE VIEW v AS SELECT id, elt(id, a) AS e FROM t;"
                 "CREATE VIEW w AS SELECT id, soundex(a) AS s FROM t")  # fmt: skip
    database.catch_up()
    database.table("t").put_many([{"id": i, "a": "x"} for i in range(2, 6)])
    database.catch_up()
    with pytest.raises(ViewBroken, match="more than 2 new values of one batch raise.* create it again"):
        list(database.view("v").scan())
    assert {row["s"] for row in database.view("w").scan()} == {"X000"}


def test_explain_says_that_spark_computes_a_call_on_the_delta(database: Database) -> None:
    text = "CREATE VIEW v AS SELECT id, levenshtein(a, b) AS n FROM t"
    lines = [row["plan"] for row in database.sql(f"EXPLAIN {text}")]
    (memo,) = [line for line in lines if line.startswith("  MEMO")]
    assert "levenshtein(a, b), by Spark on the delta, because no kernel knows levenshtein" in memo
    assert lines[-1].startswith("falls back: MEMO") and "no kernel knows levenshtein" in lines[-1]


@pytest.mark.parametrize("query", [
    "SELECT id, posexplode(map(a, b)) AS (p, k, v) FROM t",
    "SELECT id, array(a, b)[0] AS e FROM t",
    "SELECT soundex('x') AS e, id FROM t",
])  # fmt: skip
def test_what_cannot_be_cut_into_calls_is_answered_as_a_whole(database: Database, query: str) -> None:
    plan = "\n".join(row["plan"] for row in database.sql(f"EXPLAIN CREATE VIEW v AS {query}"))
    assert "  SPARK" in plan and "  MEMO" not in plan


def test_a_view_is_built_anew_by_another_spark(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What two versions say must not stand in one view."""
    database.sql("CREATE VIEW v AS SELECT id, soundex(a) AS s FROM t; CREATE VIEW w AS SELECT id FROM t")
    database.table("t").put({"id": 1, "a": "x"})
    database.catch_up()
    (memo,) = [o for o in plan_of(database._newest.version().catalog).operators if isinstance(o, Memo)]
    assert memo.call.version == spark_calls.spark_version()  # type: ignore[attr-defined]
    monkeypatch.setattr(spark_calls, "spark_version", lambda: "9.9.9")
    database.table("t").put({"id": 2, "a": "y"})
    database.catch_up()
    assert (
        [row["id"] for row in database.view("v").rows()] == [1, 2] == [row["id"] for row in database.view("w").rows()]
    )
    (memo,) = [o for o in plan_of(database._newest.version().catalog).operators if isinstance(o, Memo)]
    assert memo.call.version == "9.9.9"  # type: ignore[attr-defined]
    database.table("t").put({"id": 1, "a": None})
    database.catch_up()
    assert {report.view: report.ok for report in database.check_all()} == {"v": True, "w": True}
