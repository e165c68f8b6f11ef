"""What a check of streams and of views over them is shown, and what follows from it for one part."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.arrow_tables import logical_field
from viewkeeper.catalog.model import Catalog, PartView, Stream, Table, View
from viewkeeper.plans.references import Input

PART = "__part"
"""The column that says of which part a row is: no declared column is called so."""


class PartsEvidence(Protocol):
    """One database at one version.  Rows are Arrow tables of logical types in declared columns."""

    catalog: Catalog
    version: int

    def built(self, of: Stream | PartView) -> range:
        """The parts that are there."""

    def first(self, of: Stream | PartView) -> int | None:
        """The initial subscript, or a stream's first part, whether it is kept or not; None while there is none."""

    def stale(self, view: PartView) -> str | None:
        """Why the view is behind because of an error."""

    def redo(self, view: PartView) -> int | None:
        """The part from which on all parts of a view wait to be computed anew; None: none does."""

    def with_rows(self, of: Stream | PartView, first: int, last: int) -> list[int]:
        """The parts from `first` to `last` that are there and have rows."""

    def runs(self, of: Stream | PartView, first: int, last: int) -> list[tuple[int, int]]:
        """The same parts, those of a run that have the same rows of the same file as one: (first, last)."""

    def counts(self, of: Stream | PartView) -> Mapping[int, tuple[int, int]]:
        """For each part with rows, of equal ones in a run for the first: how many rows the part catalog says, and how
        many its pieces have."""

    def rows_in(self, of: Stream | PartView) -> int:
        """How many rows all parts that are there have."""

    def numbered(self, of: Stream | PartView, parts: Iterable[int]) -> tuple[pa.Table, np.ndarray]:
        """The rows of some parts, behind them the part (`PART`) that the file itself says; and the part (int64) that
        the part catalog gives to each row."""

    def recorded(self, stream: Stream, part: int) -> Mapping[int, int]:
        """The versions of dimension tables that were recorded with a sealed part, by table id."""

    def recorded_runs(self, stream: Stream) -> Iterator[tuple[int, int, Mapping[int, int]]]:
        """The same for all parts in runs: (first, last, versions)."""

    def rebuilt(self, view: PartView, part: int) -> Mapping[int, int] | None:
        """The versions with which a part was computed anew on request."""

    def is_kept(self, dimension: int, version: int) -> bool:
        """Whether there is a copy of a dimension table (its id) as of a recorded version: it goes when no part will be
        computed from it any more."""

    def dimension(self, of: Table | View, version: int) -> pa.Table:
        """The rows of a dimension table as of a recorded version."""


class NotJudged(Exception):
    """Nothing can be said of a part; the message says why."""


def rows_by_part(evidence: PartsEvidence, of: Stream | PartView, parts: Iterable[int]) -> pa.Table:
    """The rows of some parts, behind the declared columns `PART` as the part catalog says."""
    table, subscripts = evidence.numbered(of, parts)
    return table.drop_columns([PART]).append_column(pa.field(PART, pa.int64(), False), pa.array(subscripts))


def schema_of(view: PartView, zone: str) -> pa.Schema:
    """`PART`, then the view's columns."""
    fields = [logical_field(column, zone) for column in view.columns]
    return pa.schema([pa.field(PART, pa.int64(), False), *fields])


def reached(evidence: PartsEvidence, inputs: Iterable[Input], parts: range) -> set[int]:
    """Those of `parts` for which an input names a part with rows.  Where all that an input names is of one run of equal
    parts, the first and the last such part stand for those between them, which read the same."""
    found: set[int] = set()
    for each in inputs if parts else ():
        source = evidence.catalog.source(each.object)
        for first, last in evidence.runs(source, each.low.at(parts[0]), each.high.at(parts[-1])):
            low, high = bisect_left(parts, first, key=each.high.at), bisect_right(parts, last, key=each.low.at)
            begin = max(low, bisect_left(parts, first, key=each.low.at))
            end = min(high, bisect_right(parts, last, key=each.high.at)) - 1
            if end - begin > 1:
                found.update(parts[low : begin + 1], parts[end:high])
            else:
                found.update(parts[low:high])
    return found


