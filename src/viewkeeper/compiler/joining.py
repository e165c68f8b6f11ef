"""What FROM and WHERE name, joined: in which order, and by which equalities.

The order of inner joins is free: FROM's order is kept as far as each join has an equality, and what nothing ties to the
rest comes last.  Where there are others too, all are made as they are written.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from viewkeeper.compiler.scope import FromItem
from viewkeeper.plans.expressions import Compare, Expression, reference_to
from viewkeeper.plans.relations import Filter, InnerJoin, OuterJoin, Project, Relation
from viewkeeper.plans.rewriting import conjunction, references, renumber
from viewkeeper.plans.subqueries import has_subquery


@dataclass
class ToJoin:
    """An item of FROM that is not joined yet, how it is to be (INNER, or as an `OuterJoin`), and the conditions of its
    ON.

    `merged`: an item of columns that the join has besides, `values`: what they are.
    """

    item: FromItem
    conditions: tuple[Expression, ...]
    kind: str = "INNER"
    merged: FromItem | None = None
    values: tuple[Expression, ...] = ()


def joined(waiting: list[ToJoin], where: tuple[Expression, ...]) -> Relation:
    """The rows of all items that meet `where`; gives each item its final offset."""
    if {each.kind for each in waiting} - {"INNER"}:
        return _as_written(waiting, where)
    return _freely(waiting, where)


def filtered(relation: Relation, terms: tuple[Expression, ...]) -> Relation:
    """The rows of `relation` that meet all of `terms`."""
    predicate = conjunction(terms)
    return relation if predicate is None else Filter(relation, predicate)


def _freely(waiting: list[ToJoin], where: tuple[Expression, ...]) -> Relation:
    """Joins the items one after another, as equalities tie them, and filters."""
    first = waiting.pop(0)
    relation, done = first.item.relation, [first.item]
    position = {i: i for i in first.item.span}
    while waiting:
        keys, chosen = _next(waiting, position, where)
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
        done.append(chosen.item)
    offset = 0
    for item in done:
        item.offset, offset = offset, offset + len(item.names)
    return filtered(relation, tuple(renumber(term, position) for term in where))


def _as_written(waiting: list[ToJoin], where: tuple[Expression, ...]) -> Relation:
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
        position = {column: column - each.item.offset for column in here}
        pairs = [_sides(key, position) for key in keys]
        left, right = tuple(key for key, _ in pairs), tuple(renumber(key, position) for _, key in pairs)
        rest = conjunction(tuple(condition for condition in each.conditions if condition not in keys))
        other = each.item.relation
        relation = (InnerJoin(relation, other, left, right, rest) if each.kind == "INNER"
                    else OuterJoin(relation, other, left, right, rest, each.kind))  # fmt: skip
        if each.merged is not None:
            plain = [reference_to(c, n) for n, c in enumerate(relation.columns)]
            names = tuple(column.name for column in relation.columns) + each.merged.names
            relation = Project(relation, (*plain, *each.values), names)
    return filtered(relation, where)


def _next(
    waiting: Sequence[ToJoin], position: dict[int, int], where: tuple[Expression, ...]
) -> tuple[list[Expression], ToJoin]:
    """The first item that equalities (of its ON, else of WHERE) tie to what is joined already, and these; where there
    is none, the first one, and nothing."""
    for each in waiting:
        here = set(each.item.span)
        if any(references(condition) - here - position.keys() for condition in each.conditions):
            continue
        for conditions in (each.conditions, where):
            keys = [condition for condition in conditions if _is_key(condition, here, position.keys())]
            if keys:
                return keys, each
    return [], waiting[0]


def _is_key(condition: Expression, new: Set[int], joined: Set[int]) -> bool:
    if not isinstance(condition, Compare) or condition.operator != "=" or has_subquery(condition):
        return False
    left, right = references(condition.left), references(condition.right)
    if not left or not right:
        return False
    return (left <= new and right <= joined) or (left <= joined and right <= new)


def _sides(key: Expression, new: dict[int, int]) -> tuple[Expression, Expression]:
    assert isinstance(key, Compare)
    return (key.right, key.left) if references(key.left) <= new.keys() else (key.left, key.right)
