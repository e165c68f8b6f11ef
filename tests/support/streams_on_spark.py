"""Streams that are kept by real Spark, in a process of its own that may be killed."""

from __future__ import annotations

import os
from pathlib import Path

from stream_database import StreamDatabase, moment
from viewkeeper.pipeline.driver import Maintainer
from viewkeeper.pipeline.spark_executor import SparkExecutor, session
from viewkeeper.pipeline.term import Term
from viewkeeper.stores.logs import Logs
from viewkeeper.trace import points
from viewkeeper.trace.local_disk import local_storage
from viewkeeper.trace.lock import driver_lock

SCRIPT = """
CREATE STREAM m (ts TIMESTAMP NOT NULL, g BIGINT, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60;
CREATE VIEW last3 AS SELECT g, sum(x) AS s, count(*) AS n FROM m [WINDOW 3 MINUTES] GROUP BY g;
CREATE VIEW streak AS SELECT g, count(*) AS ct, sum(x) AS s FROM m PATTERN [a, b+] WHERE a.x > 0 AND b.x > 0 GROUP BY g;
"""


class OnSpark(StreamDatabase):
    """Kept by real Spark."""

    def maintainer(self) -> Maintainer:
        lock = driver_lock(self.root)
        lock.acquire("pipeline", 10.0)
        return Maintainer(Term(local_storage(self.root), lock), Logs.of(self.store), SparkExecutor(session(2)[0], 2))


def send(database: StreamDatabase, first: int, last: int) -> None:
    """Parts of 300 rows, and a late row for the part before."""
    database.append("m", [{"ts": moment(60 * part + i // 6), "g": i % 50, "x": (i * part) % 7 - 1}
                          for part in range(first, last) for i in range(300)])  # fmt: skip
    database.append("m", [{"ts": moment(60 * max(0, first - 1)), "g": 1, "x": 5}])


def lose_a_worker_and_then_the_driver(faults: Path) -> None:
    """Run in a child process: keeps the views of two databases; in the second it is killed."""
    maintain_on_spark(faults / "worker", faults, 0)
    assert points.passes(faults, "part file written") > 2, "the worker's task was not tried again"
    maintain_on_spark(faults / "driver", faults, os.getpid())


def maintain_on_spark(root: Path, faults: Path, victim: int) -> None:
    """Keeps the views, with the fault armed for the process `victim`, or for whatever worker comes there (0)."""
    database = OnSpark(root)
    database.declare(SCRIPT)
    send(database, 0, 3)
    database.drive()
    points.arm(faults, "part file written", 2, victim)
    send(database, 3, 6)
    database.drive()
