"""Dimension tables of views over streams: which version each part reads, now and when it is repaired or rebuilt."""

from __future__ import annotations

from typing import Any

import pytest

from checked_database import DuckJudge
from stream_database import StreamDatabase, moment, put
from viewkeeper.checker.part_check import check_parts
from viewkeeper.errors import DeclarationError
from viewkeeper.evidence import PartEvidence
from viewkeeper.pipeline.fills import unfilled
from viewkeeper.streams.part_index import PartIndex, read_index
from viewkeeper.streams.view_progress import Rebuilt, ViewProgress
from viewkeeper.views.version import Version

SCRIPT = """
CREATE TABLE hosts (g BIGINT PRIMARY KEY, site BIGINT, factor BIGINT);
CREATE STREAM m (ts TIMESTAMP NOT NULL, g BIGINT, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60 {clauses};
CREATE VIEW plain AS SELECT m.x, h.site FROM m JOIN hosts h ON m.g = h.g;
CREATE VIEW sums AS SELECT h.site, sum(m.x) AS s FROM m JOIN hosts h ON m.g = h.g [WINDOW 3 MINUTES] GROUP BY h.site;
CREATE VIEW other AS SELECT h.site, sum(m.x) AS s FROM m JOIN hosts h ON m.g = h.g [WINDOW 2 MINUTES] GROUP BY h.site;
CREATE VIEW df AS INITIALIZE df[i] AS SELECT m.x, h.site FROM m[i-1..i] AS m JOIN hosts h ON m.g = h.g
    UPDATE df[j] AS SELECT m.x, h.site FROM m[j-1..j] AS m JOIN hosts h ON m.g = h.g PARTITION LENGTH 60 BACKFILL;
CREATE VIEW upper AS INITIALIZE upper[i] AS SELECT p.x, h.site AS now, p.site FROM plain[i] AS p JOIN hosts h ON TRUE
    UPDATE upper[j] AS SELECT p.x, h.site, p.site FROM plain[j] AS p JOIN hosts h ON TRUE PARTITION LENGTH 60 BACKFILL;
"""


class Sites:
    """One host, g = 1, whose site changes; every part has one row, of which x is 10 to the power of the part."""

    def __init__(self, database: StreamDatabase, clauses: str = "") -> None:
        self.database = database
        database.declare(SCRIPT.format(clauses=clauses))

    def site(self, site: int, factor: int = 1) -> None:
        """Says where the host is."""
        put(self.database, "hosts", g=1, site=site, factor=factor)

    def rows(self, *parts: int, x: int | None = None) -> None:
        """Appends a row for each part; the part before the last one is sealed."""
        self.database.append("m", [row(part, 10**part if x is None else x) for part in parts])
        self.database.drive()

    def at(self, name: str, part: int) -> list[tuple[Any, ...]]:
        return self.database.rows(name, part)


def row(part: int, x: int) -> dict[str, Any]:
    return {"ts": moment(60 * part), "g": 1, "x": x}


@pytest.fixture
def sites(database: StreamDatabase) -> Sites:
    """Parts 0 and 1 saw site 5, parts 2 and 3 site 6; it is 7 now, and part 4 is open."""
    sites = Sites(database)
    sites.site(5)
    sites.rows(0, 1, 2)
    sites.site(6)
    sites.rows(3, 4)
    sites.site(7)
    return sites


def stale(database: StreamDatabase, name: str) -> str | None:
    progress = database.progress(name)
    assert isinstance(progress, ViewProgress)
    return progress.stale


def copies(database: StreamDatabase, name: str = "hosts") -> int:
    """How many versions of a dimension table are kept."""
    item = database.catalog.find(name)
    assert item is not None
    return len(read_index(database.storage.newest()).get(item.id, PartIndex()))


def test_each_part_reads_the_version_of_when_its_newest_source_part_was_sealed(sites: Sites) -> None:
    """A view's part joins all that it reads with the version of its newest part, a window each row with its own's."""
    assert [sites.at("plain", part) for part in range(4)] == [[(1, 5)], [(10, 5)], [(100, 6)], [(1000, 6)]]
    assert sites.at("df", 2) == [(10, 6), (100, 6)]
    assert sites.at("sums", 2) == [(5, 11), (6, 100)]
    assert sites.at("sums", 3) == [(5, 10), (6, 1100)]
    assert sites.at("upper", 1) == [(10, 5, 5)]
    assert sites.at("upper", 3) == [(1000, 6, 6)]


def test_a_repair_reads_the_same_version_again(sites: Sites) -> None:
    """Late rows are joined with the version of their part, and nothing that was there is joined anew."""
    sites.rows(1, 2, x=3)
    assert [sites.at("plain", part) for part in (1, 2)] == [[(10, 5), (3, 5)], [(100, 6), (3, 6)]]
    assert sites.at("df", 2) == [(10, 6), (100, 6), (3, 6), (3, 6)]
    assert sites.at("sums", 2) == [(5, 14), (6, 103)]
    assert sites.at("upper", 1) == [(10, 5, 5), (3, 5, 5)]


