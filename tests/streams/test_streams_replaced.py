"""An older copy of the streams' log put back: it is noticed, nothing is passed over, and all else goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stream_database import StreamDatabase
from viewkeeper.errors import StoreReplaced
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.maintain import catch_up
from viewkeeper.pipeline.status import status
from viewkeeper.stores.logs import Logs

DECLARED = """
CREATE TABLE t (id BIGINT, PRIMARY KEY (id));
CREATE VIEW n AS SELECT count(*) AS n FROM t;
CREATE STREAM m (ts TIMESTAMP NOT NULL, src STRING) TIMESTAMP BY ts PARTITION LENGTH 60;
CREATE STREAM other (ts TIMESTAMP NOT NULL, src STRING) TIMESTAMP BY ts PARTITION LENGTH 60;
"""


def rows(first: int, count: int) -> list[dict[str, str]]:
    return [{"ts": f"2015-01-01 {i // 60:02}:{i % 60:02}:00", "src": "a"} for i in range(first, first + count)]


def put_back(database: StreamDatabase, saved: Path) -> StreamDatabase:
    database.close()
    shutil.rmtree(database.root / "streams")
    shutil.copytree(saved, database.root / "streams")
    return StreamDatabase(database.root)


@pytest.mark.parametrize("more", [0, 2, 3, 4, 8])
@pytest.mark.parametrize("trimmed", [False, True])
def test_a_stream_whose_log_was_put_back_is_not_read_on_but_told(tmp_path: Path, more: int, trimmed: bool) -> None:
    """However many appends came since; the tables and the other stream go on, also once it is dropped."""
    database = StreamDatabase(tmp_path / "db")
    database.declare(DECLARED)
    for i in range(5):
        database.append("m", rows(i, 1))
    database.drive()
    if trimmed:
        database.log.trim(database.stream("m").id, 5)
    database.close()
    shutil.copytree(database.root / "streams", tmp_path / "saved")
    database = StreamDatabase(database.root)
    for i in range(5, 8):
        database.append("m", rows(i, 1))
    database.drive()
    before = database.progress("m")
    database = put_back(database, tmp_path / "saved")
    for i in range(20, 20 + more):
        database.append("m", rows(i, 1))
    database.append("other", rows(0, 4))
    database.store.put(database.catalog.tables[0], {"id": 1})
    with pytest.raises(StoreReplaced, match=r"the log of stream \d+ .*drop the stream"):
        catch_up(database.storage, Logs.of(database.store), LocalExecutor, timeout=30)
    driver = database.maintainer()
    for _ in range(20):
        driver.step()
    assert driver.last_error is not None and "StoreReplaced" in driver.last_error
    driver.close()
    assert database.progress("other").position == 1  # it goes on
    assert database.progress("m") == before and database.storage.newest().positions == database.store.ends()
    told = {stream["name"]: stream for stream in status(database.storage, Logs.of(database.store))["streams"]}
    assert [(told[name]["state"], told[name]["waiting_entries"]) for name in ("m", "other")] == [
        ("replaced", None), ("ok", 0)
    ]  # fmt: skip
    database.declare("DROP STREAM m")
    database.append("other", rows(4, 4))
    database.drive()
    assert database.progress("other").position == 2
    database.close()


def test_older_views_beside_a_newer_log_of_a_stream_go_on_from_it(tmp_path: Path) -> None:
    database = StreamDatabase(tmp_path / "db")
    database.declare(DECLARED)
    database.append("m", rows(0, 3))
    database.drive()
    for name in ("manifests", "catalogs"):
        shutil.copytree(database.root / name, tmp_path / "saved" / name)
    database.append("m", rows(3, 4))
    database.drive()
    at = database.progress("m")
    database.close()
    for name in ("manifests", "catalogs"):
        shutil.rmtree(database.root / name)
        shutil.copytree(tmp_path / "saved" / name, database.root / name)
    database = StreamDatabase(database.root)
    database.drive()
    assert database.progress("m") == at
    database.close()
