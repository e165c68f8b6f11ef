"""REVERSE-JOIN: one side of joins, by join key (paper 000, section 5)."""

from __future__ import annotations

from viewkeeper.maintenance.task import Arrived, Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.trace.arrange import arrange


def run(operator: plan.ReverseJoin, task: Task) -> None:
    """Adds the batch's changes to the state, and leaves them for the joins of this zone."""
    arrived = task.arrived(task.program.exchanges[operator.exchange])
    if arrived is None:
        return
    side = Arrived(arrived.rows.select(operator.outputs), arrived.hashes, operator.key)
    side.__dict__["groups"] = arrived.groups  # the same keys in the same order: sorted once for all operators
    _, side.arranged = arrange(operator.state, side.rows)
    task.sides[operator.id] = side
    task.write(operator.state, side.arranged)
