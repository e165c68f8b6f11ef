"""Views whose query our own operators do not know: Spark answers it, and says before what it will answer with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from viewkeeper.catalog.model import Catalog, Column, InParts, PartView, Stream, Table, View
from viewkeeper.compiler.bind import BoundView, bind_view, require_free
from viewkeeper.compiler.bind_python import left_to_spark
from viewkeeper.compiler.namespace import PART_TIMESTAMP
from viewkeeper.compiler.part_references import is_common
from viewkeeper.compiler.scope import did_you_mean
from viewkeeper.compiler.source_text import UNREAD, QueryText
from viewkeeper.compiler.statements import CreateView, column_names
from viewkeeper.compiler.syntax import query_tokens
from viewkeeper.compiler.ties import ties_broken
from viewkeeper.errors import DeclarationError, Error, NotSupported, reason_of
from viewkeeper.pipeline.spark_calls import bind_with_spark_calls
from viewkeeper.plans.relations import SparkQuery
from viewkeeper.spark.parameters import Constant, constants
from viewkeeper.streams.analyst import Analyst, Keys


@dataclass(frozen=True)
class RowsBeside:
    """Rows that stand beside a catalog's, under a name that nothing there has; those of its columns that are the `key`
    tell them apart."""

    id: int
    name: str
    columns: tuple[Column, ...]
    key: tuple[int, ...]


_Read = Table | View | Stream | PartView | RowsBeside
"""What a query can name."""


def bind_any_view(catalog: Catalog, statement: CreateView, analyst: Analyst) -> BoundView:
    """CREATE VIEW by our own operators; by them and, for calls that no kernel knows, Spark; else as what Spark answers.

    Raises DeclarationError, with line and column, where Spark refuses the query too, or where its answer would not be
    determined by the rows that it reads; what our own binder said where there is no Spark.
    """
    try:
        return bind_view(catalog, statement)
    except NotSupported as refused:
        require_free(catalog, statement.name)
        _refuse_functions(catalog, statement.query, refused)
        asked = _Asked(catalog, statement.query, _objects(catalog, statement.query), refused, analyst)
        _refuse_hidden(asked)
    columns = asked.columns(statement.query.sql)
    names = column_names(statement.name, statement.columns, [column.name for column in columns])
    try:
        bound = bind_with_spark_calls(catalog, statement, columns, analyst)
    except NotSupported as more:
        return _spark_view(statement, asked, columns, names, str(more))
    _refuse_twice(statement.query, bound.columns)
    return bound


@dataclass(frozen=True)
class Determined:
    """A query for Spark whose rows settle its answer: what it reads, its columns, and the values of `:name` in it."""

    sql: str
    objects: list[_Read]
    columns: tuple[Column, ...]
    parameters: Mapping[str, Constant]


def determined_query(
    catalog: Catalog, query: QueryText, refused: NotSupported, analyst: Analyst, beside: Sequence[RowsBeside] = ()
) -> Determined:
    """A query for Spark, which our own operators have `refused`, with ties broken; it may read what stands `beside` the
    catalog.

    Raises as `bind_any_view`.
    """
    _refuse_functions(catalog, query, refused)
    values = constants(query.sql, query.source.parameters, catalog.zone)
    asked = _Asked(catalog, query, _objects(catalog, query, beside), refused, analyst, values)
    _refuse_hidden(asked)
    columns = asked.columns(query.sql)
    sql = ties_broken(query, len(columns))
    asked.columns(sql, determined=True)
    return Determined(sql, asked.objects, columns, values)


def _refuse_functions(catalog: Catalog, query: QueryText, refused: NotSupported) -> None:
    """Functions of Python's are called by our own operators alone."""
    for node in query.tree.find_all(exp.Anonymous):
        if catalog.function(node.name) is not None:
            raise query.error(left_to_spark(node.name, refused), node, NotSupported)


def _refuse_hidden(asked: _Asked) -> None:
    """Spark reads a stream's rows as those of a table."""
    for node in asked.query.tree.find_all(exp.Column):
        if node.name.upper() == PART_TIMESTAMP.name and any(isinstance(of, InParts) for of in asked.objects):
            message = (f"Spark has a part in this view, and does not know PART_TIMESTAMP: {reason_of(asked.refused)}; "
                       "take PART_TIMESTAMP in a view of its own, under another name, and read that")  # fmt: skip
            raise asked.query.error(message, node, NotSupported)


