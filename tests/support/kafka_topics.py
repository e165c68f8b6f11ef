"""A foreign program that keeps the rows of a table in a topic, and knows what they are."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from decimal import Decimal
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from foreign_kafka import committed
from store_servers import unique
from viewkeeper.checker.check import check_views
from viewkeeper.database import Database
from viewkeeper.evidence import DatabaseEvidence

Row = dict[str, Any]

COLUMNS = "(id BIGINT, customer INT, price DECIMAL(15,2), PRIMARY KEY (id))"
VIEWS = """
CREATE VIEW spend AS SELECT customer, sum(price) AS total, count(*) AS n FROM orders GROUP BY customer;
CREATE VIEW named AS SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id;
"""


class Topic:
    """A topic of orders, whose rows `model` has by id; `format_` is that of `CREATE TABLE ... USING kafka`."""

    def __init__(
        self, servers: str, name: str, format_: str = "debezium-json", partitions: int = 2, **config: str
    ) -> None:
        self.servers, self.name, self.format = servers, name, format_
        self.admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self.made(partitions, **config)
        self.producer = self._producer()
        self.model: dict[int, Row] = {}

    def made(self, partitions: int, **config: str) -> None:
        self.admin.create_topics([NewTopic(self.name, partitions, 1, config=config)])[self.name].result(20)
        while len(self.admin.list_topics(self.name, 10).topics[self.name].partitions) < partitions:
            time.sleep(0.05)

    def _producer(self, **more: Any) -> Producer:
        own = {"partitioner": "murmur2_random", "acks": "all", "log_level": 0}
        return Producer({"bootstrap.servers": self.servers, **own, **more})

    @property
    def options(self) -> str:
        return f"OPTIONS (bootstrap_servers '{self.servers}', topic '{self.name}', format '{self.format}')"

    def put(self, row: Row, producer: Producer | None = None) -> None:
        before = self.model.get(row["id"])
        value = (
            {"before": before, "after": row, "op": "u" if before else "c"}
            if self.format.startswith("debezium")
            else row
        )
        self._send(producer, row["id"], value)
        self.model[row["id"]] = row

    def delete(self, id_: int, producer: Producer | None = None) -> None:
        before = self.model.pop(id_, {"id": id_})
        if self.format.startswith("debezium"):
            self._send(producer, id_, {"before": before, "after": None, "op": "d"})
        self._send(producer, id_, None)

    def _send(self, producer: Producer | None, id_: int, value: Any) -> None:
        data = None if value is None else self.written(value)
        (producer or self.producer).produce(self.name, data, self.written_key(id_))

    def written(self, value: Any) -> bytes:
        """A message's value."""
        return json.dumps(value).encode()

    def written_key(self, id_: int) -> bytes:
        """A message's key."""
        return json.dumps({"id": id_}).encode()

    def flush(self) -> None:
        assert self.producer.flush(30) == 0

    def change(self, chance: random.Random, operations: int, keys: int = 40) -> None:
        """Random puts, deletes and puts again, several on one key."""
        for _ in range(operations):
            id_ = chance.randrange(keys)
            if chance.random() < 0.3:
                self.delete(id_)
            else:
                self.put(
                    {
                        "id": id_,
                        "customer": chance.choice([None, 1, 2, 3]),
                        "price": f"{chance.randrange(500) / 100:.2f}",
                    }
                )
        self.flush()

    def transactional(self) -> Producer:
        """A producer within a transaction of its own."""
        producer = self._producer(**{"transactional.id": unique(self.name)})
        producer.init_transactions(30)
        producer.begin_transaction()
        return producer

    def transaction(self, chance: random.Random, commit: bool) -> None:
        """Some puts in one transaction, which is committed or given up."""
        producer = self.transactional()
        kept = dict(self.model)
        for id_ in range(5):
            self.put({"id": id_, "customer": 9, "price": "1.00"}, producer)
        producer.flush(30)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
            self.model = kept

    def more_partitions(self, total: int) -> None:
        self.admin.create_partitions([NewPartitions(self.name, total)])[self.name].result(20)
        while len(self.admin.list_topics(self.name, 10).topics[self.name].partitions) < total:
            time.sleep(0.05)
        self.producer = self._producer(**{"topic.metadata.refresh.interval.ms": 100})

    def cut_off(self) -> None:
        """Delete all records that there are."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "cut"})
        ends = []
        for partition in self.admin.list_topics(self.name, 10).topics[self.name].partitions:
            _, high = consumer.get_watermark_offsets(TopicPartition(self.name, partition), 10)
            ends.append(TopicPartition(self.name, partition, high))
        consumer.close()
        for future in self.admin.delete_records(ends).values():
            future.result(20)

    def configure(self, **config: str) -> None:
        """Changes settings of the topic; returns when the broker says them."""
        resource = ConfigResource(
            ResourceType.TOPIC, self.name,
            incremental_configs=[ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                                 for name, value in config.items()],
        )  # fmt: skip
        self.admin.incremental_alter_configs([resource])[resource].result(20)
        deadline = time.monotonic() + 20
        while any(value != self._configured()[name].value for name, value in config.items()):
            assert time.monotonic() < deadline, "the broker writes a value in another way"
            time.sleep(0.05)

    def _configured(self) -> Any:
        resource = ConfigResource(ResourceType.TOPIC, self.name)
        return self.admin.describe_configs([resource])[resource].result(20)

    def messages(self) -> list[Message]:
        """All committed messages that are there, partition by partition."""
        return list(committed(self.servers, self.name))

    def dropped(self) -> None:
        self.admin.delete_topics([self.name])[self.name].result(20)
        while self.name in self.admin.list_topics(timeout=10).topics:
            time.sleep(0.05)


def require_right(db: Database, topic: Topic) -> None:
    """The views hold what the foreign program knows, and the checker proves DELTA against the topic."""
    groups: dict[int | None, list[Decimal]] = {}
    for row in topic.model.values():
        groups.setdefault(row["customer"], []).append(Decimal(row["price"]))
    spend = {(customer, sum(prices), len(prices)) for customer, prices in groups.items()}
    assert {tuple(row.values()) for row in db.view("spend").rows()} == spend
    names = {1: "a", 2: "b"}
    named = Counter((row["id"], names[row["customer"]]) for row in topic.model.values() if row["customer"] in names)
    assert Counter(tuple(row.values()) for row in db.view("named").rows()) == named
    with db._newest.held() as version:
        reports = check_views(DatabaseEvidence(version, db._logs), ["spend", "named"], None)
    assert [report.problem for report in reports] == ["", ""]
