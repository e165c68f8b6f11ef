"""One SELECT: FROM and WHERE, then grouping, then HAVING and the outputs, then ORDER BY and LIMIT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlglot import exp

from viewkeeper.catalog.types import Type
from viewkeeper.compiler.aggregates import Grouping, NotGrouped, has_call
from viewkeeper.compiler.bind_expression import Clause, ExpressionBinder
from viewkeeper.compiler.bind_from import bind_from
from viewkeeper.compiler.coercion import cannot_fail
from viewkeeper.compiler.namespace import Namespace
from viewkeeper.compiler.scope import Unresolved
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.errors import NotSupported
from viewkeeper.plans.expressions import Cast, ColumnRef, Expression
from viewkeeper.plans.relations import Filter, GroupBy, Order, Project, Query, Relation
from viewkeeper.plans.rewriting import identity, walk

_IN_OUTPUT = Clause()
_IN_GROUP_BY = "an aggregate cannot stand in GROUP BY"
_TWO_TYPES = "{} is an alias here, and a column of another type in FROM; give the output another alias"
_NOT_SHOWN = "ORDER BY behind SELECT DISTINCT can only name outputs"
_ONLY_WHEN_READ = "{} belongs to the query that reads, not into {}; a view has no order"


@dataclass(frozen=True)
class _Output:
    name: str
    node: exp.Expr
    bound: Expression


class SelectBinder:
    """Binds the SELECT `select` of `query`, and those in its FROM, with its names looked up in `names`."""

    expressions: ClassVar[type[ExpressionBinder]] = ExpressionBinder

    def __init__(self, query: QueryText, names: Namespace) -> None:
        self._query, self._names = query, names

    def relation(self, select: exp.Expr, where: str) -> Relation:
        """A SELECT without ORDER BY and LIMIT, which are refused; `where` says what it is part of."""
        for part in ("order", "limit", "offset"):
            clause = select.args.get(part)
            if clause:
                name = "ORDER BY" if part == "order" else part.upper()
                raise self._query.error(_ONLY_WHEN_READ.format(name, where), clause, NotSupported)
        return self.query(select).relation

    def query(self, select: exp.Expr) -> Query:
        """A whole SELECT."""
        assert isinstance(select, exp.Select)
        input_, scope = bind_from(self._query, select, self._names, lambda s: self.relation(s, "a subquery"))
        binder = self.expressions(self._query, scope, self._names.zone)
        outputs = self._outputs(binder, select)
        aliases: dict[str, list[Expression]] = {}
        for output in outputs:
            aliases.setdefault(output.name.lower(), []).append(output.bound)
        group = select.args.get("group")
        grouping = self._grouping(binder, group, outputs, aliases)
        having = self._having(binder, select, grouping, aliases)
        terms = self._order_terms(binder, select, outputs, Clause(outputs=aliases))
        every = [output.bound for output in outputs] + [bound for _, bound in terms]
        if group or having is not None or any(map(has_call, every)):
            if not group and not any(map(has_call, [*every, *([having] if having else [])])):
                raise self._query.error(
                    "HAVING without GROUP BY and without an aggregate; use WHERE", select.args["having"]
                )
            every = [self._over(grouping, bound, group) for bound in every]
            having = self._over(grouping, having, group) if having else None
            input_ = grouping.relation(input_)
            if having:
                input_ = Filter(input_, having)
        return self._finish(select, input_, outputs, every, terms)

    def _outputs(self, binder: ExpressionBinder, select: exp.Select) -> list[_Output]:
        outputs = []
        for node in select.expressions:
            if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
                outputs += self._star(binder, node)
            else:
                value = node.this if isinstance(node, exp.Alias) else node
                bound = self._output(binder, select, value)
                outputs.append(_Output(node.alias if value is not node else binder.name(node), value, bound))
        if not outputs:
            raise self._query.error("a query needs at least one output", select)
        return outputs

    def _output(self, binder: ExpressionBinder, select: exp.Select, node: exp.Expr) -> Expression:
        for column in node.find_all(exp.Column):
            self._refuse_lateral_alias(binder, select, column)
        return binder.bind(node, _IN_OUTPUT)

    def _refuse_lateral_alias(self, binder: ExpressionBinder, select: exp.Select, column: exp.Column) -> None:
        table = column.args.get("table")
        if isinstance(column.this, exp.Star) or table is not None:
            return
        try:
            binder.scope.resolve(column.name, None)
        except Unresolved:
            aliases = {node.alias.lower() for node in select.expressions if isinstance(node, exp.Alias)}
            if column.name.lower() in aliases:
                raise self._query.error(
                    f"{column.name} is an alias of this same SELECT list, which is not supported yet; repeat the "
                    "expression, or put it into a subquery in FROM", column, NotSupported,
                ) from None  # fmt: skip

    def _star(self, binder: ExpressionBinder, node: exp.Expr) -> list[_Output]:
        table = node.args.get("table")
        try:
            columns = list(binder.scope.star(table.name if table else None))
        except Unresolved as problem:
            raise self._query.error(str(problem), node) from None
        place = self._query.place(node)
        return [_Output(n, node, ColumnRef(c.type, c.nullable, place, i, n)) for i, n, c in columns]

    def _having(
        self, binder: ExpressionBinder, select: exp.Select, grouping: Grouping, aliases: dict[str, list[Expression]]
    ) -> Expression | None:
        having = select.args.get("having")
        if having is None:
            return None
        # A name in HAVING is first a column that is grouped by, then an alias (in ORDER BY the other way round).
        free = {name: bound for name, bound in aliases.items() if not self._is_grouped(binder, grouping, name)}
        self._refuse_two_types(binder, having.this, free)
        return binder.predicate(having.this, Clause(outputs=free), "HAVING")

    def _refuse_two_types(self, binder: ExpressionBinder, having: exp.Expr, free: dict[str, list[Expression]]) -> None:
        # Spark first takes an alias in HAVING for the column of FROM that has its name, if there is one, and converts
        # both sides of an operator for that; then the alias takes the column's place, and the conversions stay.
        doubtful: dict[int, exp.Column] = {}
        for node in having.find_all(exp.Column):
            if node.args.get("table") or node.find_ancestor(exp.AggFunc) or node.name.lower() not in free:
                continue
            try:
                index, column = binder.scope.resolve(node.name, None)
            except Unresolved:
                continue
            types = {output.type for output in free[node.name.lower()]} - {column.type}
            if any(not _is_wider(column.type, type_) for type_ in types):
                raise self._query.error(_TWO_TYPES.format(node.name), node)
            if types:
                doubtful[index] = node
        if doubtful:
            names = {node.name.lower() for node in doubtful.values()}
            others = Clause(outputs={name: bound for name, bound in free.items() if name not in names})
            for cast in walk(binder.bind(having, others)):
                if isinstance(cast, Cast) and isinstance(cast.argument, ColumnRef) and cast.argument.index in doubtful:
                    node = doubtful[cast.argument.index]
                    raise self._query.error(_TWO_TYPES.format(node.name), node)

    def _is_grouped(self, binder: ExpressionBinder, grouping: Grouping, name: str) -> bool:
        try:
            index, _ = binder.scope.resolve(name, None)
        except Unresolved:
            return False
        return index in grouping.columns

    def _grouping(
        self, binder: ExpressionBinder, group: exp.Group | None, outputs: list[_Output],
        aliases: dict[str, list[Expression]],
    ) -> Grouping:  # fmt: skip
        keys, names = [], []
        for node in group.expressions if group else ():
            output = self._by_number(node, outputs, "GROUP BY")
            if output:
                key, name = output.bound, output.name
            else:
                key, name = binder.bind(node, self._group_clause(binder, node, aliases)), binder.name(node)
            if has_call(key):
                raise self._query.error(_IN_GROUP_BY, node)
            keys.append(key)
            names.append(name)
        return Grouping(keys, names)

    def _group_clause(self, binder: ExpressionBinder, node: exp.Expr, aliases: dict[str, list[Expression]]) -> Clause:
        # A name in GROUP BY is first a column, and only else the alias of an output.
        if isinstance(node, exp.Column) and not node.args.get("table") and node.name.lower() in aliases:
            try:
                binder.scope.resolve(node.name, None)
            except Unresolved:
                return Clause(_IN_GROUP_BY, aliases)
        return Clause(_IN_GROUP_BY)

    def _over(self, grouping: Grouping, bound: Expression, group: exp.Group | None) -> Expression:
        try:
            return grouping.over(bound)
        except NotGrouped as problem:
            column = problem.column
            message = f"{column.name} is neither in GROUP BY nor inside an aggregate"
            if group is None:
                message += "; add GROUP BY"
            raise self._query.error_at(message, column.place) from None

    def _order_terms(
        self, binder: ExpressionBinder, select: exp.Select, outputs: list[_Output], clause: Clause
    ) -> list[tuple[exp.Ordered, Expression]]:
        terms = []
        order = select.args.get("order")
        for term in order.expressions if order else ():
            output = self._by_number(term.this, outputs, "ORDER BY")
            terms.append((term, output.bound if output else binder.bind(term.this, clause)))
        return terms

    def _by_number(self, node: exp.Expr, outputs: list[_Output], clause: str) -> _Output | None:
        """The output that an integer in GROUP BY or ORDER BY means."""
        number = node.this if isinstance(node, exp.Neg) else node
        if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdigit():
            return None
        if number is not node or not 1 <= int(number.name) <= len(outputs):
            raise self._query.error(f"{clause} {node.sql()}: the outputs are numbered from 1 to {len(outputs)}", node)
        return outputs[int(node.name) - 1]

    def _finish(
        self, select: exp.Select, input_: Relation, outputs: list[_Output], every: list[Expression],
        terms: list[tuple[exp.Ordered, Expression]],
    ) -> Query:  # fmt: skip
        names = [output.name for output in outputs]
        visible, hidden = every[: len(outputs)], every[len(outputs) :]
        places = {identity(expression): i for i, expression in reversed(list(enumerate(visible)))}
        order = []
        for (term, _), expression in zip(terms, hidden, strict=True):
            index = places.setdefault(identity(expression), len(visible))
            if index == len(visible):
                visible.append(expression)
                names.append(f"order {len(names)}")
            order.append(Order(index, not term.args.get("desc"), bool(term.args.get("nulls_first"))))
        relation = Project(input_, tuple(visible), tuple(names))
        if select.args.get("distinct"):
            if len(visible) > len(outputs):
                raise self._query.error(_NOT_SHOWN, select.args["order"])
            relation = _distinct(relation)
        limit, offset = self._count(select, "limit"), self._count(select, "offset")
        return Query(relation, len(outputs), tuple(order), limit, offset or 0)

    def _count(self, select: exp.Select, part: str) -> int | None:
        clause = select.args.get(part)
        if clause is None:
            return None
        number = clause.expression
        if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdigit():
            raise self._query.error(f"{part.upper()} needs a whole number", clause)
        return int(number.name)


def _distinct(rows: Project) -> Project:
    """Each row once: one row for each group of equal ones."""
    columns = tuple(ColumnRef(c.type, c.nullable, None, i, c.name) for i, c in enumerate(rows.columns))
    return Project(GroupBy(rows, columns, rows.names, (), ()), columns, rows.names)


def _is_wider(column: Type, output: Type) -> bool:
    """Whether comparing and calculating with either is the same as long as neither is converted."""
    both_integers = column.is_integer and output.is_integer
    both_decimals = column.is_decimal and output.is_decimal and column.scale == output.scale
    return (both_integers or both_decimals) and cannot_fail(column, output)
