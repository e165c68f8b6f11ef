"""Parts of views that Spark SQL computes: the query of a ViewDF over the pieces it names, its rows into a part file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import logical_type, to_physical
from viewkeeper.compiler.part_references import quoted
from viewkeeper.errors import ViewBroken
from viewkeeper.spark.asking import ask
from viewkeeper.spark.tables import in_months
from viewkeeper.spark.types import spark_type
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.query_parts import made_part
from viewkeeper.streams.spark.failures import failure, failures, raise_unless_of_query
from viewkeeper.streams.spark.hidden import HiddenQuery, without_hidden
from viewkeeper.streams.spark.quiet import failures_unlogged
from viewkeeper.streams.spark.reading import PartPieces, frame, needed, rows_of
from viewkeeper.streams.spark.sessions import Sessions
from viewkeeper.streams.work import Outcome, QueryWork

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS_AT_ONCE = 1 << 18


class _Failed(Exception):
    """The query failed while it ran, or does not fit the tables any more; the message is for the user."""


class QueryRunner:
    """Runs queries in sessions of its own of the Spark that `session_factory` gives; several threads may call it."""

    def __init__(self, session_factory: Callable[[], SparkSession]) -> None:
        self._sessions = Sessions(session_factory)

    def query(self, work: QueryWork) -> Outcome:
        """The part that `work` asks for, in a file that is durable; what fails in the query is `Outcome.error`."""
        started = time.monotonic()
        try:
            table = self._answer(work)
        except _Failed as failed:
            return Outcome(error=str(failed), seconds=time.monotonic() - started)
        return made_part(work, len(table), lambda: _blocks(table, work.view.columns, work.zone), started)

    def recompute(self, work: QueryWork) -> pa.Table:
        """The rows of the part that `work` asks for, as users see them; nothing is written.  Raises ViewBroken where
        the query fails."""
        try:
            table = self._answer(work)
        except _Failed as failed:
            raise ViewBroken(f"{work.view.name}[{work.part}]: {failed}") from None
        fields = [pa.field(column.name, logical_type(column.type, work.zone)) for column in work.view.columns]
        arrays = [_logical(table.column(i), column, work.zone) for i, column in enumerate(work.view.columns)]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def parts_read(self, work: QueryWork) -> dict[str, tuple[int, ...]]:
        """The parts with rows that the query reads of each of its tables: those that its conditions on PART_TIMESTAMP
        leave."""
        return {name: tuple(sorted(each)) for name, each in self._needed(work, _hidden_query(work)).items()}

    def _needed(self, work: QueryWork, query: HiddenQuery) -> dict[str, PartPieces]:
        """The pieces that the query can need, by the name of the table."""
        found: dict[str, PartPieces] = dict(work.pieces)
        tried = {name: query.conditions[name.lower()] for name, each in found.items()
                 if name.lower() in query.conditions and len(each) > 1}  # fmt: skip
        if tried:
            with self._sessions.session(work.zone, 0) as session:
                for name, condition in tried.items():
                    hidden, length = query.columns[name.lower()], work.lengths[name]
                    found[name] = needed(session, found[name], condition, hidden, length, work.zone)
        return found

    def _answer(self, work: QueryWork) -> pa.Table:
        """The query's rows in the types of the view's columns, as Spark gives them."""
        query = _hidden_query(work)
        pieces = self._needed(work, query)
        rows = sum(rows_of(each) for each in pieces.values())
        session_of = self._sessions.session(work.zone, rows)
        with session_of as session, described(session, work.title), failures_unlogged():
            try:
                with _tables(session, work, query, pieces):
                    return converted(ask(session, query.sql), work.view.columns).toArrow()
            except failures() as error:
                raise_unless_of_query(error)
                raise _Failed(failure(error, query, work.query)) from None


def _hidden_query(work: QueryWork) -> HiddenQuery:
    return without_hidden(work.query.sql, frozenset(name.lower() for name in work.lengths))


@contextmanager
def _tables(
    session: SparkSession, work: QueryWork, query: HiddenQuery, pieces: Mapping[str, PartPieces]
) -> Iterator[None]:
    """The tables that the query names, as views of the session while the block runs."""
    try:
        for name, columns in work.columns.items():
            hidden = query.columns.get(name.lower())
            rows = frame(session, work.disk, columns, pieces.get(name, {}), work.zone,
                         work.lengths.get(name), hidden)  # fmt: skip
            rows.createOrReplaceTempView(quoted(name))
        yield
    finally:
        for name in work.columns:
            session.catalog.dropTempView(name)


@contextmanager
def described(session: SparkSession, title: str) -> Iterator[None]:
    """Spark's own user interface names the jobs of the block by `title`."""
    context = session.sparkContext
    context.setJobDescription(title)
    try:
        yield
    finally:
        context.setJobDescription("")


def converted(answer: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """The answer's columns converted by position, where they are of other types; ANSI: what does not fit raises.
    Intervals of months become numbers."""
    from pyspark.sql import functions as f

    wanted = [spark_type(column.type) for column in columns]
    if [field.dataType for field in answer.schema.fields] != wanted:
        names = [f"c{i}" for i in range(len(columns))]
        as_wanted = (f.col(name).cast(type_) for name, type_ in zip(names, wanted, strict=True))
        answer = answer.toDF(*names).select(*as_wanted)
    return in_months(answer)


def _blocks(table: pa.Table, columns: Sequence[Column], zone: str) -> Iterator[Block]:
    """The rows of `table`, at most _ROWS_AT_ONCE in each block."""
    for start in range(0, len(table), _ROWS_AT_ONCE):
        some = table.slice(start, _ROWS_AT_ONCE)
        arrays = []
        for i, column in enumerate(columns):
            logical = _logical(some.column(i), column, zone).combine_chunks()
            arrays.append(to_physical(logical, column.type))
        yield Block(arrays, np.zeros(len(some), dtype=np.uint64))


def _logical(values: pa.ChunkedArray, column: Column, zone: str) -> pa.ChunkedArray:
    return values.cast(logical_type(column.type, zone))
