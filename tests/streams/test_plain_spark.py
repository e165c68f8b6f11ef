"""Plain views over a stream whose expressions and joins only Spark knows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import viewkeeper
from bags import bag
from viewkeeper.errors import DeclarationError
from viewkeeper.streams import own_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DECLARED = """
CREATE STREAM m (ts TIMESTAMP NOT NULL, src STRING, loss INT) TIMESTAMP BY ts PARTITION LENGTH 60;
CREATE TABLE hosts (name STRING, site STRING, PRIMARY KEY (name));
"""
QUERIES = {
    "functions": "SELECT date_trunc('HOUR', ts) AS hour, upper(src) AS src, CAST(loss AS STRING) AS loss FROM m "
                 "WHERE src LIKE 'h%' AND NOT loss IN (3, 4)",
    "outer_join": "SELECT m.src, loss, coalesce(site, 'nowhere') AS site FROM m LEFT JOIN hosts h ON m.src = h.name",
    "turned": "SELECT m.src, site FROM hosts h RIGHT JOIN m ON m.src = h.name AND loss > 2",
    "known": "SELECT src, loss FROM m LEFT SEMI JOIN hosts h ON m.src = h.name",
    "unknown": "SELECT src, loss FROM m WHERE NOT EXISTS (SELECT 1 FROM hosts h WHERE h.name = m.src)",
    "subquery": "SELECT src, (SELECT count(*) FROM hosts) AS hosts FROM m WHERE src IN (SELECT name FROM hosts)",
    "exploded": "SELECT src, each FROM m LATERAL VIEW explode(split(src, '')) t AS each",
    "common": "WITH high AS (SELECT src, loss FROM m WHERE loss > 2), d AS (SELECT DISTINCT site, name FROM hosts) "
              "SELECT src, loss % 2 AS odd, site FROM high JOIN d ON src = name",
    "counted": "SELECT src, n FROM m JOIN (SELECT site, max(name) AS name, count(*) AS n FROM hosts GROUP BY site) d "
               "ON src = name",
    "hinted": "SELECT /*+ REPARTITION(3), BROADCAST(h) */ upper(src) AS src, site FROM m JOIN hosts h ON src = name",
    "timed": "SELECT PART_TIMESTAMP AS part, timestampdiff(SECOND, PART_TIMESTAMP, ts) AS behind FROM m",
}  # fmt: skip
"""Views that Spark SQL computes."""

OWN = {
    "all_of_it": "SELECT * FROM m",
    "chosen": "SELECT loss * 2 + 1 AS x, src, loss IS NULL AS unknown, ts FROM m WHERE loss > 2 OR src = 'h3'",
    "joined": "SELECT m.src, site, loss FROM m JOIN hosts h ON m.src = h.name AND (loss > 2 OR site = 'south')",
    "nested": "SELECT x + 1, y FROM (SELECT loss % 2 AS x, src AS y FROM m WHERE src IN ('h1', 'h2')) s WHERE x = 1",
    "own_time": "SELECT PART_TIMESTAMP AS part, ts FROM m WHERE PART_TIMESTAMP < TIMESTAMP '2015-01-01 00:20:00'",
}
"""Views that our own operators compute, where there are not too many rows."""


@pytest.mark.parametrize("own_rows", [own_queries.OWN_ROWS, 0], ids=["own operators", "Spark alone"])
def test_a_plain_views_parts_together_are_its_query_over_the_whole_stream(
    spark: SparkSession, tmp_path: Path, own_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With late rows for parts that are built, a gap, and whatever Spark knows in the query; each part of each view is
    a query of Spark, so that there are few."""
    monkeypatch.setattr(own_queries, "OWN_ROWS", own_rows)
    queries = {**QUERIES, **OWN} if own_rows else OWN
    db, chance = viewkeeper.connect(tmp_path), random.Random(101)
    db.sql(DECLARED)
    db.table("hosts").put_many([{"name": "h1", "site": "north"}, {"name": "h2", "site": "north"}])
    db.sql(";".join(f"CREATE VIEW {name} AS {query}" for name, query in queries.items()))
    at, there, rebuilt = 0, set[int](), set[int]()
    for _ in range(2):
        rows, built = [], max(there, default=0)
        for _ in range(8):
            at += chance.choice([1, 5, 10, 90])
            late = max(at - chance.choice([0, 0, 70, 150]), 0)
            there.add(late // 60)
            rebuilt |= {late // 60} & set(range(built))
            rows.append(
                {
                    "ts": f"2015-01-01 {late // 3600:02}:{late // 60 % 60:02}:{late % 60:02}",
                    "src": chance.choice(["h1", "h2", "h3", None]),
                    "loss": chance.choice([1, 2, 3, 4, 5, None]),
                }
            )
        db.stream("m").append(rows)
        db.catch_up()
        for name, query in queries.items():
            kept = bag(row.values() for row in db.sql(f"SELECT * FROM {name}"))
            asked = bag(row.values() for row in db.sql(query, engine="spark"))
            assert kept == asked and kept, name
    assert len(rebuilt) == 2 and not there.issuperset(range(max(there))), "late rows for built parts, and a gap"
    assert {each.verdict for each in db.check_all(queries)} == {"right"}
    db.close()


TOGETHER = {
    "distinct": "SELECT DISTINCT src FROM m",
    "numbered": "SELECT src, row_number() OVER (ORDER BY ts, src, loss) AS n FROM m",
    "first": "SELECT upper(src) AS src FROM m ORDER BY ts, src LIMIT 3",
    "asked": "SELECT name FROM hosts WHERE name IN (SELECT src FROM m)",
    "optional": "SELECT site, src FROM hosts LEFT JOIN m ON src = name",
    "full": "SELECT site, src FROM m FULL JOIN hosts ON src = name",
    "united": "SELECT src FROM m UNION ALL SELECT name FROM hosts",
    "twice": "WITH a AS (SELECT src FROM m) SELECT a.src FROM a JOIN a AS b ON a.src = b.src",
    "never": "WITH a AS (SELECT src FROM m) SELECT name FROM hosts",
    "within": "WITH a AS (SELECT DISTINCT src FROM m) SELECT * FROM a",
    "greatest": "SELECT max(soundex(src)) AS greatest FROM m",
}


def test_what_takes_rows_of_the_stream_together_is_kept_as_a_whole(spark: SparkSession, tmp_path: Path) -> None:
    """By our own operators, and for a function that they do not know, Spark; equal to Spark's answer."""
    db = viewkeeper.connect(tmp_path)
    db.sql(DECLARED)
    db.table("hosts").put({"name": "h1", "site": "north"})
    db.sql(";".join(f"CREATE VIEW {name} AS {query}" for name, query in TOGETHER.items()))
    for minute, src in enumerate(("h1", "h2", None, "h1")):
        db.stream("m").append([{"ts": f"2015-01-01 00:{minute:02}:00", "src": src, "loss": minute}])
    db.catch_up()
    db.table("hosts").put({"name": "h2", "site": "south"})
    db.stream("m").append([{"ts": "2015-01-01 00:00:30", "src": "h3", "loss": None}])
    db.catch_up()
    reports = db.check_all(list(TOGETHER))
    assert [report.view for report in reports if report.verdict != "right"] == [], reports
    assert {report.judge for report in reports if report.view != "m"} == {"spark"}
    db.close()


def test_other_mistakes_are_said_with_their_place(spark: SparkSession, tmp_path: Path) -> None:
    """What Spark does not know, what changes, a NULL without a type, names that do not fit."""
    db = viewkeeper.connect(tmp_path)
    db.sql(DECLARED)
    for query, message in {
        "SELECT upperr(src) FROM m": "`upperr`", "SELECT soundex(sr) FROM m": "`sr`", "SELECT uuid() FROM m": "uuid",
        "SELECT now() AS n, src FROM m": "now", "SELECT NULL AS n, soundex(src) FROM m": "has no type; write CAST",
        "SELECT soundex(src) AS a, src AS A FROM m": "two columns are called",
        "SELECT soundex(src) FROM m JOIN host ON src = name": "no stream, view or table host",
        "SELECT /*+ STRATEGY(merge) */ src FROM m": r"STRATEGY is for views with",
        "WITH m AS (SELECT name AS src FROM hosts) SELECT rand() FROM m": "rand cannot stand in a view",
    }.items():  # fmt: skip
        with pytest.raises(DeclarationError, match=message) as refused:
            db.sql(f"CREATE VIEW v AS {query}")
        assert refused.value.line == 1, query
    with pytest.raises(DeclarationError, match="names 2 columns, and its query has 1"):
        db.sql("CREATE VIEW v (a, b) AS SELECT upper(src) FROM m")
    db.sql("CREATE VIEW v (a) AS SELECT upper(src) FROM m")
    with pytest.raises(DeclarationError, match="v cannot be made of itself"):
        db.sql("ALTER VIEW v AS SELECT a FROM v")
    assert db.sql("DESCRIBE v").to_arrow().column(0)[0].as_py() == "a"
    db.close()


def test_what_raises_and_what_does_not_is_sparks_word(spark: SparkSession, tmp_path: Path) -> None:
    """A column that nobody uses is not computed; a condition over a join is tested of rows that match nothing, too; the
    place of a failure is that in the query as it was written."""
    db = viewkeeper.connect(tmp_path)
    db.sql(DECLARED)
    db.sql("CREATE VIEW unused AS SELECT src FROM (SELECT 10 / loss AS x, src FROM m) t;"
           "CREATE VIEW joined AS SELECT src, site FROM m JOIN hosts ON src = name AND 10 / loss > 1;"
           "CREATE VIEW divided AS SELECT src FROM m WHERE upper(src) = 'A' AND 10 / loss > 1")  # fmt: skip
    db.table("hosts").put({"name": "h1", "site": "north"})
    db.stream("m").append([{"ts": "2015-01-01 00:00:00", "src": src, "loss": loss}
                           for src, loss in (("a", 0), ("h1", 2))])  # fmt: skip
    db.stream("m").seal(db.stream("m").subscript_at("2015-01-01 00:00:00"))
    db.catch_up()
    states = {view["name"]: view["state"] for view in db.status()["part_views"]}
    assert states["unused"] == "kept" and len(db.view("unused").part(db.stream("m").newest)) == 2
    assert "DIVIDE_BY_ZERO" in states["joined"]
    assert "DIVIDE_BY_ZERO" in states["divided"] and "(line 1, column 46 of the query)" in states["divided"]
    db.close()
