"""Statements that read: SHOW, DESCRIBE, EXPLAIN and SELECT, at one version."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from viewkeeper.catalog.model import Catalog, ColumnDetails, Index, PartView, Stream, Table, View
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
from viewkeeper.maintenance.estimates import StoredSizes
from viewkeeper.maintenance.explain import explain_new_view, explained
from viewkeeper.maintenance.explained import Explained
from viewkeeper.pipeline.note import read_note
from viewkeeper.pipeline.spark_views import bind_any_view
from viewkeeper.pipeline.whole_parts import with_parts_of
from viewkeeper.plans.maintenance import plan_of, states_of
from viewkeeper.stores.outside.outside_kinds import outside_note, source_note
from viewkeeper.streams.analyst import Analyst, LazyAnalyst, NoAnalyst
from viewkeeper.streams.declare_streams import declare_view, is_by_parts, is_over_parts
from viewkeeper.streams.existing import ExistingParts
from viewkeeper.streams.explain import explain as explain_parts
from viewkeeper.streams.explain import picture
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
        return _text(_explain_new(version, statement.view, statement.format, analyst))
    if isinstance(statement, ExplainQuery):
        return _text("\n".join(explain_select(version, statement.query)))
    assert isinstance(statement, ExplainView), f"{type(statement).__name__} does not read"
    return _text(explain(version, statement.name.name, statement.format))


def explain(version: Version, name: str, format_: str = "TEXT") -> str:
    """How the view `name` is kept; of one over streams also what a part took, where the driver that runs has measured
    it.  `format_` is one of `EXPLAIN_FORMATS`."""
    found = version.catalog.find(name)
    if not isinstance(found, PartView):
        view = version.view(name)
        return _printed(explained(version.catalog, view, _sizes(version, filled=view.filled is not None)), format_)
    note = read_note(version.snapshot.storage.disk) or {}
    measured = {int(id_): seconds for id_, seconds in note.get("parts", {}).items()}
    parts = ExistingParts(version.snapshot)
    return _of_parts(version.catalog, found, explain_parts(version.catalog, found, parts, measured), format_)


def _explain_new(
    version: Version, statement: AnyView, format_: str, analyst: Callable[[], Analyst] | None
) -> str:  # fmt: skip
    catalog, asked = version.catalog, NoAnalyst() if analyst is None else LazyAnalyst(analyst)
    known = ExistingParts(version.snapshot)
    if isinstance(statement, CreateView):
        over = bool(catalog.streams) and is_over_parts(catalog, statement)
        if not over or not is_by_parts(catalog, statement, asked):
            bound = with_parts_of(catalog, bind_any_view(catalog, statement, asked), statement, known)
            return _printed(explain_new_view(catalog, bound, _sizes(version)), format_)
    declared = declare_view(catalog, statement, asked, known)
    view = declared.part_views[-1]
    return _of_parts(declared, view, explain_parts(declared, view, known), format_)


def _sizes(version: Version, filled: bool = False) -> StoredSizes:
    """Stored rows and bytes of the states that hold any; with `filled`, of all."""
    operators = plan_of(version.catalog).operators
    ids = [*(spec.id for o in operators for spec in states_of(o)), *(of.id for of in version.catalog.in_parts)]
    found = {id_: version.snapshot.states.get(id_, ()) for id_ in ids}
    return {id_: (sum(run.rows for run in runs), sum(run.bytes for run in runs))
            for id_, runs in found.items() if filled or runs}  # fmt: skip


def _printed(plan: Explained, format_: str) -> str:
    if format_ == "JSON":
        return json.dumps(plan.json(), ensure_ascii=False)
    return plan.mermaid() if format_ == "MERMAID" else plan.text()


def _of_parts(catalog: Catalog, view: PartView, text: str, format_: str) -> str:
    if format_ == "JSON":
        return json.dumps({"view": view.name, "plan": text.splitlines()}, ensure_ascii=False)
    return picture(catalog, view) if format_ == "MERMAID" else text


def _show_tables(version: Version) -> Result:
    rows = [{"table": table.name, "columns": len(table.columns), "key": _names(table.columns, table.key) or None,
             "indexes": _indexes(version, table.id), "comment": table.comment}
            for table in version.catalog.tables]  # fmt: skip
    return _listed(rows, {"table": pa.string(), "columns": pa.int32(), "key": pa.string(), "indexes": pa.string(),
                          "comment": pa.string()})  # fmt: skip


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
    details = (found.details if isinstance(found, Table) else ()) or (ColumnDetails(),) * len(columns)
    texts = found.declared if isinstance(found, Table | View) else [column.declared for column in columns]
    rows = [{"col_name": column.name, "nullable": column.nullable,
             "data_type": str(declared or column.type).lower(),
             "key": key.index(i) + 1 if i in key else None, "comment": detail.comment,
             "default": None if detail.default is None else detail.default.text}
            for i, (column, detail, declared) in enumerate(zip(columns, details, texts, strict=True))]  # fmt: skip
    schema = {"col_name": pa.string(), "data_type": pa.string(), "nullable": pa.bool_(), "key": pa.int32(),
              "default": pa.string(), "comment": pa.string()}  # fmt: skip
    if isinstance(found, Table) and found.outside is not None:
        note = f"{note}; {outside_note(found.outside)}"
    if isinstance(found, Stream) and found.outside is not None:
        note = f"{note}; {source_note(found.outside)}"
    if isinstance(found, View) and found.target is not None:
        note = f"{note}; also written to {found.target}"
    if isinstance(found, Table | View) and found.comment is not None:
        note = f"{note}; {found.comment}"
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