def reached_one_by_one(evidence: PartsEvidence, inputs: Iterable[Input], parts: range) -> set[int]:
    """`reached` with every part: of a query that sees which parts its rows are of."""
    found: set[int] = set()
    for each in inputs if parts else ():
        source = evidence.catalog.source(each.object)
        for filled in evidence.with_rows(source, each.low.at(parts[0]), each.high.at(parts[-1])):
            low = bisect_left(parts, filled, key=each.high.at)
            found.update(parts[low : bisect_right(parts, filled, key=each.low.at)])
    return found


def own(evidence: PartsEvidence, view: PartView, parts: range) -> set[int]:
    """The parts of a view with rows, of a run of equal ones the first and the last."""
    return {end for run in evidence.runs(view, parts[0], parts[-1]) for end in run}


def first_quiet(parts: range, busy: set[int], full: Sequence[tuple[int, int]]) -> int | None:
    """The lowest of `parts` that is neither busy nor in one of the runs `full`; None: there is none."""
    ends = sorted({parts.start, *(part + 1 for part in busy), *(last + 1 for _, last in full)})
    starts = [first for first, _ in full]
    for part in ends[bisect_left(ends, parts.start) :]:
        run = bisect_right(starts, part) - 1
        if part in parts and part not in busy and not (run >= 0 and part <= full[run][1]):
            return part
    return None


def missing(evidence: PartsEvidence, inputs: Iterable[Input], parts: range) -> tuple[range, str]:
    """Those of `parts` that read what has expired, which are the first ones, and why they cannot be judged."""
    stop, why = 0, ""
    for each in inputs:
        source = evidence.catalog.source(each.object)
        first, built = evidence.first(source), evidence.built(source)
        if first is None or not built or first >= built.start:
            continue
        end = bisect_left(parts, built.start, key=each.low.at)
        if end > max(stop, bisect_left(parts, first, key=each.high.at)):
            stop, why = end, f"what they read of {source.name} before part {built.start} has expired"
    return parts[:stop], why


def newest_stream_part(catalog: Catalog, inputs: Sequence[Input], part: int) -> tuple[Stream, int]:
    """The newest part of a stream that a view's part names, directly or below a view: what was recorded with it says
    which versions of dimension tables the part reads."""
    ends = []
    for each in inputs:
        source = catalog.source(each.object)
        ends.append(((each.high.at(part) + 1) * source.length, source))
    end, source = max(ends, key=lambda pair: pair[0])
    while isinstance(source, PartView):
        below = [id_ for id_ in source.reads if id_ != source.id]
        source = catalog.source(below[0])
    return source, end // source.length - 1


def versions(
    evidence: PartsEvidence, view: PartView, inputs: Sequence[Input], part: int,
    spare: Mapping[int, int] = MappingProxyType({}),
) -> Mapping[int, int]:  # fmt: skip
    """The version of each dimension table of `view` that its part reads; of one of which none is recorded, that in
    `spare`.  Raises NotJudged."""
    if not view.dimensions:
        return {}
    found = evidence.rebuilt(view, part)
    if found is None:
        stream, newest = newest_stream_part(evidence.catalog, inputs, part)
        found = {**spare, **evidence.recorded(stream, newest)}
    lacking = [id_ for id_ in view.dimensions if id_ not in found]
    if lacking:
        item = evidence.catalog.by_id(lacking[0])
        raise NotJudged(f"no version of {item.name if item else lacking[0]} is recorded for it")
    for id_ in view.dimensions:
        if not evidence.is_kept(id_, found[id_]):
            name = dimension_table(evidence.catalog, id_).name
            raise NotJudged(f"{name} as of version {found[id_]}, with which it was made, is kept no more")
    return {id_: found[id_] for id_ in view.dimensions}


def dimension_table(catalog: Catalog, id_: int) -> Table | View:
    """The dimension table with this id."""
    found = catalog.by_id(id_)
    assert isinstance(found, (Table, View)), "a dimension table cannot be dropped while it is used"
    return found


def in_batches(parts: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """`parts`, so many at a time."""
    for i in range(0, len(parts), size):
        yield parts[i : i + size]
