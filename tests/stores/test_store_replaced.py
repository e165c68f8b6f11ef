"""An older copy of the store, or of the views, put back: it is noticed before anything more is read, wherever one
looks, and `rebase` makes the views equal to the store."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from pipeline_database import Shop
from store_model import append_raw
from viewkeeper.changes.positions import Token
from viewkeeper.checker.check import check_views
from viewkeeper.database import Database
from viewkeeper.errors import Error, StoreReplaced
from viewkeeper.evidence import DatabaseEvidence
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.maintain import Maintenance, catch_up
from viewkeeper.pipeline.rebase import Rebased, rebase
from viewkeeper.pipeline.status import lag, status
from viewkeeper.stores import embedded_log
from viewkeeper.stores.embedded_log import NodeRange
from viewkeeper.stores.lmdb_folders import open_environment
from viewkeeper.trace.local_disk import local_storage
from viewkeeper.trace.points import arm
from viewkeeper.views.version import Version

BAG = "CREATE TABLE bag (x INT, s STRING); CREATE VIEW by_x AS SELECT x, count(*) AS n FROM bag GROUP BY x;"

PROGRAM = """
import sys
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.rebase import rebase
from viewkeeper.stores.embedded import EmbeddedStore
from viewkeeper.trace.local_disk import local_storage
rebase(local_storage(sys.argv[1]), EmbeddedStore(sys.argv[1]), LocalExecutor)
"""


class Copies:
    """The shop in a folder, closed and opened again around what somebody does to its files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "shop"
        self.shop = Shop(self.root)
        self.shop.declare(BAG)

    @contextmanager
    def closed(self) -> Iterator[None]:
        self.shop.store.close()
        yield
        self.shop = Shop(self.root)

    def save(self, *names: str) -> None:
        with self.closed():
            for name in names:
                shutil.copytree(self.root / name, self.folder / "saved" / name)

    def put_back(self, *names: str) -> None:
        with self.closed():
            for name in names:
                shutil.rmtree(self.root / name)
                shutil.copytree(self.folder / "saved" / name, self.root / name)

    def put(self, first: int, count: int, price: int = 1) -> Token:
        """Orders and rows of the bag, as many of each."""
        token = Token()
        for i in range(first, first + count):
            token |= self.shop.store.put(self.shop.table("orders"), {"id": i, "customer": i % 3, "price": price})
            token |= self.shop.store.put(self.shop.table("bag"), {"x": i % 5, "s": str(price)})
        return token

    def step(self) -> None:
        """One round of a driver."""
        driver = self.shop.maintainer()
        try:
            driver.step()
        finally:
            driver.close()

    def rebase(self) -> Rebased:
        return rebase(local_storage(self.root), self.shop.store, LocalExecutor)

    def wrong(self) -> list[str]:
        """The views that `check` finds wrong, and those tables that DELTA does not hold as the store does."""
        version = Version(self.shop.snapshot)
        names = [view.name for view in version.catalog.views]
        reports = check_views(DatabaseEvidence(version, self.shop.logs), names, None)
        return [report.view for report in reports if not report.ok]

    def lost(self, kept: int, gone: int) -> Token:
        """`kept` puts, then a copy, then `gone` puts that the views hold, then the copy put back; a lost token."""
        self.put(0, kept)
        self.shop.maintain_once()
        self.save("nodes")
        token = self.put(1000, gone, price=2)
        self.shop.maintain_once()
        self.put_back("nodes")
        return token


@pytest.fixture
def copies(tmp_path: Path) -> Copies:
    return Copies(tmp_path)


