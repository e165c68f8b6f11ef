"""Subqueries in expressions, once their queries are bound."""

from __future__ import annotations

from collections.abc import Sequence

from viewkeeper.catalog.types import BOOLEAN
from viewkeeper.compiler.coercion import common_type
from viewkeeper.compiler.conversion import Refused, converted
from viewkeeper.plans.expressions import ColumnRef, Expression, TextPlace
from viewkeeper.plans.relations import Project, Relation
from viewkeeper.plans.subqueries import Exists, InSubquery, ScalarSubquery


def scalar(query: Relation, outer: Sequence[Expression], place: TextPlace | None) -> ScalarSubquery:
    """`(SELECT ...)` as a value."""
    if len(query.columns) != 1:
        raise Refused(f"a subquery that is a value has one column, not {len(query.columns)}")
    return ScalarSubquery(query.columns[0].type, True, place, query, tuple(outer))


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
        right.append(converted(ColumnRef(column.type, column.nullable, place, i, column.name), target, zone))
    if any(not isinstance(each, ColumnRef) for each in right):
        query = Project(query, tuple(right), tuple(column.name for column in columns))
    nullable = any(each.nullable for each in (*left, *right))
    return InSubquery(BOOLEAN, nullable, place, query, tuple(outer), tuple(left))
