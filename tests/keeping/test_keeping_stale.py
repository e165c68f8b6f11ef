"""Views whose queries fail at run time: they keep their parts, others go on, and nothing is missed when they do."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import generated_views as generated
import viewdf_oracle as oracle
from drawn import examples
from faulty_database import INJECTED, FaultyDatabase
from stream_database import StreamDatabase, moment, put
from viewkeeper.streams.view_progress import ViewProgress

DECLARED = "CREATE STREAM m (ts TIMESTAMP NOT NULL, g BIGINT, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60;"
SHARES = """
CREATE VIEW shares AS SELECT g, sum(x) AS s FROM m [WINDOW 1 MINUTE] GROUP BY g HAVING 10 / sum(x) < 100;
CREATE VIEW over AS INITIALIZE over[i] AS SELECT g, s FROM shares[i]
    UPDATE over[j] AS SELECT g, s FROM shares[j] PARTITION LENGTH 60 BACKFILL;
CREATE VIEW both AS INITIALIZE both[i] AS SELECT a.g, a.s, b.x FROM shares[i] AS a JOIN free[i] AS b ON a.g = b.g
    UPDATE both[j] AS SELECT a.g, a.s, b.x FROM shares[j] AS a JOIN free[j] AS b ON a.g = b.g
    PARTITION LENGTH 60 BACKFILL;
"""
FREE = "CREATE VIEW free AS SELECT g, x FROM m WHERE x <> 0;"


def send(database: StreamDatabase, *rows: tuple[int, int]) -> None:
    """Rows of group 1, as (part, x)."""
    database.append("m", [{"ts": moment(60 * part), "g": 1, "x": x} for part, x in rows])
    database.drive()


def state(database: StreamDatabase, name: str) -> tuple[int | None, str]:
    progress = database.progress(name)
    assert isinstance(progress, ViewProgress)
    return progress.next, progress.stale or ""


def test_a_view_that_fails_keeps_its_parts_and_late_rows_mend_it(database: StreamDatabase) -> None:
    """The view and those on top of it stand still, with the reason, others commit; a late row that makes the part
    computable sets them going, and late rows for their old parts are made good, whenever they came."""
    database.declare(FREE + SHARES)
    send(database, (0, 2), (1, 5), (2, 7))
    send(database, (2, -7), (3, 1), (4, 1))
    assert state(database, "free") == (4, "")
    assert state(database, "shares")[0] == 2
    assert "DIVIDE_BY_ZERO" in state(database, "shares")[1]
    assert state(database, "over") == (2, f"shares, which it reads, is stale: {state(database, 'shares')[1]}")
    assert database.rows("over", 1) == [(1, 5)]
    send(database, (0, 3), (5, 1))
    assert database.rows("free", 0) == [(1, 2), (1, 3)]
    assert database.rows("shares", 0) == [(1, 5)]
    send(database, (2, 1))
    for name in ("shares", "over", "both"):
        assert state(database, name) == (5, "")
    assert database.rows("over", 2) == [(1, 1)]
    assert database.rows("over", 0) == [(1, 5)]
    assert database.rows("both", 0) == [(1, 5, 2), (1, 5, 3)]


def test_a_repair_that_fails_leaves_the_part_as_it_was_until_it_succeeds(database: StreamDatabase) -> None:
    """A late row by which an old part cannot be computed makes the view stale; the part keeps its rows, later parts
    wait, and the next late row makes all good."""
    database.declare(FREE + SHARES)
    send(database, (0, 2), (1, 5), (2, 7), (3, 1))
    send(database, (1, -5), (0, 1), (4, 1))
    assert state(database, "shares")[0] == 3 and "DIVIDE_BY_ZERO" in state(database, "shares")[1]
    assert database.rows("shares", 1) == [(1, 5)]
    assert database.rows("shares", 0) == [(1, 3)]
    assert database.rows("free", 1) == [(1, -5), (1, 5)]
    send(database, (1, 4))
    assert state(database, "shares") == (4, "")
    assert database.rows("both", 1) == [(1, 4, -5), (1, 4, 4), (1, 4, 5)]
    assert database.rows("over", 0) == [(1, 3)]


def test_one_failing_part_of_many_stops_the_view_there(database: StreamDatabase) -> None:
    """Of parts that are computed in one job those before the failing one are built, whatever the job's size."""
    database.declare(FREE)
    rows = [(part, 1 if part != 150 else 0) for part in range(400)]
    send(database, *rows)
    database.declare(SHARES.split(";")[0])
    database.drive()
    assert state(database, "shares")[0] == 150
    assert database.rows("shares", 149) == [(1, 1)]
    send(database, (150, 9))
    assert state(database, "shares") == (399, "")


