"""Pick: the rows of one view of a family.  Linear."""

from __future__ import annotations

import numpy as np

from viewkeeper.maintenance.task import Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.trace.rows import Rows


def run(operator: plan.Pick, task: Task) -> None:
    """Keeps the wanted member's rows, without the member column."""
    rows = task.streams.get(operator.input)
    if rows is not None:
        mine = rows.take(np.flatnonzero(rows.columns[0].to_numpy() == operator.wanted))
        task.streams[operator.id] = Rows(mine.columns[1:], mine.weights)