def test_changing_a_table_changes_no_part(sites: Sites) -> None:
    """No part is made or changed by a new version of a table, tidied or not."""
    before = {item.id: list(read_index(sites.database.storage.newest())[item.id])
              for item in sites.database.catalog.in_parts}  # fmt: skip
    sites.site(8)
    sites.database.tidy()
    after = read_index(sites.database.storage.newest())
    assert {id_: list(after[id_]) for id_ in before} == before


def test_a_rebuild_reads_the_version_of_now_and_so_do_later_repairs(sites: Sites) -> None:
    """REBUILD FROM joins parts from there on anew; late rows for them, after the table has changed once more, are
    joined with the version of the rebuild; older parts and other views stay as they were."""
    for name in ("plain", "sums", "df"):
        sites.database.declare(f"ALTER VIEW {name} REBUILD FROM 2")
    sites.database.drive()
    assert [sites.at("plain", part) for part in (1, 2, 3)] == [[(10, 5)], [(100, 7)], [(1000, 7)]]
    assert (sites.at("df", 1), sites.at("df", 2)) == ([(1, 5), (10, 5)], [(10, 7), (100, 7)])
    assert [sites.at("sums", part) for part in (2, 3)] == [[(5, 11), (7, 100)], [(5, 10), (7, 1100)]]
    assert sites.at("other", 3) == [(6, 1100)]
    assert sites.at("upper", 3) == [(1000, 6, 7)]
    sites.site(8)
    sites.rows(3, x=3)
    assert sites.at("plain", 3) == [(1000, 7), (3, 7)]
    assert sites.at("df", 3) == [(100, 7), (1000, 7), (3, 7)]
    assert sites.at("sums", 3) == [(5, 10), (7, 1103)]
    assert sites.at("upper", 3) == [(1000, 6, 7), (3, 6, 7)]
    sites.rows(1, x=4)
    assert sites.at("plain", 1) == [(10, 5), (4, 5)]
    assert sites.at("sums", 3) == [(5, 14), (7, 1103)]
    sites.rows(6)
    assert sites.at("plain", 4) == [(10000, 8)]


def test_rebuilds_that_overlap_are_remembered_apart(sites: Sites) -> None:
    """The last rebuild of a part counts; what is remembered of earlier ones is what it left."""
    sites.database.declare("ALTER VIEW plain REBUILD FROM 1")
    sites.database.drive()
    sites.site(9)
    sites.database.declare("ALTER VIEW plain REBUILD FROM 3")
    sites.database.drive()
    assert [sites.at("plain", part) for part in range(4)] == [[(1, 5)], [(10, 7)], [(100, 7)], [(1000, 9)]]
    rebuilt = sites.database.progress("plain").rebuilt  # type: ignore[union-attr]
    assert [(each.first, each.last) for each in rebuilt] == [(1, 2), (3, 3)]
    sites.database.tidy()
    sites.rows(1, 3, x=2)
    assert (sites.at("plain", 1), sites.at("plain", 3)) == ([(10, 7), (2, 7)], [(1000, 9), (2, 9)])
    assert all(isinstance(each, Rebuilt) for each in rebuilt)


def test_a_rebuild_is_done_by_the_pipeline_that_is_running(sites: Sites) -> None:
    """A driver that has nothing else to do sees that parts are to be computed anew."""
    maintainer = sites.database.maintainer()
    for _ in range(5):
        maintainer.parts.step(maintainer.term)
        maintainer.parts.finish(maintainer.term)
    maintainer.close()
    maintainer = sites.database.maintainer()
    for _ in range(3):
        maintainer.step()
        maintainer.parts.finish(maintainer.term)
    from viewkeeper.pipeline.requests import _write_request

    _write_request(sites.database.storage, "ALTER VIEW plain REBUILD FROM 2")
    for _ in range(3):
        maintainer.step()
        maintainer.parts.finish(maintainer.term)
    maintainer.close()
    assert sites.at("plain", 2) == [(100, 7)]


def test_a_copy_goes_when_no_part_needs_it(database: StreamDatabase) -> None:
    """With HORIZON only the versions stay that a part within it, or a window, may read; without, all that any part
    has."""
    sites = Sites(database, "HORIZON 300")
    for part in range(16):
        sites.site(part)
        sites.rows(part, x=part)
    database.tidy()
    assert copies(database) <= 10
    sites.rows(12, x=3)
    assert sites.at("sums", 13) == [(12, 11), (13, 15), (14, 13)]
    for part in range(16, 22):
        sites.rows(part, x=part)
    database.tidy()
    assert copies(database) <= 3


