"""Declaring tables in outside stores: what can be known of them before anybody reads them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from viewkeeper.catalog.model import Catalog, Table
from viewkeeper.compiler.bind import BoundTable, bind_table
from viewkeeper.compiler.statements import CreateIfAbsent, CreateTable, Statement
from viewkeeper.errors import DeclarationError, Error, InputError, NotSupported
from viewkeeper.maintenance import declare_tables
from viewkeeper.stores.outside.contract import OutsideTable
from viewkeeper.stores.outside.outside_kinds import kind_of_store


def require_declarable(statement: CreateTable, bound: BoundTable) -> None:
    """Raises DeclarationError, with a place, where no store can have such a table."""
    if statement.using is None or bound.outside is None:
        return
    place = statement.using.place
    for column, details in zip(bound.columns, bound.details, strict=True):
        if column.type.is_interval:
            raise NotSupported(f"{column.name} is an INTERVAL, which no outside store has", *place)
        if details.default is not None:
            raise DeclarationError(f"{column.name} has a DEFAULT, which other programs that write the table would not "
                                   "know of; leave it out", *place)  # fmt: skip
        if '"' in column.name:
            raise NotSupported(
                f"{column.name}: a column of a table in an outside store has no quotes in its name", *place
            )
    try:
        kind_of_store(bound.outside.kind).check(dict(bound.outside.options), not bound.key)
    except NotSupported as refused:
        raise NotSupported(str(refused), *place) from None
    except InputError as refused:
        raise DeclarationError(str(refused), *place) from None


def require_there(catalog: Catalog, statements: Iterable[Statement]) -> None:
    """Asks outside stores whether the tables are there that `statements` declare; raises what they say."""
    for statement in statements:
        created = statement.create if isinstance(statement, CreateIfAbsent) else statement
        if not isinstance(created, CreateTable) or created.using is None or catalog.find(created.name.name) is not None:
            continue
        bound = bind_table(created, catalog.zone)
        require_declarable(created, bound)
        table = declare_tables.declare_table(catalog, created.name.name, bound).find(created.name.name)
        assert isinstance(table, Table) and table.outside is not None
        try:
            with closing(_opened(table, catalog.zone)) as opened:
                opened.require_there()
        except DeclarationError:
            raise
        except Error as error:
            raise DeclarationError(f"{created.name} cannot be declared: {error}", *created.using.place) from error


def _opened(table: Table, zone: str) -> OutsideTable:
    assert table.outside is not None
    return kind_of_store(table.outside.kind)(table, zone)
