"""ALTER TABLE: a catalog and what is to be changed of a table give a new catalog.

Nothing that is written is touched: rows in the store, entries in the log and runs of DELTA say which columns they have,
and are read as if they had those of now (docs/decisions/082-columns-that-come-and-go.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from viewkeeper.catalog.model import Catalog, Column, ColumnDetails, Table, TableLayout, View, kind_of
from viewkeeper.catalog.outside_store import TIMESTAMPED
from viewkeeper.compiler.bind import BoundView, column_details, refuse_default_of_key
from viewkeeper.compiler.column_defaults import bound_default
from viewkeeper.compiler.scope import did_you_mean, listed
from viewkeeper.compiler.statements import (
    AddColumns,
    ColumnDeclaration,
    DropColumns,
    Identifier,
    RenameColumn,
    SetComment,
    SetDefault,
)
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.maintenance import declare_tables
from viewkeeper.plans.relations import Relation, Scan, SparkQuery
from viewkeeper.plans.subqueries import relations_in
from viewkeeper.streams.alter import users_of_dimension

BindAgain = Callable[[Catalog, View], BoundView]
"""Binds the query of a view again."""

LAYOUTS_MAX = 65_535
"""What a stored row can say of its layout."""

AlterTable = SetDefault | AddColumns | DropColumns | RenameColumn


def altered(
    catalog: Catalog, statement: AlterTable, bind: BindAgain, copied: Callable[[int], bool] = lambda id_: False
) -> Catalog:
    """`catalog` in which a table is what `statement` says; raises DeclarationError with the place.

    `copied` says of a table, by its id, whether there are copies of it, as parts of streams were joined with it.
    """
    table = _table(catalog, statement.table)
    if isinstance(statement, SetDefault):
        return catalog.changing([_with_default(catalog, table, statement)])
    _refuse_dimension(catalog, table, statement.table, copied)
    if isinstance(statement, AddColumns):
        wanted = [column for column in statement.columns
                  if not (statement.if_absent and _find(table, column.name) is not None)]  # fmt: skip
        if wanted and table.outside is not None:
            message = (f"{table.name}, which is in {table.outside.kind}, gets no columns: all its rows would have to "
                       "be read again; drop the table, and create it again")  # fmt: skip
            raise NotSupported(message, *statement.table.place)
        return _with_added(catalog, table, statement, wanted) if wanted else catalog
    if isinstance(statement, RenameColumn):
        return _with_renamed(catalog, table, statement, bind)
    columns = [name for name in statement.columns if not (statement.if_exists and _find(table, name) is None)]
    if columns and table.outside is not None and table.outside.kind in TIMESTAMPED:
        message = (f"{table.name}, whose cells have timestamps in {table.outside.kind}, keeps its columns; drop the "
                   "table, and create it again")  # fmt: skip
        raise NotSupported(message, *statement.table.place)
    for name in columns:
        catalog = _without(catalog, _table(catalog, statement.table), name, bind)
    return catalog


def with_comment(catalog: Catalog, statement: SetComment) -> Catalog:
    """`catalog` in which a table, a view, or a column of a table has another comment."""
    found = catalog.find(statement.name.name)
    if statement.column is None and isinstance(found, View):
        return catalog.changing([replace(found, comment=statement.comment)])
    table = _table(catalog, statement.name)
    if statement.column is None:
        return catalog.changing([replace(table, comment=statement.comment)])
    i, details = _position(table, statement.column), list(table.details)
    details[i] = replace(details[i], comment=statement.comment)
    return catalog.changing([replace(table, details=tuple(details))])


def _with_default(catalog: Catalog, table: Table, statement: SetDefault) -> Table:
    i = _position(table, statement.column)
    if i in table.key:
        refuse_default_of_key(statement.column, statement.default)
    default = None
    if statement.default is not None:
        if table.outside is not None:
            message = (f"{statement.column} of {table.name} has no DEFAULT: other programs that write the table would "
                       "not know of it")  # fmt: skip
            raise DeclarationError(message, *statement.column.place)
        type_, declared = table.columns[i].type, table.declared[i]
        default = bound_default(statement.default, statement.column, type_, catalog.zone, declared)
    details = list(table.details)
    details[i] = replace(details[i], default=default)
    return replace(table, details=tuple(details))


def _with_added(
    catalog: Catalog, table: Table, statement: AddColumns, wanted: Iterable[ColumnDeclaration]
) -> Catalog:  # fmt: skip
    columns, details = list(table.columns), list(table.details)
    free = 1 + max(id_ for layout in (*table.layouts, table.layout) for id_ in layout.ids)
    for column in wanted:
        if any(each.name.lower() == column.name.name.lower() for each in columns):
            message = f"{table.name} has a column {column.name} already; take another name, or ADD COLUMN IF NOT EXISTS"
            raise DeclarationError(message, *column.name.place)
        said = column_details(column, catalog.zone, free + len(details))
        before = None if said.default is None else said.default.value
        if not column.nullable and before is None:
            message = f"{column.name} is NOT NULL, and the rows of {table.name} have no value for it; add a DEFAULT"
            raise DeclarationError(message, *column.name.place)
        columns.append(Column(column.name.name, column.type, column.nullable, column.declared))
        details.append(replace(said, added=catalog.next_id, before=before))
    new, state = range(len(table.columns), len(columns)), table.stored.state
    places = tuple(len(state.columns) + at for at in range(len(new)))
    state = replace(state, columns=(*state.columns, *(columns[i] for i in new)),
                    added=(*state.added, *(details[i].before for i in new)))  # fmt: skip
    made = replace(
        table, columns=tuple(columns), details=tuple(details), layouts=_layouts(table, statement.table),
        stored=replace(table.stored, state=state, order=(*table.stored.order, *places)),
        held=(*table.yielded, *places),
    )  # fmt: skip
    return declare_tables.alter(replace(catalog, next_id=catalog.next_id + 1), made)


def _without(catalog: Catalog, table: Table, name: Identifier, bind: BindAgain) -> Catalog:
    i = _position(table, name)
    if i in table.key:
        message = f"{name} is in the primary key of {table.name}, which stays; make another table, and INSERT INTO it"
        raise DeclarationError(message, *name.place)
    if len(table.columns) == 1:
        raise DeclarationError(f"{name} is the only column of {table.name}; drop the table", *name.place)
    indexes = [index.name for index in catalog.indexes if index.on == table.id and i in index.columns]
    if users := [*_users(catalog, table, i, bind), *indexes]:
        message = (
            f"{table.columns[i].name} is used by {listed(users)}; drop these first, or give the views other queries"
        )
        raise DeclarationError(message, *name.place)
    kept = [place for place in range(len(table.columns)) if place != i]
    made = replace(
        table, columns=tuple(table.columns[place] for place in kept), key=tuple(map(kept.index, table.key)),
        details=tuple(table.details[place] for place in kept), layouts=_layouts(table, name),
        stored=replace(table.stored, order=tuple(table.stored.order[place] for place in kept)), held=table.yielded,
    )  # fmt: skip
    return declare_tables.alter(catalog, made)


def _with_renamed(catalog: Catalog, table: Table, statement: RenameColumn, bind: BindAgain) -> Catalog:
    i, name, to = _position(table, statement.column), statement.column, statement.to
    if table.outside is not None:
        message = f"{name} is called so in the store that {table.name} is in; drop the table, and create it again"
        raise DeclarationError(message, *name.place)
    taken = _find(table, to)
    if taken is not None and taken != i:
        raise DeclarationError(f"{table.name} has a column {to} already; take another name", *to.place)
    if i in table.key and (readers := [view.name for view in catalog.views if table.id in view.reads]):
        message = (
            f"{name} is in the primary key of {table.name}, by which {listed(readers)} name its rows; drop these first"
        )
        raise DeclarationError(message, *name.place)
    if users := _users(catalog, table, i, bind):
        message = f"{table.columns[i].name} is used by {listed(users)}, whose queries name it; drop these first"
        raise DeclarationError(message, *name.place)
    return declare_tables.rename_column(catalog, table, i, to.name)


def _layouts(table: Table, name: Identifier) -> tuple[TableLayout, ...]:
    if len(table.layouts) == LAYOUTS_MAX:
        message = f"{table.name} has had other columns {LAYOUTS_MAX:,} times; make another table, and INSERT INTO it"
        raise DeclarationError(message, *name.place)
    return (*table.layouts, table.layout)


def _refuse_dimension(catalog: Catalog, table: Table, name: Identifier, copied: Callable[[int], bool]) -> None:
    if users := users_of_dimension(catalog, table.id):
        message = f"{table.name} is joined by {listed(users)}, whose parts are made of what it was; drop these first"
        raise NotSupported(message, *name.place)
    if copied(table.id):
        message = (f"{table.name} was joined with streams, and copies of it as it was are kept for their parts; make "
                   "another table, and INSERT INTO it")  # fmt: skip
        raise NotSupported(message, *name.place)


def _users(catalog: Catalog, table: Table, i: int, bind: BindAgain) -> list[str]:
    """The views in whose queries column `i` of the table has a part: they say something else, or nothing, where the
    column has a name that nobody can know.  One that Spark answers may read whatever there is."""
    hidden = replace(
        table, columns=tuple(replace(c, name="\0") if at == i else c for at, c in enumerate(table.columns))
    )
    without = catalog.changing([hidden])
    users = []
    for view in catalog.views:
        if table.id in view.reads and i < len(table.seen_at(view.saw).columns):
            try:
                is_same = _same(bind(catalog, view).relation, bind(without, view).relation, table.id)
            except DeclarationError:
                is_same = False
            if not is_same:
                users.append(view.name)
    return users


def _same(one: Relation, other: Relation, table: int) -> bool:
    if any(isinstance(each, SparkQuery) for each in relations_in(one)):
        return False
    return bool(_unnamed(one, table) == _unnamed(other, table))


def _unnamed(node: Any, table: int) -> Any:
    """A relation in which what is scanned of `table` has no columns that could differ."""
    if isinstance(node, tuple):
        return tuple(_unnamed(each, table) for each in node)
    if isinstance(node, Scan) and node.object == table:
        return replace(node, columns=())
    if not is_dataclass(node) or isinstance(node, (Column, type)):
        return node
    return type(node), tuple(_unnamed(getattr(node, field.name), table) for field in fields(node))


def _table(catalog: Catalog, name: Identifier) -> Table:
    found = catalog.find(name.name)
    if isinstance(found, Table):
        return found if found.details else replace(found, details=_details(found.layout))
    if found is None:
        known = did_you_mean(name.name, [table.name for table in catalog.tables])
        raise DeclarationError(f"there is no table {name}" + known, *name.place)
    message = f"{found.name} is a {kind_of(found)}; columns are changed, and have comments, in tables only"
    raise DeclarationError(message, *name.place)


def _details(layout: TableLayout) -> tuple[ColumnDetails, ...]:
    return tuple(ColumnDetails(id=id_) for id_ in layout.ids)


def _find(table: Table, column: Identifier) -> int | None:
    return next((i for i, each in enumerate(table.columns) if each.name.lower() == column.name.lower()), None)


def _position(table: Table, column: Identifier) -> int:
    found = _find(table, column)
    if found is not None:
        return found
    known = did_you_mean(column.name, [each.name for each in table.columns])
    raise DeclarationError(f"{table.name} has no column {column}" + known, *column.place)
