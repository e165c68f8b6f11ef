"""Ranges of a topic, read by clients that are kept from read to read."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from kafka_topics import COLUMNS, Topic
from store_servers import unique
from viewkeeper.catalog.model import Catalog, Table
from viewkeeper.pipeline.declare_script import run
from viewkeeper.servers import Kafka
from viewkeeper.stores.outside.contract import LogEnds, PartRange
from viewkeeper.stores.outside.kafka import kept_clients
from viewkeeper.stores.outside.kafka.table import KafkaTable


def opened(topic: Topic) -> KafkaTable:
    table = run(Catalog(), f"CREATE TABLE orders {COLUMNS} USING kafka {topic.options}").catalog.find("orders")
    assert isinstance(table, Table)
    return KafkaTable(table, "UTC")


@pytest.fixture
def topic(kafka: Kafka) -> Topic:
    """Two partitions, with gaps where transactions ended."""
    chance, topic = random.Random(11), Topic(kafka.bootstrap_servers, unique("ranges"), "json")
    for _ in range(5):
        topic.change(chance, 60)
        topic.transaction(chance, commit=chance.random() < 0.5)
    return topic


def sequences(table: KafkaTable, ends: LogEnds, part: str, after: int, upto: int) -> list[int]:
    found = table.read(PartRange(table.table.id, part, after, upto, ends.identities[part]))
    assert not found.bad
    return sorted(sequence for _, each, _ in found.operations for sequence in each.tolist())


def drawn(chance: random.Random, ends: LogEnds) -> Iterator[tuple[str, int, int]]:
    while True:
        part = chance.choice(sorted(ends.positions))
        after = chance.randrange(ends.positions[part])
        yield part, after, min(ends.positions[part], after + chance.choice([1, 2, 20, 200]))


def test_any_range_after_any_other_is_what_one_read_of_all_says(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """By three threads, which make no more consumers than they are."""
    made = []
    consumer = kept_clients.Consumer
    monkeypatch.setattr(kept_clients, "Consumer", lambda *given: made.append(1) or consumer(*given))
    with closing(opened(topic)) as table:
        ends = table.ends()
        whole = {part: sequences(table, ends, part, 0, end) for part, end in ends.positions.items()}
        assert sum(map(len, whole.values())) > 200

        def look(seed: int) -> None:
            ranges = drawn(random.Random(seed), ends)
            for part, after, upto in (next(ranges) for _ in range(60)):
                expected = [sequence for sequence in whole[part] if after < sequence <= upto]
                assert sequences(table, ends, part, after, upto) == expected

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(look, range(3)))
    assert len(made) <= 3


def test_a_consumer_that_is_kept_reads_a_partition_that_came_later(topic: Topic) -> None:
    with closing(opened(topic)) as table:
        sequences(table, table.ends(), "0", 0, 5)
        topic.more_partitions(5)
        topic.change(random.Random(1), 100, keys=400)
        ends = table.ends()
        assert len(ends.positions) == 5
        for part, end in ends.positions.items():
            assert sequences(table, ends, part, 0, end)


def test_a_forked_child_makes_clients_of_its_own(topic: Topic, tmp_path: Path) -> None:
    with closing(opened(topic)) as table:
        ends = table.ends()
        whole = sequences(table, ends, "0", 0, ends.positions["0"])
        child = os.fork()
        if not child:
            try:
                found = sequences(table, table.ends(), "0", 0, ends.positions["0"])
                (tmp_path / "found").write_text(json.dumps(found))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert json.loads((tmp_path / "found").read_text()) == whole
        assert sequences(table, ends, "0", 0, ends.positions["0"]) == whole
