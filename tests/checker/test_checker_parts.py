"""The check of streams and of views over them: what is right passes, and whatever is wrong is found, by its part."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import local_maintenance
import viewkeeper
from checked_database import BASE, START, VIEWS, CheckedDatabase, DuckJudge, changed, doubled, filled, without_first
from stream_database import moment
from viewkeeper.checker.part_check import check_parts
from viewkeeper.errors import CheckFailed, NotFound
from viewkeeper.evidence import PartEvidence
from viewkeeper.streams.blocks import Block
from viewkeeper.trace.local_disk import local_storage
from viewkeeper.views.version import Version

FIRST = START // 60
NUMBERS = """CREATE VIEW numbers AS INITIALIZE numbers[i] AS SELECT CAST(x AS INT) AS y FROM m[i]
    UPDATE numbers[j] AS SELECT CAST(x AS INT) FROM m[j] PARTITION LENGTH 60 BACKFILL"""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("checked") / "db"
    filled(root).close()
    return root


@pytest.fixture
def database(original: Path, tmp_path: Path) -> Iterator[CheckedDatabase]:
    shutil.copytree(original, tmp_path / "db")
    database = CheckedDatabase(tmp_path / "db")
    yield database
    database.close()


def test_streams_and_views_of_every_kind_are_right(database: CheckedDatabase) -> None:
    """What was kept is found right, part by part, the empty ones included, and each judge says who it is."""
    reports = database.check(judge=DuckJudge())
    assert {name: report.verdict for name, report in reports.items()} == dict.fromkeys(["m", "n", *VIEWS], "right")
    assert not any(report.unjudged or report.stale for report in reports.values())
    assert {name: report.judge for name, report in reports.items()} == {
        "m": "its times", "n": "its times", "streak": "spark", "pairs": "spark", "longest": "spark", "sites": "spark",
        "sums": "spark", "exact": "exact", "by_site": "row by row, spark", "all_rows": "spark", "runs": "row by row",
        "rising": "row by row",
    }  # fmt: skip
    assert (reports["streak"].parts, reports["m"].parts) == (10, 10)
    assert reports["rising"].rows > 0


def test_late_rows_leave_everything_right(database: CheckedDatabase) -> None:
    """After rows for sealed parts, empty ones and ones before the first, and the repairs that follow, all is right."""
    database.send([(-70, "a", 2, 0.5), (62, "b", 3, 0.25), (250, "a", 1, 1.0), (185, "c", 7, 2.0)])
    database.hosts(a="west")
    database.send([(70, "a", 9, 4.0), (720, "a", 1, 1.0)])
    reports = database.check(judge=DuckJudge())
    assert [str(report) for report in reports.values() if report.verdict != "right" or report.unjudged] == []


@pytest.mark.parametrize("name", list(VIEWS))
@pytest.mark.parametrize("fault", [changed, without_first, doubled])
def test_a_fault_in_a_part_is_found(database: CheckedDatabase, name: str, fault: object) -> None:
    """A row that is changed, missing or there twice is found, and the report names its part."""
    view = database.view(name)
    part = database.evidence.with_rows(view, FIRST // 2, FIRST + 11)[0]
    database.plant(name, part, fault)  # type: ignore[arg-type]
    report = database.check(name, judge=DuckJudge())[view.name]
    assert report.verdict == "wrong"
    assert f"{report.differing_rows} rows differ" in report.problem
    assert part in {difference.row["__part"] for difference in report.differing}
    assert f"__part={part}" in str(report)


def test_a_fault_behind_a_repair_is_found(database: CheckedDatabase) -> None:
    """Late rows that came in hide nothing: what is wrong in a repaired part is found, and no more than that."""
    database.send([(62, "b", 3, 0.25), (185, "c", 7, 2.0)])
    for name in ("streak", "sums", "runs"):
        database.plant(name, FIRST + 3, changed)
    reports = database.check(judge=DuckJudge())
    wrong = {name for name, report in reports.items() if report.verdict == "wrong"}
    assert wrong == {"streak", "sums", "runs"}
    assert {name for name, report in reports.items() if report.verdict == "base wrong"} == {"longest"}
    assert reports["longest"].problem == "streak below it is wrong"
    assert {d.row["__part"] for d in reports["sums"].differing} == {FIRST + 3}


def test_rows_where_none_should_be_are_found(database: CheckedDatabase) -> None:
    """A row in an empty part, one in the middle of a gap too, is found in views of every kind."""
    for name in VIEWS:
        view = database.view(name)
        parts = database.evidence.with_rows(view, FIRST // 2, FIRST + 11)
        empty = next((p for p in range(parts[0], parts[-1]) if p not in parts), None)
        if empty is None:
            continue
        there = database.part_block(name, parts[0])
        database.plant(name, empty, lambda nothing, there=there: there)  # type: ignore[misc]
        report = database.check(name, judge=DuckJudge())[name]
        assert (report.verdict, {d.row["__part"] for d in report.differing} >= {empty}) == ("wrong", True), name


def test_a_stream_whose_rows_stand_in_another_part_is_wrong_and_nothing_follows(database: CheckedDatabase) -> None:
    """A row of another minute is shown; views over the stream are told to have a wrong base."""
    other = database.part_block("m", FIRST + 2)
    database.plant("m", FIRST + 1, lambda block: block.concat([block, other]))
    reports = database.check("runs", judge=DuckJudge())
    assert list(reports) == ["m", "runs"]
    assert reports["m"].problem == "1 rows do not lie in the time of their part"
    assert [(d.row["__part"], d.row["x"], d.expected, d.found) for d in reports["m"].differing] == [
        (FIRST + 1, 5, 0, 1)
    ]
    assert (reports["runs"].verdict, reports["runs"].ok) == ("base wrong", False)


@pytest.mark.parametrize("name", ["m", "sites", "sums"])
def test_a_file_that_says_another_part_than_the_part_catalog_is_found(database: CheckedDatabase, name: str) -> None:
    """Spark would skip rows whose file names another part, so that is a fault even where the rows are right."""
    database.plant(name, FIRST + 3, lambda block: block, marked=FIRST + 2)
    report = database.check(name, judge=DuckJudge())[name]
    assert report.verdict == "wrong"
    assert f"in {name}[{FIRST + 3}] stands one of part {FIRST + 2}" in report.problem


def test_a_part_whose_query_raises_is_not_taken_for_right(database: CheckedDatabase) -> None:
    """A part that is there although its query raises is named with the error; the others are still compared."""
    database.declare(NUMBERS)
    database.drive()
    assert database.check("numbers", judge=DuckJudge())["numbers"].ok

    def too_large(block: Block) -> Block:
        columns = [pa.array([2**40] * len(block), pa.int64()) if i == 2 else c for i, c in enumerate(block.columns)]
        return Block(columns, block.hashes)

    database.plant("m", FIRST, too_large)
    database.plant("numbers", FIRST + 1, doubled)
    report = database.check("numbers", judge=DuckJudge())["numbers"]
    assert f"numbers[{FIRST}] is there, and its query raises" in report.problem
    assert "1 rows differ" in report.problem


def test_a_stale_view_is_judged_up_to_where_it_could_be_repaired(database: CheckedDatabase) -> None:
    """A view that is behind says why; parts before the one that was not repaired are right, the others wait."""
    database.declare(NUMBERS)
    database.drive()
    database.send([(130, "a", 2**40, 0.5)])
    report = database.check("numbers", judge=DuckJudge())["numbers"]
    assert (report.verdict, report.parts) == ("right", 2)
    assert report.stale.startswith("numbers is stale: ")
    assert report.unjudged == [f"8 parts, {FIRST + 2} to {FIRST + 9}: they wait to be computed anew"]
    assert "the parts that it has are judged" in str(report)
    database.plant("numbers", FIRST + 1, doubled)
    assert database.check("numbers", judge=DuckJudge())["numbers"].verdict == "wrong"


def test_without_spark_what_the_evaluator_knows_is_judged(database: CheckedDatabase) -> None:
    """With no judge, rows are computed one by one; a view that only Spark can compute is not called right."""
    reports = database.check()
    assert {name for name, report in reports.items() if report.verdict != "right"} == {"streak"}
    assert {name for name, report in reports.items() if report.unjudged} == {"streak"}
    streak = reports["streak"]
    assert (streak.verdict, streak.ok, streak.parts, streak.judge) == ("not judged", False, 0, "none")
    assert any("only Spark can compute them: the function log2" in why for why in streak.unjudged)
    database.plant("sites", FIRST + 1, doubled)
    assert database.check("sites")["sites"].verdict == "wrong"


def test_a_gap_of_a_million_parts_costs_no_query_a_part(tmp_path: Path) -> None:
    """Parts for which no input has rows are alike: one of them is asked for."""
    database = CheckedDatabase(tmp_path)
    views = ("streak", "sites", "sums", "runs")
    database.declare(BASE + ";".join(f"CREATE VIEW {name} AS {VIEWS[name]}" for name in views))
    database.hosts(a="north")
    database.send([(0, "a", 1, 1.0), (60, "a", 2, 1.0), (60_000_000, "a", 1, 1.0), (60_000_060, "b", 1, 1.0)])
    judge = CountingJudge()
    reports = database.check(judge=judge)
    assert all(report.ok for report in reports.values())
    assert (reports["sums"].parts or 0) > 999_000
    assert judge.asked < 20
    database.plant("sums", FIRST + 500_000, lambda nothing: database.part_block("sums", FIRST + 2))
    assert database.check("sums", judge=judge)["sums"].verdict == "wrong"
    database.close()


def test_what_reads_expired_parts_is_not_judged(tmp_path: Path) -> None:
    """Parts that cannot be computed again, since what they read has gone, are told apart; the others are judged."""
    database = CheckedDatabase(tmp_path)
    database.declare(BASE.replace("PARTITION LENGTH 60;", "PARTITION LENGTH 60 HORIZON 120 EXPIRE AFTER 300;"))
    database.declare(";".join(f"CREATE VIEW {name} AS {VIEWS[name]}" for name in ("sites", "sums", "runs", "rising")))
    database.hosts(a="north", b="south")
    for minute in range(12):
        database.send([(60 * minute, "a", minute % 3, 1.0), (60 * minute + 1, "b", minute % 2, 1.0)])
    database.expire()
    reports = database.check(judge=DuckJudge())
    kept = database.evidence.built(database.stream("m")).start
    assert kept > FIRST
    assert not [str(report) for report in reports.values() if report.verdict in ("wrong", "base wrong")]
    assert f"what they read of m before part {kept} has expired" in reports["sites"].unjudged[0]
    assert reports["sites"].parts == FIRST + 11 - kept
    assert reports["sums"].parts == FIRST + 11 - kept - 2
    assert reports["rising"].verdict == reports["runs"].verdict == "not judged"
    database.plant("sites", FIRST + 10, doubled)
    assert database.check("sites", judge=DuckJudge())["sites"].verdict == "wrong"
    database.close()


def test_older_parts_are_judged_by_the_query_that_made_them(database: CheckedDatabase) -> None:
    """After ALTER VIEW each part is computed by the definition that held for it."""
    database.declare(
        f"ALTER VIEW sites FROM {FIRST + 5} AS SELECT m.g, h.site, -m.x AS x FROM m JOIN hosts h ON m.g = h.g"
    )
    before = database.check("sites", judge=DuckJudge())["sites"]
    assert (before.verdict, before.parts) == ("right", 5)
    assert "they wait to be computed anew" in before.unjudged[0]
    database.drive()
    report = database.check("sites", judge=DuckJudge())["sites"]
    assert (report.verdict, report.unjudged) == ("right", [])
    database.plant("sites", FIRST + 7, changed)
    assert database.check("sites", judge=DuckJudge())["sites"].verdict == "wrong"


def test_names_that_are_nothing_are_refused_and_a_report_is_plain_data(database: CheckedDatabase) -> None:
    """A check of what is not there says so; a report can be written as JSON with the part of each differing row."""
    with pytest.raises(NotFound, match="there is no view or stream nothing"):
        database.check("nothing")
    database.plant("runs", FIRST + 3, without_first)
    report = database.check("runs")["runs"]
    data = json.loads(report.to_json())
    assert data["differing"][0]["row"]["__part"] == FIRST + 3
    assert data["parts"] == report.parts
    with pytest.raises(CheckFailed, match=f"__part={FIRST + 3}"):
        report.raise_if_wrong()


class CountingJudge(DuckJudge):
    """Counts what it is asked."""

    asked = 0

    def answers(self, queries: Mapping[str, str], tables: Mapping[str, pa.Table]) -> dict[str, Any]:
        self.asked += len(queries)
        return super().answers(queries, tables)


def test_a_wrong_median_is_found_whatever_it_is_put_for(tmp_path: Path) -> None:
    """Infinity is the median of plus and minus the greatest DOUBLE, as Spark has it; 0.0 is wrong."""
    database = CheckedDatabase(tmp_path / "db")
    database.declare(
        "CREATE STREAM m (ts TIMESTAMP NOT NULL, x DOUBLE) TIMESTAMP BY ts PARTITION LENGTH 60;"
        "CREATE VIEW mid AS SELECT median(x) AS x, percentile(x, 0.6) AS y FROM m [WINDOW 1 MINUTES]"
    )
    big = 1.7976931348623157e308
    at = [(0, big), (1, -big), (60, 0.1), (61, 0.2), (62, 0.4), (130, 1.0)]
    database.append("m", [{"ts": moment(START + seconds), "x": x} for seconds, x in at])
    database.drive()
    assert database.check("mid")["mid"].verdict == "right"
    assert database.part_block("mid", FIRST).columns[0].to_pylist() == [math.inf]
    assert database.part_block("mid", FIRST + 1).columns[1].to_pylist() == [0.24]
    for part, wrong in ((FIRST, [0.0, 0.0]), (FIRST + 1, [0.2, 0.24000000000000002])):
        database.plant("mid", part, lambda block, wrong=wrong: Block([pa.array([v]) for v in wrong], block.hashes))
        (found,) = {each.row["__part"] for each in database.check("mid")["mid"].differing} - {part - 1}
        assert found == part and database.check("mid")["mid"].verdict == "wrong"
    database.close()


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns"])
def test_a_stream_by_a_time_without_zone_is_right_in_every_database(tmp_path: Path, zone: str) -> None:
    """Its rows lie in the parts of the moments when the database's clocks showed these times, after 2037 too."""
    with viewkeeper.connect(tmp_path / "db", zone=zone, durability="process") as db:
        db.sql("CREATE STREAM m (ts TIMESTAMP_NTZ NOT NULL, x INT) TIMESTAMP BY ts PARTITION LENGTH 1800 MAX AHEAD "
               "2000000000; CREATE VIEW s AS SELECT sum(x) AS x FROM m [WINDOW 60 MINUTES]")  # fmt: skip
        db.stream("m").append([{"ts": f"2050-07-01 1{hour}:10", "x": hour} for hour in range(5)])
        local_maintenance.catch_up(db)
        reports = check_parts(PartEvidence(Version(local_storage(db.root).newest())), None, None)
        assert [(report.view, report.verdict) for report in reports] == [("m", "right"), ("s", "right")]
