"""Outer, semi and anti joins, and DISTINCT: how they are planned, keyed, read and what a change costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import viewkeeper
from compiler_catalog import catalog_of
from memory_engine import MemoryEngine
from oracle.model import Operation
from viewkeeper.compiler.bind import bind_view
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.statements import CreateView
from viewkeeper.maintenance import zones
from viewkeeper.maintenance.explain import explain_view
from viewkeeper.maintenance.operators import by_key, semi_join
from viewkeeper.maintenance.task import Task
from viewkeeper.plans import maintenance as plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = ["CREATE TABLE o (id BIGINT, c BIGINT, x INT, PRIMARY KEY (id))",
          "CREATE TABLE c (id BIGINT, name STRING, y INT, PRIMARY KEY (id))"]  # fmt: skip
KINDS = ("LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI")


def put(table: str, **row: object) -> Operation:
    return Operation("put", table, (row,))


@pytest.mark.parametrize("kind", KINDS)
def test_an_equality_alone_needs_no_fallback_and_a_further_condition_says_that_it_falls_back(kind: str) -> None:
    engine = MemoryEngine(TABLES)
    engine.declare([f"CREATE VIEW e AS SELECT o.id FROM o {kind} JOIN c ON o.c = c.id",
                    f"CREATE VIEW f AS SELECT o.id FROM o {kind} JOIN c ON o.c = c.id AND o.x > c.y"])  # fmt: skip
    quick, general = (explain_view(engine.catalog, view) for view in engine.catalog.views)
    assert "SEMI JOIN" in quick and "[by key]" in quick and quick.endswith("falls back: nothing")
    assert "BY KEY" in general and "where (x > y)" in general
    assert "falls back: BY KEY" in general and "all rows of each key" in general


@pytest.mark.parametrize(("query", "key", "unique"), [
    ("SELECT id, x FROM o SEMI JOIN c ON o.c = c.id", (0,), True),
    ("SELECT x, id FROM o ANTI JOIN c ON o.c = c.id", (1,), True),
    ("SELECT o.id, name FROM o LEFT JOIN c ON o.c = c.id", (0,), True),
    ("SELECT name, o.id FROM c RIGHT JOIN o ON o.c = c.id", (1,), True),
    ("SELECT c.id, o.id AS oid FROM c LEFT JOIN o ON o.c = c.id", (0, 1), False),
    ("SELECT o.id, name FROM o FULL JOIN c ON o.c = c.id", (0, 1), False),
    ("SELECT DISTINCT c, x FROM o", (0, 1), True),
])  # fmt: skip
def test_the_view_key_is_that_of_the_side_whose_rows_come_once(query: str, key: tuple[int, ...], unique: bool) -> None:
    (statement,) = parse_script(f"CREATE VIEW v AS {query}")
    assert isinstance(statement, CreateView)
    bound = bind_view(catalog_of(";".join(TABLES)), statement)
    assert (bound.key, bound.unique) == (key, unique)


def test_a_changed_row_of_a_crowded_key_changes_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand orders of one customer: another order, or a new name, moves no more than it must."""
    engine = MemoryEngine(TABLES)
    engine.declare(["CREATE VIEW v AS SELECT o.id, name FROM o LEFT JOIN c ON o.c = c.id",
                    "CREATE VIEW w AS SELECT o.id FROM o LEFT JOIN c ON o.c = c.id AND c.y > o.x"])  # fmt: skip
    engine.fill()
    yielded: list[int] = []
    for module in (semi_join, by_key):
        run = module.run

        def counting(operator: plan.Operator, task: Task, run=run) -> None:  # type: ignore[no-untyped-def]
            run(operator, task)
            yielded.append(int(np.abs(task.streams[operator.id].weights).sum()) if operator.id in task.streams else 0)

        monkeypatch.setitem(zones._RUN, plan.SemiJoin if module is semi_join else plan.ByKey, counting)
    engine.apply([put("c", id=1, name="a", y=5000), *(put("o", id=i, c=1, x=i) for i in range(1000))])
    assert sorted(yielded) == [0, 1000]  # by key yields all pairs; nobody is left alone
    yielded.clear()
    engine.apply([put("o", id=1000, c=1, x=0)])
    assert sorted(yielded) == [0, 1]
    yielded.clear()
    engine.apply([put("c", id=1, name="b")])
    assert sorted(yielded) == [0, 0]
    assert sorted(engine.rows("v"))[-1] == (1000, "b")


@pytest.mark.spark
def test_they_are_read_by_key_by_sql_and_over_one_another(spark: SparkSession, tmp_path: Path) -> None:
    """A LEFT JOIN as a view, a view and an index over it, and the same query asked without a view."""
    with viewkeeper.connect(tmp_path / "db") as db:
        db.sql(";".join(TABLES))
        left = "SELECT o.id, name FROM o LEFT JOIN c ON o.c = c.id"
        db.sql(f"CREATE VIEW v AS {left}; CREATE VIEW lonely AS SELECT id FROM v WHERE name IS NULL;"
               "CREATE INDEX by_name ON v (name)")  # fmt: skip
        db.table("o").put_many([{"id": i, "c": i % 3} for i in range(6)])
        db.table("c").put_many([{"id": 1, "name": "one"}, {"id": 7, "name": "seven"}])
        db.catch_up()
        assert db.view("v").get(1) == {"id": 1, "name": "one"}
        assert db.view("v").get(0) == {"id": 0, "name": None}
        assert sorted(row["id"] for row in db.view("v").get("one", index="by_name")) == [1, 4]
        assert sorted(row["id"] for row in db.view("lonely").rows()) == [0, 2, 3, 5]
        asked = db.sql(f"{left} ORDER BY 1").to_arrow()
        assert asked.equals(db.sql("SELECT * FROM v ORDER BY id").to_arrow())
        assert db.sql("SELECT DISTINCT c FROM o ORDER BY c DESC LIMIT 2").to_arrow().to_pydict() == {"c": [2, 1]}
        db.table("c").delete(1)
        db.catch_up()
        assert db.view("v").get("one", index="by_name") == []
        assert len(list(db.view("lonely").rows())) == 6
