"""Calls that somebody else computes: once for each value, and what was said goes as it came."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from bags import bag
from memory_engine import MemoryEngine
from oracle.model import Operation
from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import BIGINT, INT, STRING
from viewkeeper.plans import maintenance as plan
from viewkeeper.trace.trace import Trace

TABLES = ["CREATE TABLE t (id BIGINT, c STRING, x INT, f DOUBLE, PRIMARY KEY (id))",
          "CREATE TABLE u (id BIGINT, c STRING, PRIMARY KEY (id))"]  # fmt: skip
GIVES = {"odd": Column("value", BIGINT), "sign_of": Column("value", STRING), "picky": Column("value", INT)}


class Outside:
    """Computes the functions of `GIVES`, and says never twice the same: what it is asked again shows."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[Any, ...]] = Counter()
        self.said: dict[tuple[Any, ...], Any] = {}

    def __call__(self, name: str, *arguments: Any) -> Any:
        self.asked[name, *map(repr, arguments)] += 1
        if name == "sign_of":
            return repr(arguments[0])
        if name == "picky" and arguments[0] is not None and arguments[0] % 3 == 0:
            raise ArithmeticError
        return None if arguments[0] is None else len(self.asked) * 1000 + sum(self.asked.values())


def put(table: str, *rows: dict[str, Any]) -> Operation:
    return Operation("put_many", table, rows)


def delete(table: str, *ids: int) -> Operation:
    return Operation("delete", table, tuple({"id": id_} for id_ in ids))


def memos(engine: MemoryEngine) -> list[Counter[tuple[Any, ...]]]:
    """What each MEMO holds, with the weights."""
    found = []
    for operator in plan.plan_of(engine.catalog).operators:
        if isinstance(operator, plan.Memo):
            rows = Trace(operator.state, engine.states.get(operator.state.id, [])).scan()
            values = zip(*(column.to_pylist() for column in rows.columns), strict=True)
            total: Counter[tuple[Any, ...]] = Counter()
            for value, weight in zip(values, rows.weights.tolist(), strict=True):
                total[value] += weight
            found.append(Counter({value: weight for value, weight in total.items() if weight}))
    return found


@pytest.mark.parametrize("servers", [1, 3])
def test_a_value_is_asked_for_once_and_forgotten_with_its_last_row(servers: int) -> None:
    """Rows of one value share an answer; when all are gone, it is asked for again."""
    outside = Outside()
    engine = MemoryEngine(TABLES, servers, outside, GIVES)
    engine.declare(["CREATE VIEW v AS SELECT id, odd(c) + 1 AS n FROM t"])
    engine.fill()
    engine.apply([put("t", *({"id": i, "c": "ab"[i % 2]} for i in range(6)))])
    first = dict(engine.rows("v"))
    assert len(set(first.values())) == 2 and set(outside.asked.values()) == {1}
    engine.apply([delete("t", 0, 1, 2), put("t", {"id": 9, "c": "b"})])
    assert {id_: n for id_, n in engine.rows("v") if id_ != 9} == {id_: first[id_] for id_ in (3, 4, 5)}
    assert sum(outside.asked.values()) == 2
    engine.apply([delete("t", 4)])
    (held,) = memos(engine)
    assert {value[0] for value in held} == {"b"}
    engine.apply([put("t", {"id": 10, "c": "a"})])
    assert outside.asked["odd", "'a'"] == 2
    assert dict(engine.rows("v"))[10] != first[4]


def test_minus_zero_and_zero_are_two_values_and_null_is_one() -> None:
    """A function may tell 0.0 and -0.0 apart, so the memo does."""
    outside = Outside()
    engine = MemoryEngine(TABLES, 2, outside, GIVES)
    engine.declare(["CREATE VIEW v AS SELECT id, sign_of(f) AS s FROM t"])
    engine.fill()
    values = [0.0, -0.0, None, float("nan"), None, 0.0, 1.5]
    engine.apply([put("t", *({"id": i, "f": f} for i, f in enumerate(values)))])
    assert dict(engine.rows("v")) == {i: repr(f) for i, f in enumerate(values)}
    assert sum(outside.asked.values()) == 5
    engine.apply([delete("t", *range(len(values)))])
    assert engine.rows("v") == [] and memos(engine) == [Counter()]


