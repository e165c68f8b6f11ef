"""Window views, part by part: their own SELECT over all rows of the window's parts.

Spark answers where its answer does not depend on the order of rows, and where one version of each dimension table holds
for the whole window; else the row-by-row evaluator does, with exact sums, and each row joined at its own part's
version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from viewkeeper.catalog.model import PartView
from viewkeeper.checker.check import Judge
from viewkeeper.checker.part_evidence import (
    PART,
    NotJudged,
    PartsEvidence,
    dimension_table,
    first_quiet,
    in_batches,
    missing,
    own,
    reached,
    schema_of,
    versions,
)
from viewkeeper.checker.part_rows import bind_window, history, joined_rows
from viewkeeper.checker.part_sql import AT_ONCE, Asked, Recomputed, SqlParts
from viewkeeper.checker.row_evaluator import Answer
from viewkeeper.checker.tables import rows_of, table_of
from viewkeeper.plans.order_dependence import is_order_dependent
from viewkeeper.plans.product_sums import VARIANCES
from viewkeeper.plans.references import Input, Subscript
from viewkeeper.plans.relations import AggregateCall
from viewkeeper.plans.window import Window

_ROUNDED = (*VARIANCES, "sum_distinct", "avg_distinct")
_OWN = Subscript(1, 0)


class WindowParts:
    """The parts of a window view; see `part_queries.Recomputer`."""

    def __init__(self, evidence: PartsEvidence, judge: Judge | None, view: PartView) -> None:
        assert isinstance(view.plan, Window)
        self._evidence, self._judge, self._view, self._zone = evidence, judge, view, evidence.catalog.zone
        self._window = view.plan.window
        self._source = evidence.catalog.source(view.plan.source)
        self._input = Input(self._source.id, Subscript(1, 1 - self._window), _OWN)
        helper = evidence.catalog.source(view.plan.pieces[0].object)
        assert isinstance(helper, PartView)
        self._helper = helper
        self._query = bind_window(evidence.catalog, view, self._source)
        self._exact = any(map(_depends_on_order, self._query.aggregate.calls))
        self._joined: dict[int, Answer] = {}
        self._dimensions: dict[tuple[int, int], Answer] = {}

    def recompute(self, parts: range) -> Iterator[Recomputed]:
        """See `part_queries.Recomputer`."""
        expired, why = missing(self._evidence, [self._input], parts)
        if expired:
            nothing = schema_of(self._view, self._zone).empty_table()
            yield Recomputed(expired, nothing, "none", unjudged=dict.fromkeys(expired, why))
        parts = parts[len(expired) :]
        if not parts:
            return
        busy = reached(self._evidence, [self._input], parts)
        busy.update(own(self._evidence, self._view, parts))
        quiet = first_quiet(parts, busy, self._evidence.runs(self._view, parts[0], parts[-1]))
        wanted = sorted(busy if quiet is None else {*busy, quiet})
        for some in in_batches(wanted, AT_ONCE):
            yield from self._some(some)

    def _some(self, parts: Sequence[int]) -> Iterator[Recomputed]:
        asked: dict[int, Asked] = {}
        by_rows: list[int] = []
        for part in parts:
            alike = None if self._exact or self._judge is None else self._one_version(part)
            if alike is None:
                by_rows.append(part)
            else:
                asked[part] = self._asked(part, alike)
        if asked and self._judge is not None:
            yield SqlParts(self._evidence, self._judge, self._view).recompute(asked)
        if by_rows:
            yield self._row_by_row(by_rows)

    def _asked(self, part: int, recorded: Mapping[int, int]) -> Asked:
        catalog = self._evidence.catalog
        named = {self._source.name: (self._source.id, part - self._window + 1, part, None)}
        dimensions = {dimension_table(catalog, id_).name: (id_, version) for id_, version in recorded.items()}
        return Asked(self._query.sql, named, dimensions)

    def _one_version(self, part: int) -> Mapping[int, int] | None:
        """The versions of dimension tables, if one of each holds for all rows of the window."""
        found: Mapping[int, int] | None = None
        if not self._helper.dimensions:
            return {}
        for each in self._in_window(part) or [part]:
            try:
                recorded = self._versions(each)
            except NotJudged:
                return None
            if found is not None and recorded != found:
                return None
            found = recorded
        return found

    def _in_window(self, part: int) -> list[int]:
        return self._evidence.with_rows(self._source, part - self._window + 1, part)

    def _versions(self, part: int) -> Mapping[int, int]:
        """Those of a part of the source."""
        return versions(self._evidence, self._helper, [Input(self._source.id, _OWN, _OWN)], part)

    # Row by row

    def _row_by_row(self, parts: Sequence[int]) -> Recomputed:
        found = [schema_of(self._view, self._zone).empty_table()]
        failed: dict[int, str] = {}
        unjudged: dict[int, str] = {}
        for part in parts:
            try:
                answer = self._window_answer(part)
            except NotJudged as why:
                unjudged[part] = str(why)
                continue
            if answer.errors:
                failed[part] = f"{answer.errors[0].code} at {answer.errors[0].place}"
                continue
            rows = table_of(self._view.columns, answer.rows, self._zone)
            numbers = pa.array([part] * len(rows), pa.int64())
            found.append(rows.add_column(0, pa.field(PART, pa.int64(), False), numbers))
        return Recomputed(parts, pa.concat_tables(found), "exact" if self._exact else "row by row", failed, unjudged)

    def _window_answer(self, part: int) -> Answer:
        inside = self._in_window(part)
        for old in [each for each in self._joined if each <= part - self._window]:
            del self._joined[old]  # parts ascend
        lacking = [each for each in inside if each not in self._joined]
        if lacking:
            rows = history(self._evidence, self._source, lacking[0], lacking[-1])
            for each in lacking:
                dimensions = {id_: self._dimension(id_, v) for id_, v in self._versions(each).items()}
                self._joined[each] = joined_rows(self._query, self._source.id, rows[each], dimensions, self._zone)
        window = Answer([row for each in inside for row in self._joined[each].rows],
                        [error for each in inside for error in self._joined[each].errors])  # fmt: skip
        return self._query.over(window, self._zone)

    def _dimension(self, id_: int, version: int) -> Answer:
        if (id_, version) not in self._dimensions:
            table = self._evidence.dimension(dimension_table(self._evidence.catalog, id_), version)
            self._dimensions[id_, version] = Answer(rows_of(table))
        return self._dimensions[id_, version]


def _depends_on_order(call: AggregateCall) -> bool:
    """Whether Spark's value may depend on the order of rows, or be rounded otherwise."""
    return is_order_dependent(call) or (
        call.function in _ROUNDED and call.argument is not None and not call.argument.type.is_decimal
    )
