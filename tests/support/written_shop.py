"""A shop whose views are written to a store, and what a foreign client must find there."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest

import viewkeeper
from child import SUPPORT
from foreign_rows import Found, texts
from local_maintenance import catch_up
from viewkeeper.checker.check import check_views
from viewkeeper.checker.report import Report
from viewkeeper.evidence import DatabaseEvidence
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.maintain import Maintenance
from viewkeeper.trace import points
from viewkeeper.written import with_targets

TABLES = """
CREATE TABLE orders (id BIGINT, customer BIGINT, price DECIMAL(15,2), note STRING, PRIMARY KEY (id));
CREATE TABLE customers (id BIGINT, name STRING, PRIMARY KEY (id));
"""
VIEWS = ("spend", "named", "notes", "whole")
Row = dict[str, Any]


class Place(Protocol):
    """A store, as a foreign client sees it."""

    def using(self, view: str) -> str:
        """USING and OPTIONS."""

    def rows(self, view: str, columns: list[str]) -> Found:
        """The rows there, as texts."""

    def version(self, view: str) -> int | None:
        """Which version is there, whole."""


class Shop:
    """Tables, and what their rows are; three views of every sort: one row a key, more in a batch, a bag."""

    def __init__(self, root: Path, place: Place) -> None:
        self.root, self.place, self.using = root, place, place.using
        self.db = viewkeeper.connect(root, durability="process")
        self.orders: dict[int, Row] = {}
        self.names: dict[int, str] = {}

    def declare(self) -> None:
        self.db.sql(TABLES)
        self.db.sql(f"""
            CREATE VIEW spend {self.using("spend")} AS
              SELECT customer, sum(price) AS total, count(*) AS n FROM orders GROUP BY customer;
            CREATE VIEW named {self.using("named")} AS
              SELECT o.id, c.name, o.price FROM orders o JOIN customers c ON o.customer = c.id;
            CREATE VIEW notes {self.using("notes")} AS SELECT note, customer FROM orders WHERE price > 1;
            CREATE VIEW whole {self.using("whole")} AS SELECT count(*) AS n, max(price) AS most FROM orders""")

    def change(self, chance: random.Random, operations: int, keys: int = 40) -> None:
        orders, customers = self.db.table("orders"), self.db.table("customers")
        for _ in range(operations):
            key = chance.randrange(keys)
            if chance.random() < 0.15:
                self.names[key % 5] = name = chance.choice(["a", "b:c", "[d"])
                customers.put({"id": key % 5, "name": name})
            elif chance.random() < 0.3:
                self.orders.pop(key, None)
                orders.delete(key)
            else:
                row = {"id": key, "customer": chance.choice([None, 1, 2, 3, 4]), "note": chance.choice([None, "", "x"]),
                       "price": Decimal(chance.randrange(400)) / 100}  # fmt: skip
                self.orders[key] = row
                orders.put(row)

    def expected(self) -> dict[str, Counter[tuple[Any, ...]]]:
        groups: dict[Any, list[Decimal]] = defaultdict(list)
        for row in self.orders.values():
            groups[row["customer"]].append(row["price"])
        cents = Decimal("0.01")
        rows = self.orders.values()
        return {
            "spend": texts((c, sum(prices).quantize(cents), len(prices)) for c, prices in groups.items()),
            "named": texts((r["id"], self.names[r["customer"]], r["price"].quantize(cents)) for r in rows
                           if r["customer"] in self.names),
            "notes": texts((r["note"], r["customer"]) for r in rows if r["price"] > 1),
            "whole": texts([(len(rows), max((r["price"].quantize(cents) for r in rows), default=None))]),
        }  # fmt: skip

    def found(self) -> dict[str, Counter[tuple[Any, ...]]]:
        columns = {"spend": ["customer", "total", "n"], "named": ["id", "name", "price"],
                   "notes": ["note", "customer"], "whole": ["n", "most"]}  # fmt: skip
        return {view: self.place.rows(view, names) for view, names in columns.items()}

    def require_there(self) -> None:
        version = catch_up(self.db)
        assert self.found() == self.expected()
        assert {self.place.version(view) for view in self.found()} <= set(range(version, version + 4))


def require_right_after_kills(shop: Shop, folder: Path, point: str) -> None:
    """Whoever maintains is killed at `point`, again and again; nothing is missing, doubled or left over."""
    chance, faults = random.Random(point), folder / "faults"
    faults.mkdir()
    paths = os.pathsep.join([str(SUPPORT), *sys.path])
    environment = {**os.environ, "VIEWKEEPER_FAULTS": str(faults), "PYTHONPATH": paths}
    killed = 0
    for count in (1, 3, 5):
        shop.change(chance, 30)
        points.arm(faults, point, count)
        ended = subprocess.run([sys.executable, SUPPORT / "catching_up.py", shop.root], env=environment)
        killed += ended.returncode == -signal.SIGKILL
        if count % 2:
            shop.change(chance, 10)
        shop.require_there()
    assert killed >= 2


def maintained(shop: Shop) -> Maintenance:
    return Maintenance(shop.db._storage, shop.db._logs, LocalExecutor)


def require_soon(shop: Shop) -> None:
    """The running pipeline brings all to the targets."""
    shop.db.catch_up(timeout=60.0)
    assert shop.found() == shop.expected()


def require_right_after_batches(shop: Shop, alone: int, beside: int) -> None:
    """So many batches by `catch_up` alone, so many beside a running pipeline, and at last no row is left."""
    chance = random.Random(3)
    shop.require_there()
    for _ in range(alone):
        shop.change(chance, 30)
        shop.require_there()
    if beside:
        with maintained(shop):
            for _ in range(beside):
                shop.change(chance, 20)
                require_soon(shop)
    for key in list(shop.orders):
        shop.db.table("orders").delete(key)
    shop.orders.clear()
    shop.require_there()


def require_older_copy_told(shop: Shop, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An older copy of the database that is put back is told, and its views are written again as a whole."""
    put_older_copy_back(shop, folder)
    assert "an older copy of it was put back; the view is written again as a whole" in caplog.text
    shop.change(random.Random(9), 10)
    shop.require_there()


def checked(shop: Shop, repair: bool = False, names: Sequence[str] = VIEWS) -> list[Report]:
    """`db.check_all()`, judged without Spark."""
    with shop.db._newest.held() as version:
        reports = check_views(DatabaseEvidence(version, shop.db._logs), names, None)
    return with_targets(shop.db._storage, reports, partial(catch_up, shop.db) if repair else None)


def put_older_copy_back(shop: Shop, folder: Path) -> None:
    """The database goes on, and is then what it was."""
    chance = random.Random(8)
    shop.change(chance, 40)
    shop.require_there()
    shop.db.close()
    shutil.copytree(shop.root, folder / "copy")
    orders, names = dict(shop.orders), dict(shop.names)
    shop.db = viewkeeper.connect(shop.root, durability="process")
    for _ in range(3):
        shop.change(chance, 40)
        shop.require_there()
    shop.db.close()
    shutil.rmtree(shop.root)
    shutil.copytree(folder / "copy", shop.root)
    shop.db = viewkeeper.connect(shop.root, durability="process")
    shop.orders, shop.names = orders, names
    shop.require_there()
