"""ALTER TABLE: a catalog and what is to be changed of a table give a new catalog."""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.catalog.model import Catalog, ColumnDetails, Table, kind_of
from viewkeeper.compiler.bind import refuse_default_of_key
from viewkeeper.compiler.column_defaults import bound_default
from viewkeeper.compiler.scope import did_you_mean
from viewkeeper.compiler.statements import Identifier, SetDefault
from viewkeeper.errors import DeclarationError


def with_default(catalog: Catalog, statement: SetDefault) -> Catalog:
    """`catalog` in which a column has another default, for rows that are made from now on."""
    table = altered_table(catalog, statement.table)
    i = position(table, statement.column)
    if i in table.key:
        refuse_default_of_key(statement.column, statement.default)
    default = None
    if statement.default is not None:
        default = bound_default(statement.default, statement.column, table.columns[i].type, catalog.zone)
    details = list(table.details or (ColumnDetails(),) * len(table.columns))
    details[i] = replace(details[i], default=default)
    return catalog.changing([replace(table, details=tuple(details))])


def altered_table(catalog: Catalog, name: Identifier) -> Table:
    """The table that ALTER TABLE names; raises DeclarationError."""
    found = catalog.find(name.name)
    if isinstance(found, Table):
        return found
    if found is None:
        known = did_you_mean(name.name, [table.name for table in catalog.tables])
        raise DeclarationError(f"there is no table {name}" + known, *name.place)
    raise DeclarationError(f"{found.name} is a {kind_of(found)}, and ALTER TABLE is for tables", *name.place)


def position(table: Table, column: Identifier) -> int:
    """The column of `table` that is called so; raises DeclarationError."""
    for i, each in enumerate(table.columns):
        if each.name.lower() == column.name.lower():
            return i
    known = did_you_mean(column.name, [each.name for each in table.columns])
    raise DeclarationError(f"{table.name} has no column {column}" + known, *column.place)
