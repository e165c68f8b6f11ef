"""Views that are written to a real Redis, as a foreign client finds them there."""

from __future__ import annotations

import datetime
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path

import pytest

import viewkeeper
from foreign_redis import RedisPlace, client_of, marker_in, rows_in
from foreign_rows import texts
from local_maintenance import catch_up
from store_servers import unique
from viewkeeper.catalog.outside_store import Target
from viewkeeper.errors import DeclarationError, InputError, StoreAway
from viewkeeper.pipeline import publishing
from viewkeeper.servers import Redis
from viewkeeper.stores.outside.redis import target as redis_target
from viewkeeper.stores.outside.redis.target import RedisTarget
from viewkeeper.stores.outside.targets import Begun, Marker, Written, opened
from viewkeeper.trace import points
from written_shop import (
    TABLES,
    VIEWS,
    Shop,
    checked,
    maintained,
    require_older_copy_told,
    require_right_after_batches,
    require_right_after_kills,
    require_soon,
)


@pytest.fixture
def place(tmp_path: Path, redis: Redis) -> RedisPlace:
    return RedisPlace(redis.url, unique("place"))


@pytest.fixture
def shop(tmp_path: Path, place: RedisPlace) -> Iterator[Shop]:
    made = Shop(tmp_path / "db", place)
    made.declare()
    yield made
    made.db.close()


def test_a_foreign_client_finds_the_views_after_each_batch(shop: Shop) -> None:
    require_right_after_batches(shop, alone=8, beside=0)


def test_a_target_that_is_not_empty_is_refused(shop: Shop, place: RedisPlace, tmp_path: Path) -> None:
    shop.require_there()
    with viewkeeper.connect(tmp_path / "other") as other:
        other.sql(TABLES)
        with pytest.raises(DeclarationError, match=r"a view of another database .*; take another place, or delete"):
            other.sql(f"CREATE VIEW spend {shop.using('spend')} AS SELECT count(*) AS n FROM orders")
        below = shop.using("spend").replace(":spend", ":spend:more")
        with pytest.raises(DeclarationError, match="whose rows these would be mixed with"):
            other.sql(f"CREATE VIEW spend {below} AS SELECT count(*) AS n FROM orders")
        client_of(place.url).set(f"{place.prefix}:mine:1", "x")
        with pytest.raises(DeclarationError, match="holds keys that are not viewkeeper's, such as '.*:mine:1'"):
            other.sql(f"CREATE VIEW spend {shop.using('mine')} AS SELECT count(*) AS n FROM orders")
        assert other.catalog.find("spend") is None
    with pytest.raises(DeclarationError, match="named is written there already"):
        shop.db.sql(f"CREATE VIEW more {shop.using('named')} AS SELECT count(*) AS n FROM orders")


def test_options_are_checked_and_no_secret_is_kept(
    shop: Shop, place: RedisPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(using: str, match: str) -> None:
        with pytest.raises(DeclarationError, match=match):
            shop.db.sql(f"CREATE VIEW v USING {using} AS SELECT count(*) AS n FROM orders")

    refused("redis OPTIONS (url 'redis://:secret@localhost', prefix 'v')", "a password is not kept in the catalog")
    refused("redis OPTIONS (url 'redis://localhost', prefix 'v', password 'x')", "a secret is not kept in the catalog")
    refused("redis OPTIONS (url 'http://localhost', prefix 'v')", "a URL of Redis is redis://host:port/database")
    refused("redis OPTIONS (prefix 'v')", "redis needs url")
    refused("parchment", "views are written to cassandra, delta, hbase, kafka, redis; without USING")
    refused(f"redis OPTIONS (url '{place.url}', prefix 'v', password_env 'NOT_THERE')", "no such environment variable")
    where = f"also written to redis (url '{place.url}', prefix '{place.prefix}:spend')"
    assert shop.db.explain("spend").splitlines()[-1] == where
    assert shop.db.sql("DESCRIBE spend").note == (
        f"view key (customer), one row a key; also written to redis (url '{place.url}', prefix '{place.prefix}:spend')"
    )


@pytest.mark.faults
@pytest.mark.parametrize("point", points.TARGET_POINTS)
def test_after_a_kill_nothing_is_missing_doubled_or_left_over(shop: Shop, tmp_path: Path, point: str) -> None:
    require_right_after_kills(shop, tmp_path, point)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Redis]:
    with Redis(tmp_path / "server") as server:
        yield server


