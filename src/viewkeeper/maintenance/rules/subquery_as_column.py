"""A subquery whose value is needed is a column more: of a join with what it says, by what ties it to the query around.

That is an inner join with the one row of a subquery that is handed nothing, and else a LEFT join with a GROUP BY of
what it is tied by.  What it computes of its groups is computed for the rows that ask, so that nothing else raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from viewkeeper.catalog.types import BIGINT, BOOLEAN
from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.maintenance.rules.subquery_terms import first_columns, is_positive
from viewkeeper.maintenance.rules.three_valued import with_rows_and_nulls
from viewkeeper.plans.correlation import (
    GroupOfAll,
    Uncorrelated,
    group_of_all,
    handed,
    of_empty_group,
    placed,
    to_be_asked_of_none,
    uncorrelated,
)
from viewkeeper.plans.expressions import (
    And,
    Case,
    ColumnRef,
    Expression,
    IsNull,
    Literal,
    Not,
    OnlyRow,
    Or,
    comparison,
    declared_of,
    reference_to,
)
from viewkeeper.plans.relations import (
    AggregateCall,
    Filter,
    GroupBy,
    InnerJoin,
    OuterJoin,
    Project,
    Relation,
    expressions_of,
)
from viewkeeper.plans.rewriting import rewrite
from viewkeeper.plans.subqueries import Exists, InSubquery, ScalarSubquery, Subquery, has_subquery, subqueries_in

_TRUE, _FALSE = (Literal(BOOLEAN, False, None, value) for value in (True, False))
_UNKNOWN = Literal(BOOLEAN, True, None, None)


def _apply(relation: Relation) -> Relation | None:
    if not isinstance(relation, (Filter, Project, GroupBy)):
        return None
    subquery = _innermost(relation)
    if subquery is None:
        return None
    joined, value = attached(relation.input, subquery)

    def change(node: Expression) -> Expression | None:
        return value if node == subquery else None

    if isinstance(relation, Filter):
        return first_columns(Filter(joined, rewrite(relation.predicate, change)), relation)
    if isinstance(relation, Project):
        return replace(relation, input=joined, outputs=tuple(rewrite(e, change) for e in relation.outputs))
    calls = tuple(
        call if call.argument is None else replace(call, argument=rewrite(call.argument, change))
        for call in relation.calls
    )
    return replace(relation, input=joined, keys=tuple(rewrite(e, change) for e in relation.keys), calls=calls)


def _innermost(relation: Relation) -> Subquery | None:
    """The first subquery that is handed nothing that another one computes."""
    for expression in expressions_of(relation):
        for subquery in subqueries_in(expression):
            if not any(map(has_subquery, subquery.children())):
                return subquery
    return None


def attached(left: Relation, subquery: Subquery) -> tuple[Relation, Expression]:
    """`left` with columns more, and the value of `subquery` over it."""
    group = group_of_all(subquery.query)
    if group is not None and (subquery.outer or isinstance(subquery, ScalarSubquery)):
        return _of_group(left, subquery, group)
    rows = uncorrelated(subquery.query)
    assert not rows.conditions, "the compiler refuses it"
    match subquery:
        case ScalarSubquery():
            return _only_row(left, subquery, rows)
        case Exists():
            return _exists(left, subquery, rows)
        case InSubquery():
            return _member(left, subquery, rows)
    raise AssertionError(f"no such subquery: {type(subquery).__name__}")


def _grouped(
    left: Relation, outer: tuple[Expression, ...], rows: Uncorrelated, calls: tuple[AggregateCall, ...]
) -> tuple[Relation, list[ColumnRef]]:
    """`left` with the `calls` over the rows of each, and where these stand; NULL where there are no such rows, unless
    they are the same for all."""
    keys, names = tuple(here for _, here in rows.keys), tuple(f"key{i}" for i in range(len(rows.keys)))
    right = GroupBy(rows.relation, keys, names, calls, tuple(f"call{i}" for i in range(len(calls))))
    columns = [
        ColumnRef(c.type, c.nullable or bool(keys), c.place, len(left.columns) + len(keys) + i, f"call{i}")
        for i, c in enumerate(calls)
    ]
    if not keys:
        return InnerJoin(left, right, (), (), None), columns
    found = tuple(ColumnRef(k.type, k.nullable, None, i, names[i], declared_of(k)) for i, k in enumerate(keys))
    return OuterJoin(left, right, tuple(handed(a, outer) for a, _ in rows.keys), found, None, "LEFT"), columns


def _of_group(left: Relation, subquery: Subquery, group: GroupOfAll) -> tuple[Relation, Expression]:
    calls = group.calls.calls
    by_spark = [i for i, call in enumerate(calls) if to_be_asked_of_none(call)] if group.rows.keys else []
    counted = (*calls, AggregateCall("count_star", None, BIGINT, False, subquery.place)) if by_spark else calls
    joined, columns = _grouped(left, subquery.outer, group.rows, counted)
    of_calls: list[Expression] = [*columns[: len(calls)]]
    if by_spark:
        joined, said = _said_of_none(joined, group.rows, [calls[i] for i in by_spark])
        missing = IsNull(BOOLEAN, False, None, columns[-1])
        for i, none in zip(by_spark, said, strict=True):
            of_calls[i] = Case(none.type, calls[i].nullable, subquery.place, ((missing, none),), columns[i])
    if group.rows.keys:
        for i in (i for i in range(len(calls)) if i not in by_spark):
            of_calls[i] = of_empty_group(group.calls, columns[i], i)
    outputs = [handed(placed(output, of_calls), subquery.outer) for output in group.outputs]
    tests = tuple(handed(placed(test, of_calls), subquery.outer) for test in group.tests)
    there = tests[0] if len(tests) == 1 else And(BOOLEAN, True, subquery.place, tests)
    if isinstance(subquery, Exists):
        return joined, _case(subquery, _TRUE, _FALSE, there) if tests else _TRUE
    if isinstance(subquery, ScalarSubquery):
        nothing = Literal(subquery.type, True, subquery.place, None)
        return joined, _case(subquery, outputs[0], nothing, there) if tests else outputs[0]
    assert isinstance(subquery, InSubquery)
    pairs = zip(subquery.arguments, outputs, strict=True)
    equal = tuple(comparison("=", a, b, subquery.place) for a, b in pairs)
    value = equal[0] if len(equal) == 1 else And(BOOLEAN, True, subquery.place, equal)
    return joined, _case(subquery, value, _FALSE, there) if tests else value


def _said_of_none(
    left: Relation, rows: Uncorrelated, calls: Sequence[AggregateCall]
) -> tuple[Relation, list[ColumnRef]]:  # fmt: skip
    """`left` with what Spark says to `calls` where there are no rows, and where that stands."""
    names = tuple(f"none{i}" for i in range(len(calls)))
    right = GroupBy(Filter(rows.relation, _FALSE), (), (), tuple(calls), names)
    width = len(left.columns)
    said = [ColumnRef(c.type, c.nullable, c.place, width + i, names[i]) for i, c in enumerate(calls)]
    return InnerJoin(left, right, (), (), None), said


def _case(subquery: Subquery, value: Expression, otherwise: Expression, *tests: Expression) -> Case:
    return Case(value.type, True, subquery.place, tuple((test, value) for test in tests), otherwise)


def _only_row(left: Relation, subquery: ScalarSubquery, rows: Uncorrelated) -> tuple[Relation, Expression]:
    (first, *_) = rows.relation.columns
    value = ColumnRef(first.type, first.nullable, subquery.place, 0, first.name)
    calls = (
        AggregateCall("max", value, first.type, True, subquery.place),
        AggregateCall("count_star", None, BIGINT, False, subquery.place),
    )
    joined, (greatest, number) = _grouped(left, subquery.outer, rows, calls)
    return joined, OnlyRow(first.type, True, subquery.place, number, greatest)


def _exists(left: Relation, subquery: Exists, rows: Uncorrelated) -> tuple[Relation, Expression]:
    joined, (number,) = _grouped(
        left, subquery.outer, rows, (AggregateCall("count_star", None, BIGINT, False, subquery.place),)
    )
    if rows.keys:
        return joined, _not_null(number)
    return joined, is_positive(number)


def _member(left: Relation, subquery: InSubquery, rows: Uncorrelated) -> tuple[Relation, Expression]:
    columns = [reference_to(c, i) for i, c in enumerate(rows.relation.columns[: len(subquery.arguments)])]
    certain = not any(each.nullable for each in (*subquery.arguments, *columns))
    matching = replace(rows, keys=rows.keys + tuple(zip(subquery.arguments, columns, strict=True)))
    one = (AggregateCall("count_star", None, BIGINT, False, subquery.place),)
    # What is looked for is no name of the query around, but an expression of it.
    joined, (number,) = _grouped(left, subquery.outer, matching, one)
    if certain:
        return joined, _not_null(number)
    both, has_rows, has_nulls = with_rows_and_nulls(joined, rows, subquery.outer)
    unknown = Or(BOOLEAN, False, None, (IsNull(BOOLEAN, False, None, subquery.arguments[0]), has_nulls))
    branches: tuple[Any, ...] = (
        (_not_null(number), _TRUE), (Not(BOOLEAN, False, None, has_rows), _FALSE), (unknown, _UNKNOWN),
    )  # fmt: skip
    return both, Case(BOOLEAN, True, subquery.place, branches, _FALSE)


def _not_null(expression: Expression) -> Expression:
    return Not(BOOLEAN, False, None, IsNull(BOOLEAN, False, None, expression))


SUBQUERY_AS_COLUMN = Rule("subquery as column", _apply)
