"""Views with aggregates that no kernel knows: Spark is asked for the groups that a batch touches."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import viewkeeper
from asked_groups import QUERIES, TABLES, change
from questions import asked
from viewkeeper.checker.compare import compared_as_rounded
from viewkeeper.database import Database
from viewkeeper.errors import DeclarationError, ViewBroken
from viewkeeper.pipeline import batches, fills, spark_calls
from viewkeeper.pipeline.spark_answers import SparkAnswers
from viewkeeper.pipeline.work import SparkQuestion
from viewkeeper.plans.maintenance import SparkAnswer, SparkGroups, plan_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def database(spark: SparkSession, tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.sql(TABLES)
        yield database


def operators(database: Database) -> list[type]:
    return [type(operator) for operator in plan_of(database._newest.version().catalog).operators]


def test_a_text_of_a_length_is_called_the_same_wherever_it_comes_through(database: Database) -> None:
    """Behind keys that are computed first it was called by another type, and Spark did not find it."""
    database.sql("""CREATE TABLE l (k INT PRIMARY KEY, s VARCHAR(3), c CHAR(4));
                    CREATE VIEW groups AS SELECT 10 / k AS g, approx_count_distinct(s, 0.05) AS n,
                           approx_count_distinct(c) AS m FROM l GROUP BY 10 / k;
                    CREATE VIEW joined AS SELECT l.k, approx_count_distinct(r.s) AS n, approx_count_distinct(r.c) AS m
                           FROM l JOIN l AS r ON 10 / l.k = 10 / r.k GROUP BY l.k""")
    database.table("l").put_many([{"k": 1, "s": "a", "c": "b"}, {"k": 2, "s": "b "}])
    database.catch_up()
    for report in database.check_all():
        report.raise_if_wrong()
    assert [(row["n"], row["m"]) for row in database.view("joined").rows()] == [(1, 1), (1, 0)]


@pytest.mark.parametrize("staged", [False, True])
def test_views_with_aggregates_by_spark_are_sparks_answer_after_every_batch(
    database: Database, monkeypatch: pytest.MonkeyPatch, staged: bool
) -> None:
    """Beside other aggregates and within expressions; in one task, and in stages of two servers; groups die and come
    again; what is declared later shares what is kept."""
    if staged:
        monkeypatch.setattr(batches, "CHAINED_MAX", 0)
        monkeypatch.setattr(fills, "CHAINED_MAX", 0)
    chance = random.Random(5)
    late = ("again", "subquery")
    database.sql(";".join(f"CREATE VIEW {name} AS {query}" for name, query in QUERIES.items() if name not in late))
    database.catch_up()
    for step in (2, 3) if staged else range(4):
        change(database, chance)
        if step == 2:
            database.sql(";".join(f"CREATE VIEW {name} AS {QUERIES[name]}" for name in late))
        if step == 3:
            for key in range(9):
                database.table("t").delete(key)
        database.catch_up()
        assert [(r.view, r.differing, r.errors) for r in database.check_all() if not r.ok] == []
    assert SparkAnswer not in operators(database) and operators(database).count(SparkGroups) > 8


def test_spark_is_asked_for_the_rows_of_touched_groups(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one question for all views; not in a batch that changes nothing they read; nor for what is kept already."""
    database.sql("CREATE VIEW v AS SELECT g, approx_count_distinct(n) AS d, count(*) AS c FROM t GROUP BY g;"
                 "CREATE VIEW w AS SELECT h, approx_count_distinct(g) AS d FROM t GROUP BY h")  # fmt: skip
    database.catch_up()
    table, questions = database.table("t"), asked(monkeypatch)
    table.put_many([{"id": i, "g": str(i % 10), "h": float(i % 4), "n": i} for i in range(40)])
    database.catch_up()
    assert [sorted(map(len, question.tables.values())) for question in questions] == [[40, 40]]
    table.put({"id": 40, "g": "3", "h": 7.5, "n": 1})
    database.catch_up()
    assert sorted(map(len, questions[1].tables.values())) == [1, 5]
    table.put({"id": 40, "g": "3", "h": 7.5, "n": 1, "s": "other"})
    database.table("u").put({"name": "x"})
    database.catch_up()
    assert len(questions) == 2
    database.sql(
        "CREATE VIEW same AS SELECT g, 1 + approx_count_distinct(n) AS d FROM t GROUP BY g HAVING count(*) > 4"
    )
    database.catch_up()
    assert len(questions) == 2 and [*database.view("same").scan()] == [{"g": "3", "d": 6}]
    table.delete(40)
    database.catch_up()
    assert len(questions) == 3 and [len(rows) for rows in questions[2].tables.values()] == [4]
    assert [str(report) for report in database.check_all() if not report.ok] == []


