"""A real Cassandra: nodes are killed and started again with what was written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, Session
from cassandra.policies import RoundRobinPolicy

from viewkeeper.errors import Error
from viewkeeper.servers import Cassandra

pytestmark = pytest.mark.stores


@contextmanager
def connected(server: Cassandra) -> Iterator[Session]:
    """A client that is content when most replicas have answered."""
    quorum = ExecutionProfile(RoundRobinPolicy(), consistency_level=ConsistencyLevel.QUORUM, request_timeout=60)
    with Cluster(server.contact_points, port=server.port, execution_profiles={EXEC_PROFILE_DEFAULT: quorum},
                 protocol_version=5) as cluster:  # fmt: skip
        session = cluster.connect()
        assert len(cluster.metadata.all_hosts()) == server.nodes
        yield session


def make_table(session: Session, replicas: int) -> None:
    session.execute(f"CREATE KEYSPACE shop WITH replication = "
                    f"{{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}")  # fmt: skip
    session.execute("CREATE TABLE shop.orders (id int PRIMARY KEY, customer int) WITH cdc = true")


def write(session: Session, ids: range) -> None:
    insert = session.prepare("INSERT INTO shop.orders (id, customer) VALUES (?, 7)")
    for id_ in ids:
        session.execute(insert, [id_])


def ids_of(session: Session) -> list[int]:
    return sorted(row.id for row in session.execute("SELECT id FROM shop.orders"))


def test_what_a_node_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    with Cassandra(tmp_path) as server:
        with connected(server) as session:
            make_table(session, replicas=1)
            write(session, range(100))
        server.kill()
        assert not server.running
        server.start()
        with connected(server) as session:
            assert ids_of(session) == list(range(100))
        assert list((server.node_folder(1) / "cdc_raw").glob("CommitLog-*.log")), "the table's log is kept for readers"
        assert "UN  127.0.0.1" in server.nodetool(1, "status")
        with pytest.raises(Error, match="nodetool flush nowhere: nodetool: Keyspace .nowhere. does not exist"):
            server.nodetool(1, "flush", "nowhere")
        server.stop()
        assert not server.running


def test_three_nodes_do_without_one_and_get_it_back(tmp_path: Path) -> None:
    with Cassandra(tmp_path, nodes=3) as server:
        with connected(server) as session:
            make_table(session, replicas=3)
            write(session, range(10))
            server.kill(node=2)
            assert not server.running
            write(session, range(10, 20))
            server.start(node=2)
            assert server.running
        server.kill(node=1)  # the one that the others ask who is there
        server.start()
        with connected(server) as session:
            assert ids_of(session) == list(range(20))
            server.kill(node=3)
            assert ids_of(session) == list(range(20)), "node 2 has got what it missed, or asks for it"
    with pytest.raises(Error, match=r"has a cluster of 3 nodes, not of 1: give 1 nodes another folder"):
        Cassandra(tmp_path, nodes=1)
    assert Cassandra(tmp_path).nodes == 3
