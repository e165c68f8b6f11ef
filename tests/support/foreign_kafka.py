"""What a foreign program finds in Kafka of a view that is written there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from foreign_rows import Found


def committed(servers: str, topic: str) -> Iterator[Message]:
    """All messages of a topic that are committed, partition by partition."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "foreign", "enable.partition.eof": True,
                         "isolation.level": "read_committed", "auto.offset.reset": "earliest",
                         "fetch.wait.max.ms": 10})  # fmt: skip
    try:
        for partition in consumer.list_topics(topic, 20).topics[topic].partitions:
            consumer.assign([TopicPartition(topic, partition, 0)])
            while True:
                message = consumer.poll(20)
                assert message is not None
                if (error := message.error()) is not None:
                    assert error.code() == KafkaError._PARTITION_EOF
                    break
                yield message
    finally:
        consumer.close()


class KafkaPlace:
    """Views in topics whose names begin alike; `format_` as in OPTIONS."""

    def __init__(self, servers: str, prefix: str, format_: str) -> None:
        self.servers, self.prefix, self.format = servers, prefix, format_

    def using(self, view: str) -> str:
        topic = f"topic '{self.prefix}.{view}', format '{self.format}'"
        return f"USING kafka OPTIONS (bootstrap_servers '{self.servers}', {topic})"

    def messages(self, topic: str) -> Iterator[Message]:
        return committed(self.servers, topic)

    def folded(self, view: str) -> dict[bytes, dict[str, Any]]:
        """The newest row of each key; each change begins where the one before ended."""
        rows: dict[bytes, dict[str, Any]] = {}
        for message in self.messages(f"{self.prefix}.{view}"):
            key, value = message.key(), message.value()
            assert isinstance(key, bytes)
            row = None if value is None else json.loads(value)
            if self.format == "changes":
                assert row["before"] == rows.get(key)
                assert row["op"] == ("c" if row["before"] is None else "d" if row["after"] is None else "u")
                row = row["after"]
            if row is None:
                rows.pop(key, None)
            else:
                assert json.loads(key).items() <= row.items()
                rows[key] = row
        return rows

    def rows(self, view: str, columns: list[str]) -> Found:
        found = Found()
        for row in self.folded(view).values():
            found[tuple(None if row[name] is None else str(row[name]) for name in columns)] += row.get(
                "viewkeeper:times", 1
            )
        return found

    def version(self, view: str) -> int | None:
        markers = [message.value() for message in self.messages(f"{self.prefix}.{view}.viewkeeper")]
        return int(json.loads(markers[-1] or b"{}")["version"])

    def send(self, view: str, key: dict[str, Any], value: Any) -> None:
        """A message by hand."""
        producer = Producer({"bootstrap.servers": self.servers, "partitioner": "murmur2_random"})
        text = json.dumps(key, separators=(",", ":")).encode()
        producer.produce(f"{self.prefix}.{view}", None if value is None else json.dumps(value).encode(), text)
        assert producer.flush(20) == 0
