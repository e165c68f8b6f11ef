"""Statements to what they declare: names looked up, types worked out, everything that is not kept refused."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from viewkeeper.catalog.model import Catalog, Column, ColumnDetails, InParts, Table, View, kind_of
from viewkeeper.catalog.outside_store import OutsideStore, Target
from viewkeeper.catalog.types import VOID, Type
from viewkeeper.compiler.bind_select import SelectBinder, unwrapped
from viewkeeper.compiler.column_defaults import bound_default
from viewkeeper.compiler.namespace import Namespace, Noted, of_whole_parts
from viewkeeper.compiler.nested_values import refuse_nested
from viewkeeper.compiler.scope import did_you_mean
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.compiler.statements import (
    ColumnDeclaration,
    CreateIndex,
    CreateTable,
    CreateView,
    Identifier,
    SelectStatement,
    column_names,
)
from viewkeeper.compiler.view_key import view_key
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.plans.outside import PythonCall
from viewkeeper.plans.relations import Project, Query, Relation, Scan
from viewkeeper.plans.subqueries import MadeFrom, made_from


@dataclass(frozen=True)
class BoundView:
    """A view as declared: `sql` is its query's text, `key` and `unique` its view key, `reads` the ids of the tables and
    views that its query names, in a WITH that nothing uses, too, `asked` the query as Spark gets it, where it has a
    part in the view, `written` what `View.written` will be.  `forgets`: rows of expired parts go; `lost` says before
    which part (by the id of a stream, or of a view over one) all had expired when it was declared; `target` is that of
    the view.  Places in `relation` are lines and columns of `sql`."""

    name: str
    sql: str
    relation: Relation
    columns: tuple[Column, ...]
    key: tuple[int, ...]
    unique: bool
    reads: tuple[int, ...]
    asked: str | None = None
    written: int | None = None
    forgets: bool = False
    lost: tuple[tuple[int, int], ...] = ()
    target: Target | None = None


@dataclass(frozen=True)
class BoundIndex:
    """An index as declared: `on` is the id of a table or view, `columns` positions in it."""

    name: str
    on: int
    columns: tuple[int, ...]


def bind_view(catalog: Catalog, statement: CreateView) -> BoundView:
    """Looks up and checks CREATE VIEW; raises DeclarationError or NotSupported with line and column."""
    require_free(catalog, statement.name)
    return bind_view_query(of_whole_parts(catalog), statement)


def bind_view_query(
    names: Namespace, statement: CreateView, binder_type: type[SelectBinder] = SelectBinder
) -> BoundView:
    """`bind_view`, whether or not the view's own name is free."""
    if statement.refused is not None:
        raise statement.refused
    read = Noted(names)
    binder, select = _binder(statement.query, read, binder_type)
    relation = binder.of_view(select)
    assert isinstance(relation, Project)
    parts = made_from(relation)
    _refuse_changing(statement.query, parts)
    refuse_nested(parts)
    relation = replace(relation, names=column_names(statement.name, statement.columns, relation.names))
    _check_outputs(statement, select, relation)
    key, unique = view_key(relation, names)
    reads = tuple(dict.fromkeys([*(each.object for each in parts.relations if isinstance(each, Scan)), *read.found]))
    return BoundView(statement.name.name, statement.query.sql, relation, relation.columns, key, unique, reads,
                     target=statement.target)  # fmt: skip


def bind_query(names: Namespace, statement: SelectStatement) -> Query:
    """Looks up and checks a SELECT; raises as `bind_view`."""
    binder, select = _binder(statement.query, names)
    query = binder.query(select)
    _refuse_nested_in(query)
    return query


def _refuse_nested_in(query: Query) -> None:
    refuse_nested(made_from(query.relation))
    for each in query.order:
        if (type_ := query.relation.columns[each.index].type).is_nested:
            raise NotSupported(f"ORDER BY a value of type {type_} is not supported yet")


def bind_rows_of_view(names: Namespace, statement: SelectStatement) -> Relation:
    """The rows of a view whose query is `statement`; raises as `bind_view`."""
    binder, select = _binder(statement.query, names)
    relation = binder.of_view(select)
    refuse_nested(made_from(relation))
    return relation


@dataclass(frozen=True)
class BoundTable:
    """A table as declared: `key` are the positions of its key's columns (none: a hidden row id is the key), `details`
    what else is said of each column."""

    columns: tuple[Column, ...]
    key: tuple[int, ...]
    details: tuple[ColumnDetails, ...]
    comment: str | None = None
    outside: OutsideStore | None = None


