"""Declaring tables in outside stores: what can be known of them before anybody reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

from viewkeeper.catalog.model import Catalog, Column, Stream, Table
from viewkeeper.catalog.outside_store import TIMESTAMPED
from viewkeeper.compiler.bind import BoundTable, bind_table
from viewkeeper.compiler.part_references import quoted
from viewkeeper.compiler.statements import (
    ColumnDeclaration,
    CreateIfAbsent,
    CreateStream,
    CreateTable,
    Identifier,
    Statement,
)
from viewkeeper.errors import DeclarationError, Error, InputError, NotSupported
from viewkeeper.maintenance import declare_tables
from viewkeeper.stores.outside.contract import OutsideTable
from viewkeeper.stores.outside.outside_kinds import kind_of_source, kind_of_store
from viewkeeper.stores.outside.said import untagged
from viewkeeper.streams.declare_streams import declare_stream


def require_declarable(statement: CreateTable, bound: BoundTable) -> None:
    """Raises DeclarationError, with a place, where no store can have such a table."""
    if statement.using is None or bound.outside is None:
        return
    place = statement.using.place
    for i, (column, details) in enumerate(zip(bound.columns, bound.details, strict=True)):
        if column.type.is_interval:
            raise NotSupported(f"{column.name} is an INTERVAL, which no outside store has", *place)
        if details.default is not None:
            raise DeclarationError(f"{column.name} has a DEFAULT, which other programs that write the table would not "
                                   "know of; leave it out", *place)  # fmt: skip
        if bound.outside.kind in TIMESTAMPED and not column.nullable and i not in bound.key:
            raise DeclarationError(f"{column.name} is NOT NULL, and {bound.outside.kind} knows no such columns: leave "
                                   "out NOT NULL", *place)  # fmt: skip
        if '"' in column.name:
            raise NotSupported(
                f"{column.name}: a column of a table in an outside store has no quotes in its name", *place
            )
    try:
        kind_of_store(bound.outside.kind).check(dict(bound.outside.options), not bound.key)
        bound.outside.partition([bound.columns[i].name for i in bound.key])
    except NotSupported as refused:
        raise NotSupported(str(refused), *place) from None
    except InputError as refused:
        raise DeclarationError(str(refused), *place) from None


def resolved(catalog: Catalog, statements: Iterable[Statement]) -> list[Statement]:
    """`statements` with the columns that stores have where CREATE TABLE leaves them out; asks the stores whether the
    tables are there.  Raises what they say."""
    return [_resolved(catalog, statement) for statement in statements]


def _resolved(catalog: Catalog, statement: Statement) -> Statement:
    created = statement.create if isinstance(statement, CreateIfAbsent) else statement
    if isinstance(created, CreateStream):
        _require_source(catalog, created)
    if not isinstance(created, CreateTable) or created.using is None or catalog.find(created.name.name) is not None:
        return statement
    using = created.using
    if created.unnamed is not None:
        created = _with_columns(created, _columns(created, using))
    bound = bind_table(created, catalog.zone)
    require_declarable(created, bound)
    table = declare_tables.declare_table(catalog, created.name.name, bound).find(created.name.name)
    assert isinstance(table, Table) and table.outside is not None
    with _told(created, using), closing(_opened(table, catalog.zone)) as opened:
        opened.require_there()
    return replace(statement, text=created.text, create=created) if isinstance(statement, CreateIfAbsent) else created


def _require_source(catalog: Catalog, created: CreateStream) -> None:
    if created.using is None or catalog.find(created.name.name) is not None:
        return
    stream = declare_stream(catalog, created).find(created.name.name)
    assert isinstance(stream, Stream) and stream.outside is not None
    with (
        _told(created, created.using),
        closing(kind_of_source(stream.outside.kind)(stream, catalog.zone)) as source,
    ):
        source.require_there()


def _columns(created: CreateTable, using: Identifier) -> list[Column]:
    kind, options = using.name.lower(), dict(created.options)
    with _told(created, using):
        store = kind_of_store(kind)
        store.check(options, not created.key)
        return store.columns(options)


def _with_columns(created: CreateTable, columns: Sequence[Column]) -> CreateTable:
    """The statement with the columns that it leaves out, in its text, too."""
    assert created.unnamed is not None
    written = ", ".join(f"{quoted(c.name)} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in columns)
    before, behind = created.text[: created.unnamed], created.text[created.unnamed :]
    listed = f"{written}, " if before.endswith("(") else f" ({written})"
    declared = tuple(ColumnDeclaration(Identifier(c.name, created.name.place), c.type, c.nullable) for c in columns)
    return replace(created, text=before + listed + behind, columns=declared, unnamed=None)


@contextmanager
def _told(created: CreateTable | CreateStream, using: Identifier) -> Iterator[None]:
    """Raises what a store says with the place of USING."""
    try:
        yield
    except DeclarationError as refused:
        if refused.line is not None:
            raise
        raise type(refused)(str(refused), *using.place) from None
    except InputError as refused:
        raise DeclarationError(str(refused), *using.place) from None
    except Error as error:
        raise DeclarationError(f"{created.name} cannot be declared: {untagged(str(error))}", *using.place) from error


def _opened(table: Table, zone: str) -> OutsideTable:
    assert table.outside is not None
    return kind_of_store(table.outside.kind)(table, zone)
