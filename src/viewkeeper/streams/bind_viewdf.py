"""The queries of a ViewDF, names looked up: which parts and tables they read, and what is refused (paper 003, 4.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd

from sqlglot import exp

from viewkeeper.catalog.model import Catalog, Column, InParts, PartView, Stream, Table, View
from viewkeeper.catalog.types import VOID, Type
from viewkeeper.compiler.coercion import cannot_fail, common_type
from viewkeeper.compiler.namespace import PART_TIMESTAMP
from viewkeeper.compiler.part_references import place_in_text
from viewkeeper.compiler.scope import did_you_mean
from viewkeeper.compiler.source_text import Script
from viewkeeper.compiler.statements import CreateViewDF
from viewkeeper.compiler.syntax import syntax_tree, tokenize
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.plans.expressions import TextPlace
from viewkeeper.plans.references import PartQuery, Reference, Subscript
from viewkeeper.plans.viewdf import NamedDimension, NamedInput, PlannedQuery
from viewkeeper.streams.analyst import Analyst

HIDDEN = ("part_timestamp", "__part", "__group")
"""Names (in small letters) that no column of a stream or of a view over one can have."""

_ROUNDS = 4
"""So often the types of a view's own columns may change what UPDATE makes of them."""


def bind_viewdf(catalog: Catalog, statement: CreateViewDF, own: int) -> tuple[PlannedQuery, PlannedQuery]:
    """INITIALIZE and UPDATE, names looked up; `own` is the view's id."""
    initialize = _Binder(catalog, statement, own, None).bind(statement.initialize)
    update = _Binder(catalog, statement, own, own).bind(statement.update)
    if not any(part.high.factor for part in initialize.parts):
        raise NotSupported("INITIALIZE must name a part of a stream, or of a view over one, by its variable: how else "
                           f"should it be known which part of {statement.name} is the first one?",
                           *statement.starts[0])  # fmt: skip
    if not any(part.high.factor and part.object != own for part in update.parts):
        raise NotSupported("UPDATE must name a part of a stream, or of another view over one, by its variable: nothing "
                           f"would end the parts of {statement.name} otherwise", *statement.starts[1])  # fmt: skip
    return initialize, update


class _Binder:
    """`self_id` is the view's id where its own parts may be named, else None."""

    def __init__(self, catalog: Catalog, statement: CreateViewDF, own: int, self_id: int | None) -> None:
        self._catalog, self._view, self._own, self._self_id = catalog, statement, own, self_id

    def bind(self, query: PartQuery) -> PlannedQuery:
        parts: list[NamedInput] = []
        tables: list[NamedDimension] = []
        for reference in query.references:
            if reference.target.lower() == self._view.name.name.lower():
                parts.append(self._own_part(reference))
                continue
            target = self._catalog.find(reference.target)
            if not isinstance(target, InParts) or (isinstance(target, PartView) and target.hidden):
                tables.append(self._table(reference))
            else:
                parts.append(self._part(reference, target))
        return PlannedQuery(query, tuple(parts), tuple(tables), timed(query, {part.name for part in parts}))

    def _own_part(self, reference: Reference) -> NamedInput:
        if self._self_id is None:
            message = f"INITIALIZE makes the first part of {reference.target}: there are no parts of it to be read"
            raise DeclarationError(message, *reference.place)
        low, high = self._subscripts(reference)
        if not _is_below(high):
            message = f"a part of {reference.target} can be made of earlier parts of it only, such as [j-1]"
            raise DeclarationError(message, *reference.place)
        return NamedInput(reference.name, self._self_id, low, high)

    def _part(self, reference: Reference, target: Stream | PartView) -> NamedInput:
        low, high = self._subscripts(reference)
        if ends_later(high, target.length, self._view.length):
            raise DeclarationError(
                f"the part of {target.name} ends after the part of {self._view.name} that is made of it: parts of the "
                f"future cannot be named; {target.name} has parts of {target.length} seconds, {self._view.name} of "
                f"{self._view.length}", *reference.place,
            )  # fmt: skip
        return NamedInput(reference.name, target.id, low, high)

    def _subscripts(self, reference: Reference) -> tuple[Subscript, Subscript]:
        if reference.low is None or reference.high is None:
            raise DeclarationError(f"{reference.target} is cut into parts; say which ones are meant, such as "
                                   f"{reference.target}[j]", *reference.place)  # fmt: skip
        return reference.low, reference.high

    def _table(self, reference: Reference) -> NamedDimension:
        found = self._catalog.find(reference.target)
        if not isinstance(found, (Table, View)):
            known = did_you_mean(reference.target, self._catalog.readable_names())
            raise DeclarationError(f"there is no stream, view or table {reference.target}" + known, *reference.place)
        if reference.low is not None:
            kind = "table" if isinstance(found, Table) else "view that is not kept part by part"
            raise DeclarationError(f"{found.name} is a {kind} and has no parts; leave out the brackets",
                                   *reference.place)  # fmt: skip
        return NamedDimension(reference.name, found.id)


def timed(query: PartQuery, names: set[str]) -> tuple[str, ...]:
    """Those of the references `names` whose PART_TIMESTAMP `query` may name."""
    source = Script(query.sql)
    tree = syntax_tree(source, tokenize(source), faithful=True)
    hidden = PART_TIMESTAMP.name.lower()
    qualifiers = {column.table.lower() for column in tree.find_all(exp.Column) if column.name.lower() == hidden}
    if "" in qualifiers:
        return tuple(reference.name for reference in query.references if reference.name in names)
    aliases = {table.name: table.alias_or_name.lower() for table in tree.find_all(exp.Table)}
    return tuple(reference.name for reference in query.references
                 if reference.name in names and aliases.get(reference.name) in qualifiers)  # fmt: skip


