"""The benchmarks' data: orders of customers, how they change, and what the three views must hold.

    orders (id, customer, price)    customer (id, segment), ten orders a customer
    spend      SUM and COUNT by customer
    segments   SUM and COUNT by segment over the join
    extremes   MIN and MAX by customer

Half of the operations insert, a quarter updates (and moves the order to another customer), a quarter deletes.  They
come in *calls* of 1,000: three `put_many`, then a `delete_many`.  Everything is drawn from one seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from viewkeeper.database import Database

TABLES = """
CREATE TABLE orders (id BIGINT, customer BIGINT, price DECIMAL(15,2), PRIMARY KEY (id));
CREATE TABLE customer (id BIGINT, segment STRING, PRIMARY KEY (id));
"""

QUERIES = {
    "spend": "SELECT customer, sum(price) AS total, count(*) AS n FROM orders GROUP BY customer",
    "segments": "SELECT c.segment, sum(o.price) AS total, count(*) AS n "
                "FROM orders o JOIN customer c ON o.customer = c.id GROUP BY c.segment",
    "extremes": "SELECT customer, min(price) AS low, max(price) AS high FROM orders GROUP BY customer",
}  # fmt: skip

VIEWS = "".join(f"CREATE VIEW {name} AS {query};\n" for name, query in QUERIES.items())

SEGMENTS = np.array(["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"])

CALL = 1_000
"""Operations in a call, all of one kind: put or delete."""

_LOADED_AT_ONCE = 100_000
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class OrderOperations:
    """Operations in their order; `delete` says which are deletes, whose `customer` and `cents` mean nothing."""

    delete: np.ndarray
    id: np.ndarray
    customer: np.ndarray
    cents: np.ndarray

    def __len__(self) -> int:
        return len(self.id)

    def __getitem__(self, part: slice | np.ndarray) -> OrderOperations:
        return OrderOperations(self.delete[part], self.id[part], self.customer[part], self.cents[part])

    def calls(self) -> Iterator[OrderOperations]:
        """The same operations, call by call; these must begin where a call does."""
        for start in range(0, len(self), CALL):
            yield self[start : start + CALL]

    def last_of_each_key(self) -> OrderOperations:
        """Only the last operation of each order: what is left to do, done at once."""
        _, from_end = np.unique(self.id[::-1], return_index=True)
        return self[np.sort(len(self) - 1 - from_end)]

    def table(self) -> pa.Table:
        """The rows of puts, as `put_many` takes them."""
        return pa.table({"id": self.id, "customer": self.customer, "price": prices(self.cents)})


class Workload:
    """`orders` base orders, of a tenth as many customers, and `operations` operations on them."""

    def __init__(self, orders: int, operations: int, seed: int = 1) -> None:
        chance = np.random.default_rng(seed)
        self.customers = max(orders // 10, 1)
        self.segment_of = chance.integers(0, len(SEGMENTS), self.customers)
        self.base = OrderOperations(np.zeros(orders, dtype=bool), np.arange(orders), *self._row_values(chance, orders))
        self.operations = self._operations(chance, orders, operations)

    def _row_values(self, chance: np.random.Generator, length: int) -> tuple[np.ndarray, np.ndarray]:
        return chance.integers(0, self.customers, length), chance.integers(100, 1_000_000, length)

    def _operations(self, chance: np.random.Generator, orders: int, length: int) -> OrderOperations:
        position = np.arange(length)
        delete = position // CALL % 4 == 3
        insert = ~delete & (chance.random(length) < 2 / 3)
        update = ~delete & ~insert
        id_ = np.empty(length, dtype=np.int64)
        id_[insert] = orders + np.arange(insert.sum())
        # Each base order is deleted at most once; an update draws again, among those that stay, where it is too late.
        doomed, deletes = chance.permutation(orders), int(delete.sum())
        if deletes >= orders:
            raise ValueError(f"{length} operations would delete all of {orders} orders")
        id_[delete] = doomed[:deletes]
        deleted_at = np.full(orders, _NEVER)
        deleted_at[doomed[:deletes]] = position[delete]
        drawn = chance.integers(0, orders, int(update.sum()))
        late = deleted_at[drawn] < position[update]
        drawn[late] = chance.choice(doomed[deletes:], int(late.sum()))
        id_[update] = drawn
        return OrderOperations(delete, id_, *self._row_values(chance, length))

    @cached_property
    def customer_table(self) -> pa.Table:
        """The customers' rows."""
        return pa.table({"id": np.arange(self.customers), "segment": SEGMENTS[self.segment_of]})

    def load(self, db: Database) -> None:
        """Makes the tables and writes the base rows."""
        db.sql(TABLES)
        for batch in self.customer_table.to_batches(_LOADED_AT_ONCE):
            db.table("customer").put_many(batch)
        orders = db.table("orders")
        for start in range(0, len(self.base), _LOADED_AT_ONCE):
            orders.put_many(self.base[start : start + _LOADED_AT_ONCE].table())

    def orders_after(self, done: int) -> OrderOperations:
        """The orders that are there after the first `done` operations, as puts."""
        everything = [self.base, self.operations[:done]]
        delete, id_, customer, cents = (np.concatenate([getattr(part, name) for part in everything])
                                        for name in ("delete", "id", "customer", "cents"))  # fmt: skip
        last = np.full(len(self.base) + len(self.operations), -1)
        last[id_] = np.arange(len(id_))
        last = last[last >= 0]
        return OrderOperations(delete, id_, customer, cents)[last[~delete[last]]]

    def expected(self, done: int) -> dict[str, np.ndarray]:
        """What each view holds after the first `done` operations, in the form of `comparable`."""
        orders = self.orders_after(done)
        orders = orders[np.argsort(orders.customer, kind="stable")]
        customers, starts = np.unique(orders.customer, return_index=True)
        totals = np.add.reduceat(orders.cents, starts)
        counts = np.diff(np.append(starts, len(orders)))
        segments = self.segment_of[customers]
        present = np.unique(segments)
        by_segment = [[segment, totals[segments == segment].sum(), counts[segments == segment].sum()]
                      for segment in present]  # fmt: skip
        low, high = np.minimum.reduceat(orders.cents, starts), np.maximum.reduceat(orders.cents, starts)
        return {
            "spend": np.column_stack([customers, totals, counts]),
            "segments": np.array(by_segment, dtype=np.int64),
            "extremes": np.column_stack([customers, low, high]),
        }


