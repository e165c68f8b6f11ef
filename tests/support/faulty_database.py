"""A stream database in which the queries of views fail where a test wants it."""

from __future__ import annotations

from typing import Any

from stream_database import StreamDatabase, run_query
from viewkeeper.jobs.job import Job
from viewkeeper.pipeline.driver import Maintainer
from viewkeeper.pipeline.local_executor import LocalExecutor
from viewkeeper.pipeline.term import Term
from viewkeeper.stores.logs import Logs
from viewkeeper.streams.running import IntervalResult
from viewkeeper.streams.work import Outcome, PartWork, QueryWork
from viewkeeper.trace.local_disk import local_storage
from viewkeeper.trace.lock import driver_lock

INJECTED = "out of luck"


class FaultyDatabase(StreamDatabase):
    """`failing` holds (name of a view, part): while it is there, what computes that part fails.  A hidden helper has
    the name of its stream, "$" and "helper"."""

    failing: set[tuple[str, int]]

    def maintainer(self) -> Maintainer:
        lock = driver_lock(self.root)
        lock.acquire("pipeline", 10.0)
        return Maintainer(Term(local_storage(self.root), lock), Logs.of(self.store), _Executor(self))


class _Executor(LocalExecutor):
    def __init__(self, database: FaultyDatabase) -> None:
        super().__init__(database.servers, self.query)
        self.database = database

    def run(self, job: Job) -> list[Any]:
        if isinstance(job.work, PartWork):
            view = self.database.catalog.by_id(job.work.program.outputs[0].object)
            assert view is not None
            name = view.name.rstrip("0123456789")
            if any((name, part) in self.database.failing for part in job.work.parts):
                return [IntervalResult(error=INJECTED)]
        if isinstance(job.work, QueryWork) and self.is_unlucky(job.work):
            return [Outcome(error=INJECTED)]
        return super().run(job)

    def query(self, work: QueryWork) -> Outcome:
        return Outcome(error=INJECTED) if self.is_unlucky(work) else run_query(work)

    def is_unlucky(self, work: QueryWork) -> bool:
        return (work.view.name, work.part) in self.database.failing
