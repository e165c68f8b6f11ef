"""Aggregates that Spark computes are columns of the groups that it is asked about, and the others beside them are
computed by our own operators, joined by the keys.  Of a partition they are joined to its rows.

Whether an error counts is decided where the aggregate stood, so that it is told with the place in the view's own text.
"""

from __future__ import annotations

from viewkeeper.catalog.types import BIGINT, BOOLEAN
from viewkeeper.maintenance.rules.distinct_aggregates import column_of, joined_by_keys, joined_to_groups, of_all
from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.plans.expressions import ColumnRef, Literal
from viewkeeper.plans.outside import BY_SPARK, Kept, SparkAggregate
from viewkeeper.plans.relations import AggregateCall, AskedGroups, AskedOver, GroupBy, InnerJoin, Project, Relation


def _apply(relation: Relation) -> Relation | None:
    if isinstance(relation, AskedOver):
        return _over(relation)
    if not isinstance(relation, GroupBy):
        return None
    by_spark = [i for i, call in enumerate(relation.calls) if call.function == BY_SPARK]
    if not by_spark:
        return None
    others = [i for i in range(len(relation.calls)) if i not in by_spark]
    return _joined(relation, by_spark, others) if others else _asked(relation)


def _asked(relation: GroupBy) -> Project:
    calls = tuple(call.argument for call in relation.calls if isinstance(call.argument, SparkAggregate))
    asked = AskedGroups(relation.input, relation.keys, relation.key_names, calls)
    width = len(relation.keys)
    error = ColumnRef(BIGINT, False, None, width + len(calls), "error")

    def kept(number: int, call: AggregateCall) -> Kept:
        value = ColumnRef(call.type, call.nullable, call.place, width + number, "value")
        return Kept(call.type, call.nullable, call.place, value, error)

    keys = tuple(column_of(asked, i) for i in range(width))
    outputs = (*keys, *(kept(i, call) for i, call in enumerate(relation.calls)))
    return Project(asked, outputs, relation.key_names + relation.call_names)


def _joined(relation: GroupBy, by_spark: list[int], others: list[int]) -> Project:
    width = len(relation.keys)
    plain, asked = of_all(relation, others), of_all(relation, by_spark)
    true = Literal(BOOLEAN, False, None, True)
    joined = joined_by_keys(plain, asked, width) if width else InnerJoin(plain, asked, (true,), (true,), None)
    places = {call: width + i for i, call in enumerate(others)}
    places |= {call: len(plain.columns) + width + i for i, call in enumerate(by_spark)}
    wanted = [*range(width), *(places[i] for i in range(len(relation.calls)))]
    return Project(joined, tuple(column_of(joined, i) for i in wanted), relation.key_names + relation.call_names)


def _over(relation: AskedOver) -> Project:
    rows = relation.input
    keys = tuple(column_of(rows, i) for i in relation.partition)
    groups = GroupBy(rows, keys, tuple(key.name for key in keys), relation.calls, relation.call_names)
    true = Literal(BOOLEAN, False, None, True)
    joined = joined_to_groups(rows, relation.partition, groups)
    if not keys:
        joined = InnerJoin(rows, groups, (true,), (true,), None)
    width, behind = len(rows.columns), len(rows.columns) + len(keys)
    wanted = [*range(width), *(behind + i for i in range(len(relation.calls)))]
    names = tuple(column.name for column in relation.columns)
    return Project(joined, tuple(column_of(joined, i) for i in wanted), names)


SPARK_AGGREGATES = Rule("aggregates by Spark", _apply)
