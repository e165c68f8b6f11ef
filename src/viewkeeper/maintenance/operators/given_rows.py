"""Source: rows given from outside."""

from __future__ import annotations

from viewkeeper.maintenance.task import Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.trace.rows import Rows


def run(operator: plan.GivenRows, task: Task) -> None:
    """Takes the rows of the object as they are."""
    sent = task.inbox.get(f"delta:{operator.object}")
    if sent:
        task.streams[operator.id] = Rows.concat([s.rows for s in sent])
