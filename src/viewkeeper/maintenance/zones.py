"""Zones: runs a program's operators over what arrived, zone by zone.

A zone's operators run in plan order; each takes the streams of its inputs and leaves its own, which exchanges send on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import physical_type
from viewkeeper.maintenance.operators import (
    aggregate,
    arrivals,
    by_key,
    constants,
    delta,
    exchange,
    exploded,
    given_rows,
    join,
    memo,
    moved,
    pick,
    pre_aggregate,
    recall,
    repeated,
    reverse_join,
    select,
    semi_join,
    spark_answer,
    spark_groups,
    store,
    union,
)
from viewkeeper.maintenance.task import Context, Sent, Task
from viewkeeper.maintenance.zone_programs import ZonePrograms
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.exchange import Exchange
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.rows import Rows

_RUN: dict[type, Callable[[Any, Task], None]] = {
    plan.GivenRows: given_rows.run, plan.Delta: delta.run,
    plan.Arrivals: arrivals.run, plan.Select: select.run, plan.Pick: pick.run,
    plan.PreAggregate: pre_aggregate.run, plan.Aggregate: aggregate.run, plan.ReverseJoin: reverse_join.run,
    plan.Join: join.run, plan.SemiJoin: semi_join.run, plan.Union: union.run, plan.ByKey: by_key.run,
    plan.ViewTable: store.run, plan.ConstantRows: constants.run, plan.Moved: moved.run, plan.Repeated: repeated.run,
    plan.Exploded: exploded.run, plan.SparkAnswer: spark_answer.run, plan.SparkGroups: spark_groups.run,
    plan.Memo: memo.run, plan.Recall: recall.run,
}  # fmt: skip


class OperatorFailed(RuntimeError):
    """A defect: an operator's code raised.  The message names the operator in the way that `failed_operator` finds."""


def failed_operator(message: str) -> int | None:
    """The id of the operator whose failure `message` reports; Spark hands errors on as text."""
    found = re.search(r"operator (\d+) failed: ", message)
    return int(found.group(1)) if found else None


def run_zone(program: ZonePrograms, zone: int, inbox: dict[str, list[Sent]], context: Context) -> Task:
    """Runs all operators of `zone` over what arrived; writes and sends through `context`."""
    task = Task(program, context, inbox)
    if zone == 1 and context.seed:
        _seed(program, context)
    for operator in program.in_zone(zone):
        try:
            _RUN[type(operator)](operator, task)
        except Exception as error:  # whatever it is, it is this operator's, and views that do not need it may go on
            raise OperatorFailed(f"operator {operator.id} failed: {type(error).__name__}: {error}") from error
        rows = task.streams.get(operator.id)
        if rows is not None and len(rows):
            for item in program.exchanges_from(operator.id):
                exchange.send(item, operator, rows, task)
    return task


def _seed(program: ZonePrograms, context: Context) -> None:
    """Touches the one group of each global aggregate, so that it has its row over no input as well."""
    for operator in program.operators.values():
        if isinstance(operator, plan.PreAggregate | plan.SparkGroups) and operator.always:
            fed = program.operators[operator.input] if isinstance(operator, plan.SparkGroups) else operator
            assert isinstance(fed, plan.PreAggregate | plan.ReverseJoin)
            item = program.exchanges[fed.exchange]
            members = [pa.array(program.member_ids(), pa.int32())] if item.member else []
            length = len(members[0]) if item.member else 1
            rows = Rows([*members, *_nothing(item, length)], np.zeros(length, dtype=np.int64))
            context.send(f"x:{item.id}", rows, hash_columns(members, length))


def _nothing(item: Exchange, length: int) -> list[pa.Array]:
    """The exchange's columns behind the key, for groups to which nothing is added."""
    if item.partial is None:
        return [pa.nulls(length, physical_type(e.type)) for e in item.outputs]
    zero = pa.array(np.zeros(length, np.int64))
    columns = [zero]
    for running in item.partial:
        columns += [zero, *(pa.nulls(length, physical_type(type_)) for type_ in running.linear)]
    return columns
