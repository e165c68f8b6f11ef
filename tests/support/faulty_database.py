"""A stream database in which the queries of views fail where a test wants it."""

from __future__ import annotations

from stream_database import StreamDatabase, run_query
from viewkeeper.pipeline.driver import Maintainer
from viewkeeper.pipeline.local import LocalExecutor
from viewkeeper.pipeline.term import Term
from viewkeeper.streams.local import LocalRunner
from viewkeeper.streams.work import Outcome, QueryWork, Work
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.lock import DriverLock

INJECTED = "out of luck"


class FaultyDatabase(StreamDatabase):
    """`failing` holds (name of a view, part): while it is there, what computes that part fails.  A hidden helper has
    the name of its stream, "$" and "helper"."""

    failing: set[tuple[str, int]]

    def maintainer(self) -> Maintainer:
        lock = DriverLock(self.storage)
        lock.acquire("pipeline", 10.0)
        return Maintainer(Term(Storage(self.root), lock), self.store, _Executor(self))


class _Executor(LocalExecutor):
    def __init__(self, database: FaultyDatabase) -> None:
        super().__init__(database.servers)
        self.database = database

    def part_runner(self) -> LocalRunner:
        return _Runner(self.database)


class _Runner(LocalRunner):
    def __init__(self, database: FaultyDatabase) -> None:
        super().__init__(database.servers, run_query)
        self.database = database

    def run(self, work: Work) -> Outcome:
        view = self.database.catalog.by_id(work.program.outputs[0].object)
        assert view is not None
        name = view.name.rstrip("0123456789")
        unlucky = any((name, part) in self.database.failing for part in work.parts)
        return Outcome(error=INJECTED) if unlucky else super().run(work)

    def query(self, work: QueryWork) -> Outcome:
        unlucky = (work.view.name, work.part) in self.database.failing
        return Outcome(error=INJECTED) if unlucky else super().query(work)
