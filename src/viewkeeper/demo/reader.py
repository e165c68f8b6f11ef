"""The reading process: reads views by key, follows its own writes, and looks whether views agree.

`python -m viewkeeper.demo.reader FOLDER`
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

import numpy as np

import viewkeeper
from viewkeeper.database import Database
from viewkeeper.demo.process import ready, tell, told_to_stop
from viewkeeper.demo.views import INDEX

OWN_CUSTOMER = 0
"""TPC-H numbers customers from 1: this one's orders are all written here."""

FIRST_OWN_ORDER = 10**12
READS_A_ROUND = 200
ROUND_SECONDS = 0.1
WRITE_EVERY_SECONDS = 0.5
FOLLOW_SECONDS = 60.0
"""Before the reader gives up on a write of its own."""

KEPT = 100_000
"""So many of the latest durations are kept."""


class ReadingProcess:
    """One user of the database, and what it has seen so far."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._random = random.Random(11)
        self._customers = [row["c_custkey"] for row in db.sql("SELECT c_custkey FROM customer")]
        self._segments = [row["c_mktsegment"] for row in db.view("segment_revenue").rows()]
        self._reads = 0
        self._read_seconds: list[float] = []
        self._fresh_seconds: list[float] = []
        self._agreed = 0

    def read(self) -> None:
        """Some reads by key: of a view, of the join, and of the orders by their index."""
        spend, orders = self._db.view("customer_spend"), self._db.table("orders")
        for _ in range(READS_A_ROUND):
            self._timed(spend.get, self._random.choice(self._customers))
        self._timed(self._db.view("segment_revenue").get, self._random.choice(self._segments))
        self._timed(lambda key: orders.get(key, index=INDEX), self._random.choice(self._customers))
        del self._read_seconds[:-KEPT]

    def follow_a_write(self) -> None:
        """Puts one order, and waits until a view holds it: a reader sees its own writes."""
        written = len(self._fresh_seconds) + 1
        begin = time.perf_counter()
        token = self._db.table("orders").put({"o_orderkey": FIRST_OWN_ORDER + written, "o_custkey": OWN_CUSTOMER,
                                              "o_totalprice": "19.90", "o_orderpriority": "5-LOW"})  # fmt: skip
        seen = self._db.view("customer_spend").get(OWN_CUSTOMER, after=token, timeout=FOLLOW_SECONDS)
        self._fresh_seconds.append(time.perf_counter() - begin)
        assert seen["orders"] == written, f"wrote {written} orders, and the view has {seen['orders']}"

    def compare_views(self) -> None:
        """Two views of the same orders, read at one version, must give the same totals."""
        with self._db.snapshot() as snapshot:
            groups = snapshot.view("priorities").to_arrow()
            book = snapshot.view("order_book").get()
        summed = {name: sum(groups[name].to_pylist()) for name in ("orders", "total")}
        assert summed == book, f"the priorities add up to {summed}, and the order book has {book}"
        self._agreed += 1

    def seen(self) -> dict[str, float]:
        """Counts, and quantiles of how long things took."""
        reads, fresh = np.array(self._read_seconds), np.array(self._fresh_seconds)
        return {
            "reads": self._reads, "read_us_p50": _quantile(reads, 0.5) * 1e6,
            "read_us_p99": _quantile(reads, 0.99) * 1e6, "own_writes": len(fresh),
            "fresh_s_p50": _quantile(fresh, 0.5), "fresh_s_max": _quantile(fresh, 1.0), "agreed": self._agreed,
        }  # fmt: skip

    def _timed(self, get: Callable[[object], object], key: object) -> None:
        begin = time.perf_counter()
        get(key)
        self._read_seconds.append(time.perf_counter() - begin)
        self._reads += 1


def main(folder: str) -> None:
    """Reads until told to stop."""
    with viewkeeper.connect(folder) as db:
        client, next_write = ReadingProcess(db), 0.0
        ready(**client.seen())
        while not told_to_stop(ROUND_SECONDS):
            client.read()
            if time.monotonic() > next_write:
                client.follow_a_write()
                client.compare_views()
                next_write = time.monotonic() + WRITE_EVERY_SECONDS
            tell(**client.seen())


def _quantile(seconds: np.ndarray, share: float) -> float:
    return float(np.quantile(seconds, share)) if len(seconds) else 0.0


if __name__ == "__main__":
    main(sys.argv[1])
