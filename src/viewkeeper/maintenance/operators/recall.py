"""RECALL: rows with what a MEMO says of each.  Linear."""

from __future__ import annotations

from viewkeeper.maintenance.task import Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.trace.rows import Rows


def run(operator: plan.Recall, task: Task) -> None:
    """The rows that arrived, and two columns more: the value, and the error."""
    memo = task.program.operators[operator.memo]
    assert isinstance(memo, plan.Memo)
    arrived = task.arrived(task.program.exchanges[memo.exchange])
    if arrived is None:
        return
    columns = [arrived.rows.columns[i] for i in operator.outputs]
    task.streams[operator.id] = Rows([*columns, *task.answers[memo.id]], arrived.rows.weights)
