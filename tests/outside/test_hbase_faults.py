"""HBase, its gateway, the network to it and who maintains are killed or cut off; what is lost is told."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from thriftpy2.thrift import TException

from child import SUPPORT
from cut_wire import Wire
from foreign_hbase import HBasePlace
from hbase_admin import HBaseAdmin, until
from hbase_rows import HBaseRows, key_of
from local_maintenance import catch_up
from orders_elsewhere import VIEWS, require_views, with_customers
from store_servers import unique
from viewkeeper.database import Database
from viewkeeper.errors import LogLost, StoreAway
from viewkeeper.servers import HBase
from viewkeeper.trace import points
from written_shop import Shop, maintained, require_soon

pytestmark = [pytest.mark.stores, pytest.mark.faults]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with with_customers(tmp_path / "db") as database:
        yield database


def require_right(db: Database, rows: HBaseRows) -> None:
    """The views hold what a scan of the store finds."""
    require_views(db, rows.rows())


class Writer:
    """Writes rows until it is told to end, each batch until it is acknowledged; servers may go meanwhile."""

    def __init__(self, server: HBase, name: str) -> None:
        self._server, self._name = server, name
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _write(self) -> None:
        chance, rows = random.Random(1), None
        while not self._ended.is_set():
            try:
                rows = rows or HBaseRows(self._server, self._name, timeout=20_000)
                rows.change(chance, 40, keys=200)
            except (TException, OSError, EOFError):
                rows = None
                time.sleep(0.2)


def test_a_cluster_that_is_killed_and_regions_that_move_while_it_is_written(db: Database, tmp_path: Path) -> None:
    with HBase(tmp_path / "hbase") as server:
        with HBaseAdmin(server) as admin:
            admin.create("orders", "fg", [key_of(100), key_of(150)])
            with closing(HBaseRows(server, "orders")) as rows:
                db.sql(rows.declared(VIEWS))
                catch_up(db)
            steps: list[Callable[[], None]] = [
                lambda: admin.split(admin.regions("orders")[0][0], key_of(50)),
                lambda: admin.move(admin.regions("orders")[0][0], admin.servers()[0]),
                lambda: admin.move(admin.regions("orders")[2][0], admin.servers()[1]),
                admin.roll,
                lambda: admin.stop_server(admin.regions("orders")[0][1]),
                lambda: admin.merge(*(region for region, _ in admin.regions("orders")[2:])),
            ]
            with Writer(server, "orders"):
                for step in steps:
                    time.sleep(0.5)
                    until(step)
                    catch_up(db)
        with Writer(server, "orders"):
            server.kill()
            time.sleep(1)
            server.start()
            time.sleep(3)
        with closing(HBaseRows(server, "orders")) as rows:
            catch_up(db)
            require_right(db, rows)


@pytest.mark.stores
def test_a_gateway_that_is_away_holds_up_who_asks_it_alone(db: Database, tmp_path: Path) -> None:
    with HBase(tmp_path / "hbase", region_servers=1) as server:
        with closing(HBaseRows(server, "orders")) as rows:
            db.sql(rows.declared(VIEWS))
            catch_up(db)
            rows.change(random.Random(1), 100)
            _, gateway = server.processes
            gateway.kill()
            catch_up(db)  # the log is read without it
            with pytest.raises(StoreAway, match="rows cannot be written"):
                db.table("orders").put({"id": 1, "customer": 1})
        server.start()
        with closing(HBaseRows(server, "orders")) as rows:
            require_right(db, rows)


@pytest.mark.stores
def test_logs_that_hbase_deletes_are_missed_where_they_had_not_been_read(db: Database, tmp_path: Path) -> None:
    settings = {"hbase.master.logcleaner.ttl": "6000", "hbase.master.cleaner.interval": "500"}
    with HBase(tmp_path / "hbase", region_servers=1, settings=settings) as server:

        def wait_until_deleted(meanwhile: Callable[[], object]) -> None:
            deadline = time.monotonic() + 60
            while any(each.name.startswith("localhost") for each in (server.root / "oldWALs").iterdir()):
                assert time.monotonic() < deadline
                meanwhile()
                time.sleep(0.2)

        with closing(HBaseRows(server, "orders")) as rows:
            db.sql(rows.declared(VIEWS))
            rows.change(random.Random(1), 100)
            with HBaseAdmin(server) as admin:
                for _ in range(2):
                    admin.flush("orders")
                    admin.roll()
                    catch_up(db)
            wait_until_deleted(lambda: catch_up(db))  # who looks goes on to the next file when one is finished
            rows.change(random.Random(2), 100)
            catch_up(db)
            require_right(db, rows)
            rows.change(random.Random(3), 100)
        server.kill()
        server.start()  # the log of the server that was killed is older than it stays
        wait_until_deleted(lambda: None)
        with pytest.raises(LogLost, match="is gone, and was read up to"):
            catch_up(db)


def test_a_table_into_which_files_were_loaded_is_not_read_on(db: Database, hbase: HBase, tmp_path: Path) -> None:
    with closing(HBaseRows(hbase, unique("orders"))) as rows, HBaseAdmin(hbase) as admin:
        db.sql(rows.declared(VIEWS + "CREATE VIEW names AS SELECT name FROM customers"))
        rows.change(random.Random(1), 50)
        catch_up(db)
        require_right(db, rows)
        admin.bulk_load(rows.name, tmp_path / "loaded", {key_of(7): b"1.00", key_of(99): b"2.00"}, "f", "price")
        assert 99 in rows.rows()
        db.table("customers").put({"id": 9, "name": "c"})
        with pytest.raises(LogLost, match="files were loaded into it .bulk load.* drop the table, and create it again"):
            catch_up(db)
        assert {row["name"] for row in db.view("names").rows()} == {"a", "b", "c"}
        db.sql("DROP TABLE orders CASCADE")
        db.sql(rows.declared(VIEWS))
        catch_up(db)
        require_right(db, rows)


@pytest.mark.parametrize("point", ["log read", "before commit"])
def test_who_maintains_is_killed_while_regions_move(db: Database, hbase: HBase, tmp_path: Path, point: str) -> None:
    """The next one goes on, again and again, and each region of the table has moved, split or merged meanwhile."""
    faults, name = tmp_path / "faults", unique("orders")
    faults.mkdir()
    environment = {**os.environ, "VIEWKEEPER_FAULTS": str(faults), "PYTHONPATH": os.pathsep.join(
        [str(SUPPORT), *sys.path])}  # fmt: skip
    with HBaseAdmin(hbase) as admin:
        admin.create(name, "fg", [key_of(100), key_of(150)])
        with closing(HBaseRows(hbase, name)) as rows:
            db.sql(rows.declared(VIEWS))
            catch_up(db)
            steps: list[Callable[[], None]] = [
                lambda: admin.split(admin.regions(name)[0][0], key_of(50)),
                lambda: admin.move(admin.regions(name)[0][0], admin.servers()[1]),
                lambda: admin.merge(*(region for region, _ in admin.regions(name)[2:])),
                admin.roll,
            ]
            killed = 0
            for step in steps:
                with Writer(hbase, name):
                    points.arm(faults, point, 1)
                    process = subprocess.Popen([sys.executable, SUPPORT / "catching_up.py", db.root], env=environment)
                    until(step)
                    killed += process.wait() == -signal.SIGKILL
                catch_up(db)
                require_right(db, rows)
            assert killed >= 3


def test_the_network_to_the_gateway_is_cut(tmp_path: Path, hbase: HBase) -> None:
    """While a view is written through it, and a table's rows are, again and again."""
    with Wire(hbase.port) as wire:
        place = HBasePlace(hbase, unique("place"), address=f"127.0.0.1:{wire.port}")
        shop, chance = Shop(tmp_path / "db", place), random.Random(31)
        shop.declare()
        with closing(HBaseRows(hbase, unique("orders"))) as rows, maintained(shop):
            declared = rows.declared().replace("TABLE orders", "TABLE others")
            shop.db.sql(declared.replace(hbase.address, f"127.0.0.1:{wire.port}"))
            shop.db.sql("CREATE VIEW most AS SELECT customer, count(*) AS n FROM others GROUP BY customer")
            shop.change(chance, 40)
            require_soon(shop)
            others, failed = shop.db.table("others"), 0
            for cycle in range(6):
                cut = threading.Timer(chance.uniform(0.0, 0.4), wire.cut)
                cut.start()
                for id_ in range(30):
                    shop.change(chance, 3)
                    try:
                        others.put({"id": id_, "customer": cycle})
                    except StoreAway:
                        failed += 1
                cut.join()
                rows.change(chance, 10)  # the logs are read all the while
                wire.mend()
                while True:
                    try:
                        token = others.put({"id": 100, "customer": cycle})
                        break
                    except StoreAway:
                        time.sleep(0.1)
                assert shop.db.view("most").get(cycle, after=token) is not None
                require_soon(shop)
            assert failed
            counts: dict[int | None, int] = {}
            for customer, _, _ in rows.rows().values():
                counts[customer] = counts.get(customer, 0) + 1
            assert {row["customer"]: row["n"] for row in shop.db.view("most").rows()} == counts
        shop.db.close()
