"""A real Kafka: it is started, killed and started again with what was written."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from viewkeeper.servers import Kafka


def make_topic(server: Kafka, name: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    for made in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        made.result(30)


def write(server: Kafka, topic: str, values: list[bytes]) -> None:
    """Returns when all are acknowledged."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": server.bootstrap_servers})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(30) == 0 and not failed


def read(server: Kafka, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "nobody"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return [message.value() for message in consumer.consume(count, 30)]
    finally:
        consumer.close()


def test_what_kafka_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    with Kafka(tmp_path) as server:
        make_topic(server, "clicks")
        write(server, "clicks", [b"a", b"b"])
        address = server.bootstrap_servers
        server.kill()
        assert not server.running
        server.start()
        assert server.bootstrap_servers == address
        write(server, "clicks", [b"c"])
        assert read(server, "clicks", 3) == [b"a", b"b", b"c"]
        server.stop()
        assert not server.running


@pytest.mark.parametrize("topic", ["shared-1", "shared-2"])
def test_tests_share_a_kafka(kafka: Kafka, topic: str) -> None:
    make_topic(kafka, topic)
    write(kafka, topic, [topic.encode()])
    assert read(kafka, topic, 1) == [topic.encode()]
