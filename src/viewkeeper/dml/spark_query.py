"""Statements that change rows by what only Spark answers: their queries as a whole, over the rows that they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from viewkeeper.catalog.arrow_tables import logical_table
from viewkeeper.catalog.model import Catalog, Column, Table, View
from viewkeeper.compiler.bind_changes import defaults_written, table_changed, target_columns
from viewkeeper.compiler.parse_changes import NOT_MATCHED, TARGET
from viewkeeper.compiler.part_references import quoted
from viewkeeper.compiler.statements import Insert, Merge, RowStatement
from viewkeeper.compiler.written_anew import UNWRITTEN
from viewkeeper.errors import DeclarationError, NotSupported, QueryRaises, ViewBroken
from viewkeeper.pipeline.asking import physical_columns
from viewkeeper.pipeline.spark_answers import SparkFailed
from viewkeeper.pipeline.spark_views import Determined, RowsBeside, determined_query
from viewkeeper.pipeline.work import QueryRaised, SparkQuestion
from viewkeeper.plans.changes import ANSWER_ID, TARGET_ID
from viewkeeper.plans.relations import Scan
from viewkeeper.spark.parameters import Constant
from viewkeeper.trace.rows import Rows
from viewkeeper.views.spark_session import SparkUse


@dataclass(frozen=True)
class AnsweredQuery:
    """A query that Spark answers, over `objects`; its rows are scanned by `id`."""

    id: int
    sql: str
    objects: tuple[Table | View | RowsBeside, ...]
    columns: tuple[Column, ...]
    parameters: Mapping[str, Constant]
    zone: str
    spark: SparkUse

    @property
    def relation(self) -> Scan:
        """Its rows, in a statement that changes rows."""
        return Scan(self.id, "query", self.columns)

    def rows(self, scan: Callable[[int], Rows]) -> Rows:
        """What Spark answers, where `scan` gives the rows of the tables; raises ViewBroken where it raises."""
        tables = {
            of.name: logical_table(of.columns, scan(of.id).repeated().columns[: len(of.columns)], self.zone)
            for of in self.objects
        }
        question = SparkQuestion("rows to be changed", self.zone, self.sql, tables, self.columns, self.parameters)
        try:
            answer = self.spark.answers()(question)
        except SparkFailed as error:
            raise ViewBroken(f"Spark cannot run the query: {error}") from error
        if isinstance(answer, QueryRaised):
            message = answer.message.replace(UNWRITTEN, "")
            raise QueryRaises(f"the query raises {answer.code}: {message}")
        return Rows(physical_columns(answer, self.columns), np.ones(len(answer), np.int64))


def answered_queries(
    catalog: Catalog, statement: RowStatement, refused: NotSupported, spark: SparkUse
) -> tuple[AnsweredQuery, ...]:
    """The queries of `statement` as Spark's, which our own operators have `refused`: all of them, so that one way of
    computing says what the source of a MERGE is.

    Raises what they said where one reads streams; DeclarationError where Spark refuses it too, or where its answer
    would not be determined by the rows that it reads.
    """
    if isinstance(statement, Insert):
        filled = defaults_written(catalog, statement)
        try:
            query = statement.query if filled is None else filled.query()
            asked = determined_query(catalog, query, refused, spark.analyst())
        except DeclarationError as error:
            if error is refused or filled is None:
                raise
            raise filled.told(error) from None
        return (_answered(catalog, ANSWER_ID, asked, asked.columns, refused, spark),)
    table = table_changed(catalog, statement)
    columns = target_columns(table)
    target = RowsBeside(TARGET_ID, TARGET, columns, table.key or (len(table.columns),))
    if isinstance(statement, Merge):
        texts = [(rows.query, rows.anew, rows.kind != NOT_MATCHED) for rows in statement.rows]
    else:
        texts = [(statement.query, statement.anew, True)]
    found = []
    for number, (query, anew, of_table) in enumerate(texts):
        own = columns if of_table else ()
        shown = [f"{anew.target}.{quoted(column.name)} AS {quoted(f'{UNWRITTEN}{i}')}" for i, column in enumerate(own)]
        made = anew.selecting(query.source, shown)
        try:
            asked = determined_query(catalog, made.query(), refused, spark.analyst(), (target,))
        except DeclarationError as error:
            if error is refused:
                raise
            raise made.told(error) from None
        given = (*own, *asked.columns[len(own) :])
        found.append(_answered(catalog, ANSWER_ID - number, asked, given, refused, spark))
    return tuple(found)


def _answered(
    catalog: Catalog, id_: int, asked: Determined, columns: tuple[Column, ...], refused: NotSupported, spark: SparkUse
) -> AnsweredQuery:
    tables = tuple(of for of in asked.objects if isinstance(of, Table | View | RowsBeside))
    if len(tables) < len(asked.objects):
        raise refused
    return AnsweredQuery(id_, asked.sql, tables, columns, asked.parameters, catalog.zone, spark)
