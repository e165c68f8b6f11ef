"""Generated views of every kind over one stream, the steps in which rows come to them, and what of two databases
must be equal."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st

from stream_database import StreamDatabase, moment

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


def naive(query: str) -> str:
    """The query, of a window view computed anew each time."""
    if "[WINDOW" not in query:
        return query
    return "SELECT /*+ STRATEGY(naive) */ " + re.sub(r"^\s*SELECT (/\*.*?\*/)?", "", query)


def in_steps(database: StreamDatabase, steps: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    everything: list[dict[str, Any]] = []
    database.declare(STREAM)
    for kind, what in [*steps, ("rows", [{"at": 800, "g": 0, "v": 1}]), ("drive", None)]:
        if kind == "rows":
            fresh = [{"ts": moment(row["at"]), "g": row["g"], "x": row["v"]} for row in what]
            database.append("m", fresh)
            everything += fresh
        elif kind == "drive":
            database.drive()
        elif database.catalog.find(what) is None:
            database.declare(f"CREATE VIEW {what} AS {VIEWS[what]}")
    return everything


def require_equal(one: StreamDatabase, other: StreamDatabase) -> None:
    for view in one.catalog.part_views:
        if view.hidden:
            continue
        mine, theirs = one.progress(view.name), other.progress(view.name)
        assert (mine.first, mine.next) == (theirs.first, theirs.next), view.name
        assert mine.first is None or mine.next is not None
        for part in range(mine.first or 0, mine.next or 0):
            assert one.rows(view.name, part) == other.rows(view.name, part), f"{view.name}[{part}]"
