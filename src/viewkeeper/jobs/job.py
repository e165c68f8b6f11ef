"""`Job`: what an executor runs, whatever it is for: stages of tasks, with parcels between their view servers.

A job is plain and picklable and says all that its tasks need: a task holds nothing between jobs, may run in any process
of any machine, and may be run again.  Batches, steps of fills, merges, and parts of views over streams are such jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

StageTask = Callable[[Any, int, Iterable[Any]], Iterable[tuple[int, Any]]]
"""A view server's share of a stage: called with the job's work, the server's number, and the parcels that it was sent
(none in the first stage), it yields parcels, each with the number of its receiver in the next stage."""


class Work(Protocol):
    """What is to be computed, as data."""

    @property
    def title(self) -> str:
        """What Spark's user interface shows."""


@dataclass(frozen=True)
class Stage:
    """So many tasks, numbered from 0."""

    tasks: int
    run: StageTask


@dataclass(frozen=True)
class Job:
    """Stages, one after the other; what the last one's tasks yield is the result."""

    work: Work
    stages: tuple[Stage, ...]

    @staticmethod
    def of_one_task(work: Work, run: Callable[[Any], Any]) -> Job:
        """The job whose only result is `run(work)`."""
        return Job(work, (Stage(1, _Alone(run)),))


@dataclass(frozen=True)
class _Alone:
    run: Callable[[Any], Any]

    def __call__(self, work: Any, number: int, parcels: Iterable[Any]) -> Iterable[tuple[int, Any]]:
        yield number, self.run(work)


class Executor(Protocol):
    """Runs jobs; several threads may call it at once."""

    servers: int
    """How many view servers share a large job: tasks, on whichever machines they run."""

    def run(self, job: Job) -> list[Any]:
        """What the tasks of the last stage yielded, in the order of their numbers."""