def ends_later(high: Subscript, length: int, view_length: int) -> bool:
    """Whether a part of the future is named: part `high` of length `length` ends after part j of a view ends.

    It is so for some j of a subscript that runs as fast as the view's time, and for all great j of a faster one.  One
    that lags behind more and more names a part of the future in the distant past only, where there are no parts.
    """
    speed = high.factor * length - high.divisor * view_length
    if speed != 0:
        return speed > 0
    nearest = high.offset - high.offset % gcd(high.factor, high.divisor)  # where the division leaves no remainder
    return nearest * length + high.divisor * length > high.divisor * view_length


def _is_below(high: Subscript) -> bool:
    """Whether the subscript is below j for every j from 1 on."""
    return high.factor <= high.divisor and high.at(1) < 1 and (high.factor < high.divisor or high.offset < 0)


def viewdf_columns(
    catalog: Catalog, statement: CreateViewDF, planned: tuple[PlannedQuery, PlannedQuery], own: int, analyst: Analyst
) -> tuple[Column, ...]:
    """The view's columns: names of INITIALIZE, types that hold what both queries give, by position."""
    known = known_columns(catalog)
    initialize, update = planned
    asking = _Asking(statement, analyst, catalog.zone)
    columns = asking.columns(0, initialize, known)
    _refuse_names(statement, columns)
    for round_ in range(_ROUNDS):
        made = asking.columns(1, update, known | {own: columns})
        if len(made) != len(columns):
            raise DeclarationError(f"INITIALIZE gives {len(columns)} columns, and UPDATE {len(made)}; they are matched "
                                   "by position", *statement.starts[1])  # fmt: skip
        wider = tuple(_wider(statement, *pair, again=round_ > 0) for pair in zip(columns, made, strict=True))
        before, columns = columns, wider
        if before == columns or not any(part.object == own for part in update.parts):
            break
    else:
        changing = next(a.name for a, b in zip(before, columns, strict=True) if a != b)
        raise DeclarationError(f"UPDATE gives the column {changing} another type each time that it reads its own; CAST "
                               "it to one type", *statement.starts[1])  # fmt: skip
    for column in columns:
        if column.type == VOID:
            raise DeclarationError(f"the column {column.name} is always NULL and has no type; CAST it to one",
                                   *statement.starts[0])  # fmt: skip
    return columns


@dataclass(frozen=True)
class _Asking:
    statement: CreateViewDF
    analyst: Analyst
    zone: str

    def columns(self, which: int, planned: PlannedQuery, known: Mapping[int, tuple[Column, ...]]) -> tuple[Column, ...]:
        """The columns of INITIALIZE (0) or UPDATE (1)."""
        return asked_columns(self.analyst, planned, known, self.zone, self.statement.starts[which])


def asked_columns(
    analyst: Analyst, planned: PlannedQuery, known: Mapping[int, tuple[Column, ...]], zone: str, start: TextPlace,
    by_rows: str | None = None,
) -> tuple[Column, ...]:  # fmt: skip
    """The columns of a query as Spark names and types them, where `known` are those of what it reads, by id.

    What Spark refuses is said in the user's words and place; the query's text begins at `start`.
    """
    tables = {part.name: known[part.object] for part in planned.parts}
    tables |= {table.name: known[table.object] for table in planned.tables}
    timed = frozenset(part.name for part in planned.parts)
    place = start
    try:
        return analyst.columns(planned.query.sql, tables, timed, zone, by_rows)
    except DeclarationError as error:
        message = str(error)
        if error.line is not None and error.column is not None:
            message = message.removesuffix(f" (line {error.line}, column {error.column})")
            place = place_in_text(planned.query, (error.line, error.column), start)
        for reference in planned.query.references:
            for name in (f"`{reference.name}`", reference.name):
                message = message.replace(name, reference.target)
        raise type(error)(message, *place) from None


def known_columns(catalog: Catalog) -> dict[int, tuple[Column, ...]]:
    """The columns of all that a query can read, by id."""
    known = {table.id: table.columns for table in catalog.tables}
    known |= {view.id: view.columns for view in catalog.views}
    return known | {item.id: item.columns for item in catalog.in_parts}


def _refuse_names(statement: CreateViewDF, columns: tuple[Column, ...]) -> None:
    for name, problem in refused_names(column.name for column in columns):
        raise DeclarationError(f"INITIALIZE: {problem}; give {name} another name by AS", *statement.starts[0])


def refused_names(names: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Names that columns of a stream or of a view over one cannot have, and why."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in HIDDEN:
            yield name, f"{name} is the name of a hidden column"
        if name.lower() in seen:
            yield name, f"two columns are called {name}"
        seen.add(name.lower())


def _wider(statement: CreateViewDF, column: Column, made: Column, again: bool) -> Column:
    """The column that takes the values of both.  `again`: UPDATE has read the view's own columns as they are by now; a
    DECIMAL that only gains whole digits then stays, and what does not fit is an error when it occurs."""
    nullable = column.nullable or made.nullable
    grows = made.type.is_decimal and column.type.is_decimal and made.type.scale <= column.type.scale
    if made.type == column.type or (again and grows):
        return Column(column.name, column.type, nullable)
    common: Type | None = common_type(column.type, made.type)
    if common is None or not all(cannot_fail(each.type, common) for each in (column, made)):
        raise DeclarationError(f"the column {column.name} is {column.type} in INITIALIZE and {made.type} in UPDATE, "
                               "and no type holds both; CAST one of them", *statement.starts[1])  # fmt: skip
    return Column(column.name, common, nullable)
