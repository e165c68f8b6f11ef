"""Constants: the rows of VALUES, or the one row of a SELECT without FROM (linear: they never change)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewkeeper.evaluation.evaluate import evaluate
from viewkeeper.maintenance.task import Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.trace.rows import Rows


def run(operator: plan.ConstantRows, task: Task) -> None:
    """Hands the rows on where a view is filled from nothing, in one task."""
    if not task.context.seed:
        return
    columns = []
    for i, _ in enumerate(operator.columns):
        values = [evaluate(row[i], (), 1)[0] for row in operator.rows]
        columns.append(pa.concat_arrays(values))
    task.streams[operator.id] = Rows(columns, np.ones(len(operator.rows), dtype=np.int64))
