"""Store: a view table or an index (paper 000: view tables)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewkeeper.maintenance.task import Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.trace.grouping import group_rows
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.keys import canonical
from viewkeeper.trace.rows import Rows


def run(operator: plan.ViewTable, task: Task) -> None:
    """Writes the input's changes: as they are to a weighted state, the newest row of each key to a keyed one."""
    rows = task.streams.get(operator.input)
    if rows is None or not len(rows):
        return
    rows = rows.select(operator.positions)
    key = operator.state.key
    rows = Rows([*(canonical(c) for c in rows.columns[:key]), *rows.columns[key:]], rows.weights)
    task.context.count("view changes", len(rows))
    task.write(operator.state, newest(rows, key) if operator.state.kind == "keyed" else rows)


def newest(rows: Rows, key: int) -> Rows:
    """One row a key, for a keyed state: the row that came, or a tombstone where one only went.

    `rows` hold at most one row of each key that went and at most one that came.
    """
    hashes = hash_columns(rows.columns[:key], len(rows))
    groups = group_rows(hashes, rows.columns[:key])
    came = np.where(rows.weights[groups.order] > 0, np.arange(len(rows)), -1)
    last = np.maximum.reduceat(came, groups.starts)
    live = last >= 0
    chosen = groups.order[np.where(live, last, groups.starts)]
    index = pa.array(chosen)
    values = index if live.all() else pa.array(chosen, mask=~live)
    columns = [c.take(index) for c in rows.columns[:key]] + [c.take(values) for c in rows.columns[key:]]
    return Rows(columns, live.astype(np.int64), hashes[groups.firsts])
