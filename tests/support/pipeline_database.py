"""A small database of orders and customers for the pipeline's tests, and what its views must hold, in plain Python."""

from __future__ import annotations

import random
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from viewkeeper.catalog.model import Catalog, Table, View
from viewkeeper.catalog.types import to_logical
from viewkeeper.pipeline import requests
from viewkeeper.pipeline.driver import Maintainer, caught_up
from viewkeeper.pipeline.fills import unfilled
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.term import Term
from viewkeeper.pipeline.work import DriverExecutor
from viewkeeper.stores.contract import Store
from viewkeeper.stores.embedded import EmbeddedStore
from viewkeeper.stores.logs import Logs
from viewkeeper.trace.local_disk import local_storage
from viewkeeper.trace.lock import driver_lock
from viewkeeper.trace.snapshot import Snapshot

TABLES = """
CREATE TABLE orders (id BIGINT, customer BIGINT, price BIGINT, note STRING, PRIMARY KEY (id));
CREATE TABLE customers (id BIGINT, segment STRING, PRIMARY KEY (id));
"""

VIEWS = """
CREATE VIEW cheap AS SELECT id, price FROM orders WHERE price < 50;
CREATE VIEW spend AS SELECT customer, sum(price) AS total, count(*) AS n FROM orders GROUP BY customer;
CREATE VIEW extremes AS SELECT customer, min(price) AS low, max(price) AS high FROM orders GROUP BY customer;
CREATE VIEW placed AS SELECT o.id, c.segment FROM orders o JOIN customers c ON o.customer = c.id;
CREATE VIEW segments AS SELECT segment, count(*) AS n FROM placed GROUP BY segment;
CREATE VIEW everything AS SELECT count(*) AS n, sum(price) AS total FROM orders;
"""

Row = tuple[Any, ...]


