"""Views of every kind of relation in a database, judged by Spark itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import viewkeeper
from local_maintenance import catch_up
from oracle.model import Operation
from three_tables import BATCHES, QUERIES, TABLES
from viewkeeper import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def written(db: Database, operation: Operation) -> None:
    table = db.table(operation.table)
    if operation.kind == "put_many":
        table.put_many(list(operation.rows))
    else:
        for row in operation.rows:
            table.delete(row if operation.table == "c" else row["id"])


def test_constants_are_there_without_any_row(tmp_path: Path) -> None:
    """Also behind an operator of a later zone, and where all tables are empty."""
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql("""CREATE TABLE t (id INT PRIMARY KEY); CREATE VIEW one AS SELECT 1 AS x;
                  CREATE VIEW counted AS SELECT x, count(*) AS n FROM VALUES (1), (2), (1) AS v(x) GROUP BY x;
                  CREATE VIEW both AS SELECT id FROM t UNION ALL SELECT x FROM counted""")
        catch_up(db)
        assert list(db.view("one").scan()) == [{"x": 1}]
        assert sorted(row["n"] for row in db.view("counted").scan()) == [1, 2]
        db.table("t").put({"id": 1})
        catch_up(db)
        assert sorted(row["id"] for row in db.view("both").scan()) == [1, 1, 2]
        assert list(db.sql("SELECT count(*) AS n FROM (VALUES (1), (2)) UNION SELECT 2")) == [{"n": 2}]


@pytest.mark.spark
def test_spark_says_the_same_of_every_view(tmp_path: Path, spark: SparkSession) -> None:
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql("; ".join([*TABLES, *(f"CREATE VIEW v{i} AS {query}" for i, query in enumerate(QUERIES))]))
        for number, batch in enumerate(BATCHES):
            for operation in batch:
                written(db, operation)
            if number == 4:
                catch_up(db)
                for report in db.check_all():
                    report.raise_if_wrong()
