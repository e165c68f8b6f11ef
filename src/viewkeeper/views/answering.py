"""Statements that read: SHOW, DESCRIBE, EXPLAIN and SELECT, at one version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from viewkeeper.catalog.model import Index, PartView, Stream, Table, View
from viewkeeper.compiler.parse_streams import AnyView
from viewkeeper.compiler.statements import (
    CreateView,
    Describe,
    ExplainCreateView,
    ExplainQuery,
    ExplainView,
    SelectStatement,
    Show,
    Statement,
)  # fmt: skip
from viewkeeper.errors import NotFound
from viewkeeper.maintenance.explain import explain_new_view, explain_view
from viewkeeper.pipeline.note import read_note
from viewkeeper.pipeline.spark_views import bind_any_view
from viewkeeper.streams.analyst import Analyst, LazyAnalyst, NoAnalyst
from viewkeeper.streams.declare_streams import is_over_parts
from viewkeeper.streams.existing import ExistingParts
from viewkeeper.streams.explain import explain as explain_parts
from viewkeeper.streams.explain import explain_new_view as explain_new_parts
from viewkeeper.views import part_listing
from viewkeeper.views.query import explain_select, run_select
from viewkeeper.views.result import Result
from viewkeeper.views.version import Version

READING = (Show, Describe, ExplainView, ExplainCreateView, ExplainQuery, SelectStatement)


def answer(version: Version, statement: Statement, analyst: Callable[[], Analyst] | None = None) -> Result:
    """The rows of a statement of one of the classes `READING`; `analyst` is asked about the queries of a ViewDF that is
    to be explained."""
    if isinstance(statement, SelectStatement):
        return run_select(version, statement)
    if isinstance(statement, Show):
        return {"TABLES": _show_tables, "VIEWS": _show_views, "STREAMS": _show_streams, "FUNCTIONS": _show_functions}[
            statement.kind
        ](version)
    if isinstance(statement, Describe):
        return _describe(version, statement.name.name)
    if isinstance(statement, ExplainCreateView):
        return _text(_explain_new(version, statement.view, analyst))
    if isinstance(statement, ExplainQuery):
        return _text("\n".join(explain_select(version, statement.query)))
    assert isinstance(statement, ExplainView), f"{type(statement).__name__} does not read"
    return _text(explain(version, statement.name.name))


def explain(version: Version, name: str) -> str:
    """How the view `name` is kept; of one over streams also what a part took, where the driver that runs has measured
    it."""
    found = version.catalog.find(name)
    if not isinstance(found, PartView):
        return explain_view(version.catalog, version.view(name))
    note = read_note(version.snapshot.storage.disk) or {}
    measured = {int(id_): seconds for id_, seconds in note.get("parts", {}).items()}
    return explain_parts(version.catalog, found, ExistingParts(version.snapshot), measured)


def _explain_new(version: Version, statement: AnyView, analyst: Callable[[], Analyst] | None) -> str:
    catalog, asked = version.catalog, NoAnalyst() if analyst is None else LazyAnalyst(analyst)
    if isinstance(statement, CreateView) and not (catalog.streams and is_over_parts(catalog, statement)):
        return explain_new_view(catalog, bind_any_view(catalog, statement, asked))
    return explain_new_parts(catalog, statement, asked, ExistingParts(version.snapshot))


def _show_tables(version: Version) -> Result:
    rows = [{"table": table.name, "columns": len(table.columns), "key": _names(table.columns, table.key) or None,
             "indexes": _indexes(version, table.id)} for table in version.catalog.tables]  # fmt: skip
    return _listed(rows, {"table": pa.string(), "columns": pa.int32(), "key": pa.string(), "indexes": pa.string()})


def _show_streams(version: Version) -> Result:
    return _listed(part_listing.streams(version), part_listing.STREAM_COLUMNS)


def _show_functions(version: Version) -> Result:
    rows = [{"function": each.name, "returns": str(each.returns), "takes": "arrow" if each.arrow else "pandas",
             "deterministic": each.deterministic, "version": each.version}
            for each in version.catalog.functions]  # fmt: skip
    return _listed(rows, {"function": pa.string(), "returns": pa.string(), "takes": pa.string(),
                          "deterministic": pa.bool_(), "version": pa.int32()})  # fmt: skip


def _show_views(version: Version) -> Result:
    rows = [{"view": view.name, "key": _names(view.columns, view.key), "unique": view.unique,
             "filled": view.filled is not None, "indexes": _indexes(version, view.id), "query": view.sql}
            for view in version.catalog.views]  # fmt: skip
    rows += [{"view": view.name, "filled": version.parts_of(view).kept is not None, "query": view.sql}
             for view in part_listing.views(version)]  # fmt: skip
    return _listed(rows, {"view": pa.string(), "key": pa.string(), "unique": pa.bool_(), "filled": pa.bool_(),
                          "indexes": pa.string(), "query": pa.string()})  # fmt: skip


def _describe(version: Version, name: str) -> Result:
    found = version.catalog.find(name)
    if found is None:
        raise NotFound(f"there is no table, view, index or stream {name!r}; SHOW TABLES, SHOW VIEWS and SHOW STREAMS "
                       "list what there is")  # fmt: skip
    if isinstance(found, Index):
        of = version.catalog.by_id(found.on)
        assert isinstance(of, (Table, View)), "an index is on a table or view"
        columns, key = tuple(of.columns[position] for position in found.columns), tuple(range(len(found.columns)))
        note = f"index on {of.name}"
    elif isinstance(found, (Stream, PartView)):
        columns, key, note = found.columns, (), part_listing.note(found)
    else:
        columns, key = found.columns, found.key
        note = _key_note(found)
    rows = [{"col_name": column.name, "data_type": str(column.type).lower(), "nullable": column.nullable,
             "key": key.index(i) + 1 if i in key else None} for i, column in enumerate(columns)]  # fmt: skip
    schema = {"col_name": pa.string(), "data_type": pa.string(), "nullable": pa.bool_(), "key": pa.int32()}
    return _listed(rows, schema, note)


def _key_note(of: Any) -> str:
    key = _names(of.columns, of.key)
    if isinstance(of, Table):
        return f"primary key ({key})" if of.key else "no primary key: rows are a bag"
    return f"view key ({key}), " + ("one row a key" if of.unique else "rows are a bag")


def _names(columns: tuple[Any, ...], positions: tuple[int, ...]) -> str:
    return ", ".join(columns[position].name for position in positions)


def _indexes(version: Version, id_: int) -> str | None:
    return ", ".join(index.name for index in version.catalog.indexes if index.on == id_) or None


def _listed(rows: list[dict[str, Any]], schema: dict[str, pa.DataType], note: str = "") -> Result:
    return Result(pa.Table.from_pylist(rows, schema=pa.schema(list(schema.items()))), note)


def _text(text: str) -> Result:
    return Result(pa.table({"plan": text.splitlines()}))
