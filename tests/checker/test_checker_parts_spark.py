"""The check of views over streams with Spark as the judge, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import viewkeeper
from checked_database import BASE, ROWS, START, VIEWS, CheckedDatabase, changed, doubled
from stream_database import moment
from viewkeeper import Database
from viewkeeper.cli import cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FIRST = START // 60
TIMED = {
    "last_two": """INITIALIZE last_two[i] AS SELECT * FROM m[i] WHERE x > 0
        UPDATE last_two[j] AS WITH u AS (SELECT * FROM m[j-1..j] AS r WHERE r.PART_TIMESTAMP > DATE '1970-01-01')
        SELECT * FROM u -- all of it
        PARTITION LENGTH 60""",
    "floats": """INITIALIZE floats[i] AS SELECT g, sum(w) AS s, avg(w) AS a, PART_TIMESTAMP AS at FROM m[i]
            GROUP BY g, PART_TIMESTAMP
        UPDATE floats[j] AS SELECT g, sum(w), avg(w), PART_TIMESTAMP FROM m[j] GROUP BY g, PART_TIMESTAMP
        PARTITION LENGTH 60""",
}
KINDS = {name: query for name, query in VIEWS.items() if name not in ("longest", "all_rows")} | TIMED


def send(db: Database, rows: list[tuple[Any, ...]]) -> None:
    timed = [(moment(START + at), *rest) for at, *rest in rows]
    db.stream("m").append([dict(zip(("ts", "g", "x", "w"), row, strict=True)) for row in timed])
    db.stream("n").append([dict(zip(("ts", "g", "y"), row, strict=False)) for row in timed])
    db.catch_up()


def test_spark_finds_every_kind_of_view_right_and_planted_faults_wrong(tmp_path: Path, spark: SparkSession) -> None:
    """Right after rows, late rows and a changed dimension; a wrong row is found by db.check and by the command line."""
    with viewkeeper.connect(tmp_path, nodes=1) as db:
        db.sql(BASE + ";".join(f"CREATE VIEW {name} AS {query}" for name, query in KINDS.items()))
        db.sql("CREATE VIEW by_site_now AS SELECT site, count(*) AS n FROM hosts GROUP BY site")
        db.table("hosts").put_many([{"g": g, "site": "north"} for g in "ab"])
        db.catch_up()
        send(db, ROWS[:10])
        db.table("hosts").put({"g": "b", "site": "south"})
        send(db, [(-70, "a", 2, 0.5), (62, "b", 3, 0.25), (250, "a", 1, 1.0), (430, "a", 1, 1.0)])
        told: list[tuple[str, int, int]] = []
        reports = db.check_all(progress=lambda *told_: told.append(told_))
        assert [str(report) for report in reports if not report.ok] == []
        assert [report.view for report in reports] == ["by_site_now", "m", "n", *KINDS]
        assert [str(report) for report in reports if report.unjudged] == []
        assert {name for name, _, _ in told} == {"m", "n", *KINDS}
        assert "spark" in db.check("sums").judge
    planted = CheckedDatabase(tmp_path)
    faulty = {"streak": doubled, "sums": changed, "sites": doubled, "last_two": doubled, "floats": changed}
    for name, fault in faulty.items():
        planted.plant(name, FIRST + 3, fault)
    planted.close()
    result = CliRunner().invoke(cli, ["check", "--db", str(tmp_path), "--json"])
    assert result.exit_code == 1
    found = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert {each["view"] for each in found if each["verdict"] == "wrong"} == set(faulty)
    assert {each["differing"][0]["row"]["__part"] for each in found if each["verdict"] == "wrong"} == {FIRST + 3}
