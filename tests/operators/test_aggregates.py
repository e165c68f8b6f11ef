"""Aggregates beside COUNT, SUM, AVG, MIN and MAX: after every batch they are what the row evaluator says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregate_queries import JOINED, JOINED_ONCE, MOMENTS, OF_ALL_VALUES, REWRITTEN, ROWS, TABLE
from bags import bag
from drawn import examples
from memory_engine import MemoryEngine
from oracle.model import Operation
from viewkeeper.checker.row_evaluator import Answer, evaluate

NAMES = ("id", "g", "b", "i", "l", "d", "p", "s")
LISTED = ", ".join(f"{call} AS c{n}" for n, call in enumerate([*REWRITTEN, *MOMENTS]))
OF_VALUES = ", ".join(f"{call} AS c{n}" for n, call in enumerate(OF_ALL_VALUES + JOINED + JOINED_ONCE))
VIEWS = {
    "by key": f"SELECT g, {OF_VALUES} FROM t GROUP BY g",
    "beside others": f"SELECT g, b, sum(i) AS sum, {OF_VALUES} FROM t GROUP BY g, b HAVING median(i) > 0",
    "all values": f"SELECT {OF_VALUES}, count(DISTINCT i) AS d FROM t",
    "all values alone": "SELECT median(i) AS m, bit_or(l) AS o FROM t",
    "grouped": f"SELECT g, {LISTED} FROM t GROUP BY g",
    "whole": f"SELECT {LISTED} FROM t",
    "rolled": "SELECT g, s, every(b) AS e, count(i, l) AS n FROM t GROUP BY ROLLUP (g, s) HAVING some(b)",
}
CHANGES = st.lists(st.tuples(st.booleans(), st.sampled_from(ROWS), st.integers(1, 6)), max_size=6)


@pytest.mark.parametrize("servers", [1, 3])
@settings(max_examples=examples(6), deadline=None)
@given(before=CHANGES, after=st.lists(CHANGES, max_size=3))
def test_each_batch_leaves_what_the_query_says(servers: int, before: list[Any], after: list[list[Any]]) -> None:
    """Groups come, die and come back; several operations on one key in a batch; declared after the first batch."""
    engine = MemoryEngine([TABLE], servers)
    rows: dict[int, tuple[Any, ...]] = {}

    def apply(batch: list[tuple[bool, tuple[Any, ...], int]]) -> None:
        operations = []
        for delete, row, id_ in batch:
            rows.pop(id_, None)
            if delete:
                operations.append(Operation("delete", "t", ({"id": id_},)))
            else:
                rows[id_] = (id_, *row[1:])
                operations.append(Operation("put", "t", (dict(zip(NAMES, rows[id_], strict=True)),)))
        engine.apply(operations)

    apply(before)
    engine.declare([f"CREATE VIEW `{name}` AS {query}" for name, query in VIEWS.items()])
    engine.fill()
    (table,) = engine.catalog.tables
    for batch in [[], *after]:
        apply(batch)
        for name in VIEWS:
            expected = evaluate(engine.relations[name], {table.id: Answer(list(rows.values()))})
            assert bag(engine.rows(name)) == bag(expected.rows), name
