"""Semi join: the rows of one REVERSE-JOIN whose key another has, or (anti) has not.

By key, quicker than the general way: which rows a key has matters only where it came to be there, or is there no more;
else the changes of its rows are the changes of the answer.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import physical_type
from viewkeeper.maintenance.operators.keyed_rows import TouchedKeys, touched
from viewkeeper.maintenance.task import Arrived, Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.trace import Trace


def run(operator: plan.SemiJoin, task: Task) -> None:
    """Hands on the left's changes where the key matches as wanted; all its rows where that has changed."""
    left, right = task.sides.get(operator.left), task.sides.get(operator.right)
    if left is None and right is None:
        return
    keys, numbers = touched([left, right], nulls=False)
    before = _counts(keys, _trace(operator.right, task))
    after = before if right is None else before + _changes(right, numbers[1], len(keys))
    was, now = (before > 0) != operator.anti, (after > 0) != operator.anti
    parts = []
    if left is not None:
        # The last one is for rows with a NULL in their key, whose number is -1: they match nothing.
        passing = np.append(now, operator.anti)
        of_row = np.empty(len(left.rows), dtype=np.int64)
        of_row[left.groups.order] = numbers[0][left.group_of]
        parts.append(left.rows.filter(passing[of_row]))
    turned = np.flatnonzero(was != now)
    if len(turned):
        chosen = TouchedKeys(keys.hashes[turned], [column.take(pa.array(turned)) for column in keys.columns])
        key, rows = _trace(operator.left, task).matches(chosen.hashes, chosen.columns)
        parts.append(Rows(rows.columns, np.where(now[turned][key], rows.weights, -rows.weights)))
    if parts:
        task.streams[operator.id] = Rows.concat([_shown(operator, part) for part in parts])


def _trace(id_: int, task: Task) -> Trace:
    reverse = task.program.operators[id_]
    assert isinstance(reverse, plan.ReverseJoin)
    return task.context.trace(reverse.state)


def _counts(keys: TouchedKeys, trace: Trace) -> np.ndarray:
    """How many rows the trace has of each key."""
    key, rows = trace.matches(keys.hashes, keys.columns, columns=[])
    return _summed(key, rows.weights, len(keys))


def _changes(side: Arrived, numbers: np.ndarray, length: int) -> np.ndarray:
    """By how many rows each key changes."""
    changes = np.add.reduceat(side.sorted_weights, side.groups.starts)
    known = numbers >= 0
    return _summed(numbers[known], changes[known], length)


def _summed(key: np.ndarray, weights: np.ndarray, length: int) -> np.ndarray:
    sums = np.zeros(length, dtype=np.int64)
    np.add.at(sums, key, weights)
    return sums


def _shown(operator: plan.SemiJoin, rows: Rows) -> Rows:
    """The output columns, NULLs in place of the other side's."""
    columns = [
        rows.columns[position] if side == 0 else pa.nulls(len(rows), physical_type(column.type))
        for (side, position), column in zip(operator.outputs, operator.columns, strict=True)
    ]
    return Rows(columns, rows.weights)
