"""Running one statement that changes rows."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from viewkeeper.catalog.model import Catalog
from viewkeeper.changes.operations import Operations
from viewkeeper.compiler.bind_changes import bind_change
from viewkeeper.compiler.source_text import placed
from viewkeeper.compiler.statements import Insert, Merge, RowStatement
from viewkeeper.dml.row_operations import RowOperations, row_operations
from viewkeeper.dml.rows_read import RowsRead
from viewkeeper.dml.spark_query import AnsweredQuery, answered_queries
from viewkeeper.errors import NotSupported
from viewkeeper.maintenance.ad_hoc import run_query
from viewkeeper.plans.changes import BoundChange
from viewkeeper.stores.contract import Moment, Store
from viewkeeper.views.result import Result
from viewkeeper.views.spark_session import SparkUse


def run_change(catalog: Catalog, store: Store, statement: RowStatement, spark: SparkUse | None = None) -> Result:
    """Does what `statement` says, all of it or nothing.  The result counts the rows, and has the token of the write.
    `spark` answers queries that our own operators do not know.

    Raises DeclarationError or NotSupported where it is refused as written, ViewBroken where an expression raises for a
    row, InputError where the table cannot take a row.
    """
    bound, answered = _bound(catalog, statement, spark)
    if bound.table.outside is not None:
        message = (f"{bound.table.name} is in an outside store, which has no atomic steps over what is read and "
                   "written, as statements that change rows need; write rows with put and delete")  # fmt: skip
        raise NotSupported(message, *statement.place)
    written = statement.rows[0].query if isinstance(statement, Merge) else statement.query
    done: list[RowOperations] = []

    def compute(moment: Moment) -> Sequence[Operations]:
        reading = RowsRead(catalog, moment, bound, answered, spark)
        with placed(written):
            results = [run_query(rows.relation, reading.scan, catalog.zone).repeated() for rows in bound.rows]
        done.append(row_operations(bound, results, moment, catalog.zone))
        return done[-1].operations

    token = store.change(bound.table, compute)
    updated, deleted, inserted = done[-1].updated, done[-1].deleted, done[-1].inserted
    counts = {"num_affected_rows": updated + deleted + inserted}
    if isinstance(statement, Merge):
        counts |= {"num_updated_rows": updated, "num_deleted_rows": deleted}
    if isinstance(statement, Insert | Merge):
        counts["num_inserted_rows"] = inserted
    table = pa.table({name: pa.array([count], pa.int64()) for name, count in counts.items()})
    return Result(table, affected=counts["num_affected_rows"], token=token)


def _bound(
    catalog: Catalog, statement: RowStatement, spark: SparkUse | None
) -> tuple[BoundChange, tuple[AnsweredQuery, ...]]:
    """The statement, and the queries that Spark answers, if there are any."""
    try:
        return bind_change(catalog, statement), ()
    except NotSupported as refused:
        if spark is None:
            raise
        answered = answered_queries(catalog, statement, refused, spark)
        return bind_change(catalog, statement, [each.relation for each in answered]), answered
