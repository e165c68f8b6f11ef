"""SPARK GROUPS: what Spark says of all rows of a group, asked anew for the groups that a batch touches.

What was said is kept by the group's key: it goes as it was said, and is never computed again.  A batch costs the rows
of the groups that it touches, by way of Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewkeeper.maintenance.operators.keyed_rows import KeyedRows, TouchedKeys, consolidated, touched
from viewkeeper.maintenance.task import Arrived, Sent, Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.exchange import Exchange
from viewkeeper.trace.arrange import arrange
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.keys import canonical
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.trace import Trace


def target(operator: plan.SparkGroups) -> str:
    """Where answers are sent: rows of the state."""
    return f"group:{operator.id}"


@dataclass(frozen=True)
class TouchedGroups:
    """The groups that a batch touches, and their rows with it; `there` are the numbers of those that there are."""

    operator: plan.SparkGroups
    keys: TouchedKeys
    there: np.ndarray
    rows: KeyedRows

    def answered(self, values: Sequence[pa.Array], errors: np.ndarray) -> Sent:
        """The rows of the state of those that there are, with what was said of each of them."""
        there = pa.array(self.there)
        first = pa.array(np.searchsorted(self.rows.key, self.there))
        met = [column.take(there) for column in self.keys.columns]
        keys = [canonical(self.rows.rows.columns[i].take(first)) for i in self.operator.keys]
        columns = [*met, *keys, *map(canonical, values), pa.array(errors)]
        return Sent(Rows(columns, np.ones(len(there), np.int64)), self.keys.hashes[self.there])


def touched_groups(
    operator: plan.SparkGroups, reverse: plan.ReverseJoin, exchange: Exchange, sent: Sequence[Sent], trace: Trace,
    known: Trace,
) -> TouchedGroups | None:  # fmt: skip
    """What the rows `sent` through the exchange of the REVERSE-JOIN touch, where they change anything: `trace` is its
    state, and `known` what Spark has said by then."""
    rows = Rows.concat([each.rows for each in sent]).select(reverse.outputs)
    _, arranged = arrange(reverse.state, rows)
    keys = _keys_of([arranged], reverse.key)
    if operator.always and not len(keys) and not known.rows:
        keys = TouchedKeys(hash_columns([], 1), [])
    if not len(keys):
        return None
    held = keys.rows_of(trace.with_rows(arranged))
    order = np.argsort(held.key, kind="stable")
    held = KeyedRows(held.key[order], held.rows.take(order))
    there = np.arange(len(keys)) if operator.always else np.unique(held.key)
    return TouchedGroups(operator, keys, there, held)


def _keys_of(parts: Sequence[Rows], key: int) -> TouchedKeys:
    arrived = [Arrived(rows, hash_columns(rows.columns[:key], len(rows)), key) for rows in parts]
    return touched(arrived, nulls=True)[0]


def run(operator: plan.SparkGroups, task: Task) -> None:
    """The rows of the touched groups that go, as Spark said them, and those that come."""
    reverse = task.program.operators[operator.input]
    assert isinstance(reverse, plan.ReverseJoin)
    side, given = task.sides.get(operator.input), task.inbox.get(target(operator), [])
    changed = [side.arranged] if side is not None and side.arranged is not None else []
    came = [each.rows for each in given]
    if not changed and not came:
        return
    key = reverse.key
    keys = _keys_of([*(rows.select(range(key)) for rows in changed), *(rows.select(range(key)) for rows in came)], key)
    before = keys.rows_of(task.context.trace(operator.state)).rows
    rows = Rows.concat([Rows(before.columns, -before.weights), *came])
    _, rows = consolidated(rows, hash_columns(rows.columns, len(rows)))
    task.write(operator.state, rows)
    task.streams[operator.id] = Rows(rows.columns[key:], rows.weights)
