"""Views whose query Spark answers as a whole: their rows are its answer after every batch, and nobody else minds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import viewkeeper
from bags import bag
from viewkeeper.catalog.model import Catalog, Column
from viewkeeper.catalog.types import BIGINT, STRING
from viewkeeper.database import Database
from viewkeeper.errors import DeclarationError, NotSupported, ViewBroken
from viewkeeper.pipeline import batches, fills
from viewkeeper.pipeline.declare_script import declared_anew, run
from viewkeeper.plans.maintenance import plan_of
from viewkeeper.spark.sessions import active

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLES = """
CREATE TABLE orders (id INT, customer INT, price DECIMAL(9, 2), note STRING, at TIMESTAMP, PRIMARY KEY (id));
CREATE TABLE customers (id INT, name STRING, PRIMARY KEY (id));
CREATE TABLE events (kind STRING, n INT);
"""

SHAPES = {
    "orders": {"id": "INT", "customer": "INT", "price": "DECIMAL(9, 2)", "note": "STRING", "at": "TIMESTAMP"},
    "customers": {"id": "INT", "name": "STRING"}, "events": {"kind": "STRING", "n": "INT"},
}  # fmt: skip

QUERIES = {
    "soundexes": "SELECT soundex(note) AS s, count(*) AS n, max_by(note, id) AS last FROM orders "
                 "GROUP BY soundex(note)",
    "words": "SELECT id, word FROM orders LATERAL VIEW explode(split(note, ' ')) e AS word",
    "nth": "SELECT id, customer, nth_value(note, 2) OVER (PARTITION BY customer ORDER BY id) AS second FROM orders",
    "levels": "SELECT coalesce(name, '?') AS name, grouping(name) AS g, sum(price) AS total FROM orders o "
              "LEFT JOIN customers c ON o.customer = c.id GROUP BY ROLLUP (name)",
    "dearest": "SELECT id, price FROM orders WHERE price > (SELECT avg(price) FROM orders) ORDER BY price DESC LIMIT 3",
    "pivoted": "SELECT * FROM (SELECT kind, n FROM events) PIVOT (sum(n) FOR kind IN ('a' AS a, 'b' AS b))",
    "nothing": "SELECT bit_count(7) AS bits, 'x' AS x",
    "listed": "SELECT customer, array_join(sort_array(collect_list(note)), '|') AS notes FROM orders GROUP BY customer",
    "hours": "SELECT date_format(at, 'HH') AS hour, approx_count_distinct(id) AS middle FROM orders "
             "GROUP BY date_format(at, 'HH')",
}  # fmt: skip

OVER_THEM = {
    "counted": "SELECT s, n FROM soundexes WHERE n > 1",
    "known": "SELECT c.name, l.total FROM customers c JOIN levels l ON c.name = l.name",
    "again": "SELECT s, percentile_cont(0.5) WITHIN GROUP (ORDER BY n) AS middle FROM counted GROUP BY s",
}


def view_texts(queries: dict[str, str]) -> str:
    return ";".join(f"CREATE VIEW {name} AS {query}" for name, query in queries.items())


class Written:
    """A database, and its tables as plain lists of what was put."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.rows: dict[str, dict[Any, dict[str, Any]]] = {"orders": {}, "customers": {}}
        self.events: list[dict[str, Any]] = []

    def change(self, chance: random.Random, operations: int) -> None:
        for _ in range(operations):
            table = chance.choice(["orders", "orders", "customers", "events"])
            if table == "events":
                row = {"kind": chance.choice(["a", "b", "c", None]), "n": chance.randrange(-2, 5)}
                self.events.append(row)
                self.database.table("events").put(row)
                continue
            for _ in range(chance.randrange(1, 4)):  # several on one key
                key = chance.randrange(6)
                if chance.random() < 0.35:
                    self.rows[table].pop(key, None)
                    self.database.table(table).delete(key)
                else:
                    row = {"id": key, **self._columns(table, chance)}
                    self.rows[table][key] = {**self.rows[table].get(key, {}), **row}
                    self.database.table(table).put(row)

    @staticmethod
    def _columns(table: str, chance: random.Random) -> dict[str, Any]:
        if table == "customers":
            return {"name": chance.choice(["Ann", "Bob", None])}
        return {
            "customer": chance.choice([1, 2, 3, None]), "price": chance.choice(["1.50", "2.50", "0.00", None]),
            "note": chance.choice(["robert", "rupert", "a b", "", None, "tymczak \U0001f600"]),
            "at": chance.choice(["2024-03-31T00:30:00", "2024-03-31T05:00:00", None]),
        }  # fmt: skip

    def expected(self, spark: SparkSession, queries: dict[str, str]) -> dict[str, Any]:
        """The answers of a session of the test's own over the rows that were put; each query may name those before."""
        rows = {**{name: list(by_key.values()) for name, by_key in self.rows.items()}, "events": self.events}
        asked = repr((rows, queries))
        if asked not in _ANSWERS:
            session = spark.newSession()
            session.conf.set("spark.sql.ansi.enabled", "true")
            session.conf.set("spark.sql.session.timeZone", "UTC")
            answers: dict[str, Any] = {}
            with active(session):
                for name, types in SHAPES.items():
                    texts = {column: [_text(row.get(column)) for row in rows[name]] for column in types}
                    frame = session.createDataFrame(pa.table({c: pa.array(t, pa.string()) for c, t in texts.items()}))
                    casts = [f"CAST({column} AS {type_}) AS {column}" for column, type_ in types.items()]
                    frame.selectExpr(*casts).createOrReplaceTempView(name)
                for name, query in queries.items():
                    frame = session.sql(query)
                    frame.createOrReplaceTempView(name)
                    answers[name] = bag(tuple(row) for row in frame.collect())
            _ANSWERS[asked] = answers
        return _ANSWERS[asked]

    def wrong(self, spark: SparkSession, queries: dict[str, str]) -> list[str]:
        """The views whose rows are not their query's answer."""
        expected = self.expected(spark, queries)
        found = {name: bag(tuple(_naive(value) for value in row.values()) for row in self.database.view(name).scan())
                 for name in queries}  # fmt: skip
        return [name for name in queries if found[name] != expected[name]]


