"""Topics as streams: their rows are the topic's messages, each once, whatever is killed."""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import viewkeeper
from kafka_clicks import BEGAN, CUT, STREAM, Clicks, rows_of
from killing import said_when_killed
from local_maintenance import catch_up
from viewkeeper.catalog.model import Catalog
from viewkeeper.database import Database
from viewkeeper.errors import DeclarationError, InputError, LogLost
from viewkeeper.pipeline import feeding
from viewkeeper.pipeline.declare_script import run
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.maintain import Maintenance
from viewkeeper.servers import Kafka
from viewkeeper.streams.intake.outside_intake import take_in
from viewkeeper.streams.intake.stream_log import StreamLog


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        yield database


def test_a_streams_rows_are_the_messages_of_the_topic(db: Database, kafka: Kafka) -> None:
    """Also those of transactions, and of partitions that are added; and a view over the stream has them."""
    chance, topic = random.Random(1), Clicks(kafka.bootstrap_servers)
    topic.click(chance, 300)
    db.sql(topic.declared())
    db.sql("CREATE VIEW by_who AS SELECT who, count(*) AS c, sum(n) AS s FROM clicks GROUP BY who")
    catch_up(db)
    assert rows_of(db) == topic.sent
    for step in range(4):
        topic.click(chance, 50)
        if step == 1:
            topic.more_partitions(5)
        if step == 2:
            kept = topic.sent.copy()
            producer = topic.transactional()
            topic.click(chance, 5, producer)
            producer.flush(30)
            producer.abort_transaction(30)
            topic.sent = kept
        catch_up(db)
        assert rows_of(db) == topic.sent
        totals: dict[str, list[int]] = {}
        for (_, who, n), times in topic.sent.items():
            totals.setdefault(who, []).extend([n] * times)
        found = {row["who"]: (row["c"], row["s"]) for row in db.view("by_who").rows()}
        assert found == {who: (len(each), sum(each)) for who, each in totals.items()}
    assert db.check_all(["clicks"])[0].problem == ""
    (status,) = db.status()["streams"]
    assert (status["source"], status["state"], sum(status["read_upto"].values()) > 500) == ("kafka", "ok", True)


def test_what_a_broken_off_step_had_read_is_read_once(
    db: Database, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps that end before their entry, and after it, with nobody told."""
    chance, topic = random.Random(2), Clicks(kafka.bootstrap_servers)
    db.sql(topic.declared())
    append = StreamLog.append

    def entered(self: StreamLog, *given: Any) -> Any:
        if chance.random() < 0.3:
            raise OSError("before")
        return append(self, *given)

    def taken(*given: Any) -> Any:
        done = take_in(*given)
        if chance.random() < 0.3:
            raise OSError("after")
        return done

    monkeypatch.setattr(StreamLog, "append", entered)
    monkeypatch.setattr(feeding, "take_in", taken)
    monkeypatch.setattr(feeding, "AWAY_SECONDS", (0.01, 0.01))
    monkeypatch.setattr("viewkeeper.stores.outside.kafka.stream.MESSAGES_AT_ONCE", 30)
    for _ in range(5):
        topic.click(chance, 100)
        catch_up(db)
        assert rows_of(db) == topic.sent


def test_partitions_of_a_full_topic_are_read_side_by_side(
    db: Database, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that holds much, and one little of the same time: no row is late for those of the other."""
    monkeypatch.setattr("viewkeeper.stores.outside.kafka.stream.MESSAGES_AT_ONCE", 40)
    topic = Clicks(kafka.bootstrap_servers, 2)
    for second in range(600):
        row = (BEGAN + 30 * second, "a", second)
        value = {"ts": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(row[0])), "who": "a", "n": second}
        topic.producer.produce(topic.name, json.dumps(value).encode(), partition=int(second % 10 == 0),
                               timestamp=1_000 * row[0])  # fmt: skip
        topic.sent[row] += 1
    topic.flush()
    db.sql(topic.declared("HORIZON 600"))
    catch_up(db)
    assert rows_of(db) == topic.sent
    assert not list(db.rejected("clicks"))
    assert db.status()["streams"][0]["late_rows"] == 0


def test_messages_that_are_no_rows_are_rejected_with_their_place(db: Database, kafka: Kafka) -> None:
    topic = Clicks(kafka.bootstrap_servers, 1)
    topic.click(random.Random(3), 2)
    for value in (b"no json", b'{"who":"a"}', b'{"ts":"2999-01-01T00:00:00Z"}', None):
        topic.producer.produce(topic.name, value, b"k")
    topic.flush()
    db.sql(topic.declared())
    catch_up(db)
    assert rows_of(db) == topic.sent
    reasons = sorted(row["reason"] for row in db.rejected("clicks"))
    assert [reason.partition(",")[0] for reason in reasons] == [
        "NULL in column ts", "column ts: 2999-01-01 00:00:00 UTC is later than the wall clock by more than MAX AHEAD",
        "its value is no JSON (partition 0",
    ]  # fmt: skip
    assert db.put_rejected_again("clicks") == 0