@pytest.mark.parametrize("more", [0, 5, 20, 21, 60])
def test_an_older_store_put_back_is_noticed_and_rebase_makes_the_views_equal_to_it(copies: Copies, more: int) -> None:
    """However much was written since: nothing, less than was lost, as much, more."""
    copies.lost(10, 20)
    copies.put(5000, more, price=3)
    shop = copies.shop
    with pytest.raises(StoreReplaced, match=r"the log of node \d.*viewkeeper rebase"):
        copies.step()
    with pytest.raises(StoreReplaced, match="viewkeeper rebase"):
        catch_up(local_storage(copies.root), shop.logs, LocalExecutor, timeout=10)
    with (
        pytest.raises(StoreReplaced),
        Maintenance(local_storage(copies.root), shop.logs, LocalExecutor) as maintenance,
    ):
        maintenance.wait(10)
    with pytest.raises(StoreReplaced):
        copies.wrong()
    done = copies.rebase()
    assert done.done and done.version == shop.snapshot.version and set(done.changed) == {"orders", "bag"}
    assert shop.snapshot.positions == shop.store.ends() and copies.wrong() == []
    assert shop.view("everything").keys() == {(10 + more, 10 + 3 * more)}
    copies.put(7000, 30, price=4)
    shop.maintain_once()
    assert shop.view("everything").keys() == {(40 + more, 130 + 3 * more)} and copies.wrong() == []
    assert copies.rebase() == Rebased(shop.snapshot.version, False, {})


def test_status_and_lag_say_that_the_store_was_replaced(copies: Copies) -> None:
    """The lag is not 0 then: it is not known."""
    assert [node["state"] for node in lag(copies.shop.snapshot, copies.shop.logs)["nodes"]] == ["ok", "ok"]
    copies.lost(10, 20)
    copies.put(5000, 100)
    shop = copies.shop
    for told in (lag(shop.snapshot, shop.logs), status(shop.storage, shop.logs)):
        assert [(node["state"], node["lag_operations"], node["lag_seconds"]) for node in told["nodes"]] == [
            ("replaced", None, None), ("replaced", None, None)
        ]  # fmt: skip
    assert len(status(shop.storage, shop.logs)["replaced"]) == 2
    copies.rebase()
    assert status(shop.storage, shop.logs)["replaced"] == []


def test_an_older_copy_of_one_node_of_two_is_noticed(copies: Copies) -> None:
    copies.put(0, 20)
    copies.shop.maintain_once()
    copies.save("nodes/1")
    copies.put(1000, 20, price=2)
    copies.shop.maintain_once()
    copies.put_back("nodes/1")
    copies.put(5000, 50, price=3)
    shop = copies.shop
    assert list(shop.store.replaced(shop.snapshot.positions, shop.snapshot.hashes)) == [1]
    with pytest.raises(StoreReplaced, match="the log of node 1"):
        copies.step()
    copies.rebase()
    assert copies.wrong() == []


@pytest.mark.parametrize("more", [0, 10, 60])
def test_an_older_store_is_noticed_where_its_log_was_trimmed(copies: Copies, more: int) -> None:
    """Trimming up to the positions leaves the running hash there, whether or not writes follow."""
    copies.put(0, 10)
    copies.shop.maintain_once()
    copies.save("nodes")
    copies.put(1000, 20, price=2)
    copies.shop.maintain_once()
    copies.put(2000, 5)
    copies.shop.store.log.forget(copies.shop.snapshot.positions, -1)
    copies.shop.maintain_once()
    copies.shop.store.log.forget(copies.shop.snapshot.positions, -1)
    copies.shop.maintain_once()
    copies.put_back("nodes")
    copies.put(5000, more, price=3)
    copies.shop.store.log.forget(copies.shop.snapshot.positions, -1)
    with pytest.raises(StoreReplaced):
        copies.step()
    copies.rebase()
    assert copies.wrong() == []


