"""The SELECT of a pattern view to typed expressions (paper 003, section 5.1).

A condition or an argument is over four rows side by side, each of the source's `width` columns: the row at hand, the
group's row before it (PREV; NULL where there is none), and for a condition on two variables the last row of the earlier
one and the row before that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import VOID
from viewkeeper.compiler.accounting import refuse_unaccounted
from viewkeeper.compiler.aggregates import Grouping, NotGrouped, UngroupedCall, has_call
from viewkeeper.compiler.bind_expression import Clause, ExpressionBinder
from viewkeeper.compiler.conversion import Refused
from viewkeeper.compiler.names import Namer
from viewkeeper.compiler.scope import FromItem, Scope
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.compiler.statements import CreatePatternView, column_names
from viewkeeper.compiler.supported import ADMITTED, function_refused, refuse_unsupported
from viewkeeper.compiler.syntax import query_tokens
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.plans.expressions import ColumnRef, Expression
from viewkeeper.plans.pattern import BoundPattern, PatternCall, PatternCondition, PatternOrder
from viewkeeper.plans.relations import AggregateCall, Scan
from viewkeeper.plans.rewriting import conjuncts, rewrite, walk

MORE: dict[type[exp.Expr], frozenset[str]] = {
    exp.First: frozenset(["this"]), exp.Last: frozenset(["this"]), exp.Anonymous: frozenset(["this", "expressions"]),
    exp.Select: ADMITTED[exp.Select],
}  # fmt: skip
MOST_VARIABLES = 60
"""Which variables' tests a row passes is kept in the bits of one BIGINT."""

_SELECT_PARTS = {
    "joins": "a pattern is looked for in one stream or view; join in a view of its own, then name that",
    "having": "HAVING is not supported in a pattern view; declare a view with WHERE over this one",
    "limit": "LIMIT has no meaning here; leave it out",
    "offset": "OFFSET has no meaning here; leave it out",
}


def bind_pattern(statement: CreatePatternView, columns: Sequence[Column], time: int | None, zone: str) -> BoundPattern:
    """The query of `statement` over a source of `columns`; raises DeclarationError with the place."""
    query = statement.query
    refuse_unsupported(query, MORE)
    refuse_unaccounted(query, query_tokens(query))
    select = query.tree.unnest() if isinstance(query.tree, exp.Subquery) else query.tree
    for part, reason in _SELECT_PARTS.items():
        clause = select.args.get(part)
        if clause:
            raise query.error(reason, clause[0] if isinstance(clause, list) else clause, NotSupported)
    source = select.args["from_"].this if select.args.get("from_") else None
    if not isinstance(source, exp.Table):
        raise query.error("a pattern is looked for in one stream or view: FROM names it", source or select)
    _refuse_names(statement, source)
    return _PatternBinder(statement, source, columns, time, zone).bound(select)


def _refuse_names(statement: CreatePatternView, source: exp.Table) -> None:
    names: set[str] = {source.alias_or_name.lower()}
    for variable, _ in statement.variables:
        if variable.name.lower() in names:
            raise DeclarationError(f"{variable} is the name of two things here; call the variable otherwise",
                                   *variable.place)  # fmt: skip
        names.add(variable.name.lower())
    if len(statement.variables) > MOST_VARIABLES:
        message = f"a pattern has at most {MOST_VARIABLES} variables"
        raise NotSupported(message, *statement.variables[MOST_VARIABLES][0].place)


class _Scope(Scope):
    """Item 0 is the source itself (a name without a variable), item v a row of variable v."""

    def _called(self, table: str | None) -> Sequence[FromItem]:
        return self.items[:1] if table is None else super()._called(table)


class _Namer(Namer):
    def name(self, node: exp.Expr) -> str:
        if isinstance(node, (exp.First, exp.Last)):
            return f"{node.key}({self.name(node.this)})"
        if isinstance(node, exp.Anonymous):
            return f"{node.name.lower()}({', '.join(map(self.name, node.expressions))})"
        return super().name(node)


