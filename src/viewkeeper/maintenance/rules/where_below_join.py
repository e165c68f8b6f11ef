"""Conjuncts of WHERE over one side of an inner join are tested before joining."""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.maintenance.rules.conjuncts import by_side, filtered, keys_can_raise
from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.plans.relations import Filter, InnerJoin, Relation
from viewkeeper.plans.rewriting import conjuncts


def _apply(relation: Relation) -> Relation | None:
    if not (isinstance(relation, Filter) and isinstance(relation.input, InnerJoin)):
        return None
    join = relation.input
    left, right, rest = by_side(conjuncts(relation.predicate), len(join.left.columns), blocked=keys_can_raise(join))
    if not left and not right:
        return None
    return filtered(replace(join, left=filtered(join.left, left), right=filtered(join.right, right)), rest)


WHERE_BELOW_JOIN = Rule("where below join", _apply)
