"""ORDER BY ... LIMIT in a view: after every batch the first rows are there, ties settled by all outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bags import bag
from compiler_catalog import catalog_of
from drawn import examples
from memory_engine import MemoryEngine
from oracle.model import Operation
from viewkeeper.compiler.bind import bind_view
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.statements import CreateView
from viewkeeper.errors import NotSupported
from viewkeeper.maintenance.operators.first_rows import compute
from viewkeeper.maintenance.operators.keyed_rows import KeyedRows
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.key_functions import FirstRows
from viewkeeper.trace.rows import Rows

TABLE = "CREATE TABLE t (id INT, a INT, s STRING, PRIMARY KEY (id))"
Row = dict[str, Any]


def nulls_first(value: Any) -> tuple[bool, Any]:
    return value is not None, value


def descending(row: Row) -> tuple[Any, ...]:
    """ORDER BY a DESC: NULL comes last."""
    return (row["a"] is None, -(row["a"] or 0))


def by_a(row: Row) -> tuple[Any, ...]:
    return nulls_first(row["a"])


VIEWS: dict[str, tuple[str, Callable[[list[Row]], list[tuple[Any, ...]]]]] = {
    "top": (
        "SELECT id, a FROM t ORDER BY a DESC LIMIT 3",
        lambda rows: [(r["id"], r["a"]) for r in sorted(rows, key=lambda r: (*descending(r), r["id"]))[:3]],
    ),
    "bag": (
        "SELECT a FROM t ORDER BY a LIMIT 4 OFFSET 1",
        lambda rows: [(r["a"],) for r in sorted(rows, key=by_a)[1:5]],
    ),
    "behind": (
        "SELECT s FROM t WHERE a IS NOT NULL ORDER BY a + 1, 1 DESC OFFSET 2",
        lambda rows: [(r["s"],) for r in sorted([r for r in rows if r["a"] is not None], key=lambda r: (
            r["a"], r["s"] is None, [-ord(c) for c in r["s"] or ""] + [1]))[2:]],
    ),
    "groups": (
        "SELECT s, count(*) AS n FROM t GROUP BY s ORDER BY n DESC, s LIMIT 1",
        lambda rows: sorted(((s, sum(r["s"] == s for r in rows)) for s in {r["s"] for r in rows}),
                            key=lambda g: (-g[1], nulls_first(g[0])))[:1],
    ),
}  # fmt: skip

ROWS = st.fixed_dictionaries({
    "id": st.integers(0, 8), "a": st.none() | st.integers(0, 3), "s": st.none() | st.sampled_from(["", "b", "bc", "d"]),
})  # fmt: skip
CHANGES = st.lists(st.lists(st.tuples(st.booleans(), ROWS), max_size=6), min_size=1, max_size=4)


@pytest.mark.parametrize("servers", [1, 3])
@settings(max_examples=examples(40), deadline=None)
@given(before=CHANGES, after=CHANGES)
def test_the_first_rows_are_there_after_every_batch(servers: int, before: list[Any], after: list[Any]) -> None:
    """Inserts, updates, deletes and re-inserts, several on one key in a batch; declared after the first batches."""
    engine = MemoryEngine([TABLE], servers)
    rows: dict[int, Row] = {}

    def apply(batch: list[tuple[bool, Row]]) -> None:
        operations = []
        for delete, row in batch:
            if delete:
                rows.pop(row["id"], None)
                operations.append(Operation("delete", "t", ({"id": row["id"]},)))
            else:
                rows[row["id"]] = row
                operations.append(Operation("put", "t", (row,)))
        engine.apply(operations)

    for batch in before:
        apply(batch)
    engine.declare([f"CREATE VIEW {name} AS {query}" for name, (query, _) in VIEWS.items()])
    engine.fill()
    for batch in [[], *after]:
        apply(batch)
        for name, (_, expected) in VIEWS.items():
            assert bag(engine.rows(name)) == bag(expected(list(rows.values()))), name


def test_a_view_over_the_first_rows_changes_with_them() -> None:
    engine = MemoryEngine([TABLE])
    engine.declare(["CREATE VIEW top AS SELECT id, a FROM t ORDER BY a DESC LIMIT 2",
                    "CREATE VIEW summed AS SELECT sum(a) AS a FROM top"])  # fmt: skip
    engine.fill()
    engine.apply([Operation("put", "t", ({"id": i, "a": i, "s": None},)) for i in range(5)])
    assert engine.rows("summed") == [(7,)]
    engine.apply([Operation("delete", "t", ({"id": 4},))])
    assert engine.rows("summed") == [(5,)]


@pytest.mark.parametrize("query", [
    "SELECT id FROM t LIMIT 5", "SELECT id FROM t OFFSET 5", "SELECT id FROM (SELECT id FROM t ORDER BY id LIMIT 2) s",
])  # fmt: skip
def test_a_limit_that_nothing_settles_or_that_stands_inside_is_left_to_spark(query: str) -> None:
    (statement,) = parse_script(f"CREATE VIEW v AS {query}")
    assert isinstance(statement, CreateView)
    with pytest.raises(NotSupported, match="LIMIT|OFFSET"):
        bind_view(catalog_of(TABLE), statement)


def test_both_zeros_stand_in_the_same_order_wherever_they_are_read() -> None:
    """They are equal to ORDER BY: the row that is taken out must be the one that was put in."""
    engine = MemoryEngine(["CREATE TABLE t (id INT, f DOUBLE, PRIMARY KEY (id))"])
    engine.declare(["CREATE VIEW v AS SELECT f FROM t ORDER BY f LIMIT 1"])
    (operator,) = (each for each in engine.catalog.plan.operators if isinstance(each, plan.ByKey))
    assert isinstance(operator.function, FirstRows)
    found = []
    for zeros in ([0.0, -0.0], [-0.0, 0.0]):
        rows = Rows([pa.array(zeros)], np.ones(2, np.int64))
        answer = compute(operator.function, [KeyedRows(np.zeros(2, np.int64), rows)], operator, "UTC")
        found.append(str(answer.rows.columns[0][0].as_py()))
    assert found[0] == found[1]
