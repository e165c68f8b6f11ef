"""The clients of one topic that a process keeps: to make one, and to connect it, takes longer than most reads.

They work in threads of their own, which a fork does not take along: a child makes its own, and leaves those of its
parent as they are, for closing one would wait for its threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from viewkeeper.stores.outside.kafka.client import TIMEOUT_SECONDS, settings

KEPT_CONSUMERS = 4
"""So many consumers wait for the next read; each has a connection to each broker."""


@dataclass
class _Reader:
    """A consumer, and the partitions that its picture of the topic is known to have."""

    consumer: Consumer
    partitions: set[int] = field(default_factory=set)


@dataclass
class _Clients:
    """What one process has of a topic's clients."""

    process: int = field(default_factory=os.getpid)
    lock: threading.Lock = field(default_factory=threading.Lock)
    admin: AdminClient | None = None
    producer: Producer | None = None
    idle: list[_Reader] = field(default_factory=list)


class KeptClients:
    """Makes clients for `topic` when they are first asked for; for any thread. `options` are OPTIONS, with their
    secrets."""

    def __init__(self, options: Mapping[str, str], topic: str) -> None:
        self._options, self._topic = options, topic
        self._clients = _Clients()
        self._of_parents: list[_Clients] = []

    def admin(self) -> AdminClient:
        """Who is asked of the topic itself."""
        here = self._here()
        with here.lock:
            if here.admin is None:
                here.admin = AdminClient(settings(self._options))
            return here.admin

    def producer(self) -> Producer:
        """Who writes messages, and places keys as Java's clients do: a key stays in its partition whoever writes it."""
        here = self._here()
        with here.lock:
            if here.producer is None:
                own = {"enable.idempotence": True, "partitioner": "murmur2_random"}
                here.producer = Producer(settings(self._options, **own))
            return here.producer

    @contextmanager
    def consumer(self, partition: int) -> Iterator[Consumer]:
        """A consumer that nobody else has meanwhile, to be assigned `partition`.  One is not kept where something was
        raised, since nobody knows what it is at."""
        here = self._here()
        with here.lock:
            reader = here.idle.pop() if here.idle else None
        reader = reader or _Reader(self._made())
        try:
            if partition not in reader.partitions:  # it may have come after the consumer had looked
                known = reader.consumer.list_topics(self._topic, TIMEOUT_SECONDS).topics.get(self._topic)
                reader.partitions = set() if known is None else set(known.partitions)
            yield reader.consumer
            reader.consumer.unassign()  # else it would read on, and hold what it reads
        except BaseException:
            reader.consumer.close()
            raise
        with here.lock:
            if len(here.idle) < KEPT_CONSUMERS:
                here.idle.append(reader)
                return
        reader.consumer.close()

    def close(self) -> None:
        """Lets all of them go; they are made again for who asks."""
        here = self._here()
        with here.lock:
            idle, here.idle = here.idle, []
            here.admin = here.producer = None
        for reader in idle:
            reader.consumer.close()

    def _here(self) -> _Clients:
        if self._clients.process != os.getpid():
            self._of_parents.append(self._clients)
            self._clients = _Clients()
        return self._clients

    def _made(self) -> Consumer:
        return Consumer(settings(self._options, **{
            "group.id": "viewkeeper", "enable.auto.commit": False, "enable.partition.eof": True,
            "auto.offset.reset": "error", "isolation.level": "read_committed",
            # So long a broker may keep the last request of the read before, which the next one waits for.
            "fetch.wait.max.ms": 10, "reconnect.backoff.max.ms": 500,
        }))  # fmt: skip