def test_a_view_is_mended_by_another_definition(database: StreamDatabase) -> None:
    """ALTER VIEW from the part at which a ViewDF stands sets it going; what came meanwhile is made good."""
    good = """v AS INITIALIZE v[i] AS SELECT g, CAST(x AS BIGINT) AS x FROM m[i]
        UPDATE v[j] AS SELECT g, x FROM m[j] PARTITION LENGTH 60"""
    bad = good.replace(
        "SELECT g, x FROM m[j]", "SELECT g, CAST(CASE x WHEN 0 THEN '?' ELSE '1' END AS BIGINT) FROM m[j]"
    )
    database.declare(f"CREATE VIEW {bad} BACKFILL")
    send(database, (0, 2), (1, 5), (2, 0), (3, 1), (4, 1))
    assert state(database, "v")[0] == 2 and "convert" in state(database, "v")[1]
    send(database, (1, 6))
    assert database.rows("v", 1) == [(1, 1), (1, 1)]
    database.declare(f"ALTER VIEW {good} BACKFILL")
    database.drive()
    assert state(database, "v") == (4, "")
    assert [database.rows("v", part) for part in (1, 2, 3)] == [[(1, 1), (1, 1)], [(1, 0)], [(1, 1)]]


def test_a_view_is_mended_by_a_changed_table_and_a_rebuild(database: StreamDatabase) -> None:
    """A part that fails for the version of a dimension table recorded with it goes on when the table has changed and
    the view is rebuilt from there, also where it has never been built; a plain change of the table does nothing."""
    database.declare("CREATE TABLE t (g BIGINT PRIMARY KEY, d BIGINT)")
    database.declare("""CREATE VIEW w AS SELECT t.d, sum(10 / t.d) AS s FROM m JOIN t ON m.g = t.g [WINDOW 2 MINUTES]
        GROUP BY t.d""")
    put(database, "t", g=1, d=5)
    send(database, (0, 2), (1, 5), (2, 0))
    put(database, "t", g=1, d=0)
    send(database, (3, 1), (4, 1))
    put(database, "t", g=1, d=2)
    send(database, (0, 1), (5, 1))
    assert state(database, "w")[0] == 2 and "DIVIDE_BY_ZERO" in state(database, "w")[1]
    assert database.rows("w", 1) == [(5, 4.0)]  # as it was: it is repaired with the rest
    database.declare("ALTER VIEW w REBUILD FROM 2")
    database.drive()
    assert state(database, "w") == (5, "")
    assert database.rows("w", 1) == [(5, 6.0)]
    assert database.rows("w", 2) == [(2, 5.0), (5, 2.0)]
    assert database.rows("w", 4) == [(2, 10.0)]


def test_a_stale_view_does_not_commit_again_and_again(database: StreamDatabase) -> None:
    """Trying in vain leaves no version."""
    database.declare(FREE + SHARES)
    send(database, (0, 2), (1, 0), (2, 1))
    before = database.storage.newest().version
    for _ in range(3):
        database.tidy()
    assert database.storage.newest().version == before


faults = st.lists(st.tuples(st.sampled_from(sorted(oracle.VIEWS)), st.integers(-3, 12)), max_size=4)


