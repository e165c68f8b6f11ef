"""The same faults of keeping parts on real Spark: a worker in the middle of a part, and the driver, are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stream_database import StreamDatabase, bag, moment
from viewkeeper.pipeline.driver import Maintainer
from viewkeeper.pipeline.spark import SparkExecutor, session
from viewkeeper.pipeline.term import Term
from viewkeeper.trace import points
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.lock import DriverLock

pytestmark = [pytest.mark.spark, pytest.mark.faults]

SCRIPT = """
CREATE STREAM m (ts TIMESTAMP NOT NULL, g BIGINT, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60;
CREATE VIEW last3 AS SELECT g, sum(x) AS s, count(*) AS n FROM m [WINDOW 3 MINUTES] GROUP BY g;
CREATE VIEW streak AS SELECT g, count(*) AS ct, sum(x) AS s FROM m PATTERN [a, b+] WHERE a.x > 0 AND b.x > 0 GROUP BY g;
"""


class OnSpark(StreamDatabase):
    """Kept by real Spark."""

    def maintainer(self) -> Maintainer:
        lock = DriverLock(self.storage)
        lock.acquire("pipeline", 10.0)
        return Maintainer(Term(Storage(self.root), lock), self.store, SparkExecutor(session(2)[0], 2))


def send(database: StreamDatabase, first: int, last: int) -> None:
    """Parts of 300 rows, and a late row for the part before."""
    database.append("m", [{"ts": moment(60 * part + i // 6), "g": i % 50, "x": (i * part) % 7 - 1}
                          for part in range(first, last) for i in range(300)])  # fmt: skip
    database.append("m", [{"ts": moment(60 * max(0, first - 1)), "g": 1, "x": 5}])


def maintain_on_spark(root: Path, victim: str) -> None:
    """Run in a child process: keeps the views, with the fault armed for a worker or for this process."""
    database = OnSpark(root)
    database.declare(SCRIPT)
    send(database, 0, 3)
    database.drive()
    points.arm(root, "part file written", 2, os.getpid() if victim == "driver" else 0)
    send(database, 3, 6)
    database.drive()
    assert points.passes(root, "part file written") > 2, "the worker's task was not tried again"


@pytest.mark.parametrize("victim", ["worker", "driver"])
def test_what_spark_was_at_is_done_once(tmp_path: Path, victim: str) -> None:
    """Where a worker is killed in a part its task is tried again; after a killed driver the next one, here without
    Spark, finds everything right; the parts are those of a database that was left alone."""
    call = f"import test_faults_parts_spark as t; t.maintain_on_spark(t.Path({str(tmp_path / 'one')!r}), {victim!r})"
    ended = subprocess.run(
        [sys.executable, "-c", call], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=180,
        env={**os.environ, "VIEWKEEPER_FAULTS": str(tmp_path / "one")}, check=False,
    )  # fmt: skip
    assert ended.returncode == (0 if victim == "worker" else -signal.SIGKILL), ended.stderr
    one, other = StreamDatabase(tmp_path / "one"), StreamDatabase(tmp_path / "other")
    one.drive()
    other.declare(SCRIPT)
    send(other, 0, 3)
    send(other, 3, 6)
    other.drive()
    assert found(one) == found(other)
    assert len(found(one)) == 13
    one.close()
    other.close()


def found(database: StreamDatabase) -> dict[tuple[str, int], list[tuple[Any, ...]]]:
    """The rows of all parts."""
    parts = {name: range(database.progress(name).first or 0, database.progress(name).next or 0)
             for name in ("m", "last3", "streak")}  # fmt: skip
    return {(name, part): bag(database.part(name, part)) for name, each in parts.items() for part in each}
