"""explode and its kin give Spark's rows, and are columns where they stand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from bags import bag
from compiler_catalog import catalog_of, query_of
from viewkeeper.catalog.types import logical_type, to_logical, to_physical
from viewkeeper.checker.row_evaluator import Answer, evaluate
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.maintenance.ad_hoc import run_query
from viewkeeper.plans.relations import Relation, Windows
from viewkeeper.plans.subqueries import relations_in
from viewkeeper.trace.rows import Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CATALOG = catalog_of(
    "CREATE TABLE t (id INT PRIMARY KEY, s STRING, a ARRAY<INT>, m MAP<STRING, DOUBLE>, "
    "o ARRAY<STRUCT<x: INT, y: STRING>>, n ARRAY<ARRAY<INT>>)"
)
(TABLE,) = CATALOG.tables
ROWS: list[tuple[Any, ...]] = [
    (1, "a,b", [1, None, 3], [("k", 1.0), ("j", None)], [{"x": 1, "y": "p"}, None, {"x": None, "y": None}], [[1], []]),
    (2, None, [], [], [], [None, [2, None]]), (3, "", None, None, None, None),
    (4, ",", [7, 7], [("", float("nan"))], [{"x": 4, "y": None}] * 2, [[], []]),
]  # fmt: skip

QUERIES = [
    "SELECT explode(a) FROM t", "SELECT id, explode_outer(a) AS e FROM t",
    "SELECT posexplode(a), s FROM t WHERE id < 4",
    "SELECT posexplode_outer(a) AS (p, e), id + 1 AS n FROM t", "SELECT explode(m) FROM t",
    "SELECT id, explode_outer(m) AS (k, v) FROM t", "SELECT inline(o), id FROM t", "SELECT inline_outer(o) FROM t",
    "SELECT id, explode(o.x) AS x FROM t",
    "SELECT stack(2, id, s, id + 1) AS (n, s) FROM t", "SELECT stack(3, id, id * 2) FROM t",
    "SELECT explode(array(id, id + 10, NULL)) AS e, s FROM t", "SELECT DISTINCT explode(a) AS e FROM t",
    "SELECT id, e FROM t LATERAL VIEW explode(a) AS e",
    "SELECT * FROM (SELECT id, a FROM t) x LATERAL VIEW explode(a) y",
    "SELECT t.id, y.e, p FROM t LATERAL VIEW OUTER posexplode(a) y AS p, e WHERE e > 1 OR p IS NULL",
    "SELECT id, k, v FROM t LATERAL VIEW explode(m) AS k, v WHERE id <> 4",
    "SELECT id, sum(e) AS total, count(*) AS n FROM t LATERAL VIEW explode(n) AS i LATERAL VIEW OUTER explode(i) AS e "
    "GROUP BY id HAVING count(*) > 0",
    "SELECT id, x, e FROM t LATERAL VIEW inline(o) i LATERAL VIEW explode(array(x, id)) z AS e WHERE y IS NULL",
    "SELECT t.id, l.e FROM t, LATERAL explode(a) AS l(e)", "SELECT t.id, l.col FROM t JOIN LATERAL explode(a) l",
    "SELECT b.id, e FROM t JOIN t AS b ON t.id = b.id - 1 LATERAL VIEW explode(b.a) AS e",
    "SELECT b.id, e FROM t, t AS b LATERAL VIEW explode(t.a) AS e WHERE t.id = b.id AND b.id < 3",
    "SELECT id FROM t WHERE 7 IN (SELECT e FROM t LATERAL VIEW explode(a) AS e) AND id > 2",
    "SELECT e, row_number() OVER (ORDER BY e, id) AS r FROM t LATERAL VIEW explode(a) AS e WHERE e IS NOT NULL",
    "SELECT c.e FROM (SELECT id, explode(a) AS e FROM t) c JOIN t ON t.id = c.e ORDER BY 1 LIMIT 2",
    "SELECT posexplode(CASE WHEN id = 1 THEN a ELSE array(0) END) AS (p, e) FROM t ORDER BY e, p LIMIT 3",
]  # fmt: skip


def ours(relation: Relation) -> list[tuple[Any, ...]]:
    """What our operators and the checker say, which is the same."""
    types = [column.type for column in TABLE.columns]
    logical = [pa.array([row[i] for row in ROWS], logical_type(type_)) for i, type_ in enumerate(types)]
    physical = [to_physical(array, type_) for array, type_ in zip(logical, types, strict=True)]
    found = run_query(relation, lambda id_: Rows(physical, np.ones(len(ROWS), dtype=np.int64))).repeated()
    held = [physical[i] if type_.is_nested else logical[i] for i, type_ in enumerate(types)]
    judged = evaluate(relation, {TABLE.id: Answer(list(zip(*(each.to_pylist() for each in held), strict=True)))})
    answer = list(zip(*(to_logical(array, c.type).to_pylist()
                        for array, c in zip(found.columns, relation.columns, strict=True)), strict=True))  # fmt: skip
    plain = not any(column.type.is_nested for column in relation.columns)
    assert not judged.errors and (not plain or bag(answer) == bag(judged.rows))
    return answer


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> Iterator[SparkSession]:
    columns = [pa.array([row[i] for row in ROWS], logical_type(c.type)) for i, c in enumerate(TABLE.columns)]
    types = ", ".join(f"{column.name} {column.type}" for column in TABLE.columns)
    frame = spark.createDataFrame(pa.table(columns, [c.name for c in TABLE.columns]), types)
    frame.coalesce(1).cache().createOrReplaceTempView("t")
    yield spark
    spark.catalog.clearCache()


@pytest.mark.parametrize("query", QUERIES)
def test_generators_give_sparks_rows(table: SparkSession, query: str) -> None:
    """Of NULL, of nothing, of elements that are NULL, of structs and maps; one behind another, and in what reads it."""
    bound = query_of(CATALOG, query)
    found = table.sql(query)
    assert [column.name for column in bound.relation.columns[: bound.visible]] == found.columns
    if bound.limit is None and not any(column.type.is_nested for column in bound.relation.columns):
        assert bag(ours(bound.relation)) == bag([tuple(row) for row in found.collect()])


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT explode(a) + 1 FROM t", "stands alone"),
        ("SELECT explode(a), count(*) FROM t GROUP BY a", "beside aggregates"),
        ("SELECT posexplode(m) FROM t", "place of a map's entry"),
        ("SELECT explode(s) FROM t", "takes an ARRAY or MAP"),
        ("SELECT stack(id, 1) FROM t", "constant number"),
        ("SELECT explode(array(sum(id))) FROM t", "cannot stand in a generator"),
        ("SELECT id FROM t JOIN LATERAL explode(a) l(e) ON e = id", "put it into WHERE"),
        ("SELECT id FROM t LEFT JOIN LATERAL explode(a) l(e)", "LATERAL"),
        ("SELECT id FROM t LATERAL VIEW inline(o)", "a name"),
        ("SELECT id FROM t, LATERAL (SELECT 1)", "LATERAL"), ("SELECT explode(a) AS (k, v) FROM t", "gives 1 columns"),
    ],
)  # fmt: skip
def test_what_is_not_ours_is_refused_in_its_place(query: str, message: str) -> None:
    """So that Spark is asked, where it may know it."""
    with pytest.raises(DeclarationError, match=message):
        query_of(CATALOG, query)
    assert issubclass(NotSupported, DeclarationError)


def test_spark_is_not_asked_for_the_place_of_an_element() -> None:
    """Which tells rows apart here: the text that Spark gets for windows over what is exploded has no such name."""
    query = "SELECT e, row_number() OVER (ORDER BY e) AS r FROM t LATERAL VIEW explode(a) l AS e"
    (windows,) = [each for each in relations_in(query_of(CATALOG, query).relation) if isinstance(each, Windows)]
    assert windows.settled is None
