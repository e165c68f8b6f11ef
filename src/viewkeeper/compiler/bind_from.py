"""FROM and WHERE: which tables are joined by what, in which order, and what is left to filter.

The order of inner joins is free: FROM's order is kept as far as each join has an equality.  Where there are others too,
all are made as they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from sqlglot import exp

from viewkeeper.compiler.bind_expression import Clause, ExpressionBinder
from viewkeeper.compiler.namespace import Derived, Namespace
from viewkeeper.compiler.scope import FromItem, Scope, did_you_mean
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.errors import DeclarationError, NotSupported
from viewkeeper.plans.expressions import Compare, Expression
from viewkeeper.plans.relations import Filter, InnerJoin, OuterJoin, Relation, Scan
from viewkeeper.plans.rewriting import conjunction, conjuncts, references, renumber

_IN_WHERE = Clause("an aggregate cannot stand in WHERE; put the condition into HAVING")
_MIXED = (
    "a comma or CROSS JOIN beside an outer, semi or anti join is not supported yet; write JOIN ... ON, or put what "
    "belongs together into a subquery in FROM"
)
_IN_ON = Clause("an aggregate cannot stand in ON; put the condition into HAVING")

BindSelect = Callable[[exp.Select], Relation]


@dataclass
class _Waiting:
    """An item of FROM that is not joined yet, how it is to be (INNER, or as an `OuterJoin`), and the conditions of its
    ON."""

    item: FromItem
    node: exp.Expr
    conditions: tuple[Expression, ...]
    kind: str = "INNER"


def bind_from(query: QueryText, select: exp.Select, names: Namespace, subquery: BindSelect) -> tuple[Relation, Scope]:
    """The rows that FROM and WHERE leave, and the names for their columns."""
    from_ = select.args.get("from_")
    if from_ is None:
        raise query.error("a query needs FROM", select, NotSupported)
    joins = select.args.get("joins", ())
    kinds = [_kind(join) for join in joins]
    first = _item(query, from_.this, names, subquery, 0)
    items, waiting = [first], [_Waiting(first, from_.this, ())]
    for join, kind in zip(joins, kinds, strict=True):
        item = _item(query, join.this, names, subquery, items[-1].span.stop)
        if item.alias and any(item.alias.lower() == other.item.alias.lower() for other in waiting):
            raise query.error(f"{item.alias} stands twice in FROM; give each an alias of its own", join.this)
        conditions = _on(query, join, Scope([*items, item]), names.zone)
        waiting.append(_Waiting(item, join.this, conditions, kind))
        if kind in ("RIGHT", "FULL"):
            for before in items:
                before.optional = True
        item.optional = kind in ("LEFT", "FULL")
        if kind not in ("SEMI", "ANTI"):  # Behind its ON nobody sees the right side of these.
            items.append(item)
    scope = Scope(items)
    where = select.args.get("where")
    terms: tuple[Expression, ...] = ()
    if where:
        terms = conjuncts(ExpressionBinder(query, scope, names.zone).predicate(where.this, _IN_WHERE, "WHERE"))
    if set(kinds) - {"INNER"}:
        for join in joins:
            if join.args.get("kind") == "CROSS":
                raise query.error(_MIXED, join.this, NotSupported)
        return _joined_as_written(query, waiting, terms), scope
    return _joined(query, waiting, terms), scope


def _kind(join: exp.Expr) -> str:
    """INNER, or one of `OUTER_KINDS`."""
    kind = join.args.get("kind")
    return kind if kind in ("SEMI", "ANTI") else join.args.get("side") or "INNER"


def _item(query: QueryText, node: exp.Expr, namespace: Namespace, subquery: BindSelect, offset: int) -> FromItem:
    alias = node.args.get("alias")
    if isinstance(node, exp.Table):
        found = namespace.scannable(node.name)
        if found is None:
            known = did_you_mean(node.name, namespace.readable_names())
            raise query.error(f"there is no table or view {node.name}" + known, node)
        relation: Relation = Scan(found.id, found.name, found.columns)
        name, hidden = found.name, found.hidden if isinstance(found, Derived) else 0
    else:
        while isinstance(node.this, exp.Subquery):
            node = node.this
        relation, name, hidden = subquery(node.this), "", 0
    names = tuple(column.name for column in relation.columns)
    if alias is None:
        return FromItem(name, relation, names, offset, hidden)
    if alias.args.get("columns"):
        given = tuple(column.name for column in alias.args["columns"])
        shown = len(names) - hidden
        if not alias.name:
            raise query.error("names for columns stand behind a name for what has them", alias)
        if len(given) != shown:
            raise query.error(f"{alias.name} names {len(given)} columns, and there are {shown}", alias)
        names = given + names[shown:]
    return FromItem(alias.name or name, relation, names, offset, hidden)


def _on(query: QueryText, join: exp.Expr, scope: Scope, zone: str) -> tuple[Expression, ...]:
    condition = join.args.get("on")
    if condition is None:
        return ()
    return conjuncts(ExpressionBinder(query, scope, zone).predicate(condition, _IN_ON, "ON"))


def _joined(query: QueryText, waiting: list[_Waiting], where: tuple[Expression, ...]) -> Relation:
    """Joins the items one after another and filters; gives each item its final offset."""
    first = waiting.pop(0)
    relation, joined = first.item.relation, [first.item]
    position = {i: i for i in first.item.span}
    while waiting:
        keys, chosen = _next(query, waiting, position, where)
        waiting.remove(chosen)
        where = tuple(each for each in where if each not in keys)
        new = {column: i for i, column in enumerate(chosen.item.span)}
        pairs = [_sides(key, new) for key in keys]
        position.update({column: len(position) + i for i, column in enumerate(chosen.item.span)})
        rest = conjunction(tuple(each for each in chosen.conditions if each not in keys))
        relation = InnerJoin(
            relation, chosen.item.relation,
            tuple(renumber(left, position) for left, _ in pairs), tuple(renumber(right, new) for _, right in pairs),
            renumber(rest, position) if rest else None,
        )  # fmt: skip
        joined.append(chosen.item)
    offset = 0
    for item in joined:
        item.offset, offset = offset, offset + len(item.names)
    predicate = conjunction(where)
    return Filter(relation, renumber(predicate, position)) if predicate else relation


def _joined_as_written(query: QueryText, waiting: list[_Waiting], where: tuple[Expression, ...]) -> Relation:
    """Joins the items one after another, each by the equalities of its ON, and filters.

    An inner join without an equality of its own takes those of WHERE, as long as no later join adds rows that WHERE is
    still to test.
    """
    relation = waiting[0].item.relation
    for i, each in enumerate(waiting[1:], 1):
        here, before = set(each.item.span), set(range(each.item.offset))
        keys = [condition for condition in each.conditions if _is_key(condition, here, before)]
        adding = any(later.kind in ("RIGHT", "FULL") for later in waiting[i:])
        if not keys and each.kind == "INNER" and not adding:
            keys = [condition for condition in where if _is_key(condition, here, before)]
            where = tuple(condition for condition in where if condition not in keys)
        if not keys:
            raise _lonely(query, each)
        position = {column: column - each.item.offset for column in here}
        pairs = [_sides(key, position) for key in keys]
        left, right = (tuple(keys) for keys in zip(*pairs, strict=True))
        right = tuple(renumber(key, position) for key in right)
        rest = conjunction(tuple(condition for condition in each.conditions if condition not in keys))
        other = each.item.relation
        relation = (InnerJoin(relation, other, left, right, rest) if each.kind == "INNER"
                    else OuterJoin(relation, other, left, right, rest, each.kind))  # fmt: skip
    predicate = conjunction(where)
    return Filter(relation, predicate) if predicate else relation


def _next(
    query: QueryText, waiting: Sequence[_Waiting], position: dict[int, int], where: tuple[Expression, ...]
) -> tuple[list[Expression], _Waiting]:
    """The first item that equalities (of its ON, else of WHERE) tie to what is joined already, and these."""
    for each in waiting:
        here = set(each.item.span)
        if any(references(condition) - here - position.keys() for condition in each.conditions):
            continue
        for conditions in (each.conditions, where):
            keys = [condition for condition in conditions if _is_key(condition, here, position.keys())]
            if keys:
                return keys, each
    raise _lonely(query, waiting[0])


def _lonely(query: QueryText, lonely: _Waiting) -> DeclarationError:
    where = ", in ON or WHERE" if lonely.kind == "INNER" else ", in ON"
    return query.error(
        f"nothing ties {lonely.item.alias or 'the subquery'} to what stands before it; a join needs an equality "
        f"between its sides{where}", lonely.node, NotSupported,
    )  # fmt: skip


def _is_key(condition: Expression, new: Set[int], joined: Set[int]) -> bool:
    if not isinstance(condition, Compare) or condition.operator != "=":
        return False
    left, right = references(condition.left), references(condition.right)
    if not left or not right:
        return False
    return (left <= new and right <= joined) or (left <= joined and right <= new)


def _sides(key: Expression, new: dict[int, int]) -> tuple[Expression, Expression]:
    assert isinstance(key, Compare)
    return (key.right, key.left) if references(key.left) <= new.keys() else (key.left, key.right)
