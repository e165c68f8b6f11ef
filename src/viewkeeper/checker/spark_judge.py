"""Spark SQL as the judge: the view's own query over given tables, in a session of our own settings.

What a query costs here is planning, not data, so small tables become one partition each: no query over them has a
shuffle, or more than one task (30 ms instead of 100), and several queries are planned and run at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from viewkeeper.catalog.model import PythonFunction
from viewkeeper.spark.asking import ask, deepest, raised_by_java
from viewkeeper.spark.python_functions import named_functions
from viewkeeper.spark.sessions import active, own_session
from viewkeeper.spark.tables import SMALL_ROWS, answer_of, named_tables
from viewkeeper.streams.spark.quiet import failures_unlogged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL = {"spark.sql.adaptive.enabled": "false", "spark.sql.codegen.wholeStage": "false",
          "spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.autoBroadcastJoinThreshold": "-1",
          "spark.sql.shuffle.partitions": "1"}  # fmt: skip
_AT_ONCE = 4
_INTERNAL = "XX000"  # the SQLSTATE of what Spark takes for a defect of its own


@dataclass(frozen=True)
class SparkRaised:
    """Spark's query failed while it ran: its error class (None: by a fault of Spark's own), and its message."""

    condition: str | None
    message: str

    def __str__(self) -> str:
        return self.condition or self.message


class SparkJudge:
    """Answers of Spark SQL.  `zone` is the database's time zone, `functions` are its own; the settings of
    `spark` are not touched."""

    def __init__(self, spark: SparkSession, zone: str = "UTC", functions: Sequence[PythonFunction] = ()) -> None:
        self._zone, self._functions = zone, functions
        self._small = own_session(spark, zone, _SMALL)
        self._large = own_session(spark, zone)

    def answers(self, queries: Mapping[str, str], tables: Mapping[str, pa.Table]) -> dict[str, pa.Table | SparkRaised]:
        """The answer of each query (name to SELECT text) over `tables` (name to logical Arrow table).

        A query that Spark cannot analyse raises pyspark's AnalysisException; nullability comes from the Arrow schemas.
        """
        small = sum(len(table) for table in tables.values()) <= SMALL_ROWS
        session = self._small if small else self._large
        with (failures_unlogged(), active(session), named_tables(session, tables),
              named_functions(session, self._functions, self._zone),
              ThreadPoolExecutor(_AT_ONCE) as threads):  # fmt: skip
            found = list(threads.map(lambda text: self._answer(session, text), queries.values()))
        return dict(zip(queries, found, strict=True))

    def _answer(self, session: SparkSession, text: str) -> pa.Table | SparkRaised:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import AnalysisException, ParseException, PySparkException

        analysed = False
        try:
            frame = ask(session, text)
            analysed = True  # from now on what is raised is raised of rows
            return answer_of(frame, self._zone)
        except PySparkException as error:
            if error.getSqlState() == _INTERNAL:
                return SparkRaised(None, str(error).splitlines()[0])
            if not analysed and isinstance(error, (AnalysisException, ParseException)):
                raise
            return SparkRaised(error.getCondition() or type(error).__name__, str(error).splitlines()[0])
        except Py4JJavaError as error:  # else it broke where no query's error is expected
            return SparkRaised(raised_by_java(error), deepest(error).splitlines()[0])