def bind_table(statement: CreateTable, zone: str) -> BoundTable:
    """Checks CREATE TABLE; raises DeclarationError or NotSupported with line and column."""
    if not statement.columns:
        raise DeclarationError(f"{statement.name} needs columns", *statement.name.place)
    _refuse_twice([column.name for column in statement.columns], "column")
    positions = {column.name.name.lower(): i for i, column in enumerate(statement.columns)}
    _refuse_twice(list(statement.key), "key column")
    key = []
    for name in statement.key:
        if name.name.lower() not in positions:
            known = did_you_mean(name.name, [column.name.name for column in statement.columns])
            raise DeclarationError(f"{statement.name} has no column {name}" + known, *name.place)
        key.append(positions[name.name.lower()])
        _refuse_nested_key(name, statement.columns[key[-1]].type)
    columns = (
        Column(c.name.name, c.type, c.nullable and i not in key, c.declared) for i, c in enumerate(statement.columns)
    )
    for i in key:
        refuse_default_of_key(statement.columns[i].name, statement.columns[i].default)
    details = tuple(column_details(column, zone, i) for i, column in enumerate(statement.columns))
    outside = None if statement.using is None else OutsideStore(statement.using.name.lower(), statement.options)
    return BoundTable(tuple(columns), tuple(key), details, statement.comment, outside)


def refuse_default_of_key(name: Identifier, default: QueryText | None) -> None:
    """Raises DeclarationError where a key column has a default."""
    if default is not None:
        raise default.error(f"{name} is in the key, which each row says for itself; leave out DEFAULT", default.tree)


def column_details(column: ColumnDeclaration, zone: str, id_: int) -> ColumnDetails:
    """What is declared of a column of a table beside its name and type; `id_` is its own."""
    default = None
    if column.default is not None:
        default = bound_default(column.default, column.name, column.type, zone, column.declared)
    return ColumnDetails(default, id_, comment=column.comment)


def bind_index(catalog: Catalog, statement: CreateIndex) -> BoundIndex:
    """Looks up and checks CREATE INDEX."""
    require_free(catalog, statement.name)
    item = catalog.find(statement.on.name)
    if not isinstance(item, (Table, View)):
        if isinstance(item, InParts):
            message = (f"{item.name} is kept part by part, and has no indexes; read its parts, or by a condition on "
                       "PART_TIMESTAMP")  # fmt: skip
            raise NotSupported(message, *statement.on.place)
        known = did_you_mean(statement.on.name, [*(t.name for t in catalog.tables), *(v.name for v in catalog.views)])
        raise DeclarationError(f"there is no table or view {statement.on}" + known, *statement.on.place)
    _refuse_twice(list(statement.columns), "column")
    positions = {column.name.lower(): i for i, column in enumerate(item.columns)}
    for name in statement.columns:
        _refuse_nested_key(name, next((c.type for c in item.columns if c.name.lower() == name.name.lower()), VOID))
        if name.name.lower() not in positions:
            known = did_you_mean(name.name, [column.name for column in item.columns])
            raise DeclarationError(f"{item.name} has no column {name}" + known, *name.place)
    return BoundIndex(statement.name.name, item.id, tuple(positions[name.name.lower()] for name in statement.columns))


def _refuse_nested_key(name: Identifier, type_: Type) -> None:
    if type_.is_nested:
        raise NotSupported(f"{name} is of type {type_}, and no key can be", *name.place)


def require_free(catalog: Catalog, name: Identifier) -> None:
    """Raises DeclarationError where anything is called `name` already, helpers' parts included."""
    found = catalog.find(name.name)
    if found is not None:
        kind, known = kind_of(found), found.name
    else:
        helpers = (helper.name for view in catalog.part_views for helper in view.helpers)
        own = next((helper for helper in helpers if helper.lower() == name.name.lower()), None)
        if own is None:
            return
        kind, known = "helper of a view", own
    article = "an" if kind[0] in "aeiou" else "a"
    message = f"there is {article} {kind} called {known} already; drop it, or take another name"
    raise DeclarationError(message, *name.place)


def _binder(
    query: QueryText, names: Namespace, binder_type: type[SelectBinder] = SelectBinder
) -> tuple[SelectBinder, exp.Expr]:
    return binder_type(query, names), unwrapped(query.tree)


def _check_outputs(statement: CreateView, select: exp.Expr, relation: Project) -> None:
    first: dict[str, str] = {}
    for i, (name, output) in enumerate(zip(relation.names, relation.outputs, strict=True)):
        node = _output_node(select, i, len(relation.names))
        if name.lower() in first:
            raise statement.query.error(f"two outputs are called {name}; give one an alias", node)
        first[name.lower()] = name
        if output.type == VOID:
            raise statement.query.error(f"the output {name} is always NULL and has no type; leave it out", node)


def _refuse_changing(query: QueryText, parts: MadeFrom) -> None:
    for call in parts.expressions:
        if isinstance(call, PythonCall) and not call.function.deterministic:
            raise query.error_at(f"{call.name} is declared with deterministic=False: a view cannot be kept by what is "
                                 "another value each time; store the value instead", call.place)  # fmt: skip


def _output_node(select: exp.Expr, i: int, outputs: int) -> exp.Expr:
    """What stands for output number `i` in the text, or near it."""
    if not isinstance(select, exp.Select):
        return select
    return select.expressions[i] if len(select.expressions) == outputs else select.expressions[0]


def _refuse_twice(names: list[Identifier], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name.name.lower() in seen:
            raise DeclarationError(f"the {what} {name} stands twice", *name.place)
        seen.add(name.name.lower())
