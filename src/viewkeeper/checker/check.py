"""Is a view right?  First DELTA is proved against the store, then each view is compared with its query's answer.

A view over views is judged over the rows of the lower views, which are checked too; so all of them together follow from
the base tables.  A view over a stream is judged over the rows of the stream's parts, open ones too.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from viewkeeper.catalog.model import Catalog, Column, InParts, Stream, Table, View
from viewkeeper.catalog.types import BIGINT
from viewkeeper.checker.cell_replay import KnownCells
from viewkeeper.checker.compare import Comparison, compare, compared_as_rounded, within
from viewkeeper.checker.delta_proof import DeltaProof, Key, KeyedTable, LoggedOperation, prove
from viewkeeper.checker.exact_judge import exact_answer
from viewkeeper.checker.report import NOT_JUDGED, Report
from viewkeeper.checker.row_evaluator import TOO_MANY, Answer, ErrorRow, evaluate
from viewkeeper.checker.tables import rows_of, table_of
from viewkeeper.compiler.namespace import PART_TIMESTAMP
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.statements import SelectStatement
from viewkeeper.compiler.ties import settled
from viewkeeper.errors import Error, NotFound
from viewkeeper.plans.maintenance import SparkAnswer, plan_of
from viewkeeper.plans.order_dependence import needs_exact
from viewkeeper.plans.relations import GroupBy, Limit, Relation, SparkQuery, Windows
from viewkeeper.plans.subqueries import relations_in
from viewkeeper.plans.value_functions import EXTREMES_BY

ROW_ID = Column("__row", BIGINT, False)
"""Where a table has no primary key, its hidden row id is the last column of what the proof is given."""


@dataclass(frozen=True)
class StoreRows:
    """A table's rows in the store at positions s, in one read transaction, and the log from the version's positions
    to s.  `rejected`: keys of operations that were rejected up to the version, and of what is no row; `cells`: what
    DELTA knows at the version where cells have timestamps; `no_rows`: what is no row there, and why, for people."""

    rows: pa.Table
    operations: Sequence[LoggedOperation]
    rejected: Sequence[Key] = ()
    cells: KnownCells | None = None
    no_rows: Sequence[str] = ()


class Unproved(Error):
    """A table's store cannot be compared with what is known of it."""


class Evidence(Protocol):
    """One database at one version, as a check sees it.  Tables are Arrow tables of logical types, columns in declared
    order, field nullability as declared; `delta` and `store` have `ROW_ID` last where there is no primary key."""

    catalog: Catalog
    version: int

    def delta(self, table: Table) -> pa.Table:
        """DELTA's rows at the version."""

    def store(self, table: Table) -> StoreRows:
        """The store's rows, now; raises Unproved where it cannot be asked, or does not say."""

    def rows_of_parts(self, of: InParts) -> pa.Table:
        """The rows of all parts that are there, open ones too; of a stream, last PART_TIMESTAMP."""

    def beyond(self, view: View) -> str:
        """What rows of the view are of parts that are gone, so that nobody can say whether they are right; empty: none
        are."""

    def view_rows(self, view: View) -> pa.Table:
        """What readers of the view get at the version, whether or not it has error rows."""

    def error_rows(self, view: View) -> Sequence[ErrorRow]:
        """The view's own error rows, those of views below it left out."""

    def relation(self, view: View) -> Relation:
        """The view's query, bound."""


class Judge(Protocol):
    """What `spark_judge.SparkJudge` does; anything but a table in its answers means that Spark raised."""

    def answers(self, queries: Mapping[str, str], tables: Mapping[str, pa.Table]) -> Mapping[str, Any]:
        """The answer to each query over `tables`."""


def check_views(
    evidence: Evidence, names: Iterable[str], judge: Judge | None, parts: Iterable[Report] = ()
) -> list[Report]:
    """Checks the views called `names` and those below them; lower ones come first.

    Without a judge the row-by-row evaluator answers every query.  `parts` are the reports on streams that they read.
    """
    views = _with_lower(evidence.catalog, names)
    return _Check(evidence, judge, parts).reports(views)


def check_view(evidence: Evidence, name: str, judge: Judge | None) -> Report:
    """The report on one view."""
    return check_views(evidence, [name], judge)[-1]


def _with_lower(catalog: Catalog, names: Iterable[str]) -> list[View]:
    found: dict[int, View] = {}

    def visit(view: View) -> None:
        for below in map(catalog.by_id, view.reads):
            if isinstance(below, View) and below.id not in found:
                visit(below)
        found.setdefault(view.id, view)

    for name in names:
        view = catalog.find(name)
        if not isinstance(view, View):
            raise NotFound(f"there is no view {name}")
        visit(view)
    return list(found.values())


