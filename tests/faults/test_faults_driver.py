"""A driver that is killed anywhere loses nothing, doubles nothing, and shows nothing half done."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from pipeline_database import VIEWS, Shop
from viewkeeper.pipeline import batches, fills
from viewkeeper.pipeline.driver import caught_up
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.trace import points
from viewkeeper.trace.local_disk import local_storage
from viewkeeper.trace.snapshot import Snapshot

SEEDS = int(os.environ.get("VIEWKEEPER_FAULT_SEEDS", "10"))
PAIRED = 1000
"""Orders are written in pairs of this distance, by one `put_many` each."""


def maintain(shop: Shop, servers: int) -> None:
    """Brings everything in and merges all there is to merge."""
    driver = shop.maintainer(LocalExecutor(servers), operations_max=40)
    ends, ids = shop.store.ends(), fills.unfilled(driver.term.snapshot.catalog)
    while not caught_up(driver.term.snapshot, ends, ids):
        if not driver.step():
            driver.wait()
    while driver.merging.step(driver.term, idle=True, barriers=[]):
        driver.wait()
    driver._tidy()
    driver.close()


def fork_and_kill(shop: Shop, point: str, count: int, servers: int) -> int:
    """Maintains in a child process that is killed when it comes to `point` for the `count`-th time; how it ended.

    Meanwhile this process reads every version that it finds.
    """
    points.arm(shop.root, point, count)
    child = os.fork()
    if child == 0:
        try:
            points._FOLDER = str(shop.root)
            maintain(shop, servers)
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a forked test must never return into pytest
            os._exit(1)
    reader, seen = local_storage(shop.root), -1
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        snapshot = reader.newest()
        if snapshot.number != seen:
            assert_one_moment(shop, snapshot)
            seen = snapshot.number
        time.sleep(0.005)  # else half of the machine reads


def assert_one_moment(shop: Shop, snapshot: Snapshot) -> None:
    """All that is read at one version is of one moment, and no `put_many` is seen in part."""
    if any(view.filled is None for view in snapshot.catalog.views if view.name in ("everything", "spend")):
        return
    ((orders, total),) = shop.view("everything", snapshot)
    spend = shop.view("spend", snapshot)
    assert orders == sum(n for _, _, n in spend)
    assert total == (sum(sums for _, sums, _ in spend if sums is not None) if orders else None)
    prices = {row[0]: row[2] for row in shop.view("orders", snapshot)}
    assert all(prices.get(id_ - PAIRED) == price for id_, price in prices.items() if id_ >= PAIRED)


def write_pairs(shop: Shop, seed: int) -> None:
    chance = random.Random(seed)
    table = shop.table("orders")
    for _ in range(12):
        ids = chance.sample(range(40), 3)
        customer, price = chance.randrange(5), chance.randrange(100)
        if chance.random() < 0.3:
            keys = [i for id_ in ids for i in (id_, id_ + PAIRED)]
            shop.store.delete_many(table, keys)
            for key in keys:
                shop.orders.pop(key, None)
        else:
            shop._put_orders(table, [
                {"id": i, "customer": customer, "price": price} for id_ in ids for i in (id_, id_ + PAIRED)
            ])  # fmt: skip


@pytest.mark.faults
@pytest.mark.parametrize("point", points.POINTS)
def test_kills_at_any_point_are_survived(tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often the driver is killed at a point, every state comes to hold what the logs say, once."""
    monkeypatch.setattr(batches, "CHAINED_MAX", 30)
    monkeypatch.setattr(fills, "CHAINED_MAX", 30)
    shop = Shop(tmp_path)
    shop.maintain_once()
    killed = 0
    for seed in range(SEEDS):
        chance = random.Random(seed)
        write_pairs(shop, seed)
        if point == "fill":
            shop.declare("".join(f"DROP VIEW {name};" for name in ("segments", "placed", "spend", "cheap")))
            shop.declare(VIEWS.split("CREATE VIEW extremes")[0] + "CREATE VIEW placed" + VIEWS.split(
                "CREATE VIEW placed")[1].split("CREATE VIEW everything")[0])  # fmt: skip
        count = 1 if point == "merge" else chance.randint(1, 3)  # there is one merge at least, often not more
        status = fork_and_kill(shop, point, count, chance.choice([1, 2, 3]))
        assert status in (0, signal.SIGKILL), f"seed {seed}: the driver failed, status {status}"
        killed += status == signal.SIGKILL
        assert_one_moment(shop, shop.snapshot)
        if seed % 5 == 4:
            maintain(shop, servers=2)
            assert shop.wrong_views() == [], f"seed {seed}"
            assert {row[0]: row[2] for row in shop.view("orders")} == {k: r["price"] for k, r in shop.orders.items()}
    assert killed >= 0.9 * SEEDS