def test_older_views_beside_a_newer_store_go_on_from_its_log(copies: Copies) -> None:
    """Nothing is lost as long as the log goes back as far; where it does not, rebase makes up for it."""
    views = ("manifests", "catalogs", "state")
    copies.put(0, 10)
    copies.shop.maintain_once()
    copies.save(*views)
    copies.put(1000, 20, price=2)
    copies.shop.store.delete(copies.shop.table("orders"), 3)
    copies.shop.maintain_once()
    copies.put_back(*views)
    copies.shop.maintain_once()
    assert copies.wrong() == [] and copies.shop.view("everything").keys() == {(29, 49)}
    copies.shop.store.log.forget(copies.shop.snapshot.positions, -1)
    copies.put_back(*views)
    with pytest.raises(StoreReplaced, match=r"begins at .* an older copy of the views.*viewkeeper rebase"):
        copies.step()
    copies.rebase()
    assert copies.wrong() == [] and copies.shop.view("everything").keys() == {(29, 49)}


def test_a_token_of_a_lost_write_is_never_taken_for_in(copies: Copies) -> None:
    """Neither before the rebase nor after it; nor is one of a new write before it is in."""
    lost = copies.lost(10, 20)
    new = copies.put(5000, 5, price=3)
    with Database(copies.shop.storage, copies.shop.store) as db:
        everything = db.view("everything")
        for token in (lost, new):
            with pytest.raises(StoreReplaced, match="viewkeeper rebase"):
                everything.get(after=str(token), timeout=5)
        with db.snapshot() as before:
            copies.rebase()
            with pytest.raises(StoreReplaced, match="has read"):
                before.view("everything").get(after=new)
        assert everything.get(after=str(new), timeout=5) == {"n": 15, "total": 25}
        for _ in range(2):
            with pytest.raises(StoreReplaced, match="write it again"):
                everything.get(after=lost, timeout=5)
            copies.put(6000, 50, price=4)
            copies.shop.maintain_once()
        copies.shop.store.log.forget(copies.shop.snapshot.positions, -1)
        with pytest.raises(StoreReplaced, match="from before the rebase"):
            everything.get(after=lost, timeout=5)
        assert everything.get(after=copies.put(6000, 0), timeout=5) == {"n": 65, "total": 225}


@pytest.mark.parametrize("point", ["log read", "zone file written", "before commit", "after commit"])
def test_a_rebase_that_is_killed_leaves_nothing_or_is_done(copies: Copies, point: str) -> None:
    copies.lost(10, 20)
    copies.put(5000, 5, price=3)
    before = copies.shop.snapshot
    faults = copies.folder / "faults"
    faults.mkdir()
    arm(faults, point, 1)
    ended = subprocess.run([sys.executable, "-c", PROGRAM, str(copies.root)], check=False,
                           env={**os.environ, "VIEWKEEPER_FAULTS": str(faults)})  # fmt: skip
    assert ended.returncode == -signal.SIGKILL
    done = copies.shop.snapshot.version > before.version
    assert done == (point == "after commit")
    assert copies.rebase().done == (not done)
    copies.put(7000, 5)
    copies.shop.maintain_once()
    assert copies.wrong() == [] and not list((copies.root / "state").glob("*-rebase-*"))


@pytest.mark.parametrize("servers", [1, 3])
def test_rebase_compares_tables_that_are_read_in_several_pieces(
    copies: Copies, monkeypatch: pytest.MonkeyPatch, servers: int
) -> None:
    """With and without a primary key, and also where rows of two lost times have the same hidden row ids."""
    monkeypatch.setattr("viewkeeper.pipeline.rebase.SCANNED_AT_ONCE", 100)
    monkeypatch.setattr("viewkeeper.pipeline.rebase.CHAINED_MAX", 10)
    monkeypatch.setattr("viewkeeper.stores.access._SCANNED_AT_ONCE", 70)
    copies.shop.write(1, 300)
    copies.put(0, 200)
    copies.shop.maintain_once()
    copies.save("nodes")
    copies.shop.write(2, 300)
    copies.put(150, 400, price=2)
    copies.shop.maintain_once()
    copies.put_back("nodes")
    copies.shop.write(3, 300)
    copies.put(100, 300, price=3)
    told: list[tuple[str, int]] = []
    made = partial(LocalExecutor, servers)
    rebase(local_storage(copies.root), copies.shop.store, made, lambda table, rows: told.append((table, rows)))
    assert copies.wrong() == [] and len(told) > 20 and {table for table, _ in told} == {"orders", "customers", "bag"}
    copies.shop.write(4, 100)
    copies.shop.maintain_once()
    assert copies.wrong() == []


