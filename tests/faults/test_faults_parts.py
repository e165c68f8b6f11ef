"""A driver of streams that is killed anywhere loses no part and doubles none, and shows nothing half done."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stream_database import StreamDatabase, moment, sorted_rows, to_table
from viewkeeper.catalog.model import Table
from viewkeeper.pipeline.fills import unfilled
from viewkeeper.streams.intake.append import StreamTarget, append
from viewkeeper.streams.part_index import PartIndex, read_index
from viewkeeper.streams.progress import StreamProgress
from viewkeeper.streams.view_progress import ViewProgress
from viewkeeper.trace import points
from viewkeeper.trace.garbage import collect
from viewkeeper.trace.local_disk import local_storage
from viewkeeper.trace.snapshot import Snapshot
from viewkeeper.views.version import Version

SEEDS = int(os.environ.get("VIEWKEEPER_FAULT_SEEDS", "4"))

SCRIPT = """
CREATE TABLE hosts (g BIGINT PRIMARY KEY, site BIGINT);
CREATE STREAM m (ts TIMESTAMP NOT NULL, g BIGINT, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60
    HORIZON 900 EXPIRE AFTER 1800;
CREATE VIEW sums AS SELECT g, sum(x) AS s, count(*) AS n FROM m [WINDOW 1 MINUTE] GROUP BY g;
CREATE VIEW last3 AS SELECT /*+ STRATEGY(running) */ g, sum(x) AS s, count(*) AS n FROM m [WINDOW 3 MINUTES] GROUP BY g;
CREATE VIEW streak AS SELECT g, count(*) AS ct, sum(x) AS s FROM m PATTERN [a, b+] WHERE a.x > 0 AND b.x > 0 GROUP BY g;
CREATE VIEW sites AS SELECT h.site, sum(m.x) AS s, count(*) AS n FROM m JOIN hosts h ON m.g = h.g [WINDOW 1 MINUTE]
    GROUP BY h.site;
CREATE VIEW copy AS INITIALIZE copy[i] AS SELECT g, x FROM m[i] UPDATE copy[j] AS SELECT g, x FROM m[j]
    PARTITION LENGTH 60 BACKFILL;
CREATE VIEW totals AS INITIALIZE totals[i] AS
        SELECT CAST(sum(s) AS BIGINT) AS s, CAST(sum(n) AS BIGINT) AS n FROM sums[i]
    UPDATE totals[j] AS SELECT CAST(sum(s) AS BIGINT), CAST(sum(n) AS BIGINT) FROM sums[j]
    PARTITION LENGTH 60 BACKFILL;
CREATE VIEW ever AS SELECT m.g, max(h.site) AS site, sum(m.x) AS s, count(*) AS n FROM m JOIN hosts h ON m.g = h.g
    GROUP BY m.g;
CREATE VIEW now AS SELECT g, sum(x) AS s, count(*) AS n FROM m GROUP BY g FORGET EXPIRED;
"""
VIEWS = ("sums", "last3", "streak", "sites", "copy", "totals")


class Watched(StreamDatabase):
    """A database whose driver works in other processes; what was appended is known, part by part."""

    def __init__(self, root: Path, seed: int) -> None:
        super().__init__(root, servers=1 + seed % 3)
        self.seed, self.chance = seed, random.Random(seed)
        self.given: list[tuple[int, int, int]] = []  # (second, g, x)
        self.at, self.ids = 0, 0
        self.declare(SCRIPT)
        self.write_hosts(0)

    def write_hosts(self, site: int) -> None:
        table = self.catalog.find("hosts")
        assert isinstance(table, Table)
        self.site = site
        self.store.put_many(table, [{"g": g, "site": site + g % 2} for g in range(4)])

    def send(self) -> None:
        """One append, with rows of the newest parts and late ones; now and then it is sent twice, as by somebody who
        has not heard that it was stored."""
        chance = self.chance
        self.at += chance.choice([0, 60, 60, 120, 400])
        rows = [(max(0, self.at - chance.choice([0, 0, 30, 90, 300])), chance.randrange(4), chance.randrange(-1, 4))
                for _ in range(chance.randrange(1, 6))]  # fmt: skip
        self.ids += 1
        for _ in range(chance.choice([1, 1, 2])):
            append(StreamTarget(self.storage, self.stream("m"), "UTC"),
                   [{"ts": moment(at), "g": g, "x": x} for at, g, x in rows], f"append {self.ids}")  # fmt: skip
        self.given += rows

    def send_late(self) -> None:
        """A row of the newest part that is built: a repair."""
        parts = kept(self.storage.newest(), "m")[0]
        if parts:
            append(StreamTarget(self.storage, self.stream("m"), "UTC"),
                   [{"ts": moment(parts[-1] * 60), "g": 0, "x": 1}])  # fmt: skip
            self.given.append((parts[-1] * 60, 0, 1))


def work(database: Watched, tidies: bool) -> None:
    """What the driver does in its process: everything that is in, and looking through old parts."""
    database.drive()
    if tidies:
        maintainer = database.maintainer()
        for _ in range(3):
            maintainer.parts.tidy(maintainer.term, 0.0)
            maintainer.parts.step(maintainer.term)
            maintainer.parts.finish(maintainer.term)
        collect(maintainer.term.storage, maintainer.term.snapshot, maintainer.term.running, 0.0)
        maintainer.close()


def fork_and_kill(database: Watched, point: str, count: int, tidies: bool) -> int:
    """Works in a child process that is killed when it comes to `point` for the `count`-th time; how it ended.

    Meanwhile this process appends and reads, every version that it finds.
    """
    points.arm(database.root, point, count)
    database.log.close()
    child = os.fork()
    if child == 0:
        try:
            points._FOLDER = str(database.root)
            work(database, tidies)
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a forked test must never return into pytest
            import traceback

            traceback.print_exc()
            os._exit(1)
    reader, seen = local_storage(database.root), -1
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        snapshot = reader.newest()
        if snapshot.number != seen:
            assert_whole(snapshot)
            seen = snapshot.number
            if database.chance.random() < 0.3:
                database.send()
        time.sleep(0.005)  # else half of the machine reads


def kept(snapshot: Snapshot, name: str) -> tuple[range, PartIndex]:
    """The parts of a stream or view that are there."""
    item = snapshot.catalog.find(name)
    assert item is not None
    data = snapshot.progress.get(item.id)
    progress = StreamProgress.from_dict(data) if name == "m" else ViewProgress.from_dict(data)
    if progress.first is None or progress.next is None:
        return range(0), PartIndex()
    first = progress.first if progress.kept is None else max(progress.first, progress.kept)
    return range(first, progress.next), read_index(snapshot).get(item.id, PartIndex())


def rows(snapshot: Snapshot, name: str, part: int) -> list[tuple[Any, ...]]:
    item = snapshot.catalog.find(name)
    assert item is not None
    found = kept(snapshot, name)[1].at(part)
    assert found is not None, f"{name}[{part}] is not there"
    return sorted_rows(to_table(snapshot.storage.disk, found.pieces, item.columns, "UTC"))


def of_all(snapshot: Snapshot, name: str) -> Counter[tuple[Any, ...]]:
    """The rows of a view that takes all rows of the stream together."""
    version = Version(snapshot)
    found = version.rows(version.shape(name)).repeated()
    return Counter(zip(*(column.to_pylist() for column in found.columns), strict=True))


def assert_whole(snapshot: Snapshot) -> None:
    """At one version every part of every view is that of the stream's parts, and what has all rows that are there is of
    these, open ones too."""
    built, index = kept(snapshot, "m")
    if not unfilled(snapshot.catalog):
        there = [row for part in index if part.rows for row in rows(snapshot, "m", part.part)]
        by_source = {g: [x for _, h, x in there if h == g] for _, g, _ in there}
        assert of_all(snapshot, "now") == Counter((g, sum(xs), len(xs)) for g, xs in by_source.items())
    for name in VIEWS:
        parts = kept(snapshot, name)[0]
        assert parts.stop == built.stop or not built, f"{name} has parts up to {parts.stop} of {built.stop}"
    for part in built[-12:]:
        source = rows(snapshot, "m", part)
        by_group: dict[int, list[int]] = {}
        for _, g, x in source:
            by_group.setdefault(g, []).append(x)
        assert rows(snapshot, "sums", part) == sorted(((g, sum(xs), len(xs)) for g, xs in by_group.items()), key=repr)
        assert rows(snapshot, "copy", part) == sorted(((g, x) for _, g, x in source), key=repr)
        ((total, n),) = rows(snapshot, "totals", part) or [(None, None)]
        assert (total or 0, n or 0) == (sum(x for *_, x in source), len(source))
        assert sum(s for _, s, _ in rows(snapshot, "sites", part)) == sum(x for *_, x in source)


def assert_all_there(database: Watched) -> None:
    """The stream has all rows that were acknowledged, each once, as far as its parts are kept; every view is as in a
    database that was never disturbed."""
    snapshot = local_storage(database.root).newest()
    parts = kept(snapshot, "m")[0]
    expected: dict[int, Counter[tuple[Any, ...]]] = {}
    for at, g, x in database.given:
        expected.setdefault(at // 60, Counter())[moment(at), g, x] += 1
    for part in parts:
        assert Counter(rows(snapshot, "m", part)) == expected.get(part, Counter()), f"m[{part}]"
    assert_whole(snapshot)
    totals = {g: [x for _, h, x in database.given if h == g] for _, g, _ in database.given}
    assert of_all(snapshot, "ever") == Counter((g, database.site + g % 2, sum(xs), len(xs)) for g, xs in totals.items())
    files = {path.name for path in (snapshot.storage.root / "state").iterdir()}
    assert files >= set(snapshot.files)


def undisturbed(database: Watched, root: Path) -> None:
    """The views' parts are those of a database to which all was given at once."""
    other = StreamDatabase(root)
    other.declare(SCRIPT.replace("HORIZON 900 EXPIRE AFTER 1800", ""))
    other.append("m", [{"ts": moment(at), "g": g, "x": x} for at, g, x in database.given])
    other.drive()
    mine, theirs = local_storage(database.root).newest(), other.storage.newest()
    for name in ("sums", "last3", "streak", "copy", "totals"):
        parts = kept(mine, name)[0]
        assert parts.stop == kept(theirs, name)[0].stop
        for part in parts:
            assert rows(mine, name, part) == rows(theirs, name, part), f"{name}[{part}]"
    other.close()


@pytest.mark.faults
@pytest.mark.parametrize("point", (*points.PART_POINTS, "zone file written"))
def test_kills_at_any_point_are_survived(tmp_path: Path, point: str) -> None:
    """However often the driver is killed at a point, the parts are the same with the same rows as without."""
    killed, tidies = 0, point in ("parts rolled up", "parts expired")
    for seed in range(0, SEEDS, 4):
        database = Watched(tmp_path / f"disturbed {seed}", seed)
        for round_ in range(seed, seed + 4):
            for _ in range(20 if tidies else 4):
                database.send()
            if point == "part repaired":
                database.drive()
                database.send_late()
            if point == "dimension copied":
                database.write_hosts(round_)
            count = database.chance.randint(1, 8) if point == "part file written" else 1
            status = fork_and_kill(database, point, count, tidies)
            assert status in (0, signal.SIGKILL), f"seed {seed}: the driver failed, status {status}"
            killed += status == signal.SIGKILL
            assert_whole(local_storage(database.root).newest())
        database.drive()
        assert_all_there(database)
        undisturbed(database, tmp_path / f"undisturbed {seed}")
        database.close()
    assert killed >= SEEDS / 2