class Shop:
    """The database in `root`, its tables embedded or in `store`, and a model of its tables: key to row."""

    def __init__(self, root: Path, views: str = VIEWS, store: Store | None = None) -> None:
        self.root = root
        self.storage = local_storage(root)
        self.storage.initialise(Catalog())
        self.store: Store = store or EmbeddedStore(root, nodes=2, durability="process")
        weakref.finalize(self, self.store.close)
        self.orders: dict[int, dict[str, Any]] = {}
        self.customers: dict[int, dict[str, Any]] = {}
        if self.snapshot.catalog.tables:
            self._model_from_store()
        else:
            self.declare(TABLES + views)

    def _model_from_store(self) -> None:
        """Another process wrote the rows; `test_store_*` show that the store holds what was written."""
        for name, rows in (("orders", self.orders), ("customers", self.customers)):
            for batch in self.store.rows(self.table(name)):
                rows.update({row.pop("id"): row for row in batch.to_pylist()})

    @property
    def logs(self) -> Logs:
        return Logs.of(self.store)

    @property
    def snapshot(self) -> Snapshot:
        return self.storage.newest()

    def declare(self, sql: str) -> requests.ScriptAnswer:
        return requests.submit(local_storage(self.root), sql, wait=10)

    def table(self, name: str) -> Table:
        table = self.snapshot.catalog.find(name)
        assert isinstance(table, Table)
        return table

    def maintainer(self, executor: DriverExecutor | None = None, operations_max: int = 1_000_000) -> Maintainer:
        return Maintainer(term_of(self.root, 5.0), self.logs, executor or LocalExecutor(), operations_max)

    def catch_up(self, maintainer: Maintainer) -> None:
        """Steps until everything written and declared is in."""
        ends, ids = self.store.ends(), unfilled(self.snapshot.catalog)
        while not caught_up(maintainer.term.snapshot, ends, ids):
            if not maintainer.step():
                maintainer.wait()

    def maintain_once(self, executor: DriverExecutor | None = None, operations_max: int = 1_000_000) -> None:
        maintainer = self.maintainer(executor, operations_max)
        try:
            self.catch_up(maintainer)
        finally:
            maintainer.close()

    def write(self, seed: int, operations: int, keys: int = 60) -> None:
        """Random puts, partial puts and deletes, to the store and to the model."""
        chance = random.Random(seed)
        orders, customers = self.table("orders"), self.table("customers")
        for _ in range(operations):
            key = chance.randrange(keys)
            what = chance.random()
            if what < 0.1:
                row = {"id": key % 7, "segment": chance.choice(["red", "blue", "green"])}
                self.store.put(customers, row)
                self.customers.setdefault(row["id"], {"segment": None}).update(row)
            elif what < 0.3:
                self.store.delete(orders, key)
                self.orders.pop(key, None)
            elif what < 0.4:
                self._put_orders(orders, [{"id": key, "price": chance.randrange(100)}])
            else:
                self._put_orders(orders, [
                    {"id": (key + i) % keys, "customer": chance.randrange(7), "price": chance.randrange(100)}
                    for i in range(chance.randrange(1, 6))
                ])  # fmt: skip

    def _put_orders(self, table: Table, rows: list[dict[str, Any]]) -> None:
        self.store.put_many(table, rows)
        for row in rows:
            self.orders.setdefault(row["id"], {"customer": None, "price": None, "note": None}).update(row)

    def view(self, name: str, snapshot: Snapshot | None = None) -> Counter[Row]:
        """The rows of a view at a version, with their multiplicities."""
        snapshot = snapshot or self.snapshot
        view = snapshot.catalog.find(name)
        assert isinstance(view, (View, Table))
        rows = snapshot.trace(view.stored.state).scan()
        if view.stored.member is not None:
            rows = rows.filter(rows.columns[0].to_numpy() == np.int32(view.stored.member))
        columns = [to_logical(rows.columns[at], column.type).to_pylist()
                   for at, column in zip(view.stored.order, view.columns, strict=True)]  # fmt: skip
        found: Counter[Row] = Counter()
        for row, weight in zip(zip(*columns, strict=True), rows.weights.tolist(), strict=True):
            found[row] += weight
        return found

    def expected(self, name: str) -> Counter[Row]:
        """What the view must hold, from the model."""
        return Counter(ANSWERS[name](self))

    def wrong_views(self) -> list[str]:
        """The views that do not hold what they must."""
        names = [view.name for view in self.snapshot.catalog.views]
        return [name for name in names if self.view(name) != self.expected(name)]


def _by_customer(shop: Shop) -> dict[int | None, list[int | None]]:
    prices = defaultdict(list)
    for row in shop.orders.values():
        prices[row["customer"]].append(row["price"])
    return prices


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _extreme(pick: Callable[[list[int]], int], values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return pick(known) if known else None


def _placed(shop: Shop) -> list[Row]:
    return [(key, shop.customers[row["customer"]]["segment"]) for key, row in shop.orders.items()
            if row["customer"] in shop.customers]  # fmt: skip


ANSWERS: dict[str, Callable[[Shop], list[Row]]] = {
    "cheap": lambda s: [(k, r["price"]) for k, r in s.orders.items() if r["price"] is not None and r["price"] < 50],
    "spend": lambda s: [(c, _sum(prices), len(prices)) for c, prices in _by_customer(s).items()],
    "extremes": lambda s: [(c, _extreme(min, prices), _extreme(max, prices)) for c, prices in _by_customer(s).items()],
    "placed": _placed,
    "segments": lambda s: list(Counter(segment for _, segment in _placed(s)).items()),
    "everything": lambda s: [(len(s.orders), _sum([r["price"] for r in s.orders.values()]))],
}  # fmt: skip


def term_of(root: Path, seconds: float = 1.0) -> Term:
    """A term of the driver, once its lock is free."""
    storage = local_storage(root)
    lock = driver_lock(storage.root)
    lock.acquire("pipeline", seconds)
    return Term(storage, lock)