@pytest.mark.faults
def test_a_server_that_is_away_holds_up_its_views_alone(
    tmp_path: Path, own: Redis, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "PATIENCE_SECONDS", 0.2)
    shop, chance = Shop(tmp_path / "db", RedisPlace(own.url, "shop")), random.Random(5)
    shop.declare()
    there = unique("place")
    elsewhere = shop.using("elsewhere").replace(own.url, redis.url).replace("shop:", f"{there}:")
    shop.db.sql(f"CREATE VIEW elsewhere {elsewhere} AS SELECT count(*) AS n FROM orders")
    with maintained(shop):
        shop.change(chance, 40)
        require_soon(shop)
        own.kill()
        for _ in range(3):
            shop.change(chance, 20)
            with pytest.raises(StoreAway, match="spend cannot be written to redis: Redis at .* does not take it"):
                shop.db.catch_up(timeout=60.0)
        assert shop.db.view("whole").get()["n"] == len(shop.orders)
        views = {view["name"]: view for view in shop.db.status()["views"]}
        assert views["elsewhere"]["target_error"] is None
        assert rows_in(redis.url, f"{there}:elsewhere", ["n"]) == texts([(len(shop.orders),)])
        assert "does not take it" in views["spend"]["target_error"]
        reports = {report.view: report for report in checked(shop, names=[*VIEWS, "elsewhere"])}
        assert [reports[name].verdict for name in (*VIEWS, "elsewhere")] == [*["not judged"] * len(VIEWS), "right"]
        assert "what is in redis is not judged: Redis at" in reports["spend"].target
        assert views["spend"]["lag_versions"] > 0
        shop.db.sql("CREATE VIEW plain AS SELECT id FROM orders WHERE price > 1")
        own.start()
        require_soon(shop)
    shop.db.close()


@pytest.mark.faults
def test_what_the_server_has_lost_is_written_again(tmp_path: Path, own: Redis) -> None:
    """An older copy of its file, and nothing at all; the same pipeline goes on, and another one."""
    shop, chance = Shop(tmp_path / "db", RedisPlace(own.url, "shop")), random.Random(6)
    shop.declare()
    shop.change(chance, 40)
    for again in range(2):
        with maintained(shop):
            require_soon(shop)
            shutil.copytree(own.folder / "appendonlydir", tmp_path / f"copy {again}")
            shop.change(chance, 40)
            require_soon(shop)
            own.kill()
            shutil.rmtree(own.folder / "appendonlydir")
            shutil.copytree(tmp_path / f"copy {again}", own.folder / "appendonlydir")
            own.start()
            shop.change(chance, 5)
            require_soon(shop)
            client_of(own.url).flushall()
            shop.change(chance, 5)
            require_soon(shop)
    shop.db.close()


