"""What somebody else computes is a column of the input: of all rows that are not out before it is their turn.

Whether its error counts is decided where the call stood, so what is not reached does not raise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from viewkeeper.catalog.types import BIGINT, BOOLEAN
from viewkeeper.maintenance.rules.conjuncts import filtered
from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.maintenance.rules.subquery_terms import first_columns
from viewkeeper.plans.expressions import Coalesce, ColumnRef, Expression, Literal
from viewkeeper.plans.outside import Kept, OutsideCall, outside_call_in
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.relations import ComputedColumn, Filter, Project, Relation, expressions_of
from viewkeeper.plans.rewriting import conjunction, conjuncts, identity, rewrite


def _apply(relation: Relation) -> Relation | None:
    if not isinstance(relation, (Filter, Project)):
        return None
    calls = (outside_call_in(expression) for expression in expressions_of(relation))
    call = next((each for each in calls if each is not None), None)
    if call is None:
        return None
    below = relation.input
    if isinstance(relation, Filter):
        below = _not_out(below, relation.predicate)
    form = form_of(call)
    computed = ComputedColumn(below, form)
    change = reading(form, len(below.columns))
    if isinstance(relation, Filter):
        return first_columns(Filter(computed, rewrite(relation.predicate, change)), relation)
    return replace(relation, input=computed, outputs=tuple(rewrite(e, change) for e in relation.outputs))


def form_of(call: OutsideCall) -> OutsideCall:
    """What calls that are computed as one have in common; what can raise in an argument names its own place."""
    form = call if any(map(can_raise, call.arguments)) else identity(call)
    assert isinstance(form, OutsideCall)
    return form


def reading(form: OutsideCall, at: int) -> Callable[[Expression], Expression | None]:
    """A change (`rewriting.rewrite`) by which calls of `form` read what columns `at` and `at` + 1 say of them."""

    def change(node: Expression) -> Expression | None:
        if not isinstance(node, OutsideCall) or form_of(node) != form:
            return None
        value = ColumnRef(node.type, node.nullable, node.place, at, "value")
        return Kept(node.type, node.nullable, node.place, value, ColumnRef(BIGINT, False, None, at + 1, "error"))

    return change


def _not_out(below: Relation, predicate: Expression) -> Relation:
    """The rows that the conjuncts before the first one with a call have not found FALSE."""
    terms = conjuncts(predicate)
    first = next(i for i, term in enumerate(terms) if outside_call_in(term) is not None)
    before = conjunction(terms[:first])
    if before is None:
        return below
    if before.nullable:
        before = Coalesce(BOOLEAN, False, before.place, (before, Literal(BOOLEAN, False, None, True)))
    return filtered(below, [before])


COMPUTED_COLUMNS = Rule("computed columns", _apply)
