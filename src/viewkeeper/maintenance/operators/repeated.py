"""Repeat: each row as often as a number in it says (linear)."""

from __future__ import annotations

import numpy as np

from viewkeeper.evaluation.evaluate import evaluate
from viewkeeper.maintenance.task import Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.trace.rows import Rows


def run(operator: plan.Repeated, task: Task) -> None:
    """Multiplies the weights."""
    rows = task.streams.get(operator.input)
    if rows is None or not len(rows):
        return
    times, errors = evaluate(operator.times, rows.columns, len(rows), zone=task.program.zone)
    assert errors is None, "numbers of rows are counted, not computed"
    more = np.maximum(times.fill_null(0).to_numpy(), 0)
    columns = rows.columns[: len(operator.columns)]  # A table may have got more since.
    task.streams[operator.id] = Rows(columns, rows.weights * more).filter(more > 0)
