"""Topics whose cleaner really runs: small segments, and a broker that looks for work all the time."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import viewkeeper
from kafka_topics import COLUMNS, VIEWS, Topic, require_right
from local_maintenance import catch_up
from store_servers import unique
from viewkeeper.database import Database
from viewkeeper.errors import DeclarationError, LogLost
from viewkeeper.servers import Kafka

COMPACTED = {"cleanup.policy": "compact", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.01",
             "max.compaction.lag.ms": "50", "delete.retention.ms": "3600000"}  # fmt: skip

TOMBSTONES_GO = {**COMPACTED, "delete.retention.ms": "300"}

FILLER = 900
"""The row that is put so that segments end, which the cleaner leaves alone until then."""


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with Kafka(tmp_path_factory.mktemp("cleaned") / "kafka", settings={"log.cleaner.backoff.ms": "50"}) as server:
        yield server


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.sql("CREATE TABLE customers (id INT, name STRING, PRIMARY KEY (id))")
        database.table("customers").put_many([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
        yield database


def wait_until_gone(topic: Topic, *offsets: int) -> None:
    """Returns when the cleaner has taken the messages at these offsets of the only partition."""
    deadline = time.monotonic() + 60
    while set(offsets) & {message.offset() for message in topic.messages()}:
        assert time.monotonic() < deadline
        topic.put({"id": FILLER, "customer": 3, "price": "1.00"})
        topic.flush()
        time.sleep(0.1)


def folded(topic: Topic) -> dict[int, dict[str, object]]:
    """The rows that the messages which are there say, by whoever reads the topic now."""
    rows = {}
    for message in topic.messages():
        id_, value = json.loads(message.key())["id"], json.loads(message.value() or b"null")
        row = value["after"] if value is not None and topic.format == "debezium-json" else value
        rows[id_] = row
    return {id_: row for id_, row in rows.items() if row is not None}


@pytest.mark.parametrize("format_", ["debezium-json", "json"])
def test_a_compacted_topic_is_adopted_and_followed_while_it_is_compacted(
    db: Database, cleaned: Kafka, format_: str
) -> None:
    chance = random.Random(3)
    topic = Topic(cleaned.bootstrap_servers, unique("compacted"), format_, 1, **COMPACTED)
    topic.change(chance, 300)
    wait_until_gone(topic, 0)
    assert folded(topic) == topic.model
    db.sql(f"CREATE TABLE orders {COLUMNS} USING kafka {topic.options}; {VIEWS}")
    catch_up(db)
    require_right(db, topic)
    for step in range(5):
        topic.change(chance, 60)
        if step % 2:
            wait_until_gone(topic, min(message.offset() or 0 for message in topic.messages()))
        catch_up(db)
        require_right(db, topic)
    assert folded(topic) == topic.model


def test_deletes_are_seen_while_their_tombstones_stay(db: Database, cleaned: Kafka) -> None:
    topic = Topic(cleaned.bootstrap_servers, unique("behind"), "json", 1, **COMPACTED)
    for id_ in range(10):
        topic.put({"id": id_, "customer": 1, "price": "1.00"})
    topic.flush()
    db.sql(f"CREATE TABLE orders {COLUMNS} USING kafka {topic.options}; {VIEWS}")
    catch_up(db)
    topic.change(random.Random(4), 100, keys=20)
    for id_ in range(8):
        topic.delete(id_)
    wait_until_gone(topic, *range(8))
    catch_up(db)
    require_right(db, topic)


def test_a_table_that_may_have_missed_a_delete_stops_and_is_right_when_it_is_made_anew(
    db: Database, cleaned: Kafka
) -> None:
    topic = Topic(cleaned.bootstrap_servers, unique("missed"), "json", 1, **TOMBSTONES_GO)
    topic.put({"id": 1, "customer": 1, "price": "1.00"})
    topic.put({"id": 2, "customer": 2, "price": "1.00"})
    topic.flush()
    db.sql(f"CREATE TABLE orders {COLUMNS} USING kafka {topic.options}; {VIEWS}")
    catch_up(db)
    require_right(db, topic)
    topic.delete(1)
    topic.flush()
    wait_until_gone(topic, 0, 2)
    time.sleep(0.4)
    with pytest.raises(
        LogLost, match=r"offset 2 of partition 0 .* compacted away, and tombstones stay for 0.3 seconds"
    ):
        catch_up(db)
    db.sql("DROP VIEW spend; DROP VIEW named; DROP TABLE orders")
    db.sql(f"CREATE TABLE orders {COLUMNS} USING kafka {topic.options}; {VIEWS}")
    catch_up(db)
    require_right(db, topic)


def test_a_compacted_topic_whose_beginning_is_gone_is_what_is_there_of_it(db: Database, cleaned: Kafka) -> None:
    """Only where nothing but compaction takes messages."""
    topic = Topic(cleaned.bootstrap_servers, unique("began"), "json", 1)
    topic.change(random.Random(5), 30)
    topic.cut_off()
    topic.model.clear()
    topic.change(random.Random(6), 30)
    for policy in ("delete", "compact,delete"):
        topic.configure(**{"cleanup.policy": policy})
        with pytest.raises(DeclarationError, match=f"what came before is gone .cleanup.policy {policy}"):
            db.sql(f"CREATE TABLE orders {COLUMNS} USING kafka {topic.options}")
    topic.configure(**COMPACTED)
    db.sql(f"CREATE TABLE orders {COLUMNS} USING kafka {topic.options}; {VIEWS}")
    catch_up(db)
    assert folded(topic) == topic.model
    require_right(db, topic)


def test_rows_that_are_only_added_are_not_taken_from_a_compacted_topic(db: Database, cleaned: Kafka) -> None:
    topic = Topic(cleaned.bootstrap_servers, unique("added"), "json-append", 1, **COMPACTED)
    with pytest.raises(DeclarationError, match="is compacted .* messages go that are rows of their own"):
        db.sql(f"CREATE TABLE orders (id BIGINT) USING kafka {topic.options}")
