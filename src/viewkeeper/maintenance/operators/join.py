"""Join: inner equi-join of two REVERSE-JOINs.  Bilinear: d(A x B) = dA x (B + dB) + A x dB, over the states before.

Self joins are no special case: both sides may be one state.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewkeeper.maintenance.task import Arrived, Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.trace.keys import with_null
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.trace import Trace


def run(operator: plan.Join, task: Task) -> None:
    """Matches each side's changes with the other side."""
    sides = [task.program.operators[operator.left], task.program.operators[operator.right]]
    left, right = task.sides.get(operator.left), task.sides.get(operator.right)
    parts = []
    if left is not None:
        there = _state(sides[1], task)
        if right is not None and right.arranged is not None:
            there = there.with_rows(right.arranged)
        parts.append(_pairs(operator, 0, left, there))
    if right is not None:
        parts.append(_pairs(operator, 1, right, _state(sides[0], task)))
    if parts:
        task.streams[operator.id] = Rows.concat(parts)


def _state(operator: plan.Operator, task: Task) -> Trace:
    assert isinstance(operator, plan.ReverseJoin)
    return task.context.trace(operator.state)


def _pairs(operator: plan.Join, side: int, changed: Arrived, there: Trace) -> Rows:
    """The join of the changes of `side` (0 left, 1 right) with the other side's rows `there`."""
    other = [position for which, position in operator.outputs if which != side]
    groups = np.flatnonzero(~with_null(changed.group_keys, len(changed.group_hashes)))
    index = pa.array(groups)
    probe, met = there.matches(
        changed.group_hashes[groups], [key.take(index) for key in changed.group_keys], columns=other
    )  # fmt: skip
    mine, theirs = _expand(changed, groups[probe])
    weights = changed.rows.weights[mine] * met.weights[theirs]
    mine_index, theirs_index = pa.array(mine), pa.array(theirs)
    columns, at = [], 0
    for which, position in operator.outputs:
        if which == side:
            columns.append(changed.rows.columns[position].take(mine_index))
        else:
            columns.append(met.columns[at].take(theirs_index))
            at += 1
    return Rows(columns, weights)


def _expand(changed: Arrived, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For matches that belong to the groups `group`: all pairs (row of the changes, match)."""
    starts = changed.groups.starts
    times = changed.groups.lengths[group]
    theirs = np.repeat(np.arange(len(group)), times)
    within = np.arange(len(theirs)) - np.repeat(np.cumsum(times) - times, times)
    mine = changed.groups.order[np.repeat(starts[group], times) + within]
    return mine, theirs
