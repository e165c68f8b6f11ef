"""What Spark's Python workers run of a job.  Apart from the executor, since each of them imports it when it starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from viewkeeper.jobs.collections import of_this_worker
from viewkeeper.jobs.job import StageTask, Work
from viewkeeper.spark.processes import leave_interrupts_to_the_driver


def first_stage(work: Work, task: StageTask, numbers: Iterable[int]) -> Iterator[tuple[int, Any]]:
    """The tasks `numbers`, which are sent nothing."""
    leave_interrupts_to_the_driver()
    of_this_worker.spare()
    for number in numbers:
        yield from task(work, number, ())


def later_stage(work: Work, task: StageTask, number: int, sent: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """The task `number`, and what was sent to it."""
    leave_interrupts_to_the_driver()
    of_this_worker.spare()
    yield from task(work, number, (parcel for _, parcel in sent))


def itself(number: int) -> int:
    """The partition of a parcel is its receiver's number."""
    return number
