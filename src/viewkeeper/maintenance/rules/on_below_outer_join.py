"""Conjuncts of an outer join's ON over a side whose rows come only with a partner are tested before joining: these are
the right of LEFT, SEMI and ANTI, and the left of RIGHT and SEMI.  Without other conditions the join needs no operator
by key."""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.maintenance.rules.conjuncts import by_side, filtered, keys_can_raise
from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.plans.relations import OuterJoin, Relation
from viewkeeper.plans.rewriting import conjunction, conjuncts


def _apply(relation: Relation) -> Relation | None:
    if not isinstance(relation, OuterJoin) or relation.condition is None:
        return None
    left, right, rest = by_side(
        conjuncts(relation.condition), len(relation.left.columns), left=relation.kind in ("RIGHT", "SEMI"),
        right=relation.kind in ("LEFT", "SEMI", "ANTI"), blocked=keys_can_raise(relation),
    )  # fmt: skip
    if not left and not right:
        return None
    return replace(
        relation, left=filtered(relation.left, left), right=filtered(relation.right, right),
        condition=conjunction(tuple(rest)),
    )  # fmt: skip


ON_BELOW_OUTER_JOIN = Rule("on below outer join", _apply)
