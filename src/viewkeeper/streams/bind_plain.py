"""A plain view: selection, projection and joins with dimension tables over one stream, or view over one.

It is kept part by part: its part j is its query over part j.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from viewkeeper.catalog.model import Catalog, Column, InParts, PartView, Stream, Table, View
from viewkeeper.compiler.bind import bind_view_query
from viewkeeper.compiler.namespace import with_parts
from viewkeeper.compiler.part_references import is_common, read_view_query
from viewkeeper.compiler.scope import did_you_mean
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.compiler.statements import CreateView, column_names
from viewkeeper.compiler.syntax import query_tokens
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.plans.outside import outside_call_in
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.references import Subscript
from viewkeeper.plans.relations import Filter, InnerJoin, OuterJoin, Project, Relation, Scan, expressions_of
from viewkeeper.plans.subqueries import has_subquery, relations_in, scans_in
from viewkeeper.plans.viewdf import NamedDimension, NamedInput, PlainPlan, PlannedQuery
from viewkeeper.streams.analyst import Analyst, NotByRows
from viewkeeper.streams.bind_viewdf import asked_columns, known_columns, refused_names, timed

OWN_PART = Subscript(1, 0)

_CHOICES = (
    "[WINDOW 60 MINUTES] aggregates over a sliding window, PATTERN [a, b+] finds rows that follow each other, and "
    "INITIALIZE ... UPDATE ... with subscripts such as {0}[j-1] says what each part is made of"
)


@dataclass(frozen=True)
class BoundPlain:
    """A plain view as declared: `source` is the stream or view that it reads part by part."""

    source: Stream | PartView
    columns: tuple[Column, ...]
    plan: PlainPlan
    dimensions: tuple[int, ...]


def sources_in(catalog: Catalog, tree: exp.Expr) -> list[tuple[Stream | PartView, exp.Table]]:
    """The streams and views over them that stand in a query without part references, helpers left out."""
    found = [
        (catalog.find(table.name), table)
        for table in tree.find_all(exp.Table)
        if table.find_ancestor(exp.Hint) is None and not is_common(table)
    ]
    return [(of, table) for of, table in found
            if isinstance(of, InParts) and not (isinstance(of, PartView) and of.hidden)]  # fmt: skip


def bind_plain(catalog: Catalog, statement: CreateView, analyst: Analyst) -> BoundPlain:
    """Looks up and checks a query over a stream; raises DeclarationError or NotSupported with line and column;
    NotByRows where it takes rows of streams together: what it answers is not what it answers over their parts."""
    query = statement.query
    sources = sources_in(catalog, query.tree)
    source, node = sources[0]
    choices = _CHOICES.format(source.name)
    for hint in query.tree.find_all(exp.Hint):
        if any(each.name.upper() == "STRATEGY" for each in hint.expressions):
            raise query.error("STRATEGY is for views with [WINDOW ...]; leave it out", query.tree, NotSupported)
    if statement.forgets:
        raise query.error("FORGET EXPIRED is for views that take rows together; leave it out", query.tree, NotByRows)
    if len(sources) > 1:
        second, other = sources[1]
        raise query.error(f"{source.name} and {second.name} both have parts; a join of them must say which parts meet: "
                          f"{choices}", other, NotByRows)  # fmt: skip
    for aggregate in query.tree.find_all(exp.AggFunc, exp.Group, exp.Having):
        select = aggregate.find_ancestor(exp.Select)
        if select is None or any(table is node for table in select.find_all(exp.Table)):
            raise query.error(f"an aggregate over {source.name} must say over which rows, since the stream never ends: "
                              f"{choices}", aggregate, NotByRows)  # fmt: skip
    planned = _planned(catalog, query, source)
    bound = _bound(catalog, statement, source)
    if bound is None:
        columns = _asked(catalog, statement, source, planned, analyst)
    else:
        columns, relation = bound
        planned = replace(planned, relation=relation)
    for name, problem in refused_names(column.name for column in columns):
        raise query.error(f"{problem}; give {name} another name by AS", query.tree)
    dimensions = tuple(dict.fromkeys(table.object for table in planned.tables))
    return BoundPlain(source, columns, PlainPlan(planned, planned), dimensions)


def _planned(catalog: Catalog, query: QueryText, source: Stream | PartView) -> PlannedQuery:
    """The query over part j of its source."""
    text = read_view_query(query.source, query_tokens(query), "j").query
    own = source.name.lower()
    references = tuple(replace(each, low=OWN_PART, high=OWN_PART) if each.target.lower() == own else each
                       for each in text.references)  # fmt: skip
    text = replace(text, references=references)
    parts = tuple(NamedInput(each.name, source.id, OWN_PART, OWN_PART) for each in references if each.low is not None)
    tables = []
    for each in references:
        if each.low is None:
            table = catalog.find(each.target)
            if not isinstance(table, (Table, View)):
                known = did_you_mean(each.target, catalog.readable_names())
                raise DeclarationError(f"there is no stream, view or table {each.target}" + known, *each.place)
            tables.append(NamedDimension(each.name, table.id))
    return PlannedQuery(text, parts, tuple(tables), timed(text, {part.name for part in parts}))


def _bound(
    catalog: Catalog, statement: CreateView, source: Stream | PartView
) -> tuple[tuple[Column, ...], Relation] | None:
    """The view's columns, and its query for our own operators; None where they do not know all of it."""
    try:
        bound = bind_view_query(with_parts(catalog), statement)
    except NotSupported:
        return None
    for call in (outside_call_in(e) for each in relations_in(bound.relation) for e in expressions_of(each)):
        if call is not None:
            message = f"{call.name} is a Python function, which views over streams do not call; call it over tables"
            raise statement.query.error_at(message, call.place)
    once = [scan.object for scan in scans_in(bound.relation)].count(source.id) == 1  # WITH may read it never, or twice
    if not once or not _is_by_rows(bound.relation, source.id):
        what = f"the query would take rows of {source.name} together: {_CHOICES.format(source.name)}"
        raise statement.query.error(what, statement.query.tree, NotByRows)
    return (bound.columns, bound.relation) if _is_ours(bound.relation) else None


