"""Views that are written to topics of a real broker, as a foreign client finds them there."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import viewkeeper
from foreign_kafka import KafkaPlace
from foreign_rows import texts
from local_maintenance import catch_up
from store_servers import unique
from viewkeeper.errors import DeclarationError, InputError, StoreAway
from viewkeeper.pipeline import publishing
from viewkeeper.servers import Kafka
from viewkeeper.stores.outside.kafka import client
from viewkeeper.stores.outside.targets import Begun, Marker, Written, opened
from viewkeeper.trace import points
from written_shop import (
    TABLES,
    Shop,
    checked,
    maintained,
    require_older_copy_told,
    require_right_after_batches,
    require_right_after_kills,
    require_soon,
)


@pytest.fixture(params=["upsert", "changes"])
def place(request: pytest.FixtureRequest, tmp_path: Path, kafka: Kafka) -> KafkaPlace:
    return KafkaPlace(kafka.bootstrap_servers, unique("place").replace("[", "-").replace("]", ""), request.param)


@pytest.fixture
def shop(tmp_path: Path, place: KafkaPlace) -> Iterator[Shop]:
    made = Shop(tmp_path / "db", place)
    made.declare()
    yield made
    made.db.close()


def test_a_foreign_client_finds_the_views_after_each_batch(shop: Shop) -> None:
    require_right_after_batches(shop, alone=5, beside=3)


@pytest.mark.faults
@pytest.mark.parametrize("point", points.TARGET_POINTS)
def test_after_a_kill_nothing_is_missing_doubled_or_left_over(shop: Shop, tmp_path: Path, point: str) -> None:
    require_right_after_kills(shop, tmp_path, point)


@pytest.mark.faults
def test_a_database_of_which_an_older_copy_was_put_back_is_told_and_written_as_a_whole(
    shop: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    require_older_copy_told(shop, tmp_path, caplog)


@pytest.mark.faults
@pytest.mark.parametrize("format_", ["upsert", "changes"])
def test_a_broker_that_is_away_holds_up_its_views_alone(
    tmp_path: Path, format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "PATIENCE_SECONDS", 4.0)
    for name in ("client", "target"):
        monkeypatch.setattr(f"viewkeeper.stores.outside.kafka.{name}.TIMEOUT_SECONDS", 5.0)
    assert client.TIMEOUT_SECONDS == 5.0
    with Kafka(tmp_path / "server") as own:
        shop, chance = Shop(tmp_path / "db", KafkaPlace(own.bootstrap_servers, "shop", format_)), random.Random(5)
        shop.declare()
        with maintained(shop):
            shop.change(chance, 40)
            require_soon(shop)
            own.kill()
            shop.change(chance, 20)
            with pytest.raises(StoreAway, match="spend cannot be written to kafka: Kafka at"):
                shop.db.catch_up(timeout=60.0)
            assert shop.db.view("whole").get()["n"] == len(shop.orders)
            own.start()
            require_soon(shop)
        shop.db.close()


def test_what_was_written_by_hand_is_found_and_mended(shop: Shop, place: KafkaPlace) -> None:
    shop.change(random.Random(11), 40)
    shop.require_there()
    assert all(report.ok and report.target.startswith("what is in kafka is right, as of") for report in checked(shop))
    ids = sorted(row["id"] for row in place.folded("named").values())

    def by_hand(id_: int, before: dict | None, after: dict | None) -> None:
        value = after if place.format == "upsert" else {"before": before, "after": after, "op": "u"}
        place.send("named", {"id": id_}, value)

    by_hand(ids[0], None, {"id": ids[0], "name": "by hand", "price": "0.00"})
    by_hand(ids[1], None, None)
    by_hand(999, None, {"id": 999, "name": "x", "price": "0.00"})
    named = next(report for report in checked(shop) if report.view == "named")
    assert named.verdict == "target wrong"
    assert named.target.startswith("3 rows in kafka are wrong, as of version")
    assert {report.view: report for report in checked(shop, repair=True)}["named"].target.endswith("3 rows were mended")
    if place.format == "upsert":
        assert shop.found() == shop.expected()
    assert all(report.ok for report in checked(shop))


def test_a_topic_that_is_not_empty_is_refused(shop: Shop, place: KafkaPlace, tmp_path: Path) -> None:
    shop.require_there()
    with viewkeeper.connect(tmp_path / "other") as other:
        other.sql(TABLES)
        with pytest.raises(DeclarationError, match=r"a view of another database .*; take another place, or delete"):
            other.sql(f"CREATE VIEW spend {shop.using('spend')} AS SELECT count(*) AS n FROM orders")
        place.send("mine", {"id": 1}, {"id": 1})
        with pytest.raises(DeclarationError, match="holds messages that are not viewkeeper's; take another topic"):
            other.sql(f"CREATE VIEW spend {shop.using('mine')} AS SELECT count(*) AS n FROM orders")
    with pytest.raises(DeclarationError, match="named is written there already"):
        shop.db.sql(f"CREATE VIEW more {shop.using('named')} AS SELECT count(*) AS n FROM orders")
    with pytest.raises(DeclarationError, match="there are upsert, changes"):
        shop.db.sql(f"CREATE VIEW v {shop.using('v').replace(place.format, 'all')} AS SELECT count(*) AS n FROM orders")
    with pytest.raises(InputError, match="a topic has no look-up by key"):
        shop.db.view("spend").get(1, source="store")


def test_rows_of_a_dropped_view_go_and_the_topic_can_be_used_again(shop: Shop, place: KafkaPlace) -> None:
    shop.change(random.Random(13), 30)
    shop.require_there()
    shop.db.sql("DROP VIEW named")
    with maintained(shop):
        while len(shop.db.catalog.targets) == 4:
            shop.change(random.Random(1), 1)
            shop.db.catch_up(timeout=60.0)
    assert not place.folded("named")
    shop.db.sql(f"CREATE VIEW named {shop.using('named')} AS SELECT count(*) AS n FROM orders")
    catch_up(shop.db)
    assert place.rows("named", ["n"]) == texts([(len(shop.orders),)])


def test_who_has_begun_before_writes_nothing_any_more(shop: Shop) -> None:
    shop.require_there()
    target = shop.db.view("spend")._source.version().view("spend").target
    assert target is not None
    database = shop.db._newest.version().snapshot.database
    earlier, later = opened(target), opened(target)
    assert earlier.begin(Marker(database, 1, 1, epoch=1_000)) is not None
    assert later.begin(Marker(database, 1, 1, epoch=1_001)) is not None
    with pytest.raises(Begun):
        earlier.complete(Marker(database, 1, 1, Written(1), 1_000))
    with pytest.raises(Begun):
        earlier.clear()
    later.complete(Marker(database, 1, 1, Written(1), 1_001))
    earlier.close()
    later.close()
