"""Generated views in a database: whatever the order in which rows came, their parts are those of a database that got
all rows at once."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawn import examples
from generated_views import STREAM, VIEWS, in_steps, naive, require_equal, steps
from stream_database import StreamDatabase, moment
from viewkeeper.catalog.model import Table


@given(early=st.sets(st.sampled_from(sorted(VIEWS)), min_size=1), steps=steps, servers=st.integers(1, 3))
@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
def test_the_order_in_which_rows_come_and_views_are_declared_does_not_matter(
    early: set[str], steps: list[tuple[str, Any]], servers: int
) -> None:
    """Late rows, rounds in between and views declared late give the parts that one round over all rows gives, of window
    views by a query over the rows of each window."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        slow, quick = StreamDatabase(Path(one), servers), StreamDatabase(Path(other))
        try:
            everything = in_steps(slow, [*(("view", name) for name in sorted(early)), *steps])
            quick.declare(STREAM)
            quick.append("m", everything)
            for view in slow.catalog.part_views:
                if not view.hidden:
                    quick.declare(f"CREATE VIEW {view.name} AS {naive(VIEWS[view.name])}")
            quick.drive()
            require_equal(slow, quick)
        finally:
            slow.close()
            quick.close()


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
        require_equal(slow, once)
        assert once.part("lows", 25).to_pylist() == [{"n": 0, "s": None}]
        for name in ("whole", "running", "lows"):
            slow.declare(f"ALTER VIEW {name} REBUILD FROM -3")
        slow.drive()
        require_equal(slow, once)
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
