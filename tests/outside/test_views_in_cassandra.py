"""Views that are written to a real Cassandra, as a foreign client finds them there."""

from __future__ import annotations

import datetime
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from cassandra import OperationTimedOut
from cassandra.cluster import Session

import viewkeeper
from foreign_cassandra import KEYSPACE, CassandraPlace, until
from foreign_rows import texts
from local_maintenance import catch_up
from store_servers import unique
from viewkeeper.errors import DeclarationError, StoreAway
from viewkeeper.pipeline import publishing
from viewkeeper.servers import Cassandra
from viewkeeper.stores.outside import targets
from viewkeeper.stores.outside.cassandra import view_target
from viewkeeper.stores.outside.cassandra.cluster import Connection
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

pytestmark = pytest.mark.stores


@pytest.fixture
def place(cassandra_session: Session, cassandra: Cassandra) -> CassandraPlace:
    return CassandraPlace(cassandra_session, cassandra, unique("place"))


@pytest.fixture
def shop(tmp_path: Path, place: CassandraPlace) -> Iterator[Shop]:
    made = Shop(tmp_path / "db", place)
    made.declare()
    yield made
    made.db.close()


def test_a_foreign_client_finds_the_views_after_each_batch(shop: Shop) -> None:
    require_right_after_batches(shop, alone=8, beside=5)


@pytest.mark.faults
@pytest.mark.parametrize("point", points.TARGET_POINTS)
def test_after_a_kill_nothing_is_missing_doubled_or_left_over(shop: Shop, tmp_path: Path, point: str) -> None:
    require_right_after_kills(shop, tmp_path, point)


@pytest.mark.faults
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_what_dead_writers_sent_arrives_late_and_changes_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, kept: bool, seed: int
) -> None:
    """Whether what they wrote is written again, or, where its versions are not `kept`, all rows are compared."""
    chance, late, misfortunes = random.Random(seed), list[Any](), list[int]()
    do = view_target.execute_concurrent

    def unlucky(session: Session, batches: list[tuple[Any, None]], concurrency: int) -> Any:
        if not misfortunes or chance.random() < 0.6:
            return do(session, batches, concurrency=concurrency)
        misfortunes.pop()
        chance.shuffle(batches)
        arrive = chance.randrange(len(batches))
        late.extend(batch for batch, _ in batches[arrive:])
        do(session, batches[:arrive], concurrency=concurrency)
        raise OperationTimedOut

    shop.require_there()
    monkeypatch.setattr(view_target, "ROWS_A_BATCH", 1)
    monkeypatch.setattr(view_target, "execute_concurrent", unlucky)
    monkeypatch.setattr(targets, "ROWS_AT_ONCE", 8)
    monkeypatch.setattr(publishing, "RETRY_SECONDS", (0.01, 0.02))
    if not kept:
        monkeypatch.setattr(publishing._Publication, "_kept", lambda *_: None)
    connection = Connection({"contact_points": "127.0.0.1", "port": str(shop.place.server.port)})
    arrived = 0
    with closing(connection), maintained(shop):
        for _ in range(12):
            misfortunes[:] = range(6)
            shop.change(chance, 15)
            if chance.random() < 0.5:
                until(lambda: shop.db.catch_up(timeout=120.0))
            chance.shuffle(late)
            while late and chance.random() < 0.7:
                connection.session().execute(late.pop())
                arrived += 1
        until(lambda: shop.db.catch_up(timeout=120.0))
        while late:
            connection.session().execute(late.pop())
            arrived += 1
        assert shop.found() == shop.expected()
    assert arrived > 20


