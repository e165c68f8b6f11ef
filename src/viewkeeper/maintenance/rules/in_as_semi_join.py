"""IN (SELECT ...) in WHERE is a SEMI join by its values, and NOT IN an ANTI join, where no NULL can be in between."""

from __future__ import annotations

from viewkeeper.maintenance.rules.conjuncts import filtered
from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.maintenance.rules.subquery_terms import semi_join, term_of
from viewkeeper.plans.correlation import group_of_all, is_correlated, may_be_null, uncorrelated
from viewkeeper.plans.expressions import reference_to
from viewkeeper.plans.relations import Filter, Relation
from viewkeeper.plans.subqueries import InSubquery


def _apply(relation: Relation) -> Relation | None:
    term = term_of(relation, InSubquery)
    if term is None:
        return None
    assert isinstance(relation, Filter) and isinstance(term.subquery, InSubquery)
    query, arguments = term.subquery.query, term.subquery.arguments
    if term.negated and may_be_null(term.subquery):
        return None
    if is_correlated(query) and group_of_all(query) is not None:
        return None
    columns = (reference_to(c, i) for i, c in enumerate(query.columns))
    equal = tuple(zip(arguments, columns, strict=True))
    left = filtered(relation.input, term.before)
    return filtered(semi_join(left, uncorrelated(query), term.subquery.outer, equal, anti=term.negated), term.after)


IN_AS_SEMI_JOIN = Rule("in as semi join", _apply)
