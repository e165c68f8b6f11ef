"""Expiry: old parts go where they may, and never what a view, a held version or the horizon still needs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from stream_database import StreamDatabase, moment
from viewkeeper.catalog.model import PartView
from viewkeeper.errors import DeclarationError, NotFound
from viewkeeper.streams.part_index import PartIndex, read_index
from viewkeeper.streams.progress import StreamProgress
from viewkeeper.streams.view_progress import ViewProgress
from viewkeeper.views.version import Version
from viewkeeper.views.version_sources import Newest

COLUMNS = "(ts TIMESTAMP NOT NULL, g BIGINT, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60"
VIEWS = {
    "streak": "SELECT g, count(*) AS ct, sum(x) AS s FROM m PATTERN [a, b+] WHERE a.x > 0 AND b.x > 0 GROUP BY g",
    "last3": "SELECT g, sum(x) AS s, max(x) AS most FROM m [WINDOW 3 MINUTES] GROUP BY g",
    "running": "SELECT /*+ STRATEGY(running) */ g, sum(x) AS s FROM m [WINDOW 4 MINUTES] GROUP BY g",
    "summed": "SELECT /*+ STRATEGY(cumulative) */ g, sum(x) AS s FROM m [WINDOW 3 MINUTES] GROUP BY g",
    "blocks": "SELECT /*+ STRATEGY(blocks) */ g, max(x) AS most FROM m [WINDOW 7 MINUTES] GROUP BY g",
    "ended": """SELECT * FROM m MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts, x
        MEASURES count(*) AS n, first(A.x) AS since PATTERN (A+ B) DEFINE A AS x > 0, B AS x <= 0)""",
    "back5": """INITIALIZE back5[i] AS SELECT g, CAST(sum(x) AS BIGINT) AS s FROM m[i-5..i] GROUP BY g
        UPDATE back5[j] AS SELECT g, CAST(sum(x) AS BIGINT) AS s FROM m[j-5..j] GROUP BY g PARTITION LENGTH 60
        BACKFILL""",
    "streaks": """INITIALIZE streaks[i] AS SELECT g, max(CAST(1 AS BIGINT)) AS ct FROM m[i] WHERE x > 0 GROUP BY g
        UPDATE streaks[j] AS SELECT a.g, max(COALESCE(b.ct, 0) + 1) FROM m[j] AS a LEFT JOIN streaks[j-3..j-2] AS b
            ON a.g = b.g WHERE a.x > 0 GROUP BY a.g PARTITION LENGTH 60 BACKFILL""",
}
"""Views that look back in every way; what is to be read of the past lies up to seven parts back."""


def declare(database: StreamDatabase, clauses: str, views: dict[str, str] = VIEWS, expire: str = "") -> None:
    database.declare(f"CREATE STREAM m {COLUMNS} {clauses}")
    for name, query in views.items():
        database.declare(f"CREATE VIEW {name} AS {query} {expire}")


def row(part: int, g: int = 1, x: int = 1, second: int = 0) -> dict[str, Any]:
    return {"ts": moment(60 * part + second), "g": g, "x": x}


def version(database: StreamDatabase) -> Version:
    return Version(database.storage.newest(), None)


def index(database: StreamDatabase, id_: int) -> PartIndex:
    return read_index(database.storage.newest()).get(id_, PartIndex())


def first_of(database: StreamDatabase, name: str) -> int:
    """The lowest part that is in the part catalog."""
    found = index(database, database.catalog.find(name).id).first  # type: ignore[union-attr]
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(2))
def test_late_rows_find_all_that_they_need_whatever_has_expired(tmp_path: Path, seed: int) -> None:
    """With HORIZON and EXPIRE AFTER, tidied after each round, every part that is left is that of a database that keeps
    everything."""
    chance = random.Random(seed)
    one, other = StreamDatabase(tmp_path / "one"), StreamDatabase(tmp_path / "other")
    declare(one, "HORIZON 300 EXPIRE AFTER 240", expire="EXPIRE AFTER 120")
    declare(other, "HORIZON 300")
    at = 0
    for _ in range(10):
        at += chance.choice([0, 1, 1, 2, 12])
        fresh = [row(max(0, at - chance.choice([0, 0, 1, 2, 4])), chance.randrange(3), chance.randrange(-1, 4))
                 for _ in range(chance.randrange(1, 5))]  # fmt: skip
        for database in (one, other):
            database.append("m", fresh)
            database.drive()
        one.tidy()
    for name in ("m", *VIEWS):
        mine, theirs = one.progress(name), other.progress(name)
        assert (mine.first, mine.next) == (theirs.first, theirs.next), name
        assert getattr(mine, "stale", None) is None
        assert mine.next is not None and mine.kept is not None and mine.kept >= mine.next - 20, name
        for part in range(mine.kept, mine.next):
            assert one.rows(name, part) == other.rows(name, part), f"{name}[{part}]"
    one.close()
    other.close()


def test_what_helpers_keep_is_bounded_where_there_is_a_horizon(database: StreamDatabase) -> None:
    """After many parts the hidden helpers, and what programs keep beside views, have the last few only; views and
    stream, without EXPIRE AFTER, have all."""
    declare(database, "HORIZON 120")
    for part in range(0, 72, 12):
        database.append("m", [row(part + i, g, (i + g) % 4 - 1) for i in range(12) for g in range(3)])
        database.drive()
        database.tidy()
    for view in database.catalog.part_views:
        helpers = [view.id] if view.hidden else [helper.id for helper in view.helpers]
        for id_ in helpers:
            parts = index(database, id_)
            assert parts.first is not None and parts.last is not None and len(parts) <= 20, view.name
    assert first_of(database, "m") == 0
    assert first_of(database, "last3") == 2
    names = {run.file for runs in database.storage.newest().states.values() for run in runs}
    on_disk = {path.name for path in (database.storage.root / "state").iterdir() if not path.name.startswith("append")}
    assert on_disk <= names


def test_without_a_horizon_nothing_that_late_rows_may_change_goes(database: StreamDatabase) -> None:
    """Late rows of any age are taken where the stream has neither HORIZON nor EXPIRE AFTER, tidied or not."""
    declare(database, "", expire="EXPIRE AFTER 60")
    database.append("m", [row(part, part % 3) for part in range(60)])
    database.drive()
    database.tidy()
    database.append("m", [row(0, 0, 3)])
    database.drive()
    assert len(database.part("m", 0)) == 2
    assert database.part("streaks", 58).num_rows > 0
    assert all(getattr(database.progress(name), "stale", None) is None for name in VIEWS)


def test_an_expired_part_says_so_and_a_part_before_the_first_too(database: StreamDatabase) -> None:
    """Reading a part that has expired names the first that is kept; reading all parts reads those that are."""
    declare(database, "EXPIRE AFTER 300", {"plain": "SELECT g, x FROM m WHERE x > 0"}, "EXPIRE AFTER 120")
    database.append("m", [row(part) for part in range(10, 60)])
    database.drive()
    database.tidy()
    for name, kept in (("m", 54), ("plain", 57)):
        parts = version(database).parts_named(name)
        assert (parts.kept, parts.newest) == (kept, 58)
        with pytest.raises(NotFound, match=rf"{name}\[20\] has expired: parts from {kept} on are kept"):
            parts.require(20, 20)
        with pytest.raises(NotFound, match=r"\[5\] lies before the first part"):
            parts.require(5, 5)
        assert parts.with_rows() == list(range(kept, 59))


def test_a_held_version_reads_what_has_expired_since(database: StreamDatabase) -> None:
    """A lease keeps the files of parts that have expired in newer versions, and no longer."""
    declare(database, "EXPIRE AFTER 300", {}, "")
    for part in range(40):
        database.append("m", [row(part)])
    database.drive()
    with Newest(database.storage).held() as held:
        database.append("m", [row(part) for part in range(40, 80)])
        database.drive()
        database.tidy()
        assert first_of(database, "m") > 60
        parts = held.parts_named("m")
        assert parts.table(range(39)).num_rows == 39


def test_a_horizon_longer_than_the_age_keeps_parts_for_late_rows(database: StreamDatabase) -> None:
    """No row within HORIZON is lost since its part has expired."""
    declare(database, "HORIZON 1800 EXPIRE AFTER 60", {}, "")
    database.append("m", [row(part) for part in range(60)])
    database.drive()
    database.tidy()
    database.append("m", [row(35)])
    database.drive()
    assert len(database.part("m", 35)) == 2
    assert first_of(database, "m") == 29


def test_a_stale_view_keeps_what_it_waits_for(database: StreamDatabase) -> None:
    """Source parts stay, whatever their age, until a view whose query fails has got past them."""
    query = """INITIALIZE v[i] AS SELECT g, 10 % CAST(sum(x) AS BIGINT) AS r FROM m[i] GROUP BY g
        UPDATE v[j] AS SELECT g, 10 % CAST(sum(x) AS BIGINT) FROM m[j] GROUP BY g PARTITION LENGTH 60 BACKFILL"""
    broken = query.replace("UPDATE v[j] AS SELECT g", "UPDATE v[j] AS SELECT CAST(concat('no luck', g) AS BIGINT)")
    declare(database, "EXPIRE AFTER 300", {"v": broken})
    database.append("m", [row(part) for part in range(50)])
    database.drive()
    progress = database.progress("v")
    assert isinstance(progress, ViewProgress) and "no luck" in str(progress.stale) and progress.next == 1
    database.tidy()
    assert first_of(database, "m") == 1
    database.declare(f"ALTER VIEW v AS {query}")
    database.drive()
    database.tidy()
    assert database.progress("v").next == 49
    assert first_of(database, "m") == 44


def test_a_view_that_names_an_expired_part_is_stale_with_the_reason(database: StreamDatabase) -> None:
    """A view declared too late for what its UPDATE names says which part is gone."""
    declare(database, "EXPIRE AFTER 300", {})
    database.append("m", [row(part) for part in range(50)])
    database.drive()
    database.tidy()
    database.declare("""CREATE VIEW old AS INITIALIZE old[i] AS SELECT g, x FROM m[i]
        UPDATE old[j] AS SELECT g, x FROM m[j-30..j] PARTITION LENGTH 60""")
    database.append("m", [row(50)])
    database.drive()
    progress = database.progress("old")
    assert isinstance(progress, ViewProgress)
    assert progress.stale == "part 49 reads part 19 of m, which has expired"
    assert progress.next == 49 and database.part("old", 48).num_rows == 1


def test_a_range_that_begins_before_the_first_part_may_not_skip_expired_ones(database: StreamDatabase) -> None:
    """Parts before the stream's first are empty for UPDATE, but those between it and the first kept are gone."""
    declare(database, "EXPIRE AFTER 300", {})
    database.append("m", [row(part) for part in range(20)])
    database.drive()
    database.tidy()
    database.declare("""CREATE VIEW old AS INITIALIZE old[i] AS SELECT g, x FROM m[i]
        UPDATE old[j] AS SELECT g, x FROM m[j-30..j] PARTITION LENGTH 60""")
    database.append("m", [row(20)])
    database.drive()
    assert database.progress("old").stale == "part 19 reads part 0 of m, which has expired"  # type: ignore[union-attr]


