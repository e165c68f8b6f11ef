"""Work: what the driver wants computed, as plain data, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from viewkeeper.catalog.model import Column, PartView
from viewkeeper.jobs import job as jobs
from viewkeeper.plans.references import PartQuery
from viewkeeper.plans.relations import Relation
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.part_program import PartProgram
from viewkeeper.trace.disk import Disk
from viewkeeper.trace.receipt import FileRef

Place = tuple[int, int]
"""An object id and a subscript: one part."""

GREATEST_HASH = 2**64 - 1


@dataclass(frozen=True)
class Piece:
    """Rows of one part: `rows` of them from row `offset` on, in a Parquet file of the state folder.

    Where the rows have groups they stand sorted by the group's hash, which lies from `low` to `high`.  A file holds at
    most one piece of a part.  Equal parts share a piece: `part` then is the part of which the file says that the rows
    are (None: they are of the part that has the piece).
    """

    file: str
    offset: int
    rows: int
    low: int = 0
    high: int = GREATEST_HASH
    part: int | None = None

    def shared(self, part: int) -> Piece:
        """As other parts than `part`, whose piece this is, have it too."""
        return self if self.part is not None else replace(self, part=part)


@dataclass(frozen=True)
class PartWork:
    """Parts `parts` (ascending) of one generated view, in one job.

    `pieces` has all parts with rows that may be read: the inputs', for a repair the outputs' old ones too, and the
    outputs' parts before the first (`carry`).  `before` is, for carry "row", the last part before `parts[0]` in which
    the source has rows.  `touched` has the hashes to be recomputed, by part (None: all groups); a build has no
    `touched`.  In a repair a part is computed if it is in `touched`, or reached by `carry` from one that changed; the
    job ends where neither is so.  `dimensions` are the pieces of each dimension table for a part of the source, by the
    table's id.  `empty` are the view's rows where no input has rows.
    """

    disk: Disk
    version: int
    epoch: int
    attempt: int
    zone: str
    title: str
    program: PartProgram
    parts: tuple[int, ...]
    columns: Mapping[int, tuple[Column, ...]]
    pieces: Mapping[Place, tuple[Piece, ...]]
    before: int | None = None
    touched: Mapping[int, np.ndarray | None] | None = None
    dimensions: Mapping[int, Mapping[int, tuple[Piece, ...]]] = field(default_factory=dict)
    empty: Block | None = None


@dataclass(frozen=True)
class QueryWork:
    """Part `part` of a view that Spark SQL computes: `query` over parts and dimension tables.

    `pieces` and `columns` have the rows and shape of each name in `query.sql`: the references' (each once with all its
    parts, `parts` being the subscripts from which PART_TIMESTAMP and filtering follow) and the dimension tables'.
    `old` are the pieces of the part in a repair, None in a build.  `relation` is `PlannedQuery.relation`; in it the
    names stand by the ids in `objects`.
    """

    disk: Disk
    version: int
    epoch: int
    attempt: int
    zone: str
    title: str
    view: PartView
    part: int
    query: PartQuery
    columns: Mapping[str, tuple[Column, ...]]
    pieces: Mapping[str, Mapping[int, tuple[Piece, ...]]]
    lengths: Mapping[str, int]
    old: tuple[Piece, ...] | None = None
    relation: Relation | None = None
    objects: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Made:
    """A part that was computed: its new pieces, and for a repair the hashes of the groups whose rows are others than
    before (None: some, or a build); empty: the part is as it was, and `pieces` are the old ones."""

    pieces: tuple[Piece, ...]
    changed: np.ndarray | None = None

    @property
    def is_same(self) -> bool:
        """Whether the part has the rows that it had."""
        return self.changed is not None and len(self.changed) == 0


@dataclass(frozen=True)
class Outcome:
    """What a work made, by object and part, with the files; parts that came out empty have no pieces.  In a repair,
    parts that were not reached are missing.  `error` is why the view's query failed, and then nothing is made."""

    made: Mapping[Place, Made] = field(default_factory=dict)
    files: tuple[FileRef, ...] = ()
    seconds: float = 0.0
    error: str | None = None


Queries = Callable[[QueryWork], Outcome]
"""Computes the parts that Spark SQL computes, several at once, from several threads."""


class PartExecutor(jobs.Executor, Protocol):
    """An executor that may have Spark SQL besides."""

    @property
    def queries(self) -> Queries | None:
        """None where there is no Spark."""