@dataclass(frozen=True)
class _Finding:
    """What a comparison says: `problem` is empty where the view is right."""

    judge: str
    problem: str = ""
    comparison: Comparison | None = None
    errors: Sequence[ErrorRow] = ()
    unjudged: str = ""


class _Check:
    """One run over some views; what was read or found once is kept."""

    def __init__(self, evidence: Evidence, judge: Judge | None, parts: Iterable[Report]) -> None:
        self._evidence, self._judge = evidence, judge
        self._zone = evidence.catalog.zone
        answers = (each for each in plan_of(evidence.catalog).operators if isinstance(each, SparkAnswer))
        self._whole = {each.sql for each in answers}
        self._tables: dict[int, pa.Table] = {}
        self._answers: dict[tuple[int, int], Answer] = {}
        self._proofs: dict[int, DeltaProof] = {}
        self._unproved: dict[int, str] = {}
        self._no_rows: dict[int, Sequence[str]] = {}
        self._reports: dict[int, Report] = {}
        self._parts = {report.view: report for report in parts}

    def reports(self, views: Sequence[View]) -> list[Report]:
        for view in views:
            for below in view.reads:
                self._read(below)
            self._tables[view.id] = self._evidence.view_rows(view)
        errors = {view.id: list(self._evidence.error_rows(view)) for view in views}
        self._relations = {view.id: self._evidence.relation(view) for view in views}
        asked = [view for view in views if not errors[view.id] or self._is_sparks(view)]
        by_spark = self._ask(asked)
        for view in views:
            answer = _named_as(view, by_spark.get(view.name))
            self._reports[view.id] = self._report(view, errors[view.id], answer)
        return [self._reports[view.id] for view in views]

    def _is_sparks(self, view: View) -> bool:
        """Whether Spark answers the view's query, and nobody else can."""
        return isinstance(self._relations[view.id], SparkQuery)

    def _read(self, id_: int) -> None:
        item = self._evidence.catalog.by_id(id_)
        if isinstance(item, InParts) and id_ not in self._tables:
            self._tables[id_] = self._evidence.rows_of_parts(item)
            if item.name in self._parts:
                self._reports[id_] = self._parts[item.name]
        if not isinstance(item, Table) or id_ in self._tables:
            return
        delta = self._evidence.delta(item)
        self._tables[id_] = delta.select(range(len(item.columns)))
        try:
            store = self._evidence.store(item)
        except Unproved as unproved:  # one store that is sick says nothing of the others' tables
            self._unproved[id_] = f"{item.name} cannot be compared with its store: {unproved}"
            return
        self._no_rows[id_] = store.no_rows
        columns = item.columns if item.key else (*item.columns, ROW_ID)
        key = tuple(item.columns[i].name for i in item.key) or (ROW_ID.name,)
        self._proofs[id_] = prove(KeyedTable(columns, key), delta, store.operations, store.rows, store.rejected,
                                   store.cells)  # fmt: skip

    def _ask(self, views: Sequence[View]) -> Mapping[str, Any]:
        if self._judge is None or not views:
            return {}
        texts = {view.id: self._text(view) for view in views}
        answers: dict[str, Any] = {}
        # Of one text `*` means the columns that there were when it was written: such views are asked apart.
        apart: dict[tuple[tuple[int, int], ...], list[View]] = {}
        for view in views:
            if texts[view.id] is not None:
                apart.setdefault(self._seen(view), []).append(view)
        for some in apart.values():
            tables = {self._name(id_): self._shown(id_, self._width(view, id_))
                      for view in some for id_ in view.reads}  # fmt: skip
            answers |= self._judge.answers({view.name: text for view in some if (text := texts[view.id])}, tables)
        return answers

    def _seen(self, view: View) -> tuple[tuple[int, int], ...]:
        """The tables of which the view's query does not mean all columns, and how many it does."""
        widths = [(id_, self._width(view, id_)) for id_ in view.reads]
        return tuple((id_, width) for id_, width in widths if width < self._tables[id_].num_columns)

    def _width(self, view: View, id_: int) -> int:
        """How many of the columns of what `view` reads there were when its query was written."""
        item = self._evidence.catalog.by_id(id_)
        return len(item.seen_at(view.saw).columns) if isinstance(item, Table) else self._tables[id_].num_columns

    def _text(self, view: View) -> str | None:
        """The view's query, ties settled as in the view; where Spark answers it, as Spark is asked; None where no text
        makes Spark settle them so."""
        relation = self._relations[view.id]
        if isinstance(relation, SparkQuery):
            return relation.sql
        if any(self._is_stream(id_) for id_ in view.reads) and PART_TIMESTAMP.name in view.sql.upper():
            return None  # it is hidden, as no column of Spark's is
        if not any(isinstance(each, (Limit, Windows)) or _takes_extremes(each) for each in relations_in(relation)):
            return view.sql
        (select,) = parse_script(view.sql)
        assert isinstance(select, SelectStatement), "a view's text is a query"
        return settled(select.query, relation, len(view.columns))

    def _shown(self, id_: int, width: int) -> pa.Table:
        """The first columns of what is read, less a stream's hidden one, which stands last."""
        return self._tables[id_].select(range(width - self._is_stream(id_)))

    def _is_stream(self, id_: int) -> bool:
        return isinstance(self._evidence.catalog.by_id(id_), Stream)

    def _name(self, id_: int) -> str:
        item = self._evidence.catalog.by_id(id_)
        assert item is not None, "a view's query reads what the catalog holds"
        return item.name

    def _report(self, view: View, errors: list[ErrorRow], by_spark: Any) -> Report:
        begin = time.perf_counter()
        below = self._problem_below(view)
        finding = below or self._finding(view, errors, by_spark)
        unproved = "; ".join(self._unproved[id_] for id_ in view.reads if id_ in self._unproved)
        if unproved and not finding.problem:
            finding = replace(finding, unjudged="; ".join(filter(None, [finding.unjudged, unproved])))
        verdict = "base wrong" if below else "wrong" if finding.problem else "right"
        verdict = NOT_JUDGED if finding.unjudged else verdict
        comparison = finding.comparison or Comparison(None, 0, [])
        return Report(
            view.name, self._evidence.version, verdict, finding.judge, len(self._tables[view.id]),
            time.perf_counter() - begin, finding.problem, comparison.rows, comparison.differing,
            list(finding.errors), self._left_out(view), unjudged=[finding.unjudged] if finding.unjudged else [],
        )  # fmt: skip

    def _problem_below(self, view: View) -> _Finding | None:
        """Why nothing can be said about `view`, if so."""
        for id_ in view.reads:
            name = self._name(id_)
            if id_ in self._proofs and not self._proofs[id_].comparison.equal:
                comparison = self._proofs[id_].comparison
                what = f"DELTA of {name} and the log after it do not give the store's rows"
                return _Finding("none", _of_rows(what, comparison), comparison)
            if id_ in self._reports and not self._reports[id_].ok:
                kind = "stream" if self._is_stream(id_) else "view"
                problem = f"{kind} {name} below it is {self._reports[id_].verdict}"
                unjudged = self._reports[id_].verdict == NOT_JUDGED
                return _Finding("none", unjudged=problem) if unjudged else _Finding("none", problem)
        return None

    def _left_out(self, view: View) -> list[str]:
        proofs = [(self._name(id_), self._proofs[id_]) for id_ in view.reads if id_ in self._proofs]
        keys = [f"{name} {', '.join(map(str, key))}" for name, proof in proofs for key in proof.left_out]
        return keys + [f"{self._name(id_)}: {why}" for id_ in view.reads for why in self._no_rows.get(id_, ())]

    def _finding(self, view: View, errors: list[ErrorRow], by_spark: Any) -> _Finding:
        if view.stopped is not None:
            return _Finding("none", unjudged=f"it is stopped, and behind: {view.stopped}")
        if view.filled is None:
            return _Finding("none", unjudged="it is not filled yet; db.catch_up() waits for it")
        if beyond := self._evidence.beyond(view):
            return _Finding("none", unjudged=beyond)
        lower = [error for id_ in view.reads if id_ in self._reports for error in self._reports[id_].errors]
        if lower:
            return _Finding("none", errors=lower)
        relation, found = self._relations[view.id], self._tables[view.id]
        if isinstance(relation, SparkQuery):
            return _of_spark(relation.sql, by_spark, found, errors, relation.sql in self._whole)
        exact = needs_exact(relation)
        if isinstance(by_spark, pa.Table) and not exact:
            return _compared("spark", compare(by_spark, found))
        inputs = {id_: self._answer(id_, self._width(view, id_)) for id_ in view.reads}
        if exact and not errors:
            exactly = exact_answer(relation, inputs, self._zone)
            if not exactly.answer.errors:
                return self._exact_finding(view, exactly.answer, exactly.slack, by_spark)
        answer = evaluate(relation, inputs, self._zone)
        if errors or answer.errors:
            return _compared_errors(answer.errors, errors)
        return _compared("row by row", compare(table_of(view.columns, answer.rows, self._zone), found))

    def _exact_finding(
        self, view: View, answer: Answer, slack: dict[int, list[float]] | None, by_spark: Any
    ) -> _Finding:  # fmt: skip
        expected = table_of(view.columns, answer.rows, self._zone)
        finding = _compared("exact", compare(expected, self._tables[view.id]))
        if finding.problem or slack is None or not isinstance(by_spark, pa.Table):
            return finding
        near = within(expected, by_spark, {view.columns[i].name: allowed for i, allowed in slack.items()})
        if near.equal:
            return finding
        return _Finding(
            "exact", _of_rows("Spark's answer (found) is too far from the exact one (expected)", near), near
        )

    def _answer(self, id_: int, width: int) -> Answer:
        if (id_, width) not in self._answers:
            self._answers[id_, width] = Answer(rows_of(self._tables[id_].select(range(width))))
        return self._answers[id_, width]


