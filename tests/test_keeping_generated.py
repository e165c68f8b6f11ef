"""Generated views in a database: whatever the order in which rows came, their parts are those of a database that got
all rows at once."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stream_database import StreamDatabase, bag, moment
from viewkeeper.catalog.model import Table

STREAM = "CREATE STREAM m (ts TIMESTAMP NOT NULL, g BIGINT, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60"

VIEWS = {
    "streak": """SELECT g, count(*) AS ct, sum(x) AS s FROM m PATTERN [a, b+] WHERE a.x > 0 AND b.x > 0 GROUP BY g""",
    "rising": """SELECT g, count(*) AS ct, first(a.x) AS low FROM m PATTERN [a, b+] WHERE b.x > a.x GROUP BY g""",
    "last2": "SELECT g, sum(x) AS s, count(*) AS n, max(x) AS most FROM m [WINDOW 2 MINUTES] GROUP BY g",
    "last5": "SELECT g, sum(x) AS s, min(x) AS least FROM m [WINDOW 5 MINUTES] GROUP BY g HAVING count(*) > 1",
    "running": """
        SELECT /*+ STRATEGY(running) */ g, sum(x) AS s, avg(x) AS mean FROM m [WINDOW 4 MINUTES] GROUP BY g""",
    "summed": "SELECT /*+ STRATEGY(cumulative) */ g, sum(x) AS s FROM m [WINDOW 3 MINUTES] GROUP BY g",
    "whole": "SELECT count(*) AS n, sum(x) AS s FROM m [WINDOW 3 MINUTES]",
    "naive": "SELECT /*+ STRATEGY(naive) */ g, min(x) AS least, count(x) AS n FROM m [WINDOW 2 MINUTES] GROUP BY g",
    "blocks": """SELECT /*+ STRATEGY(blocks) */ g, max(x) AS most FROM m [WINDOW 7 MINUTES] GROUP BY g""",
    "ended": """SELECT * FROM m MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts, x
        MEASURES count(*) AS n, first(A.x) AS since PATTERN (A+ B) DEFINE A AS x > 0, B AS x <= 0)""",
}

rows = st.lists(
    st.fixed_dictionaries({"at": st.integers(-130, 719), "g": st.integers(0, 2), "v": st.integers(-1, 3)}),
    min_size=1, max_size=12,
)  # fmt: skip
steps = st.lists(
    st.one_of(st.tuples(st.just("rows"), rows), st.tuples(st.just("rows"), rows),
              st.tuples(st.just("drive"), st.none()), st.tuples(st.just("view"), st.sampled_from(sorted(VIEWS)))),
    min_size=3, max_size=12,
)  # fmt: skip


@given(early=st.sets(st.sampled_from(sorted(VIEWS)), min_size=1), steps=steps, servers=st.integers(1, 3))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_order_in_which_rows_come_and_views_are_declared_does_not_matter(
    early: set[str], steps: list[tuple[str, Any]], servers: int
) -> None:
    """Late rows, rounds in between and views declared late give the parts that one round over all rows gives, of window
    views by a query over the rows of each window."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        slow, quick = StreamDatabase(Path(one), servers), StreamDatabase(Path(other))
        try:
            everything = _in_steps(slow, [*(("view", name) for name in sorted(early)), *steps])
            quick.declare(STREAM)
            quick.append("m", everything)
            for view in slow.catalog.part_views:
                if view.kind != "helper":
                    quick.declare(f"CREATE VIEW {view.name} AS {naive(VIEWS[view.name])}")
            quick.drive()
            _require_equal(slow, quick)
        finally:
            slow.close()
            quick.close()


def naive(query: str) -> str:
    """The query, of a window view computed anew each time."""
    if "[WINDOW" not in query:
        return query
    return "SELECT /*+ STRATEGY(naive) */ " + re.sub(r"^\s*SELECT (/\*.*?\*/)?", "", query)


