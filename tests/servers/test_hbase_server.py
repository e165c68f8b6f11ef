"""A real HBase: it is killed and started again with what was written, and ended in order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import happybase
import pytest

from viewkeeper.servers import HBase

pytestmark = pytest.mark.stores


@contextmanager
def connected(server: HBase) -> Iterator[happybase.Connection]:
    """A client that waits for regions which are still being recovered."""
    connection = happybase.Connection("127.0.0.1", server.port, timeout=120_000)
    try:
        yield connection
    finally:
        connection.close()


def write(connection: happybase.Connection, ids: range) -> None:
    with connection.table("orders").batch(batch_size=100) as batch:
        for id_ in ids:
            batch.put(f"{id_:04}".encode(), {b"f:customer": b"7"})


def ids_of(connection: happybase.Connection) -> list[int]:
    return [int(key) for key, _ in connection.table("orders").scan()]


def test_what_hbase_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    with HBase(tmp_path) as server:
        with connected(server) as connection:
            connection.create_table("orders", {"f": {}})
            write(connection, range(1_000))
        logs = list((server.root / "WALs").rglob("localhost*.*"))
        assert logs and all(log.read_bytes().startswith(b"PWAL") for log in logs if log.stat().st_size)
        server.kill()
        assert not server.running
        server.start()
        with connected(server) as connection:
            assert ids_of(connection) == list(range(1_000))
            write(connection, range(1_000, 1_010))
        server.stop()
        assert not server.running
        # the master's own store apart, nothing is left to recover
        assert not list((server.root / "WALs").rglob("localhost*.*"))
        server.start()
        with connected(server) as connection:
            assert ids_of(connection) == list(range(1_010))


def test_a_gateway_that_was_killed_is_started_alone(tmp_path: Path) -> None:
    with HBase(tmp_path, region_servers=1) as server:
        cluster, gateway = server.processes
        with connected(server) as connection:
            connection.create_table("orders", {"f": {}})
            write(connection, range(10))
        number = cluster.pid
        gateway.kill()
        server.start()
        with connected(server) as connection:
            assert ids_of(connection) == list(range(10))
        assert cluster.pid == number
