"""Topics as base tables on Spark: read by its workers, and checked with its own answers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import viewkeeper
from kafka_clicks import Clicks, rows_of
from kafka_topics import COLUMNS, VIEWS, Topic, require_right
from viewkeeper.servers import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.parametrize("chained", [300_000, 0], ids=["one task", "parts apart"])
def test_views_over_a_topic_are_kept_by_spark(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, chained: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewkeeper.pipeline.batches.CHAINED_MAX", chained)
    chance = random.Random(5)
    topic = Topic(kafka.bootstrap_servers, f"on-spark-{chained}")
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql("CREATE TABLE customers (id INT, name STRING, PRIMARY KEY (id))")
        db.table("customers").put_many([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
        topic.change(chance, 300)
        topic.producer.produce(topic.name, b"no json", b'{"id":2}')
        db.sql(f"CREATE TABLE orders {COLUMNS} USING kafka {topic.options}; {VIEWS}")
        with db.maintain(servers=2):
            db.catch_up(timeout=60)
            for _ in range(3):
                topic.change(chance, 100)
                db.catch_up(timeout=60)
                require_right(db, topic)
            token = db.table("orders").put({"id": 1, "customer": 77, "price": "1.50"})
            assert db.view("spend").get(77, after=token)["n"] == 1
        assert [report.problem for report in db.check_all()] == ["", ""]
        assert [row["reason"] for row in db.rejected("orders")] == ["its value is no JSON"]


@pytest.mark.spark
def test_a_stream_that_a_topic_feeds_is_kept_by_spark(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    chance, topic = random.Random(6), Clicks(kafka.bootstrap_servers)
    topic.click(chance, 200)
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql(topic.declared())
        db.sql("CREATE VIEW busy AS SELECT who, sum(n) AS s FROM clicks [WINDOW 3 MINUTES] GROUP BY who")
        with db.maintain(servers=2):
            for _ in range(3):
                db.catch_up(timeout=60)
                assert rows_of(db) == topic.sent
                topic.click(chance, 100)
            db.catch_up(timeout=60)
        assert rows_of(db) == topic.sent
        assert [report.problem for report in db.check_all()] == ["", ""]
