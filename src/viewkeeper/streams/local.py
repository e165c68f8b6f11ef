"""Runs works in this process, each view server after the other: for tests, and where there is no Spark."""

from __future__ import annotations

import time
from collections.abc import Callable

from viewkeeper.errors import Error
from viewkeeper.streams.calling import ProgramFailed
from viewkeeper.streams.own_queries import is_own, own_query
from viewkeeper.streams.preparing import gathered, is_direct, prepare_tasks, run_prepare, servers_for
from viewkeeper.streams.running import combined, run_interval
from viewkeeper.streams.work import Outcome, QueryWork, Work


class LocalRunner:
    """Does what `SparkRunner` has Spark do, rows crossing as the same bytes.

    `query_runner` computes what needs Spark SQL; without it, such works are refused.
    """

    def __init__(self, servers: int = 1, query_runner: Callable[[QueryWork], Outcome] | None = None) -> None:
        self.servers = servers
        self._query_runner = query_runner

    def run(self, work: Work) -> Outcome:
        """Computes parts of a generated view."""
        started = time.perf_counter()
        servers = servers_for(work, self.servers)
        if is_direct(work, servers):
            return combined(work, [run_interval(work, server, servers) for server in range(servers)], started)
        sent: list[list[bytes]] = [[] for _ in range(servers)]
        try:
            for slices in prepare_tasks(work):
                for server, payload in enumerate(run_prepare(work, slices, servers)):
                    if payload is not None:
                        sent[server].append(payload)
        except ProgramFailed as failed:
            return Outcome(seconds=time.perf_counter() - started, error=str(failed))
        results = [run_interval(work, server, servers, gathered(work, sent[server])) for server in range(servers)]
        return combined(work, results, started)

    def query(self, work: QueryWork) -> Outcome:
        """Computes a part of a view that is a query; raises Error where it needs Spark, and there is none."""
        if is_own(work):
            outcome = own_query(work)
            if outcome.error is None or self._query_runner is None:
                return outcome
        if self._query_runner is None:
            raise Error(f"{work.view.name}: this view is computed by Spark SQL; keep it with Spark")
        return self._query_runner(work)
