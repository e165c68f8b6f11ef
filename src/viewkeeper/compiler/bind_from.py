"""FROM and WHERE: what is read, and what its columns are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from viewkeeper.catalog.model import Column
from viewkeeper.compiler.bind_expression import Clause, ExpressionBinder
from viewkeeper.compiler.bind_generators import LateralItem, lateral_item, with_item
from viewkeeper.compiler.bind_subquery import require_kept
from viewkeeper.compiler.comparing import comparison_of
from viewkeeper.compiler.conversion import Refused, compared
from viewkeeper.compiler.joining import ToJoin, filtered, joined
from viewkeeper.compiler.namespace import Derived, Namespace
from viewkeeper.compiler.outer import Outer
from viewkeeper.compiler.scope import FromItem, Scope, ShownColumn, Unresolved, did_you_mean, shown_of
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.errors import NotSupported
from viewkeeper.plans.expressions import Coalesce, ColumnRef, Compare, Expression, reference_to
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.relations import Constants, Relation, Scan
from viewkeeper.plans.rewriting import conjuncts, references, renumber
from viewkeeper.plans.subqueries import ScalarSubquery, has_subquery, subqueries_in

_IN_WHERE = Clause("an aggregate cannot stand in WHERE; put the condition into HAVING")
_IN_GENERATOR = Clause("an aggregate cannot stand in FROM; put it into a subquery")
_IN_ON = Clause("an aggregate cannot stand in ON; put the condition into HAVING")
_ONE_ROW = Constants(((),), ())


@dataclass(frozen=True)
class Common:
    """A query of WITH: its rows, what their columns are called, and the query around that it names, if it does."""

    relation: Relation
    names: tuple[str, ...]
    outer: Outer | None = None


@dataclass(frozen=True)
class Around:
    """What a SELECT stands in: its text, the names in the catalog, the queries of WITH that it sees (by their names in
    small letters), the query around, and how subqueries in FROM, and expressions over a scope, are bound."""

    query: QueryText
    names: Namespace
    common: Mapping[str, Common]
    outer: Outer | None
    subquery: Callable[[exp.Expr], Relation]
    binder: Callable[[Scope], ExpressionBinder]


def bind_from(around: Around, select: exp.Select) -> tuple[Relation, Scope]:
    """The rows that FROM and WHERE leave, and the names for their columns."""
    from_ = select.args.get("from_")
    if from_ is None:
        return filtered(_ONE_ROW, _where(around, select, Scope([]))), Scope([])
    reading = _Reading(around, from_.this)
    joins = list(select.args.get("joins", ()))
    laterals = list(select.args.get("laterals") or ())
    while joins and isinstance(joins[-1].this, exp.Lateral):
        laterals.insert(0, joins.pop())
    for join in joins:
        reading.join(join)
    if laterals:
        return _with_generators(around, select, reading, laterals)
    scope = reading.scope
    where = _where(around, select, scope)
    return joined(reading.waiting, where), scope


def _with_generators(
    around: Around, select: exp.Select, reading: _Reading, laterals: Sequence[exp.Expr]
) -> tuple[Relation, Scope]:  # fmt: skip
    """What FROM and WHERE leave where generators stand behind what is joined.

    Conditions on the others alone come first, unless somebody could see it by what raises.
    """
    scope, found = reading.scope, list[LateralItem]()
    for node in laterals:
        lateral = _lateral_of(around.query, node)
        offset = found[-1].item.span.stop if found else reading.end
        binder = around.binder(scope)

        def bind(each: exp.Expr, binder: ExpressionBinder = binder) -> Expression:
            return binder.bind(each, _IN_GENERATOR)

        made = lateral_item(around.query, lateral, bind, offset, around.names.zone)
        if made.item.alias and any(made.item.alias.lower() == each.alias.lower() for each in scope.items):
            raise around.query.error(f"{made.item.alias} stands twice in FROM; give each an alias of its own", lateral)
        found.append(made)
        scope = with_item(scope, made.item)
    where = _where(around, select, scope)
    free = not any(can_raise(each.generator.argument) for each in found)
    plain = [term for term in where if free and not (can_raise(term) or has_subquery(term))]
    below = tuple(term for term in plain if max(references(term), default=0) < reading.end)
    old = {id(item): item.span for item in scope.items}
    rows = joined(reading.waiting, below)
    at = {i: item.offset + n for item in scope.items for n, i in enumerate(old[id(item)])}
    for each in found:
        rows = each.moved(at).over(rows)
    return filtered(rows, tuple(renumber(term, at) for term in where if term not in below)), scope


def _lateral_of(query: QueryText, node: exp.Expr) -> exp.Expr:
    """LATERAL VIEW, or the LATERAL of a JOIN without a condition."""
    if not isinstance(node, exp.Join):
        alias = node.args.get("alias")
        if alias is None or not (alias.name or alias.args.get("columns")):  # AS is a name here to Spark
            raise query.error("this is not SQL: LATERAL VIEW gives its rows a name", node)
        return node
    on, plain = node.args.get("on"), not any(node.args.get(part) for part in ("using", "method", "side"))
    if not plain or (on is not None and not (isinstance(on, exp.Boolean) and on.this)):
        raise query.error("a condition on LATERAL is not supported yet; put it into WHERE", node.this, NotSupported)
    if (node.args.get("kind") or "INNER") not in ("INNER", "CROSS"):
        raise query.error(f"{node.args['kind']} JOIN LATERAL is not supported yet", node.this, NotSupported)
    lateral: exp.Expr = node.this
    return lateral


def _where(around: Around, select: exp.Select, scope: Scope) -> tuple[Expression, ...]:
    where = select.args.get("where")
    terms = conjuncts(around.binder(scope).predicate(where.this, _IN_WHERE, "WHERE")) if where else ()
    require_kept(around.query, around.names.zone, (), terms)
    return terms


class _Reading:
    """FROM while its items are looked up, one after another; `scope` has the names so far, `end` columns."""

    def __init__(self, around: Around, first: exp.Expr) -> None:
        self._around = around
        item = _item(around, first, 0)
        self.end = item.span.stop
        self.waiting = [ToJoin(item, ())]
        self.scope = Scope([item], {}, shown_of([item]))

    def join(self, join: exp.Expr) -> None:
        """The next item."""
        around, before, kind = self._around, self.scope, _kind(join)
        item = _item(around, join.this, self.end)
        if item.alias and any(item.alias.lower() == other.item.alias.lower() for other in self.waiting):
            raise around.query.error(f"{item.alias} stands twice in FROM; give each an alias of its own", join.this)
        names = _common_names(around.query, join, before, item)
        sides = [self._sides(name, before, item, join) for name in names]
        keys = [self._equal(both, join, comparison_of) for both in sides]
        names = [before.find(name)[0] for name in names]
        on = Scope([*before.items, item], before.merged)
        conditions = (*keys, *_on(around, join, on, kind))
        for each in before.items if kind in ("RIGHT", "FULL") else ():
            each.optional = True
        item.optional = kind in ("LEFT", "FULL")
        waiting = ToJoin(item, conditions, kind)
        self.waiting.append(waiting)
        self.end = item.span.stop
        items = [*before.items]
        if kind not in ("SEMI", "ANTI"):  # Behind its ON nobody sees the right side of these.
            items.append(item)
        else:
            self.end = item.offset
        if kind == "FULL" and keys:
            as_they_are = [self._equal(both, join, compared) for both in sides]
            waiting.merged, waiting.values = self._both(names, as_they_are)
            items.append(waiting.merged)
        self.scope = _scope(items, before, waiting, names)

    def _sides(self, name: str, before: Scope, item: FromItem, join: exp.Expr) -> list[ColumnRef]:
        """The column `name` of USING on both sides."""
        query, sides = self._around.query, []
        place = query.place(join.this)
        for scope in (before, Scope([item])):
            try:
                index, column = scope.resolve(name, None)
            except Unresolved as problem:
                raise query.error(str(problem), join.this) from None
            sides.append(reference_to(column, index, place, name))
        return sides

    def _equal(self, sides: Sequence[ColumnRef], join: exp.Expr, compare: Callable[..., Compare]) -> Compare:
        """That `sides` are the same."""
        query, (left, right) = self._around.query, sides
        try:
            return compare("=", left, right, query.place(join.this), self._around.names.zone)
        except Refused as refused:
            raise query.error(str(refused), join.this, refused.kind) from None

    def _both(self, names: Sequence[str], keys: Sequence[Compare]) -> tuple[FromItem, tuple[Expression, ...]]:
        """The columns of USING in a FULL join: those of whichever side there is."""
        values = []
        for key in keys:
            sides = tuple(replace(side, nullable=True) for side in (key.left, key.right))
            values.append(Coalesce(key.left.type, True, key.place, sides))
        columns = tuple(Column(n, v.type, v.nullable) for n, v in zip(names, values, strict=True))
        item = FromItem("", Constants((), columns), tuple(names), self.end)
        self.end = item.span.stop
        return item, tuple(values)


def _scope(items: Sequence[FromItem], before: Scope, waiting: ToJoin, names: Sequence[str]) -> Scope:
    """The names behind a join: those of USING come first, and once."""
    one: list[ShownColumn] = []
    for i, name in enumerate(names):
        if waiting.merged is not None:
            one.append((name, waiting.merged, i))
        else:
            one.append((Scope([waiting.item]) if waiting.kind == "RIGHT" else before).find(name))
    lowered = {name.lower() for name in names}
    shown = [*before.shown, *(() if waiting.kind in ("SEMI", "ANTI") else shown_of([waiting.item]))]
    merged = {**before.merged, **{name.lower(): column for name, column in zip(names, one, strict=True)}}
    return Scope(items, merged, [*one, *(each for each in shown if each[0].lower() not in lowered)])


def _common_names(query: QueryText, join: exp.Expr, before: Scope, item: FromItem) -> list[str]:
    """The columns of USING, or those that both sides of a NATURAL JOIN have."""
    if join.args.get("method") == "NATURAL":
        right = {name.lower() for name, _, _ in shown_of([item])}
        return [name for name, _, _ in before.shown if name.lower() in right]
    names = [name.name for name in join.args.get("using") or ()]
    if len({name.lower() for name in names}) < len(names):
        raise query.error("a column stands twice in USING", join.this)
    return names


def _kind(join: exp.Expr) -> str:
    """INNER, or one of `OUTER_KINDS`."""
    kind = join.args.get("kind")
    return kind if kind in ("SEMI", "ANTI") else join.args.get("side") or "INNER"


def _item(around: Around, node: exp.Expr, offset: int) -> FromItem:
    query, alias = around.query, node.args.get("alias")
    common = around.common.get(node.name.lower()) if isinstance(node, exp.Table) else None
    name, hidden = "", 0
    if common is not None:
        if common.outer is not None and common.outer is not around.outer:
            message = f"{node.name} names the query around it, and is not supported in a subquery further in"
            raise query.error(message, node, NotSupported)
        relation, names, name = common.relation, common.names, node.name
    elif isinstance(node, exp.Table):
        found = around.names.scannable(node.name)
        if found is None:
            known = did_you_mean(node.name, [*around.names.readable_names(), *around.common])
            raise query.error(f"there is no table or view {node.name}" + known, node)
        relation = Scan(found.id, found.name, found.columns)
        name, hidden = found.name, found.hidden if isinstance(found, Derived) else 0
    else:
        relation = around.subquery(node)
    if common is None:
        names = tuple(column.name for column in relation.columns)
    if alias is None:
        return FromItem(name, relation, names, offset, hidden)
    return FromItem(alias.name or name, relation, named(query, alias, names, hidden), offset, hidden)


def named(query: QueryText, alias: exp.Expr, names: tuple[str, ...], hidden: int = 0) -> tuple[str, ...]:
    """What columns called `names` are called behind an alias, which may list names of its own."""
    if not alias.args.get("columns"):
        return names
    given = tuple(column.name for column in alias.args["columns"])
    shown = len(names) - hidden
    if not alias.name:
        raise query.error("names for columns stand behind a name for what has them", alias)
    if len(given) != shown:
        raise query.error(f"{alias.name} names {len(given)} columns, and there are {shown}", alias)
    return given + names[shown:]


def _on(around: Around, join: exp.Expr, scope: Scope, kind: str) -> tuple[Expression, ...]:
    condition = join.args.get("on")
    if condition is None or (isinstance(condition, exp.Boolean) and condition.this):
        return ()
    terms = conjuncts(around.binder(scope).predicate(condition, _IN_ON, "ON"))
    for subquery in (each for term in terms for each in subqueries_in(term)):
        named = set().union(*map(references, subquery.outer))
        sides = {column >= scope.items[-1].offset for column in named}
        if len(sides) < 2 and not (named and isinstance(subquery, ScalarSubquery)):
            continue
        message = "a subquery that names both sides, or is a value and names one, cannot stand in ON; put it into WHERE"
        raise around.query.error(message, condition, NotSupported)
    if kind != "INNER" and any(map(has_subquery, terms)):
        message = "a subquery in ON of an outer, semi or anti join is not supported yet; join with a subquery in FROM"
        raise around.query.error(message, condition, NotSupported)
    return terms
