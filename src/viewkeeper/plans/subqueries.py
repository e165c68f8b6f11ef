"""Subqueries within expressions.

The query around a subquery hands in the values of `outer`, one by one, for each of its rows; within, an `OuterColumn`
stands for each.  Without any the subquery is *uncorrelated*: it says the same for every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


@dataclass(frozen=True)
class MadeFrom:
    """A relation, first, and all that it is made from, the queries of its subqueries among them; and all that they
    compute, each expression before those within it."""

    relations: Sequence[Relation]
    expressions: Sequence[Expression]


def made_from(relation: Relation) -> MadeFrom:
    relations: list[Relation] = []
    expressions: list[Expression] = []
    waiting = [relation]
    while waiting:
        each = waiting.pop()
        relations.append(each)
        nodes = [node for expression in expressions_of(each) for node in walk(expression)]
        expressions += nodes
        waiting += reversed([*inputs_of(each), *(node.query for node in nodes if isinstance(node, Subquery))])
    return MadeFrom(relations, expressions)


def relations_in(relation: Relation) -> Sequence[Relation]:
    """`relation` and all that it is made from."""
    return made_from(relation).relations


def scans_in(relation: Relation) -> tuple[Scan, ...]:
    """All that `relation` reads, in the order in which it is written."""
    return tuple(each for each in relations_in(relation) if isinstance(each, Scan))
