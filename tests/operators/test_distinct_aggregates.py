"""Aggregates of DISTINCT values, and with FILTER: after every batch they are what the row evaluator says."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bags import bag
from drawn import examples
from memory_engine import MemoryEngine
from oracle.model import Operation
from viewkeeper.checker.row_evaluator import Answer, evaluate

TABLE = "CREATE TABLE t (id INT, k STRING, v INT, w DECIMAL(5, 1), PRIMARY KEY (id))"
VIEWS = {
    "one": "SELECT k, count(DISTINCT v) AS d FROM t GROUP BY k",
    "several": "SELECT k, count(DISTINCT v) AS d, sum(DISTINCT v) AS s, count(*) AS n, count(DISTINCT v, w) AS both, "
               "avg(DISTINCT w) AS a, max(DISTINCT w) AS m FROM t GROUP BY k",
    "filtered": "SELECT k, count(*) FILTER (WHERE v > 1) AS n, sum(w) FILTER (WHERE v IS NOT NULL) AS s, "
                "count(DISTINCT v) FILTER (WHERE w > 1) AS d, count(DISTINCT v) AS plain FROM t GROUP BY k",
    "whole": "SELECT count(DISTINCT v) AS d, sum(w) AS s, count(DISTINCT k, v) AS kv FROM t",
    "computed": "SELECT v % 2 AS odd, count(DISTINCT 10 / v) AS d, min(v) AS low, count(DISTINCT v, w) AS both "
                "FROM t GROUP BY v % 2 HAVING count(DISTINCT w) > 0",
}  # fmt: skip

ROWS = st.fixed_dictionaries({
    "id": st.integers(0, 9), "k": st.none() | st.sampled_from("ab"), "v": st.none() | st.integers(1, 4),
    "w": st.none() | st.sampled_from([Decimal("0.5"), Decimal("1.5"), Decimal("2.5")]),
})  # fmt: skip
CHANGES = st.lists(st.lists(st.tuples(st.booleans(), ROWS), max_size=6), min_size=1, max_size=4)


@pytest.mark.parametrize("servers", [1, 3])
@settings(max_examples=examples(30), deadline=None)
@given(before=CHANGES, after=CHANGES)
def test_each_batch_leaves_what_the_query_says(servers: int, before: list[Any], after: list[Any]) -> None:
    """Inserts, updates, deletes and re-inserts, several on one key in a batch; declared after the first batches."""
    engine = MemoryEngine([TABLE], servers)
    rows: dict[int, dict[str, Any]] = {}

    def apply(batch: list[tuple[bool, dict[str, Any]]]) -> None:
        for delete, row in batch:
            rows.pop(row["id"], None)
            if not delete:
                rows[row["id"]] = row
        engine.apply([Operation("delete", "t", ({"id": row["id"]},)) if delete else Operation("put", "t", (row,))
                      for delete, row in batch])  # fmt: skip

    for batch in before:
        apply(batch)
    engine.declare([f"CREATE VIEW {name} AS {query}" for name, query in VIEWS.items()])
    engine.fill()
    (table,) = engine.catalog.tables
    for batch in [[], *after]:
        apply(batch)
        base = {table.id: Answer([(r["id"], r["k"], r["v"], r["w"]) for r in rows.values()])}
        for name in VIEWS:
            assert bag(engine.rows(name)) == bag(evaluate(engine.relations[name], base).rows), name


def test_a_group_of_one_value_counts_it_once() -> None:
    """Counting the distinct values of each batch by itself would add them up."""
    engine = MemoryEngine([TABLE])
    engine.declare(["CREATE VIEW d AS SELECT k, count(DISTINCT v) AS n FROM t GROUP BY k"])
    engine.fill()
    for id_, v in enumerate((1, 2, 2, 3)):
        engine.apply([Operation("put", "t", ({"id": id_, "k": "a", "v": v},))])
    assert engine.rows("d") == [("a", 3)]
    engine.apply([Operation("delete", "t", ({"id": 1},))])
    assert engine.rows("d") == [("a", 3)]
    engine.apply([Operation("delete", "t", ({"id": 2},))])
    assert engine.rows("d") == [("a", 2)]


def test_outputs_without_an_alias_are_called_as_in_spark() -> None:
    engine = MemoryEngine([TABLE])
    engine.declare(["CREATE VIEW d AS SELECT count(DISTINCT v, w), sum(v) FILTER (WHERE w > 1.0) FROM t"])
    assert [column.name for column in engine.catalog.views[0].columns] == [
        "count(DISTINCT v, w)", "sum(v) FILTER (WHERE (w > 1.0))"]  # fmt: skip
