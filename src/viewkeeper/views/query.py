"""SELECT without Spark: over tables, views, streams and views over streams, at one version."""

from __future__ import annotations

import numpy as np

from viewkeeper.catalog.arrow_tables import logical_table
from viewkeeper.catalog.model import Table, View
from viewkeeper.compiler.bind import bind_query
from viewkeeper.compiler.source_text import placed
from viewkeeper.compiler.statements import SelectStatement
from viewkeeper.errors import NotFound
from viewkeeper.maintenance.ad_hoc import run_query
from viewkeeper.plans.relations import Query
from viewkeeper.trace.ordering import OrderTerm, sort_indices
from viewkeeper.trace.rows import Rows
from viewkeeper.views.part_pruning import uses
from viewkeeper.views.part_query import PartTables
from viewkeeper.views.result import Result
from viewkeeper.views.version import Version


def run_select(version: Version, statement: SelectStatement) -> Result:
    """The rows of a SELECT; raises NotSupported for what the compiler does not admit (engine="spark" may)."""
    parts = PartTables(version, statement)
    query = bind_query(parts.names, statement)
    parts.read_by(query.relation)

    def scan(id_: int) -> Rows:
        if id_ in parts:
            return parts.rows(id_)
        found = version.catalog.by_id(id_)
        if not isinstance(found, (Table, View)):
            raise NotFound(f"there is no table or view with id {id_}")
        return version.rows(version.shape(found.name))

    with placed(statement.query):
        rows = arrange(query, run_query(query.relation, scan, version.catalog.zone).repeated())
    columns = query.relation.columns[: query.visible]
    return Result(logical_table(columns, rows.columns[: query.visible], version.catalog.zone))


def explain_select(version: Version, statement: SelectStatement) -> list[str]:
    """What a SELECT reads, a line for each table, view, stream or part reference; raises as `run_select`."""
    parts = PartTables(version, statement)
    query = bind_query(parts.names, statement)
    parts.read_by(query.relation)
    lines = []
    for id_, use in uses(query.relation).items():
        named = [column.name for i, column in enumerate(use.scan.columns) if i in use.columns]
        columns = f"columns {', '.join(named)}" if named else "no columns, rows are counted"
        lines.append(f"{parts.text(id_)}, {columns}" if id_ in parts else f"all of {use.scan.name}, {columns}")
    return lines


def arrange(query: Query, rows: Rows) -> Rows:
    """`rows` in the order of ORDER BY (equal rows in no order), those that OFFSET and LIMIT leave."""
    if query.order:
        terms = [OrderTerm(rows.columns[o.index], o.ascending, o.nulls_first) for o in query.order]
        order = sort_indices(terms)
    else:
        order = np.arange(len(rows))
    end = None if query.limit is None else query.offset + query.limit
    return rows.take(order[query.offset : end]) if query.order or query.offset or end is not None else rows
