"""Foreign programs that write orders into other stores, with those stores' own clients."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from viewkeeper.servers import Kafka, Redis

AT_ONCE = 100
"""So many rows are one call, acknowledged before the next."""

Row = tuple[int, int, str]
"""id, customer, price."""


def drawn(rows: int, keys: int, seed: int) -> list[Row]:
    """Rows of random orders among `keys`."""
    random = np.random.default_rng(seed)
    ids, prices = random.permutation(np.arange(rows) % keys), random.integers(1, 10_000, rows)
    return [(int(id_), int(id_) % 1_000, f"{price / 100:.2f}") for id_, price in zip(ids, prices, strict=True)]


class Foreign(Protocol):
    """One table of one store, as its own programs see it."""

    kind: str

    def declared(self) -> str:
        """USING and OPTIONS."""

    def write(self, rows: list[Row]) -> None:
        """Puts rows; returns when they are acknowledged."""

    def read_log(self) -> int:
        """Reads the whole log and decodes nothing of it: how many entries."""


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

    def write(self, rows: list[Row]) -> None:
        for id_, customer, price in rows:
            after = {"id": id_, "customer": customer, "price": price}
            value = json.dumps({"before": None, "after": after, "op": "u", "ts_ms": 0})
            self._producer.produce(self._name, value, f'{{"id":{id_}}}')
            self._producer.poll(0)
        self._producer.flush()

    def read_log(self) -> int:
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

    def write(self, rows: list[Row]) -> None:
        arguments: list[Any] = []
        for id_, customer, price in rows:
            arguments += ["put", id_, 2, "customer", customer, "price", price, 0]
        self._script(keys=[self._prefix], args=arguments)

    def read_log(self) -> int:
        count, last = 0, "-"
        while entries := self._client.xrange(f"{self._prefix}.log", last, "+", 10_000):
            count += len(entries)
            last = "(" + entries[-1][0].decode()
        return count


def foreign(kind: str, where: str, name: str) -> Foreign:
    """The table called `name` in the store at `where`."""
    return KafkaOrders(where, name) if kind == "kafka" else RedisOrders(where, name)


def servers(folder: Path) -> Iterator[tuple[str, Any, str]]:
    """Each kind's server, running, and where it is; one after another."""
    with Kafka(folder / "kafka") as kafka:
        yield "kafka", kafka, kafka.bootstrap_servers
    with Redis(folder / "redis") as redis:
        yield "redis", redis, redis.url


def write_at(kind: str, where: str, name: str, rate: float, seconds: float, keys: int) -> tuple[float, np.ndarray]:
    """Writes calls of `AT_ONCE` rows at `rate` rows a second (0: as fast as it goes) for so long: the rate that was
    achieved, and the milliseconds of each call."""
    table, calls = foreign(kind, where, name), [drawn(AT_ONCE, keys, seed) for seed in range(50)]
    took, started = list[float](), time.perf_counter()
    while (now := time.perf_counter()) - started < seconds:
        due = started + len(took) * AT_ONCE / rate if rate else now
        if due > now:
            time.sleep(due - now)
        before = time.perf_counter()
        table.write(calls[len(took) % len(calls)])
        took.append(1000 * (time.perf_counter() - before))
    return len(took) * AT_ONCE / (time.perf_counter() - started), np.array(took)
