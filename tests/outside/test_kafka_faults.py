"""A broker that is killed, restarted and cut off while its topic is a base table."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

import viewkeeper
from kafka_topics import COLUMNS, VIEWS, Topic, require_right
from local_maintenance import catch_up
from viewkeeper.errors import StoreAway
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.maintain import Maintenance
from viewkeeper.servers import Kafka

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("kills", [1, pytest.param(4, marks=pytest.mark.stores)])
def test_a_broker_that_is_killed_while_it_is_read_and_written_loses_and_doubles_nothing(
    tmp_path: Path, kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipeline runs all the while; tables of other stores go on without it."""
    for module in ("table", "topic", "kept_clients"):
        monkeypatch.setattr(f"viewkeeper.stores.outside.kafka.{module}.TIMEOUT_SECONDS", 2.0)
    chance = random.Random(3)
    with Kafka(tmp_path / "kafka") as server, viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql("CREATE TABLE customers (id INT, name STRING, PRIMARY KEY (id))")
        db.sql("CREATE VIEW names AS SELECT name FROM customers")
        db.table("customers").put_many([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
        topic = Topic(server.bootstrap_servers, "orders")
        topic.change(chance, 100)
        db.sql(f"CREATE TABLE orders {COLUMNS} USING kafka {topic.options}; {VIEWS}")
        catch_up(db)
        with Maintenance(db._storage, db._logs, LocalExecutor):
            for _ in range(kills):
                for step in range(20):
                    topic.change(chance, 50)
                    time.sleep(0.01 if step % 5 else 0.1)
                server.kill()
                token = db.table("customers").put({"id": 3, "name": "c"})
                assert db.view("names").get("c", after=token) is not None
                db.table("customers").delete(3)
                with pytest.raises(StoreAway, match=r"orders .*127\.0\.0\.1"):
                    db.table("orders").put({"id": 1, "customer": 1, "price": "1.00"})
                assert any("127.0.0.1" in log["state"] for log in db.status()["logs"])
                server.start()
        topic.flush()
        topic.change(chance, 50)
        catch_up(db)
        require_right(db, topic)


def test_a_broker_that_does_not_answer_for_a_while_holds_up_its_table_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the network is cut: what was asked is not refused, and nothing comes."""
    for module in ("table", "topic", "kept_clients"):
        monkeypatch.setattr(f"viewkeeper.stores.outside.kafka.{module}.TIMEOUT_SECONDS", 2.0)
    chance = random.Random(4)
    with Kafka(tmp_path / "kafka") as server, viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql("CREATE TABLE customers (id INT, name STRING, PRIMARY KEY (id))")
        db.sql("CREATE VIEW names AS SELECT name FROM customers")
        db.table("customers").put_many([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
        topic = Topic(server.bootstrap_servers, "orders")
        db.sql(f"CREATE TABLE orders {COLUMNS} USING kafka {topic.options}; {VIEWS}")
        catch_up(db)
        with Maintenance(db._storage, db._logs, LocalExecutor):
            topic.change(chance, 200)
            pid = server.processes[0].pid
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)
            try:
                for step in range(3):
                    token = db.table("customers").put({"id": 3, "name": f"c{step}"})
                    assert db.view("names").get(f"c{step}", after=token) is not None
                assert any("127.0.0.1" in log["state"] for log in db.status()["logs"])
            finally:
                os.kill(pid, signal.SIGCONT)
            db.table("customers").delete(3)
            topic.change(chance, 200)
        topic.flush()
        catch_up(db)
        require_right(db, topic)
