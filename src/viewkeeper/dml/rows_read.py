"""What a statement that changes rows reads: all tables as of one moment, of the table that it changes only the rows
with the keys that are asked for, where that can be seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Catalog, Table, View
from viewkeeper.catalog.types import physical_type
from viewkeeper.changes.layout import is_null
from viewkeeper.compiler.bind import bind_rows_of_view
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.statements import SelectStatement
from viewkeeper.dml.spark_query import AnsweredQuery
from viewkeeper.errors import NotSupported
from viewkeeper.maintenance.ad_hoc import run_query
from viewkeeper.plans.changes import ANSWER_ID, TARGET_ID, BoundChange
from viewkeeper.plans.expressions import ColumnRef, Compare, Expression, In, Literal
from viewkeeper.plans.relations import Constants, Filter, InnerJoin, OuterJoin, Project, Relation, Scan
from viewkeeper.plans.rewriting import conjuncts
from viewkeeper.plans.subqueries import scans_in
from viewkeeper.stores.contract import Moment
from viewkeeper.trace.keys import canonical
from viewkeeper.trace.rows import Rows
from viewkeeper.views.spark_session import SparkUse


class RowsRead:
    """What the relations of `bound` scan."""

    def __init__(
        self, catalog: Catalog, moment: Moment, bound: BoundChange, answered: Sequence[AnsweredQuery] = (),
        spark: SparkUse | None = None,
    ) -> None:  # fmt: skip
        self._catalog, self._moment, self._bound, self._spark = catalog, moment, bound, spark
        self._answered = {each.id: each for each in answered}
        self._scanned: dict[int, Rows] = {}

    def scan(self, id_: int) -> Rows:
        """The rows of a table, of a view as its query has them now, of the table that is changed, or of what Spark
        answers."""
        found = self._scanned.get(id_)
        if found is None:
            found = self._scanned[id_] = self._read(id_)
        return found

    def _read(self, id_: int) -> Rows:
        if id_ == TARGET_ID:
            return self._target()
        if id_ <= ANSWER_ID:
            return self._answered[id_].rows(self.scan)
        return self._object(id_)

    def _object(self, id_: int) -> Rows:
        found = self._catalog.by_id(id_)
        if isinstance(found, View):
            if found.asked is not None:
                return self._by_spark(found, found.asked)
            (statement,) = parse_script(found.sql)
            assert isinstance(statement, SelectStatement), "a view's query"
            rows = bind_rows_of_view(self._catalog.seen_at(found.saw), statement)
            return run_query(rows, self.scan, self._catalog.zone)
        assert isinstance(found, Table), "names mean tables and views"
        if found.outside is not None:
            raise NotSupported(f"{found.name} is in an outside store: its rows cannot be read in one step with what is "
                               "written; give the rows as VALUES, or with put_many")  # fmt: skip
        return self._whole(found).select(range(len(found.columns)))

    def _by_spark(self, view: View, asked: str) -> Rows:
        """The rows of a view that is Spark's, or has a part that is: its whole query, as Spark answers it now."""
        catalog = self._catalog.seen_at(view.saw)
        read = [catalog.by_id(id_) for id_ in view.reads]
        tables = tuple(each for each in read if isinstance(each, Table | View))
        if self._spark is None or len(tables) < len(read):
            raise NotSupported(f"{view.name} is a view whose query only Spark answers; read the tables of it")
        query = AnsweredQuery(view.id, asked, tables, view.columns, {}, self._catalog.zone, self._spark)
        return query.rows(self.scan)

    def _target(self) -> Rows:
        table = self._bound.table
        read = [rows.relation if rows.reads is None else rows.reads for rows in self._bound.rows]
        keys = [_keys(relation, table) for relation in read if _scans_target(relation)]
        if not table.key or None in keys:
            return self._whole(table)
        asked = Rows.concat([run_query(each, self.scan, self._catalog.zone)
                             for each in dict.fromkeys(keys) if each is not None])  # fmt: skip
        there = ~np.logical_or.reduce([is_null(column) for column in asked.columns])
        columns = [canonical(column) for column in asked.filter(there).columns]
        return _rows(self._moment.found(table, columns))

    def _whole(self, table: Table) -> Rows:
        parts = [_rows(columns) for _, columns in self._moment.rows(table)]
        hidden = [] if table.key else [pa.int64()]
        types = [*(physical_type(column.type) for column in table.columns), *hidden]
        return Rows.concat(parts) if parts else Rows.empty(types)


def _rows(columns: list[pa.Array]) -> Rows:
    return Rows(columns, np.ones(len(columns[0]), np.int64))


def _keys(relation: Relation, table: Table) -> Relation | None:
    """What gives the keys of all rows of the table that `relation` may need; None where it may need any.

    Either its condition says what the key is, or the table is joined by its key with the source of a MERGE.
    """
    below = relation.input if isinstance(relation, Project) else relation
    if isinstance(below, Filter) and _is_target(below.input):
        return _keys_in(conjuncts(below.predicate), table)
    if isinstance(below, InnerJoin) and _is_target(below.left):
        return _keys_of(below.right, below.left_keys, below.right_keys, table)
    if isinstance(below, OuterJoin) and _is_target(below.right):
        return _keys_of(below.left, below.right_keys, below.left_keys, table)
    return None


def _keys_in(terms: Sequence[Expression], table: Table) -> Relation | None:
    """The constants to which terms of a condition equate the columns of the key."""
    values: dict[int, tuple[Literal, ...]] = {}
    options: tuple[Literal, ...]
    for term in terms:
        if isinstance(term, Compare) and term.operator == "=" and isinstance(term.right, Literal):
            column, options = term.left, (term.right,)
        elif isinstance(term, Compare) and term.operator == "=" and isinstance(term.left, Literal):
            column, options = term.right, (term.left,)
        elif isinstance(term, In) and len(table.key) == 1:
            column, options = term.argument, tuple(each for each in term.options if isinstance(each, Literal))
            if len(options) < len(term.options):
                continue
        else:
            continue
        if isinstance(column, ColumnRef):
            values.setdefault(column.index, options)
    if not values.keys() >= set(table.key):
        return None
    rows = list(zip(*(values[i] for i in table.key), strict=True))
    return Constants(tuple(rows), tuple(table.columns[i] for i in table.key))


def _keys_of(
    source: Relation, own: Sequence[Expression], others: Sequence[Expression], table: Table
) -> Relation | None:  # fmt: skip
    """The values of `others` in the rows of `source` for the columns of the key, if these are among `own`."""
    paired = {each.index: other for each, other in zip(own, others, strict=True) if isinstance(each, ColumnRef)}
    if not paired.keys() >= set(table.key):
        return None
    return Project(source, tuple(paired[i] for i in table.key), tuple(table.columns[i].name for i in table.key))


def _scans_target(relation: Relation) -> bool:
    return any(scan.object == TARGET_ID for scan in scans_in(relation))


def _is_target(relation: Relation) -> bool:
    return isinstance(relation, Scan) and relation.object == TARGET_ID
