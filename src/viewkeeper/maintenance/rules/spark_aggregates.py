"""Aggregates that Spark computes are columns of the groups that it is asked about, and the others beside them are
computed by our own operators, joined by the keys.  Of a partition they are joined to its rows; of rows in an order
Spark lists what it says of each, with its key, and that is joined to the row.

Whether an error counts is decided where the aggregate stood, so that it is told with the place in the view's own text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from viewkeeper.catalog.types import BIGINT, BOOLEAN, array_of, struct_of
from viewkeeper.compiler.fields import field
from viewkeeper.compiler.outside_calls import column_of as argument_column
from viewkeeper.compiler.part_references import quoted
from viewkeeper.maintenance.rules.distinct_aggregates import column_of, joined_by_keys, joined_to_groups, of_all
from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.plans.expressions import ColumnRef, Literal
from viewkeeper.plans.outside import BY_SPARK, Kept, SparkAggregate
from viewkeeper.plans.relations import (
    AggregateCall,
    AskedGroups,
    AskedOver,
    Explode,
    GroupBy,
    InnerJoin,
    Project,
    Relation,
)


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
    joined = joined_by_keys(plain, asked, width) if width else InnerJoin(plain, asked, (_TRUE,), (_TRUE,), None)
    places = {call: width + i for i, call in enumerate(others)}
    places |= {call: len(plain.columns) + width + i for i, call in enumerate(by_spark)}
    wanted = [*range(width), *(places[i] for i in range(len(relation.calls)))]
    return Project(joined, tuple(column_of(joined, i) for i in wanted), relation.key_names + relation.call_names)


def _over(relation: AskedOver) -> Relation:
    """Calls with an order one by one, then those of the whole partition."""
    numbers = range(len(relation.calls))
    ordered = next((i for i in numbers if _asked_of(relation.calls[i]).over), None)
    chosen = [i for i in numbers if ordered in (None, i)]
    rest = [i for i in numbers if i not in chosen]
    rows = relation.input
    if rest:
        others = tuple(relation.call_names[i] for i in rest)
        told = tuple(relation.told[i] for i in rest)
        rows = replace(relation, calls=tuple(relation.calls[i] for i in rest), call_names=others, told=told)
    calls, names = [relation.calls[i] for i in chosen], [relation.call_names[i] for i in chosen]
    if ordered is not None:
        joined = _row_by_row(relation, rows, calls[0], relation.told[ordered])
    else:
        joined = _of_partitions(relation, calls, names)
    behind = len(joined.columns) - len(chosen)
    width = len(relation.input.columns)
    places = {i: width + n for n, i in enumerate(rest)} | {i: behind + n for n, i in enumerate(chosen)}
    wanted = [*range(width), *(places[i] for i in numbers)]
    outputs = (replace(column_of(joined, i), nullable=column.nullable)
               for i, column in zip(wanted, relation.columns, strict=True))  # fmt: skip
    return Project(joined, tuple(outputs), tuple(column.name for column in relation.columns))


def _asked_of(call: AggregateCall) -> SparkAggregate:
    assert isinstance(call.argument, SparkAggregate)
    return call.argument


def _groups(relation: AskedOver, calls: Sequence[AggregateCall], names: Sequence[str]) -> GroupBy:
    """A row for each partition, with what `calls` say of its rows."""
    keys = tuple(column_of(relation.input, i) for i in relation.partition)
    return GroupBy(relation.input, keys, tuple(key.name for key in keys), tuple(calls), tuple(names))


def _of_partitions(relation: AskedOver, calls: Sequence[AggregateCall], names: Sequence[str]) -> InnerJoin:
    groups = _groups(relation, calls, names)
    if not groups.keys:
        return InnerJoin(relation.input, groups, (_TRUE,), (_TRUE,), None)
    return joined_to_groups(relation.input, relation.partition, groups)


def _row_by_row(relation: AskedOver, rows: Relation, call: AggregateCall, key: tuple[int, ...]) -> InnerJoin:
    """`rows` with what is said of each: Spark lists it by partition, with the columns `key` of each row."""
    asked = _asked_of(call)
    told = [column_of(relation.input, i) for i in key]
    begin = len(asked.arguments)
    columns = [argument_column(begin + i, ref) for i, ref in enumerate(told)]
    fields = [f"{quoted(column.name)} AS k{i}" for i, column in enumerate(columns)]
    struct = struct_of((*((f"k{i}", ref.type) for i, ref in enumerate(told)), ("v", call.type)))
    listing = replace(asked, type=array_of(struct), arguments=(*asked.arguments, *told),
                      given=(*asked.given, *columns), told=", ".join(fields))  # fmt: skip
    groups = _groups(relation, [replace(call, argument=listing, type=listing.type, nullable=False)], ["rows"])
    # What tells rows apart may do so only within their partition.
    width = len(groups.keys)
    exploded = Explode(groups, width, False)
    partition = tuple(column_of(exploded, i) for i in range(width))
    element = column_of(exploded, width + 2)
    names = [*(f"k{i}" for i in range(len(told))), "v"]
    nullable = [*(ref.nullable for ref in told), call.nullable]
    values = (field(element, name, call.place) for name in names)
    outputs = tuple(replace(value, nullable=may) for value, may in zip(values, nullable, strict=True))
    listed = Project(exploded, (*partition, *outputs), (*(f"p{i}" for i in range(width)), *names))
    return joined_to_groups(rows, (*relation.partition, *key), listed)


_TRUE = Literal(BOOLEAN, False, None, True)

SPARK_AGGREGATES = Rule("aggregates by Spark", _apply)
