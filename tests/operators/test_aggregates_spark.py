"""Aggregates are Spark's: names, types and values, by group, over all rows and over none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from aggregate_queries import BY, JOINED, JOINED_ONCE, MOMENTS, OF_ALL_VALUES, REWRITTEN, ROWS, TABLE
from bags import bag
from compiler_catalog import catalog_of, query_of
from one_table import answered_twice, show
from viewkeeper.compiler.ties import extremes_settled
from viewkeeper.plans.relations import Relation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CATALOG = catalog_of(TABLE)
(SCAN,) = CATALOG.tables
BY_GROUP = "GROUP BY g"
NO_ROWS = "WHERE id > 100"


def ours(relation: Relation) -> list[tuple[Any, ...]]:
    return answered_twice(relation, SCAN, ROWS)


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> SparkSession:
    show(spark, SCAN, ROWS)
    return spark


@pytest.mark.parametrize("calls", [REWRITTEN + OF_ALL_VALUES, JOINED, *([call] for call in JOINED_ONCE)],
                         ids=["all", "joined", "once", "once desc"])  # fmt: skip
@pytest.mark.parametrize("rest", [BY_GROUP, NO_ROWS])
def test_what_is_exact_is_sparks(table: SparkSession, rest: str, calls: list[str]) -> None:
    text = f"SELECT {'g, ' if rest == BY_GROUP else ''}{', '.join(calls)} FROM t {rest}"
    relation = query_of(CATALOG, text).relation
    found = table.sql(text)
    assert [(c.name, str(c.type).lower(), c.nullable) for c in relation.columns] == [
        (f.name, f.dataType.simpleString(), f.nullable) for f in found.schema]  # fmt: skip
    assert bag(ours(relation)) == bag([tuple(row) for row in found.collect()])


@pytest.mark.parametrize("rest", [BY_GROUP, NO_ROWS])
def test_what_stands_beside_an_extreme_is_sparks_where_ties_are_settled(table: SparkSession, rest: str) -> None:
    """Of rows that are tied it is the least, or the greatest, value; Spark is told so by its text."""
    text = f"SELECT {'g, ' if rest == BY_GROUP else ''}{', '.join(BY)} FROM t {rest}"
    relation = query_of(CATALOG, text).relation
    named, found = table.sql(text), table.sql(extremes_settled(text))
    assert [(c.name, str(c.type).lower(), c.nullable) for c in relation.columns] == [
        (f.name, f.dataType.simpleString(), f.nullable) for f in named.schema]  # fmt: skip
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
