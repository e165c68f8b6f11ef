"""Time without rows costs one step and one entry of the part catalog, also where parts without rows have an answer."""

from __future__ import annotations

import datetime
import time
from collections import Counter
from pathlib import Path

import pytest

import viewkeeper
from stream_database import StreamDatabase, moment, run_query
from viewkeeper.errors import NotSupported, Timeout
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.maintain import catch_up
from viewkeeper.stores.logs import Logs
from viewkeeper.streams import past
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.keeping import rollup
from viewkeeper.streams.part_index import PartIndex, read_index
from viewkeeper.trace.local_disk import local_storage

NOW = 29_700_000
"""A minute of 2026."""

YEAR_1 = -1_035_593_280
"""The minute of 0001-01-03T00:00Z."""

DECLARED = """
CREATE STREAM m (ts TIMESTAMP NOT NULL, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60;
CREATE VIEW five AS SELECT count(*) AS n, sum(x) AS s FROM m [WINDOW 5 MINUTES];
CREATE VIEW above AS SELECT max(n) AS most, sum(n) AS s FROM five [WINDOW 3 MINUTES];
CREATE VIEW doubled AS SELECT 2 * n AS n FROM five;
CREATE VIEW counted AS
INITIALIZE counted[i] AS SELECT count(*) AS n FROM m[i]
UPDATE counted[j] AS SELECT count(*) AS n FROM m[j]
PARTITION LENGTH 60;
CREATE VIEW total AS
INITIALIZE total[i] AS SELECT n FROM counted[i]
UPDATE total[j] AS SELECT p.n + c.n AS n FROM total[j-1] AS p, counted[j] AS c
PARTITION LENGTH 60
"""
TICKS = """
CREATE VIEW ticks AS
INITIALIZE ticks[i] AS SELECT n FROM counted[i]
UPDATE ticks[j] AS SELECT p.n + 1 AS n FROM ticks[j-1] AS p, counted[j] AS c
PARTITION LENGTH 60
"""
VIEWS = ("five", "above", "doubled", "counted", "total")


def send(database: StreamDatabase, *parts: int) -> None:
    database.append("m", [{"ts": moment(0) + datetime.timedelta(seconds=60 * part), "x": 7} for part in parts])
    started = time.monotonic()
    database.drive()
    assert time.monotonic() - started < 60, "a long time without rows is a step"


def catalog_rows(database: StreamDatabase, name: str) -> int:
    return len(read_index(database.storage.newest()).get(database.view(name).id, PartIndex()))


def expected(view: str, part: int, rows: set[int], first: int) -> list[tuple[int | None, ...]]:
    """What a part must hold, where each part of `rows` has one row and the stream begins at `first`."""

    def count(last: int) -> int:
        return sum(last - 5 < each <= last for each in rows)

    match view:
        case "five":
            return [(count(part), 7 * count(part) or None)]
        case "above":
            return [(max(map(count, range(part - 2, part + 1))), sum(map(count, range(part - 2, part + 1))))]
        case "doubled":
            return [(2 * count(part),)]
        case "counted":
            return [(int(part in rows),)]
    return [(sum(each <= part for each in rows),)]


