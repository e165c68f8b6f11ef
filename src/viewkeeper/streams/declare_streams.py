"""Streams and the views over them, declared, altered and dropped: from a catalog to the next one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Protocol

from sqlglot import exp

from viewkeeper.catalog.model import Catalog, Column, Index, PartView, Stream, Table, View
from viewkeeper.catalog.outside_store import OutsideStore
from viewkeeper.catalog.types import TIMESTAMP, TIMESTAMP_NTZ
from viewkeeper.compiler.bind import require_free
from viewkeeper.compiler.parse_streams import AnyView
from viewkeeper.compiler.scope import did_you_mean
from viewkeeper.compiler.statements import (
    CreateMatchView,
    CreatePatternView,
    CreateStream,
    CreateView,
    CreateViewDF,
    CreateWindowView,
)
from viewkeeper.errors import DeclarationError, InputError, NotSupported
from viewkeeper.plans.viewdf import PlannedQuery, ViewDFPlan
from viewkeeper.stores.outside.outside_kinds import kind_of_source
from viewkeeper.streams.analyst import Analyst, NotByRows
from viewkeeper.streams.bind_plain import bind_plain, sources_in
from viewkeeper.streams.bind_viewdf import bind_viewdf, refused_names, viewdf_columns
from viewkeeper.streams.patterns.declare_pattern import declare_pattern
from viewkeeper.streams.recognize.declare_match import declare_match
from viewkeeper.streams.subscripts import lowest_at_least
from viewkeeper.streams.windows.declare_window import declare_window


class Known(Protocol):
    """Which parts of a stream or view exist, by its id; None: none does."""

    def oldest(self, id_: int) -> int | None:
        """The lowest subscript."""

    def newest(self, id_: int) -> int | None:
        """The greatest subscript."""

    def failing(self, id_: int) -> int | None:
        """The part at which a view stands since its query fails; None where it does not."""

    def lost(self, id_: int) -> int | None:
        """The part before which all have expired; None where none has."""

    def copied(self, id_: int) -> bool:
        """Whether there are copies of a table, as parts were joined with it."""

    def carried(self, id_: int) -> int | None:
        """The part from which on a view has what its program keeps beside it; None where it has all."""

    def sizes(self, id_: int, columns: Sequence[int]) -> tuple[float, float] | None:
        """About how many rows a part with rows has, and how many different values of `columns` (positions)."""


class Nothing:
    """No part of anything exists."""

    def oldest(self, id_: int) -> int | None:
        """None."""
        return None

    newest = failing = lost = carried = oldest

    def copied(self, id_: int) -> bool:
        """False."""
        return False

    def sizes(self, id_: int, columns: Sequence[int]) -> tuple[float, float] | None:
        """None."""
        return None


def declare_stream(catalog: Catalog, statement: CreateStream) -> Catalog:
    """The catalog with the stream; raises DeclarationError."""
    require_free(catalog, statement.name)
    columns = tuple(Column(each.name.name, each.type, each.nullable, each.declared) for each in statement.columns)
    for each in statement.columns:
        if each.type.is_nested or each.type.is_interval:
            raise NotSupported(f"{each.name} is of type {each.type}, which streams do not have yet", *each.name.place)
    for name, problem in refused_names(column.name for column in columns):
        place = [each.name.place for each in statement.columns if each.name.name == name][-1]
        raise DeclarationError(f"{problem}; take another name", *place)
    time = next((i for i, column in enumerate(columns) if column.name.lower() == statement.time.name.lower()), None)
    if time is None:
        known = did_you_mean(statement.time.name, [column.name for column in columns])
        raise DeclarationError(f"{statement.name} has no column {statement.time}" + known, *statement.time.place)
    if columns[time].type not in (TIMESTAMP, TIMESTAMP_NTZ) or columns[time].nullable:
        raise DeclarationError(f"{statement.time} must be TIMESTAMP NOT NULL or TIMESTAMP_NTZ NOT NULL to be a row's "
                               "time", *statement.columns[time].name.place)  # fmt: skip
    stream = Stream(catalog.next_id, statement.name.name, columns, time, statement.length, statement.lateness,
                    statement.horizon, statement.idle, statement.ahead, statement.expire,
                    _outside(statement, columns))  # fmt: skip
    return replace(catalog.adding(stream), next_id=catalog.next_id + 1)


def _outside(statement: CreateStream, columns: Sequence[Column]) -> OutsideStore | None:
    """Where the rows of a stream come from; raises DeclarationError where they cannot."""
    if statement.using is None:
        return None
    place, kind = statement.using.place, statement.using.name.lower()
    quoted = next((column.name for column in columns if '"' in column.name), None)
    if quoted is not None:
        raise NotSupported(
            f"{quoted}: a column whose values come from an outside store has no quotes in its name", *place
        )
    try:
        kind_of_source(kind).check(dict(statement.options))
    except NotSupported as refused:
        raise NotSupported(str(refused), *place) from None
    except InputError as refused:
        raise DeclarationError(str(refused), *place) from None
    return OutsideStore(kind, statement.options)


def is_over_parts(catalog: Catalog, statement: CreateView) -> bool:
    """Whether a view without any clause of streams' reads a stream, or a view over one."""
    return bool(sources_in(catalog, statement.query.tree))


def is_by_parts(catalog: Catalog, statement: CreateView, analyst: Analyst) -> bool:
    """Whether a view over streams is its query over each part by itself, so that it is kept part by part."""
    try:
        bind_plain(catalog, statement, analyst)
    except NotByRows:
        return False
    return True


