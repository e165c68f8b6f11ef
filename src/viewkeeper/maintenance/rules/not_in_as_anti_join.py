"""NOT IN (SELECT ...) in WHERE with NULLs about: an ANTI join by its values, and a test of whether there are rows or
NULLs at all.

`x NOT IN (rows)` is TRUE where there are no rows, or where x is not NULL, none of them is, and x is none of them.
"""

from __future__ import annotations

from viewkeeper.catalog.types import BOOLEAN
from viewkeeper.maintenance.rules.conjuncts import filtered
from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.maintenance.rules.subquery_terms import first_columns, semi_join, term_of
from viewkeeper.maintenance.rules.three_valued import with_rows_and_nulls
from viewkeeper.plans.correlation import group_of_all, is_correlated, uncorrelated
from viewkeeper.plans.expressions import And, IsNull, Not, Or, reference_to
from viewkeeper.plans.relations import Filter, Relation
from viewkeeper.plans.subqueries import InSubquery


def _apply(relation: Relation) -> Relation | None:
    term = term_of(relation, InSubquery)
    if term is None or not term.negated or not isinstance(term.subquery, InSubquery):
        return None
    assert isinstance(relation, Filter)
    query, outer = term.subquery.query, term.subquery.outer
    if len(query.columns) > 1 or (is_correlated(query) and group_of_all(query) is not None):
        return None
    (argument,), (column,) = term.subquery.arguments, query.columns
    rows = uncorrelated(query)
    equal = ((argument, reference_to(column, 0)),)
    left = semi_join(filtered(relation.input, term.before), rows, outer, equal, anti=True)
    both, has_rows, has_nulls = with_rows_and_nulls(left, rows, outer)
    is_null = IsNull(BOOLEAN, False, None, argument)
    known = And(BOOLEAN, False, None, tuple(Not(BOOLEAN, False, None, each) for each in (is_null, has_nulls)))
    test = Or(BOOLEAN, False, None, (Not(BOOLEAN, False, None, has_rows), known))
    return filtered(first_columns(filtered(both, [test]), relation), term.after)


NOT_IN_AS_ANTI_JOIN = Rule("not in as anti join", _apply)
