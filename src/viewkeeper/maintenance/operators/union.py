"""Union: the rows of several streams of one zone, all of them (linear)."""

from __future__ import annotations

from viewkeeper.maintenance.task import Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.trace.rows import Rows


def run(operator: plan.Union, task: Task) -> None:
    """Puts the inputs' changes together."""
    width = range(len(operator.columns))  # A table may have got more since.
    parts = [task.streams[input_].select(width) for input_ in operator.inputs if input_ in task.streams]
    if parts:
        task.streams[operator.id] = Rows.concat(parts)
