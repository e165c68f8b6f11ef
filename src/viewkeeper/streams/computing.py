"""Works as jobs of an executor: of one task where there is little to do, else of a stage or two.

In one stage each view server reads its interval from files, or prepares the source itself and keeps what is in the
interval.  Shuffled programs with many view servers have two: a stage prepares slices of the source, and hands each view
server its rows; the next computes the intervals.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from viewkeeper.errors import Error
from viewkeeper.jobs.job import Job, Stage
from viewkeeper.streams.calling import ProgramFailed
from viewkeeper.streams.own_queries import is_own, own_query
from viewkeeper.streams.preparing import Slice, gathered, is_direct, prepare_tasks, run_prepare, servers_for
from viewkeeper.streams.running import IntervalResult, combined, run_interval
from viewkeeper.streams.work import Outcome, PartExecutor, PartWork, QueryWork

PartParcel: TypeAlias = pa.Buffer | ProgramFailed
"""What a server is sent: rows, or why there are none."""


def compute(executor: PartExecutor, work: PartWork) -> Outcome:
    """Computes parts of a generated view."""
    started = time.perf_counter()
    servers = servers_for(work, executor.servers)
    if is_direct(work, servers):
        return combined(work, executor.run(Job(work, (Stage(servers, partial(_direct, servers)),))), started)
    tasks = prepare_tasks(work)
    stages = Stage(len(tasks), partial(_prepare, tasks, servers)), Stage(servers, partial(_interval, servers))
    return combined(work, executor.run(Job(work, stages)), started)


def compute_query(executor: PartExecutor, work: QueryWork) -> Outcome:
    """Computes a part of a view that is a query: by our own operators in a task, or by Spark SQL; raises Error where it
    needs that, and there is none."""
    if is_own(work):
        (outcome,) = executor.run(Job.of_one_task(work, own_query))
        if outcome.error is None or executor.queries is None:
            return outcome
        # Else Spark has the word: it computes only those columns that are used.
    if executor.queries is None:
        raise Error(f"{work.view.name}: this view is computed by Spark SQL; keep it with Spark")
    return executor.queries(work)


def _direct(servers: int, work: PartWork, server: int, _: Iterable[PartParcel]) -> Iterator[tuple[int, IntervalResult]]:
    """An interval whose rows are prepared where they are computed, or need not be."""
    yield server, run_interval(work, server, servers)


def _prepare(
    tasks: list[list[Slice]], servers: int, work: PartWork, number: int, _: Iterable[PartParcel]
) -> Iterator[tuple[int, PartParcel]]:
    try:
        payloads = run_prepare(work, tasks[number], servers)
    except ProgramFailed as failed:
        yield 0, failed
        return
    for server, payload in enumerate(payloads):
        if payload is not None:
            yield server, payload


def _interval(
    servers: int, work: PartWork, server: int, parcels: Iterable[PartParcel]
) -> Iterator[tuple[int, IntervalResult]]:
    payloads = []
    for parcel in parcels:
        if isinstance(parcel, ProgramFailed):
            yield server, IntervalResult(error=str(parcel))
            return
        payloads.append(parcel)
    yield server, run_interval(work, server, servers, gathered(work, payloads))
