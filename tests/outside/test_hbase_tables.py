"""Tables over a real HBase through the whole path: adopted while a foreign client writes, followed, checked."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import viewkeeper
from hbase_rows import HBaseRows, key_of
from local_maintenance import catch_up, with_servers
from orders_elsewhere import VIEWS, require_views, with_customers
from store_servers import unique
from viewkeeper.database import Database
from viewkeeper.errors import DeclarationError, LogLost
from viewkeeper.pipeline import adopting
from viewkeeper.servers import HBase
from viewkeeper.stores.outside.hbase import client


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with with_customers(tmp_path / "db") as database:
        yield database


@pytest.fixture
def rows(hbase: HBase) -> Iterator[HBaseRows]:
    with closing(HBaseRows(hbase, unique("orders"))) as made:
        yield made


def require_right(db: Database, rows: HBaseRows) -> None:
    """The views hold what a scan of the store finds."""
    require_views(db, rows.rows())


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("seed", range(2))
def test_views_hold_what_a_scan_finds(
    db: Database, rows: HBaseRows, seed: int, servers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adopted full while it is written; then followed, with timestamps out of order."""
    with_servers(monkeypatch, servers)
    chance = random.Random(seed)
    rows.change(chance, 150)
    with monkeypatch.context() as patched:
        patched.setattr(client, "SCANNED_AT_ONCE", 5)
        patched.setattr(adopting, "ROWS_AT_ONCE", 6)
        block = client.Gateway._block

        def between(*given: Any, **named: Any) -> object:
            rows.change(chance, 5)
            return block(*given, **named)

        patched.setattr(client.Gateway, "_block", between)
        db.sql(rows.declared(VIEWS))
        catch_up(db)
    catch_up(db)
    require_right(db, rows)
    time.sleep(5)  # from here on timestamps are of after the adoption
    for _ in range(4):
        rows.change(chance, 40, keys=chance.choice([3, 40]), stamped=True)
        db.table("customers").put({"id": 1, "name": "a"})
        catch_up(db)
        require_right(db, rows)
    assert not list(db.rejected("orders"))


def test_what_is_put_through_viewkeeper_is_in_hbase_and_its_token_in_the_views(db: Database, rows: HBaseRows) -> None:
    db.sql(rows.declared(VIEWS))
    orders = db.table("orders")
    token = orders.put({"id": 1, "customer": 1, "price": "19.90"})
    token |= orders.put({"id": 1, "note": "x"})
    token |= orders.put_many([{"id": id_, "customer": 2, "price": id_} for id_ in range(2, 2500)])
    token |= orders.delete(2)
    token |= orders.delete_many(range(4, 2500))
    token |= orders.delete(3, columns=["price", "note"])
    assert viewkeeper.Token.parse(str(token)) == token
    assert orders.get(1) == {"id": 1, "customer": 1, "price": Decimal("19.90"), "note": "x"}
    assert orders.get(3) == {"id": 3, "customer": 2, "price": None, "note": None}
    assert orders.get(2) is None
    assert rows.table.row(key_of(1)) == {b"f:customer": b"\0\0\0\1", b"f:price": b"19.90", b"g:note": b"x"}
    catch_up(db)
    require_right(db, rows)
    assert db.view("spend").get(1, after=token) == {"customer": 1, "total": Decimal("19.90"), "n": 1, "most": "x"}
    assert (
        "order per cell timestamp, its rows and their log, written by put and delete" in db.sql("DESCRIBE orders").note
    )


def test_rows_of_which_all_columns_are_written_are_in_the_views(db: Database, rows: HBaseRows) -> None:
    """And no others meanwhile."""
    db.sql(rows.declared(VIEWS))
    catch_up(db)
    rows.fill(range(100))
    catch_up(db)
    require_right(db, rows)
    rows.fill(range(50, 200))
    catch_up(db)
    require_right(db, rows)


def test_a_cell_that_is_no_value_is_rejected(db: Database, rows: HBaseRows) -> None:
    db.sql(rows.declared(VIEWS))
    catch_up(db)
    rows.table.put(key_of(1), {b"f:customer": b"\0\0\0\1", b"f:price": b"many"})
    rows.table.put(b"short", {b"f:customer": b"\0\0\0\1"})
    catch_up(db)
    assert list(db.sql("SELECT * FROM orders")) == [{"id": 1, "customer": 1, "price": None, "note": None}]
    rejected = {row["operation"] for row in db.rejected("orders")}
    assert rejected == {key_of(1) + b" f:price many", b"short f:customer \0\0\0\1"}


def test_a_table_that_was_made_anew_stops_its_views_alone(db: Database, rows: HBaseRows) -> None:
    db.sql(rows.declared(VIEWS + "CREATE VIEW names AS SELECT name FROM customers"))
    rows.change(random.Random(1), 50)
    catch_up(db)
    rows.connection.delete_table(rows.name, disable=True)
    db.table("customers").put({"id": 9, "name": "c"})
    with pytest.raises(LogLost, match="gone from HBase, as if it had been dropped; drop the table, and create it"):
        catch_up(db)
    assert {row["name"] for row in db.view("names").rows()} == {"a", "b", "c"}
    with closing(HBaseRows(rows.server, rows.name)) as again:
        again.change(random.Random(2), 50)
        db.sql("DROP TABLE orders CASCADE")
        db.sql(again.declared(VIEWS))
        catch_up(db)
        require_right(db, again)


@pytest.mark.parametrize(("old", "new", "why"), [
    ("thrift '127.0.0.1:", "thrift '", "expected HOST:PORT"),
    ("wal 'file://", "wal 'hdfs://", "other file systems are not supported"),
    ("key 'long'", "key 'long, long'", "it has 2 encodings, and the PRIMARY KEY 1 columns"),
    ("key 'long'", "key 'wide'", "there is no encoding 'wide'"),
    ("f:price:text", "f:price:long", r"price is a DECIMAL\(15,2\), which is not written as long; there are text"),
    ("f:price:text", "f:price", "'price=f:price' is not NAME=FAMILY:QUALIFIER:ENCODING"),
    ("f:price:text", "f:customer:text", "customer and price are both 'f:customer'"),
    ("price=f:price:text, ", "", "price is not in it, and there is no option family"),
    ("note=", "remark=", "note is not in it"),
    ("note STRING", "note ARRAY<STRING>", "note is a ARRAY, which no encoding of hbase holds"),
    (", PRIMARY KEY (id)", "", "a table in hbase needs a PRIMARY KEY"),
    ("note=g", "id=f:id:long, note=g", "id is in the PRIMARY KEY; the option key says how it is written"),
])  # fmt: skip
def test_what_cannot_be_declared(db: Database, rows: HBaseRows, old: str, new: str, why: str) -> None:
    declared = rows.declared()
    assert old in declared
    with pytest.raises(DeclarationError, match=why):
        db.sql(declared.replace(old, new))
    assert db.catalog.find("orders") is None
