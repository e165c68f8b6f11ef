"""An inner join's ON beside its equalities is a WHERE that is tested first."""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.maintenance.rules.conjuncts import filtered
from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.plans.relations import Filter, InnerJoin, Relation
from viewkeeper.plans.rewriting import conjuncts


def _apply(relation: Relation) -> Relation | None:
    join = relation.input if isinstance(relation, Filter) else relation
    if not isinstance(join, InnerJoin) or join.residual is None:
        return None
    tests = conjuncts(join.residual)
    if isinstance(relation, Filter):
        tests += conjuncts(relation.predicate)
    return filtered(replace(join, residual=None), tests)


INNER_JOIN_RESIDUAL = Rule("inner join residual", _apply)