def _is_by_rows(relation: Relation, source: int) -> bool:
    """Whether each row of `source`, which is scanned once, gives its rows of the answer by itself."""
    match relation:
        case Scan():
            return relation.object == source
        case Filter() | Project():
            return _is_by_rows(relation.input, source)
        case InnerJoin():
            return _is_by_rows(relation.left, source) or _is_by_rows(relation.right, source)
        case OuterJoin():
            kept = {"LEFT": relation.left, "SEMI": relation.left, "ANTI": relation.left, "RIGHT": relation.right}
            return relation.kind in kept and _is_by_rows(kept[relation.kind], source)
    return False


def _is_ours(relation: Relation) -> bool:
    """Whether our operators do as Spark does: not where it aggregates, nor where a condition that can raise stands over
    a join (Spark tests it below the join where it can, of rows that then match nothing too)."""
    if any(map(has_subquery, expressions_of(relation))):
        return False
    if isinstance(relation, InnerJoin):
        plain = bool(relation.left_keys) and (relation.residual is None or not can_raise(relation.residual))
        return plain and _is_ours(relation.left) and _is_ours(relation.right)
    if isinstance(relation, Filter) and can_raise(relation.predicate) and _joins(relation.input):
        return False
    return isinstance(relation, Scan) or (isinstance(relation, (Filter, Project)) and _is_ours(relation.input))


def _joins(relation: Relation) -> bool:
    return isinstance(relation, InnerJoin) or (isinstance(relation, (Filter, Project)) and _joins(relation.input))


def _asked(
    catalog: Catalog, statement: CreateView, source: Stream | PartView, planned: PlannedQuery, analyst: Analyst
) -> tuple[Column, ...]:
    """The view's columns as Spark says, which will run the query."""
    query = statement.query
    try:
        columns = asked_columns(analyst, planned, known_columns(catalog), catalog.zone,
                                query.source.place(query.start), planned.parts[0].name)  # fmt: skip
    except NotByRows as refused:
        where = f" (line {refused.line}, column {refused.column})"
        message = f"{str(refused).removesuffix(where)}: {_CHOICES.format(source.name)}"
        raise NotByRows(message, refused.line, refused.column) from None
    names = column_names(statement.name, statement.columns, [column.name for column in columns])
    return tuple(replace(column, name=name) for column, name in zip(columns, names, strict=True))
