"""A store that is not the embedded one, and has no folder, goes through the whole pipeline unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import memory_store
from memory_store import MemoryStore
from pipeline_database import VIEWS, Shop
from viewkeeper.checker.check import check_views
from viewkeeper.database import Database
from viewkeeper.errors import StoreReplaced
from viewkeeper.evidence import DatabaseEvidence
from viewkeeper.pipeline import batches, fills, maintain
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.rebase import rebase
from viewkeeper.pipeline.spark_executor import SparkExecutor
from viewkeeper.pipeline.work import DriverExecutor
from viewkeeper.trace.local_disk import local_storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEFT = "CREATE VIEW seen AS SELECT o.id, o.price, c.segment FROM orders o LEFT JOIN customers c ON o.customer = c.id"
STOCK = """
CREATE TABLE stock (id BIGINT, n INT NOT NULL, note STRING, PRIMARY KEY (id));
CREATE VIEW counted AS SELECT note, sum(n) AS n FROM stock GROUP BY note;
"""


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches take the way of large ones."""
    monkeypatch.setattr(batches, "CHAINED_MAX", 0)
    monkeypatch.setattr(fills, "CHAINED_MAX", 0)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path, store=MemoryStore())


@pytest.fixture
def db(shop: Shop) -> Iterator[Database]:
    with Database(shop.storage, shop.store) as made:
        yield made


def wrong(shop: Shop) -> list[str]:
    """The views that do not hold what they must, of Shop's and `seen`."""
    found = [view.name for view in shop.snapshot.catalog.views if view.name != "seen"]
    found = [name for name in found if shop.view(name) != shop.expected(name)]
    if shop.snapshot.catalog.find("seen") is not None:
        segments = {key: row["segment"] for key, row in shop.customers.items()}
        seen = ((key, row["price"], segments.get(row["customer"])) for key, row in shop.orders.items())
        found += ["seen"] if shop.view("seen") != Counter(seen) else []
    return found


def whole_life(shop: Shop, executor: DriverExecutor, operations_max: int = 7) -> None:
    """Views before and after rows, drivers that come and go, a log that is trimmed behind them."""
    driver = shop.maintainer(executor, operations_max=operations_max)  # a batch splits calls
    for seed in range(3):
        shop.write(seed, 30)
        shop.catch_up(driver)
        assert wrong(shop) == []
    driver.close()
    shop.write(3, 40)
    shop.declare(LEFT + "; CREATE INDEX by_price ON cheap (price)")
    driver = shop.maintainer(executor)  # it fills while there is a backlog
    shop.write(4, 20)
    shop.catch_up(driver)
    assert wrong(shop) == []
    assert shop.store.log.forget(shop.snapshot.positions, older_than_seconds=-1) > 100
    shop.write(5, 30)
    shop.catch_up(driver)
    assert wrong(shop) == []
    driver.close()


@pytest.mark.parametrize("servers", [1, 3])
def test_every_view_is_right_at_each_step(shop: Shop, db: Database, staged: None, servers: int) -> None:
    whole_life(shop, LocalExecutor(servers))
    assert [row["id"] for row in db.view("cheap").get(7, index="by_price")] == [
        key for key, row in shop.orders.items() if row["price"] == 7
    ]
    with db._newest.held() as version:
        evidence = DatabaseEvidence(version, shop.logs)
        assert all(report.ok for report in check_views(evidence, [*ORDERED, "seen"], None))


ORDERED = [line.split()[2] for line in VIEWS.strip().splitlines()]


def test_check_reads_the_log_behind_the_version_and_finds_a_row_that_is_wrong(shop: Shop, db: Database) -> None:
    shop.write(1, 60)
    shop.maintain_once()
    shop.write(2, 20)
    with db._newest.held() as version:
        evidence = DatabaseEvidence(version, shop.logs)
        assert check_views(evidence, ["spend"], None)[-1].ok
        rows = shop.store._state.rows[shop.table("orders").id]
        del rows[next(iter(rows))]
        assert check_views(evidence, ["spend"], None)[-1].verdict == "base wrong"


def test_what_the_store_takes_and_the_table_cannot_is_rejected_and_put_again(shop: Shop, db: Database) -> None:
    """The store knows no NOT NULL; the key of what is rejected is left out of the check by name."""
    db.sql(STOCK)
    token = db.table("stock").put({"id": 1, "note": "a"})
    db.table("stock").put_many([{"id": 2, "n": 5, "note": "b"}, {"id": 3, "n": 1, "note": "b"}])
    catch_up(db)
    (row,) = db.rejected("stock")
    assert (row["sequence"], row["node"]) == (token.positions[0], 0) and "leaves n unset" in row["reason"]
    assert list(db.view("counted").rows()) == [{"note": "b", "n": 6}]
    db.table("stock").put({"id": 1, "n": 7})
    assert db.put_rejected_again() == 1 and db.rejected() == []
    catch_up(db)
    assert sorted(row["n"] for row in db.view("counted").rows()) == [6, 7]


def test_rows_of_a_dropped_table_leave_the_store(shop: Shop, db: Database) -> None:
    db.sql(STOCK)
    db.table("stock").put({"id": 1, "n": 1})
    catch_up(db)
    stock = db.catalog.find("stock")
    assert stock is not None and stock.id in shop.store.stored_tables()
    db.sql("DROP VIEW counted; DROP TABLE stock")
    catch_up(db)
    assert stock.id not in shop.store.stored_tables()


def test_a_store_that_lost_its_log_stops_the_pipeline_until_rebase(shop: Shop) -> None:
    shop.write(1, 40)
    shop.maintain_once()
    another = Shop(shop.root, store=MemoryStore())
    another.write(2, 10)
    driver = another.maintainer()
    with pytest.raises(StoreReplaced):
        driver.step()
    driver.close()
    assert set(rebase(local_storage(shop.root), another.store, LocalExecutor).changed) == {"orders", "customers"}
    another.maintain_once()
    assert wrong(another) == []


def catch_up(db: Database) -> int:
    return maintain.catch_up(local_storage(db.root), db._logs, LocalExecutor, timeout=60.0)


@pytest.mark.spark
def test_spark_workers_read_what_the_slices_carry(spark: SparkSession, shop: Shop, db: Database, staged: None) -> None:
    """Other processes have none of the store's memory, and its module only by way of Spark."""
    spark.sparkContext.addPyFile(str(memory_store.__file__))
    whole_life(shop, SparkExecutor(spark, 2), operations_max=20)
    assert all(report.ok for report in db.check_all(["seen", "spend"]))
