"""Where Spark is not the judge, the answer is exact, and it is known how near Spark must come."""

from __future__ import annotations

import pytest
from hypothesis import given, reject, settings

from drawn import examples
from oracle.bound import BoundCase
from oracle.model import Case
from oracle.strategies import cases
from oracle.traps import put, rows, table
from viewkeeper.catalog.types import BIGINT, DOUBLE, STRING
from viewkeeper.checker.exact_judge import ExactAnswer, exact_answer
from viewkeeper.checker.row_evaluator import Answer, evaluate
from viewkeeper.errors import NotSupported
from viewkeeper.plans.order_dependence import needs_exact

T = table("t", "id", id=BIGINT, g=STRING, x=DOUBLE)
EPSILON = 2.0**-52


def judged(query: str) -> ExactAnswer:
    bound = BoundCase(Case((T,), (f"CREATE VIEW v AS {query}",), ()))
    bound.base.apply(put("t", *rows("id g x", (1, "a", 3.0), (2, "a", -1.0), (3, "b", None))))
    return exact_answer(bound.relations["v"], {bound.catalog.tables[0].id: Answer(bound.base.rows("t"))})


def test_a_sum_may_be_off_by_what_its_terms_allow() -> None:
    """n * 2^-52 * sum|x| for a sum, through a projection and a filter on other columns; nothing where it is NULL."""
    found = judged("SELECT s, g FROM (SELECT g, sum(x) AS s, count(*) AS n FROM t GROUP BY g) AS q WHERE n > 0")
    assert found.answer.rows == [(2.0, "a"), (None, "b")] and found.slack == {0: [2 * EPSILON * 4.0, 0.0]}


def test_an_average_may_be_off_by_its_sum_and_its_rounding() -> None:
    """Averages of integers are inexact in Spark as well."""
    found = judged("SELECT avg(id) AS m FROM t")
    assert found.answer.rows == [(2.0,)] and found.slack == {0: [EPSILON * (6.0 + 2 * 2.0)]}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT g, sum(x) AS s FROM t GROUP BY g HAVING sum(x) > 1.0",
        "SELECT sum(x) + 1 AS s FROM t",
        "SELECT max(s) AS m FROM (SELECT g, sum(x) AS s FROM t GROUP BY g) AS q",
        "SELECT t.id AS id FROM t JOIN (SELECT sum(x) AS s FROM t) AS q ON t.x = q.s",
    ],
)
def test_spark_is_not_asked_where_more_depends_on_a_float_sum(query: str) -> None:
    """A limit, a computation, a group or a join over an inexact value may turn out either way."""
    assert judged(query).slack is None


@settings(max_examples=examples(60), deadline=None)
@given(cases(extremes=True, plain=True))
def test_the_exact_answer_is_the_evaluators(case: Case) -> None:
    """What is added to know the slack changes neither rows nor errors, and slack is given only to inexact queries."""
    try:
        bound = BoundCase(case)
    except NotSupported:
        reject()  # what Spark computes
    bound.apply_all()
    inputs = {item.id: Answer(bound.base.rows(item.name)) for item in bound.catalog.tables}
    for view in bound.catalog.views:
        relation = bound.relations[view.name]
        inputs[view.id] = evaluate(relation, inputs)
        found = exact_answer(relation, inputs)
        assert repr(found.answer) == repr(inputs[view.id])
        assert needs_exact(relation) or found.slack == {}
