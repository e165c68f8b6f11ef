"""ViewDFs and plain views, part by part: the query that made a part, over what it names as it is stored.

A part reads its own view's parts as they are stored too: so each follows from those before it, and all from the
sources.  Parts for which no input has rows are all alike: of those with one query and the same dimension tables one is
computed, and the others must be as it is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

import pyarrow as pa

from viewkeeper.catalog.model import PartView
from viewkeeper.checker.check import Judge
from viewkeeper.checker.part_evidence import (
    PART,
    NotJudged,
    PartsEvidence,
    first_quiet,
    in_batches,
    missing,
    newest_stream_part,
    own,
    reached,
    reached_one_by_one,
    schema_of,
    versions,
)
from viewkeeper.checker.part_rows import query_rows
from viewkeeper.checker.part_sql import AT_ONCE, Asked, Recomputed, SqlParts
from viewkeeper.checker.tables import table_of
from viewkeeper.compiler.namespace import PART_TIMESTAMP
from viewkeeper.errors import DeclarationError
from viewkeeper.plans.viewdf import PlannedQuery, QueryPlan
from viewkeeper.streams.spark.hidden import without_hidden


@dataclass(frozen=True)
class _Stretch:
    """Parts that one query computes."""

    query: PlannedQuery
    parts: range


class Recomputer(Protocol):
    """Computes the parts of one view anew."""

    def recompute(self, parts: range) -> Iterator[Recomputed]:
        """What `parts` must hold, some at a time; parts that are in none of the answers must be empty."""


class QueryParts:
    """The parts of a view that Spark SQL computes; without a judge by the row-by-row evaluator, where that can."""

    def __init__(self, evidence: PartsEvidence, judge: Judge | None, view: PartView) -> None:
        assert isinstance(view.plan, QueryPlan)
        self._evidence, self._judge, self._view, self._plan = evidence, judge, view, view.plan

    def recompute(self, parts: range) -> Iterator[Recomputed]:
        """See `Recomputer`."""
        for stretch in self._stretches(parts):
            yield from self._stretch(stretch)

    def _stretches(self, parts: range) -> Iterator[_Stretch]:
        """`parts` by the query that made them."""
        first = self._evidence.first(self._view)
        cuts = {parts.start, parts.stop, *(old.until for old in self._plan.earlier)}
        cuts |= {first, first + 1} if first is not None else set()
        ends = sorted(cut for cut in cuts if parts.start <= cut <= parts.stop)
        for start, stop in zip(ends, ends[1:], strict=False):
            yield _Stretch(self._plan.query(start, first), range(start, stop))

    def _stretch(self, stretch: _Stretch) -> Iterator[Recomputed]:
        inputs = stretch.query.inputs
        expired, why = missing(self._evidence, inputs, stretch.parts)
        if expired:
            nothing = schema_of(self._view, self._evidence.catalog.zone).empty_table()
            yield Recomputed(expired, nothing, "none", unjudged=dict.fromkeys(expired, why))
        parts = stretch.parts[len(expired) :]
        if not parts:
            return
        timed = PART_TIMESTAMP.name.lower() in stretch.query.query.sql.lower()
        busy = (reached if not timed else reached_one_by_one)(self._evidence, inputs, parts)
        busy.update(own(self._evidence, self._view, parts))
        for some in in_batches(sorted(busy), AT_ONCE):
            yield self._some(stretch.query, some)
        alike, spare = self._quiet(stretch.query, parts, busy)
        if alike:
            found = self._some(stretch.query, list(alike), spare)
            unjudged = {part: why for one, why in found.unjudged.items()
                        for run in alike[one] for part in run if part not in busy}  # fmt: skip
            yield replace(found, unjudged=unjudged)

    def _quiet(
        self, query: PlannedQuery, parts: range, busy: set[int]
    ) -> tuple[dict[int, list[range]], Mapping[int, int]]:
        """Of the parts that are not `busy` one for each set of versions of the dimension tables; with it the parts
        among which those that are alike are.  And versions for those with which none is recorded, since they were empty
        from the start: they must be empty with any."""
        runs: list[tuple[range, Mapping[int, int]]] = [(parts, {})]
        if query.tables:
            catalog, inputs = self._evidence.catalog, query.inputs
            stream, _ = newest_stream_part(catalog, inputs, parts[0])

            def newest(part: int) -> int:
                return newest_stream_part(catalog, inputs, part)[1]

            runs = [(parts[bisect_left(parts, first, key=newest) : bisect_right(parts, last, key=newest)], recorded)
                    for first, last, recorded in self._evidence.recorded_runs(stream)]  # fmt: skip
        alike: dict[tuple[tuple[int, int], ...], list[range]] = {}
        spare: Mapping[int, int] = {}
        for run, recorded in runs:
            known = {table.object: recorded[table.object] for table in query.tables if table.object in recorded}
            spare = known if len(known) > len(spare) else spare
            alike.setdefault(tuple(sorted(known.items())), []).append(run)
        found = {}
        full = self._evidence.runs(self._view, parts[0], parts[-1])
        for same in alike.values():
            quiet = (first_quiet(run, busy, full) for run in same)
            part = next((part for part in quiet if part is not None), None)
            if part is not None:
                found[part] = same
        return found, spare

    def _some(
        self, query: PlannedQuery, parts: Sequence[int], spare: Mapping[int, int] = MappingProxyType({})
    ) -> Recomputed:
        asked: dict[int, Asked] = {}
        unjudged: dict[int, str] = {}
        for part in parts:
            try:
                asked[part] = self._asked(query, part, spare)
            except NotJudged as why:
                unjudged[part] = str(why)
        if self._judge is not None:
            found = SqlParts(self._evidence, self._judge, self._view).recompute(asked)
        else:
            found = self._row_by_row(query, asked)
        return Recomputed(parts, found.rows, found.judge, found.failed, {**unjudged, **found.unjudged})

    def _asked(self, query: PlannedQuery, part: int, spare: Mapping[int, int]) -> Asked:
        recorded = versions(self._evidence, self._view, query.inputs, part, spare)
        hidden = without_hidden(query.query.sql, frozenset(each.name.lower() for each in query.parts))
        named = {each.name: (each.object, each.low.at(part), each.high.at(part), hidden.columns.get(each.name.lower()))
                 for each in query.parts}  # fmt: skip
        return Asked(hidden.sql, named, {each.name: (each.object, recorded[each.object]) for each in query.tables})

    def _row_by_row(self, query: PlannedQuery, asked: Mapping[int, Asked]) -> Recomputed:
        zone = self._evidence.catalog.zone
        found, failed = [schema_of(self._view, zone).empty_table()], dict[int, str]()
        try:
            for part, each in asked.items():
                answer = query_rows(self._evidence, query, each)
                if answer.errors:
                    failed[part] = f"{answer.errors[0].code} at {answer.errors[0].place}"
                else:
                    rows = table_of(self._view.columns, answer.rows, zone)
                    numbers = pa.array([part] * len(rows), pa.int64())
                    found.append(rows.add_column(0, pa.field(PART, pa.int64(), False), numbers))
        except DeclarationError as problem:
            why = f"only Spark can compute them: {problem}"
            return Recomputed(list(asked), found[0], "none", unjudged=dict.fromkeys(asked, why))
        return Recomputed(list(asked), pa.concat_tables(found), "row by row", failed)
