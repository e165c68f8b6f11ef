"""Whole queries that Spark SQL answers, for `pipeline.asking`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import logical_type
from viewkeeper.pipeline.work import QueryRaised, SparkQuestion
from viewkeeper.spark.asking import ask, raised_by_java
from viewkeeper.spark.processes import loss_named
from viewkeeper.spark.tables import named_tables
from viewkeeper.streams.spark.failures import failures, place_of, raise_unless_of_query, text_of
from viewkeeper.streams.spark.hidden import without_hidden
from viewkeeper.streams.spark.queries import converted, described
from viewkeeper.streams.spark.quiet import failures_unlogged
from viewkeeper.streams.spark.sessions import Sessions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkFailed(RuntimeError):
    """Spark cannot run the query, though it has analysed it."""


class SparkAnswers:
    """Answers in sessions of its own of the Spark that `session_factory` gives; several threads may call it."""

    def __init__(self, session_factory: Callable[[], SparkSession]) -> None:
        self._sessions = Sessions(session_factory)

    def __call__(self, question: SparkQuestion) -> pa.Table | QueryRaised:
        """The answer to `question`, or how Spark raised at it.

        Raises SparkFailed where the query cannot run, Error where that is not the query's doing.
        """
        rows, query = sum(map(len, question.tables.values())), without_hidden(question.sql, frozenset())
        session_of = self._sessions.session(question.zone, rows)
        with loss_named(), session_of as session, described(session, question.title), failures_unlogged():
            analysed = False
            try:
                with named_tables(session, question.tables):
                    answer = ask(session, question.sql, question.parameters)
                    analysed = True
                    return _logical(answer, question.columns, question.zone)
            except failures() as error:
                raise_unless_of_query(error)
                code = _code(error) if analysed else None
                if code is None:
                    raise SparkFailed(text_of(error, query)) from error
                return QueryRaised(code, place_of(error, query), text_of(error, query))


def _code(error: Exception) -> str | None:
    """The error class by which Spark says that the query raised; None where it has failed in another way."""
    from pyspark.errors import PySparkException

    condition = error.getCondition() if isinstance(error, PySparkException) else None
    if condition is not None:
        return None if condition.startswith("INTERNAL_ERROR") else condition.split(".")[0]
    return raised_by_java(error)


def _logical(answer: DataFrame, columns: Sequence[Column], zone: str) -> pa.Table:
    """The rows of `answer` in the types that users see of `columns`."""
    fields = [pa.field(f"c{i}", logical_type(column.type, zone)) for i, column in enumerate(columns)]
    return converted(answer, columns).toArrow().rename_columns([field.name for field in fields]).cast(pa.schema(fields))
