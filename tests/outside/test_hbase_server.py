"""Logs and rows of a real HBase, written by a foreign client: what the log says is what the store's own scan finds."""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np
import pytest

from folded_cells import FoldedCells
from hbase_admin import HBaseAdmin, until
from hbase_rows import HBaseRows, key_of
from store_servers import unique
from viewkeeper.catalog.model import Catalog, Table
from viewkeeper.errors import Error, InputError, LogLost
from viewkeeper.pipeline.declare_script import run
from viewkeeper.servers import HBase
from viewkeeper.stores.outside.contract import LogEnds, PartRange, ReadPart
from viewkeeper.stores.outside.hbase import client
from viewkeeper.stores.outside.hbase.hbase_table import HBaseTable

pytestmark = pytest.mark.stores


@pytest.fixture
def rows(hbase: HBase) -> Iterator[HBaseRows]:
    with closing(HBaseRows(hbase, unique("orders"))) as made:
        yield made


@pytest.fixture(scope="module")
def admin(hbase: HBase) -> Iterator[HBaseAdmin]:
    with HBaseAdmin(hbase) as made:
        yield made


def opened(declared: str) -> HBaseTable:
    table = run(Catalog(), declared).catalog.find("orders")
    assert isinstance(table, Table)
    return HBaseTable(table, "UTC")


class Followed:
    """What the log of a table says from some place on, folded."""

    def __init__(self, table: HBaseTable) -> None:
        self.table, self.folded = table, FoldedCells(table.form)
        self.at: LogEnds = table.start()
        self.bad: list[str] = []

    def adopt(self) -> None:
        for operations, stamps in chain.from_iterable(block.all_rows() for block in self.table.scan({})):
            self.folded.add([(operations, np.full(len(operations), -1), stamps)])

    def go_on(self) -> ReadPart:
        ends, whole = self.table.ends(), ReadPart()
        for part, upto in ends.positions.items():
            after = self.at.positions.get(part, 0)
            assert upto >= after
            found = self.table.read(PartRange(1, part, after, upto, ends.identities[part]))
            whole.operations += found.operations
            whole.bad += found.bad
        self.folded.add(whole.operations)
        self.bad += [each.reason for each in whole.bad]
        self.at = ends
        return whole

    @property
    def rows(self) -> dict[int, tuple[object, ...]]:
        return {key[0]: tuple(row.values()) for key, row in self.folded.rows.items()}