def test_an_error_follows_the_rows_that_reach_it() -> None:
    """What raises breaks the view for as long as a row has the value, unless the call is not reached."""
    engine = MemoryEngine(TABLES, 1, Outside(), GIVES)
    engine.declare(["CREATE VIEW v AS SELECT id, picky(x) AS p FROM t",
                    "CREATE VIEW w AS SELECT id FROM t WHERE x > 0 AND\n picky(x) > 0",
                    "CREATE VIEW c AS SELECT id, CASE WHEN x > 3 THEN picky(x) ELSE 0 END AS p FROM t"])  # fmt: skip
    engine.fill()
    engine.apply([put("t", {"id": 1, "x": 3}, {"id": 2, "x": 1}, {"id": 3, "x": 0})])
    errors = {name: sorted(tuple(row[1:]) for row in engine.errors(name)) for name in "vwc"}
    assert errors["v"] == [("FUNCTION_RAISED", "1:12", "t(id=1)"), ("FUNCTION_RAISED", "1:12", "t(id=3)")]
    assert errors["w"] == [("FUNCTION_RAISED", "2:2", "t(id=1)")]
    assert errors["c"] == []
    assert [row[0] for row in engine.rows("v")] == [2]
    engine.apply([delete("t", 1, 3)])
    assert not any(engine.errors(name) for name in "vwc")


def test_views_of_one_call_share_a_memo_and_its_arguments_may_be_computed() -> None:
    """Wherever the call stands in them: in a condition, a key, an aggregate, above a join, over another view."""
    outside = Outside()
    engine = MemoryEngine(TABLES, 2, outside, GIVES)
    views = ["CREATE VIEW a AS SELECT id, odd(c) AS n FROM t",
             "CREATE VIEW b AS SELECT odd(c) AS n, count(*) AS many FROM t GROUP BY odd(c)",
             "CREATE VIEW j AS SELECT t.id, u.id AS other FROM t JOIN u ON odd(t.c) = odd(u.c)",
             "CREATE VIEW s AS SELECT c, sum(odd(c)) AS n FROM t GROUP BY c HAVING odd(c) IS NOT NULL",
             "CREATE VIEW o AS SELECT many, odd(n) AS again FROM b"]  # fmt: skip
    engine.declare(views)
    engine.fill()
    chance = random.Random(7)
    held: dict[int, str | None] = {}
    for _ in range(6):
        for id_ in chance.sample(range(20), 8):
            held[id_] = chance.choice(["a", "b", "c", None])
        gone = chance.sample(sorted(held), 3)
        engine.apply([put("t", *({"id": i, "c": c} for i, c in held.items()))])
        engine.apply([put("u", {"id": 1, "c": "a"}, {"id": 2, "c": "b"}), delete("t", *gone)])
        held = {i: c for i, c in held.items() if i not in gone}
        said = dict(engine.rows("a"))
        by = {c: said[i] for i, c in held.items()}
        assert said == {i: by[c] for i, c in held.items()}
        many = Counter(said.values())
        assert bag(engine.rows("b")) == bag(list(many.items()))
        times = Counter(held.values())
        assert bag(engine.rows("s")) == bag([(c, by[c] * times[c]) for c in by if c is not None])
        assert Counter(row[0] for row in engine.rows("o")) == Counter(many.values())
    distinct = {operator.call for operator in plan.plan_of(engine.catalog).operators if isinstance(operator, plan.Memo)}
    assert len(distinct) < len([view for view in views for _ in view.split("odd(")[1:]])


def test_a_view_filled_later_has_its_own_answers_and_keeps_up() -> None:
    """Its fill overlaps a batch; a value of both rounds is asked for once."""
    outside = Outside()
    engine = MemoryEngine(TABLES, 2, outside, GIVES)
    engine.apply([put("t", {"id": 1, "c": "a"}, {"id": 2, "c": "b"})])
    engine.declare(["CREATE VIEW v AS SELECT id, odd(c) AS n FROM t WHERE id < 100"])
    engine.start_fill()
    engine.apply([put("t", {"id": 3, "c": "a"}, {"id": 4, "c": "d"}), delete("t", 2)])
    engine.finish_fill()
    rows = dict(engine.rows("v"))
    assert rows.keys() == {1, 3, 4} and rows[1] == rows[3] and outside.asked["odd", "'a'"] == 1
    engine.apply([delete("t", 1, 3, 4)])
    assert engine.rows("v") == [] and memos(engine) == [Counter()]
