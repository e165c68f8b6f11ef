"""The row-by-row evaluator follows a query as it is written, and keeps its errors as data."""

from __future__ import annotations

import math
from typing import Any

import pytest

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TINYINT, Type
from viewkeeper.checker.row_evaluator import Answer, ErrorRow, evaluate, evaluate_query
from viewkeeper.plans.expressions import (
    And,
    Arithmetic,
    Case,
    Coalesce,
    ColumnRef,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    comparison,
)
from viewkeeper.plans.relations import AggregateCall, Filter, GroupBy, InnerJoin, Order, Project, Query, Relation, Scan

T = Scan(1, "t", (Column("a", TINYINT), Column("b", TINYINT), Column("s", STRING)))
A, B = ColumnRef(TINYINT, True, None, 0, "a"), ColumnRef(TINYINT, True, None, 1, "b")
OVERFLOW = Arithmetic(TINYINT, True, (1, 8), "+", A, Literal(TINYINT, False, None, 127))
NULL, TRUE, FALSE = (Literal(BOOLEAN, value is None, None, value) for value in (None, True, False))
RAISES = comparison(">", OVERFLOW, B)


def value_of(expression: Expression, row: tuple[Any, ...] = (1, 2, "x")) -> Any:
    """The expression's value for one row; "raises" where it does."""
    answer = evaluate(Project(T, (expression,), ("v",)), {1: Answer([row])})
    return answer.rows[0][0] if answer.rows else "raises"


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        (And(BOOLEAN, True, None, (FALSE, RAISES)), False),
        (And(BOOLEAN, True, None, (RAISES, FALSE)), "raises"),
        (And(BOOLEAN, True, None, (NULL, RAISES)), "raises"),
        (And(BOOLEAN, True, None, (NULL, TRUE)), None),
        (And(BOOLEAN, True, None, (NULL, FALSE)), False),
        (Or(BOOLEAN, True, None, (TRUE, RAISES)), True),
        (Or(BOOLEAN, True, None, (RAISES, TRUE)), "raises"),
        (Or(BOOLEAN, True, None, (NULL, FALSE)), None),
        (Not(BOOLEAN, True, None, NULL), None),
        (Case(BOOLEAN, True, None, ((TRUE, FALSE), (RAISES, TRUE)), RAISES), False),
        (Case(BOOLEAN, True, None, ((NULL, RAISES),), TRUE), True),
        (Case(BOOLEAN, True, None, ((FALSE, RAISES),), RAISES), "raises"),
        (Coalesce(BOOLEAN, True, None, (NULL, TRUE, RAISES)), True),
        (Coalesce(BOOLEAN, True, None, (NULL, RAISES, TRUE)), "raises"),
        (IsNull(BOOLEAN, False, None, RAISES), "raises"),
        (comparison("=", Literal(TINYINT, True, None, None), OVERFLOW), "raises"),
    ],
)
def test_what_is_not_reached_does_not_raise(expression: Expression, wanted: Any) -> None:
    """AND, OR, CASE and COALESCE go from left to right and stop once decided; all else computes both sides."""
    assert value_of(expression) == wanted


@pytest.mark.parametrize(("options", "wanted"), [((1, 2), True), ((2, None), None), ((2, 3), False), ((None, 1), True)])
def test_in_knows_null(options: tuple[int | None, ...], wanted: bool | None) -> None:
    """x IN (...) is TRUE where x is among them, else unknown where NULL is, else FALSE; NULL IN (...) is unknown."""
    test = In(BOOLEAN, True, None, A, tuple(Literal(TINYINT, option is None, None, option) for option in options))
    assert value_of(test) is wanted
    assert value_of(test, (None, 0, "")) is None


def call(function: str, argument: Expression | None, type_: Type) -> AggregateCall:
    return AggregateCall(function, argument, type_, True, (1, 20))


def test_a_global_aggregate_of_nothing_is_one_row() -> None:
    """COUNT is 0, the others are NULL; with GROUP BY there is no row."""
    calls = (call("count_star", None, BIGINT), call("sum", A, BIGINT), call("min", A, TINYINT), call("avg", A, DOUBLE))
    whole = GroupBy(T, (), (), calls, ("n", "s", "m", "v"))
    assert evaluate(whole, {1: Answer([])}).rows == [(0, None, None, None)]
    assert evaluate(GroupBy(T, (A,), ("a",), calls, ("n", "s", "m", "v")), {1: Answer([])}).rows == []


def test_null_is_a_group_and_is_not_counted() -> None:
    """NULL equals NULL in GROUP BY; COUNT(x), SUM, MIN, MAX pass over NULL."""
    calls = (call("count_star", None, BIGINT), call("count", B, BIGINT), call("max", B, TINYINT))
    rows = [(None, 1, ""), (None, 2, ""), (5, None, ""), (5, None, "")]
    answer = evaluate(GroupBy(T, (A,), ("a",), calls, ("n", "c", "m")), {1: Answer(rows)})
    assert sorted(answer.rows, key=repr) == [(5, 2, 0, None), (None, 2, 2, 2)]


