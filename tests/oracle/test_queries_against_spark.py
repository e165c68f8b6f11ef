"""Random views and histories against Spark itself; `python -m oracle.against_spark` makes thousands of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from drawn import examples
from memory_engine import MemoryEngine
from oracle.against_spark import Pairs, coverage, pairs
from oracle.model import Case, TableSchema
from three_tables import BATCHES, TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_random_queries_with_a_history_are_what_spark_says(spark: SparkSession) -> None:
    """After every batch; most answers have rows, and most are judged by Spark."""
    reached = pairs(spark, examples(80), seed=7)
    print(coverage(reached))
    assert reached["judged by spark"] > reached["answers"] / 2 and reached["with rows"] > reached["answers"] / 4


GROUPED = (
    "SELECT k, s, sum(x) AS t, count(*) AS n FROM a GROUP BY ROLLUP (k, s)",
    "SELECT s, k, grouping_id() AS i, grouping(k) AS g, max(x) AS m FROM a GROUP BY CUBE (s, k)",
    "SELECT k + 1 AS k1, grouping_id(k, x) AS i, k, x FROM a GROUP BY GROUPING SETS ((k, x), x, (), ()) HAVING k > 0",
    "SELECT k, y, sum(y) AS t FROM b GROUP BY k, GROUPING SETS (y, CUBE (y, s))",
    "SELECT s, count(DISTINCT x) AS n, sum(k) AS t FROM a GROUP BY ROLLUP (1) ORDER BY 1, 2, 3 LIMIT 100",
)


EXISTING = (
    "SELECT k, x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k LIMIT 1)",
    "SELECT k, x FROM a WHERE NOT EXISTS (SELECT y FROM b WHERE b.k = a.k AND y > 0 ORDER BY y LIMIT 3)",
    "SELECT k, EXISTS (SELECT y FROM b LIMIT 10) AS e FROM a",
)


@pytest.mark.spark
@pytest.mark.parametrize("queries", [GROUPED, EXISTING], ids=["grouped", "existing"])
def test_queries_of_a_kind_are_what_spark_says(spark: SparkSession, queries: tuple[str, ...]) -> None:
    """All sets of keys, and LIMIT in EXISTS, over empty tables, NULL in keys, and until the last row has gone."""
    catalog = MemoryEngine(TABLES).catalog
    schemas = tuple(TableSchema(table.name, table.columns, table.key) for table in catalog.tables)
    views = tuple(f"CREATE VIEW v{i} AS {query}" for i, query in enumerate(queries))
    done = Pairs(spark)
    done.run(Case(schemas, views, BATCHES), 2, 0)
    assert done.reached["judged by spark"] == done.reached["answers"] and done.number == len(queries)
