"""Orders in an outside store, customers in the embedded one, and views over both: what they must hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import viewkeeper
from viewkeeper.checker.check import check_views
from viewkeeper.database import Database
from viewkeeper.evidence import DatabaseEvidence

VIEWS = """
CREATE VIEW spend AS SELECT customer, sum(price) AS total, count(*) AS n, max(note) AS most FROM orders
  GROUP BY customer;
CREATE VIEW named AS SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id;
"""
NAMES = {1: "a", 2: "b"}

Orders = Mapping[int, tuple[int | None, Decimal | None, str | None]]
"""By id: customer, price and note."""


@contextmanager
def with_customers(root: Path) -> Iterator[Database]:
    """A database that has the customers."""
    with viewkeeper.connect(root, durability="process") as database:
        database.sql("CREATE TABLE customers (id INT, name STRING, PRIMARY KEY (id))")
        database.table("customers").put_many([{"id": id_, "name": name} for id_, name in NAMES.items()])
        yield database


def require_views(db: Database, orders: Orders) -> None:
    """The views hold what the store does, and the checker proves DELTA against it."""
    groups: dict[int | None, list[tuple[Decimal | None, str | None]]] = {}
    for customer, price, note in orders.values():
        groups.setdefault(customer, []).append((price, note))
    spend = set()
    for customer, given in groups.items():
        prices = [price for price, _ in given if price is not None]
        notes = [note for _, note in given if note is not None]
        spend.add((customer, sum(prices) if prices else None, len(given), max(notes) if notes else None))
    assert {tuple(row.values()) for row in db.view("spend").rows()} == spend
    named = Counter((id_, NAMES[customer]) for id_, (customer, _, _) in orders.items() if customer in NAMES)
    assert Counter(tuple(row.values()) for row in db.view("named").rows()) == named
    assert problems(db) == ["", ""]


def problems(db: Database) -> list[str]:
    """What is wrong with each of both views, or not judged; empty: nothing."""
    with db._newest.held() as version:
        reports = check_views(DatabaseEvidence(version, db._logs), ["spend", "named"], None)
    return ["; ".join(filter(None, [report.problem, *report.unjudged])) for report in reports]
