"""What the rules for subqueries ask of a WHERE, and the joins that they make."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.catalog.types import BIGINT
from viewkeeper.maintenance.rules.conjuncts import filtered
from viewkeeper.plans.correlation import Uncorrelated, handed
from viewkeeper.plans.expressions import ColumnRef, Expression, Literal, Not, comparison, reference_to
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.relations import AggregateCall, Filter, GroupBy, OuterJoin, Project, Relation
from viewkeeper.plans.rewriting import conjunction, conjuncts, renumber
from viewkeeper.plans.subqueries import Subquery, has_subquery


@dataclass(frozen=True)
class SubqueryTerm:
    """A conjunct that is a subquery, or NOT one; what is tested before it, and behind it."""

    subquery: Subquery
    negated: bool
    before: tuple[Expression, ...]
    after: tuple[Expression, ...]


def term_of(relation: Relation, kind: type[Subquery]) -> SubqueryTerm | None:
    """The first conjunct of a filter that is such a subquery.  All that needs none is tested before it, unless that
    changed what raises."""
    if not isinstance(relation, Filter):
        return None
    terms = conjuncts(relation.predicate)
    for i, term in enumerate(terms):
        negated = isinstance(term, Not)
        node = term.argument if isinstance(term, Not) else term
        if not isinstance(node, kind) or any(map(has_subquery, node.children())):
            continue
        if any(map(can_raise, terms)):
            return SubqueryTerm(node, negated, terms[:i], terms[i + 1 :])
        others = terms[:i] + terms[i + 1 :]
        plain = tuple(each for each in others if not has_subquery(each))
        return SubqueryTerm(node, negated, plain, tuple(each for each in others if has_subquery(each)))
    return None


def semi_join(
    left: Relation, rows: Uncorrelated, outer: tuple[Expression, ...], equal: tuple[tuple[Expression, Expression], ...],
    *, anti: bool,
) -> OuterJoin:  # fmt: skip
    """The rows of `left` that have one of `rows` (with `anti`: none), where besides all pairs of `equal` are so."""
    width = len(left.columns)
    keys = tuple((handed(around, outer), here) for around, here in rows.keys) + equal
    moved = {i: i + width for i in range(len(rows.relation.columns))}
    conditions = tuple(handed(renumber(condition, moved), outer) for condition in rows.conditions)
    right = rows.relation if keys or conditions else any_row(rows.relation)
    lefts, rights = tuple(a for a, _ in keys), tuple(b for _, b in keys)
    return OuterJoin(left, right, lefts, rights, conjunction(conditions), "ANTI" if anti else "SEMI")


def any_row(relation: Relation) -> Relation:
    """One row where `relation` has any, so that how many there are changes nothing."""
    counted = GroupBy(relation, (), (), (AggregateCall("count_star", None, BIGINT, False, None),), ("rows",))
    return filtered(counted, [is_positive(ColumnRef(BIGINT, False, None, 0, "rows"))])


def is_positive(number: Expression) -> Expression:
    return comparison(">", number, Literal(BIGINT, False, None, 0))


def first_columns(relation: Relation, of: Relation) -> Project:
    """`relation` with the columns of `of` alone, which are its first."""
    columns = of.columns
    outputs = tuple(reference_to(c, i) for i, c in enumerate(columns))
    return Project(relation, outputs, tuple(c.name for c in columns))
