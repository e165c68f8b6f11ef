"""CREATE VIEW ... MATCH_RECOGNIZE to the view and its plan: names looked up, types worked out, the rest refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from viewkeeper.catalog.model import Catalog, Column, HelperParts, PartView, Stream
from viewkeeper.catalog.types import BIGINT, VOID
from viewkeeper.compiler.accounting import refuse_unaccounted
from viewkeeper.compiler.bind_expression import Clause, ExpressionBinder
from viewkeeper.compiler.bind_select import SelectBinder
from viewkeeper.compiler.namespace import PART_TIMESTAMP, Beside, Derived
from viewkeeper.compiler.scope import did_you_mean
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.compiler.statements import CreateMatchView, Identifier, column_names
from viewkeeper.compiler.supported import refuse_unsupported
from viewkeeper.compiler.syntax import syntax_tree
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.plans.expressions import ColumnRef, Expression
from viewkeeper.plans.match import MatchElement, MatchOrder, MatchPlan, MatchPrevious
from viewkeeper.plans.relations import Filter, Project, Scan
from viewkeeper.plans.rewriting import rewrite
from viewkeeper.streams.recognize.clause import MatchClause, read_clause
from viewkeeper.streams.recognize.expressions import Navigation, NavigationReader, VariableScope, expression_tree
from viewkeeper.streams.recognize.measures import MeasureBinder

TRUTH = Column("__truth", BIGINT, False)
"""Of an open row: bit v says whether it satisfies variable v."""
PLACE = Column("__place", BIGINT, False)
"""Counts the rows of a group from 0 at the first undecided one; those before it, which PREV needs, below 0."""

_IN_DEFINE = Clause("an aggregate is not supported in DEFINE; a condition looks at its own row and at rows before it")


def declare_match(
    catalog: Catalog, statement: CreateMatchView, source: Stream | PartView, new_id: Callable[[], int]
) -> list[PartView]:
    """The view; raises DeclarationError or NotSupported with line and column.

    `source` is what `source_name` says.  Names that are taken are the caller's to check.
    """
    columns, plan = bind_match(catalog, statement, source)
    id_ = new_id()
    helpers: tuple[HelperParts, ...] = ()
    if plan.carries:
        kept = tuple(plan.columns[i] for i in plan.kept)
        helpers = (HelperParts(new_id(), f"{statement.name} open rows", (*kept, TRUTH, PLACE)),)
    return [PartView(id_, statement.name.name, statement.query.sql, columns, source.length, (source.id,), (),
                     plan, helpers, fills=True, expire=statement.expire)]  # fmt: skip


def source_name(query: QueryText) -> Identifier:
    """The stream or view before MATCH_RECOGNIZE."""
    return read_clause(query).source


def bind_match(
    catalog: Catalog, statement: CreateMatchView, source: Stream | PartView
) -> tuple[tuple[Column, ...], MatchPlan]:
    """The view's columns and its plan."""
    return _MatchBinder(catalog, statement.query, source).bound(statement)


