"""Exchange: rows on their way to the view server that owns their key in a later zone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewkeeper.evaluation import exact, exact_product
from viewkeeper.evaluation.evaluate import evaluate
from viewkeeper.maintenance.task import Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.exchange import Exchange
from viewkeeper.plans.expressions import ColumnRef
from viewkeeper.trace.grouping import group_rows
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.keys import canonical, with_null
from viewkeeper.trace.rows import Rows


def send(item: Exchange, source: plan.Operator, rows: Rows, task: Task) -> None:
    """Computes the outputs of `rows`, hashes the key, sums up by group where the exchange is partial, and sends."""
    values = rows.columns[source.member :]
    outputs = [
        values[e.index] if isinstance(e, ColumnRef) else evaluate(e, values, len(rows), zone=task.program.zone)[0]
        for e in item.outputs
    ]
    outputs[: item.key] = [canonical(column) for column in outputs[: item.key]]
    columns = [*rows.columns[: source.member], *outputs]
    key = columns[: item.key + source.member]
    hashes = hash_columns(key, len(rows))
    if item.partial is not None:
        rows, hashes = _summed(item, Rows(columns, rows.weights), len(key), hashes)
        task.context.send(f"x:{item.id}", rows, hashes)
        return
    if all(isinstance(user, plan.ReverseJoin) for user in task.program.users(source.id) if _fed_by(user, item)):
        hashes = _spread_nulls(key, columns, hashes)
    task.context.send(f"x:{item.id}", Rows(columns, rows.weights), hashes)


def _fed_by(operator: plan.Operator, item: Exchange) -> bool:
    return plan.exchange_of(operator) == item.id


def _spread_nulls(key: list[pa.Array], columns: list[pa.Array], hashes: np.ndarray) -> np.ndarray:
    """Rows with a NULL in their join key meet nobody: they are placed by the whole row, not all on one server."""
    if not any(column.null_count for column in key):
        return hashes
    return np.where(with_null(key, len(hashes)), hash_columns(columns, len(hashes)), hashes)


def _summed(item: Exchange, rows: Rows, key: int, hashes: np.ndarray) -> tuple[Rows, np.ndarray]:
    """One row a group: the key, how many rows, and for each running argument how many are not NULL, and their sum."""
    groups = group_rows(hashes, rows.columns[:key])
    firsts = pa.array(groups.firsts)
    weights = rows.weights[groups.order]
    order = pa.array(groups.order)
    columns = [column.take(firsts) for column in rows.columns[:key]]
    columns.append(pa.array(np.add.reduceat(weights, groups.starts)))
    assert item.partial is not None
    for running in item.partial:
        column = rows.columns[running.argument + item.member].take(order)
        columns.append(pa.array(np.add.reduceat(counted(column, weights), groups.starts)))
        if running.sum:
            columns += exact.lift_reduce(column, weights, groups.starts, running.type)
        for other in running.products:
            beside = rows.columns[other + item.member].take(order)
            columns.append(exact_product.lift_reduce(column, beside, weights, groups.starts))
    return Rows(columns, np.ones(len(groups.starts), dtype=np.int64)), hashes[groups.firsts]


def counted(column: pa.Array, weights: np.ndarray) -> np.ndarray:
    """The weight of each row whose value is not NULL, else 0."""
    if not column.null_count:
        return weights
    return np.where(column.is_valid().to_numpy(zero_copy_only=False), weights, 0)
