"""Window functions that no kernel knows: what Spark is asked of the rows of a partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from viewkeeper.compiler.bind_over import WindowedCall
from viewkeeper.compiler.outside_calls import column_of
from viewkeeper.compiler.part_references import quoted
from viewkeeper.errors import NotSupported
from viewkeeper.plans.expressions import ColumnRef
from viewkeeper.plans.outside import BY_SPARK, SparkAggregate
from viewkeeper.plans.relations import AggregateCall, AskedOver, Frame, Order, Relation
from viewkeeper.plans.text import term_text


def asked_over(
    relation: Relation, partition: tuple[int, ...], key: tuple[int, ...] | None,
    calls: Sequence[tuple[WindowedCall, tuple[Order, ...]]],
) -> AskedOver:  # fmt: skip
    """`relation` with what Spark says to `calls`, each with its order, OVER the partitions; `key` tells its rows apart.

    Raises NotSupported where it is not settled which rows are in a frame, or rows cannot be told apart.
    """
    made = tuple(AggregateCall(BY_SPARK, _asked(relation, partition, key, *each), each[0].type, each[0].nullable,
                               each[0].place) for each in calls)  # fmt: skip
    return AskedOver(relation, partition, made, tuple(call.name for call, _ in calls), key)


def _asked(
    relation: Relation, partition: tuple[int, ...], key: tuple[int, ...] | None, call: WindowedCall,
    order: tuple[Order, ...],
) -> SparkAggregate:  # fmt: skip
    (asked,) = call.arguments
    assert isinstance(asked, SparkAggregate)
    frame = call.form.frame
    if (frame.start, frame.end) == (None, None) or (frame.unit == "RANGE" and not order):
        return asked
    place = call.place or (None, None)
    columns = relation.columns
    if key is None or any(columns[i].type.is_interval or columns[i].type.is_nested for i in key):
        raise NotSupported(f"{asked.name} OVER an order needs rows that a key tells apart", *place)
    if frame.unit == "ROWS" and not set(key) <= {*partition, *(term.index for term in order)}:
        raise NotSupported(f"which rows are in a frame of {asked.name} is chance; order by a key too", *place)
    ordered = [(o.index, columns[o.index]) for o in order]
    refs = [ColumnRef(column.type, column.nullable, None, i, column.name) for i, column in ordered]
    names = [quoted(column_of(len(asked.arguments) + i, ref).name) for i, ref in enumerate(refs)]
    terms = ", ".join(term_text(f"{name} ASC" if o.ascending else name, o.ascending, o.nulls_first)
                      for name, o in zip(names, order, strict=True))  # fmt: skip
    by = f" ORDER BY {terms}" if terms else ""
    return replace(asked, arguments=(*asked.arguments, *refs), over=f"(PARTITION BY key{by} {_frame_text(frame)})")


def _frame_text(frame: Frame) -> str:
    start, end = _bound_text(frame.start, "PRECEDING"), _bound_text(frame.end, "FOLLOWING")
    return f"{frame.unit} BETWEEN {start} AND {end}"


def _bound_text(bound: int | None, open_: str) -> str:
    if bound is None:
        return f"UNBOUNDED {open_}"
    return "CURRENT ROW" if bound == 0 else f"{abs(bound)} {'PRECEDING' if bound < 0 else 'FOLLOWING'}"
