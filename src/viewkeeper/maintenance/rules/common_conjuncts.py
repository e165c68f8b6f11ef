"""What every branch of an OR demands is demanded beside it: `(a AND b) OR (a AND c)` is `a AND (b OR c)`.

So a join finds its keys, and each side its conditions, when they are written in every branch.
"""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.plans.expressions import Expression, Or
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.relations import Filter, InnerJoin, OuterJoin, Relation
from viewkeeper.plans.rewriting import conjunction, conjuncts, identity


def _apply(relation: Relation) -> Relation | None:
    match relation:
        case Filter():
            predicate = _factored(relation.predicate)
            return None if predicate is None else replace(relation, predicate=predicate)
        case InnerJoin() if relation.residual is not None:
            residual = _factored(relation.residual)
            return None if residual is None else replace(relation, residual=residual)
        case OuterJoin() if relation.condition is not None:
            condition = _factored(relation.condition)
            return None if condition is None else replace(relation, condition=condition)
    return None


def _factored(test: Expression) -> Expression | None:
    """`test` with what its ORs' branches have in common before each; None where they have nothing."""
    found = False
    terms: list[Expression] = []
    for term in conjuncts(test):
        common, rest = _common(term)
        found = found or bool(common)
        terms += [*common, *rest]
    return conjunction(tuple(terms)) if found else None


def _common(term: Expression) -> tuple[list[Expression], list[Expression]]:
    """The conjuncts that all branches of an OR have, and what is left to ask."""
    if not isinstance(term, Or) or can_raise(term):
        return [], [term]
    branches = [{identity(each): each for each in conjuncts(branch)} for branch in _branches(term)]
    shared = set.intersection(*map(set, branches))
    if not shared:
        return [], [term]
    common = [each for key, each in branches[0].items() if key in shared]
    rests = [conjunction(tuple(each for key, each in branch.items() if key not in shared)) for branch in branches]
    wanted = tuple(rest for rest in rests if rest is not None)
    if len(wanted) < len(rests):
        return common, []  # a branch asks no more than what all do
    return common, [replace(term, arguments=wanted)]


def _branches(test: Expression) -> list[Expression]:
    if not isinstance(test, Or):
        return [test]
    return [branch for argument in test.arguments for branch in _branches(argument)]


COMMON_CONJUNCTS = Rule("common conjuncts", _apply)