def _in_steps(database: StreamDatabase, steps: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    everything: list[dict[str, Any]] = []
    database.declare(STREAM)
    for kind, what in [*steps, ("rows", [{"at": 800, "g": 0, "v": 1}]), ("drive", None)]:
        if kind == "rows":
            fresh = [{"ts": moment(row["at"]), "g": row["g"], "x": row["v"]} for row in what]
            database.append("m", fresh)
            everything += fresh
        elif kind == "drive":
            database.drive()
        elif database.catalog.find_parts(what) is None:
            database.declare(f"CREATE VIEW {what} AS {VIEWS[what]}")
    return everything


def _require_equal(one: StreamDatabase, other: StreamDatabase) -> None:
    for view in one.catalog.part_views:
        if view.kind == "helper":
            continue
        mine, theirs = one.progress(view.name), other.progress(view.name)
        assert (mine.first, mine.next) == (theirs.first, theirs.next), view.name
        assert mine.first is None or mine.next is not None
        for part in range(mine.first or 0, mine.next or 0):
            assert bag(one.part(view.name, part)) == bag(other.part(view.name, part)), f"{view.name}[{part}]"


def test_an_aggregate_without_groups_has_a_row_in_every_part(tmp_path: Path) -> None:
    """Parts whose window is empty have the row that Spark gives for no rows, also before late rows fill the window."""
    database = StreamDatabase(tmp_path)
    try:
        database.declare(STREAM)
        database.declare(f"CREATE VIEW whole AS {VIEWS['whole']}")
        database.append("m", [{"ts": moment(10), "g": 1, "x": 5}, {"ts": moment(1000), "g": 1, "x": 7}])
        database.drive()
        found = [database.part("whole", part).to_pylist() for part in range(2, 16)]
        assert found == [[{"n": 1, "s": 5}], *[[{"n": 0, "s": None}]] * 13]
        database.append("m", [{"ts": moment(400), "g": 1, "x": 3}])
        database.drive()
        found = [database.part("whole", part).to_pylist() for part in range(2, 16)]
        assert found == [[{"n": 1, "s": 5}], *[[{"n": 0, "s": None}]] * 3, *[[{"n": 1, "s": 3}]] * 3,
                         *[[{"n": 0, "s": None}]] * 7]  # fmt: skip
    finally:
        database.close()


GLOBAL = {
    "whole": "SELECT count(*) AS n, sum(x) AS s FROM m [WINDOW 3 MINUTES]",
    "running": "SELECT /*+ STRATEGY(running) */ avg(x) AS a FROM m [WINDOW 3 MINUTES]",
    "summed": "SELECT /*+ STRATEGY(cumulative) */ count(*) AS n FROM m [WINDOW 2 MINUTES]",
    "blocks": "SELECT /*+ STRATEGY(blocks) */ max(x) AS most FROM m [WINDOW 4 MINUTES]",
    "low": "SELECT g, max(x) AS most FROM m [WINDOW 1 MINUTES] GROUP BY g HAVING max(x) < 5",
    "lows": "SELECT count(*) AS n, sum(most) AS s FROM low [WINDOW 2 MINUTES]",
    "lull": "SELECT count(*) AS n FROM whole PATTERN [a, b+] WHERE a.n = 0 AND b.n = 0",
}


def test_rows_of_empty_windows_do_not_depend_on_the_order_of_arrival(tmp_path: Path) -> None:
    """Where the first part moves back, a source's rows vanish, or all is rebuilt, empty windows keep their rows."""
    rows = [(605, 5), (1500, 3), (61, 2), (250, 1), (655, 1), (1501, 9), (-300, 1)]
    slow, once = StreamDatabase(tmp_path / "slow", servers=3), StreamDatabase(tmp_path / "once")
    try:
        for database in (slow, once):
            database.declare("; ".join([STREAM, *(f"CREATE VIEW {name} AS {sql}" for name, sql in GLOBAL.items())]))
            database.seal("m", 30)
        for second, x in rows:
            slow.append("m", [{"ts": moment(second), "g": 1, "x": x}])
            slow.drive()
        once.append("m", [{"ts": moment(second), "g": 1, "x": x} for second, x in rows])
        once.drive()
        _require_equal(slow, once)
        assert once.part("lows", 25).to_pylist() == [{"n": 0, "s": None}]
        for name in ("whole", "running", "lows"):
            slow.declare(f"ALTER VIEW {name} REBUILD FROM -3")
        slow.drive()
        _require_equal(slow, once)
    finally:
        slow.close()
        once.close()


def test_a_row_put_before_an_append_is_joined_with_it(tmp_path: Path) -> None:
    """A part that an append seals sees what was put into a dimension table before the append, in one catch-up."""
    database = StreamDatabase(tmp_path)
    try:
        database.declare("CREATE TABLE hosts (g BIGINT, site STRING, PRIMARY KEY (g))")
        database.declare(STREAM)
        database.declare("CREATE VIEW sites AS SELECT site, sum(x) AS s FROM m [WINDOW 1 MINUTE] JOIN hosts "
                         "ON m.g = hosts.g GROUP BY site")  # fmt: skip
        hosts = database.catalog.find("hosts")
        assert isinstance(hosts, Table)
        for part, site in enumerate(["north", "south", "east"]):
            database.store.put(hosts, {"g": 1, "site": site})
            database.append("m", [{"ts": moment(60 * part), "g": 1, "x": part}, {"ts": moment(60 * part + 60)}])
            database.drive()
            assert database.part("sites", part).to_pylist() == [{"site": site, "s": part}]
    finally:
        database.close()


def test_a_match_that_late_rows_end_is_not_found_again(tmp_path: Path) -> None:
    """Late rows in a part that had none end a match, and later parts do not carry its rows on."""
    database = StreamDatabase(tmp_path)
    try:
        database.declare(STREAM)
        database.declare(f"CREATE VIEW ended AS {VIEWS['ended']}")
        for fresh in ([(48, 1), (400, 2), (700, 2)], [(85, 0), (704, 0)], [(800, 2)]):
            rows = [{"ts": moment(at), "g": 1 if at in (48, 85, 704) else 2, "x": x} for at, x in fresh]
            database.append("m", rows)
            database.drive()
        assert database.part("ended", 1).to_pylist() == [{"g": 1, "n": 2, "since": 1}]
        assert database.part("ended", 11).to_pylist() == []
    finally:
        database.close()
