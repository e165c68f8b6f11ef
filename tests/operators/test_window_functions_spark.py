"""Window functions are Spark's: names, types and values, with the order settled by the user and by us."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from bags import bag
from compiler_catalog import catalog_of, query_of
from one_table import answered_twice, show
from viewkeeper.compiler.bind import bind_rows_of_view
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.statements import SelectStatement
from viewkeeper.compiler.ties import settled
from viewkeeper.plans.relations import Relation
from window_queries import FRAMES, listed, window_functions
from window_queries import WHOLE as OF_ALL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLE = "CREATE TABLE t (id INT NOT NULL, g INT, a INT, d DOUBLE, p DECIMAL(10,2), s STRING, PRIMARY KEY (id))"
CATALOG = catalog_of(TABLE)
(SCAN,) = CATALOG.tables
ROWS = [
    (1, 0, 3, 0.5, Decimal("1.50"), "a"), (2, 0, 3, -0.0, None, None), (3, 0, None, 0.0, Decimal("-2.25"), "b"),
    (4, 1, 1, math.nan, Decimal("0.01"), ""), (5, 1, None, None, Decimal("9.99"), "b"), (6, 1, 2, math.inf, None, "ä"),
    (7, None, 3, 0.25, Decimal("1.50"), "a"), (8, None, -1, math.nan, Decimal("0.00"), None), (9, 2, 0, 4.0, None, "z"),
    (10, 0, 2, -math.inf, Decimal("1.50"), "B"), (11, 0, -1, 0.125, Decimal("3.10"), "b"),
]  # fmt: skip
PARTITIONS = ("PARTITION BY g", "")
ORDERS = ("d NULLS LAST", "a DESC", "s DESC NULLS FIRST")

CALLS = (
    "row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()", "ntile(3)", "lag(s)", "lead(p, 2)",
      "lag(a, 1, -1)", "lag(id, 1, 0)", "lead(a, -1)", "lag(a) IGNORE NULLS", "sum(p)", "avg(a)", "count(*)",
      "nth_value(p, 2) IGNORE NULLS", "max(s)", "first_value(id)", "sum(a) FILTER (WHERE g > 0)",
    "first(s)", "last(a)", "any_value(p)",
)  # fmt: skip

WHOLE = [
    "SELECT id, rank() OVER w AS r FROM t WINDOW w AS (ORDER BY a) QUALIFY r <= 3",
    "SELECT id, rank() OVER w AS r FROM t QUALIFY r = 1 WINDOW v AS (PARTITION BY g ORDER BY a DESC), w AS v",
    "SELECT g, count(*) AS n, sum(sum(a)) OVER (ORDER BY g) AS s, rank() OVER (ORDER BY count(*)) AS r FROM t "
    "GROUP BY g HAVING count(*) > 1 QUALIFY r < 3",
    "SELECT DISTINCT g, dense_rank() OVER (ORDER BY g) + 1 AS r, max(a) OVER (PARTITION BY s) AS m FROM t",
    "SELECT id, g + 1 AS h FROM t QUALIFY row_number() OVER (PARTITION BY h ORDER BY id) = 1",
    "SELECT id, row_number() OVER (PARTITION BY g ORDER BY 1) + lag(id, 1, 0) OVER (ORDER BY a) AS r FROM t",
]


def ours(relation: Relation) -> list[tuple[Any, ...]]:
    return answered_twice(relation, SCAN, ROWS)


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> SparkSession:
    show(spark, SCAN, ROWS)
    return spark


def asked(spark: SparkSession, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(text).collect()]


def test_values_are_sparks_over_every_frame(table: SparkSession) -> None:
    """Ties are settled by the key in the text that Spark gets; where they cannot be, in the query itself."""
    written = []
    for function in window_functions(PARTITIONS, ORDERS):
        text = settled_text(f"SELECT {function} AS f FROM t")
        if text is None:
            frame = next((each for each in (" ROWS", " RANGE") if each in function), ")")
            function = function.replace(frame, f", id{frame}", 1) if frame != ")" else f"{function[:-1]}, id)"
            text = settled_text(f"SELECT {function} AS f FROM t")
        assert text is not None
        written.append((function, text.removeprefix("SELECT ").removesuffix(" AS f FROM t")))
    mine = query_of(CATALOG, f"SELECT id, {listed([function for function, _ in written])} FROM t").relation
    theirs = asked(table, f"SELECT id, {listed([text for _, text in written])} FROM t")
    for row, other in zip(sorted(ours(mine)), sorted(theirs), strict=True):
        for (function, _), one, two in zip(written, row[1:], other[1:], strict=True):
            assert bag([[one]]) == bag([[two]]), (function, row[0], one, two)


def settled_text(query: str) -> str | None:
    (statement,) = parse_script(query)
    assert isinstance(statement, SelectStatement)
    relation = bind_rows_of_view(CATALOG, statement)
    return settled(statement.query, relation, len(relation.columns))


def test_names_types_and_nullability_are_sparks(table: SparkSession) -> None:
    windows = ("(PARTITION BY g, s ORDER BY a + 1 DESC, d NULLS LAST)", "w", "(w)")
    every = [f"{call} OVER {windows[i % 3]}" for i, call in enumerate(CALLS)]
    every += [f"{call} OVER (PARTITION BY g)" for call in OF_ALL]
    every += [f"sum(a) OVER (PARTITION BY g {frame})" for frame in ("", "ROWS 2 PRECEDING")]
    every += [f"sum(a) OVER (ORDER BY id {frame})" for frame in FRAMES[1:]]
    text = f"SELECT {', '.join(every)}, rank() OVER w + 1, -lag(a) OVER w FROM t WINDOW w AS (ORDER BY id)"
    ours = [(c.name, str(c.type).lower(), c.nullable) for c in query_of(CATALOG, text).relation.columns]
    spark = [(f.name, f.dataType.simpleString(), f.nullable) for f in table.sql(text).schema]
    assert ours == spark


@pytest.mark.parametrize("query", WHOLE)
def test_queries_with_windows_are_sparks(table: SparkSession, query: str) -> None:
    text = settled_text(query)
    assert text is not None
    assert bag(ours(query_of(CATALOG, query).relation)) == bag(asked(table, text))


def test_variances_are_sparks_but_for_their_last_digits(table: SparkSession) -> None:
    """Ours are exact; Spark's depend on the order of its rows."""
    calls = [f"{call} OVER ({by}{frame})" for call in ("stddev(d)", "var_pop(a)", "var_samp(p)", "stddev_pop(a + d)")
             for by, frame in (("PARTITION BY g", ""), ("ORDER BY id ", "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING"),
                               ("ORDER BY a ", "RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING"))]  # fmt: skip
    query = f"SELECT id, {listed(calls)} FROM t"
    for mine, theirs in zip(sorted(ours(query_of(CATALOG, query).relation)), sorted(asked(table, query)), strict=True):
        for call, one, two in zip(["id", *calls], mine, theirs, strict=True):
            same = one is two or (one is not None and two is not None and (one != one) == (two != two))
            assert same and (one is None or one != one or math.isclose(one, two, rel_tol=1e-12)), (call, mine[0])
