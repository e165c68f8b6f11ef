"""Window functions: after every batch a view holds what its query says, whatever changed, moved or was equal."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import pytest

from bags import bag
from compiler_catalog import catalog_of
from memory_engine import MemoryEngine
from oracle.model import Base, Operation, TableSchema
from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import DOUBLE, INT, STRING, decimal
from viewkeeper.checker.row_evaluator import Answer, evaluate
from viewkeeper.compiler.bind import bind_rows_of_view, bind_view
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.statements import CreateView, SelectStatement
from viewkeeper.compiler.ties import settled
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.maintenance.operators import by_key, window_rows
from viewkeeper.maintenance.operators.keyed_rows import KeyAnswer
from viewkeeper.plans.key_functions import WindowRows
from viewkeeper.plans.maintenance import ByKey
from window_queries import listed, window_functions

COLUMNS = (Column("id", INT, False), Column("g", INT), Column("a", INT), Column("d", DOUBLE),
           Column("p", decimal(38, 2)), Column("s", STRING))  # fmt: skip
KEYED, BAG = TableSchema("t", COLUMNS, (0,)), TableSchema("t", COLUMNS, ())
VALUES: dict[str, list[Any]] = {
    "g": [0, 1, None], "a": [-1, 0, 1, 2, None], "d": [0.0, -0.0, 0.1, 1e300, -1e300, math.nan, math.inf, None],
    "p": [*map(Decimal, ("0.50", "-1.00", "2.25", "0.00", "7.10", "9" * 36 + ".99")), None], "s": ["", "a", "b", None],
}  # fmt: skip
ORDERS = ("a", "a DESC", "d NULLS LAST, a", "s DESC NULLS FIRST")

OTHERS = [
    "SELECT id, g, row_number() OVER (PARTITION BY g ORDER BY a) AS r FROM t QUALIFY r <= 2",
    "SELECT id FROM t WHERE a > 0 QUALIFY rank() OVER (PARTITION BY d ORDER BY s) = 1 AND count(*) OVER () > 2",
    "SELECT g, count(*) AS n, sum(sum(a)) OVER (ORDER BY g) AS s, rank() OVER (ORDER BY count(*) DESC) AS r FROM t "
    "GROUP BY g HAVING count(*) > 1",
    "SELECT DISTINCT g, dense_rank() OVER w - 1 AS r, max(a) OVER (PARTITION BY s) AS m FROM t "
    "WINDOW w AS (ORDER BY g)",
    "SELECT id, lag(a) OVER w AS l, 10 * a - coalesce(lead(a) OVER w, 0) AS x FROM t WINDOW v AS (PARTITION BY g % 2 "
    "ORDER BY a + 1 DESC), w AS v",
    "SELECT id, sum(a) OVER (PARTITION BY g) AS s FROM t ORDER BY s DESC, id LIMIT 3",
    "SELECT x.g, r, m FROM (SELECT g, row_number() OVER (PARTITION BY g ORDER BY a, id) AS r FROM t) x "
    "JOIN (SELECT g, max(r) AS m FROM (SELECT g, row_number() OVER (PARTITION BY g ORDER BY p) AS r FROM t) "
    "GROUP BY g) y ON x.g = y.g WHERE r < 3",
    "SELECT id, sum(a) OVER (PARTITION BY g ORDER BY a RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s, count(*) OVER "
    "(ORDER BY p RANGE 0.5 PRECEDING) AS n, first_value(s) OVER (ORDER BY d DESC RANGE 1 PRECEDING) AS f FROM t",
    "SELECT id, stddev(d) OVER w AS d, var_pop(a) OVER (ORDER BY a RANGE 1 PRECEDING) AS v, variance(p) OVER "
    "(PARTITION BY s) AS p FROM t WINDOW w AS (PARTITION BY g ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
    "SELECT g, row_number() OVER (ORDER BY a) AS x, row_number() OVER (PARTITION BY g ORDER BY s) AS y FROM t",
    "SELECT id, r FROM (SELECT id, g, rank() OVER (PARTITION BY g ORDER BY a) AS r FROM t) WHERE r IN (1, 2) AND g < 2",
    "SELECT id, s FROM t QUALIFY dense_rank() OVER (PARTITION BY g ORDER BY a) BETWEEN 2 AND 3 AND 1 / a > 0",
    "SELECT id FROM t QUALIFY 1 / a > 0 AND row_number() OVER (PARTITION BY g ORDER BY a) < 2",
    "SELECT 1 / (row_number() OVER (PARTITION BY g ORDER BY a) - 2) AS q, id FROM t",
    "SELECT sum(id + 9223372036854775800) OVER (PARTITION BY g ORDER BY id) AS s FROM t",
]  # fmt: skip


class History:
    """A table, views over it, and batches drawn by a seed; after each the views are what their queries say."""

    def __init__(self, schema: TableSchema, views: list[str], seed: int) -> None:
        self.engine, self.base, self.schema = MemoryEngine([schema.sql], 2), Base([schema]), schema
        self.random = random.Random(seed)
        self.raised: set[str] = set()
        self.engine.declare([f"CREATE VIEW v{i} AS {query}" for i, query in enumerate(views)])
        self.engine.fill()

    def batch(self, most: int) -> None:
        operations: list[Operation] = []
        for _ in range(self.random.randrange(1, most)):
            there = self.base.rows("t")
            row = {"id": self.random.randrange(12)} | {k: self.random.choice(v) for k, v in VALUES.items()}
            if there and self.random.random() < 0.3:
                gone = dict(zip(self.schema.names, self.random.choice(there), strict=True))
                key = {"id": gone["id"]} if self.schema.key else gone
                operations.append(Operation("delete", "t", (key,)))
            else:
                times = 1 if self.schema.key else self.random.randrange(1, 3)
                operations.append(Operation("put_many", "t", (row,) * times))
            self.base.apply(operations[-1])
        self.engine.apply(operations)
        self.compare()

    def compare(self) -> None:
        inputs = {self.engine.catalog.tables[0].id: Answer(self.base.rows("t"))}
        for view in self.engine.catalog.views:
            answer = evaluate(self.engine.relations[view.name], inputs)
            errors = {(code, place) for _, code, place, _ in self.engine.errors(view.name)}
            assert errors == {(e.code, e.place) for e in answer.errors}, view.sql
            assert bag(self.engine.rows(view.name)) == bag(answer.rows), view.sql
            self.raised |= {code for code, _ in errors}


@pytest.mark.parametrize("schema", [KEYED, BAG], ids=["keyed", "bag"])
def test_every_function_over_every_frame_is_kept(schema: TableSchema) -> None:
    every = window_functions(("PARTITION BY g", "PARTITION BY d, s", ""), ORDERS)
    views = [f"SELECT id, g, {listed(every[n : n + 30])} FROM t" for n in range(0, len(every), 30)]
    history = History(schema, views, seed=3)
    for _ in range(4):
        history.batch(14)
    assert history.raised == {"ARITHMETIC_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE"}, "some sums of p do not fit"


@pytest.mark.parametrize("schema", [KEYED, BAG], ids=["keyed", "bag"])
def test_windows_are_kept_wherever_they_stand(schema: TableSchema) -> None:
    history = History(schema, OTHERS, seed=3)
    for _ in range(8):
        history.batch(8)
    assert {"DIVIDE_BY_ZERO", "ARITHMETIC_OVERFLOW"} <= history.raised


def put(engine: MemoryEngine, *rows: dict[str, Any]) -> None:
    engine.apply([Operation("put_many", "t", rows)])


def kept(table: str, view: str) -> MemoryEngine:
    engine = MemoryEngine([table])
    engine.declare([f"CREATE VIEW v AS {view}"])
    engine.fill()
    return engine


def test_of_two_equal_rows_one_comes_first() -> None:
    """Trap 67."""
    engine = kept("CREATE TABLE t (a INT, b INT, c INT)",
                  "SELECT a, b, c FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) <= 1")  # fmt: skip
    put(engine, {"a": 1, "b": 5, "c": 1})
    put(engine, {"a": 1, "b": 3, "c": 1})
    put(engine, {"a": 1, "b": 3, "c": 1})
    assert engine.rows("v") == [(1, 3, 1)]


def test_equal_rows_have_numbers_of_their_own() -> None:
    engine = kept("CREATE TABLE t (a INT)", "SELECT a, row_number() OVER (ORDER BY a) AS r, rank() OVER (ORDER BY a) "
                  "AS k FROM t")  # fmt: skip
    put(engine, {"a": 1}, {"a": 1}, {"a": 1}, {"a": 0})
    assert sorted(engine.rows("v")) == [(0, 1, 1), (1, 2, 2), (1, 3, 2), (1, 4, 2)]
    engine.apply([Operation("delete", "t", ({"a": 1},))])
    assert sorted(engine.rows("v")) == [(0, 1, 1), (1, 2, 2), (1, 3, 2)]


def test_a_row_that_changes_its_partition_leaves_the_old_one() -> None:
    """Trap 69."""
    engine = kept("CREATE TABLE t (k INT, a INT, b INT, PRIMARY KEY (k))",
                  "SELECT a, k FROM t QUALIFY rank() OVER (PARTITION BY a ORDER BY b) < 10")  # fmt: skip
    put(engine, {"k": 1, "a": 10, "b": 5})
    put(engine, {"k": 1, "a": 20})
    assert engine.rows("v") == [(20, 1)]


def test_a_nan_is_gone_when_it_has_left_the_frame() -> None:
    """Trap 39."""
    engine = kept("CREATE TABLE t (k INT, d DOUBLE, PRIMARY KEY (k))",
                  "SELECT k, sum(d) OVER (ORDER BY k ROWS 2 PRECEDING) AS s FROM t")  # fmt: skip
    put(engine, *({"k": k, "d": d} for k, d in enumerate([math.nan, 1.0, 2.0, 3.0, 1e300, 1.0, 1.0, 1.0])))
    assert [s for _, s in sorted(engine.rows("v"))[3:]] == [6.0, 1e300, 1e300, 1e300, 3.0]


def test_zeros_of_both_signs_and_every_nan_are_one_partition_and_equal() -> None:
    """Trap 43."""
    engine = kept("CREATE TABLE t (k INT, d DOUBLE, PRIMARY KEY (k))", "SELECT k, count(*) OVER (PARTITION BY d) AS n, "
                  "rank() OVER (ORDER BY d) AS r FROM t")  # fmt: skip
    put(engine, {"k": 1, "d": 0.0}, {"k": 2, "d": -0.0}, {"k": 3, "d": math.nan}, {"k": 4, "d": -math.nan})
    assert sorted(engine.rows("v")) == [(1, 2, 1), (2, 2, 1), (3, 2, 3), (4, 2, 3)]


@pytest.mark.parametrize("condition, rows", [
    ("row_number() OVER w <= 2", 4), ("2 > row_number() OVER w", 2), ("rank() OVER w IN (1, 2)", 4),
    ("row_number() OVER w >= 1", 51),
])  # fmt: skip
def test_a_change_sends_on_no_more_rows_than_are_asked_for(
    condition: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new first row moves all others on; those that come first are told, as they were before and are now."""
    engine = kept("CREATE TABLE t (k INT, g INT, PRIMARY KEY (k))",
                  f"SELECT k FROM t WINDOW w AS (PARTITION BY g ORDER BY k) QUALIFY {condition}")  # fmt: skip
    put(engine, *({"k": k, "g": k % 2} for k in range(1, 51)))
    sent: list[int] = []
    compute = window_rows.compute

    def counted(function: WindowRows, sides: Any, operator: ByKey, zone: str) -> KeyAnswer:
        answer = compute(function, sides, operator, zone)
        sent.append(len(answer.rows))
        return answer

    monkeypatch.setitem(by_key._FUNCTIONS, WindowRows, by_key._Function(counted, None))
    put(engine, {"k": 0, "g": 1})
    assert sum(sent) == rows