class _Expressions(ExpressionBinder):
    """Knows PREV(v.x), FIRST(v.x) and LAST(v.x) too; the row before that of item i is item `items + i`."""

    def __init__(self, query: QueryText, scope: Scope, zone: str) -> None:
        super().__init__(query, scope, zone)
        self._namer = _Namer(self._shown, self._shown_sides, lambda node: str(node.name))
        self._before = sum(len(item.names) for item in scope.items)

    def bind(self, node: exp.Expr, clause: Clause) -> Expression:
        if isinstance(node, exp.Anonymous):
            return self._previous(node, clause)
        if isinstance(node, (exp.First, exp.Last)):
            return self._end(node, clause)
        return super().bind(node, clause)

    def _previous(self, node: exp.Anonymous, clause: Clause) -> Expression:
        if node.name.upper() != "PREV":
            raise self.query.error(function_refused(node.name), node, NotSupported)
        column = node.expressions[0] if len(node.expressions) == 1 else None
        if not isinstance(column, exp.Column) or isinstance(column.this, exp.Star):
            raise self.query.error("PREV takes one column, such as PREV(b.x): its value in the group's row before",
                                   node, NotSupported)  # fmt: skip
        bound = self.bind(column, clause)
        assert isinstance(bound, ColumnRef)
        return replace(bound, nullable=True, index=bound.index + self._before, name=f"PREV({bound.name})")

    def _end(self, node: exp.Expr, clause: Clause) -> Expression:
        if clause.no_aggregates:
            raise self.query.error(clause.no_aggregates, node)
        if node.this is None or isinstance(node.this, exp.Star):
            raise self.query.error(f"{node.key.upper()} needs an argument", node)
        try:
            argument = self.bind(node.this, Clause("an aggregate cannot stand inside another"))
        except Refused as refused:
            raise self.query.error(str(refused), node, refused.kind) from None
        return UngroupedCall(argument.type, argument.nullable, self._place(node), node.key, argument, self.name(node))


