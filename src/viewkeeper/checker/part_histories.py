"""Pattern and MATCH_RECOGNIZE views by their definitions, over the whole kept history of what they read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from viewkeeper.catalog.model import PartView, Stream
from viewkeeper.checker.part_evidence import PART, PartsEvidence, schema_of
from viewkeeper.checker.part_rows import history
from viewkeeper.checker.part_sql import Recomputed
from viewkeeper.checker.patterns import matches
from viewkeeper.checker.recognize import expected_parts
from viewkeeper.checker.row_evaluator import Answer, evaluate, place_text
from viewkeeper.checker.tables import Row, table_of
from viewkeeper.checker.value_rules import Raised, canonical
from viewkeeper.plans.match import MatchPlan
from viewkeeper.plans.pattern import BoundPattern, PatternAnswer, PatternMatches
from viewkeeper.plans.relations import Project, Scan


class PatternParts:
    """The parts of a pattern view; see `part_queries.Recomputer`."""

    def __init__(self, evidence: PartsEvidence, view: PartView) -> None:
        assert isinstance(view.plan, PatternAnswer)
        self._evidence, self._view, self._bound = evidence, view, view.plan.bound
        helper = evidence.catalog.source(view.plan.helper)
        assert isinstance(helper, PartView) and isinstance(helper.plan, PatternMatches)
        self._helper, self._source = helper, evidence.catalog.source(helper.plan.source)

    def recompute(self, parts: range) -> Iterator[Recomputed]:
        """See `part_queries.Recomputer`."""
        if not parts:
            return
        zone, kept = self._evidence.catalog.zone, self._evidence.built(self._source)
        rows = history(self._evidence, self._source, kept.start, parts[-1])
        unjudged: dict[int, str] = {}
        if _is_cut(self._evidence, self._helper, self._source):
            unjudged = _running_since(self._bound, rows, kept.start, parts, self._source.name, zone)
        try:
            found = matches(self._bound, rows, zone)
        except Raised as raised:
            failed = dict.fromkeys(sorted(rows.keys() & set(parts)), f"{raised.code} at {place_text(raised.place)}")
            nothing = schema_of(self._view, zone).empty_table()
            yield Recomputed(list(parts), nothing, "row by row", failed, unjudged)
            return
        answers = {part: found[part] for part in found if part in parts and part not in unjudged}
        yield Recomputed(parts, _table(self._view, answers, zone), "row by row", unjudged=unjudged)


class MatchParts:
    """The parts of a MATCH_RECOGNIZE view; see `part_queries.Recomputer`."""

    def __init__(self, evidence: PartsEvidence, view: PartView) -> None:
        assert isinstance(view.plan, MatchPlan)
        self._evidence, self._view, self._plan = evidence, view, view.plan
        self._source = evidence.catalog.source(view.reads[0])

    def recompute(self, parts: range) -> Iterator[Recomputed]:
        """See `part_queries.Recomputer`."""
        if not parts:
            return
        zone, kept = self._evidence.catalog.zone, self._evidence.built(self._source)
        if self._plan.carries and _is_cut(self._evidence, self._view, self._source):
            why = f"a match may have begun in parts of {self._source.name} before {kept.start}, which have expired"
            nothing = schema_of(self._view, zone).empty_table()
            yield Recomputed(parts, nothing, "none", unjudged=dict.fromkeys(parts, why))
            return
        rows = history(self._evidence, self._source, kept.start, parts[-1])
        found = expected_parts(self._plan, rows, self._source.length, zone)
        failed = {part: f"{answer.errors[0].code} at {answer.errors[0].place}"
                  for part, answer in found.items() if part in parts and answer.errors}  # fmt: skip
        answers = {part: answer.rows for part, answer in found.items() if part in parts and part not in failed}
        yield Recomputed(parts, _table(self._view, answers, zone), "row by row", failed)


def _is_cut(evidence: PartsEvidence, keeper: PartView, source: Stream | PartView) -> bool:
    """Whether parts that `keeper` has once read are no longer there."""
    first, kept = evidence.first(keeper), evidence.built(source)
    return first is not None and bool(kept) and first < kept.start


def _running_since(
    bound: BoundPattern, rows: Mapping[int, Sequence[Row]], kept: int, parts: range, source: str, zone: str
) -> dict[int, str]:
    """The parts in which a group may have a match that began before part `kept` of the source: those before it, and
    those up to which the group has had rows in every part."""
    found = set(range(parts.start, kept))
    running: set[Row] | None = None
    part = kept
    while part in rows:
        keys = {tuple(map(canonical, each)) for each in _keys(bound, rows[part], zone)}
        running = keys if running is None else running & keys
        if not running:
            break
        found.add(part)
        part += 1
    why = f"a match may have begun in parts of {source} before {kept}, which have expired"
    return dict.fromkeys(sorted(part for part in found if part in parts), why)


def _keys(bound: BoundPattern, rows: Sequence[Row], zone: str) -> list[Row]:
    names = tuple(map(str, range(len(bound.keys))))
    return evaluate(Project(Scan(0, "", ()), bound.keys, names), {0: Answer(list(rows))}, zone).rows


def _table(view: PartView, answers: Mapping[int, Sequence[Row]], zone: str) -> pa.Table:
    rows = table_of(view.columns, [row for answer in answers.values() for row in answer], zone)
    numbers = pa.array([part for part, answer in answers.items() for _ in answer], pa.int64())
    return rows.add_column(0, pa.field(PART, pa.int64(), False), numbers)