@given(steps=oracle.steps, early=oracle.early, faults=st.lists(faults, min_size=1, max_size=6))
@settings(max_examples=examples(16), deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_fails_and_when_all_is_right_in_the_end(
    early: set[str], steps: list[tuple[str, Any]], faults: list[list[tuple[str, int]]]
) -> None:
    """Queries fail at some parts for some rounds, in any order with rows, late rows, seals and views declared; stale
    views say so and all others are right; when nothing fails any more each part is its query's answer."""
    with tempfile.TemporaryDirectory() as folder:
        database = FaultyDatabase(Path(folder))
        database.failing = set()
        try:
            database.declare(oracle.STREAMS)
            rows: dict[str, list[dict[str, Any]]] = {"m": [], "n": []}
            last = [("m", [{"at": 800, "g": 0, "v": 1}]), ("n", [{"at": 900, "g": 0, "v": 1}]), ("drive", None)]
            for at, (kind, what) in enumerate([*(("view", name) for name in sorted(early)), *steps, *last]):
                if kind == "drive":
                    database.failing = set(faults[at % len(faults)])
                oracle.take_step(database, rows, kind, what)
                if kind == "drive":
                    _require_said(database)
            database.failing = set()
            database.drive()
            _retry(database)
            assert [view.name for view in database.catalog.part_views if state(database, view.name)[1]] == []
            oracle.require_right(database, rows)
        finally:
            database.close()


@given(
    early=st.sets(st.sampled_from(sorted(generated.VIEWS)), min_size=1), steps=generated.steps,
    faults=st.lists(st.lists(st.tuples(st.sampled_from([*generated.VIEWS, "m$helper"]), st.integers(-3, 12)),
                             max_size=3), min_size=1, max_size=4),
)  # fmt: skip
@settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
def test_the_same_holds_for_generated_views(
    early: set[str], steps: list[tuple[str, Any]], faults: list[list[tuple[str, int]]]
) -> None:
    """Generated views and their helpers, whose computing fails for a while, come to what one round over all rows
    gives."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        slow, quick = FaultyDatabase(Path(one)), StreamDatabase(Path(other))
        slow.failing = set()
        try:
            everything: list[dict[str, Any]] = []
            slow.declare(generated.STREAM)
            declared = [("view", name) for name in sorted(early)]
            end = [("rows", [{"at": 800, "g": 0, "v": 1}]), ("drive", None)]
            for at, (kind, what) in enumerate([*declared, *steps, *end]):
                if kind == "rows":
                    fresh = [{"ts": moment(row["at"]), "g": row["g"], "x": row["v"]} for row in what]
                    slow.append("m", fresh)
                    everything += fresh
                elif kind == "drive":
                    slow.failing = set(faults[at % len(faults)])
                    slow.drive()
                    _require_said(slow)
                elif slow.catalog.find(what) is None:
                    slow.declare(f"CREATE VIEW {what} AS {generated.VIEWS[what]}")
            slow.failing = set()
            _retry(slow)
            quick.declare(generated.STREAM)
            quick.append("m", everything)
            for view in slow.catalog.part_views:
                if not view.hidden:
                    assert state(slow, view.name)[1] == ""
                    quick.declare(f"CREATE VIEW {view.name} AS {generated.VIEWS[view.name]}")
            quick.drive()
            generated.require_equal(slow, quick)
        finally:
            slow.close()
            quick.close()


def _retry(database: StreamDatabase) -> None:
    """One more round, as any new entry, declaration or driver brings it, then all that follows."""
    maintainer = database.maintainer()
    maintainer.parts.step(maintainer.term)
    maintainer.parts.finish(maintainer.term)
    assert maintainer.last_error is None
    maintainer.close()
    database.drive()


def _require_said(database: StreamDatabase) -> None:
    """A stale view says why: its own query, or a view that it reads and that is stale."""
    for view in database.catalog.part_views:
        reason = state(database, view.name)[1]
        below = [database.catalog.by_id(id_) for id_ in view.reads]
        if reason and not re.fullmatch(rf"part -?\d+: {INJECTED}", reason):
            assert any(each is not None and state(database, each.name)[1] for each in below if each in
                       database.catalog.part_views), f"{view.name}: {reason}"  # fmt: skip
            assert INJECTED in reason
