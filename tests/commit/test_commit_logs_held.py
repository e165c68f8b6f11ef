"""A version that is held keeps the logs behind it, so that a check of it can prove DELTA however long it takes."""

from __future__ import annotations

import time
from pathlib import Path
from unittest.mock import patch

import pytest

import viewkeeper
from viewkeeper import Database
from viewkeeper.errors import Error
from viewkeeper.evidence import DatabaseEvidence
from viewkeeper.pipeline import driver
from viewkeeper.pipeline.driver import Maintainer
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.term import Term
from viewkeeper.stores.logs import Logs
from viewkeeper.streams.intake.stream_log import StreamLog
from viewkeeper.streams.progress import StreamProgress
from viewkeeper.trace.local_disk import LocalDisk, local_storage
from viewkeeper.trace.lock import driver_lock


def maintained(db: Database, rounds: int = 60) -> None:
    """Takes in what is in the logs, then trims them as if all had been in for a minute."""
    storage = local_storage(db.root, keep_seconds=0.0)
    lock = driver_lock(storage.root)
    lock.acquire("pipeline", 5.0)
    maintainer = Maintainer(Term(storage, lock), Logs.of(db._store), LocalExecutor())
    try:
        for _ in range(rounds):
            maintainer.step()
            time.sleep(0.002)
        maintainer.parts.finish(maintainer.term)
        with patch.object(driver, "LOG_KEPT_SECONDS", 0.0):
            maintainer._tidy()
    finally:
        maintainer.close()


def test_the_log_behind_a_held_version_is_kept(tmp_path: Path) -> None:
    """Without a lease it is trimmed."""
    with viewkeeper.connect(tmp_path / "shop", durability="process") as db:
        db.sql("CREATE TABLE t (id BIGINT, x INT, PRIMARY KEY (id))")
        table = db.catalog.find("t")
        db.table("t").put_many([{"id": i, "x": i} for i in range(50)])
        maintained(db)
        with db._newest.held() as version:
            for i in range(50):
                db.table("t").put({"id": i, "x": -i})
            maintained(db)
            evidence = DatabaseEvidence(version, db._logs)
            assert len(evidence.store(table).operations) == 50
        maintained(db)
        with pytest.raises(Error, match="trimmed"):
            evidence.store(table)


def test_the_entries_of_a_stream_behind_a_held_version_are_kept(tmp_path: Path) -> None:
    """Whoever reads the version may want its open rows."""
    with viewkeeper.connect(tmp_path / "net", durability="process") as db:
        db.sql("CREATE STREAM m (ts TIMESTAMP NOT NULL, x INT) TIMESTAMP BY ts PARTITION LENGTH 60")
        (stream,) = db.catalog.streams
        db.stream("m").append([{"ts": "2020-01-01 10:00:00", "x": 1}])
        maintained(db)
        with db._newest.held() as version, StreamLog(db.root, LocalDisk(str(db.root))) as log:
            position = StreamProgress.from_dict(version.snapshot.progress.get(stream.id)).position
            assert position == 1
            for minute in range(1, 6):
                db.stream("m").append([{"ts": f"2020-01-01 10:0{minute}:00", "x": 1}])
            maintained(db)
            assert len(log.entries(stream.id, position, 10)) == 5
        maintained(db)
        with StreamLog(db.root, LocalDisk(str(db.root))) as log:
            assert log.entries(stream.id, position, 10) == []


def test_the_lag_behind_a_trimmed_log_is_told(tmp_path: Path) -> None:
    """Whoever asks how old the next entry is does not ask what was before it."""
    with viewkeeper.connect(tmp_path / "shop", durability="process") as db:
        db.sql("CREATE TABLE t (id BIGINT, x INT, PRIMARY KEY (id))")
        for i in range(20):
            db.table("t").put({"id": i, "x": i})
        maintained(db)
        db.table("t").put({"id": 0, "x": 1})
        assert sum(node["lag_operations"] for node in db.status()["nodes"]) == 1