def test_a_table_whose_copies_are_gone_is_read_as_of_now_and_that_is_remembered(database: StreamDatabase) -> None:
    """A view declared when no copy of an old version is left reads the version of then; a later repair reads the
    same."""
    sites = Sites(database, "HORIZON 300")
    for part in range(12):
        sites.site(part)
        sites.rows(part, x=part)
    database.tidy()
    database.declare("CREATE VIEW late AS SELECT m.x, h.site FROM m JOIN hosts h ON m.g = h.g")
    database.drive()
    assert sites.at("late", 3) == [(3, 11)]
    assert sites.at("late", 10) == [(10, 11)]
    first = sites.at("late", 8)
    sites.site(50)
    sites.rows(8, x=2)
    assert sites.at("late", 8) == sorted([*first, (2, first[0][1])], key=repr)


def test_the_check_finds_rebuilt_parts_right_and_does_not_judge_what_it_cannot(database: StreamDatabase) -> None:
    """Parts are recomputed at the versions that they were made with, rebuilt ones too; of parts whose version is kept
    no more nothing is said."""
    sites = Sites(database, "HORIZON 300")
    for part in range(14):
        sites.site(part)
        sites.rows(part, x=part)
        if part in (6, 11):
            for name in ("plain", "sums", "df"):
                database.declare(f"ALTER VIEW {name} REBUILD FROM {part - 3}")
    database.drive()
    for tidy in (False, True):
        if tidy:
            database.tidy()
        version = Version(database.storage.newest(), None)
        reports = check_parts(PartEvidence(version), None, DuckJudge())
        assert [str(report) for report in reports if not report.ok] == []
        assert [report.view for report in reports if report.view == "plain"] == ["plain"]


def test_a_table_that_is_used_cannot_be_dropped(sites: Sites) -> None:
    """DROP TABLE names the views over streams that join with the table."""
    with pytest.raises(DeclarationError, match="hosts is used by plain, df, upper, sums, other"):
        sites.database.declare("DROP TABLE hosts")


CORE = """
CREATE TABLE hosts (g BIGINT PRIMARY KEY, site BIGINT, factor BIGINT);
CREATE STREAM m (ts TIMESTAMP NOT NULL, g BIGINT, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60;
CREATE VIEW shares AS SELECT g, 100 / factor AS share FROM hosts;
CREATE VIEW free AS SELECT g, x FROM m;
CREATE VIEW joined AS SELECT m.x, s.share FROM m JOIN shares s ON m.g = s.g;
CREATE VIEW windowed AS SELECT s.share, sum(m.x) AS t FROM m JOIN shares s ON m.g = s.g [WINDOW 2 MINUTES]
    GROUP BY s.share;
CREATE VIEW top AS SELECT x FROM joined WHERE x > 0;
"""


def test_a_core_view_with_error_rows_makes_what_joins_it_stale_until_it_is_mended(database: StreamDatabase) -> None:
    """The reason names the core view; others go on; parts, and late rows that came meanwhile, are made good by the
    version in which it can be read again."""
    database.declare(CORE)
    database.drive()
    put(database, "hosts", g=1, site=1, factor=4)
    database.append("m", [row(0, 1), row(1, 10)])
    database.drive()
    put(database, "hosts", g=2, site=1, factor=0)
    database.append("m", [row(0, 5), row(2, 100), row(3, 1000)])
    database.drive()
    assert database.progress("free").next == 3
    for name, reason in (
        ("joined", "the view shares holds error rows"), ("windowed", "the view shares holds error rows"),
        ("top", "joined, which it reads, is stale: part 1: the view shares holds error rows"),
    ):  # fmt: skip
        assert reason in (stale(database, name) or ""), name
    put(database, "hosts", g=2, site=1, factor=5)
    for name in ("joined", "windowed", "top"):
        assert stale(database, name) is None
        assert database.progress(name).next == 3
    assert database.rows("joined", 0) == [(1, 25.0), (5, 25.0)]
    assert database.rows("windowed", 1) == [(25.0, 16)]
    assert database.rows("joined", 2) == [(100, 25.0)]


def test_a_core_view_that_is_not_filled_is_waited_for(database: StreamDatabase) -> None:
    """Nothing is built from a core view before it is filled, and then all is."""
    script = CORE.replace("CREATE VIEW shares", "INSERT").split("INSERT")
    database.declare(script[0])
    put(database, "hosts", g=1, site=1, factor=4)
    database.append("m", [row(0, 1), row(1, 10)])
    database.declare("CREATE VIEW shares" + script[1])
    maintainer = database.maintainer()
    maintainer.parts.step(maintainer.term)
    maintainer.parts.finish(maintainer.term)
    assert "still being filled" in str(stale(database, "joined"))
    while unfilled(maintainer.term.snapshot.catalog):
        maintainer.step()
    maintainer.close()
    database.drive()
    assert stale(database, "joined") is None
    assert database.rows("joined", 0) == [(1, 25.0)]