def _spark_view(
    statement: CreateView, asked: _Asked, columns: tuple[Column, ...], names: tuple[str, ...], more: str
) -> BoundView:  # fmt: skip
    """CREATE VIEW as Spark understands its query, which has these columns; `more` is why nothing less than all of it is
    Spark's."""
    query = statement.query
    sql = ties_broken(query, len(columns))
    try:
        asked.columns(sql, determined=True)
    except DeclarationError as error:
        if "INVALID_ORDERING_TYPE" not in str(error):
            raise
        message = ("which of several values min_by and max_by give is settled by the values, and one of these has a "
                   "map in it, and so no order; let them give map_entries(...) of it")  # fmt: skip
        raise DeclarationError(message, error.line, error.column) from None
    columns = tuple(replace(column, name=name) for column, name in zip(columns, names, strict=True))
    _refuse_twice(query, columns)
    objects = asked.objects
    reason = reason_of(asked.refused)
    reason += "" if more == reason else f"; and {more}"
    relation = SparkQuery(sql, tuple((of.name, of.id) for of in objects), columns, reason)
    key = tuple(range(len(columns)))
    reads = tuple(of.id for of in objects)
    return BoundView(statement.name.name, query.sql, relation, columns, key, False, reads, sql, target=statement.target)


def _objects(catalog: Catalog, query: QueryText, beside: Sequence[RowsBeside] = ()) -> list[_Read]:
    """What the query names; of one that only Spark reads, all whose names stand there."""
    found: dict[int, _Read] = {}
    if query.tree == UNREAD:
        named = (_readable(catalog, token.text) for token in query_tokens(query))
        return list({of.id: of for of in named if of is not None}.values())
    for node in query.tree.find_all(exp.Table):
        if isinstance(node.this, exp.Identifier) and not is_common(node) and node.find_ancestor(exp.Hint) is None:
            of = next((each for each in beside if each.name == node.name), _readable(catalog, node.name))
            if of is None:
                known = did_you_mean(node.name, catalog.readable_names())
                raise query.error(f"there is no table or view {node.name}" + known, node)
            found[of.id] = of
    return list(found.values())


def _readable(catalog: Catalog, name: str) -> _Read | None:
    of = catalog.find(name)
    return of if isinstance(of, Table | View | Stream | PartView) and not getattr(of, "hidden", False) else None


@dataclass(frozen=True)
class _Asked:
    """What Spark is asked about a query."""

    catalog: Catalog
    query: QueryText
    objects: list[_Read]
    refused: NotSupported
    analyst: Analyst
    parameters: Mapping[str, Constant] | None = None

    def columns(self, sql: str, *, determined: bool = False) -> tuple[Column, ...]:
        """The columns of `sql`, which is the query or begins like it; if it is to be `determined`, only where its rows
        settle what comes first in every order that matters, else in those of lists."""
        tables = {of.name: of.columns for of in self.objects}
        keys = Keys({of.name.lower(): _key(of) for of in self.objects}, determined)
        try:
            return self.analyst.columns(sql, tables, (), self.catalog.zone, None, keys, True, self.parameters)
        except DeclarationError as error:
            message, place = str(error), self.query.source.place(self.query.start)
            if error.line is not None and error.column is not None:
                message = message.removesuffix(f" (line {error.line}, column {error.column})")
                line, column = place
                place = line + error.line - 1, error.column + column - 1 if error.line == 1 else error.column
            raise type(error)(message, *place) from None
        except Error:  # there is no Spark here
            raise self.refused from None


def _key(of: _Read) -> tuple[str, ...]:
    if isinstance(of, InParts) or (isinstance(of, View) and not of.unique):
        return ()
    return tuple(of.columns[i].name for i in of.key)


def _refuse_twice(query: QueryText, columns: tuple[Column, ...]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise query.error(f"two outputs are called {column.name}; give one an alias", query.tree)
        seen.add(column.name.lower())
