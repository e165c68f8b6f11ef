"""What the driver has an executor do for tables and the views over them: one batch, one step of a fill, or one merge.

A work says all that its tasks need, so that a task holds nothing between batches and any view server can run it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from viewkeeper.catalog.model import Column
from viewkeeper.spark.parameters import Constant
from viewkeeper.stores.contract import LogReader, LogSlice
from viewkeeper.streams import work as streams
from viewkeeper.streams.analyst import Analyst
from viewkeeper.streams.part_changes import PartChanges
from viewkeeper.trace.disk import Disk
from viewkeeper.trace.manifest import ManifestRef
from viewkeeper.trace.merge import MergeTask
from viewkeeper.trace.receipt import RunRef


@dataclass(frozen=True)
class LogRange:
    """Operations of the store's logs: those of `slices`, which `reader` reads wherever a task runs."""

    reader: LogReader
    slices: tuple[LogSlice, ...]


@dataclass(frozen=True)
class GivenOperations:
    """Operations that stand in Arrow files of the state folder, each those of a table, by its id, in the form in which
    they come out of the logs."""

    files: Mapping[int, str]

    @property
    def tables(self) -> tuple[int, ...]:
        """The tables with operations."""
        return tuple(self.files)


@dataclass(frozen=True)
class TableRows:
    """All rows of `tables` at the manifest `at`, as +1 rows; `parts` are those of streams."""

    at: ManifestRef
    tables: tuple[int, ...]
    parts: PartChanges


@dataclass(frozen=True)
class TableDifference:
    """What changed in `tables` from manifest `older` to manifest `newer`, as signed rows; `parts` is what changed in
    streams."""

    older: ManifestRef
    newer: ManifestRef
    tables: tuple[int, ...]
    parts: PartChanges


@dataclass(frozen=True)
class ZoneWork:
    """One pass through the zones: a batch, or, with `fill` (ids of views and indexes not yet filled), a step of a fill.

    The catalog, and a batch's state, is that of manifest `base`.  A fill starts from nothing (`TableRows`), then reads
    its own earlier runs (`private`: state id to runs, oldest first) beside the states as of `TableDifference.older`.
    `left_out` are views and indexes whose programs are not run: what such a work writes is never committed.
    `zones` are those the source can reach, in order; before those `asking` Spark is asked, on what the zones before
    have written.  `servers` view servers share the work; with 1, the whole chain runs as one task.  `carried` are what
    each view server gets of earlier zones of the same pass: items of parcels (None: it begins with the source).
    """

    root: str
    disk: Disk
    base: ManifestRef
    version: int
    epoch: int
    attempt: int
    source: LogRange | GivenOperations | PartChanges | TableRows | TableDifference
    servers: int
    zones: tuple[int, ...]
    asking: tuple[int, ...]
    title: str
    fill: frozenset[int] | None = None
    left_out: frozenset[int] = frozenset()
    private: Mapping[int, tuple[RunRef, ...]] = field(default_factory=dict)
    carried: tuple[tuple[tuple[str, pa.Buffer], ...], ...] | None = None


@dataclass(frozen=True)
class SparkQuestion:
    """A query for Spark: `sql` over `tables`, by name, in the types that users see; its answer has `columns`, and is
    computed in the time zone `zone`.  `parameters` are the values of `:name` in it."""

    title: str
    zone: str
    sql: str
    tables: Mapping[str, pa.Table]
    columns: tuple[Column, ...]
    parameters: Mapping[str, Constant] = field(default_factory=dict)


@dataclass(frozen=True)
class QueryRaised:
    """A query that Spark raised at: its error class, the place in the query, and the message."""

    code: str
    place: tuple[int, int] | None
    message: str


Answers = Callable[[SparkQuestion], "pa.Table | QueryRaised"]
"""Answers questions, several at once, from several threads; the columns by position, in the types asked for."""


@dataclass(frozen=True)
class MergeWork:
    """One merge; `dead` names, for states of families, the members whose rows go."""

    disk: Disk
    version: int
    epoch: int
    attempt: int
    task: MergeTask
    dead: Mapping[int, set[int]]
    title: str


class DriverExecutor(streams.PartExecutor, Protocol):
    """What a driver is given to run its jobs."""

    @property
    def answers(self) -> Answers | None:
        """Spark SQL's; None where there is no Spark."""

    def analyst(self) -> Analyst:
        """Who is asked about the queries of ViewDFs when they are declared; raises Error where that takes Spark."""

    def close(self) -> None:
        """Frees what the executor itself has started."""
