"""The writing process: inserts, updates and deletes orders and their line items at a steady rate.

`python -m viewkeeper.demo.writer FOLDER OPERATIONS_PER_SECOND`
"""

from __future__ import annotations

import sys
import time
from collections import Counter

import viewkeeper
from viewkeeper.database import Database
from viewkeeper.demo.changes import OrderBook, OrderChange
from viewkeeper.demo.process import ready, tell, told_to_stop

ROUND = (("received", OrderBook.receive, 40), ("amended", OrderBook.amend, 40), ("cancelled", OrderBook.cancel, 40))
"""What a round does, in this order, and with how many orders."""


def main(folder: str, rate: float) -> None:
    """Writes until told to stop; tells how many orders were received, amended, cancelled, and how many operations."""
    done: Counter[str] = Counter({"received": 0, "amended": 0, "cancelled": 0, "operations": 0})
    with viewkeeper.connect(folder) as db:
        book = order_book(db)
        ready(**done)
        begin = time.monotonic()
        while not told_to_stop(begin + done["operations"] / rate - time.monotonic()):
            for what, make, count in ROUND:
                change = make(book, count)
                done[what] += len(change.orders) + len(change.cancelled_orders)
                done["operations"] += write(db, change)
            tell(**done)


def order_book(db: Database) -> OrderBook:
    """The orders that have lines, as TPC-H made them."""
    lines = db.sql("SELECT l_orderkey, count(*) AS n FROM lineitem GROUP BY l_orderkey").to_arrow()
    (customers,) = db.sql("SELECT max(c_custkey) AS greatest FROM customer")
    (parts,) = db.sql("SELECT max(p_partkey) AS greatest FROM part")
    keys, counts = lines["l_orderkey"].to_numpy(), lines["n"].to_numpy()
    return OrderBook(keys, counts, customers["greatest"], parts["greatest"], seed=7)


def write(db: Database, change: OrderChange) -> int:
    """Writes it, one atomic step for each table; the number of operations."""
    orders, lines = db.table("orders"), db.table("lineitem")
    if len(change.orders):
        orders.put_many(change.orders)
        lines.put_many(change.lines)
    if change.cancelled_orders:
        orders.delete_many(change.cancelled_orders)
        lines.delete_many(change.cancelled_lines)
    return len(change.orders) + len(change.lines) + len(change.cancelled_orders) + len(change.cancelled_lines)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
