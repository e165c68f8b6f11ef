"""The row-by-row evaluator over parts: queries that name parts, and windows of parts.

In a window each row is joined with the dimension tables as they were recorded for the row's own part.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from viewkeeper.catalog.model import Catalog, PartView, Stream
from viewkeeper.checker.part_evidence import PART, PartsEvidence, dimension_table, rows_by_part
from viewkeeper.checker.part_sql import Asked
from viewkeeper.checker.row_evaluator import Answer, evaluate, evaluate_query
from viewkeeper.checker.tables import Row, rows_of
from viewkeeper.compiler.bind import bind_query, bind_view_query
from viewkeeper.compiler.bind_window import WindowBinder
from viewkeeper.compiler.namespace import Beside, Derived, parts_derived
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.statements import AlterView, CreateView, CreateWindowView, Identifier, SelectStatement
from viewkeeper.plans.relations import Filter, GroupBy, Project, Relation, Scan
from viewkeeper.plans.viewdf import PlannedQuery


def query_rows(evidence: PartsEvidence, query: PlannedQuery, asked: Asked) -> Answer:
    """The answer of a query for one part; raises DeclarationError where the query is beyond the evaluator."""
    catalog = evidence.catalog
    named: list[Derived] = []
    inputs: dict[int, Answer] = {}
    for name, (object_, first, last, _) in asked.parts.items():
        source = catalog.source(object_)
        named.append(parts_derived(len(named), name, source))
        inputs[named[-1].id] = Answer(list(_with_moments(evidence, source, first, last)))
    for name, (id_, version) in asked.dimensions.items():
        item = dimension_table(catalog, id_)
        named.append(Derived(len(named), name, item.columns))
        inputs[named[-1].id] = Answer(rows_of(evidence.dimension(item, version)))
    (select,) = parse_script(query.query.sql)
    assert isinstance(select, SelectStatement)
    names = Beside(Catalog(zone=catalog.zone), *named)
    return evaluate_query(bind_query(names, select), inputs, catalog.zone)


def history(evidence: PartsEvidence, source: Stream | PartView, first: int, last: int) -> dict[int, list[Row]]:
    """The rows of the parts from `first` to `last` that have any, by part."""
    table = rows_by_part(evidence, source, evidence.with_rows(source, first, last))
    found: dict[int, list[Row]] = {}
    for part, row in zip(table[PART].to_pylist(), rows_of(table.drop_columns([PART])), strict=True):
        found.setdefault(part, []).append(row)
    return found


def _with_moments(evidence: PartsEvidence, source: Stream | PartView, first: int, last: int) -> Iterator[Row]:
    """Rows with PART_TIMESTAMP behind them."""
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    for part, rows in history(evidence, source, first, last).items():
        moment = epoch + datetime.timedelta(seconds=part * source.length)
        yield from ((*row, moment) for row in rows)


@dataclass(frozen=True)
class WindowQuery:
    """The SELECT of a window view, as text without WINDOW and bound: `below` gives the rows of its aggregate, part by
    part."""

    sql: str
    whole: Project
    aggregate: GroupBy

    @property
    def below(self) -> Relation:
        return self.aggregate.input

    def over(self, rows: Answer, zone: str) -> Answer:
        """The answer over the window's rows."""
        scan = Scan(0, "", self.below.columns)
        aggregate: Relation = replace(self.aggregate, input=scan)
        inner = self.whole.input
        if isinstance(inner, Filter):
            aggregate = replace(inner, input=aggregate)
        return evaluate(replace(self.whole, input=aggregate), {0: rows}, zone)


def bind_window(catalog: Catalog, view: PartView, source: Stream | PartView) -> WindowQuery:
    """The query of a window view over the rows of its source."""
    (statement,) = parse_script(view.sql)
    if isinstance(statement, AlterView):
        statement = statement.view
    assert isinstance(statement, CreateWindowView), "the text of a window view"
    query = statement.query
    names = tuple(Identifier(column.name, (1, 1)) for column in view.columns)
    asked = CreateView(statement.text, statement.place, statement.name, names, query)
    relation = bind_view_query(Beside(catalog, source), asked, WindowBinder).relation
    assert isinstance(relation, Project)
    below = relation.input.input if isinstance(relation.input, Filter) else relation.input
    assert isinstance(below, GroupBy)
    return WindowQuery(query.sql, relation, below)


def joined_rows(
    query: WindowQuery, source: int, rows: Sequence[Row], dimensions: Mapping[int, Answer], zone: str
) -> Answer:
    """The rows of one part of the window's source, joined and filtered as the query says."""
    return evaluate(query.below, {source: Answer(list(rows)), **dimensions}, zone)