def test_a_window_declared_later_is_filled_from_the_oldest_part_of_the_stream(database: StreamDatabase) -> None:
    """A new view does not share a hidden helper that has lost the parts which the stream still has."""
    window = "SELECT g, sum(x) AS s FROM m [WINDOW {} MINUTES] GROUP BY g"
    pattern = "SELECT g, count(*) AS ct FROM m PATTERN [a, b+] WHERE a.x > 0 AND b.x > 0 GROUP BY g"
    declare(database, "HORIZON 120", {"w": window.format(3), "p": pattern})
    database.append("m", [row(part) for part in range(50)])
    database.drive()
    database.tidy()
    database.declare(f"CREATE VIEW w2 AS {window.format(2)}; CREATE VIEW p2 AS {pattern}")
    database.drive()
    assert (database.progress("w2").first, database.progress("p2").first) == (1, 0)
    assert database.part("w2", 1).to_pylist() == [{"g": 1, "s": 2}]
    assert database.part("p2", 20).to_pylist() == [{"g": 1, "ct": 21}]


def test_what_cannot_be_computed_any_more_is_not_promised(database: StreamDatabase) -> None:
    """REBUILD and ALTER from a part whose sources have expired are refused, with the first part that can be."""
    declare(database, "EXPIRE AFTER 300", {name: VIEWS[name] for name in ("back5", "last3", "ended")})
    database.append("m", [row(part, x=part % 3) for part in range(50)])
    database.drive()
    database.tidy()
    with pytest.raises(DeclarationError, match="part 20 of back5 cannot be computed anew.*the first that can is 44"):
        database.declare("ALTER VIEW back5 REBUILD FROM 20")
    with pytest.raises(DeclarationError, match="the first that can is"):
        database.declare(f"ALTER VIEW back5 FROM 20 AS {VIEWS['back5'].replace('-5', '-4')}")
    with pytest.raises(DeclarationError, match="cannot be computed anew"):
        database.declare("ALTER VIEW ended REBUILD FROM 20")
    before = [database.rows(name, 48) for name in ("back5", "last3", "ended")]
    database.declare(
        "ALTER VIEW back5 REBUILD FROM 44; ALTER VIEW last3 REBUILD FROM 46; ALTER VIEW ended REBUILD FROM 47"
    )
    database.drive()
    assert [database.rows(name, 48) for name in ("back5", "last3", "ended")] == before
    assert all(view.hidden or isinstance(view, PartView) for view in database.catalog.part_views)
    assert isinstance(database.progress("m"), StreamProgress)
