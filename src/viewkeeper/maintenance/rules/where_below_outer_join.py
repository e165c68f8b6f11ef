"""Conjuncts of WHERE over the preserved side of an outer join, or over the left of SEMI and ANTI, are tested first."""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.maintenance.rules.conjuncts import by_side, filtered, keys_can_raise
from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.relations import Filter, OuterJoin, Relation
from viewkeeper.plans.rewriting import conjuncts


def _apply(relation: Relation) -> Relation | None:
    if not (isinstance(relation, Filter) and isinstance(relation.input, OuterJoin)):
        return None
    join = relation.input
    blocked = keys_can_raise(join) or (join.condition is not None and can_raise(join.condition))
    left, right, rest = by_side(
        conjuncts(relation.predicate), len(join.left.columns),
        left=join.kind in ("LEFT", "SEMI", "ANTI"), right=join.kind == "RIGHT", blocked=blocked,
    )  # fmt: skip
    if not left and not right:
        return None
    return filtered(replace(join, left=filtered(join.left, left), right=filtered(join.right, right)), rest)


WHERE_BELOW_OUTER_JOIN = Rule("where below outer join", _apply)
