"""Roll-up: files become few, and no part changes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import viewkeeper
from stream_database import StreamDatabase, moment, sorted_rows
from viewkeeper.catalog.model import PartView
from viewkeeper.streams.keeping import rollup
from viewkeeper.streams.part_files import close_part_files_except, to_table
from viewkeeper.streams.part_index import read_index
from viewkeeper.trace.snapshot import Snapshot
from viewkeeper.views.version import Version
from viewkeeper.views.version_sources import Newest

STREAM = "CREATE STREAM m (ts TIMESTAMP NOT NULL, g BIGINT, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60;"
VIEWS = """
CREATE VIEW streak AS SELECT g, count(*) AS ct, sum(x) AS s FROM m PATTERN [a, b+] WHERE a.x > 0 AND b.x > 0 GROUP BY g;
CREATE VIEW last3 AS SELECT g, sum(x) AS s, max(x) AS most FROM m [WINDOW 3 MINUTES] GROUP BY g;
CREATE VIEW running AS SELECT /*+ STRATEGY(running) */ g, sum(x) AS s FROM m [WINDOW 4 MINUTES] GROUP BY g;
CREATE VIEW blocks AS SELECT /*+ STRATEGY(blocks) */ g, max(x) AS most FROM m [WINDOW 7 MINUTES] GROUP BY g;
CREATE VIEW rises AS SELECT * FROM m MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts, x
    MEASURES count(*) AS n PATTERN (A+ B) DEFINE A AS x > 0, B AS x <= 0);
"""
DECLARED = STREAM + VIEWS


def rows_of(chance: random.Random, part: int, count: int = 3) -> list[dict[str, Any]]:
    return [{"ts": moment(60 * part + chance.randrange(60)), "g": chance.randrange(4), "x": chance.randrange(-1, 4)}
            for _ in range(count)]  # fmt: skip


def fill(database: StreamDatabase, parts: range, seed: int = 0) -> None:
    """A round for every part."""
    chance = random.Random(seed)
    send(database, [rows_of(chance, part) for part in parts])


@pytest.fixture(scope="module")
def sixty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a database with sixty parts, to be copied: it takes seconds to make."""
    database = StreamDatabase(tmp_path_factory.mktemp("sixty") / "database")
    database.declare(DECLARED)
    fill(database, range(60))
    database.close()
    return database.root


@pytest.fixture
def filled(sixty: Path, tmp_path: Path) -> Iterator[StreamDatabase]:
    """A database with sixty parts, each of its own round."""
    database = StreamDatabase(shutil.copytree(sixty, tmp_path / "database"))
    yield database
    database.close()


def send(database: StreamDatabase, appends: list[list[dict[str, Any]]]) -> None:
    """A round for every append."""
    maintainer = database.maintainer()
    for rows in appends:
        database.append("m", rows)
        maintainer.parts.step(maintainer.term)
        maintainer.parts.finish(maintainer.term)
    maintainer.close()
    assert maintainer.last_error is None


def everything(snapshot: Snapshot) -> dict[tuple[int, int], list[tuple[Any, ...]]]:
    """The rows of every part of every stream, view and helper."""
    catalog, found = snapshot.catalog, {}
    objects = {item.id: item.columns for item in catalog.in_parts}
    objects |= {h.id: h.columns for v in catalog.part_views for h in v.helpers}
    for id_, columns in objects.items():
        for part in read_index(snapshot).get(id_, ()):
            rows = sorted_rows(to_table(snapshot.storage.disk, part.pieces, columns, "UTC"))
            found[id_, part.part] = found[id_, part.last] = rows
    return found


def files_of(snapshot: Snapshot) -> dict[int, int]:
    """How many files each object with parts has in the manifest."""
    ids = {item.id for item in snapshot.catalog.in_parts}
    ids |= {h.id for v in snapshot.catalog.part_views for h in v.helpers}
    return {id_: len(snapshot.states.get(id_, ())) for id_ in ids}


def test_rolled_up_parts_have_the_rows_and_the_times_that_they_had(filled: StreamDatabase) -> None:
    """Roll-up changes which files parts stand in, and nothing that a reader sees, of any object."""
    database = filled
    before = database.storage.newest()
    rows, index = everything(before), read_index(before)
    database.tidy()
    after = database.storage.newest()
    assert sum(files_of(after).values()) < sum(files_of(before).values()) / 5
    assert everything(after) == rows
    for id_, parts in read_index(after).items():
        assert [(p.part, p.last, p.updated, p.stamp) for p in parts] == [
            (p.part, p.last, p.updated, p.stamp) for p in index[id_]]  # fmt: skip
    assert Version(after, None).parts_named("last3").changed(version=before.version) == []


def test_an_older_version_that_is_held_reads_the_old_files(filled: StreamDatabase) -> None:
    """What was rolled up after a lease was taken is still read from the small files, until the lease ends."""
    database = filled
    with Newest(database.storage).held() as version:
        rows, names = everything(version.snapshot), set(version.snapshot.files)
        database.tidy()
        close_part_files_except(database.storage.disk, ())
        assert everything(version.snapshot) == rows
        assert all((database.storage.root / "state" / name).exists() for name in names)
    database.tidy()
    left = set(database.storage.newest().files)
    assert not any(
        (database.storage.root / "state" / name).exists() for name in names - left if not name.startswith("append")
    )


