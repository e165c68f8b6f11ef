"""Nodes of Cassandra are away while views are written there."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from cassandra.cluster import Session

from cassandra_rows import connected
from foreign_cassandra import CassandraPlace, until
from foreign_rows import texts
from store_servers import unique
from viewkeeper.errors import StoreAway
from viewkeeper.pipeline import publishing
from viewkeeper.servers import Cassandra
from written_shop import Shop, maintained, require_soon

pytestmark = [pytest.mark.stores, pytest.mark.faults]

SPEND = "SELECT customer, sum(price) AS total, count(*) AS n"


@pytest.fixture
def place(cassandra_session: Session, cassandra: Cassandra) -> CassandraPlace:
    return CassandraPlace(cassandra_session, cassandra, unique("place"))


def test_a_server_that_is_away_holds_up_its_views_alone(
    tmp_path: Path, place: CassandraPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And rows of a view that was dropped meanwhile go when it is there again."""
    monkeypatch.setattr(publishing, "PATIENCE_SECONDS", 0.2)
    with Cassandra(tmp_path / "cassandra") as server, connected(server) as session:
        shop, chance = Shop(tmp_path / "db", CassandraPlace(session, server, "shop")), random.Random(5)
        shop.declare()
        shop.db.sql(f"CREATE VIEW elsewhere {place.using('elsewhere')} AS SELECT count(*) AS n FROM orders")
        with maintained(shop):
            shop.change(chance, 40)
            shop.db.catch_up(timeout=60.0)
            assert shop.found() == shop.expected()
            for _ in range(2):
                server.kill()
                shop.change(chance, 20)
                with pytest.raises(StoreAway, match="spend cannot be written to cassandra: Cassandra does not take"):
                    shop.db.catch_up(timeout=60.0)
                views = {view["name"]: view for view in shop.db.status()["views"]}
                assert views["elsewhere"]["target_error"] is None
                assert place.rows("elsewhere", ["n"]) == texts([(len(shop.orders),)])
                assert views["spend"]["lag_versions"] > 0
                server.start()
                shop.change(chance, 20)
                until(lambda: require_soon(shop))
            server.kill()
            shop.db.sql("DROP VIEW named")
            shop.change(chance, 5)
            server.start()
            while shop.db.catalog.targets != tuple(view.target for view in shop.db.catalog.views if view.target):
                time.sleep(0.05)
        until(lambda: shop.place.tables("named"))
        assert not shop.place.tables("named")
        shop.db.close()


def test_one_of_three_nodes_is_down_for_a_while(tmp_path: Path) -> None:
    """The views are written on meanwhile; what the node gets later, by hints, changes nothing."""
    with Cassandra(tmp_path / "cassandra", nodes=3) as server, connected(server) as session:
        shop = Shop(tmp_path / "db", CassandraPlace(session, server, "shop", replicas=3))
        chance = random.Random(7)
        shop.declare()
        with maintained(shop):
            until(lambda: require_soon(shop))
            for node in (2, 3):
                server.kill(node=node)
                for _ in range(3):
                    shop.change(chance, 20)
                    until(lambda: require_soon(shop))
                shop.db.sql(f"ALTER VIEW spend AS {SPEND}, count(note) AS more_{node} FROM orders GROUP BY customer")
                until(lambda: require_soon(shop))
                server.start(node=node)
                shop.change(chance, 20)
                until(lambda: require_soon(shop))
        shop.db.close()
