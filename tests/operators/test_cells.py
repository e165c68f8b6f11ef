"""DELTA of cells with timestamps against a plain model: any order, several times, in any batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cell_model import Key, Write, rows_of, stored_bytes
from cell_operations import operations_of
from memory_engine import MemoryEngine
from viewkeeper.catalog.model import Table
from viewkeeper.changes.operations import TableForm
from viewkeeper.maintenance.operators import key_ranges
from viewkeeper.trace.rows import Rows

STAMPS = st.integers(1, 6)
VALUES = {
    "n": st.none() | st.sampled_from([-1, 0, 1, 255, 256]),
    "s": st.none() | st.sampled_from(["", "a", "aé", "b"]),
}

ONE = "CREATE TABLE t (k BIGINT, n BIGINT, s STRING, PRIMARY KEY (k)) USING cassandra OPTIONS (table 't')"
WIDE = """CREATE TABLE t (p BIGINT, q STRING, a BIGINT, b STRING, n BIGINT, s STRING, PRIMARY KEY (p, q, a, b))
          USING cassandra OPTIONS (table 't', partition_key 'p, q')"""
VIEWS = [
    "CREATE VIEW all_rows AS SELECT * FROM t",
    "CREATE VIEW sums AS SELECT s, sum(n) AS total, count(*) AS rows FROM t GROUP BY s",
]


class Cells:
    """A table of cells kept by the zone programs; `wide`: of which partitions have many keys."""

    def __init__(self, declared: str, servers: int) -> None:
        self.engine = MemoryEngine([declared], servers)
        self.engine.declare(VIEWS)
        self.engine.fill()
        table = self.engine.catalog.find("t")
        assert isinstance(table, Table)
        self.table, self.form = table, TableForm(table)
        self.sequence = 0

    def rows(self, write: Write) -> list[Rows]:
        """A write as operations."""
        self.sequence += 1
        return [self.form.as_rows(each, 0, np.array([self.sequence]), np.array([write.stamp]))
                for each in operations_of(self.form, write)]  # fmt: skip

    def apply(self, writes: list[Write]) -> None:
        blocks = [rows for write in writes for rows in self.rows(write)]
        if blocks:
            self.engine.take({f"ops:{self.table.id}": Rows.concat(blocks)})

    def require(self, writes: list[Write], as_bytes: Callable[[Any], bytes] | None) -> None:
        """The views hold what the model does."""
        width = len(self.table.key)
        expected = [(*key, *row) for key, row in rows_of(writes, ["n", "s"], as_bytes).items()]
        assert Counter(self.engine.rows("all_rows")) == Counter(expected)
        groups: dict[Any, list[Any]] = {}
        for row in expected:
            groups.setdefault(row[width + 1], []).append(row[width])
        sums = [(s, sum(n for n in ns if n is not None) if any(n is not None for n in ns) else None, len(ns))
                for s, ns in groups.items()]  # fmt: skip
        assert Counter(self.engine.rows("sums")) == Counter(sums)


@st.composite
def writes_to(draw: st.DrawFn, keys: st.SearchStrategy[Key], wide: bool) -> Write:
    kind = draw(st.sampled_from(["insert", "update", "unset", "delete", *(["range"] * wide)]))
    key, stamp = draw(keys), draw(STAMPS)
    if kind == "range":
        low, high = (draw(st.integers(0, 2)) for _ in range(2))
        low_key, high_key = sorted([draw(keys), draw(keys)])
        return Write("range", key[:2], stamp, low=(low_key[2 : 2 + low], draw(st.booleans()) or not low),
                     high=(high_key[2 : 2 + high], draw(st.booleans()) or not high))  # fmt: skip
    names = draw(st.sets(st.sampled_from(["n", "s"]), min_size=kind != "insert"))
    cells = {name: None if kind == "unset" else draw(VALUES[name]) for name in names}
    return Write(kind, key, stamp, {} if kind == "delete" else cells)


NARROW_KEYS = st.tuples(st.integers(0, 3))
WIDE_KEYS = st.tuples(st.integers(0, 1), st.sampled_from("xy"), st.integers(-1, 1), st.sampled_from(["", "a", "b"]))


@pytest.mark.parametrize("wide, partitions", [(False, 256), (True, 256), (True, 1)])
@settings(max_examples=150, deadline=None)
@given(data=st.data(), servers=st.sampled_from([1, 3]))
def test_rows_are_the_stores_whatever_the_order(
    wide: bool, partitions: int, data: st.DataObject, servers: int
) -> None:  # fmt: skip
    """Writes in any order, some of them twice, in batches: after each the views hold the store's rows.  Of more
    `partitions` all rows are looked through for ranges."""
    keys = WIDE_KEYS if wide else NARROW_KEYS
    batches = data.draw(st.lists(st.lists(writes_to(keys, wide), max_size=8), min_size=1, max_size=5))
    cells, seen = Cells(WIDE if wide else ONE, servers), list[Write]()
    with mock.patch.object(key_ranges, "PARTITIONS_MAX", partitions):
        for batch in batches:
            again = data.draw(st.lists(st.sampled_from(seen), max_size=3)) if seen else []
            seen += batch
            cells.apply([*batch, *again])
            cells.require(seen, stored_bytes)


@settings(max_examples=150, deadline=None)
@given(batches=st.lists(st.lists(writes_to(NARROW_KEYS, wide=False), max_size=8), min_size=1, max_size=5))
def test_where_the_last_value_of_one_time_counts_it_is_that_of_the_log(batches: list[list[Write]]) -> None:
    """As in HBase."""
    cells, seen = Cells(ONE.replace("cassandra", "hbase"), 1), list[Write]()
    for batch in batches:
        seen += batch
        cells.apply(batch)
        cells.require(seen, None)