def test_queries_and_ranges_read_rolled_up_parts(tmp_path: Path) -> None:
    """SQL over some parts, conditions on PART_TIMESTAMP, and reading a part give what they gave before, also as of a
    version before a late row."""
    with viewkeeper.connect(tmp_path, nodes=1, durability="process") as db:
        db.sql(STREAM + "CREATE VIEW last3 AS SELECT g, sum(x) AS s FROM m [WINDOW 3 MINUTES] GROUP BY g")
        database = StreamDatabase(tmp_path)
        send(database, [[{"ts": moment(60 * part), "g": part % 2, "x": part}] for part in range(60)])
        queries = ("SELECT count(*) AS n, sum(x) AS x FROM m[5..17]", "SELECT sum(s) AS s FROM last3[20]",
                   "SELECT sum(s) AS s FROM last3 WHERE PART_TIMESTAMP < TIMESTAMP '1970-01-01 00:30:00'",
                   "SELECT count(*) AS n FROM m")  # fmt: skip

        def answers(reader: Any) -> list[Any]:
            return [list(reader.sql(query)) for query in queries] + [list(reader.view("last3").part(30).rows())]

        before = answers(db)
        database.tidy()
        assert files_of(database.storage.newest())[database.stream("m").id] < rollup.FAN_IN
        assert answers(db) == before
        with db.snapshot() as old:
            send(database, [[{"ts": moment(60 * 10), "g": 1, "x": 100}]])
            assert answers(db) != before
            assert answers(old) == before
        database.close()


def test_late_rows_for_rolled_up_parts_change_what_they_would_have(tmp_path: Path) -> None:
    """After roll-up late rows are taken, views repaired, and files rolled up again, as in a database without it."""
    chance = random.Random(5)
    late = [rows_of(chance, chance.randrange(36), 2) for _ in range(18)]
    found = []
    for tidies in (True, False):
        database = StreamDatabase(tmp_path / str(tidies), servers=3)
        database.declare(DECLARED)
        fill(database, range(36))
        for first in range(0, 18, 6):
            if tidies:
                database.tidy()
            send(database, late[first : first + 6])
        if tidies:
            database.tidy()
        names = {item.id: item.name for item in database.catalog.in_parts}
        rows = everything(database.storage.newest())
        found.append({(names[id_], part): each for (id_, part), each in rows.items() if id_ in names and each})
        database.close()
    assert found[0] == found[1]


def test_files_and_runs_stay_few_over_many_parts(tmp_path: Path) -> None:
    """After 200 parts, each of its own round, with tidying now and then, there are some dozens of files an object."""
    database = StreamDatabase(tmp_path)
    database.declare(STREAM + VIEWS.split(";")[1])
    for first in range(0, 200, 20):
        fill(database, range(first, first + 20), seed=first)
        database.tidy()
    snapshot = database.storage.newest()
    assert max(files_of(snapshot).values()) <= 3 * rollup.FAN_IN
    on_disk = [path for path in (database.storage.root / "state").iterdir() if path.suffix == ".parquet"]
    assert len([path for path in on_disk if not path.name.startswith("append")]) <= sum(files_of(snapshot).values())
    progress = database.progress("last3")
    assert progress.next is not None and progress.next >= 199
    database.close()


def test_a_part_of_many_appends_is_rolled_up_before_it_is_sealed(database: StreamDatabase) -> None:
    """An open part that came in hundreds of appends does not keep hundreds of files."""
    chance = random.Random(1)
    for _ in range(200):
        database.append("m", rows_of(chance, 3))
    database.drive()
    before = everything(database.storage.newest())
    database.tidy()
    after = database.storage.newest()
    assert everything(after) == before
    assert files_of(after)[database.stream("m").id] < rollup.FAN_IN
    database.append("m", rows_of(chance, 5))
    database.drive()
    assert len(database.part("m", 3)) == 600


def test_files_that_are_mostly_dead_are_written_again(
    database: StreamDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where repairs have replaced most rows of a large file, what is left of it does not keep it."""
    monkeypatch.setattr(rollup, "TARGET_ROWS", rollup.TARGET_ROWS // 5)
    view = database.view("last3")
    chance = random.Random(2)
    everywhere = [row for part in range(40) for row in rows_of(chance, part, 280)]
    late = [[{"ts": moment(60 * part), "g": part, "x": 9} for part in range(first, 36, 12)] for first in range(12)]
    send(database, [[{**row, "g": i % 240} for i, row in enumerate(everywhere)], *late])
    before = everything(database.storage.newest())
    for _ in range(3):
        database.tidy()
    after = database.storage.newest()
    assert everything(after) == before
    assert isinstance(view, PartView)
    named = sum(run.rows for run in after.states[view.id])
    assert named < 1.5 * read_index(after)[view.id].rows


def test_tidying_is_not_put_off_by_appends_without_end(filled: StreamDatabase) -> None:
    """A round that is to tidy does so also where entries wait in the log, and takes these next."""
    database = filled
    maintainer = database.maintainer()
    before = sum(files_of(maintainer.term.snapshot).values())
    database.append("m", rows_of(random.Random(3), 61))
    maintainer.parts.tidy(maintainer.term, 0.0)
    for _ in range(2):
        maintainer.parts.step(maintainer.term)
        maintainer.parts.finish(maintainer.term)
    assert sum(files_of(maintainer.term.snapshot).values()) < before / 2
    assert maintainer.term.snapshot.progress[database.stream("m").id]["position"] == 61
    maintainer.close()