def test_zeros_are_one_group_and_so_are_nans() -> None:
    """GROUP BY over {0.0, -0.0, NaN, NaN}: two groups of two, shown as 0.0 and NaN."""
    scan = Scan(1, "f", (Column("x", DOUBLE),))
    groups = GroupBy(
        scan, (ColumnRef(DOUBLE, True, None, 0, "x"),), ("x",), (call("count_star", None, BIGINT),), ("n",)
    )
    rows = evaluate(groups, {1: Answer([(-0.0,), (0.0,), (math.nan,), (float("nan"),)])}).rows
    assert sorted(map(repr, rows)) == ["(0.0, 2)", "(nan, 2)"]


def test_a_sum_that_overflows_names_its_group() -> None:
    """The group has an error row in place of its row; other groups have theirs."""
    wide = Scan(1, "w", (Column("g", STRING), Column("x", BIGINT)))
    x = ColumnRef(BIGINT, True, None, 1, "x")
    groups = GroupBy(wide, (ColumnRef(STRING, True, None, 0, "g"),), ("g",), (call("sum", x, BIGINT),), ("s",))
    answer = evaluate(groups, {1: Answer([("a", 2**63 - 1), ("a", 1), ("b", 1)])})
    assert answer == Answer([("b", 1)], [ErrorRow("ARITHMETIC_OVERFLOW", "1:20", "a")])


U = Scan(2, "u", (Column("c", TINYINT), Column("d", STRING)))
C = ColumnRef(TINYINT, True, None, 0, "c")


def joined(residual: Expression | None = None, left_key: Expression = A) -> Relation:
    return InnerJoin(T, U, (left_key,), (C,), residual)


def test_null_joins_with_nothing() -> None:
    """Rows meet where their keys are equal; NULL is equal to nothing, also not to NULL."""
    inputs = {1: Answer([(1, 0, "x"), (None, 0, "y"), (1, 5, "z")]), 2: Answer([(1, "p"), (None, "q"), (2, "r")])}
    assert evaluate(joined(), inputs).rows == [(1, 0, "x", 1, "p"), (1, 5, "z", 1, "p")]


def test_a_condition_raises_only_for_pairs_that_meet() -> None:
    """The rest of ON is computed for each pair of rows whose keys are equal."""
    inputs = {1: Answer([(1, 0, "x"), (3, 0, "y")]), 2: Answer([(1, "p"), (1, "q")])}
    answer = evaluate(joined(RAISES), inputs)
    assert not answer.rows and [error.row for error in answer.errors] == ["1, 0, x, 1, p", "1, 0, x, 1, q"]


def test_an_error_below_is_an_error_above() -> None:
    """A subquery's error row stays one, with no partner in the join and behind any filter or group."""
    broken = Project(T, (OVERFLOW, B, ColumnRef(STRING, True, None, 2, "s")), ("a", "b", "s"))
    inputs = {1: Answer([(1, 0, "x")]), 2: Answer([])}
    above = GroupBy(
        Filter(InnerJoin(broken, U, (A,), (C,), None), FALSE), (), (), (call("count_star", None, BIGINT),), ("n",)
    )
    assert evaluate(above, inputs) == Answer([(0,)], [ErrorRow("ARITHMETIC_OVERFLOW", "1:8", "1, 0, x")])


def test_a_lower_views_error_is_an_error_here() -> None:
    """A view over a view reads the lower one as a table."""
    error = ErrorRow("ARITHMETIC_OVERFLOW", "1:1", "")
    assert evaluate(Filter(T, TRUE), {1: Answer([(1, 2, "x")], [error])}) == Answer([(1, 2, "x")], [error])


def test_order_and_limit() -> None:
    """NULLs stand where they are told to, ties are settled by the next term, hidden columns are dropped."""
    rows = [(2, 1, "x"), (None, 2, "y"), (1, 3, "z"), (2, 0, "w")]
    query = Query(T, 1, (Order(0, False, True), Order(1, True, True)), limit=3)
    assert evaluate_query(query, {1: Answer(rows)}).rows == [(None,), (2,), (2,)]
    after = Query(T, 3, (Order(0, True, False),), limit=2, offset=2)
    assert [row[2] for row in evaluate_query(after, {1: Answer(rows)}).rows] == ["w", "y"]


def test_a_filter_keeps_what_is_true() -> None:
    """Neither FALSE nor unknown."""
    positive = comparison(">", A, Literal(INT, False, None, 0))
    assert evaluate(Filter(T, positive), {1: Answer([(1, 0, ""), (0, 0, ""), (None, 0, "")])}).rows == [(1, 0, "")]