def declare_view(catalog: Catalog, statement: AnyView, analyst: Analyst, known: Known) -> Catalog:
    """The catalog with a view over streams and whatever hidden helpers it needs; raises DeclarationError."""
    require_free(catalog, statement.name)
    ids = count(catalog.next_id)
    views = new_views(catalog, statement, analyst, known, lambda: next(ids))
    return replace(catalog.adding(*views), next_id=next(ids))


def new_views(
    catalog: Catalog, statement: AnyView, analyst: Analyst, known: Known, new_id: Callable[[], int]
) -> list[PartView]:
    """The view that `statement` declares, behind the hidden helpers that it needs."""
    if isinstance(statement, CreateViewDF):
        return [_viewdf(catalog, statement, analyst, known, new_id())]
    if isinstance(statement, CreateView):
        return [_plain(catalog, statement, analyst, new_id())]
    source = _only_source(catalog, statement)
    catalog = _without_short_helpers(catalog, source, known)
    if isinstance(statement, CreatePatternView):
        views = declare_pattern(catalog, statement, source, new_id)
    elif isinstance(statement, CreateWindowView):
        views = declare_window(catalog, statement, source, new_id, known.sizes)
    else:
        views = declare_match(catalog, statement, source, new_id)
    for name, problem in refused_names(column.name for column in views[-1].columns):
        raise DeclarationError(f"{problem}; give {name} another name by AS", *statement.name.place)
    for column in views[-1].columns:
        if column.type.is_nested or column.type.is_interval:
            message = f"{column.name} is of type {column.type}, which views over streams do not have yet"
            raise NotSupported(message, *statement.name.place)
    return [*views[:-1], replace(views[-1], sql=statement.text)]


def _viewdf(catalog: Catalog, statement: CreateViewDF, analyst: Analyst, known: Known, id_: int) -> PartView:
    initialize, update = planned = bind_viewdf(catalog, statement, id_)
    columns = viewdf_columns(catalog, statement, planned, id_, analyst)
    first = None if statement.backfill else _initial_subscript(catalog, initialize, statement.length, known)
    both = (initialize, update)
    reads = tuple(dict.fromkeys(part.object for query in both for part in query.parts if part.object != id_))
    dimensions = tuple(dict.fromkeys(table.object for query in both for table in query.tables))
    return PartView(
        id=id_, name=statement.name.name, sql=statement.text, columns=columns, length=statement.length,
        reads=reads, dimensions=dimensions, plan=ViewDFPlan(initialize, update), first=first,
        fills=statement.backfill, expire=statement.expire,
    )  # fmt: skip


def _initial_subscript(catalog: Catalog, initialize: PlannedQuery, length: int, known: Known) -> int | None:
    """The smallest newest part of the sources, through the ratio of the lengths (paper 003, 4.1 and 4.2), or the first
    one above it that names no part before a source's first; None where a source has no part yet."""
    found: list[int] = []
    lowest: list[int] = []
    for part in initialize.parts:
        newest, oldest = known.newest(part.object), known.oldest(part.object)
        if newest is None or oldest is None:
            return None
        found.append(newest * catalog.source(part.object).length // length)
        if part.low.factor:
            lowest.append(lowest_at_least(part.low, oldest))
    return max(min(found), *lowest)


def _plain(catalog: Catalog, statement: CreateView, analyst: Analyst, id_: int) -> PartView:
    bound = bind_plain(catalog, statement, analyst)
    return PartView(
        id=id_, name=statement.name.name, sql=statement.text, columns=bound.columns,
        length=bound.source.length, reads=(bound.source.id,), dimensions=bound.dimensions, plan=bound.plan, fills=True,
        expire=statement.expire,
    )  # fmt: skip


def _without_short_helpers(catalog: Catalog, source: Stream | PartView, known: Known) -> Catalog:
    """The catalog without hidden helpers that have lost parts which their source still has: a new view, which is filled
    from the oldest of these on, cannot share them."""
    oldest = known.oldest(source.id)
    if oldest is None:
        return catalog
    since = oldest * source.length
    return catalog.without([view.id for view in catalog.part_views if view.hidden
                            and (lost := known.lost(view.id)) is not None and lost * view.length > since])  # fmt: skip


def _only_source(
    catalog: Catalog, statement: CreatePatternView | CreateWindowView | CreateMatchView
) -> Stream | PartView:
    sources = sources_in(catalog, statement.query.tree)
    if len(sources) == 1:
        return sources[0][0]
    if sources:
        message = (f"one stream, or view over one, can stand in FROM here; join {sources[0][0].name} and "
                   f"{sources[1][0].name} in a view of its own, then take that")  # fmt: skip
        raise statement.query.error(message, sources[1][1], NotSupported)
    table = statement.query.tree.find(exp.Table)
    if table is None:
        raise statement.query.error("a stream, or a view over one, must stand in FROM here", statement.query.tree)
    found = catalog.find(table.name)
    if isinstance(found, (Table, View, Index)):
        message = (f"{found.name} is not cut into parts: PATTERN, WINDOW and MATCH_RECOGNIZE are for streams and "
                   "views over them")  # fmt: skip
        raise statement.query.error(message, table, NotSupported)
    names = did_you_mean(table.name, catalog.readable_names())
    raise statement.query.error(f"there is no stream or view {table.name}" + names, table)
