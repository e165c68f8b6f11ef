"""Tables over topics of a real broker, written by a foreign client."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

import viewkeeper
from kafka_topics import COLUMNS, VIEWS, Topic, require_right
from local_maintenance import catch_up
from viewkeeper.database import Database
from viewkeeper.errors import DeclarationError, Error, InputError, NotReady, NotSupported
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.servers.kafka import Kafka


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.sql("CREATE TABLE customers (id INT, name STRING, PRIMARY KEY (id))")
        database.table("customers").put_many([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
        yield database


@pytest.mark.parametrize(("format_", "servers"), [("debezium-json", 1), ("json", 3)])
def test_views_over_a_topic_hold_what_its_writer_knows(
    db: Database, kafka: Kafka, format_: str, servers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a topic that was full before, of transactions, of partitions that are added; by one view server, and by
    several, which read parts apart."""
    if servers > 1:
        monkeypatch.setattr("viewkeeper.pipeline.batches.CHAINED_MAX", 0)
        monkeypatch.setattr("local_maintenance.LocalExecutor", partial(LocalExecutor, servers))
    chance = random.Random(7)
    topic = Topic(kafka.bootstrap_servers, f"orders-{format_}", format_)
    topic.change(chance, 200)
    db.sql(f"CREATE TABLE orders {COLUMNS} USING kafka {topic.options}; {VIEWS}")
    with pytest.raises(NotReady, match="orders waits to be adopted"):
        db.sql("SELECT * FROM orders")
    catch_up(db)
    require_right(db, topic)
    for step in range(6):
        topic.change(chance, 30)
        if step == 2:
            topic.transaction(chance, commit=False)
            topic.transaction(chance, commit=True)
        if step == 4:
            topic.more_partitions(5)
            topic.change(chance, 60, keys=400)
        db.table("customers").put({"id": 1, "name": "a"})
        catch_up(db)
        require_right(db, topic)
    told = [(log["part"], log["lag_operations"], log["state"]) for log in db.status()["logs"]]
    assert told == [(str(part), 0, "ok") for part in range(5)]


def test_what_is_put_through_viewkeeper_is_in_the_topic_and_its_token_in_the_views(db: Database, kafka: Kafka) -> None:
    topic = Topic(kafka.bootstrap_servers, "written")
    db.sql(f"CREATE TABLE orders {COLUMNS} USING kafka {topic.options}; {VIEWS}")
    orders = db.table("orders")
    token = orders.put({"id": 1, "customer": 1, "price": "19.90"})
    token |= orders.put_many([{"id": 2, "customer": 1, "price": 1}, {"id": 3, "customer": 2, "price": None}])
    token |= orders.delete(3)
    assert viewkeeper.Token.parse(str(token)) == token
    with pytest.raises(InputError, match="whole rows; row 0 lacks price"):
        orders.put({"id": 4, "customer": 1})
    with pytest.raises(InputError, match="no look-up by key"):
        orders.get(1)
    with pytest.raises(NotSupported, match="orders is in an outside store, which has no atomic steps"):
        db.sql("UPDATE orders SET price = 1")
    catch_up(db)
    assert db.sql("DESCRIBE orders").note == (
        f"primary key (id); in kafka (bootstrap_servers '{kafka.bootstrap_servers}', topic 'written', format "
        "'debezium-json'); order per "
        "key, within its partition, a log, and no rows to look up, written by put and delete, too, whole rows at a time"
    )
    assert db.view("spend").get(1, after=token) == {"customer": 1, "total": Decimal("20.90"), "n": 2}
    assert db.view("spend").get(2) is None


def test_a_topic_without_its_beginning_is_refused(db: Database, kafka: Kafka) -> None:
    topic = Topic(kafka.bootstrap_servers, "cut")
    topic.change(random.Random(1), 20)
    topic.cut_off()
    with pytest.raises(DeclarationError, match="begins at offset .* what came before is gone .cleanup.policy delete"):
        db.sql(f"CREATE TABLE orders {COLUMNS} USING kafka {topic.options}")
    with pytest.raises(DeclarationError, match="there is no topic 'nosuch'"):
        db.sql(f"CREATE TABLE orders {COLUMNS} USING kafka {topic.options.replace(topic.name, 'nosuch')}")
    assert db.catalog.find("orders") is None


def test_a_log_that_is_cut_off_before_it_was_read_stops_its_table_alone(db: Database, kafka: Kafka) -> None:
    topic = Topic(kafka.bootstrap_servers, "lost")
    db.sql(f"CREATE TABLE orders {COLUMNS} USING kafka {topic.options}; {VIEWS}")
    db.sql("CREATE VIEW names AS SELECT name FROM customers")
    topic.change(random.Random(1), 20)
    catch_up(db)
    topic.change(random.Random(2), 20)
    topic.cut_off()
    db.table("customers").put({"id": 3, "name": "c"})
    with pytest.raises(Error, match="does not go back to offset .* drop the table"):
        catch_up(db)
    assert {row["name"] for row in db.view("names").rows()} == {"a", "b", "c"}


def test_a_topic_that_was_made_anew_is_not_taken_for_the_one_that_was_read(db: Database, kafka: Kafka) -> None:
    topic = Topic(kafka.bootstrap_servers, "anew")
    db.sql(f"CREATE TABLE orders {COLUMNS} USING kafka {topic.options}; {VIEWS}")
    topic.change(random.Random(1), 20)
    catch_up(db)
    topic.dropped()
    topic.made(2)
    topic.change(random.Random(2), 200)
    with pytest.raises(Error, match="not the one that was read before"):
        catch_up(db)


def test_rows_that_are_no_rows_are_rejected_and_counted(db: Database, kafka: Kafka) -> None:
    topic = Topic(kafka.bootstrap_servers, "bad", "json")
    db.sql(f"CREATE TABLE orders {COLUMNS} USING kafka {topic.options}; {VIEWS}")
    topic.put({"id": 1, "customer": 1, "price": "1.00"})
    topic.producer.produce(topic.name, b"no json", b'{"id":2}')
    topic.flush()
    catch_up(db)
    require_right(db, topic)
    assert [row["reason"] for row in db.rejected("orders")] == ["its value is no JSON"]
    assert db.put_rejected_again("orders") == 0


def test_a_dropped_table_leaves_no_positions(db: Database, kafka: Kafka) -> None:
    topic = Topic(kafka.bootstrap_servers, "dropped")
    topic.change(random.Random(1), 20)
    db.sql(f"CREATE TABLE orders {COLUMNS} USING kafka {topic.options}")
    catch_up(db)
    db.sql("DROP TABLE orders")
    db.table("customers").put({"id": 5, "name": "e"})
    catch_up(db)
    assert db.status()["logs"] == []
    assert set(map(type, db._newest.version().snapshot.positions)) == {int}
