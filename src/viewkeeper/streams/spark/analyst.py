"""Spark's word on a query of a view before it is declared: its columns, or why it cannot be one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot.tokens import Token, TokenType

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import INT, logical_type
from viewkeeper.compiler.namespace import PART_TIMESTAMP
from viewkeeper.compiler.part_references import quoted
from viewkeeper.compiler.source_text import Script
from viewkeeper.compiler.syntax import tokenize
from viewkeeper.compiler.written_anew import NULL_VALUE
from viewkeeper.errors import DeclarationError
from viewkeeper.spark.asking import ask, one_query, parsed
from viewkeeper.spark.parameters import Constant
from viewkeeper.spark.refused_types import why_no_column
from viewkeeper.spark.tables import local
from viewkeeper.spark.types import catalog_type, declared_in, schema
from viewkeeper.streams.analyst import Keys, NotByRows
from viewkeeper.streams.spark.by_rows import not_by_rows
from viewkeeper.streams.spark.collations import shown_by_chance
from viewkeeper.streams.spark.failures import failures, raise_unless_of_query, refusal
from viewkeeper.streams.spark.hidden import HiddenQuery, without_hidden
from viewkeeper.streams.spark.plans import (
    SPECIAL,
    Changing,
    PlanNode,
    changing,
    foreign_function,
    outside,
    plan_of,
    spark_functions,
    unnamed_relation,
)  # fmt: skip
from viewkeeper.streams.spark.quiet import failures_unlogged
from viewkeeper.streams.spark.sessions import Sessions
from viewkeeper.streams.spark.ties import undetermined

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkAnalyst:
    """Analyses queries over empty tables, in sessions of its own of the Spark that `session_factory` gives."""

    def __init__(self, session_factory: Callable[[], SparkSession]) -> None:
        self._sessions = Sessions(session_factory)

    def columns(
        self, sql: str, tables: Mapping[str, tuple[Column, ...]], timed: Collection[str] | None = None,
        zone: str = "UTC", by_rows: str | None = None, keys: Keys | None = None, nested: bool = False,
        parameters: Mapping[str, Constant] | None = None,
    ) -> tuple[Column, ...]:  # fmt: skip
        """The columns of a query (`PartQuery.sql`) over tables of these shapes, as Spark names and types them.

        `timed` are the tables that have a hidden PART_TIMESTAMP, all by default.  Names may be given twice.  Raises
        DeclarationError, its place within `sql`: where Spark refuses the query, where it is none, reads anything but
        `tables`, may answer otherwise another time, or gives a type that no column can have; NotByRows where it takes
        rows of the table `by_rows` together.
        """
        _refuse_other_statements(sql)
        timed_tables = frozenset(name.lower() for name in (tables if timed is None else timed))
        query = without_hidden(sql, timed_tables)
        with self._sessions.session(zone, 0) as session, failures_unlogged():
            try:
                read = self._refuse_other_tables(session, query, tables)
                with _empty_tables(session, query, tables):
                    frame = ask(session, query.sql, parameters)
                    self._refuse_other_functions(session, query, read)
                    analysed = frame._jdf.queryExecution().analyzed()
                    plan = plan_of(analysed)
                    if by_rows is not None:
                        self._refuse_taking_together(query, plan, by_rows)
                    self._refuse_changing(query, plan, analysed.deterministic())
                    if keys is not None and (tied := undetermined(plan, keys)) is not None:
                        raise _changing(query, tied)
                    return _columns(query, frame, nested, parameters is not None)
            except failures() as error:
                raise_unless_of_query(error)
                raise refusal(error, query) from None

    def _refuse_other_functions(self, session: SparkSession, query: HiddenQuery, plan: PlanNode) -> None:
        function = foreign_function(plan, spark_functions(session))
        if function is not None:
            raise _at(query, function.split("."), f"{function} is no function of Spark's own; a view can call those "
                      "alone")  # fmt: skip

    def _refuse_other_tables(self, session: SparkSession, query: HiddenQuery, names: Collection[str]) -> PlanNode:
        plan = plan_of(parsed(session, query.sql))
        other = unnamed_relation(plan, names)
        if other == "IDENTIFIER(...)":
            raise _at(query, ("IDENTIFIER",), "IDENTIFIER(...) may name anything; write the name itself")
        if other is not None:
            raise _at(query, other.split("."), f"{other} is no stream, view or table of this database that is named "
                      "here; a view can read those alone")  # fmt: skip
        return plan

    def _refuse_taking_together(self, query: HiddenQuery, plan: PlanNode, table: str) -> None:
        found = not_by_rows(plan, table)
        if found is not None:
            raise _at(query, found.names, found.what, NotByRows)

    def _refuse_changing(self, query: HiddenQuery, plan: PlanNode, deterministic: bool) -> None:
        other = outside(plan)
        if other is not None:
            raise DeclarationError(f"the query reads what is not in this database ({other}); a view can read its "
                                   "streams, views and tables alone")  # fmt: skip
        found = changing(plan, deterministic) or shown_by_chance(plan)
        if found is not None:
            raise _changing(query, found)


def _refuse_other_statements(sql: str) -> None:
    source = Script(sql)
    tokens = tokenize(source)
    one_query(sql)
    for before, token in zip(tokens, tokens[1:], strict=False):
        if _is_moment(before) and token.token_type == TokenType.STRING and SPECIAL.fullmatch(token.text):
            raise source.error(f"{before.text} '{token.text}' is another one each time; store the moment with the row, "
                               "or use PART_TIMESTAMP of a stream", before.start)  # fmt: skip


def _is_moment(token: Token) -> bool:
    return token.text.upper() in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")


def _at(
    query: HiddenQuery, names: Collection[str], message: str, kind: type[DeclarationError] = DeclarationError
) -> DeclarationError:
    """An error that points at the first of `names` that stands in the query."""
    token = _first(query, names)
    return kind(message) if token is None else Script(query.text).error(message, token.start, kind)


def _changing(query: HiddenQuery, found: Changing) -> DeclarationError:
    """What is refused, by the name that it has in the query."""
    token = _first(query, found.names)
    name = found.names[0] if token is None else token.text.lower()
    return _at(query, found.names, f"{name} {found.what}" if found.named else found.what)


def _first(query: HiddenQuery, names: Collection[str]) -> Token | None:
    """The first of `names` that stands in the query."""
    wanted = {name.lower() for name in names}
    return next((token for token in tokenize(Script(query.text)) if token.text.lower() in wanted), None)


@contextmanager
def _empty_tables(
    session: SparkSession, query: HiddenQuery, tables: Mapping[str, tuple[Column, ...]]
) -> Iterator[None]:
    try:
        for name, columns in tables.items():
            hidden = query.columns.get(name.lower())
            shape = (*columns, Column(hidden, PART_TIMESTAMP.type, False)) if hidden else columns
            arrow = pa.schema([pa.field(column.name, logical_type(column.type)) for column in shape])
            local(session, arrow.empty_table(), schema(shape)).createOrReplaceTempView(quoted(name))
        yield
    finally:
        for name in tables:
            session.catalog.dropTempView(name)


def _columns(query: HiddenQuery, frame: DataFrame, nested: bool, void: bool) -> tuple[Column, ...]:
    found = []
    for field in frame.schema.fields:
        name, type_ = query.shown(field.name), catalog_type(field.dataType)
        if void and field.dataType.typeName() == "void":
            name, type_ = f"{NULL_VALUE}{name}", INT
        if type_ is None or ((type_.is_nested or type_.is_interval) and not nested):
            raise DeclarationError(why_no_column(name, field.dataType, nested))
        found.append(Column(name, type_, field.nullable, declared_in(field)))
    return tuple(found)
