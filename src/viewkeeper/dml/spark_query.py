"""INSERT of what only Spark answers: the query as a whole, over the rows that the statement reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from viewkeeper.catalog.arrow_tables import logical_table
from viewkeeper.catalog.model import Catalog, Column, Table, View
from viewkeeper.compiler.statements import Insert
from viewkeeper.errors import NotSupported, ViewBroken
from viewkeeper.pipeline.asking import physical_columns
from viewkeeper.pipeline.spark_answers import SparkFailed
from viewkeeper.pipeline.spark_views import determined_query
from viewkeeper.pipeline.work import QueryRaised, SparkQuestion
from viewkeeper.plans.changes import ANSWER_ID
from viewkeeper.plans.relations import Scan
from viewkeeper.trace.rows import Rows
from viewkeeper.views.spark_session import SparkUse


@dataclass(frozen=True)
class AnsweredQuery:
    """A query that Spark answers, over `objects`."""

    sql: str
    objects: tuple[Table | View, ...]
    columns: tuple[Column, ...]
    zone: str
    spark: SparkUse

    @property
    def relation(self) -> Scan:
        """Its rows, in a statement that changes rows."""
        return Scan(ANSWER_ID, "query", self.columns)

    def rows(self, scan: Callable[[int], Rows]) -> Rows:
        """What Spark answers, where `scan` gives the rows of the tables; raises ViewBroken where it raises."""
        tables = {
            of.name: logical_table(of.columns, scan(of.id).repeated().columns[: len(of.columns)], self.zone)
            for of in self.objects
        }
        question = SparkQuestion("rows to be inserted", self.zone, self.sql, tables, self.columns)
        try:
            answer = self.spark.answers()(question)
        except SparkFailed as error:
            raise ViewBroken(f"Spark cannot run the query: {error}") from error
        if isinstance(answer, QueryRaised):
            raise ViewBroken(f"the query raises {answer.code}: {answer.message}")
        return Rows(physical_columns(answer, self.columns), np.ones(len(answer), np.int64))


def answered_query(catalog: Catalog, statement: Insert, refused: NotSupported, spark: SparkUse) -> AnsweredQuery:
    """The query of `statement` as Spark's, which our own operators have `refused`.

    Raises what they said where it has parameters or reads streams; DeclarationError where Spark refuses it too, or
    where its answer would not be determined by the rows that it reads.
    """
    if statement.query.source.parameters:
        raise refused
    sql, objects, columns = determined_query(catalog, statement.query, refused, spark.analyst())
    tables = tuple(of for of in objects if isinstance(of, Table | View))
    if len(tables) < len(objects):
        raise refused
    return AnsweredQuery(sql, tables, columns, catalog.zone, spark)
