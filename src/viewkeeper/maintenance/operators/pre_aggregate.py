"""PRE-AGGREGATION: running counts, sums and extremes of each group (paper 000, section 5).

Counts and sums are linear.  MIN and MAX are by key: the current one stands in the state, and the values are searched
again only where it was deleted (`extremes`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.evaluation import exact, exact_product
from viewkeeper.maintenance.operators import extremes
from viewkeeper.maintenance.operators.exchange import counted
from viewkeeper.maintenance.task import Arrived, GroupChanges, Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.kept_calls import Running
from viewkeeper.trace.keys import equal_rows
from viewkeeper.trace.rows import Rows


def run(operator: plan.PreAggregate, task: Task) -> None:
    """Adds the batch's changes to the groups they touch; leaves the groups that changed for `Aggregate`s."""
    exchange = task.program.exchanges[operator.exchange]
    arrived = task.arrived(exchange)
    if arrived is None:
        return
    key = operator.state.key
    behind = list(range(key, len(operator.state.columns)))
    found, before = task.context.trace(operator.state).lookup(
        arrived.group_hashes, arrived.group_keys, columns=behind
    )  # fmt: skip
    columns = _Columns(operator, before)
    after = (
        _partials(columns, arrived, key)
        if exchange.partial is not None
        else _rows(columns, arrived, task, exchange.member)
    )
    exists = (after[0].to_numpy() > 0) | operator.always
    changed = (found != exists) | (exists & ~equal_rows(after, before))
    index = np.flatnonzero(changed)
    changes = _taken(GroupChanges(arrived.group_keys, found, exists, before, after), index)
    task.changes[operator.id] = changes
    live = pa.array(np.arange(len(changes)), mask=~changes.exists)
    values = changes.after if changes.exists.all() else [column.take(live) for column in changes.after]
    words = arrived.group_hashes[index]
    task.write(operator.state, Rows([*changes.keys, *values], changes.exists.astype(np.int64), words))


class _Columns:
    """The state's columns behind the key before the batch: `rows`, then of each running argument its count, the columns
    of its sum and sums of products, its smallest and its greatest value, as far as they are kept."""

    def __init__(self, operator: plan.PreAggregate, before: list[pa.Array]) -> None:
        self.rows = before[0]
        self.running: list[tuple[Running, pa.Array, list[pa.Array], pa.Array | None, pa.Array | None]] = []
        at = 1
        for item in operator.running:
            count, at = before[at], at + 1
            width = len(item.linear)
            sums, at = before[at : at + width], at + width
            smallest, at = (before[at], at + 1) if item.smallest else (None, at)
            greatest, at = (before[at], at + 1) if item.greatest else (None, at)
            self.running.append((item, count, sums, smallest, greatest))


def _rows(columns: _Columns, arrived: Arrived, task: Task, member: bool) -> list[pa.Array]:
    """The state's columns after changes that came as rows."""
    weights, starts = arrived.sorted_weights, arrived.groups.starts
    order = pa.array(arrived.groups.order)
    after = [_added(columns.rows, np.add.reduceat(weights, starts))]
    for item, count, sums, smallest, greatest in columns.running:
        values = arrived.rows.columns[item.argument + member].take(order)
        after.append(_added(count, np.add.reduceat(counted(values, weights), starts)))
        if item.sum:
            width = len(item.sums)
            after += exact.add(sums[:width], exact.lift_reduce(values, weights, starts, item.type), item.type)
        for other, product in zip(item.products, sums[len(item.sums) :], strict=True):
            beside = arrived.rows.columns[other + member].take(order)
            after.append(exact_product.add(product, exact_product.lift_reduce(values, beside, weights, starts)))
        if item.ordered is not None:
            after += extremes.after(item, arrived, values, smallest, greatest, task)
    return after


def _partials(columns: _Columns, arrived: Arrived, key: int) -> list[pa.Array]:
    """The state's columns after changes that came summed up by group."""
    starts = arrived.groups.starts
    order = pa.array(arrived.groups.order)
    given = [column.take(order) for column in arrived.rows.columns[key:]]
    after = [_added(columns.rows, np.add.reduceat(given[0].to_numpy(), starts))]
    at = 1
    for item, count, sums, _, _ in columns.running:
        after.append(_added(count, np.add.reduceat(given[at].to_numpy(), starts)))
        at += 1
        width = len(item.sums)
        if item.sum:
            after += exact.add(sums[:width], exact.reduce(given[at : at + width], starts, item.type), item.type)
        for product, more in zip(sums[width:], given[at + width : at + len(sums)], strict=True):
            after.append(exact_product.add(product, exact_product.reduce(more, starts)))
        at += len(sums)
    return after


def _added(before: pa.Array, more: np.ndarray) -> pa.Array:
    return pa.array(pc.fill_null(before, 0).to_numpy() + more)


def _taken(changes: GroupChanges, index: np.ndarray) -> GroupChanges:
    if len(index) == len(changes):
        return changes
    at = pa.array(index)
    return GroupChanges(
        [c.take(at) for c in changes.keys], changes.existed[index], changes.exists[index],
        [c.take(at) for c in changes.before], [c.take(at) for c in changes.after],
    )  # fmt: skip
