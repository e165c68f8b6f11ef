"""Foreign programs that write orders into other stores, with those stores' own clients."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.support.foreign_nodes import CassandraOrders, HBaseOrders
from benchmarks.support.orders_drawn import AT_ONCE, Row, drawn
from viewkeeper.servers import Cassandra, HBase, Kafka, Redis
from viewkeeper.servers.cassandra_log import CassandraLog


class Foreign(Protocol):
    """One table of one store, made where it is not there, as its own programs see it."""

    kind: str

    def __init__(self, where: str, name: str) -> None: ...

    def declared(self) -> str:
        """USING and OPTIONS."""

    def published(self) -> str | None:
        """USING and OPTIONS of a view in the same store; None where it cannot be looked up there by its key."""

    def write(self, rows: list[Row]) -> None:
        """Puts rows; returns when they are acknowledged."""

    def read_log(self) -> int | None:
        """Reads the whole log and decodes nothing of it: how many entries; None where no client of the store can."""

    def scan(self) -> int | None:
        """Reads all rows: how many; None where the store has none."""

    def close(self) -> None:
        """Ends the client."""


class KafkaOrders:
    """A topic of Debezium's envelopes."""

    kind = "kafka"

    def __init__(self, servers: str, name: str) -> None:
        from confluent_kafka import Producer

        self._servers, self._name = servers, name
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 1, "partitioner": "murmur2_random"})

    @staticmethod
    def on(server: Any, name: str) -> KafkaOrders:
        """A new topic on a server."""
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        admin.create_topics([NewTopic(name, 2, 1)])[name].result(20)
        return KafkaOrders(server.bootstrap_servers, name)

    def declared(self) -> str:
        return f"USING kafka OPTIONS (bootstrap_servers '{self._servers}', topic '{self._name}')"

    def published(self) -> str | None:
        return None

    def write(self, rows: list[Row]) -> None:
        for id_, customer, price in rows:
            after = {"id": id_, "customer": customer, "price": price}
            value = json.dumps({"before": None, "after": after, "op": "u", "ts_ms": 0})
            self._producer.produce(self._name, value, f'{{"id":{id_}}}')
            self._producer.poll(0)
        self._producer.flush()

    def scan(self) -> int | None:
        return None

    def read_log(self) -> int | None:
        from confluent_kafka import Consumer, KafkaError

        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": "bench", "enable.partition.eof": True,
                             "auto.offset.reset": "earliest"})  # fmt: skip
        consumer.subscribe([self._name])
        count, ended = 0, set[int]()
        while len(ended) < 2:
            for message in consumer.consume(10_000, 0.2):
                if (error := message.error()) is None:
                    count += 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition() or 0)
        consumer.close()
        return count

    def close(self) -> None:
        self._producer.flush()


class RedisOrders:
    """Hashes, written by the script."""

    kind = "redis"

    def __init__(self, url: str, prefix: str) -> None:
        import redis

        from viewkeeper.stores.outside.redis.scripts import rows_script

        self._url, self._prefix = url, prefix
        self._client: Any = redis.Redis.from_url(url)
        self._script = self._client.register_script(rows_script())

    def declared(self) -> str:
        return f"USING redis OPTIONS (url '{self._url}', prefix '{self._prefix}')"

    def published(self) -> str | None:
        return f"USING redis OPTIONS (url '{self._url}', prefix '{self._prefix}-view')"

    def write(self, rows: list[Row]) -> None:
        arguments: list[Any] = []
        for id_, customer, price in rows:
            arguments += ["put", id_, 2, "customer", customer, "price", price, 0]
        self._script(keys=[self._prefix], args=arguments)

    def scan(self) -> int | None:
        count = 0
        names = self._client.scan_iter(f"{self._prefix}:*", count=1_000)
        while page := list(islice(names, 1_000)):
            with self._client.pipeline(transaction=False) as steps:
                for name in page:
                    steps.hgetall(name)
                count += len(steps.execute())
        return count

    def read_log(self) -> int | None:
        count, last = 0, "-"
        while entries := self._client.xrange(f"{self._prefix}.log", last, "+", 10_000):
            count += len(entries)
            last = "(" + entries[-1][0].decode()
        return count

    def close(self) -> None:
        self._client.close()


KINDS: dict[str, type[Foreign]] = {
    "kafka": KafkaOrders, "redis": RedisOrders, "cassandra": CassandraOrders, "hbase": HBaseOrders,
}  # fmt: skip


def foreign(kind: str, where: str, name: str) -> Foreign:
    """The table called `name` in the store at `where`."""
    return KINDS[kind](where, name)


def servers(folder: Path) -> Iterator[tuple[str, Any, str]]:
    """Each kind's server, running, and where it is; one after another."""
    with Kafka(folder / "kafka") as kafka:
        yield "kafka", kafka, kafka.bootstrap_servers
    with Redis(folder / "redis") as redis:
        yield "redis", redis, redis.url
    with (
        Cassandra(folder / "cassandra", nodes=1) as cassandra,
        CassandraLog(folder / "cassandra-log", cassandra.node_folder(1) / "cassandra.yaml") as log,
    ):
        yield "cassandra", cassandra, f"{cassandra.port} {log.address}"
    with HBase(folder / "hbase") as hbase:
        yield "hbase", hbase, f"{hbase.port} {hbase.root.as_uri()}"


def write_at(kind: str, where: str, name: str, rate: float, seconds: float, keys: int) -> tuple[float, np.ndarray]:
    """Writes calls of `AT_ONCE` rows at `rate` rows a second (0: as fast as it goes) for so long: the rate that was
    achieved, and the milliseconds of each call."""
    calls, took = [drawn(AT_ONCE, keys, seed) for seed in range(50)], list[float]()
    with closing(foreign(kind, where, name)) as table:
        started = time.perf_counter()
        while (now := time.perf_counter()) - started < seconds:
            due = started + len(took) * AT_ONCE / rate if rate else now
            if due > now:
                time.sleep(due - now)
            before = time.perf_counter()
            table.write(calls[len(took) % len(calls)])
            took.append(1000 * (time.perf_counter() - before))
    return len(took) * AT_ONCE / (time.perf_counter() - started), np.array(took)
