"""Rules of rewriting: each says the same as before, errors included, on rows that reach all its cases."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import fields, is_dataclass

import pytest

from bags import bag
from compiler_catalog import catalog_of, query_of
from viewkeeper.checker.row_evaluator import Answer, evaluate
from viewkeeper.evaluation import constant_folding
from viewkeeper.maintenance.rules.computed_columns import COMPUTED_COLUMNS
from viewkeeper.maintenance.rules.computed_on import COMPUTED_ON
from viewkeeper.maintenance.rules.rewriter import RULES, rewritten
from viewkeeper.maintenance.rules.spark_aggregates import SPARK_AGGREGATES
from viewkeeper.plans.expressions import Expression, operands
from viewkeeper.plans.relations import Filter, InnerJoin, OuterJoin, Relation
from viewkeeper.plans.rewriting import conjuncts

CATALOG = catalog_of("CREATE TABLE a (i INT, k INT, x INT); CREATE TABLE b (j INT, k INT, y INT)")
VALUES = (None, 0, 1, 2)
A = [(n, *row) for n, row in enumerate(itertools.product(VALUES, VALUES))]
B = [(n, *row) for n, row in enumerate(itertools.product((None, 0, 2), VALUES))]

KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")
ON = ("a.k = b.k", "a.k = b.k AND a.x > 0", "a.k = b.k AND b.y > 0", "a.k = b.k AND a.x > b.y AND b.y < 2 AND a.x < 2",
      "1 / a.k = b.k", "a.k = b.k AND 1 / b.y > 0 AND a.x > 0")  # fmt: skip
WHERE_LEFT = ("a.x > 0", "a.x IS NULL", "a.k + a.x > 1", "1 / a.x > 0 AND a.k > 0", "a.k > 0 AND 1 / a.x > 0")
WHERE_BOTH = ("b.y > 0", "b.y IS NOT NULL", "b.y IS NULL", "coalesce(b.y, 1) = 1", "b.y <=> NULL", "NOT b.y > 1",
              "b.y IN (1, 2)", "b.y + 1.5D > a.x", "- b.y > -2L", "a.x > 0 AND b.y > 0", "a.x = 1 OR b.y = 1",
              "b.y > 0 AND 1 / a.x > 0")  # fmt: skip


def relation_of(sql: str) -> Relation:
    return query_of(CATALOG, sql).relation


def answer(relation: Relation) -> tuple[Counter[object], set[object]]:
    a, b = CATALOG.tables
    found = evaluate(relation, {a.id: Answer(A), b.id: Answer(B)})
    return bag(found.rows), {(error.code, error.place) for error in found.errors}


def joins() -> list[str]:
    queries = []
    for kind, on in itertools.product(KINDS, ON):
        one_sided = kind in ("SEMI JOIN", "ANTI JOIN")
        for where in (None, *WHERE_LEFT, *(() if one_sided else WHERE_BOTH)):
            columns = "a.i, a.x" if one_sided else "a.i, b.j, a.x, b.y"
            queries.append(f"SELECT {columns} FROM a {kind} b ON {on}" + (f" WHERE {where}" if where else ""))
    return queries


def test_what_is_rewritten_says_the_same_and_every_rule_was_used() -> None:
    used: Counter[str] = Counter()
    raised = 0
    groups = ["SELECT k, sum(x / 2), count(x) FROM a GROUP BY k", "SELECT 1 / k, max(x) FROM a GROUP BY 1 / k",
              "SELECT k, sum(1 / x) FROM a WHERE k > 0 GROUP BY k",
              "SELECT k, count(DISTINCT x), sum(x), sum(DISTINCT 1 / x) FROM a GROUP BY k",
              "SELECT count(DISTINCT x, k), count(*), max(DISTINCT x) FROM a", "SELECT bit_or(x) FROM a",
              "SELECT k, median(1 / x), count(*), median(DISTINCT x) FROM a GROUP BY k"]  # fmt: skip
    sets = [f"SELECT k, x FROM a {operation}{all_} SELECT k, y FROM b" for operation in ("INTERSECT", "EXCEPT")
            for all_ in ("", " ALL")]  # fmt: skip
    subqueries = ["SELECT i FROM a WHERE EXISTS (SELECT * FROM b WHERE b.k = a.k) AND a.x > 0",
                  "SELECT i FROM a WHERE k IN (SELECT y FROM b) AND k NOT IN (SELECT y FROM b WHERE y > 1)",
                  "SELECT i, (SELECT sum(y) FROM b WHERE b.k = a.k) AS s FROM a WHERE 1 / a.x > 0",
                  "SELECT i, (SELECT y FROM b WHERE b.k = a.k) AS s FROM a", "SELECT i, j FROM a, b WHERE a.k <=> b.k",
                  "SELECT i, j FROM a LEFT JOIN b ON a.k <=> b.k AND a.x > b.y"]  # fmt: skip
    branches = "(a.k = b.k AND a.x = 1 AND b.y > 0) OR (b.y < 2 AND a.k = b.k AND a.x > 1)"
    ors = [f"SELECT i, j FROM a, b WHERE {branches}", f"SELECT i, j FROM a JOIN b ON {branches}",
           f"SELECT i, j FROM a LEFT JOIN b ON {branches}",
           "SELECT i, j FROM a, b WHERE a.k = b.k OR (a.k = b.k AND x > 0)",
           "SELECT i, j FROM a, b WHERE (a.k = b.k AND 1 / a.x > 0) OR (a.k = b.k AND b.y > 0)",
           "SELECT i FROM a WHERE (x > 0 AND k = 1) OR (x > 0 AND k = 2) OR x > 0 AND k IS NULL"]  # fmt: skip
    constants = ["SELECT i, j FROM a JOIN b ON a.k = b.k WHERE b.y < 1 + 1 AND x > 0",
                 "SELECT i FROM a WHERE x > 1 / 0 AND k > 0", "SELECT sum(x + (1 + 1)) FROM a",
                 "SELECT i FROM a WHERE k IN (SELECT y FROM b WHERE y < 1 + 1)"]  # fmt: skip
    windows = [
        "SELECT i FROM a QUALIFY row_number() OVER (PARTITION BY k ORDER BY x) <= 2 AND 1 / x > 0",
        "SELECT i FROM a QUALIFY 1 / x > 0 AND rank() OVER (ORDER BY x) IN (1, 2)",
        "SELECT i FROM (SELECT i, dense_rank() OVER (ORDER BY x) AS r FROM a) WHERE r BETWEEN 1 AND 2",
    ]
    for sql in (*joins(), *groups, *sets, *subqueries, *ors, *constants, *windows):
        before = relation_of(sql)
        after, names = rewritten(before, "UTC")
        assert answer(after) == answer(before), (sql, names)
        assert rewritten(after, "UTC")[1] == (), f"{sql} is rewritten further when it is rewritten again"
        used.update(names)
        raised += bool(answer(before)[1])
    of_others = {COMPUTED_COLUMNS.name, COMPUTED_ON.name, SPARK_AGGREGATES.name}
    rules = {constant_folding.NAME, *(rule.name for rule in RULES)} - of_others
    assert set(used) == rules and raised > 100  # only Spark and Python compute what the others are about


@pytest.mark.parametrize(("kind", "where", "becomes"), [
    ("LEFT", "b.y > 0", "INNER"), ("LEFT", "a.x > 0", "LEFT"), ("RIGHT", "a.x > 0", "INNER"),
    ("FULL", "b.y = 1", "RIGHT"), ("FULL", "a.x IS NOT NULL", "LEFT"), ("FULL", "a.x = b.y", "INNER"),
    ("LEFT", "b.y IS NULL", "LEFT"), ("LEFT", "b.y > 0 AND 1 / a.x > 0", "LEFT"),
])  # fmt: skip
def test_what_an_outer_join_becomes(kind: str, where: str, becomes: str) -> None:
    relation = rewritten(relation_of(f"SELECT a.i, b.j FROM a {kind} JOIN b ON a.k = b.k WHERE {where}"), "UTC")[0]
    while not isinstance(relation, (InnerJoin, OuterJoin)):
        relation = relation.input  # type: ignore[attr-defined]
    assert (relation.kind if isinstance(relation, OuterJoin) else "INNER") == becomes


def test_a_condition_on_the_side_without_preserved_rows_leaves_no_condition() -> None:
    relation = rewritten(relation_of("SELECT a.i FROM a LEFT JOIN b ON a.k = b.k AND b.y > 0"), "UTC")[0]
    join = relation.input  # type: ignore[attr-defined]
    assert isinstance(join, OuterJoin) and join.condition is None and isinstance(join.right, Filter)


def test_a_key_in_every_branch_of_an_or_is_the_joins() -> None:
    sql = "SELECT i, j FROM a, b WHERE (a.k = b.k AND a.x = 1) OR (b.y = 1 AND a.k = b.k) OR (a.k = b.k AND b.y = 2)"
    relation = rewritten(relation_of(sql), "UTC")[0]
    join = relation.input.input  # type: ignore[attr-defined]
    assert isinstance(join, InnerJoin) and len(join.left_keys) == 1


def test_a_constant_in_the_databases_zone_is_computed_there() -> None:
    """A day in Berlin has 23 hours when summer time begins."""
    sql = "SELECT i FROM a WHERE x > 0 AND TIMESTAMP '2024-03-30 12:00:00+01:00' + INTERVAL 1 DAY > DATE '2024-01-01'"
    hours = []
    for zone in ("UTC", "Europe/Berlin"):
        relation = rewritten(relation_of(sql), zone)[0]
        test = conjuncts(relation.input.predicate)[1]  # type: ignore[attr-defined]
        hours.append(test.children()[0].value.hour)  # type: ignore[attr-defined]
    assert hours == [11, 10]


def test_what_is_walked_is_all_that_expressions_and_relations_hold() -> None:
    """Fields are left out by their names, whatever class they are of."""
    waiting: list[type] = [Expression, Relation]
    for class_ in waiting:
        waiting += class_.__subclasses__()
        for field in fields(class_) if is_dataclass(class_) else ():
            held = re.search("Expression|Relation|Literal|ColumnRef|SparkAggregate|AggregateCall", str(field.type))
            assert not held or field.name in operands(class_), f"{class_.__name__}.{field.name} is not walked"
