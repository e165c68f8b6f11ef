"""Spark's answer to a whole query: what it has lost since the last answer goes, what is new comes.

What went is taken from the answer that is kept, and never computed again: another version of Spark may say something
else.  Each view server compares the rows whose hashes it owns.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import ERRORS
from viewkeeper.maintenance.operators.keyed_rows import consolidated
from viewkeeper.maintenance.task import Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.rows import Rows


def target(operator: plan.SparkAnswer) -> str:
    """Where the answer is sent: every view server gets a share, though it may have no rows."""
    return f"answer:{operator.id}"


def error_text(code: str, place: tuple[int, int] | None, message: str) -> str:
    """What stands in the state's last column where the query raised."""
    return json.dumps([code, f"{place[0]}:{place[1]}" if place else "", message])


def run(operator: plan.SparkAnswer, task: Task) -> None:
    """Yields the difference to the answer before."""
    sent = task.inbox.get(target(operator))
    if not sent:
        return
    before = task.context.trace(operator.state).scan(None, *task.context.owned)
    rows = Rows.concat([*(share.rows for share in sent), Rows(before.columns, -before.weights)])
    _, changed = consolidated(rows, hash_columns(rows.columns, len(rows)))
    if not len(changed):
        return
    task.write(operator.state, changed)
    raised = changed.columns[-1].is_valid().to_numpy(zero_copy_only=False)
    if raised.any():
        _raise(operator, task, changed.filter(raised))
    task.streams[operator.id] = Rows(changed.columns[:-1], changed.weights).filter(~raised)


def _raise(operator: plan.SparkAnswer, task: Task, rows: Rows) -> None:
    """Error rows, in place of an answer, for every view that reads it."""
    codes, places, messages = zip(*map(json.loads, rows.columns[-1].to_pylist()), strict=True)
    texts = [pa.array(each, pa.large_string()) for each in (codes, places, messages)]
    for view in task.program.dependents(operator.id, None):
        task.context.write(ERRORS, Rows([pa.array(np.full(len(rows), view)), *texts], rows.weights))
