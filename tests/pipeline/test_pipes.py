"""Queries of pipes: each operator of Spark's, alone and behind others, as views and read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import viewkeeper
from viewkeeper import Database, DeclarationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KEPT = [
    "FROM s |> WHERE n > 0 |> EXTEND n + 1 AS m |> SET g = upper(g) |> DROP n |> AS q |> SELECT q.k, q.m, q.g",
    "FROM s |> ORDER BY n DESC NULLS LAST |> LIMIT 3",
    "FROM s |> ORDER BY n |> OFFSET 1 |> LIMIT 4 OFFSET 1",
    "FROM s |> ORDER BY n, k |> LIMIT 3 |> EXTEND 1 AS a, 2 AS b, 3 AS c |> SELECT k, a, b, c",
    "FROM s |> SELECT g, n |> ORDER BY n, g |> LIMIT 3 |> AGGREGATE sum(n) AS n GROUP BY g |> ORDER BY n |> LIMIT 2",
    "FROM s |> AGGREGATE count(*) AS c, max(n) AS top GROUP BY g |> WHERE c > 1 |> ORDER BY top |> LIMIT 1",
    "FROM s |> LEFT JOIN u ON s.n = u.id |> SELECT s.k, u.id |> UNION ALL SELECT 1, 2 |> EXCEPT SELECT 2, 3",
    "FROM s |> SELECT g, n |> PIVOT (sum(n) FOR g IN ('a', 'b')) |> UNPIVOT (v FOR name IN (a, b))",
    "SELECT * FROM (FROM s |> ORDER BY k DESC |> LIMIT 2) JOIN u ON id = n",
]


@pytest.fixture
def db(tmp_path: Path, spark: SparkSession) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.sql("CREATE TABLE s (k BIGINT PRIMARY KEY, g STRING, n INT); CREATE TABLE u (id INT PRIMARY KEY)")
        database.table("s").put_many({"k": k, "g": "ab"[k % 2], "n": k % 3 or None} for k in range(1, 9))
        database.table("u").put_many({"id": i} for i in range(3))
        yield database


def test_pipes_are_kept_and_read(db: Database) -> None:
    db.sql(";".join(f"CREATE VIEW v{i} AS {query}" for i, query in enumerate(KEPT)))
    for change in (lambda: None, lambda: db.sql("UPDATE s SET n = k WHERE k < 4; DELETE FROM s WHERE k IN (5, 8)")):
        change()
        db.catch_up()
        assert [str(report) for report in db.check_all() if not report.ok] == []
        for i, query in enumerate(KEPT):
            assert len(list(db.sql(query))) == len(list(db.view(f"v{i}").rows())) > 0


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("FROM s |> ORDER BY n |> LIMIT 3 |> SELECT k", "ORDER BY finds equal; add columns.*such as k"),
        ("FROM s |> LIMIT 3", "LIMIT without ORDER BY"),
        ("FROM s |> ORDER BY k |> WHERE n > 1 |> TABLESAMPLE (5 PERCENT)", "tablesample cannot stand"),
        ("FROM s |> EXTEND nothing + 1 AS a", r"nothing.*column 35"),
    ],
)
def test_what_is_not_determined_is_refused(db: Database, query: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        db.sql(f"CREATE VIEW v AS {query}")