class _MatchBinder:
    def __init__(self, catalog: Catalog, query: QueryText, source: Stream | PartView) -> None:
        self._catalog, self._query, self._source = catalog, query, source
        self._columns = (*source.columns, PART_TIMESTAMP)
        self._clause: MatchClause = read_clause(query)
        self._variables: list[str] = []
        self._previous: list[MatchPrevious] = []

    def bound(self, statement: CreateMatchView) -> tuple[tuple[Column, ...], MatchPlan]:
        clause = self._clause
        partition = self._partition()
        order = self._order()
        elements = self._elements()
        conditions = self._conditions()
        measures = MeasureBinder(self._query, self._columns, self._variables, elements, partition, self._catalog.zone)
        names, values = [self._columns[i].name for i in partition], measures.keys()
        for name, tokens in clause.measures:
            names.append(name.name)
            values.append(measures.bind(tokens))
            if values[-1].type == VOID:
                raise DeclarationError(f"the measure {name} is always NULL and has no type; leave it out", *name.place)
        if not names:
            raise DeclarationError("a match has no columns without PARTITION BY and MEASURES", *clause.place)
        shown = [Column(name, value.type, value.nullable) for name, value in zip(names, values, strict=True)]
        outer = self._outer(tuple(shown))
        scan = outer.input.input if isinstance(outer.input, Filter) else outer.input
        assert isinstance(scan, Scan)
        predicate = _over(outer.input.predicate, values) if isinstance(outer.input, Filter) else None
        outputs = tuple(_over(output, values) for output in outer.outputs)
        columns = _named(statement, outer)
        return columns, MatchPlan(self._columns, partition, order, tuple(self._variables), elements, conditions,
                                  tuple(self._previous), measures.slots, outputs, predicate, clause.past)  # fmt: skip

    # PARTITION BY, ORDER BY, PATTERN

    def _partition(self) -> tuple[int, ...]:
        found: list[int] = []
        for name in self._clause.partition:
            at = self._column(name)
            if at in found:
                raise DeclarationError(f"the column {name} stands twice in PARTITION BY", *name.place)
            if at == len(self._columns) - 1:
                raise NotSupported("PARTITION BY PART_TIMESTAMP is not supported: matches go over parts", *name.place)
            found.append(at)
        return tuple(found)

    def _order(self) -> tuple[MatchOrder, ...]:
        """The terms behind the first, which is the source's time (of a view: PART_TIMESTAMP)."""
        first, *rest = self._clause.order
        if isinstance(self._source, Stream):
            time, why = self._source.time, f"the time of {self._source.name}"
        else:
            time, why = len(self._columns) - 1, f"the time at which a part of the view {self._source.name} begins"
        name = self._columns[time].name
        if self._column(first.column) != time or not first.ascending:
            reason = f"ORDER BY must begin with {name} (ascending), {why}: rows come part by part"
            raise NotSupported(reason, *first.column.place)
        terms = [MatchOrder(time, True, True)] if isinstance(self._source, Stream) else []
        terms += [MatchOrder(self._column(item.column), item.ascending, item.nulls_first) for item in rest]
        return tuple(terms)

    def _column(self, name: Identifier) -> int:
        positions = [i for i, column in enumerate(self._columns) if column.name.lower() == name.name.lower()]
        if not positions:
            known = did_you_mean(name.name, [column.name for column in self._source.columns])
            raise DeclarationError(f"{self._source.name} has no column {name}" + known, *name.place)
        return positions[0]

    def _elements(self) -> tuple[MatchElement, ...]:
        elements = []
        for element in self._clause.elements:
            at = self._variable(element.variable)
            if at is None:
                at = len(self._variables)
                self._variables.append(element.variable.name)
            elements.append(MatchElement(at, element.least, element.most))
        return tuple(elements)

    def _variable(self, name: Identifier) -> int | None:
        return next((i for i, known in enumerate(self._variables) if known.lower() == name.name.lower()), None)

    # DEFINE

    def _conditions(self) -> tuple[Expression | None, ...]:
        conditions: list[Expression | None] = [None] * len(self._variables)
        for name, tokens in self._clause.definitions:
            at = self._variable(name)
            if at is None:
                known = did_you_mean(name.name, self._variables)
                raise DeclarationError(f"{name} is not in PATTERN" + known, *name.place)
            if conditions[at] is not None:
                raise DeclarationError(f"{name} is defined twice; join its conditions with AND", *name.place)
            reader = NavigationReader(self._query, measures=False)
            tree = expression_tree(self._query, reader.replaced(tokens))
            for column in tree.find_all(exp.Column):
                self._refuse_others(column, at)
            for navigation in reader.taken.values():
                self._refuse_other_previous(navigation, at)
            own = {self._variables[at]: (0, self._columns)}
            scope = VariableScope(self._columns, own, reader.taken, self._look_back)
            binder = ExpressionBinder(self._query, scope, self._catalog.zone)
            conditions[at] = self._shown(binder.predicate(tree, _IN_DEFINE, "DEFINE"))
        return tuple(conditions)

    def _shown(self, condition: Expression) -> Expression:
        """`condition` with what PREV names called as it is written."""

        def change(node: Expression) -> Expression | None:
            if not isinstance(node, ColumnRef) or node.index < len(self._columns):
                return None
            previous = self._previous[node.index - len(self._columns)]
            rows = f", {previous.rows}" if previous.rows > 1 else ""
            return replace(node, name=f"PREV({self._columns[previous.column].name}{rows})")

        return rewrite(condition, change)

    def _refuse_others(self, column: exp.Column, own: int) -> None:
        table = column.args.get("table")
        if table is not None and self._is_other(table.name, own):
            raise self._query.error(_of_another(table.name, self._variables[own]), column, NotSupported)

    def _refuse_other_previous(self, navigation: Navigation, own: int) -> None:
        if navigation.variable is None or navigation.variable.lower() == self._variables[own].lower():
            return
        message = f"there is no variable {navigation.variable} in PATTERN"
        if self._is_other(navigation.variable, own):
            message = _of_another(navigation.variable, self._variables[own])
        raise self._query.source.error(message, navigation.token.start, NotSupported)

    def _is_other(self, name: str, own: int) -> bool:
        names = [variable.lower() for variable in self._variables]
        return name.lower() in names and name.lower() != names[own]

    def _look_back(self, navigation: Navigation) -> tuple[int, Column]:
        at = self._column(Identifier(navigation.column, self._query.source.place(navigation.token.start)))
        column = self._columns[at]
        if not navigation.offset:
            return at, column
        previous = MatchPrevious(at, navigation.offset)
        if previous not in self._previous:
            self._previous.append(previous)
        return len(self._columns) + self._previous.index(previous), replace(column, nullable=True)

    # SELECT

    def _outer(self, columns: tuple[Column, ...]) -> Project:
        """The query with the matches, `columns`, as a table in the place of the clause."""
        tokens = self._clause.outer
        tree = syntax_tree(self._query.source, tokens)
        query = QueryText(tree, self._query.source, self._query.start, self._query.end)
        refuse_unsupported(query)
        refuse_unaccounted(query, tokens)
        matches = Derived(0, self._clause.source.name, columns)
        relation = SelectBinder(query, Beside(Catalog(zone=self._catalog.zone), matches)).relation(tree, "a view")
        assert isinstance(relation, Project)
        below = relation.input.input if isinstance(relation.input, Filter) else relation.input
        if not isinstance(below, Scan):
            what = "a subquery" if isinstance(below, Project) else "a join, or an aggregate over all matches,"
            raise self._query.error(f"{what} is not supported in the query of MATCH_RECOGNIZE; make a view of the "
                                    "matches, and another one over it", tree, NotSupported)  # fmt: skip
        return relation


def _of_another(variable: str, own: str) -> str:
    return (f"the condition of {own} refers to {variable}, which depends on the match; a condition looks at its own "
            "row and at rows before it, with PREV")  # fmt: skip


def _over(expression: Expression, values: Sequence[Expression]) -> Expression:
    """`expression` over the columns that `values` are, as one over what those are over."""

    def change(node: Expression) -> Expression | None:
        return values[node.index] if isinstance(node, ColumnRef) else None

    return rewrite(expression, change)


def _named(statement: CreateMatchView, outer: Project) -> tuple[Column, ...]:
    """The view's columns, each with a name of its own."""
    names = column_names(statement.name, statement.columns, outer.names)
    place = statement.query.source.place(statement.query.start)
    seen: set[str] = set()
    for name, output in zip(names, outer.outputs, strict=True):
        if name.lower() in seen:
            raise DeclarationError(f"two outputs are called {name}; give one an alias", *place)
        if output.type == VOID:
            raise DeclarationError(f"the output {name} is always NULL and has no type; leave it out", *place)
        seen.add(name.lower())
    return tuple(Column(name, o.type, o.nullable) for name, o in zip(names, outer.outputs, strict=True))