@pytest.mark.faults
@pytest.mark.parametrize("kept", [True, False])
def test_what_a_dead_writer_sent_of_rows_that_are_again_as_before_arrives_late(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """No comparison finds these rows: a changed one that was changed back, and one that came and went."""
    orders, late = shop.db.table("orders"), list[Any]()
    before = {id_: {"id": id_, "customer": id_, "price": Decimal(2), "note": "x"} for id_ in (1, 2)}
    orders.put_many(list(before.values()))
    shop.orders |= before
    shop.require_there()

    def lost(session: Session, batches: list[tuple[Any, None]], concurrency: int) -> Any:
        late.extend(batch for batch, _ in batches)
        raise OperationTimedOut

    with monkeypatch.context() as patched:
        patched.setattr(publishing, "PATIENCE_SECONDS", 0.2)
        patched.setattr(view_target, "execute_concurrent", lost)
        orders.put_many([{**before[1], "price": Decimal(3)}, {**before[2], "id": 3, "customer": 3}])
        with pytest.raises(StoreAway):
            catch_up(shop.db)
    if not kept:
        monkeypatch.setattr(publishing._Publication, "_kept", lambda *_: None)
    orders.put(before[1])
    orders.delete(3)
    shop.require_there()
    assert len(late) >= 3
    with closing(Connection({"contact_points": "127.0.0.1", "port": str(shop.place.server.port)})) as connection:
        for batch in late:
            connection.session().execute(batch)
    assert shop.found() == shop.expected()


def test_who_has_begun_before_writes_nothing_any_more(shop: Shop, place: CassandraPlace) -> None:
    shop.require_there()
    view = shop.db._newest.version().view("spend")
    assert view.target is not None
    marker = place.marker("spend")
    mine = Marker(marker["database"], view.id, view.stored.state.id, epoch=1_000)
    with closing(opened(view.target)) as earlier, closing(opened(view.target)) as later:
        was = earlier.begin(mine)
        assert was is not None and was.at.version == marker["version"]
        assert later.begin(mine._replace(epoch=1_001)) == was._replace(epoch=1_000)
        form = targets.RowForm(view, "UTC")
        earlier.prepare(form)
        for late in (
            lambda: earlier.mend(Written(1), [((b"x",), None)]),
            lambda: earlier.complete(mine._replace(at=Written(1))),
            earlier.clear,
        ):
            with pytest.raises(Begun):
                late()
        later.prepare(form)
        later.complete(mine._replace(at=was.at, epoch=1_001))
        with pytest.raises(targets.LaterEpoch, match="it was written in epoch 1001, and this is 1000"):
            earlier.begin(mine)
    shop.require_there()


def test_a_reader_sees_whole_rows_that_never_go_back(shop: Shop, place: CassandraPlace) -> None:
    shop.db.sql(f"""CREATE TABLE pairs (id BIGINT, one BIGINT, PRIMARY KEY (id));
                    CREATE VIEW twice {place.using("twice")} AS SELECT id, one, one AS other FROM pairs""")
    catch_up(shop.db)
    ended, wrong, seen = threading.Event(), list[Any](), dict[int, int]()

    def read() -> None:
        while not ended.is_set():
            for row in place.run("SELECT * FROM T", "twice"):
                version = row["viewkeeper:version"]
                if row["one"] != row["other"] or version < seen.get(row["id"], 0):
                    wrong.append(row)
                seen[row["id"]] = version

    reader = threading.Thread(target=read)
    reader.start()
    pairs, chance = shop.db.table("pairs"), random.Random(1)
    with maintained(shop):
        for _ in range(40):
            pairs.put_many([{"id": id_, "one": chance.choice([None, 1, 2])} for id_ in range(20)])
            shop.db.catch_up(timeout=60.0)
    ended.set()
    reader.join()
    assert seen and not wrong
    assert place.run("SELECT one FROM T WHERE id = 7", "twice")[0]["one"] == shop.db.view("twice").get(7)["one"]


def test_a_table_that_is_not_empty_is_refused(shop: Shop, place: CassandraPlace, tmp_path: Path) -> None:
    shop.require_there()
    with viewkeeper.connect(tmp_path / "other") as other:
        other.sql(TABLES)

        def refused(using: str, match: str) -> None:
            with pytest.raises(DeclarationError, match=match):
                other.sql(f"CREATE VIEW spend {using} AS SELECT count(*) AS n FROM orders")

        refused(place.using("spend"), r"a view of another database .*; take another place, or delete")
        place.run("CREATE TABLE T (id int PRIMARY KEY)", "mine")
        refused(place.using("mine"), "holds a table that is not viewkeeper's; take another table, or drop it")
        for none in ("nowhere", "system_auth"):
            nowhere = place.using("none").replace(f"'{KEYSPACE}'", f"'{none}'")
            refused(nowhere, f"there is no keyspace {none} for tables of yours in the cluster: make it")
        with pytest.raises(DeclarationError, match="column viewkeeper:version: what begins with viewkeeper: is"):
            other.sql(f"CREATE VIEW none {place.using('none')} AS SELECT id AS `viewkeeper:version` FROM orders")
    with pytest.raises(DeclarationError, match="named is written there already"):
        shop.db.sql(f"CREATE VIEW more {shop.using('named')} AS SELECT count(*) AS n FROM orders")


def test_options_are_checked_and_no_secret_is_kept(shop: Shop, place: CassandraPlace) -> None:
    def refused(options: str, match: str) -> None:
        with pytest.raises(DeclarationError, match=match):
            shop.db.sql(f"CREATE VIEW v USING cassandra OPTIONS ({options}) AS SELECT count(*) AS n FROM orders")

    good = "contact_points 'localhost', keyspace 'k', table 'v'"
    refused("contact_points 'localhost', keyspace 'k'", "cassandra needs table")
    refused(f"{good}, password 'x'", "a secret is not kept in the catalog")
    refused(f"{good}, port 'x'", "expected a number")
    refused(f"{good}, consistency 'one'", "there are quorum, local_quorum, all")
    refused(f"{good}, consistency 'local_quorum'", "say of which datacenter")
    refused(good.replace("'v'", "'a-b'"), "a name in Cassandra has letters, digits and _")
    refused(good.replace("'v'", "'viewkeeper_journal'"), "viewkeeper keeps something else in it")


@pytest.mark.faults
def test_a_database_of_which_an_older_copy_was_put_back_is_told_and_written_as_a_whole(
    shop: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    require_older_copy_told(shop, tmp_path, caplog)


@pytest.mark.parametrize("running", [False, True])
def test_what_was_changed_by_hand_is_found_and_mended(shop: Shop, place: CassandraPlace, running: bool) -> None:
    """A row that is new, and one that is changed or deleted with a timestamp that is later than ours."""
    chance = random.Random(11)
    shop.change(chance, 60)
    shop.require_there()
    assert all(
        report.ok and report.target.startswith("what is in cassandra is right, as of") for report in checked(shop)
    )
    first, second = sorted(row["id"] for row in place.run("SELECT id FROM T", "named"))[:2]
    stamp = place.marker("named")["stamp"] + 1
    place.run(f"UPDATE T USING TIMESTAMP {stamp} SET name = 'by hand' WHERE id = {first}", "named")
    place.run(f"DELETE FROM T USING TIMESTAMP {stamp} WHERE id = {second}", "named")
    place.run("INSERT INTO T (id) VALUES (999)", "named")
    place.run(f"UPDATE T SET name = 'too late' WHERE id = {second}", "named")
    named = next(report for report in checked(shop) if report.view == "named")
    assert named.verdict == "target wrong"
    assert named.target.startswith("3 rows in cassandra are wrong, as of version")
    assert sorted(line.split(": ")[0] for line in named.target_differing) == sorted([str(first), str(second), "999"])
    assert any("'name': 'by hand'" in line for line in named.target_differing)
    with maintained(shop) if running else nullcontext():
        mended = {report.view: report for report in checked(shop, repair=True)}["named"]
    assert mended.ok
    assert mended.target.endswith("; 3 rows were mended")
    assert shop.found() == shop.expected()


def test_a_table_that_was_dropped_or_emptied_or_whose_columns_were_changed_is_mended(
    shop: Shop, place: CassandraPlace
) -> None:
    chance = random.Random(11)
    shop.change(chance, 40)
    shop.require_there()
    place.run("TRUNCATE T", "spend")
    place.run("ALTER TABLE T DROP price", "named")
    place.run("DROP TABLE T", "notes")
    wrong = {report.view: report for report in checked(shop) if not report.ok}
    assert set(wrong) == {"spend", "named"}
    assert "its columns: expected " in wrong["named"].target_differing[0]
    assert all(report.ok for report in checked(shop, repair=True))
    assert shop.found() == shop.expected()
    with maintained(shop):
        place.run("DROP TABLE T", "notes")
        shop.change(chance, 20)
        require_soon(shop)


def test_rows_are_read_where_they_are_written(shop: Shop) -> None:
    shop.change(random.Random(12), 60)
    shop.require_there()
    for view in VIEWS:
        reader = shop.db.view(view)
        key = [column.name for column in shop.db._newest.version().shape(view).key]
        for row in list(reader.rows()):
            values = tuple(row[name] for name in key)
            assert reader.get(values, source="store") == reader.get(values)
    assert shop.db.view("spend").get(77, source="store") is None
    assert shop.db.view("notes").get(("no", 1), source="store") == []


COLUMNS = ["id BIGINT", "b BOOLEAN", "t TINYINT", "f FLOAT", "d DOUBLE", "m DECIMAL(38,10)", "s DECIMAL(9,8)",
           "v STRING", "y BINARY", "e DATE", "z TIMESTAMP", "w TIMESTAMP_NTZ", "c CHAR(3)", "i INTERVAL DAY TO SECOND",
           "g INTERVAL YEAR TO MONTH", "a ARRAY<DECIMAL(5,2)>", "k STRUCT<x: TIMESTAMP, y: BINARY>",
           "p MAP<INT, DOUBLE>", "q MAP<STRING, ARRAY<DATE>>"]  # fmt: skip


def test_values_of_all_types_are_read_back_as_they_are(shop: Shop) -> None:
    shop.db.sql(f"CREATE TABLE wide ({', '.join(COLUMNS)}, PRIMARY KEY (id))")
    shop.db.sql(f"""CREATE VIEW whole_rows {shop.using("whole_rows")} AS SELECT * FROM wide;
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
    last = {
        "e": datetime.date(9999, 12, 31), "w": datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999),
        "z": datetime.datetime(1, 1, 1, tzinfo=zone), "m": Decimal("-1E-10"), "s": Decimal(-128).scaleb(-8),
    }  # fmt: skip
    shop.db.table("wide").put_many([
        {"id": 1, **full}, {"id": 2}, {"id": 3, **full, "d": float("nan"), "f": float("-inf"), "b": False, "v": ""},
        {"id": 4, **full, **last, "d": -0.0, "v": "x" * 70_000, "y": b""},
    ])  # fmt: skip
    catch_up(shop.db)
    require_same(shop, "whole_rows", "bag")
    shop.db.table("wide").put_many([{"id": 1}, {"id": 2, **full}])
    catch_up(shop.db)
    require_same(shop, "whole_rows", "bag")


def test_keys_of_all_sorts_are_rows_of_their_own(shop: Shop, place: CassandraPlace) -> None:
    grouped = {"texts": "v", "bytes": "y", "numbers": "t", "days": "e", "both": "v, y", "floats": "d", "exact": "s"}
    shop.db.sql(f"CREATE TABLE wide ({', '.join(COLUMNS)}, PRIMARY KEY (id))")
    for view, key in grouped.items():
        shop.db.sql(f"CREATE VIEW {view} {shop.using(view)} AS SELECT {key}, count(*) AS n FROM wide GROUP BY {key}")
    values: list[dict[str, Any]] = [
        {"v": v, "y": y, "t": t, "e": datetime.date(1, 1, 1), "d": d, "s": s}
        for v, y, t, d, s in [
            ("", b"", 0, -0.0, Decimal(0)), ("x", b"\xff", -1, 0.0, Decimal(1)), ("[x", b"[", None, None, None),
            ("x" * 1_000, b"x" * 70_000, 1, float("nan"), Decimal("1.1")), ("x" * 70_000, None, 2, 1e-300, Decimal(-1)),
            ("[#" + "0" * 64, b"[#", 3, 5.0, Decimal(2)), (None, b"", 3, 5.0, Decimal(2)), ("x", b"x", 4, 6.0, None),
        ]
    ]  # fmt: skip
    wide = shop.db.table("wide")
    wide.put_many([{"id": id_, **row} for id_, row in enumerate(values)])
    catch_up(shop.db)
    require_same(shop, *grouped)
    assert place.run("SELECT n FROM T WHERE \"viewkeeper:key\" = 'x'", "texts")[0]["n"] == 2
    assert place.run('SELECT n FROM T WHERE "viewkeeper:key" = \'[""]\'', "texts")[0]["n"] == 1
    for id_ in range(4):
        wide.delete(id_)
    catch_up(shop.db)
    require_same(shop, *grouped)


def require_same(shop: Shop, *views: str) -> None:
    """What is read in the store is what the views hold, and a check says so."""
    for name in views:
        reader, rows = shop.db.view(name), list(shop.db.view(name).rows())
        key = [column.name for column in shop.db._newest.version().shape(name).key]
        for row in rows:
            values = tuple(row[column] for column in key)
            here, there = reader.get(values), reader.get(values, source="store")
            assert repr(there).replace("-0.0", "0.0") == repr(here).replace("-0.0", "0.0")
            assert here
        assert sum(shop.place.rows(name, []).values()) == len(rows)
    assert all(report.ok for report in checked(shop, names=views))


def test_a_view_with_another_query_takes_over_what_was_written(shop: Shop, place: CassandraPlace) -> None:
    chance = random.Random(14)
    shop.change(chance, 30)
    shop.require_there()
    shop.db.sql("ALTER VIEW spend AS SELECT customer, count(*) AS orders FROM orders GROUP BY customer")
    catch_up(shop.db)
    counts = Counter(row["customer"] for row in shop.orders.values())
    assert place.rows("spend", ["customer", "orders", "total"]) == texts(
        (customer, count, None) for customer, count in counts.items()
    )
    shop.db.sql("CREATE OR REPLACE VIEW spend AS SELECT count(*) AS n FROM orders")
    shop.change(chance, 10)
    catch_up(shop.db)
    while place.table("spend") in {dict(target.options)["table"] for target in shop.db.catalog.targets}:
        catch_up(shop.db)
        shop.change(chance, 1)
    assert not place.marker("spend")
    assert not place.tables("spend")


def test_a_view_that_raises_keeps_its_last_good_version_there(shop: Shop, place: CassandraPlace) -> None:
    shop.db.sql(f"CREATE VIEW shares {shop.using('shares')} AS SELECT id, 100 / customer AS share FROM orders")
    orders = shop.db.table("orders")
    orders.put({"id": 1, "customer": 4})
    catch_up(shop.db)
    orders.put_many([{"id": 2, "customer": 0}, {"id": 3, "customer": 5}])
    with maintained(shop):
        shop.db.catch_up(timeout=60.0)
        assert place.rows("shares", ["id", "share"]) == texts([(1, 25.0)])
        orders.delete(2)
        shop.db.catch_up(timeout=60.0)
        assert place.rows("shares", ["id", "share"]) == texts([(1, 25.0), (3, 20.0)])
