"""Runs jobs in this process, each task after the other: for tests, and for the work of one moment."""

from __future__ import annotations

from typing import Any

from viewkeeper.errors import Error
from viewkeeper.jobs.job import Job
from viewkeeper.pipeline.work import Answers
from viewkeeper.streams.analyst import Analyst
from viewkeeper.streams.work import Queries


class LocalExecutor:
    """Runs the same tasks as Spark does, rows crossing as the same parcels; `queries` and `answers` stand in for Spark
    SQL."""

    def __init__(
        self, servers: int = 1, queries: Queries | None = None, answers: Answers | None = None
    ) -> None:  # fmt: skip
        self.servers, self.queries, self.answers = servers, queries, answers

    def run(self, job: Job) -> list[Any]:
        """What the tasks of the last stage yielded."""
        sent: dict[int, list[Any]] = {}
        yielded: list[tuple[int, Any]] = []
        for stage in job.stages:
            tasks = [stage.run(job.work, number, sent.get(number, ())) for number in range(stage.tasks)]
            yielded = [each for task in tasks for each in task]
            sent = {}
            for receiver, parcel in yielded:
                sent.setdefault(receiver, []).append(parcel)
        return [result for _, result in yielded]

    def analyst(self) -> Analyst:
        """There is none without Spark."""
        raise Error("the queries of INITIALIZE and UPDATE are analysed by Spark, and this driver runs without it")

    def close(self) -> None:
        """Nothing was started."""
