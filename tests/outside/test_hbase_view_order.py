"""Who writes a view in HBase, one behind the other: what is late, and what a reader sees meanwhile."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

import viewkeeper
from foreign_hbase import HBasePlace
from hbase_admin import HBaseAdmin
from local_maintenance import catch_up
from store_servers import unique
from viewkeeper.servers import HBase
from viewkeeper.stores.outside.hbase import cell_target
from viewkeeper.stores.outside.hbase.cell_target import HBaseTarget, RowChange
from viewkeeper.stores.outside.targets import Begun, LaterEpoch, Marker, Written, opened
from written_shop import Shop, maintained, require_soon

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


def target_of(shop: Shop, view: str) -> HBaseTarget:
    declared = shop.db.view(view)._source.version().view(view).target
    assert declared is not None
    found = opened(declared)
    assert isinstance(found, HBaseTarget)
    return found


def test_who_has_begun_before_writes_nothing_any_more(shop: Shop, place: HBasePlace) -> None:
    shop.change(random.Random(16), 40)
    shop.require_there()
    said = place.marker("spend")
    earlier, later = target_of(shop, "spend"), target_of(shop, "spend")
    mine = Marker(said["database"], said["view"], said["state"], Written.parse(said["at"]), 1_000)
    assert earlier.begin(mine) is not None
    assert later.begin(mine._replace(epoch=1_001)) is not None
    with pytest.raises(LaterEpoch, match="it was written in epoch 1001, and this is 1000"):
        earlier.begin(mine)
    assert earlier.begin(mine, force=True) is not None
    later.mend(Written(1), [])
    for late in (
        lambda: later.mend(Written(1), [RowChange(b"x", {})]),
        lambda: later.complete(mine),
        later.clear,
    ):
        with pytest.raises(Begun):
            late()
    earlier.mend(Written(1), [RowChange(b"x", {})])
    assert place.table("spend").row(b"x") == {b"f:viewkeeper:version": b"1"}
    assert place.version("spend") is None  # it is being written


LATE = {b"f:id": b"-1", b"f:name": b"late", b"f:price": b"1.00", b"f:viewkeeper:version": b"1",
        b"f:viewkeeper:null": b"[]"}  # fmt: skip


def test_what_an_earlier_one_sent_too_late_is_hidden_or_removed(
    shop: Shop, place: HBasePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where HBase has forgotten meanwhile what had been deleted, and where nobody knows what was sent."""
    shop.change(random.Random(17), 60)
    shop.require_there()
    keys = sorted(key for key, _ in place.table("named").scan(columns=[b"f"]))
    said = place.marker("named")
    dead = target_of(shop, "named")
    assert dead.begin(Marker(said["database"], said["view"], said["state"], Written.parse(said["at"]), said["epoch"]))
    dead.mend(Written(10**6), [RowChange(keys[0], LATE)])  # it does not end it
    attempt = place.marker("named")["attempt"]
    stamp = (attempt << cell_target.NUMBER_BITS) + 7

    def send_late() -> None:
        for key in (*keys, b"another"):
            place.table("named").put(key, LATE, timestamp=stamp)

    shop.change(random.Random(18), 30)
    shop.require_there()  # that version is not known, so all was compared, and written anew
    with HBaseAdmin(place.server) as admin:
        admin.flush(place.name("named"))
        send_late()
        found, expected = shop.found()["named"], shop.expected()["named"]
        assert found - expected == Counter({("-1", "late", "1.00"): 1})  # of a key that nobody knows
        assert not expected - found
        admin.compact(place.name("named"))
        send_late()
        assert (shop.found()["named"] - expected).total() > 1  # what was deleted, too
    assert place.marker("named")["compare"] > time.time() + 1_000
    monkeypatch.setattr(time, "time", lambda now=time.time: now() + cell_target.LATE_SECONDS)
    shop.db.table("orders").put({"id": 100, "customer": 1, "price": 0, "note": None})
    shop.orders[100] = {"id": 100, "customer": 1, "price": Decimal(0), "note": None}
    shop.require_there()
    assert "compare" not in place.marker("named")
    shop.change(random.Random(19), 30)
    shop.require_there()


def test_a_view_to_which_nothing_comes_is_compared_once_more_too(
    shop: Shop, place: HBasePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.change(random.Random(20), 30)
    shop.require_there()
    said = place.marker("named")
    dead = target_of(shop, "named")
    dead.begin(Marker(said["database"], said["view"], said["state"], Written.parse(said["at"]), said["epoch"]))
    dead.mend(Written(10**6), [RowChange(b"x", LATE)])
    with maintained(shop):
        require_soon(shop)
        stamp = (place.marker("named")["attempt"] - 1 << cell_target.NUMBER_BITS) + 7
        place.table("named").put(b"y", LATE, timestamp=stamp)
        monkeypatch.setattr(time, "time", lambda now=time.time: now() + cell_target.LATE_SECONDS)
        deadline = time.monotonic() + 30
        while "compare" in place.marker("named"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert shop.found() == shop.expected()


def test_a_process_that_was_stopped_for_a_while_asks_before_it_writes(shop: Shop, place: HBasePlace) -> None:
    shop.require_there()
    said = place.marker("spend")
    mine = Marker(said["database"], said["view"], said["state"], Written.parse(said["at"]), said["epoch"])
    stopped, other = target_of(shop, "spend"), target_of(shop, "spend")
    stopped.begin(mine)
    stopped.mend(Written(1), [RowChange(b"x", {})])
    other.begin(mine)
    stopped.mend(Written(1), [RowChange(b"y", {})])  # within the seconds in which it is sure
    stopped._sure_until = 0.0
    with pytest.raises(Begun, match="another has begun to write it meanwhile"):
        stopped.mend(Written(1), [RowChange(b"z", {})])
    assert place.table("spend").row(b"y")
    assert not place.table("spend").row(b"z")


class Reader:
    """Scans a table again and again while it is written; each row is whole, and never older than before."""

    def __init__(self, place: HBasePlace, view: str) -> None:
        self._table = HBasePlace(place.server, place.prefix).table(view)
        self._ended = threading.Event()
        self._seen: dict[bytes, int] = {}
        self.wrong: list[object] = []
        self.scans = 0
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._ended.is_set():
            for key, cells in self._table.scan(columns=[b"f"]):
                nulls = json.loads(cells[b"f:viewkeeper:null"])
                a, b = (None if name in nulls else cells.get(f"f:{name}".encode()) for name in "ab")
                version = int(cells[b"f:viewkeeper:version"])
                if (a is None) != (b == b"none") or version < self._seen.get(key, 0):
                    self.wrong.append((key, cells, self._seen.get(key)))
                self._seen[key] = version
            self.scans += 1


def test_a_reader_finds_whole_rows_that_never_become_older(tmp_path: Path, hbase: HBase) -> None:
    place = HBasePlace(hbase, unique("place"))
    with viewkeeper.connect(tmp_path / "db", durability="process") as db:
        db.sql(f"""CREATE TABLE t (id INT, a STRING, PRIMARY KEY (id));
                   CREATE VIEW v {place.using("v")} AS SELECT id, a, CASE WHEN a IS NULL THEN 'none' END AS b FROM t""")
        catch_up(db)
        chance = random.Random(22)
        with Reader(place, "v") as reader:
            for _ in range(40):
                rows = [{"id": id_, "a": chance.choice([None, "", "x", "y"])} for id_ in range(200)]
                db.table("t").put_many(rows)
                catch_up(db)
        assert reader.scans > 10
        assert not reader.wrong
