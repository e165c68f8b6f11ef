"""Subqueries within expressions.

The query around a subquery hands in the values of `outer`, one by one, for each of its rows; within, an `OuterColumn`
stands for each.  Without any the subquery is *uncorrelated*: it says the same for every row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from viewkeeper.catalog.codec import stored
from viewkeeper.plans.expressions import Expression
from viewkeeper.plans.relations import Relation, Scan, expressions_of, inputs_of
from viewkeeper.plans.rewriting import walk


@stored
@dataclass(frozen=True)
class Subquery(Expression):
    """The root of all subqueries."""

    query: Relation
    outer: tuple[Expression, ...]


@stored
@dataclass(frozen=True)
class ScalarSubquery(Subquery):
    """The one value of the query's one row; NULL where it has none; where it has several it raises."""


@stored
@dataclass(frozen=True)
class Exists(Subquery):
    """Whether the query has any row."""


@stored
@dataclass(frozen=True)
class InSubquery(Subquery):
    """Whether a row of the query is `arguments`, column by column, as a chain of OR and = would have it."""

    arguments: tuple[Expression, ...]


def subqueries_in(expression: Expression) -> Iterator[Subquery]:
    """The subqueries in `expression`, outermost first; those within their own queries left out."""
    return (node for node in walk(expression) if isinstance(node, Subquery))


def has_subquery(expression: Expression) -> bool:
    return any(True for _ in subqueries_in(expression))


def relations_in(relation: Relation) -> Iterator[Relation]:
    """`relation` and all that it is made from, the queries of its subqueries among them."""
    waiting = [relation]
    while waiting:
        each = waiting.pop()
        yield each
        queries = [subquery.query for expression in expressions_of(each) for subquery in subqueries_in(expression)]
        waiting += reversed([*inputs_of(each), *queries])


def scans_in(relation: Relation) -> tuple[Scan, ...]:
    """All that `relation` reads, in the order in which it is written."""
    return tuple(each for each in relations_in(relation) if isinstance(each, Scan))