def test_rows_are_not_appended_to_a_stream_that_a_topic_feeds(db: Database, kafka: Kafka) -> None:
    topic = Clicks(kafka.bootstrap_servers, 1)
    db.sql(topic.declared())
    with pytest.raises(InputError, match=r"its rows come from kafka .*let who has some write there"):
        db.stream("clicks").append([{"ts": "2024-01-01 00:00:00", "who": "a", "n": 1}])
    assert "from kafka (bootstrap_servers" in db.sql("DESCRIBE clicks").note
    topic.click(random.Random(4), 10)
    catch_up(db)
    part = next(iter(topic.sent))[0] // 60
    db.stream("clicks").seal(part + 1)
    catch_up(db)
    assert db.stream("clicks").newest == part + 1
    assert rows_of(db) == topic.sent
    db.sql("DROP STREAM clicks")
    db.sql(topic.declared())
    catch_up(db)
    assert rows_of(db) == topic.sent


def test_a_topic_that_is_lost_stops_its_stream_alone(db: Database, kafka: Kafka) -> None:
    topic = Clicks(kafka.bootstrap_servers, 1)
    db.sql("CREATE TABLE t (id INT, PRIMARY KEY (id)); CREATE VIEW v AS SELECT id FROM t")
    db.sql(topic.declared())
    topic.click(random.Random(5), 10)
    catch_up(db)
    topic.click(random.Random(6), 10)
    topic.cut_off()
    db.table("t").put({"id": 1})
    with pytest.raises(LogLost, match="clicks: the topic .* does not go back to offset 10 .* drop the stream"):
        catch_up(db)
    assert [row["id"] for row in db.view("v").rows()] == [1]
    topic.dropped()
    topic.made(1)
    with pytest.raises(LogLost, match="clicks: its log 0 is not the one that was read before"):
        catch_up(db)


@pytest.mark.parametrize(("declared", "message"), [
    ("USING kafka OPTIONS (AB, format 'json')", "is of rows that have keys"),
    ("USING kafka OPTIONS (AB, format 'avro-append')", "needs registry"),
    ("USING redis OPTIONS (AB)", "streams are fed from kafka"),
    ("USING kafka OPTIONS (topic 'b')", "kafka needs bootstrap_servers"),
])  # fmt: skip
def test_what_cannot_feed_a_stream_is_refused_when_it_is_declared(declared: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        run(Catalog(), f"CREATE STREAM s {STREAM} {declared} {CUT}".replace("AB", "bootstrap_servers 'a', topic 'b'"))


def test_a_topic_that_is_not_there_or_compacted_feeds_nothing(db: Database, kafka: Kafka) -> None:
    topic = Clicks(kafka.bootstrap_servers, 1, **{"cleanup.policy": "compact"})
    with pytest.raises(DeclarationError, match="is compacted"):
        db.sql(topic.declared())
    with pytest.raises(DeclarationError, match="there is no topic 'nosuch'"):
        db.sql(topic.declared().replace(topic.name, "nosuch"))


DRIVER = """
import viewkeeper
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.maintain import Maintenance

with viewkeeper.connect({root!r}, durability="process") as db:
    with Maintenance(db._storage, db._logs, LocalExecutor) as work:
        print("it runs", flush=True)
        work.wait()
"""


@pytest.mark.faults
@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=pytest.mark.stores)])
def test_a_driver_that_is_killed_loses_and_doubles_no_row(
    db: Database, kafka: Kafka, tmp_path: Path, kills: int
) -> None:
    chance, chance_of_kill, topic = random.Random(8), random.Random(9), Clicks(kafka.bootstrap_servers)
    db.sql(topic.declared())
    for _ in range(kills):
        writer = threading.Thread(target=lambda: [topic.click(chance, 15) for _ in range(60)])
        writer.start()
        command = [sys.executable, "-c", DRIVER.format(root=str(db.root))]
        said_when_killed(tmp_path, {0: command}, chance_of_kill.random() * 0.5)
        writer.join()
        assert not rows_of(db) - topic.sent
    catch_up(db)
    assert rows_of(db) == topic.sent


@pytest.mark.faults
def test_a_broker_that_is_killed_loses_and_doubles_no_row(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("topic", "kept_clients"):
        monkeypatch.setattr(f"viewkeeper.stores.outside.kafka.{module}.TIMEOUT_SECONDS", 2.0)
    chance = random.Random(7)
    with Kafka(tmp_path / "kafka") as server:
        topic = Clicks(server.bootstrap_servers)
        db.sql(topic.declared())
        db.sql("CREATE TABLE t (id INT, PRIMARY KEY (id)); CREATE VIEW v AS SELECT id FROM t")
        with Maintenance(db._storage, db._logs, LocalExecutor):
            for _ in range(20):
                topic.click(chance, 20)
            server.kill()
            token = db.table("t").put({"id": 3})
            assert db.view("v").get(3, after=token) is not None
            deadline = time.monotonic() + 60
            while "is not fed" not in str(db.status()["streams"][0]["state"]):
                assert time.monotonic() < deadline
                time.sleep(0.1)
            server.start()
            topic.click(chance, 20)
        catch_up(db)
        assert rows_of(db) == topic.sent
