"""Runs jobs in this process, each view server after the other: for tests, and for the work of one moment."""

from __future__ import annotations

import itertools

from viewkeeper.errors import Error
from viewkeeper.pipeline import blocks, tasks
from viewkeeper.pipeline.job import Job, MergeJob
from viewkeeper.streams.analyst import Analyst
from viewkeeper.streams.local import LocalRunner
from viewkeeper.streams.work import Runner
from viewkeeper.trace.receipt import Receipt


class LocalExecutor:
    """Runs the same tasks as Spark does, rows crossing as the same blocks."""

    def __init__(self, servers: int = 1) -> None:
        self.servers = servers

    def run(self, job: Job) -> list[Receipt]:
        """What the tasks of `job` wrote."""
        if job.servers == 1:
            return [tasks.run_chain(job)]
        sealed: dict[int, list[bytes]] = {}
        for zone in job.zones:
            outgoing: dict[int, list[bytes]] = {}
            for server in range(job.servers):
                for receiver, parcel in tasks.run_zone(job, zone, server, sealed.get(server, ())):
                    outgoing.setdefault(receiver, []).append(parcel)
            sealed = outgoing
        return blocks.receipts(blocks.open_all(itertools.chain.from_iterable(sealed.values())))

    def merge(self, job: MergeJob) -> Receipt:
        """What the merge wrote."""
        return tasks.run_merge(job)

    def part_runner(self) -> Runner:
        """Generated views in this process; ViewDFs need Spark."""
        return LocalRunner(self.servers)

    def analyst(self) -> Analyst:
        """There is none without Spark."""
        raise Error("the queries of INITIALIZE and UPDATE are analysed by Spark, and this driver runs without it")

    def close(self) -> None:
        """Nothing was started."""
