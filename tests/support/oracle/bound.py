"""A case with its SQL bound: what the row-by-row evaluator says of it, for every batch, as evidence for a check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from viewkeeper.catalog.model import Catalog, StateSpec, Stored, Table, View
from viewkeeper.checker.check import ROW_ID, StoreRows
from viewkeeper.checker.row_evaluator import Answer, ErrorRow, evaluate
from viewkeeper.checker.tables import table_of
from viewkeeper.compiler.bind import bind_table, bind_view
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.statements import CreateTable, CreateView
from viewkeeper.plans.relations import Relation
from without_streams import WithoutStreams

from .model import Base, Case

_NOWHERE = Stored(StateSpec(0, "weighted", (), 0), ())


class BoundCase:
    """The case's catalog, its base, and the views' relations by name."""

    def __init__(self, case: Case, zone: str = "UTC") -> None:
        self.case, self.base = case, Base(case.schemas)
        self.catalog = Catalog(zone=zone)
        self.relations: dict[str, Relation] = {}
        for text in (*case.tables, *case.views):
            for statement in parse_script(text):
                if isinstance(statement, CreateTable):
                    self._declare_table(statement)
                elif isinstance(statement, CreateView):
                    self._declare_view(statement)

    def _declare_table(self, statement: CreateTable) -> None:
        bound = bind_table(statement, self.catalog.zone)
        table = Table(self.catalog.next_id, statement.name.name, bound.columns, bound.key, _NOWHERE, bound.details)
        self.catalog = replace(self.catalog.adding(table), next_id=table.id + 1)

    def _declare_view(self, statement: CreateView) -> None:
        bound = bind_view(self.catalog, statement)
        view = View(self.catalog.next_id, bound.name, bound.sql, bound.columns, bound.key, bound.unique, bound.reads,
                    _NOWHERE, 0)  # fmt: skip
        self.catalog = replace(self.catalog.adding(view), next_id=view.id + 1)
        self.relations[view.name] = bound.relation

    def apply_all(self) -> None:
        """All batches of the case."""
        for batch in self.case.batches:
            for operation in batch:
                self.base.apply(operation)

    def answers(self) -> dict[str, Answer]:
        """What each view's query says of the base as it is now."""
        inputs = {table.id: Answer(self.base.rows(table.name)) for table in self.catalog.tables}
        found = {}
        for view in self.catalog.views:
            inputs[view.id] = found[view.name] = evaluate(self.relations[view.name], inputs, self.catalog.zone)
        return found

    def evidence(self) -> Evaluated:
        return Evaluated(self, self.answers())


@dataclass(frozen=True)
class Evaluated(WithoutStreams):
    """A database whose views hold what the evaluator says: `check.Evidence`."""

    bound: BoundCase
    answers: dict[str, Answer]
    version: int = 1

    @property
    def catalog(self) -> Catalog:
        return self.bound.catalog

    def delta(self, table: Table) -> pa.Table:
        rows = self.bound.base.arrow(table.name, self.catalog.zone)
        return rows if table.key else rows.append_column(ROW_ID.name, pa.array(range(len(rows)), pa.int64()))

    def store(self, table: Table) -> StoreRows:
        return StoreRows(self.delta(table), [])

    def view_rows(self, view: View) -> pa.Table:
        return table_of(view.columns, self.answers[view.name].rows, self.catalog.zone)

    def error_rows(self, view: View) -> Sequence[ErrorRow]:
        return self.answers[view.name].errors

    def relation(self, view: View) -> Relation:
        return self.bound.relations[view.name]