def _takes_extremes(relation: Relation) -> bool:
    """Whether it has calls of min_by, max_by or mode."""
    settled = {*EXTREMES_BY, "mode"}
    return isinstance(relation, GroupBy) and any(call.function in settled for call in relation.calls)


def _named_as(view: View, answer: Any) -> Any:
    """Spark's answer with the view's names, which CREATE VIEW may have listed apart from the query."""
    if isinstance(answer, pa.Table) and answer.num_columns == len(view.columns):
        return answer.rename_columns([column.name for column in view.columns])
    return answer


def _of_spark(sql: str, by_spark: Any, found: pa.Table, errors: list[ErrorRow], whole: bool) -> _Finding:
    """What is to be said of a view whose query Spark answers, as a `whole`, or beside operators of our own."""
    if by_spark is None:
        return _Finding("none", unjudged="Spark answers this view's query, and it was not asked")
    if isinstance(by_spark, pa.Table) and not errors:
        return _compared("spark", compared_as_rounded(sql, by_spark, found))
    if not isinstance(by_spark, pa.Table) and by_spark.condition is None:
        return _Finding("none", unjudged=f"Spark, which answers this view's query, failed: {by_spark.message}")
    if isinstance(by_spark, pa.Table) and not whole:
        return _Finding("none", unjudged="it has error rows, and Spark's answer to the whole query meets none of them: "
                        "it computes no value that it finds out no row needs", errors=errors)  # fmt: skip
    raised = set() if isinstance(by_spark, pa.Table) else {by_spark.condition.split(".")[0]}
    said = {error.code for error in errors}
    if not whole and not said and raised == {TOO_MANY}:
        return _Finding("none", unjudged=f"Spark says {TOO_MANY}, and runs subqueries that no row asks for, too")
    # Of several errors Spark names the one that it meets first; what has no class of ours is FUNCTION_RAISED.
    missing = set() if "FUNCTION_RAISED" in said else raised - said
    extra = set() if raised else said
    problems = [f"no error row for {code}" for code in sorted(missing)]
    problems += [f"an error row that should not be: {code}" for code in sorted(extra)]
    return _Finding("spark", "; ".join(problems), errors=errors)


def _compared(judge: str, comparison: Comparison) -> _Finding:
    problem = "" if comparison.equal else _of_rows("the view is not its query's answer", comparison)
    return _Finding(judge, problem, comparison)


def _of_rows(what: str, comparison: Comparison) -> str:
    return f"{what}: {comparison.shape or f'{comparison.rows} rows differ'}"


def _compared_errors(expected: Sequence[ErrorRow], found: Sequence[ErrorRow]) -> _Finding:
    """Which errors there are, and where, must agree; how often, and how the row is named, need not."""
    missing = {(e.code, e.place) for e in expected} - {(e.code, e.place) for e in found}
    extra = {(e.code, e.place) for e in found} - {(e.code, e.place) for e in expected}
    problems = [f"no error row for {code} at {place}" for code, place in sorted(missing)]
    problems += [f"an error row that should not be: {code} at {place}" for code, place in sorted(extra)]
    return _Finding("row by row", "; ".join(problems), errors=found or expected)
