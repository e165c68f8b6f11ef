"""Real servers that all processes of a run of tests share: the first test that asks starts one, and none outlives the
run.

What a test makes in such a server it names like no other test.  One that stops or kills a server has one of its own.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from viewkeeper.servers import KINDS, Cassandra
from viewkeeper.servers.cassandra_log import CassandraLog
from viewkeeper.servers.lifeline import Lifeline, of_fifo
from viewkeeper.servers.server import Server

_FOLDER = "VIEWKEEPER_TEST_SERVERS"
"""The variable that tells the processes of a run where its servers are."""

S = TypeVar("S", bound=Server)
_numbers = itertools.count()


def unique(name: str) -> str:
    """A name that no other test of this run gives to what it makes in a shared server."""
    return f"{name}-{os.getpid()}-{next(_numbers)}"


def begin_run() -> Callable[[], None]:
    """What the first process of a run does, which the others are made by; what it shall call at the end.

    However it ends, so do the servers: it alone has their lifeline open.
    """
    folder = Path(tempfile.mkdtemp(prefix="viewkeeper-servers-"))
    os.mkfifo(folder / "run")
    reader = of_fifo(folder / "run").reader  # else to open the other end would wait
    writer = os.open(folder / "run", os.O_WRONLY)
    os.environ[_FOLDER] = str(folder)

    def end_run() -> None:
        for name, kind in KINDS.items():
            if (folder / name).exists():
                kind(folder / name).kill()
        if (folder / CassandraLog.name).exists():
            CassandraLog(folder / CassandraLog.name, "").kill()
        os.close(writer)
        os.close(reader)
        shutil.rmtree(folder)

    return end_run


def shared(kind: type[S]) -> S:
    """The run's server of that kind; it runs."""
    return _running(kind.name, lambda folder, lifeline: kind(folder, lifeline=lifeline))


def shared_log(cassandra: Cassandra) -> CassandraLog:
    """The program that serves the log of the run's Cassandra, which has one node; it runs."""
    config = cassandra.node_folder(1) / "cassandra.yaml"
    return _running(CassandraLog.name, lambda folder, lifeline: CassandraLog(folder, config, lifeline=lifeline))


def _running(name: str, make: Callable[[Path, Lifeline], S]) -> S:
    folder = Path(os.environ[_FOLDER])
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        server = make(folder / name, of_fifo(folder / "run"))
        server.start()
    return server