@pytest.mark.parametrize("stamped", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_log_says_what_a_scan_finds(rows: HBaseRows, seed: int, stamped: bool) -> None:
    with closing(opened(rows.declared())) as table:
        followed, chance = Followed(table), random.Random(seed)
        for _ in range(6):
            rows.change(chance, 60, keys=chance.choice([3, 40]), stamped=stamped)
            followed.go_on()
            assert followed.rows == rows.rows()
        assert followed.bad == []


def test_a_full_table_is_adopted_while_it_is_written(rows: HBaseRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "SCANNED_AT_ONCE", 7)
    monkeypatch.setattr(client, "FETCHED_AT_ONCE", 3)
    chance = random.Random(1)
    rows.change(chance, 200, keys=60)
    with closing(opened(rows.declared())) as table:
        table.require_there()
        followed, block = Followed(table), client.Gateway._block

        def between(*given: Any, **named: Any) -> object:
            rows.change(chance, 8, keys=60)
            return block(*given, **named)

        monkeypatch.setattr(client.Gateway, "_block", between)
        followed.adopt()
        rows.change(chance, 50, keys=60)
        followed.go_on()
        assert followed.rows == rows.rows()


@contextmanager
def writing(rows: HBaseRows, seed: int) -> Iterator[None]:
    """Rows are written, without an end, by a connection of its own."""
    ended = threading.Event()

    def write() -> None:
        chance = random.Random(seed)
        with closing(HBaseRows(rows.server, rows.name)) as mine:
            while not ended.is_set():
                mine.change(chance, 40, keys=300)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()


def test_regions_are_moved_split_and_merged_while_they_are_written(hbase: HBase, admin: HBaseAdmin) -> None:
    name = unique("orders")
    admin.create(name, "fg", [key_of(100), key_of(200)])
    with closing(HBaseRows(hbase, name)) as rows, closing(opened(rows.declared())) as table:
        followed = Followed(table)

        def move(at: int) -> None:
            region, here = admin.regions(rows.name)[at]
            admin.move(region, random.Random(at).choice([each for each in admin.servers() if each != here]))

        def steps() -> Iterator[Callable[[], None]]:
            yield lambda: move(0)
            yield lambda: admin.split(admin.regions(rows.name)[0][0], key_of(50))
            yield lambda: move(1)
            yield admin.roll
            yield lambda: admin.merge(*(region for region, _ in admin.regions(rows.name)[2:]))
            yield lambda: move(2)
            yield lambda: admin.flush(rows.name)

        with writing(rows, 1):
            for step in steps():
                time.sleep(0.3)
                until(step)
                followed.go_on()
        followed.go_on()
        assert followed.rows == rows.rows()
        assert len(followed.at.positions) >= 3


def test_values_of_all_encodings_are_read_and_written(hbase: HBase) -> None:
    name = unique("all")
    columns = """(a STRING, b INT, l BIGINT, i INT, s SMALLINT, y TINYINT, d DOUBLE, f FLOAT, o BOOLEAN, m TIMESTAMP,
      t STRING, x BINARY, n DECIMAL(20,3), w DATE, PRIMARY KEY (a, b))"""
    places = (
        "l=f:l:long,i=f:i:int,s=f:s:short,y=f:y:byte,d=f:d:double,f=f:f:float,o=f:o:boolean,m=f:m:millis,x=f:x:binary"
    )
    with closing(HBaseRows(hbase, name)) as rows:
        options = (f"thrift '{hbase.address}', wal '{hbase.root.as_uri()}', table '{name}', columns '{places}', "
                   r"key 'text, ordered_int', separator '\\x00'")  # fmt: skip
        with closing(opened(f"CREATE TABLE orders {columns} USING hbase OPTIONS ({options})")) as table:
            followed = Followed(table)
            given = {
                "l": -5, "i": 7, "s": -1, "y": 3, "d": -0.5, "f": 1.5, "o": True, "t": "é", "x": b"\0\xff",
                "n": Decimal("1.500"),
            }  # fmt: skip
            table.put_many([{"a": "k", "b": -1, **given, "m": "2024-05-01T12:00:00.250Z", "w": "2024-05-01"}])
            ((key, cells),) = rows.table.scan()
            assert key == b"k\0\x7f\xff\xff\xff"
            assert cells == {
                b"f:l": struct.pack(">q", -5), b"f:i": struct.pack(">i", 7), b"f:s": b"\xff\xff", b"f:y": b"\3",
                b"f:d": struct.pack(">d", -0.5), b"f:f": struct.pack(">f", 1.5), b"f:o": b"\xff",
                b"f:m": struct.pack(">q", 1714564800250), b"f:t": "é".encode(), b"f:x": b"\0\xff", b"f:n": b"1.500",
                b"f:w": b"2024-05-01",
            }  # fmt: skip
            read = table.get(("k", -1))
            assert read is not None and {name: read[name] for name in given} == given
            followed.go_on()
            logged = followed.folded.rows[("k", -1)]
            adopted = Followed(table)
            adopted.adopt()
            assert logged == adopted.folded.rows[("k", -1)]
            assert {name: value for name, value in read.items() if name not in ("a", "b", "m")} == {
                name: value for name, value in logged.items() if name != "m"
            }
            assert str(logged["m"]) == "2024-05-01 12:00:00.250000+00:00" and not followed.bad


def test_what_java_clients_do_is_understood(rows: HBaseRows, admin: HBaseAdmin) -> None:
    """Increments are values; versions are deleted as far as that says what is left; what expires is rejected."""
    with closing(opened(rows.declared().replace("f:customer:int", "f:customer:long"))) as table:
        followed = Followed(table)
        for _ in range(3):
            admin.increment(rows.name, key_of(1), b"f", b"customer", 5)
        rows.table.put(key_of(2), {b"f:price": b"1", b"g:note": b"x"})
        admin.delete(rows.name, key_of(2), lambda delete: delete.addColumn(bytearray(b"f"), bytearray(b"price")))
        rows.table.put(key_of(3), {b"f:price": b"1"})
        admin.put_expiring(rows.name, key_of(3), b"f:price", b"2", 1000)
        followed.go_on()
        assert followed.rows == {1: (15, None, None), 2: (None, None, "x"), 3: (None, Decimal(1), None)}
        assert followed.bad == ["it expires (a TTL of its own), which no log tells"]
        rows.table.put(key_of(2), {b"f:price": b"3"})
        admin.delete(rows.name, key_of(2), lambda delete: delete.addFamilyVersion(bytearray(b"f"), 5))
        followed.go_on()
        assert followed.bad[1:] == ["it deletes one version of a whole family: which ones are seen now is in no log"]


def test_a_single_version_is_rejected_where_several_are_kept(hbase: HBase, admin: HBaseAdmin) -> None:
    with (
        closing(HBaseRows(hbase, unique("orders"), versions=3)) as rows,
        closing(opened(rows.declared())) as table,
    ):
        followed = Followed(table)
        rows.table.put(key_of(1), {b"f:price": b"1"})
        rows.table.put(key_of(1), {b"f:price": b"2"})
        admin.delete(rows.name, key_of(1), lambda delete: delete.addColumn(bytearray(b"f"), bytearray(b"price")))
        followed.go_on()
        assert followed.bad[0].startswith("it deletes one version of a cell of which 3 are kept")
        rows.table.delete(key_of(1))
        followed.go_on()
        assert followed.rows == rows.rows() == {}


def test_a_table_in_a_namespace(hbase: HBase, admin: HBaseAdmin) -> None:
    space = unique("shop").replace("-", "_")
    admin.create_namespace(space)
    admin.create(f"{space}:orders", "f")
    with closing(HBaseRows(hbase, f"{space}:orders")) as rows:
        declared = rows.declared().replace("g:note", "f:note")
        with closing(opened(declared)) as table:
            table.require_there()
            followed = Followed(table)
            rows.table.put(key_of(1), {b"f:price": b"1"})
            followed.go_on()
            assert followed.rows == {1: (None, Decimal(1), None)}


def test_cells_that_expire_are_refused(hbase: HBase, admin: HBaseAdmin) -> None:
    name = unique("orders")
    admin.create(name, "f", setTimeToLive=100)
    with (
        closing(HBaseRows(hbase, name)) as rows,
        closing(opened(rows.declared().replace("g:note", "f:note"))) as table,
        pytest.raises(Error, match=r"cells of the family 'f' expire after 100 seconds"),
    ):
        table.require_there()


def test_what_is_not_there_is_named(rows: HBaseRows) -> None:
    for old, new, why in (
        (rows.name, "nowhere", "nowhere/.tabledesc: is wal the root folder"),
        ("g:note", "h:note", "the family 'h' is not there in HBase; there are 'f', 'g'"),
    ):
        declared = rows.declared().replace(old, new)
        with closing(opened(declared)) as table, pytest.raises(Error, match=why):
            table.require_there()
    rows.table.put(b"short", {b"f:price": b"1"})
    with (
        closing(opened(rows.declared())) as table,
        pytest.raises(Error, match=r"the row 'short' is none of it: key col"),
    ):
        table.require_there()


@pytest.mark.parametrize("how", ["truncated", "dropped"])
def test_a_table_that_is_emptied_or_dropped_is_not_read_on(rows: HBaseRows, admin: HBaseAdmin, how: str) -> None:
    with closing(opened(rows.declared())) as table:
        rows.change(random.Random(1), 30)
        followed = Followed(table)
        if how == "truncated":
            admin.truncate(rows.name)
            rows.table.put(key_of(1), {b"f:price": b"1"})
        else:
            rows.connection.delete_table(rows.name, disable=True)
        with pytest.raises(LogLost, match="drop the table, and create it again"):
            followed.go_on()


def test_values_that_an_encoding_cannot_hold_are_not_written(rows: HBaseRows) -> None:
    declared = rows.declared().replace("customer INT", "customer BIGINT")
    with (
        closing(opened(declared)) as table,
        pytest.raises(InputError, match=r"column customer: 3000000000 does not fit"),
    ):
        table.put_many([{"id": 1, "customer": 3_000_000_000}])