def write(db: Database, operations: OrderOperations) -> None:
    """Writes operations, one `put_many` or `delete_many` a call."""
    orders = db.table("orders")
    for call in operations.calls():
        if call.delete[0]:
            orders.delete_many(call.id.tolist())
        else:
            orders.put_many(call.table())


def answers(db: Database) -> dict[str, np.ndarray]:
    """What the views of `db` hold, in the form of `comparable`."""
    return {name: comparable(db.view(name).to_arrow()) for name in QUERIES}


def comparable(table: pa.Table) -> np.ndarray:
    """A view's rows as int64 rows sorted by key: money in cents, segments by their place in `SEGMENTS`."""
    rows = np.column_stack([_integers(column.combine_chunks()) for column in table.columns])
    return rows[np.argsort(rows[:, 0], kind="stable")]


def differing(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> list[str]:
    """The views that hold something else than they must."""
    return [name for name, rows in expected.items() if not np.array_equal(found[name], rows)]


def prices(cents: np.ndarray) -> pa.Array:
    """Cents as DECIMAL(15,2)."""
    words = np.column_stack([cents, cents >> 63])
    return pa.Array.from_buffers(pa.decimal128(15, 2), len(cents), [None, pa.py_buffer(np.ascontiguousarray(words))])


def _integers(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return np.searchsorted(SEGMENTS, column.to_numpy(zero_copy_only=False).astype(SEGMENTS.dtype))
    if pa.types.is_decimal(column.type):
        words = np.frombuffer(column.cast(pa.decimal128(38, 2)).buffers()[1], dtype=np.int64)
        return words.reshape(-1, 2)[column.offset : column.offset + len(column), 0]
    return column.to_numpy(zero_copy_only=False).astype(np.int64)
