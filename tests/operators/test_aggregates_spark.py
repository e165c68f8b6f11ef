"""Aggregates are Spark's: names, types and values, by group, over all rows and over none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from aggregate_queries import MOMENTS, OF_ALL_VALUES, REWRITTEN, ROWS, TABLE
from bags import bag
from compiler_catalog import catalog_of, query_of
from viewkeeper.catalog.types import logical_type, to_logical, to_physical
from viewkeeper.checker.row_evaluator import Answer, evaluate
from viewkeeper.maintenance.ad_hoc import run_query
from viewkeeper.plans.relations import Relation
from viewkeeper.trace.rows import Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CATALOG = catalog_of(TABLE)
(SCAN,) = CATALOG.tables
BY_GROUP = "GROUP BY g"
NO_ROWS = "WHERE id > 100"


def ours(relation: Relation) -> list[tuple[Any, ...]]:
    """What our operators and the checker say, which is the same."""
    columns = [pa.array([row[i] for row in ROWS], logical_type(c.type)) for i, c in enumerate(SCAN.columns)]
    physical = [to_physical(array, c.type) for array, c in zip(columns, SCAN.columns, strict=True)]
    found = run_query(relation, lambda id_: Rows(physical, np.ones(len(ROWS), dtype=np.int64))).repeated()
    logical = [to_logical(array, c.type).to_pylist() for array, c in zip(found.columns, relation.columns, strict=True)]
    rows = list(zip(*logical, strict=True))
    judged = evaluate(relation, {SCAN.id: Answer(ROWS)})
    assert not judged.errors and bag(rows) == bag(judged.rows)
    return rows


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> SparkSession:
    types = ", ".join(f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in SCAN.columns)
    spark.createDataFrame(ROWS, types).coalesce(1).createOrReplaceTempView("t")
    return spark


@pytest.mark.parametrize("rest", [BY_GROUP, NO_ROWS])
def test_what_is_exact_is_sparks(table: SparkSession, rest: str) -> None:
    text = f"SELECT {'g, ' if rest == BY_GROUP else ''}{', '.join(REWRITTEN + OF_ALL_VALUES)} FROM t {rest}"
    relation = query_of(CATALOG, text).relation
    found = table.sql(text)
    assert [(c.name, str(c.type).lower(), c.nullable) for c in relation.columns] == [
        (f.name, f.dataType.simpleString(), f.nullable) for f in found.schema]  # fmt: skip
    assert bag(ours(relation)) == bag([tuple(row) for row in found.collect()])


@pytest.mark.parametrize("rest", [BY_GROUP, NO_ROWS])
def test_moments_are_sparks_but_for_rounding(table: SparkSession, rest: str) -> None:
    text = f"SELECT {'g, ' if rest == BY_GROUP else ''}{', '.join(MOMENTS)} FROM t {rest}"
    relation = query_of(CATALOG, text).relation
    found = table.sql(text)
    assert [(c.name, str(c.type).lower(), c.nullable) for c in relation.columns] == [
        (f.name, f.dataType.simpleString(), f.nullable) for f in found.schema]  # fmt: skip
    for row, other in zip(sorted(ours(relation), key=str), sorted(map(tuple, found.collect()), key=str), strict=True):
        for column, one, two in zip(relation.columns, row, other, strict=True):
            overflown = two is not None and math.isinf(two)  # squares on Spark's way may
            near = overflown or one == two or one == pytest.approx(two, rel=1e-9, nan_ok=True)
            assert near, (column.name, row[0], one, two)


def test_those_over_windows_are_sparks(table: SparkSession) -> None:
    over = "OVER (PARTITION BY g ORDER BY id ROWS 1 PRECEDING)"
    calls = ("count_if(b)", "every(b)", "some(b)", "count(i, d)", "regr_count(l, i)", "mean(i)", "regr_avgx(i, l)")
    text = f"SELECT id, {', '.join(f'{call} {over}' for call in calls)} FROM t"
    relation = query_of(CATALOG, text).relation
    found = table.sql(text)
    assert [column.name for column in relation.columns] == found.columns
    assert bag(ours(relation)) == bag([tuple(row) for row in found.collect()])
