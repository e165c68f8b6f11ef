"""ARRIVALS: the rows that come to the parts of a stream, and go with expired parts where a view wants that."""

from __future__ import annotations

from viewkeeper.maintenance.task import Sent, Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.trace.rows import Rows


def came(object_: int, timed: bool) -> str:
    """The target of signed rows of parts that are there, PART_TIMESTAMP last where `timed`."""
    return f"came{':timed' * timed}:{object_}"


def expired(object_: int, timed: bool) -> str:
    """The target of the rows of parts that have expired, with weights below 0."""
    return f"expired{':timed' * timed}:{object_}"


def run(operator: plan.Arrivals, task: Task) -> None:
    """Yields what came, and what has expired where that is wanted."""
    given: list[Sent] = [*task.inbox.get(came(operator.object, operator.timed), ())]
    if operator.forgets:
        given += task.inbox.get(expired(operator.object, operator.timed), ())
    if given:
        task.streams[operator.id] = Rows.concat([sent.rows for sent in given])