def require_right(database: StreamDatabase, rows: set[int]) -> None:
    """Around each row, and in the middle between two, every view has what its definition says."""
    near = {row + i for row in rows for i in range(-8, 9)}
    middles = {(low + high) // 2 for low, high in zip(sorted(rows), sorted(rows)[1:], strict=False)}
    for name in VIEWS:
        progress = database.progress(name)
        assert progress.next == max(rows)
        assert catalog_rows(database, name) < 40 * len(rows), name
        for part in near | middles:
            if (progress.first or 0) <= part < max(rows):
                assert database.rows(name, part) == expected(name, part, rows, min(rows)), (name, part)


@pytest.mark.parametrize("first", [NOW - 100_800, 0, YEAR_1], ids=["70 days ago", "1970", "year 1"])
def test_an_answer_of_no_rows_is_one_entry_for_all_parts_of_a_gap(database: StreamDatabase, first: int) -> None:
    """Aggregates without GROUP BY over windows, over parts, over views and over the view's own last part have a row in
    each part of a gap of 70 days, of 56 years and of two thousand; it costs a few entries, and every part is right."""
    send(database, first)
    send(database, NOW)
    require_right(database, {first, NOW})


def test_a_late_row_cuts_a_run_of_equal_parts(database: StreamDatabase) -> None:
    """Only the parts that it touches change; later roll-up leaves everything as it is, in fewer files."""
    send(database, 0, 1)
    send(database, NOW)
    version, middle = database.storage.newest().version, NOW // 2
    send(database, middle)
    send(database, middle + 2)
    require_right(database, {0, 1, middle, middle + 2, NOW})
    for name, reach in (("five", 4), ("above", 6), ("doubled", 4), ("counted", 0)):
        index = read_index(database.storage.newest())[database.view(name).id]
        assert index.changed_since(version) == [(middle, middle + 2 + reach)] or name == "counted", name
    database.tidy()
    require_right(database, {0, 1, middle, middle + 2, NOW})


def test_a_row_long_before_the_first_is_a_step_too(database: StreamDatabase) -> None:
    """What began in 2026 gets the parts since 1970, and since the year 1, as runs."""
    send(database, NOW)
    send(database, NOW + 9)
    send(database, 0)
    rows = {0, NOW, NOW + 9}
    for name in ("five", "above", "doubled"):
        assert catalog_rows(database, name) < 100, name
        for part in (4, 5, 6, 7, 8, NOW // 2, NOW - 1, NOW, NOW + 3, NOW + 8):
            if part >= (database.progress(name).first or 0):
                assert database.rows(name, part) == expected(name, part, rows, 0), (name, part)


def test_a_long_window_of_short_parts_reads_those_that_have_rows(tmp_path: Path) -> None:
    """A day of seconds, most of them empty: a part costs what stands in its window, not how many parts that has."""
    database = StreamDatabase(tmp_path / "db")
    database.declare(
        "CREATE STREAM s (ts TIMESTAMP NOT NULL, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 1;"
        "CREATE VIEW day AS SELECT count(*) AS n, sum(x) AS s FROM s [WINDOW 1 DAYS]"
    )
    read = Counter[int]()
    block = past.History.block

    def counting(history: past.History, object_: int, part: int) -> Block:
        read[object_] += 1
        return block(history, object_, part)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(past.History, "block", counting)
        for seconds in (0, 60 * NOW, 60 * NOW + 600):
            database.append("s", [{"ts": moment(0) + datetime.timedelta(seconds=seconds), "x": 7}])
        database.drive()
    assert 0 < read.total() < 5_000
    rows = {part: database.rows("day", 60 * NOW + part) for part in (-1, 0, 599)}
    assert rows == {-1: [(0, None)], 0: [(1, 7)], 599: [(1, 7)]}
    database.close()


def test_equal_parts_are_rolled_up_as_others(database: StreamDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """With gap after gap the files become fewer, and no row of any part is lost."""
    monkeypatch.setattr(rollup, "FAN_IN", 3)
    rows = {NOW - 1_000_000 + 50_000 * i for i in range(12)}
    for row in sorted(rows):
        send(database, row)
    for _ in range(3):
        database.tidy()
    require_right(database, rows)
    for name in VIEWS:
        assert len({run.file for run in database.storage.newest().states[database.view(name).id]}) <= 12, name


def test_readers_see_each_part_of_a_run(tmp_path: Path) -> None:
    """By subscript, by time, as a range, as a whole, by SQL and by what has changed; where all are too many to be read
    at once the error says so, and rows() gives one after another."""
    viewkeeper.connect(tmp_path, nodes=1).close()
    database = StreamDatabase(tmp_path)
    database.declare(DECLARED)
    send(database, NOW - 3_000)
    send(database, NOW)
    send(database, 0)
    database.close()
    with viewkeeper.connect(tmp_path, nodes=1) as db:
        five = db.view("five")
        (first,) = (five.first,)
        assert first == 4 and five.newest == NOW - 1
        assert list(five.part(NOW // 2)) == [{"n": 0, "s": None}]
        assert list(five.at("1999-01-01")) == [{"n": 0, "s": None}]
        assert len(five.parts(1000, 1_999)) == 1000 == five.parts(1000, 1_999).to_arrow().num_rows
        span = five.parts(NOW - 3_005, NOW - 1)
        assert sum(row["n"] for row in span) == 5 and len(span) == span.to_arrow().num_rows == 3_005
        with pytest.raises(NotSupported, match=r"29,699,996 parts with rows .* PART_TIMESTAMP"):
            five.to_arrow()
        rows = five.rows()
        assert [next(rows)["n"] for _ in range(3)] == [1, 0, 0]
        assert [(each.first, each.last) for each in five.changed_since(0)][-1][1] == NOW - 1
        found = db.sql("SELECT PART_TIMESTAMP, n FROM five WHERE PART_TIMESTAMP >= TIMESTAMP '1999-01-01 00:00:00' "
                       "AND PART_TIMESTAMP < TIMESTAMP '1999-01-01 00:10:00'")  # fmt: skip
        assert sorted((row["PART_TIMESTAMP"].minute, row["n"]) for row in found) == [(i, 0) for i in range(10)]
        with pytest.raises(NotSupported, match="PART_TIMESTAMP"):
            db.sql("SELECT count(*) FROM five")
        (status,) = (each for each in db.status()["part_views"] if each["name"] == "five")
        assert (status["parts"], status["rows"]) == (NOW - 4, NOW - 4)


def test_a_timeout_is_a_timeout_and_what_is_built_by_then_stays(database: StreamDatabase) -> None:
    """A view that is another in each part of a gap is computed part by part; who waits for it only so long is told in
    time, and the next one goes on from there."""
    database.declare(TICKS)
    send_only = [{"ts": moment(60 * part), "x": 7} for part in (0, NOW)]
    database.append("m", send_only)
    reached = list[int]()
    for _ in range(2):
        started = time.monotonic()
        with pytest.raises(Timeout):
            catch_up(
                local_storage(database.root), Logs.of(database.store), lambda: LocalExecutor(1, run_query), timeout=3.0
            )
        assert time.monotonic() - started < 30
        reached.append(database.progress("ticks").next or 0)
    assert reached[1] > reached[0] > 0
