"""One SELECT: FROM and WHERE, then grouping, then HAVING and the outputs, then ORDER BY and LIMIT."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from sqlglot import exp

from viewkeeper.compiler import bind_sets
from viewkeeper.compiler.aggregates import Grouping, NotGrouped, has_call
from viewkeeper.compiler.bind_expression import Clause, ExpressionBinder
from viewkeeper.compiler.bind_from import Around, Common, bind_from, named
from viewkeeper.compiler.bind_generators import Generator, bound_generator
from viewkeeper.compiler.bind_having import having_of
from viewkeeper.compiler.bind_over import AT_ENDS, has_window
from viewkeeper.compiler.bind_subquery import require_kept
from viewkeeper.compiler.calls import GeneratorCall
from viewkeeper.compiler.conversion import Refused
from viewkeeper.compiler.counts import count_of
from viewkeeper.compiler.grouping_sets import KeyNodes, has_sets, require_nullable, sets_of
from viewkeeper.compiler.namespace import Namespace
from viewkeeper.compiler.nested_values import refuse_nested_within
from viewkeeper.compiler.outer import Outer
from viewkeeper.compiler.over import windowed
from viewkeeper.compiler.scope import FromItem, Scope, Unresolved
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.compiler.supported import is_all
from viewkeeper.compiler.view_key import view_key
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.plans.correlation import is_correlated
from viewkeeper.plans.expressions import ColumnRef, Expression, reference_to
from viewkeeper.plans.relations import Filter, Limit, Order, Project, Query, Relation
from viewkeeper.plans.rewriting import conjuncts, identity
from viewkeeper.plans.subqueries import ScalarSubquery, made_from, subqueries_in

_IN_GROUP_BY = "an aggregate, or a window function, cannot stand in GROUP BY"
_NOT_SHOWN = "ORDER BY behind SELECT DISTINCT can only name outputs"
_ANY_ROWS = "LIMIT and OFFSET without ORDER BY take any rows; add an ORDER BY before them"
_ONLY_WHEN_READ = "{} belongs to the query that reads, not into {}"


@dataclass(frozen=True)
class _Output:
    name: str
    node: exp.Expr
    bound: Expression


def _unnamed(node: exp.Expr) -> exp.Expr:
    """What stands in a SELECT list before AS."""
    return node.this if isinstance(node, (exp.Alias, exp.Aliases)) else node


class SelectBinder:
    """Binds the queries of `query`, with its names looked up in `names`.

    `common` are the queries of WITH that can be seen, by their names in small letters; `outer` is the query around.
    """

    expressions: ClassVar[type[ExpressionBinder]] = ExpressionBinder

    def __init__(
        self, query: QueryText, names: Namespace, common: Mapping[str, Common] | None = None,
        outer: Outer | None = None,
    ) -> None:  # fmt: skip
        self._query, self._names, self._common, self._outer = query, names, common or {}, outer

    def relation(self, node: exp.Expr, where: str) -> Relation:
        """The rows of a query, in no order, whatever its ORDER BY says; LIMIT is refused, `where` saying of what."""
        node = unwrapped(node)
        for part in ("limit", "offset"):
            clause = node.args.get(part)
            if clause:
                raise self._query.error(_ONLY_WHEN_READ.format(part.upper(), where), clause, NotSupported)
        query = self.query(node)
        relation = query.relation
        if query.visible == len(relation.columns):
            return relation
        assert isinstance(relation, Project), "only a SELECT has outputs for its ORDER BY alone"
        return Project(relation.input, relation.outputs[: query.visible], relation.names[: query.visible])

    def of_view(self, node: exp.Expr) -> Relation:
        """The rows of a view's query.  Where it has LIMIT or OFFSET all outputs are further terms of its ORDER BY."""
        node = unwrapped(node)
        if not (node.args.get("limit") or node.args.get("offset")):
            return self.relation(node, "a view")
        query = self.query(node)
        if not query.order:
            raise self._query.error(_ANY_ROWS, node.args.get("limit") or node.args["offset"], NotSupported)
        ordered = {term.index for term in query.order}
        rest = tuple(Order(i, True, True) for i in range(query.visible) if i not in ordered)
        first = Limit(query.relation, (*query.order, *rest), query.limit, query.offset)
        shown = query.relation.columns[: query.visible]
        outputs = tuple(reference_to(c, i) for i, c in enumerate(shown))
        return Project(first, outputs, tuple(column.name for column in shown))

    def query(self, node: exp.Expr) -> Query:
        """A whole query."""
        node = unwrapped(node)
        with_ = node.args.get("with_")
        if with_ is not None:
            return self._with(with_)._body(node)
        return self._body(node)

    def _body(self, node: exp.Expr) -> Query:
        if isinstance(node, exp.Select):
            return self._select(node)
        if isinstance(node, exp.Values):
            rows = self.values(node)
        else:
            assert isinstance(node, exp.SetOperation)
            left, right = (self.relation(side, f"one side of {node.key.upper()}") for side in (node.left, node.right))
            rows = bind_sets.set_operation(self._query, node, left, right, self._names.zone)
        scope = Scope([FromItem("", rows, tuple(column.name for column in rows.columns), 0)])
        binder = self._binder(scope)
        outputs = self._star(binder, node)
        aliases: dict[str, list[Expression]] = {}
        terms = self._order_terms(binder, node, outputs, Clause(outputs=aliases))
        return self._finish(node, rows, outputs, [o.bound for o in outputs] + [bound for _, bound in terms], terms)

    def _with(self, with_: exp.Expr) -> SelectBinder:
        """A binder that also sees the queries of WITH, of which each sees those before it."""
        common = dict(self._common)
        own: set[str] = set()
        for each in with_.expressions:
            if each.alias.lower() in own:
                raise self._query.error(f"{each.alias} stands twice in WITH", each.args["alias"])
            own.add(each.alias.lower())
            binder = type(self)(self._query, self._names, common, self._outer)
            rows = binder.relation(each.this, "a query of WITH")
            names = tuple(column.name for column in rows.columns)
            outer = self._outer if is_correlated(rows) else None
            refuse_nested_within(made_from(rows))  # it may be read by nothing
            common[each.alias.lower()] = Common(rows, named(self._query, each.args["alias"], names), outer)
        return type(self)(self._query, self._names, common, self._outer)

    def values(self, node: exp.Values, typed: bool = True) -> Relation:
        """The rows of VALUES; without `typed` a column may be NULL in all of them."""
        binder = self._binder(Scope([]))
        clause = Clause("an aggregate cannot stand in VALUES")
        rows = [[binder.bind(value, clause) for value in row.expressions] for row in node.expressions]
        return bind_sets.values(self._query, node, rows, self._names.zone, typed)

    def _binder(self, scope: Scope) -> ExpressionBinder:
        return self.expressions(self._query, scope, self._names.zone, self._outer, self._subquery,
                                self._names.function)  # fmt: skip

    def _subquery(self, node: exp.Expr, outer: Outer) -> Relation:
        return type(self)(self._query, self._names, self._common, outer).relation(node, "a subquery")

    def _select(self, select: exp.Select) -> Query:
        around = Around(self._query, self._names, self._common, self._outer,
                        lambda s: self.relation(s, "a subquery"), self._binder)  # fmt: skip
        input_, scope = bind_from(around, select)
        if has_sets(select.args.get("group")):
            scope = scope.optional()
        binder = self._binder(scope)
        shown = self._generated(binder, select)
        outputs = self._outputs(binder, select, len(input_.columns), shown)
        aliases: dict[str, list[Expression]] = {}
        for output in outputs:
            aliases.setdefault(output.name.lower(), []).append(output.bound)
        group = select.args.get("group")
        grouping = self._grouping(binder, group, outputs, aliases)
        having = having_of(self._query, binder, select, grouping, aliases)
        qualify = self._qualify(binder, select, outputs, aliases)
        terms = self._order_terms(binder, select, outputs, Clause(outputs=aliases))
        every = [output.bound for output in outputs] + [bound for _, bound in terms]
        require_kept(self._query, self._names.zone, every, conjuncts(having) if having else ())
        every += [qualify] if qualify else []
        named: Callable[[int], str | None] = binder.scope.written
        if shown is not None:
            if group or having is not None or any(map(has_call, every)) or any(map(has_window, every)):
                message = "a generator beside aggregates or window functions is not supported yet; write a subquery"
                raise self._query.error(message, select, NotSupported)
            input_ = shown.over(input_)
        if group or having is not None or any(map(has_call, every)):
            self._note_marks(select, grouping, [*every, *([having] if having else ())])
            every = [self._over(grouping, bound, group) for bound in every]
            self._refuse_beside_groups(every)
            having = self._over(grouping, having, group) if having else None
            input_, named = grouping.relations(input_), grouping.written(named)
            if having:
                input_ = Filter(input_, having)
        if any(map(has_window, every)):
            key, unique = view_key(input_, self._names)
            input_, every = windowed(
                input_, key if unique else binder.scope.told_by(every, len(input_.columns)), every, named
            )
        if qualify:
            input_ = Filter(input_, every.pop())
        return self._finish(select, input_, outputs, every, terms)

    def _qualify(
        self, binder: ExpressionBinder, select: exp.Select, outputs: list[_Output],
        aliases: dict[str, list[Expression]],
    ) -> Expression | None:  # fmt: skip
        qualify = select.args.get("qualify")
        if qualify is None:
            return None
        for column in qualify.find_all(exp.Column):
            self._refuse_other(binder, column, aliases)
        bound = binder.predicate(qualify.this, Clause(outputs=aliases, windows=True), "QUALIFY")
        if not any(map(has_window, (bound, *(output.bound for output in outputs)))):
            raise self._query.error("QUALIFY needs a window function, in it or in the SELECT list", qualify)
        if any(True for _ in subqueries_in(bound)):
            raise self._query.error("a subquery in QUALIFY is not supported yet; write a join", qualify, NotSupported)
        return bound

    def _refuse_other(self, binder: ExpressionBinder, node: exp.Column, aliases: dict[str, list[Expression]]) -> None:
        meant = aliases.get(node.name.lower()) if node.args.get("table") is None else None
        if meant and not binder.scope.says_nothing(node.name):
            try:
                alike = all(
                    isinstance(m, ColumnRef) and m.index == binder.scope.resolve(node.name, None)[0] for m in meant
                )
            except Unresolved:
                alike = False
            if not alike:
                message = f"{node.name} is an alias here, and a column in FROM; give the output another alias"
                raise self._query.error(message, node, NotSupported)

    def _refuse_beside_groups(self, bound: list[Expression]) -> None:
        for subquery in (each for expression in bound for each in subqueries_in(expression)):
            if isinstance(subquery, ScalarSubquery) and subquery.outer:
                message = "a subquery that names the query around it cannot stand beside GROUP BY; join with a subquery"
                refused = self._query.error_at(message, subquery.place)
                raise NotSupported(message, refused.line, refused.column)

    def _generated(self, binder: ExpressionBinder, select: exp.Select) -> Generator | None:
        """The generator in a SELECT list, where there is one."""
        found = [each for each in map(_unnamed, select.expressions) if isinstance(each, GeneratorCall)]
        if not found:
            return None
        node, place = found[0], self._query.place(found[0])
        if len(found) > 1:
            raise self._query.error("this is not SQL: a SELECT list has one generator", found[1])
        if node.find(exp.AggFunc) is not None:
            message = "an aggregate cannot stand in a generator; put it into a subquery"
            raise self._query.error(message, node, NotSupported)
        try:
            return bound_generator(node, lambda each: binder.bind(each, Clause()), False, place, self._names.zone)
        except Refused as refused:
            raise self._query.error(str(refused), node, refused.kind) from None

    def _of_generator(self, node: exp.Expr, generator: Generator, behind: int) -> list[_Output]:
        """What a SELECT list shows of its generator, whose columns stand from `behind` on."""
        columns, names = generator.shown, [column.name for column in generator.shown]
        if isinstance(node, exp.Aliases):
            names = [each.name for each in node.expressions]
        elif isinstance(node, exp.Alias):
            names = [node.alias]
        if len(names) != len(columns):
            raise self._query.error(f"the generator gives {len(columns)} columns, not {len(names)}", node)
        refs = [reference_to(c, behind + i, generator.place) for i, c in enumerate(columns)]
        return [_Output(name, _unnamed(node), ref) for name, ref in zip(names, refs, strict=True)]

    def _outputs(
        self, binder: ExpressionBinder, select: exp.Select, behind: int, generator: Generator | None
    ) -> list[_Output]:  # fmt: skip
        outputs: list[_Output] = []
        before: dict[str, list[Expression]] = {}
        for node in select.expressions:
            if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
                outputs += self._star(binder, node)
            elif generator is not None and isinstance(_unnamed(node), GeneratorCall):
                outputs += self._of_generator(node, generator, behind)
            else:
                value = node.this if isinstance(node, exp.Alias) else node
                if value is node:
                    self._refuse_unnamed(binder, node, before)
                bound = binder.bind(value, Clause(before=before, windows=True))
                if value is node and (node.find(exp.Tuple) or any(s.outer for s in subqueries_in(bound))):
                    message = "a subquery that is of several values, or names the query around it, needs an alias"
                    raise self._query.error(message, node, NotSupported)
                outputs.append(_Output(node.alias if value is not node else binder.name(node), value, bound))
                if value is not node:
                    before.setdefault(node.alias.lower(), []).append(bound)
        if not outputs:
            raise self._query.error("a query needs at least one output", select)
        return outputs

    def _refuse_unnamed(self, binder: ExpressionBinder, node: exp.Expr, before: Mapping[str, object]) -> None:
        for ignoring in node.find_all(exp.IgnoreNulls):
            if type(ignoring.this) in AT_ENDS:  # Spark names (x, true) in another way
                raise self._query.error("an output with IGNORE NULLS needs an alias", node, NotSupported)
        # Spark would call it lateralAliasReference(...).
        for column in node.find_all(exp.Column) if before else ():
            named_before = column.args.get("table") is None and column.name.lower() in before
            if named_before and binder.scope.says_nothing(column.name):
                message = f"an output that uses the output {column.name} before it needs an alias"
                raise self._query.error(message, node, NotSupported)

    def _star(self, binder: ExpressionBinder, node: exp.Expr) -> list[_Output]:
        table = node.args.get("table")
        try:
            columns = list(binder.scope.star(table.name if table else None))
        except Unresolved as problem:  # the fields of a struct, perhaps
            nested = table is not None and binder.scope.is_nested(table.name)
            kind = NotSupported if nested else DeclarationError
            raise self._query.error(str(problem), node, kind) from None
        place = self._query.place(node)
        return [_Output(n, node, reference_to(c, i, place, n)) for i, n, c in columns]

    def _grouping(
        self, binder: ExpressionBinder, group: exp.Group | None, outputs: list[_Output],
        aliases: dict[str, list[Expression]],
    ) -> Grouping:  # fmt: skip
        keys, names = [], []
        sets = self._sets(group)
        written = group.expressions if group else []
        if sets:
            written = list(dict.fromkeys(itertools.chain(*sets)))
        for output in outputs if group and group.args.get("all") else ():
            if has_window(output.bound):
                raise self._query.error(
                    "name what GROUP BY groups by, beside window functions", output.node, NotSupported
                )
            if not has_call(output.bound):
                keys.append(output.bound)
                names.append(output.name)
        for node in written:
            numbered = self._by_number(node, outputs, "GROUP BY")
            if numbered:
                key, name = numbered.bound, numbered.name
            else:
                key, name = binder.bind(node, self._group_clause(binder, node, aliases)), binder.name(node)
            if has_call(key) or has_window(key):
                raise self._query.error(_IN_GROUP_BY, node)
            keys.append(key)
            names.append(name)
        if group is None or not any(sets):
            if group is not None and len(sets) > 1:
                raise self._query.error("several sets without keys are not supported", group, NotSupported)
            return Grouping(keys, names)
        with self._placed(group):
            require_nullable(keys)
        bound = dict(zip(written, keys, strict=True))
        return Grouping(keys, names, [[bound[node] for node in each] for each in sets])

    def _sets(self, group: exp.Group | None) -> list[KeyNodes]:
        """The sets of keys by which it is grouped, where they are more than one."""
        if group is None or not has_sets(group):
            return []
        with self._placed(group):
            return sets_of(group)

    def _note_marks(self, select: exp.Select, grouping: Grouping, bound: Sequence[Expression]) -> None:
        with self._placed(select):
            grouping.note(bound)

    @contextmanager
    def _placed(self, node: exp.Expr) -> Iterator[None]:
        """What is refused within is refused at `node`."""
        try:
            yield
        except Refused as refused:
            raise self._query.error(str(refused), node, refused.kind) from None

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
        self, binder: ExpressionBinder, select: exp.Expr, outputs: list[_Output], clause: Clause
    ) -> list[tuple[exp.Ordered, Expression]]:
        terms = []
        order = select.args.get("order")
        for term in order.expressions if order else ():
            if is_all(term):
                terms += [(term, output.bound) for output in outputs]
                continue
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
        self, select: exp.Expr, input_: Relation, outputs: list[_Output], every: list[Expression],
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
        if isinstance(select, exp.Select) and select.args.get("distinct"):
            if len(visible) > len(outputs):
                raise self._query.error(_NOT_SHOWN, select.args["order"])
            relation = bind_sets.distinct(relation)
        limit, offset = (count_of(self._query, self._binder(Scope([])), select, part) for part in ("limit", "offset"))
        return Query(relation, len(outputs), tuple(order), limit, offset or 0)


def unwrapped(node: exp.Expr) -> exp.Expr:
    """A query without the parentheses around it."""
    while isinstance(node, exp.Subquery):
        node = node.this
    return node
