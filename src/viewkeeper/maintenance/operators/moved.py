"""Move: the rows of an earlier zone, so that a stream of this zone can be put beside them (linear)."""

from __future__ import annotations

from viewkeeper.maintenance.task import Task
from viewkeeper.plans import maintenance as plan


def run(operator: plan.Moved, task: Task) -> None:
    """Takes the rows as they came."""
    arrived = task.arrived(task.program.exchanges[operator.exchange])
    if arrived is not None:
        task.streams[operator.id] = arrived.rows.select(range(len(operator.columns)))