def test_entries_of_other_programs_stop_no_log(copies: Copies) -> None:
    """Whatever bytes stand at a position, behind it, or in a trimmed log, batches go on."""
    shop = copies.shop
    for entry in (b"", b"\xde\xad" * 50, b"x"):
        for trimmed in (False, True):
            copies.put(0, 3)
            append_raw(shop.store, entry)
            shop.maintain_once()
            if trimmed:
                shop.store.log.forget(shop.snapshot.positions, -1)
            append_raw(shop.store, entry)
            if trimmed:
                shop.store.log.forget(shop.snapshot.positions, -1)
            shop.maintain_once()
            copies.put(10, 3)
            shop.maintain_once()
            assert shop.snapshot.positions == shop.store.ends()
    assert shop.view("everything").keys() == {(6, 6)}


def test_rows_written_while_rebase_runs_are_in_it_or_come_with_the_next_batch(copies: Copies) -> None:
    copies.lost(10, 20)
    stop, written = threading.Event(), []

    def write() -> None:
        while not stop.is_set():
            copies.put(5000 + len(written), 1, price=3)
            written.append(1)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while len(written) < 20:
            time.sleep(0.001)
        assert copies.rebase().done
    finally:
        stop.set()
        writer.join()
    copies.shop.maintain_once()
    assert copies.wrong() == [] and copies.shop.view("everything").keys() == {
        (10 + len(written), 10 + 3 * len(written))
    }


def test_a_task_reads_nothing_of_another_log_than_the_driver_has_cut(copies: Copies) -> None:
    copies.put(0, 20)
    cut = copies.shop.store.log.cut(10, {})
    tables = {table.id: table for table in copies.shop.snapshot.catalog.tables}
    reader = pickle.loads(pickle.dumps(copies.shop.store.log))
    for node, upto in cut.positions.items():
        right, wrong = cut.hashes[node], "0" * 31 + "1"
        assert reader.read(NodeRange(node, 0, upto, ("", right)), tables).operations
        for hashes in ((wrong, right), ("", wrong)):
            with pytest.raises(StoreReplaced, match=f"the log of node {node}"):
                reader.read(NodeRange(node, upto if hashes[0] else 0, upto, hashes), tables)


def test_the_process_of_a_task_keeps_the_log_open_until_another_copy_is_put_in_its_place(
    copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Spark's workers do, which read with every batch."""
    opened: list[Path] = []
    monkeypatch.setattr(embedded_log, "_kept", {})
    monkeypatch.setattr("viewkeeper.stores.node.open_environment",
                        lambda folder, sync: opened.append(folder) or open_environment(folder, sync))  # fmt: skip
    copies.put(0, 20)
    reader = pickle.loads(pickle.dumps(copies.shop.store.log))
    tables = {table.id: table for table in copies.shop.snapshot.catalog.tables}
    node, upto = next(iter(copies.shop.store.log.cut(10, {}).positions.items()))

    def read() -> int:
        return len(reader.read(NodeRange(node, 0, upto), tables).operations)

    with copies.closed():
        count = read()
        assert count > 0 and len(opened) == 2
        assert read() == count and len(opened) == 2
        (copies.root / "nodes").rename(copies.folder / "away")
        shutil.copytree(copies.folder / "away", copies.root / "nodes")
        assert read() == count and len(opened) == 4
        (kept,) = embedded_log._kept.values()
        kept.close()


def test_only_one_rebases_or_maintains_at_a_time(copies: Copies) -> None:
    copies.lost(10, 20)
    driver = copies.shop.maintainer()
    with pytest.raises(Error, match="is maintained by"):
        copies.rebase()
    driver.close()
    assert copies.rebase().done
