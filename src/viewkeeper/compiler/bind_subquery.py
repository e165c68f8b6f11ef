"""Subqueries in expressions, once their queries are bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from viewkeeper.catalog.types import BOOLEAN, VOID
from viewkeeper.compiler.coercion import common_type
from viewkeeper.compiler.conversion import Refused, converted
from viewkeeper.compiler.source_text import QueryText
from viewkeeper.errors import NotSupported
from viewkeeper.evaluation import constant_folding
from viewkeeper.plans.correlation import Correlated, require_separable
from viewkeeper.plans.expressions import And, ColumnRef, Expression, Not, Or, TextPlace, reference_to
from viewkeeper.plans.relations import Project, Relation
from viewkeeper.plans.subqueries import Exists, InSubquery, ScalarSubquery, Subquery, subqueries_in


def require_kept(query: QueryText, zone: str, values: Iterable[Expression], conditions: Iterable[Expression]) -> None:
    """Raises NotSupported for a subquery in `values`, or in the conjuncts `conditions`, that cannot become a join.

    Asked of what constant folding leaves, since what can raise may be a constant.  `zone` is the database's time zone.
    """
    asked: list[tuple[Subquery, bool, bool, bool]] = []
    for term in conditions:
        subqueries = list(subqueries_in(term))
        if not subqueries:
            continue
        negated = isinstance(term, Not)
        node = term.argument if isinstance(term, Not) else term
        alone, tested = isinstance(node, (Exists, InSubquery)), list(_tested(term))
        for subquery in subqueries:
            asked.append((subquery, alone and subquery is node, negated, any(subquery is each for each in tested)))
    asked += [(subquery, False, False, False) for value in values for subquery in subqueries_in(value)]
    for subquery, condition, negated, truth in asked:
        try:
            require_separable(
                constant_folding.folded(subquery, zone), condition=condition, negated=negated, tested=truth
            )
        except Correlated as reason:
            message = f"this subquery is not kept by what changes: {reason}; write a join"
            refused = query.error_at(message, reason.place or subquery.place)
            raise NotSupported(message, refused.line, refused.column) from None


def _tested(term: Expression) -> Iterator[Expression]:
    """What a condition tests, by AND, OR and NOT."""
    if isinstance(term, (And, Or, Not)):
        for each in term.children():
            yield from _tested(each)
    else:
        yield term


def scalar(query: Relation, outer: Sequence[Expression], place: TextPlace | None) -> ScalarSubquery:
    """`(SELECT ...)` as a value."""
    if len(query.columns) != 1:
        raise Refused(f"a subquery that is a value has one column, not {len(query.columns)}")
    if query.columns[0].type == VOID:
        raise Refused("a subquery that is always NULL has no type; write NULL", NotSupported)
    return ScalarSubquery(query.columns[0].type, True, place, query, tuple(outer))


def asked_for_rows(node: exp.Expr) -> exp.Expr:
    """The query of an EXISTS without a LIMIT of 1 and more, which takes rows from none that has any."""
    query = node.unnest()
    limit = query.args.get("limit")
    number = limit.expression if isinstance(limit, exp.Limit) else None
    if query.args.get("offset") or not isinstance(number, exp.Literal) or not number.name.strip("0").isdigit():
        return node
    asked = query.copy()
    asked.set("limit", None)
    return asked


def exists(query: Relation, outer: Sequence[Expression], place: TextPlace | None) -> Exists:
    """`EXISTS (SELECT ...)`: what it selects is not computed."""
    while isinstance(query, Project):
        query = query.input
    return Exists(BOOLEAN, False, place, query, tuple(outer))


def member(
    arguments: Sequence[Expression], query: Relation, outer: Sequence[Expression], place: TextPlace | None, zone: str
) -> InSubquery:
    """`arguments IN (SELECT ...)`, both sides in Spark's common types."""
    columns = query.columns
    if len(columns) != len(arguments):
        raise Refused(f"IN compares {len(arguments)} values with {len(columns)} columns")
    left, right = [], []
    for i, (argument, column) in enumerate(zip(arguments, columns, strict=True)):
        target = common_type(argument.type, column.type)
        if target is None:
            raise Refused(f"{argument.type} and {column.type} cannot be compared")
        left.append(converted(argument, target, zone))
        right.append(converted(reference_to(column, i, place), target, zone))
    if any(not isinstance(each, ColumnRef) for each in right):
        query = Project(query, tuple(right), tuple(column.name for column in columns))
    nullable = any(each.nullable for each in (*left, *right))
    return InSubquery(BOOLEAN, nullable, place, query, tuple(outer), tuple(left))
