"""Every kind of relation, kept through a history that makes each of its cases, and compared after every batch."""

from __future__ import annotations

import pytest

from three_tables import QUERIES, kept
from viewkeeper.maintenance.explain import explain_view
from viewkeeper.plans import maintenance as plan


@pytest.mark.parametrize("query", QUERIES)
def test_a_view_is_its_query_whenever_it_is_declared(query: str) -> None:
    for declared_at in (0, 3):
        kept(query, declared_at)


def test_a_query_of_with_that_is_used_twice_is_kept_once() -> None:
    engine = kept("WITH w AS (SELECT k, sum(x) AS t FROM a GROUP BY k) SELECT w.k, v.t FROM w JOIN w v ON w.k = v.k", 0)
    operators = engine.catalog.plan.operators
    assert [type(each) for each in operators].count(plan.PreAggregate) == 1
    assert [type(each) for each in operators].count(plan.ReverseJoin) == 1


def test_what_has_no_equality_says_what_it_costs() -> None:
    engine = kept("SELECT a.id, c.z FROM a CROSS JOIN c", 0)
    assert "every row of one side with every row of the other" in explain_view(engine.catalog, engine.catalog.views[0])
