"""Views that are written to a real HBase, as a foreign client finds them there."""

from __future__ import annotations

import datetime
import random
import struct
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import viewkeeper
from foreign_hbase import HBasePlace
from foreign_rows import texts
from hbase_admin import HBaseAdmin
from local_maintenance import catch_up
from store_servers import unique
from viewkeeper.errors import DeclarationError, StoreAway
from viewkeeper.pipeline import publishing
from viewkeeper.servers import HBase
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
def place(hbase: HBase) -> HBasePlace:
    return HBasePlace(hbase, unique("place"))


@pytest.fixture
def shop(tmp_path: Path, place: HBasePlace) -> Iterator[Shop]:
    made = Shop(tmp_path / "db", place)
    made.declare()
    yield made
    made.db.close()


def test_a_foreign_client_finds_the_views_after_each_batch(shop: Shop) -> None:
    require_right_after_batches(shop, alone=8, beside=0)


@pytest.mark.faults
@pytest.mark.parametrize("point", points.TARGET_POINTS)
def test_after_a_kill_nothing_is_missing_doubled_or_left_over(shop: Shop, tmp_path: Path, point: str) -> None:
    require_right_after_kills(shop, tmp_path, point)


@pytest.mark.faults
def test_a_database_of_which_an_older_copy_was_put_back_is_told_and_written_as_a_whole(
    shop: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    require_older_copy_told(shop, tmp_path, caplog)


def test_a_table_that_is_not_the_views_is_refused(shop: Shop, place: HBasePlace, tmp_path: Path) -> None:
    shop.require_there()

    def refused(view: str, match: str) -> None:
        with pytest.raises(DeclarationError, match=match):
            other.sql(f"CREATE VIEW v {place.using(view)} AS SELECT count(*) AS n FROM orders")

    with viewkeeper.connect(tmp_path / "other") as other:
        other.sql(TABLES)
        refused("spend", r"a view of another database .*; take another place, or delete")
        place.connection.create_table(place.name("plain"), {"f": {}})
        refused("plain", "not viewkeeper's: it has no family viewkeeper; take another table")
        place.connection.create_table(place.name("full"), {"f": {}, "viewkeeper": {}})
        place.table("full").put(b"x", {b"f:a": b"1"})
        refused("full", "holds rows that are not viewkeeper's; take another table, or drop this one")
        place.table("full").put(b"viewkeeper", {b"viewkeeper:marker": b"{}"})
        refused("full", "holds what is no marker, in the cell viewkeeper:marker of the row viewkeeper")
        assert other.catalog.find("v") is None
    with pytest.raises(DeclarationError, match="named is written there already"):
        shop.db.sql(f"CREATE VIEW more {shop.using('named')} AS SELECT count(*) AS n FROM orders")


@pytest.mark.parametrize(("options", "why"), [
    ("table 't'", "hbase needs thrift"),
    ("thrift 'there', table 't'", "expected HOST:PORT"),
    ("thrift 'h:1', table 't', wal 'file:///x'", "hbase has no option wal"),
    ("thrift 'h:1', table 'a b'", "expected NAME or NAMESPACE:NAME"),
    ("thrift 'h:1', table 't', key 'wide'", "there is no encoding 'wide'"),
    ("thrift 'h:1', table 't', separator ','", "the parts of a key that the option key names"),
    ("thrift 'h:1', table 't', family 'viewkeeper'", "'viewkeeper' is no family of rows; viewkeeper has the marker"),
    ("thrift 'h:1', table 't', columns 'n=f:viewkeeper:version:text'", "begin with viewkeeper: are viewkeeper's own"),
])  # fmt: skip
def test_what_cannot_be_declared(shop: Shop, options: str, why: str) -> None:
    with pytest.raises(DeclarationError, match=why):
        shop.db.sql(f"CREATE VIEW v USING hbase OPTIONS ({options}) AS SELECT count(*) AS n FROM orders")


@pytest.mark.parametrize(("options", "why"), [
    ("key 'long, long'", r"it has 2 encodings, and the view's key 1 columns \(id\)"),
    ("columns 'note=f:n:long'", "note is a STRING, which is not written as long"),
    ("columns 'other=f:n:long'", "other is no column of the view"),
    ("columns 'note=f:id:text'", "id and note are both 'f:id'"),
])  # fmt: skip
def test_options_that_do_not_fit_the_view_are_refused(shop: Shop, place: HBasePlace, options: str, why: str) -> None:
    using, query = place.using("v").replace(")", f", {options})"), "AS SELECT id, note FROM orders"
    with pytest.raises(DeclarationError, match=why):
        shop.db.sql(f"CREATE VIEW v {using} {query}")
    catch_up(shop.db)
    with pytest.raises(DeclarationError, match=why):
        shop.db.sql(f"CREATE OR REPLACE VIEW named {using} {query}")
    assert shop.db.catalog.find("v") is None


def test_a_namespace_that_is_not_there_holds_up_the_view_with_the_reason(
    shop: Shop, place: HBasePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "PATIENCE_SECONDS", 0.0)
    using = place.using("v").replace("table '", "table 'nowhere:")
    shop.db.sql(f"CREATE VIEW v {using} AS SELECT id, note FROM orders")
    with pytest.raises(StoreAway, match="it cannot be made: .*NamespaceNotFoundException"):
        catch_up(shop.db)


def newest(place: HBasePlace, view: str, key: bytes) -> int:
    """The newest timestamp of a row's cells."""
    return max(stamp for _, stamp in place.table(view).row(key, include_timestamp=True).values())


@pytest.mark.parametrize("running", [False, True])
def test_what_was_changed_by_hand_is_found_and_mended(shop: Shop, place: HBasePlace, running: bool) -> None:
    chance, table = random.Random(11), place.table("named")
    shop.change(chance, 60)
    shop.require_there()
    assert all(report.ok and report.target.startswith("what is in hbase is right, as of") for report in checked(shop))
    names = sorted(key for key, _ in table.scan(columns=[b"f"]))
    stamps = [newest(place, "named", name) + 1 for name in names]
    table.put(names[0], {b"f:name": b"by hand"}, timestamp=stamps[0])
    table.delete(names[1], timestamp=stamps[1])
    table.delete(names[2], columns=[b"f:price"], timestamp=stamps[2])
    table.put(names[3], {b"f:more": b"x"})
    table.put(b"999", {b"f:id": b"999"})
    table.put(names[4], {b"f:name": b"hidden"})  # a server's timestamps are before ours
    named = next(report for report in checked(shop) if report.view == "named")
    assert named.verdict == "target wrong"
    assert named.target.startswith("5 rows in hbase are wrong, as of version")
    assert sorted(line.split(": ")[0] for line in named.target_differing) == sorted(
        repr(name.decode()) for name in [*names[:4], b"999"]
    )
    assert any("'f:name': 'by hand'" in line for line in named.target_differing)
    with maintained(shop) if running else nullcontext():
        mended = {report.view: report for report in checked(shop, repair=True)}["named"]
    assert mended.ok
    assert mended.target.endswith("; 5 rows were mended")
    assert shop.found() == shop.expected()
    assert b"f:more" not in table.row(names[3])


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


def test_values_of_all_types_are_read_back_as_they_are(shop: Shop, place: HBasePlace) -> None:
    columns = ["id BIGINT", "b BOOLEAN", "t TINYINT", "f FLOAT", "d DOUBLE", "m DECIMAL(38,10)", "s DECIMAL(9,8)",
               "v STRING", "y BINARY", "e DATE", "z TIMESTAMP", "w TIMESTAMP_NTZ", "c CHAR(3)",
               "i INTERVAL DAY TO SECOND",
               "g INTERVAL YEAR TO MONTH", "a ARRAY<DECIMAL(5,2)>", "k STRUCT<x: TIMESTAMP, y: BINARY>",
               "p MAP<INT, DOUBLE>", "q MAP<STRING, ARRAY<DATE>>"]  # fmt: skip
    shop.db.sql(f"CREATE TABLE wide ({', '.join(columns)}, PRIMARY KEY (id))")
    encoded = ("key 'ordered_long', family 'g', columns 'b=f:b:boolean, t=f:t:byte, f=f:f:float, d=f:d:double, "
               r"v=f:\\x00v:text, y=f:y:binary, z=f:z:millis, w=f:w:millis, id=f:id:long, a=f:a:text'")  # fmt: skip
    shop.db.sql(f"""CREATE VIEW whole_rows {shop.using("rows")} AS SELECT * FROM wide;
                    CREATE VIEW encoded {shop.using("encoded").replace(")", f", {encoded})")} AS SELECT * FROM wide;
                    CREATE VIEW bag {shop.using("bag")} AS SELECT b, f, m, y, e, z, k FROM wide""")
    zone = datetime.UTC
    full: dict[str, Any] = {
        "b": True, "t": -5, "f": 0.1, "d": 1e300, "m": Decimal("12345678901234567890.0000000001"), "s": Decimal("1E-8"),
        "v": "ä:%\n\x00\"", "y": b"\x00\xff", "e": datetime.date(1, 1, 1),
        "z": datetime.datetime(9999, 12, 31, 23, 59, 59, 999000, zone),
        "w": datetime.datetime(1, 1, 1), "c": "ab", "i": datetime.timedelta(days=-3, microseconds=1),
        "g": "1-2",
        "a": [Decimal("1.50"), None], "k": {"x": datetime.datetime(2024, 1, 1, tzinfo=zone), "y": b"z"},
        "p": {1: 0.5, 2: float("inf")}, "q": {"": [datetime.date(2024, 2, 29)]},
    }  # fmt: skip
    endless = {**full, "d": float("nan"), "f": float("-inf"), "b": False, "v": ""}
    rows = [{"id": 1, **full}, {"id": -2}, {"id": 3, **endless},
            {"id": 4, "v": "", "y": b"", "e": datetime.date(9999, 12, 31), "a": []}]  # fmt: skip
    for changed in (rows, [{"id": 1}, {"id": -2, **endless}]):
        shop.db.table("wide").put_many(changed)
        catch_up(shop.db)
        for name in ("whole_rows", "encoded", "bag"):
            reader = shop.db.view(name)
            for row in list(reader.rows()):
                key = tuple(row[column.name] for column in shop.db._newest.version().shape(name).key)
                here, there = reader.get(key), reader.get(key, source="store")
                assert repr(there) == repr(here)
                assert here
        assert all(report.ok for report in checked(shop, names=["whole_rows", "encoded", "bag"]))
    there = place.table("encoded").row(struct.pack(">Q", 2**63 + 3))
    assert (there[b"f:d"][:2], there[b"f:w"], there[b"f:\x00v"]) == (
        b"\x7f\xf8",
        struct.pack(">q", -62135596800000),
        b"",
    )
    assert (there[b"f:t"], there[b"g:m"]) == (b"\xfb", b"12345678901234567890.0000000001")


def test_a_time_that_its_encoding_cannot_hold_holds_up_the_view(
    shop: Shop, place: HBasePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "PATIENCE_SECONDS", 0.0)
    shop.db.sql("CREATE TABLE times (id INT, z TIMESTAMP, PRIMARY KEY (id))")
    using = place.using("v").replace(")", ", columns 'z=f:z:millis')")
    shop.db.sql(f"CREATE VIEW v {using} AS SELECT * FROM times")
    shop.db.table("times").put({"id": 1, "z": datetime.datetime(2024, 5, 1, 12, 0, 0, 7)})
    with pytest.raises(StoreAway, match="column z: a time has microseconds, and millis has milliseconds"):
        catch_up(shop.db)
    shop.db.table("times").put({"id": 1, "z": datetime.datetime(2024, 5, 1, 12, 0, 0, 7000)})
    catch_up(shop.db)
    assert shop.db.view("v").get(1, source="store") == shop.db.view("v").get(1)


def test_a_view_with_another_query_takes_over_what_was_written(shop: Shop, place: HBasePlace) -> None:
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
    name = place.name("spend")
    while name in {dict(target.options)["table"] for target in shop.db.catalog.targets}:
        shop.change(chance, 1)
        catch_up(shop.db)
    assert not place.rows("spend", ["n"])
    shop.db.sql(f"CREATE VIEW again {place.using('spend')} AS SELECT count(*) AS n FROM orders")
    catch_up(shop.db)
    assert place.rows("spend", ["n"]) == texts([(len(shop.orders),)])


def test_a_table_that_was_dropped_or_emptied_is_written_again(shop: Shop, place: HBasePlace) -> None:
    chance = random.Random(15)
    shop.change(chance, 40)
    with maintained(shop), HBaseAdmin(place.server) as admin:
        require_soon(shop)
        place.connection.delete_table(place.name("spend"), disable=True)
        admin.truncate(place.name("named"))
        shop.change(chance, 5)
        deadline = time.monotonic() + 60
        while place.name("spend").encode() not in place.connection.tables() or shop.found() != shop.expected():
            assert time.monotonic() < deadline
            shop.db.catch_up(timeout=60.0)
            time.sleep(0.1)
    assert all(report.ok for report in checked(shop))


KEYS = {"spend": ", key 'ordered_long', columns 'customer=f:customer:long, n=f:n:int'",
        "named": ", key 'text(1)'", "notes": r", key 'text, long', separator '\\x00'"}  # fmt: skip


def test_keys_and_cells_by_encodings(tmp_path: Path, hbase: HBase) -> None:
    """Also where a part of the key is NULL, which sorts last."""
    shop = Shop(tmp_path / "db", place := HBasePlace(hbase, unique("place"), KEYS))
    shop.db.sql(TABLES)
    shop.db.sql(f"""
        CREATE VIEW spend {place.using("spend")} AS SELECT customer, count(*) AS n FROM orders GROUP BY customer;
        CREATE VIEW notes {place.using("notes")} AS SELECT note, customer FROM orders""")
    shop.change(random.Random(21), 60)
    catch_up(shop.db)
    counts = Counter(order["customer"] for order in shop.orders.values())
    there = dict(place.table("spend").scan(columns=[b"f"]))
    assert there.keys() == {b"\xff" * 9 + b"[null]" if c is None else struct.pack(">Q", c + 2**63) for c in counts}
    for key, cells in there.items():
        customer = None if key[:1] == b"\xff" else struct.unpack(">Q", key)[0] - 2**63
        assert cells[b"f:n"] == struct.pack(">i", counts[customer])
        assert cells.get(b"f:customer") == (None if customer is None else struct.pack(">q", customer))
        assert shop.db.view("spend").get(customer, source="store") == {"customer": customer, "n": counts[customer]}
    notes = Counter((order["note"], order["customer"]) for order in shop.orders.values())
    found = {key: int(cells[b"f:viewkeeper:times"]) for key, cells in place.table("notes").scan(columns=[b"f"])}
    assert found == {
        b"\xff" + f"[{'null' if note is None else f'{chr(34)}{note}{chr(34)}'},{customer or 'null'}]".encode()
        if note is None or customer is None else note.encode() + b"\0" + struct.pack(">q", customer): times
        for (note, customer), times in notes.items()
    }  # fmt: skip
    assert all(report.ok for report in checked(shop, names=["spend", "notes"]))
    shop.db.close()


def test_a_table_reads_what_a_view_has_written(shop: Shop, place: HBasePlace) -> None:
    """Adopted when rows are there, then followed by the log: what became NULL in it is nobody's error."""
    mapped = "columns 'customer=f:c:long, price=f:price:text, twice=f:twice:double'"
    written = place.using("v").replace(")", f", key 'long', {mapped})")
    shop.db.sql(f"""CREATE VIEW v {written} AS
                      SELECT *, CASE WHEN customer > 1 THEN price * 2e0 END AS twice FROM orders""")
    shop.change(random.Random(23), 60)
    catch_up(shop.db)
    read = f"""USING hbase OPTIONS (thrift '{place.server.address}', wal '{place.server.root.as_uri()}', key 'long',
                                    table '{place.name("v")}', family 'f', {mapped})"""
    shop.db.sql(f"""CREATE TABLE again (id BIGINT, customer BIGINT, price DECIMAL(15,2), note STRING, twice DOUBLE,
                                        PRIMARY KEY (id)) {read};
                    CREATE VIEW seen AS SELECT * FROM again""")
    catch_up(shop.db)
    for seed in range(4):
        deadline = time.monotonic() + 30
        while not same_rows(shop, "v", "seen"):
            assert time.monotonic() < deadline
            catch_up(shop.db)
        shop.change(random.Random(seed), 40)
        catch_up(shop.db)
    assert not list(shop.db.rejected("again"))


def same_rows(shop: Shop, one: str, other: str) -> bool:
    first, second = ({row["id"]: row for row in shop.db.view(view).rows()} for view in (one, other))
    return first == second


@pytest.mark.faults
def test_a_gateway_and_a_cluster_that_are_away_hold_up_their_views_alone(
    tmp_path: Path, hbase: HBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "PATIENCE_SECONDS", 0.2)
    with HBase(tmp_path / "server", region_servers=1) as own:
        shop, chance = Shop(tmp_path / "db", place := HBasePlace(own, "shop")), random.Random(5)
        shop.declare()
        elsewhere = HBasePlace(hbase, unique("place"))
        shop.db.sql(f"CREATE VIEW elsewhere {elsewhere.using('elsewhere')} AS SELECT count(*) AS n FROM orders")
        with maintained(shop):
            shop.change(chance, 40)
            require_soon(shop)
            for kill in (own.processes[1].kill, own.kill):
                kill()
                for _ in range(2):
                    shop.change(chance, 20)
                    with pytest.raises(StoreAway, match="cannot be written to hbase: the table 'shop.* of HBase: "):
                        shop.db.catch_up(timeout=60.0)
                assert shop.db.view("whole").get()["n"] == len(shop.orders)
                views = {view["name"]: view for view in shop.db.status()["views"]}
                assert views["elsewhere"]["target_error"] is None
                assert elsewhere.rows("elsewhere", ["n"]) == texts([(len(shop.orders),)])
                assert views["spend"]["lag_versions"] > 0
                own.start()
                place.connect()
                shop.db.sql("DROP VIEW IF EXISTS plain; CREATE VIEW plain AS SELECT id FROM orders WHERE price > 1")
                require_soon(shop)
        shop.db.sql("DROP VIEW named")
        own.kill()
        shop.db.close()
        shop.db = viewkeeper.connect(shop.root, durability="process")
        own.start()
        place.connect()
        with maintained(shop):
            shop.db.catch_up(timeout=60.0)
            while len(shop.db.catalog.targets) > 4:
                time.sleep(0.05)
        assert not place.rows("named", ["id"])
        shop.db.close()