@pytest.mark.parametrize("query, text", [
    ("SELECT rank() OVER (ORDER BY a) AS r FROM t", "SELECT rank() OVER (ORDER BY a) AS r FROM t"),
    ("SELECT lag(a) OVER (ORDER BY g, id) AS r FROM t", "SELECT lag(a) OVER (ORDER BY g, id) AS r FROM t"),
    ("SELECT lag(a) OVER (ORDER BY a) + lead(a) OVER (w) AS r FROM t x WINDOW w AS (ORDER BY abs(g))",
     "SELECT lag(a) OVER (ORDER BY a, `x`.`id`) + lead(a) OVER (ORDER BY abs(g), `x`.`id`) AS r FROM t x WINDOW w AS "
     "(ORDER BY abs(g))"),
    ("SELECT first_value(a) OVER (PARTITION BY g) AS f, sum(a) OVER (ROWS 1 PRECEDING) AS s FROM t",
     "SELECT first_value(a) OVER (PARTITION BY g ORDER BY `t`.`id` ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED "
     "FOLLOWING) AS f, sum(a) OVER ( ORDER BY `t`.`id` ROWS 1 PRECEDING) AS s FROM t"),
    ("SELECT g, count(*) AS n FROM t GROUP BY g QUALIFY row_number() OVER (ORDER BY n) < 3 ORDER BY g LIMIT 1",
     "SELECT g, count(*) AS n FROM t GROUP BY g QUALIFY row_number() OVER (ORDER BY n, `t`.`g`) < 3 ORDER BY g, 1, 2 "
     "LIMIT 1"),
    ("SELECT r FROM (SELECT row_number() OVER (ORDER BY a) AS r FROM t) GROUP BY ROLLUP (r)",
     "SELECT r FROM (SELECT row_number() OVER (ORDER BY a, `t`.`id`) AS r FROM t) GROUP BY ROLLUP (r)"),
    ("SELECT last_value(a) OVER (ORDER BY g) AS l FROM t", "none"),
    ("SELECT row_number() OVER (ORDER BY count(*)) AS l FROM t GROUP BY g + 1", "none"),
])  # fmt: skip
def test_spark_is_asked_to_break_ties_as_the_view_does(query: str, text: str) -> None:
    (statement,) = parse_script(query)
    assert isinstance(statement, SelectStatement)
    relation = bind_rows_of_view(catalog_of(KEYED.sql), statement)
    assert settled(statement.query, relation, len(relation.columns)) == (None if text == "none" else text)