@pytest.mark.faults
def test_a_database_of_which_an_older_copy_was_put_back_is_told_and_written_as_a_whole(
    shop: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    require_older_copy_told(shop, tmp_path, caplog)


@pytest.mark.parametrize("running", [False, True])
def test_what_was_changed_by_hand_is_found_and_mended(shop: Shop, place: RedisPlace, running: bool) -> None:
    chance, client = random.Random(11), client_of(place.url)
    shop.change(chance, 40)
    shop.require_there()
    assert all(report.ok and report.target.startswith("what is in redis is right, as of") for report in checked(shop))
    names = sorted(client.scan_iter(f"{place.prefix}:named:*"))
    client.hset(names[0], "name", "by hand")
    client.delete(names[1])
    client.hset(f"{place.prefix}:named:999", mapping={"id": 999})
    client.set(f"{place.prefix}:named:text", "x")
    named = next(report for report in checked(shop) if report.view == "named")
    assert not named.ok
    assert named.verdict == "target wrong"
    assert named.target.startswith("4 rows in redis are wrong, as of version")
    assert sorted(line.split(":named:")[1].split(": ")[0] for line in named.target_differing) == sorted(
        [*(name.split(":named:")[1] for name in names[:2]), "999", "text"]
    )
    assert any("'name': 'by hand'" in line for line in named.target_differing)
    with maintained(shop) if running else nullcontext():
        mended = {report.view: report for report in checked(shop, repair=True)}["named"]
    assert mended.ok
    assert mended.target.endswith("; 4 rows were mended")
    assert shop.found() == shop.expected()


def test_rows_are_read_where_they_are_written(shop: Shop) -> None:
    shop.change(random.Random(12), 60)
    shop.require_there()
    for view in VIEWS:
        reader = shop.db.view(view)
        rows = list(reader.rows())
        key = [column.name for column in shop.db._newest.version().shape(view).key]
        for row in rows:
            values = tuple(row[name] for name in key)
            assert reader.get(values, source="store") == reader.get(values)
    assert shop.db.view("spend").get(77, source="store") is None
    assert shop.db.view("notes").get(("no", 1), source="store") == []
    shop.db.sql("CREATE VIEW plain AS SELECT id FROM orders")
    catch_up(shop.db)
    with pytest.raises(InputError, match="plain is written to no other store"):
        shop.db.view("plain").get(1, source="store")
    with pytest.raises(InputError, match="leave out index and after"):
        shop.db.view("spend").get(1, source="store", after="1:1")
    with pytest.raises(InputError, match="there are 'viewkeeper' and 'store'"):
        shop.db.view("spend").get(1, source="cache")


def test_values_of_all_types_are_read_back_as_they_are(shop: Shop) -> None:
    columns = ["id BIGINT", "b BOOLEAN", "t TINYINT", "f FLOAT", "d DOUBLE", "m DECIMAL(38,10)", "s DECIMAL(9,8)",
               "v STRING", "y BINARY", "e DATE", "z TIMESTAMP", "w TIMESTAMP_NTZ", "c CHAR(3)",
               "i INTERVAL DAY TO SECOND",
               "g INTERVAL YEAR TO MONTH", "a ARRAY<DECIMAL(5,2)>", "k STRUCT<x: TIMESTAMP, y: BINARY>",
               "p MAP<INT, DOUBLE>", "q MAP<STRING, ARRAY<DATE>>"]  # fmt: skip
    shop.db.sql(f"CREATE TABLE wide ({', '.join(columns)}, PRIMARY KEY (id))")
    shop.db.sql(f"""CREATE VIEW whole_rows {shop.using("rows")} AS SELECT * FROM wide;
                    CREATE VIEW bag {shop.using("bag")} AS SELECT b, f, m, y, e, z, k FROM wide""")
    zone = datetime.UTC
    full = {
        "b": True, "t": -5, "f": 0.1, "d": 1e300, "m": Decimal("12345678901234567890.0000000001"), "s": Decimal("1E-8"),
        "v": "ä:%\n\x00\"", "y": b"\x00\xff", "e": datetime.date(1, 1, 1),
        "z": datetime.datetime(2024, 5, 1, 12, 0, 0, 7, zone),
        "w": datetime.datetime(1969, 12, 31, 23), "c": "ab", "i": datetime.timedelta(days=-3, microseconds=1),
        "g": "1-2",
        "a": [Decimal("1.50"), None], "k": {"x": datetime.datetime(2024, 1, 1, tzinfo=zone), "y": b"z"},
        "p": {1: 0.5, 2: float("inf")}, "q": {"": [datetime.date(2024, 2, 29)]},
    }  # fmt: skip
    rows = [{"id": 1, **full}, {"id": 2}, {"id": 3, **full, "d": float("nan"), "f": float("-inf"), "b": False, "v": ""}]
    shop.db.table("wide").put_many(rows)
    catch_up(shop.db)
    for name in ("whole_rows", "bag"):
        reader = shop.db.view(name)
        for row in list(reader.rows()):
            key = tuple(row[column.name] for column in shop.db._newest.version().shape(name).key)
            here, there = reader.get(key), reader.get(key, source="store")
            assert repr(there) == repr(here)
            assert here
    assert all(report.ok for report in checked(shop, names=["whole_rows", "bag"]))


def test_rows_of_a_dropped_view_go_also_where_the_store_was_away(tmp_path: Path, own: Redis) -> None:
    shop, chance = Shop(tmp_path / "db", RedisPlace(own.url, "shop")), random.Random(13)
    shop.declare()
    shop.change(chance, 30)
    shop.require_there()
    client_of(own.url).set("another", "x")
    own.stop()
    shop.db.sql("DROP VIEW named; DROP VIEW notes")
    shop.db.sql("DROP VIEW spend; CREATE VIEW spend AS SELECT customer, count(*) AS n FROM orders GROUP BY customer")
    shop.db.close()
    own.start()
    shop.db = viewkeeper.connect(shop.root, durability="process")
    with maintained(shop):
        shop.db.catch_up(timeout=60.0)
        while shop.db.catalog.targets != tuple(view.target for view in shop.db.catalog.views if view.target):
            time.sleep(0.05)
    names = {name for name in client_of(own.url).scan_iter("*") if not name.startswith("shop:whole")}
    assert names == {"another"}
    shop.db.sql(f"DROP VIEW spend; CREATE VIEW spend {shop.using('spend')} AS SELECT count(*) AS n FROM orders")
    catch_up(shop.db)
    assert rows_in(own.url, "shop:spend", ["n"]) == texts([(len(shop.orders),)])
    shop.db.close()


def test_a_view_that_raises_keeps_its_last_good_version_there(
    shop: Shop, place: RedisPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it raised is of the version that it raised in: `catch_up` waits for a later one that is good."""
    monkeypatch.setattr(publishing, "RETRY_SECONDS", (1.0, 1.0))
    shop.db.sql(f"CREATE VIEW shares {shop.using('shares')} AS SELECT id, 100 / customer AS share FROM orders")
    orders = shop.db.table("orders")
    orders.put({"id": 1, "customer": 4})
    catch_up(shop.db)
    good = texts([(1, 25.0)])
    assert rows_in(place.url, f"{place.prefix}:shares", ["id", "share"]) == good
    orders.put_many([{"id": 2, "customer": 0}, {"id": 3, "customer": 5}])
    with maintained(shop):
        shop.db.catch_up(timeout=60.0)
        assert rows_in(place.url, f"{place.prefix}:shares", ["id", "share"]) == good
        orders.delete(2)
        shop.db.catch_up(timeout=60.0)
        assert rows_in(place.url, f"{place.prefix}:shares", ["id", "share"]) == texts([(1, 25.0), (3, 20.0)])


def test_a_view_with_another_query_takes_over_what_was_written(shop: Shop, place: RedisPlace) -> None:
    chance = random.Random(14)
    shop.change(chance, 30)
    shop.require_there()
    shop.db.sql("ALTER VIEW spend AS SELECT customer, count(*) AS orders FROM orders GROUP BY customer")
    catch_up(shop.db)
    counts = Counter(row["customer"] for row in shop.orders.values())
    assert rows_in(place.url, f"{place.prefix}:spend", ["customer", "orders", "total"]) == texts(
        (customer, count, None) for customer, count in counts.items()
    )
    shop.db.sql("CREATE OR REPLACE VIEW spend AS SELECT count(*) AS n FROM orders")
    shop.change(chance, 10)
    catch_up(shop.db)
    while place.prefix + ":spend" in {dict(target.options)["prefix"] for target in shop.db.catalog.targets}:
        catch_up(shop.db)
        shop.change(chance, 1)
    assert not rows_in(place.url, f"{place.prefix}:spend", ["n"])
    assert not marker_in(place.url, f"{place.prefix}:spend")


def test_no_client_is_left_open_by_a_driver_that_ends_while_it_writes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is closed by the thread that uses it."""
    writing, go_on = threading.Event(), threading.Event()
    opened_, closed = list[RedisTarget](), list[RedisTarget]()
    init, close = RedisTarget.__init__, RedisTarget.close

    def opening(self: RedisTarget, target: Target) -> None:
        init(self, target)
        opened_.append(self)

    def held(point: str) -> None:
        if point == "target rows":
            writing.set()
            assert go_on.wait(60)

    monkeypatch.setattr(RedisTarget, "__init__", opening)
    monkeypatch.setattr(RedisTarget, "close", lambda self: (close(self), closed.append(self)))
    monkeypatch.setattr(publishing, "reached", held)
    with maintained(shop):
        shop.change(random.Random(1), 20)
        assert writing.wait(60)
    assert len(closed) < len(opened_)
    go_on.set()
    deadline = time.monotonic() + 60
    while len(closed) < len(opened_) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert Counter(map(id, closed)) == Counter(map(id, opened_))


def test_a_comparison_that_is_cut_off_is_done_again_as_a_whole(
    shop: Shop, place: RedisPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a writing that was cut off, and whose version is not kept, may be like before by now: no difference of
    versions has them."""
    db, ids = shop.db, range(10)
    db.sql(f"CREATE TABLE t (id INT, v INT, PRIMARY KEY (id)); CREATE VIEW w {shop.using('w')} AS SELECT id, v FROM t")

    def put(v: int) -> None:
        db.table("t").put_many([{"id": id_, "v": v} for id_ in ids])

    def cut_off(v: int) -> None:
        """A driver brings a version in, and ends after the first rows of it are in the store."""
        put(v)
        with monkeypatch.context() as patched:
            patched.setattr(publishing, "reached", cut)
            with maintained(shop), pytest.raises(StoreAway, match="cut off"):
                db.catch_up(timeout=60.0)

    def cut(point: str) -> None:
        if point == "target rows":
            raise StoreAway("it was cut off")

    kept, lost = publishing._Publication._kept, list[Written]()
    put(1)
    catch_up(db)
    monkeypatch.setattr(publishing, "PATIENCE_SECONDS", 0.0)
    with db.snapshot():  # so that its version is kept
        cut_off(2)
        (written,) = {marker_in(place.url, f"{place.prefix}:w")["writing"]}
        lost.append(Written.parse(written))
        monkeypatch.setattr(
            publishing._Publication, "_kept",
            lambda self, at, leases: None if at in lost else kept(self, at, leases),
        )  # fmt: skip
        monkeypatch.setattr(redis_target, "WRITTEN_AT_ONCE", 1)
        cut_off(1)
        catch_up(db)
    assert rows_in(place.url, f"{place.prefix}:w", ["id", "v"]) == texts([(id_, 1) for id_ in ids])


def test_who_has_begun_before_writes_nothing_any_more(shop: Shop, place: RedisPlace) -> None:
    """However late what he sent arrives, and though the row is not there any more."""
    shop.require_there()
    target = shop.db.view("spend")._source.version().view("spend").target
    assert target is not None
    database = marker_in(place.url, f"{place.prefix}:spend")["database"]
    earlier, later = opened(target), opened(target)
    assert earlier.begin(Marker(database, 1, 1, epoch=1_000)) is not None
    assert later.begin(Marker(database, 1, 1, epoch=1_001)) is not None
    for late in (
        lambda: earlier.mend(Written(1), [(b"x", [])]),
        lambda: earlier.complete(Marker(database, 1, 1, Written(1))),
        earlier.clear,
    ):
        with pytest.raises(Begun):
            late()
    later.mend(Written(1), [(f"{place.prefix}:spend:9".encode(), [])])
