"""A catalog for the compiler's tests: tables and views as declared, with no maintenance behind them."""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.catalog.model import Catalog, StateSpec, Stored, Table, View
from viewkeeper.compiler.bind import bind_query, bind_table, bind_view
from viewkeeper.compiler.parse import parse_script
from viewkeeper.compiler.statements import CreateTable, CreateView, SelectStatement
from viewkeeper.plans.relations import Query

NOWHERE = Stored(StateSpec(0, "keyed", (), 0), ())

COLUMN_TYPES = {
    "bo": "BOOLEAN", "ti": "TINYINT", "sm": "SMALLINT", "i": "INT", "bi": "BIGINT", "f": "FLOAT", "d": "DOUBLE",
    "p": "DECIMAL(15,2)", "q": "DECIMAL(38,18)", "z": "DECIMAL(38,0)", "st": "STRING", "bn": "BINARY", "da": "DATE",
    "ts": "TIMESTAMP", "nt": "TIMESTAMP_NTZ",
}  # fmt: skip
"""One column of each type in the table `t`, NOT NULL; `n_` in front of the name: the same, nullable."""

EVERY_TYPE = "CREATE TABLE t (id BIGINT PRIMARY KEY, {});".format(
    ", ".join(f"{name} {type_} NOT NULL, n_{name} {type_}" for name, type_ in COLUMN_TYPES.items())
)


def catalog_of(script: str, catalog: Catalog | None = None) -> Catalog:
    """`catalog` with the tables and views of `script`."""
    catalog = catalog or Catalog()
    for statement in parse_script(script):
        id_ = catalog.next_id
        catalog = replace(catalog, next_id=id_ + 1)
        if isinstance(statement, CreateTable):
            bound = bind_table(statement, catalog.zone)
            catalog = catalog.adding(Table(id_, statement.name.name, bound.columns, bound.key, NOWHERE, bound.details))
        else:
            assert isinstance(statement, CreateView)
            v = bind_view(catalog, statement)
            view = View(id_, v.name, v.sql, v.columns, v.key, v.unique, v.reads, NOWHERE, 1)
            catalog = catalog.adding(view)
    return catalog


def query_of(catalog: Catalog, sql: str) -> Query:
    (statement,) = parse_script(sql)
    assert isinstance(statement, SelectStatement)
    return bind_query(catalog, statement)