class _PatternBinder:
    def __init__(
        self, statement: CreatePatternView, source: exp.Table, columns: Sequence[Column], time: int | None, zone: str
    ) -> None:
        self._statement, self._query, self._time = statement, statement.query, time
        self._width = len(columns)
        names = tuple(column.name for column in columns)
        self._scan = Scan(0, source.name, tuple(columns))
        aliases = [source.alias_or_name, *(variable.name for variable, _ in statement.variables)]
        items = [FromItem(alias, self._scan, names, i * self._width) for i, alias in enumerate(aliases)]
        self._aliases = aliases
        self._binder = _Expressions(self._query, _Scope(items), zone)

    def bound(self, select: exp.Expr) -> BoundPattern:
        """The whole query."""
        keys, key_names = self._keys(select)
        outputs = [self._output(node) for node in select.expressions]
        if not outputs:
            raise self._query.error("a query needs at least one output", select)
        grouping = Grouping(keys, key_names)
        over = tuple(self._over(grouping, bound) for _, bound in outputs)
        aggregate = grouping.relation(self._scan)
        calls = tuple(map(self._call, aggregate.calls, aggregate.call_names))
        names = self._names(select, [name for name, _ in outputs], over)
        where = select.args.get("where")
        conditions = self._conditions(where.this) if where else ()
        return BoundPattern(
            self._query.sql, self._width, tuple(self._aliases[1:]),
            tuple(plus for _, plus in self._statement.variables), conditions, aggregate.keys, aggregate.key_names,
            self._order(select), self._time, calls, over, names,
        )  # fmt: skip

    def _output(self, node: exp.Expr) -> tuple[str, Expression]:
        value = node.this if isinstance(node, exp.Alias) else node
        if isinstance(value, exp.Star) or (isinstance(value, exp.Column) and isinstance(value.this, exp.Star)):
            raise self._query.error("a pattern view's outputs are grouping columns and aggregates; * is none", node)
        return (node.alias if value is not node else self._binder.name(node)), self._binder.bind(value, Clause())

    def _names(self, select: exp.Expr, names: list[str], outputs: Sequence[Expression]) -> tuple[str, ...]:
        chosen = column_names(self._statement.name, self._statement.columns, names)
        seen: set[str] = set()
        for name, output, node in zip(chosen, outputs, select.expressions, strict=True):
            if name.lower() in seen:
                raise self._query.error(f"two outputs are called {name}; give one an alias", node)
            seen.add(name.lower())
            if output.type == VOID:
                raise self._query.error(f"the output {name} is always NULL and has no type; leave it out", node)
        return chosen

    # Grouping and order

    def _keys(self, select: exp.Expr) -> tuple[list[Expression], list[str]]:
        keys, names = [], []
        group = select.args.get("group")
        for node in group.expressions if group else ():
            key = self._of_row(node, "GROUP BY")
            keys.append(key)
            names.append(self._binder.name(node))
        return keys, names

    def _order(self, select: exp.Expr) -> tuple[PatternOrder, ...]:
        terms = []
        order = select.args.get("order")
        for term in order.expressions if order else ():
            expression = self._of_row(term.this, "ORDER BY")
            descending = bool(term.args.get("desc"))
            if isinstance(expression, ColumnRef) and expression.index == self._time:
                if descending:
                    raise self._query.error("rows of a stream are taken by its time, the earliest first", term)
                continue
            terms.append(PatternOrder(expression, not descending, bool(term.args.get("nulls_first"))))
        return tuple(terms)

    def _of_row(self, node: exp.Expr, clause: str) -> Expression:
        """A term of GROUP BY or ORDER BY, which is over the source's columns alone."""
        bound = self._binder.bind(node, Clause(f"an aggregate cannot stand in {clause}"))
        columns = [each for each in walk(bound) if isinstance(each, ColumnRef)]
        if not columns:
            raise self._query.error(f"{clause} names columns; a constant says nothing", node)
        if any(column.index >= self._width for column in columns):
            raise self._query.error(f"{clause} is over the columns of {self._aliases[0]}; leave out variables and PREV",
                                    node)  # fmt: skip
        return bound

    # SELECT

    def _over(self, grouping: Grouping, bound: Expression) -> Expression:
        try:
            return grouping.over(bound)
        except NotGrouped as problem:
            column = problem.column
            variable = self._variable(column.index)
            advice = f"FIRST or LAST of {self._aliases[variable]}.{column.name}" if variable else "GROUP BY it"
            message = f"{column.name} is neither in GROUP BY nor inside an aggregate; write {advice}"
            raise self._query.error_at(message, column.place) from None

    def _call(self, call: AggregateCall, name: str) -> PatternCall:
        variable, argument = 0, call.argument
        if argument is not None:
            columns = [node for node in walk(argument) if isinstance(node, ColumnRef)]
            variables = {self._variable(column.index) for column in columns}
            if len(variables) > 1:
                message = "an aggregate is over the rows of one variable, or of the whole match"
                raise self._query.error_at(message, columns[-1].place)
            variable = min(variables, default=0)
            argument = self._moved(argument, variable, 0)
        return PatternCall(call.function, variable, argument, call.type, call.nullable, call.place, name)

    # WHERE

    def _conditions(self, node: exp.Expr) -> tuple[PatternCondition, ...]:
        bound = self._binder.predicate(node, Clause("an aggregate cannot stand in WHERE"), "WHERE")
        assert not has_call(bound)
        return tuple(self._condition(term, node) for term in conjuncts(bound))

    def _condition(self, term: Expression, node: exp.Expr) -> PatternCondition:
        columns = [each for each in walk(term) if isinstance(each, ColumnRef)]
        for column in columns:
            if self._variable(column.index) == 0:
                example = f"{self._aliases[1]}.{column.name.removeprefix('PREV(').removesuffix(')')}"
                message = f"{column.name} belongs to no variable here; write {example}"
                raise self._query.error_at(message, column.place)
        variables = sorted({self._variable(column.index) for column in columns})
        if not variables:
            raise self._query.error_at("this condition is on no variable; leave it out", term.place)
        if len(variables) > 2:
            third = self._third(columns)
            name = self._aliases[self._variable(third.index)]
            message = (f"a condition, with all that OR joins in it, may name two variables, and {name} is the third; "
                       "write conditions joined by AND")  # fmt: skip
            raise self._query.error_at(message, third.place)
        owner, earlier = variables[-1], variables[0] if len(variables) == 2 else 0
        return PatternCondition(owner, earlier, self._moved(term, owner, earlier))

    def _third(self, columns: Sequence[ColumnRef]) -> ColumnRef:
        """The first column of the third variable among `columns`."""
        seen: set[int] = set()
        for column in columns:
            seen.add(self._variable(column.index))
            if len(seen) == 3:
                return column
        raise AssertionError("three variables are there")

    # Positions

    def _variable(self, index: int) -> int:
        return index // self._width % len(self._aliases)

    def _moved(self, expression: Expression, owner: int, earlier: int) -> Expression:
        """From the rows of all variables to the four rows of the module's text."""
        rows = len(self._aliases)

        def change(node: Expression) -> Expression | None:
            if not isinstance(node, ColumnRef):
                return None
            row, column = divmod(node.index, self._width)
            place = (0 if row % rows == owner else 2) + row // rows
            return replace(node, index=place * self._width + column)

        return rewrite(expression, change)