@pytest.mark.parametrize("query, what", [
    ("SELECT sum(DISTINCT id) OVER (PARTITION BY s) FROM t", "neither NULLS nor DISTINCT"),
    ("SELECT id FROM t WHERE rank() OVER (ORDER BY id) > 1", "SELECT and QUALIFY"),
    ("SELECT id FROM t ORDER BY lag(id) OVER (ORDER BY id)", "SELECT and QUALIFY"),
    ("SELECT sum(rank() OVER (ORDER BY id)) OVER () FROM t", "not within another"),
    ("SELECT rank() FROM t", "rank needs OVER"),
    ("SELECT percentile(id, 0.5) OVER (ORDER BY id) FROM t", "such an aggregate OVER a window"),
    ("SELECT sum(id) OVER (ORDER BY id RANGE 1 + 1 PRECEDING) FROM t", "such a bound"),
    ("SELECT first_value(id) IGNORE NULLS OVER (ORDER BY id) FROM t", "needs an alias"),
    ("SELECT lag(id, 1, 0.5) OVER (ORDER BY id) FROM t", "of another type"),
    ("SELECT lag(id IGNORE NULLS) OVER (ORDER BY id) FROM t", "behind the parentheses"),
    ("SELECT s AS id, rank() OVER (ORDER BY id) AS r FROM t QUALIFY id > '1'", "is an alias here"),
    ("SELECT id, rank() OVER (ORDER BY (SELECT 1)) AS r FROM t", "a subquery within a window function"),
])  # fmt: skip
def test_what_is_not_kept_by_our_operators_is_left_to_spark(query: str, what: str) -> None:
    (statement,) = parse_script(f"CREATE VIEW v AS {query}")
    assert isinstance(statement, CreateView)
    with pytest.raises(NotSupported, match=what):
        bind_view(catalog_of(KEYED.sql), statement)


@pytest.mark.parametrize("query, what", [
    ("SELECT id FROM t QUALIFY id > 1", "QUALIFY needs a window function"),
    ("SELECT row_number() OVER (PARTITION BY g) FROM t", "needs an ORDER BY"),
    ("SELECT sum(a) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING) FROM t", "begins before it ends"),
    ("SELECT sum(a) OVER w FROM t WINDOW v AS (ORDER BY id)", "there is no window w"),
    ("SELECT ntile(0) OVER (ORDER BY id) FROM t", "a number from 1 on"),
    ("SELECT g, rank() OVER (ORDER BY a) FROM t GROUP BY g", "neither in GROUP BY"),
    ("SELECT id AS y, rank() OVER (ORDER BY y) AS r FROM t", "no column y"),
])  # fmt: skip
def test_what_is_no_window_is_refused(query: str, what: str) -> None:
    (statement,) = parse_script(query)
    assert isinstance(statement, SelectStatement)
    with pytest.raises(DeclarationError, match=what):
        bind_rows_of_view(catalog_of(KEYED.sql), statement)
