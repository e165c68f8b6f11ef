"""EXISTS in WHERE is a SEMI join, NOT EXISTS an ANTI join."""

from __future__ import annotations

from viewkeeper.maintenance.rules.conjuncts import filtered
from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.maintenance.rules.subquery_terms import semi_join, term_of
from viewkeeper.plans.correlation import group_of_all, is_correlated, uncorrelated
from viewkeeper.plans.relations import Filter, Relation
from viewkeeper.plans.subqueries import Exists


def _apply(relation: Relation) -> Relation | None:
    term = term_of(relation, Exists)
    if term is None:
        return None
    assert isinstance(relation, Filter)
    query = term.subquery.query
    if is_correlated(query) and group_of_all(query) is not None:
        return None  # a group of all rows is always there, and only HAVING can say no
    left = filtered(relation.input, term.before)
    return filtered(semi_join(left, uncorrelated(query), term.subquery.outer, (), anti=term.negated), term.after)


EXISTS_AS_SEMI_JOIN = Rule("exists as semi join", _apply)
