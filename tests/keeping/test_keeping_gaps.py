"""Long gaps: a million parts without rows are one row of the part catalog, wherever a late row falls; IDLE."""

from __future__ import annotations

import datetime
import time

import pytest

import paper_views
from stream_database import StreamDatabase, moment
from viewkeeper.streams.part_index import PartIndex, read_index

MILLION = 1_000_000
FIRST = 23_000_000
VIEWS = """
CREATE VIEW View1 AS SELECT src, dest, count(*) AS ct, sum(loss) AS sum_loss FROM M PATTERN [a, b, c, d+]
    WHERE a.loss > 10 AND b.loss > 10 AND c.loss > 10 AND d.loss > 10 GROUP BY src, dest;
CREATE VIEW hourly AS SELECT src, sum(loss) AS s, max(loss) AS most FROM M [WINDOW 60 MINUTES] GROUP BY src;
CREATE VIEW recovered AS SELECT * FROM M MATCH_RECOGNIZE (PARTITION BY src ORDER BY ts
    MEASURES count(*) AS n PATTERN (A+ B) DEFINE A AS loss > 10, B AS loss <= 10);
"""
NAMES = ("Helper", "View2", "View1", "hourly", "recovered")


def declare(database: StreamDatabase, clauses: str = "MAX AHEAD 36500 DAYS") -> None:
    (stream,) = (each for each in paper_views.STREAMS.split(";") if "STREAM M " in each)
    database.declare(f"{stream} {clauses}")
    database.declare(f"{paper_views.HELPER}; {paper_views.VIEW2}".replace("60;", "60 BACKFILL;") + VIEWS)


def send(database: StreamDatabase, *parts: int, loss: int = 20) -> None:
    database.append("M", [{"ts": moment(60 * part + 1), "src": "a", "dest": "b", "loss": loss} for part in parts])
    database.drive()


def catalog_rows(database: StreamDatabase, name: str) -> int:
    item = database.catalog.find(name)
    assert item is not None
    return len(read_index(database.storage.newest()).get(item.id, PartIndex()))


def test_a_million_parts_without_rows_are_passed_at_once(database: StreamDatabase) -> None:
    """The views of the paper's section 2, a window and MATCH_RECOGNIZE pass the gap, forget what is older than it
    where they must, and have a few rows of the part catalog; only matches of rows go on over it."""
    declare(database)
    send(database, *range(FIRST, FIRST + 6))
    after = FIRST + MILLION
    send(database, *range(after, after + 6), loss=30)
    send(database, after + 6, after + 7, loss=5)
    for name in ("M", *NAMES):
        progress = database.progress(name)
        assert (progress.first, progress.next) == (FIRST + (59 if name == "hourly" else 0), after + 7), name
        assert catalog_rows(database, name) <= 20, name
    for name in ("View1", "View2"):
        assert database.rows(name, FIRST + 5) == [("a", "b", 6, 120)]
        assert database.part(name, after + 2).num_rows == 0
        assert database.rows(name, after + 3) == [("a", "b", 4, 120)]
    assert database.rows("hourly", after + 3) == [("a", 120, 30)]
    assert database.rows("hourly", FIRST + 60) == [("a", 100, 20)]
    assert database.rows("recovered", after + 6) == [("a", 13)]


def test_a_late_row_in_the_middle_of_a_gap_touches_what_holds_it(database: StreamDatabase) -> None:
    """The run of empty parts is cut there, in the stream and in each view, and nothing else changes."""
    declare(database)
    send(database, *range(FIRST, FIRST + 6))
    send(database, FIRST + MILLION)
    middle, version = FIRST + MILLION // 2, database.storage.newest().version
    send(database, *range(middle, middle + 4))
    assert database.rows("View1", middle + 3) == database.rows("View2", middle + 3) == [("a", "b", 4, 80)]
    assert database.rows("hourly", middle + 62) == [("a", 20, 20)]
    assert database.part("hourly", middle + 63).num_rows == 0
    index = read_index(database.storage.newest())
    for name in ("M", *NAMES):
        item = database.catalog.find(name)
        assert item is not None
        changed = index[item.id].changed_since(version)
        assert all(middle <= low and high <= middle + 62 for low, high in changed), name
        assert catalog_rows(database, name) <= 90, name


def test_a_row_years_before_the_first_moves_the_first_part_back(database: StreamDatabase) -> None:
    """A stream that begins years later takes a row of 1970, and one of 1969: the parts between are empty, and generated
    views get them; a ViewDF gets no part below its initial subscript."""
    declare(database)
    send(database, *range(FIRST, FIRST + 6))
    send(database, 0)
    send(database, -7)
    for name in ("M", *NAMES):
        progress = database.progress(name)
        first = {"hourly": 52, "Helper": FIRST, "View2": FIRST}.get(name, -7)
        assert progress.first == first, name
        assert progress.next == FIRST + 5, name
        assert catalog_rows(database, name) <= 150, name
    assert database.rows("Helper", FIRST) == [("a", "b", 1, 20)]
    assert database.rows("hourly", 52) == [("a", 40, 20)]
    assert database.rows("hourly", 53) == [("a", 20, 20)]
    assert database.rows("View1", FIRST + 4) == [("a", "b", 5, 100)]


def test_a_row_of_1970_then_one_of_2015(database: StreamDatabase) -> None:
    """The 23 million parts between are passed as any gap is."""
    declare(database)
    send(database, 0, 1)
    send(database, FIRST)
    assert {database.progress(name).next for name in ("M", *NAMES)} == {FIRST}
    assert database.rows("Helper", 1) == [("a", "b", 2, 40)]
    assert database.rows("hourly", 60) == [("a", 20, 20)]
    assert sum(catalog_rows(database, name) for name in ("M", *NAMES)) <= 90


def test_only_idle_lets_the_clock_seal(database: StreamDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that says IDLE is sealed up to now, less its LATENESS, when no row has come for so long; one that does
    not is not, and neither is one that has never had a row."""
    declare(database, "LATENESS 120 IDLE 30")
    columns = "(ts TIMESTAMP NOT NULL, x INT) TIMESTAMP BY ts PARTITION LENGTH 60"
    database.declare(f"CREATE STREAM awake {columns}; CREATE STREAM none {columns} IDLE 30")
    send(database, FIRST, FIRST + 1)
    database.append("awake", [{"ts": moment(60 * FIRST), "x": 1}])
    later = time.time() + 31
    monkeypatch.setattr("viewkeeper.pipeline.part_keeping.time.time", lambda: later)
    maintainer = database.maintainer()
    for _ in range(4):
        maintainer.parts.step(maintainer.term)
        maintainer.parts.finish(maintainer.term)
    maintainer.close()
    assert {database.progress(name).next for name in ("M", *NAMES)} == {int(later - 120) // 60}
    assert database.progress("awake").next is None and database.progress("none").next is None
    assert database.rows("Helper", FIRST + 1) == [("a", "b", 2, 40)]
    late = datetime.datetime.fromtimestamp(60 * FIRST + 120, datetime.UTC)
    database.append("M", [{"ts": late, "src": "a", "dest": "b", "loss": 11}])
    database.drive()
    assert database.rows("Helper", FIRST + 2) == [("a", "b", 3, 51)]
