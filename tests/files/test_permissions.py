"""All that a database is made of is its owner's alone, whatever the umask, until the owner lets others in."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import viewkeeper
from local_maintenance import catch_up
from viewkeeper import Database
from viewkeeper.streams.intake import stream_log
from viewkeeper.trace.lock import driver_lock


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(root: Path) -> dict[str, str]:
    """The permissions of the folder and of all that is in it."""
    return {str(path.relative_to(root)): stat.filemode(path.stat().st_mode) for path in (root, *root.rglob("*"))}


def used(db: Database) -> None:
    """Makes whatever a database makes: a table, a view, a stream with rejected rows, requests, leases, locks."""
    db.sql("""CREATE TABLE t (id BIGINT, x INT, PRIMARY KEY (id));
              CREATE VIEW v AS SELECT x, count(*) AS n FROM t GROUP BY x;
              CREATE STREAM m (ts TIMESTAMP NOT NULL, x INT) TIMESTAMP BY ts PARTITION LENGTH 60;
              CREATE VIEW w AS SELECT x, count(*) AS n FROM m [WINDOW 5 MINUTES] GROUP BY x""")
    db.table("t").put_many([{"id": i, "x": i % 3} for i in range(100)])
    db.stream("m").append([{"ts": f"2020-01-01 10:0{i}", "x": i} for i in range(8)] + [{"ts": None, "x": 1}])
    catch_up(db)


def test_only_the_owner_may_read_what_a_database_holds(
    tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every folder is 0700 and every file 0600, also those that last for a moment."""
    monkeypatch.setattr(stream_log, "_INLINE_BYTES_MAX", 0)
    with viewkeeper.connect(tmp_path / "deep" / "shop") as db:
        used(db)
        held = db.snapshot()
        lock = driver_lock(db.root)
        lock.acquire("statement", 1.0)
        found = modes(db.root)
        lock.release()
        held.close()
    assert {"driver.lock", "driver.json", "stamp", "database.json", "nodes/0/data.mdb", "nodes/1/lock.mdb"} <= {*found}
    folders = {name for name in found if (tmp_path / "deep" / "shop" / name).is_dir()}
    assert {"leases", "requests", "state", "streams", "manifests", "catalogs"} <= folders
    assert any(name.startswith("streams/rejected-") for name in found)
    assert any(name.startswith("leases/") for name in found) and any(name.startswith("state/") for name in found)
    assert {name: mode for name, mode in found.items() if mode != ("drwx------" if name in folders else "-rw-------")
            } == {}  # fmt: skip


def test_an_empty_folder_that_others_may_read_becomes_its_owners_alone(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir(0o755)
    with viewkeeper.connect(tmp_path / "shop") as db:
        assert modes(db.root) == {".": "drwxr-xr-x"}, "nothing is made yet"
        used(db)
    assert modes(tmp_path / "shop")["."] == "drwx------"


def test_what_is_made_after_the_owner_lets_a_group_in_is_for_the_group_too(tmp_path: Path, umask: int) -> None:
    """`chmod -R g+rwX`, and what comes later follows, whatever the umask."""
    with viewkeeper.connect(tmp_path / "shop") as db:
        used(db)
    for path in (tmp_path / "shop", *(tmp_path / "shop").rglob("*")):
        path.chmod(path.stat().st_mode | (0o070 if path.is_dir() else 0o060))
    with viewkeeper.connect(tmp_path / "shop") as db:
        db.sql("CREATE VIEW later AS SELECT id FROM t")
        db.table("t").put({"id": 1000, "x": 1})
        db.stream("m").append([{"ts": "2020-01-01 11:00", "x": 1}])
        catch_up(db)
    assert set(modes(tmp_path / "shop").values()) == {"drwxrwx---", "-rw-rw----"}
