"""EXPLAIN as data, with sizes and costs, and as a picture."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory_engine import MemoryEngine
from viewkeeper.maintenance.estimates import StoredSizes
from viewkeeper.maintenance.explain import explained
from viewkeeper.maintenance.explained import Explained, quoted

TABLES = [
    "CREATE TABLE t (id BIGINT PRIMARY KEY, g STRING, n INT)",
    "CREATE TABLE u (g STRING PRIMARY KEY, name STRING)",
]
JOINED = "SELECT name, count(*) AS c, max(n) AS m FROM t JOIN u ON t.g = u.g WHERE n > 3 GROUP BY name"


def plan_of_view(query: str, sizes: StoredSizes | None = None, *others: str) -> Explained:
    engine = MemoryEngine(TABLES)
    engine.declare([f"CREATE VIEW v AS {query}", *others])
    return explained(engine.catalog, engine.catalog.views[0], sizes)


def deltas(plan: Explained) -> dict[str, int]:
    """The states of the tables, by what their operators say."""
    return {o.text: o.states[0].id for o in plan.operators if o.name.startswith("DELTA")}


def states(plan: Explained) -> dict[str, tuple[Any, ...]]:
    return {o.name.rsplit(" ", 1)[0]: (s.rows, s.bytes, s.estimated) for o in plan.operators for s in o.states[:1]}


def test_what_is_stored_is_counted_and_what_is_not_is_guessed_from_the_tables() -> None:
    ids = deltas(plan_of_view(JOINED))
    plan = plan_of_view(JOINED, {ids["of t"]: (1000, 30_000), ids["of u"]: (10, 500)})
    found = states(plan)
    assert found["DELTA"] == (10, 500, False)
    assert found["PRE-AGGREGATION"][0::2] == found["VIEW TABLE"][0::2] == (1000, True)
    assert ", 1,000 rows, 30 KB\n" in plan.text() and ", about 1,000 rows, " in plan.text()
    assert states(plan_of_view(JOINED, {ids["of t"]: (1000, 30_000)}))["VIEW TABLE"] == (None, None, False)


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT g FROM t UNION ALL SELECT g FROM u", 1010),
        ("SELECT id FROM t WHERE g IN (SELECT g FROM u)", 1000),
        ("SELECT g FROM u WHERE g IN (SELECT g FROM t)", 10),
        ("SELECT * FROM (VALUES (1), (2)) AS w", 2),
    ],
)
def test_guesses_follow_the_operators(query: str, rows: int) -> None:
    ids = deltas(plan_of_view(query))
    counts = {"of t": 1000, "of u": 10}
    plan = plan_of_view(query, {id_: (counts[of], 1) for of, id_ in ids.items()})
    assert states(plan)["VIEW TABLE"][0] == rows


def test_costs_say_what_a_row_of_each_table_reads() -> None:
    joined = plan_of_view(JOINED, {})
    (of_u,) = (o.name for o in joined.operators if o.name.startswith("REVERSE-JOIN") and "of DELTA" in o.text)
    assert joined.costs["t"].startswith(f"its partners in {of_u}; its group in PRE-AGGREGATION")
    assert "its least or greatest values" in joined.costs["u"] and of_u not in joined.costs["u"]
    assert plan_of_view("SELECT id FROM t", {}).costs == {"t": "nothing else"}
    assert "every row in REVERSE-JOIN" in plan_of_view("SELECT id FROM t, u", {}).costs["u"]
    assert plan_of_view(JOINED).costs == {}


def test_json_holds_all_that_the_text_says() -> None:
    plan = plan_of_view(JOINED, {}, "CREATE VIEW w AS SELECT n FROM t")
    read = json.loads(json.dumps(plan.json()))
    assert read["zones"] == ["base key", "(g)", "(name)"] and read["key"] == ["name"] and read["falls_back"] == []
    by_name = {each["name"]: each for each in read["operators"]}
    (table,) = (each for each in read["operators"] if each["text"] == "of t")
    assert (table["class"], table["way"], table["shared_with"], table["inputs"]) == ("by key", "native", ["w"], [])
    assert all(each["inputs"] or each["name"].startswith("DELTA") for each in by_name.values())


def test_a_picture_has_a_box_for_each_operator_and_an_arrow_for_each_input() -> None:
    plan = plan_of_view("SELECT id, g AS `a\"b` FROM t WHERE g < 'x#;\"'")
    lines = plan.mermaid().splitlines()
    assert lines[0] == "flowchart TD"
    assert sum("[" in line and "subgraph" not in line for line in lines) == len(plan.operators)
    assert sum("-->" in line for line in lines) == sum(len(o.inputs) for o in plan.operators)
    assert all(line.count('"') in (0, 2) for line in lines)


def test_nothing_in_a_text_ends_its_box() -> None:
    assert quoted('a "b" <c> `d` #e', "f\ng") == '"a #quot;b#quot; #lt;c#gt; #96;d#96; #35;e<br>f g"'