def test_what_goes_is_what_spark_once_said(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it would say now, and whether the rest of the group is asked about or nothing is left of it."""
    database.sql("CREATE VIEW v AS SELECT g, approx_count_distinct(s) AS d FROM t GROUP BY g;"
                 "CREATE VIEW w AS SELECT d, count(*) AS c FROM v GROUP BY d")  # fmt: skip
    table = database.table("t")
    table.put_many([{"id": i, "g": str(i % 3), "s": "x"} for i in range(6)])
    database.catch_up()
    answer = SparkAnswers.__call__

    def other(self: SparkAnswers, question: SparkQuestion) -> Any:
        said = answer(self, question)
        assert isinstance(said, pa.Table)
        return said.set_column(3, said.schema.field(3), pc.add(said.column(3), 40))

    monkeypatch.setattr(SparkAnswers, "__call__", other)
    for gone in (0, 1, 4):
        table.delete(gone)
    database.catch_up()
    assert {row["g"]: row["d"] for row in database.view("v").scan()} == {"0": 41, "2": 1}
    assert {row["d"]: row["c"] for row in database.view("w").scan()} == {41: 1, 1: 1}


def test_structs_that_may_be_null_are_judged(database: Database) -> None:
    """Though nothing within them may."""
    database.sql("CREATE VIEW v AS SELECT g, max_by(struct(array(1) AS a, id AS i), n) AS s FROM t GROUP BY g;"
                 "CREATE VIEW w AS SELECT id, CASE WHEN n > 1 THEN struct(1, id) END AS s FROM t")  # fmt: skip
    database.table("t").put_many([{"id": i, "g": str(i % 3), "n": i if i % 3 else None} for i in range(6)])
    database.catch_up()
    assert [str(report) for report in database.check_all() if not report.ok] == []
    assert {row["g"]: row["s"] for row in database.view("v").scan()}["0"] is None


def test_a_group_that_raises_is_an_error_row_and_the_rest_is_kept(database: Database) -> None:
    """It names its group, its place and Spark's own class, and goes with what raises."""
    database.sql("CREATE VIEW v AS SELECT g,\n approx_count_distinct(10 div n) AS d, count(*) AS c FROM t GROUP BY g;"
                 "CREATE VIEW w AS SELECT count(*) AS c, approx_count_distinct(10 div n) AS d FROM t")  # fmt: skip
    table = database.table("t")
    table.put_many([{"id": i, "g": str(i % 7), "n": i - 3} for i in range(14)])
    database.catch_up()
    with pytest.raises(ViewBroken, match=r"DIVIDE_BY_ZERO.* at 2:2.*g=3"):
        list(database.view("v").scan())
    with pytest.raises(ViewBroken, match="DIVIDE_BY_ZERO"):
        list(database.view("w").scan())
    assert [str(report) for report in database.check_all() if not report.ok] == []
    table.put({"id": 3, "g": "3", "n": 5})
    database.catch_up()
    assert {row["g"]: row["c"] for row in database.view("v").scan()} == {str(i): 2 for i in range(7)}
    assert [str(report) for report in database.check_all() if not report.ok] == []


def test_errors_that_spark_leaves_out_are_not_judged(database: Database) -> None:
    """It sees that no row can come out, and computes nothing; a view has what its query as it is written says."""
    database.sql("""
    CREATE VIEW v AS SELECT approx_count_distinct(q) AS n FROM (SELECT id, 1 / n AS q FROM t) AS a
    WHERE q >= (SELECT max(i.n) FROM t AS i WHERE i.n = a.q AND i.n <> i.n AND i.n > i.n)
    """)
    database.table("t").put({"id": 1, "n": 0})
    database.catch_up()
    with pytest.raises(ViewBroken, match="DIVIDE_BY_ZERO"):
        database.view("v").to_arrow()
    report = database.check("v")
    assert report.verdict == "not judged" and report.errors
    assert "no row needs" in report.unjudged[0]


def test_a_view_of_very_many_groups_that_raise_stops_and_no_other(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_calls, "RAISING_MAX", 2)
    database.sql("CREATE VIEW v AS SELECT id, approx_count_distinct(1 div n) AS d FROM t GROUP BY id;"
                 "CREATE VIEW w AS SELECT id, approx_count_distinct(n) AS d FROM t GROUP BY id")  # fmt: skip
    database.catch_up()
    database.table("t").put_many([{"id": i, "n": 0} for i in range(5)])
    database.catch_up()
    with pytest.raises(ViewBroken, match="more than 2 groups of one batch raise.* create it again"):
        list(database.view("v").scan())
    assert len(list(database.view("w").scan())) == 5


def test_what_spark_said_is_there_after_a_restart_and_another_spark_builds_the_view_anew(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What two versions say must not stand in one view; what is dropped is gone."""
    view = "SELECT g, approx_count_distinct(s) AS d FROM t GROUP BY g"
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.sql(f"{TABLES}; CREATE VIEW v AS {view}; CREATE VIEW w AS SELECT id FROM t")
        database.table("t").put_many([{"id": i, "g": str(i % 3), "s": str(i)} for i in range(9)])
        database.catch_up()
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.table("t").delete(0)
        database.catch_up()
        assert sorted(row["d"] for row in database.view("v").scan()) == [2, 3, 3]
        monkeypatch.setattr(spark_calls, "spark_version", lambda: "9.9.9")
        database.table("t").delete(1)
        database.catch_up()
        assert sorted(row["d"] for row in database.view("v").scan()) == [2, 2, 3]


def test_floats_that_spark_sums_up_in_another_order_are_right(database: Database) -> None:
    """The last bits are chance; not so what is wrong by more."""
    database.sql("CREATE VIEW v AS SELECT g, skewness(x) AS s, kurtosis(n) AS k, count(*) AS c FROM t GROUP BY g;"
                 "CREATE VIEW w AS SELECT sum(x) AS x, sort_array(collect_list(array(n)[0])) AS n FROM t")  # fmt: skip
    chance, table = random.Random(2), database.table("t")
    for _ in range(3):
        table.put_many([{"id": chance.randrange(60), "g": str(chance.randrange(3)), "x": chance.random() * 1e6,
                         "n": chance.randrange(1000)} for _ in range(30)])  # fmt: skip
        database.catch_up()
    assert [(each.view, each.differing) for each in database.check_all() if not each.ok] == []
    view = database._newest.version().catalog.views[0]
    found = database.view("v").to_arrow()
    almost = [value * (1 + 1e-12) for value in found.column("s").to_pylist()]
    off = [value * (1 + 1e-6) for value in found.column("s").to_pylist()]
    assert view.asked is not None
    for values, equal in ((almost, True), (off, False)):
        other = found.set_column(found.column_names.index("s"), "s", [pa.array(values)])
        assert compared_as_rounded(view.asked, other, found).equal == equal
    assert not compared_as_rounded("SELECT g, x AS s FROM t", other, found).equal


@pytest.mark.parametrize("off, equal", [(-2.4e-15, True), (1e-6, False)])
def test_what_rounding_leaves_of_a_skewness_of_0_is_right(off: float, equal: bool) -> None:
    one, other = (pa.table({"g": ["a", None], "s": [value, 0.5]}) for value in (4e-15, off))
    assert compared_as_rounded("SELECT g, skewness(x) AS s FROM t GROUP BY g", one, other).equal == equal
    assert not compared_as_rounded("SELECT g, sum(x) AS s FROM t GROUP BY g", one, other).equal


def test_explain_says_that_spark_is_asked_for_the_touched_groups(database: Database) -> None:
    text = "CREATE VIEW v AS SELECT g, kurtosis(n) AS k FROM t GROUP BY g"
    lines = [row["plan"] for row in database.sql(f"EXPLAIN {text}")]
    (groups,) = [line for line in lines if line.startswith("  SPARK GROUPS")]
    assert "[by key] kurtosis(n) of all rows of the groups that a batch touches in REVERSE-JOIN" in groups
    assert lines[-1].startswith("falls back: SPARK GROUPS") and "no kernel knows kurtosis" in lines[-1]
    assert any("reads all rows of its group in REVERSE-JOIN" in line for line in lines)


@pytest.mark.parametrize("query, reason", [
    ("SELECT g, approx_count_distinct(1) AS d FROM t GROUP BY g", "a call without columns"),
    ("SELECT approx_count_distinct(name) OVER (ORDER BY g, name ROWS 1 PRECEDING) AS d, g FROM u", "no key tells"),
    ("SELECT collect_list(name) OVER (ORDER BY g, name) AS d, g, name FROM u", "no key tells apart"),
    ("SELECT id, kurtosis(n) OVER (ORDER BY id, make_dt_interval(n)) AS d FROM t", "an order of intervals"),
    ("SELECT id, kurtosis(n) OVER (ORDER BY n RANGE BETWEEN 2 * 1 PRECEDING AND CURRENT ROW) AS d FROM t", "a bound"),
    ("SELECT id, (SELECT kurtosis(i.n) FROM t AS i WHERE i.n < t.n) AS d FROM t", "by more than equalities"),
])  # fmt: skip
def test_what_is_left_to_spark_as_a_whole(database: Database, query: str, reason: str) -> None:
    """EXPLAIN says why."""
    plan = "\n".join(row["plan"] for row in database.sql(f"EXPLAIN CREATE VIEW v AS {query}"))
    assert "  SPARK " in plan and "SPARK GROUPS" not in plan and reason in plan


def test_a_frame_whose_rows_are_chance_is_refused(database: Database) -> None:
    for call in ("kurtosis(n) OVER (ORDER BY n ROWS 1 PRECEDING)", "collect_list(n) OVER (PARTITION BY g ORDER BY n)"):
        with pytest.raises(DeclarationError, match=r"depends on the order of rows .* such as id"):
            database.sql(f"CREATE VIEW v AS SELECT id, {call} AS d FROM t")


@pytest.mark.parametrize(
    "call",
    ["first(s)", "collect_list(s)", "array_join(collect_set(s), '')", "any_value(n)", "histogram_numeric(n, 3)"],
)
def test_what_takes_rows_in_the_order_of_chance_is_refused(database: Database, call: str) -> None:
    with pytest.raises(DeclarationError, match="is chance|how Spark splits the rows"):
        database.sql(f"CREATE VIEW v AS SELECT g, {call} AS v FROM t GROUP BY g")


def test_what_spark_says_of_a_subquery_that_no_row_asks_for_is_not_taken_for_the_answer(database: Database) -> None:
    """Spark runs it all the same, and raises; as the query is written, it is not reached."""
    few = "(SELECT approx_count_distinct(s) FROM t) AS n, (SELECT id FROM t) AS one"
    database.sql(f"CREATE VIEW v AS SELECT id, {few} FROM t WHERE id < (SELECT min(id) FROM t WHERE id > 5)")
    database.table("t").put_many([{"id": 1}, {"id": 2}])
    database.catch_up()
    report = database.check("v")
    assert list(database.view("v").rows()) == []
    assert report.verdict == "not judged" and "runs subqueries that no row asks for" in report.unjudged[0]
