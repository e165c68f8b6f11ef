"""Made-up business: orders that come in, change and are cancelled, as Arrow tables, many at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

FIRST_DAY, LAST_DAY = (int(np.datetime64(day, "D").astype(int)) for day in ("1992-01-01", "1998-08-02"))
LINES_MAX = 7
PRIORITIES = pa.array(["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"])
HUNDREDTHS = pa.array([f"0.{hundredth:02}" for hundredth in range(11)])
MODES = pa.array(["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"])
STATUSES = pa.array(["F", "O", "P"])


class OrderChange(NamedTuple):
    """Rows to put, and keys of rows to delete, of both tables."""

    orders: pa.Table
    lines: pa.Table
    cancelled_orders: list[int]
    cancelled_lines: list[tuple[int, int]]


class OrderBook:
    """The orders that exist: `keys`, and how many `lines` each has.  `customers` and `parts` are how many there are."""

    def __init__(self, keys: np.ndarray, lines: np.ndarray, customers: int, parts: int, seed: int) -> None:
        self._keys, self._lines = keys, lines
        self._customers, self._parts = customers, parts
        self._next = int(keys.max()) + 1
        self._random = np.random.default_rng(seed)

    def receive(self, count: int) -> OrderChange:
        """New orders, with one to seven lines each."""
        keys = np.arange(self._next, self._next + count)
        lines = self._random.integers(1, LINES_MAX + 1, count)
        self._next += count
        self._keys, self._lines = np.append(self._keys, keys), np.append(self._lines, lines)
        days = self._random.integers(FIRST_DAY, LAST_DAY + 1, count)
        items = self._items(np.repeat(keys, lines), _numbered(lines), np.repeat(days, lines))
        totals = np.add.reduceat(items["l_extendedprice"].to_numpy(), np.cumsum(lines) - lines)
        orders = pa.table({
            "o_orderkey": keys, "o_custkey": self._random.integers(1, self._customers + 1, count),
            "o_orderstatus": pa.repeat("O", count), "o_totalprice": totals, "o_orderdate": _dates(days),
            "o_orderpriority": self._some(PRIORITIES, count), "o_clerk": pa.repeat("Clerk#000000001", count),
            "o_shippriority": np.zeros(count, np.int32), "o_comment": pa.repeat("received by the demo", count),
        })  # fmt: skip
        return OrderChange(orders, items, [], [])

    def amend(self, count: int) -> OrderChange:
        """Orders that go to another customer and get another status and total; their first lines change too.

        Only the columns that change are named, so only they are written.
        """
        chosen = self._chosen(count)
        keys = self._keys[chosen]
        prices = self._random.integers(1_000, 400_000, len(keys))
        orders = pa.table({
            "o_orderkey": keys, "o_custkey": self._random.integers(1, self._customers + 1, len(keys)),
            "o_orderstatus": self._some(STATUSES, len(keys)), "o_totalprice": prices,
        })  # fmt: skip
        lines = pa.table({
            "l_orderkey": keys, "l_linenumber": np.ones(len(keys), np.int32), "l_extendedprice": prices // 4,
            "l_discount": self._some(HUNDREDTHS, len(keys)),
        })  # fmt: skip
        return OrderChange(orders, lines, [], [])

    def cancel(self, count: int) -> OrderChange:
        """Orders that go, with all their lines."""
        chosen = self._chosen(count)
        keys, lines = self._keys[chosen], self._lines[chosen]
        self._keys, self._lines = np.delete(self._keys, chosen), np.delete(self._lines, chosen)
        line_keys = zip(np.repeat(keys, lines).tolist(), _numbered(lines).tolist(), strict=True)
        return OrderChange(pa.table({}), pa.table({}), keys.tolist(), list(line_keys))

    def _items(self, orders: np.ndarray, numbers: np.ndarray, days: np.ndarray) -> pa.Table:
        count = len(orders)
        quantity = self._random.integers(1, 51, count)
        shipped = days + self._random.integers(1, 122, count)
        return pa.table({
            "l_orderkey": orders, "l_linenumber": numbers,
            "l_partkey": self._random.integers(1, self._parts + 1, count), "l_suppkey": np.ones(count, np.int64),
            "l_quantity": quantity, "l_extendedprice": quantity * self._random.integers(901, 2099, count),
            "l_discount": self._some(HUNDREDTHS, count), "l_tax": self._some(HUNDREDTHS.slice(0, 9), count),
            "l_returnflag": pa.repeat("N", count), "l_linestatus": pa.repeat("O", count),
            "l_shipdate": _dates(shipped), "l_commitdate": _dates(days + 60), "l_receiptdate": _dates(shipped + 14),
            "l_shipinstruct": pa.repeat("NONE", count), "l_shipmode": self._some(MODES, count),
            "l_comment": pa.repeat("received by the demo", count),
        })  # fmt: skip

    def _chosen(self, count: int) -> np.ndarray:
        """Positions of `count` different orders, or of all where there are fewer."""
        drawn = self._random.integers(0, len(self._keys), count) if len(self._keys) else np.empty(0, np.int64)
        return np.unique(drawn)

    def _some(self, values: pa.Array, count: int) -> pa.Array:
        return values.take(pa.array(self._random.integers(0, len(values), count)))


def _numbered(lines: np.ndarray) -> np.ndarray:
    """1 to n for each n of `lines`, one after another (int32)."""
    return (np.arange(lines.sum()) - np.repeat(np.cumsum(lines) - lines, lines) + 1).astype(np.int32)


def _dates(days: np.ndarray) -> pa.Array:
    return pa.array(days.astype(np.int32)).cast(pa.date32())