_ANSWERS: dict[str, dict[str, Any]] = {}
"""Spark's answers by rows and queries: the tests whose views are kept in two ways write the same rows."""


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _naive(value: Any) -> Any:
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") and value.tzinfo is not None else value


@pytest.fixture
def database(spark: SparkSession, tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.sql(TABLES)
        yield database


@pytest.mark.parametrize("staged", [False, True])
def test_what_spark_answers_is_its_answer_after_every_batch(
    spark: SparkSession, database: Database, monkeypatch: pytest.MonkeyPatch, staged: bool
) -> None:
    """Inserts, updates, deletes and re-inserts, several on one key; views declared before and after the data, over
    tables, over one another and over what our own operators keep; in one task, and in stages of two servers."""
    if staged:
        monkeypatch.setattr(batches, "CHAINED_MAX", 0)
        monkeypatch.setattr(fills, "CHAINED_MAX", 0)
    written, chance = Written(database), random.Random(7)
    early = dict(list(QUERIES.items())[:6])
    database.sql(view_texts(early))
    written.change(chance, 25)
    database.catch_up()
    assert written.wrong(spark, early) == []
    database.sql(view_texts({**{n: q for n, q in QUERIES.items() if n not in early}, **OVER_THEM}))
    for _ in range(3):
        written.change(chance, 12)
        database.catch_up()
        assert written.wrong(spark, {**QUERIES, **OVER_THEM}) == []
    assert [report.view for report in database.check_all() if not report.ok] == []


def test_views_are_filled_over_tables_without_rows(spark: SparkSession, database: Database) -> None:
    one = "SELECT count(DISTINCT kind, n) + bit_count(3) AS n FROM events"
    database.sql(view_texts({**QUERIES, "one": one}))
    database.catch_up()
    assert Written(database).wrong(spark, QUERIES) == []
    assert list(database.view("one").scan()) == [{"n": 2}]


def test_a_query_that_raises_breaks_what_reads_it_and_nothing_else(spark: SparkSession, database: Database) -> None:
    """An error row for as long as the row is there, its class and place told; then the view is whole again."""
    ratios = "SELECT soundex(kind) AS s, sum(10 DIV n) AS r FROM events GROUP BY soundex(kind)"
    beside = "SELECT count(*) AS n FROM events"
    database.sql(view_texts({"ratios": ratios, "over_it": "SELECT s FROM ratios", "beside": beside}))
    events = database.table("events")
    events.put({"kind": "a", "n": 5})
    database.catch_up()
    assert [row["s"] for row in database.view("over_it").scan()] == ["A000"]
    for _ in range(2):
        events.put({"kind": "b", "n": 0})
        database.catch_up()
        for name in ("ratios", "over_it"):
            with pytest.raises(ViewBroken, match="DIVIDE_BY_ZERO at 1:"):
                list(database.view(name).scan())
        assert list(database.view("beside").scan()) == [{"n": 2}]
        assert all(report.ok for report in database.check_all())
        events.delete({"kind": "b", "n": 0})
        database.catch_up()
        assert [row["s"] for row in database.view("over_it").scan()] == ["A000"]
    assert [str(report) for report in database.check_all() if not report.ok] == []


def test_what_is_kept_so_goes_when_its_view_is_dropped(spark: SparkSession, database: Database) -> None:
    database.table("events").put_many([{"kind": "a", "n": i} for i in range(5)])
    database.catch_up()
    before = set(database._newest.version().snapshot.states)
    database.sql(view_texts({"soundexes": QUERIES["soundexes"], "pivoted": QUERIES["pivoted"]}))
    database.catch_up()
    assert len(set(database._newest.version().snapshot.states) - before) >= 2
    database.sql("DROP VIEW soundexes; DROP VIEW pivoted")
    database.catch_up()
    assert set(database._newest.version().snapshot.states) == before


@pytest.mark.parametrize("query, what", [
    ("SELECT id, soundex(note), rand() AS r FROM orders", "rand cannot stand in a view"),
    ("SELECT id, soundex(note) AS s, current_timestamp() AS now FROM orders", "current_timestamp cannot"),
    ("SELECT soundex(note) AS s FROM orders LIMIT 2", "without ORDER BY"),
    ("SELECT * FROM (SELECT price FROM orders ORDER BY price LIMIT 2) JOIN (SELECT customer FROM orders ORDER BY price "
     "LIMIT 1) ON soundex('a') = 'A000'", "LIMIT depends on the order"),
    ("SELECT id, row_number() OVER (PARTITION BY customer ORDER BY array(note, 'x')[0], price) AS r FROM orders",
     "row_number OVER .* such as id"),
    ("SELECT id, lag(note) OVER (ORDER BY price) AS r, array(note, 'x')[0] AS s FROM orders", "depends on the order"),
    ("SELECT soundex(nowhere) AS s FROM orders", "nowhere"),
    ("SELECT soundex(note) AS s FROM missing", "there is no table or view missing"),
    ("SELECT frobnicate(note) AS s FROM orders", "frobnicate"),
    ("SELECT soundex(note) AS s, soundex(note) AS S FROM orders", "two outputs are called"),
])  # fmt: skip
def test_what_is_not_determined_is_refused_with_the_reason(
    spark: SparkSession, database: Database, query: str, what: str
) -> None:
    with pytest.raises(DeclarationError, match=what) as caught:
        database.sql(f"\n  CREATE VIEW v AS {query}")
    assert caught.value.line == 2
    with pytest.raises(viewkeeper.NotFound):
        database.view("v")


def test_explain_says_that_spark_is_asked_and_why(spark: SparkSession, database: Database) -> None:
    text = f"CREATE VIEW pivots AS {QUERIES['pivoted']}"
    lines = [row["plan"] for row in database.sql(f"EXPLAIN {text}")]
    database.sql(text)
    assert [row["plan"] for row in database.sql("EXPLAIN VIEW pivots")][1:] == lines[1:]
    (asked,) = [line for line in lines if line.startswith("  SPARK")]
    assert "events has changed" in asked and "PIVOT" in asked.upper()
    assert lines[-1].startswith("falls back: SPARK")


def test_a_batch_that_changes_nothing_that_it_reads_asks_nobody(spark: SparkSession, database: Database) -> None:
    database.sql("CREATE VIEW pivoted AS " + QUERIES["pivoted"])
    database.catch_up()
    context = spark.sparkContext
    database.table("orders").put({"id": 1})
    before = len(context.statusTracker().getJobIdsForGroup(None))
    database.catch_up()
    assert len(context.statusTracker().getJobIdsForGroup(None)) == before + 1


def test_without_spark_the_view_is_refused(tmp_path: Path) -> None:
    from pipeline_database import Shop

    with pytest.raises(NotSupported, match="soundex is not supported"):
        Shop(tmp_path).declare("CREATE VIEW v AS SELECT soundex(note) AS s FROM orders")


class Said:
    """Stands for Spark's analysis: whatever query is asked has these columns, and calls are computed, or not."""

    def __init__(self, computed: bool) -> None:
        self.computed = computed

    def columns(self, sql: str, *more: object) -> tuple[Column, ...]:
        if "outside rows" not in sql:
            return (Column("s", STRING), Column("n", BIGINT, False))
        if not self.computed:
            raise DeclarationError("no")
        return (Column("value", STRING),)


@pytest.mark.parametrize("computed", [False, True])
def test_a_view_that_waits_is_declared_anew_without_asking_again(computed: bool) -> None:
    """Its LIMIT as settled as before, whether Spark answers it as a whole or computes a call of it."""
    query = "SELECT soundex(note) AS s, count(*) AS n FROM orders GROUP BY 1 ORDER BY n LIMIT 3"
    declared = run(Catalog(), TABLES + f"CREATE VIEW v AS {query}", Said(computed)).catalog
    again = declared_anew(declared)
    before, after = (catalog.views[0] for catalog in (declared, again))
    assert (after.id, after.columns, after.asked) == (before.id, before.columns, before.asked)
    titles = [[operator.title for operator in plan_of(catalog).operators] for catalog in (declared, again)]
    assert titles[0] == titles[1] and ("MEMO" in titles[0]) == computed
    assert after.asked == query.replace("ORDER BY n LIMIT", "ORDER BY n, 1, 2 LIMIT")
