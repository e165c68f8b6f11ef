"""A condition such as `row_number() OVER (...) <= 3` leaves the first rows of each partition: no others go on.

Nothing moves: the condition stays, and what raises for other rows raises as before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from viewkeeper.maintenance.rules.rule import Rule
from viewkeeper.plans.expressions import Cast, ColumnRef, Compare, Expression, In, Literal
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.relations import Filter, Project, Relation, Windows
from viewkeeper.plans.rewriting import conjuncts

_RANKS = ("row_number", "rank", "dense_rank")
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def _apply(relation: Relation) -> Relation | None:
    if not isinstance(relation, Filter):
        return None
    project = relation.input if isinstance(relation.input, Project) else None
    windows = relation.input if project is None else project.input
    if not isinstance(windows, Windows) or windows.first is not None:
        return None
    outputs = windows.columns if project is None else project.outputs
    if project is not None and any(map(can_raise, project.outputs)):
        return None
    width = len(windows.input.columns)
    ranks = {
        width + i: i for i, call in enumerate(windows.calls) if call.function in _RANKS
    }  # fmt: skip
    for index, most in _bounds(conjuncts(relation.predicate)):
        output = outputs[index]
        position = index if project is None else output.index if isinstance(output, ColumnRef) else -1
        if position in ranks:
            first = replace(windows, first=(ranks[position], most))
            return replace(relation, input=first if project is None else replace(project, input=first))
    return None


def _bounds(terms: Sequence[Expression]) -> Iterator[tuple[int, int]]:
    """Columns and what they are at most, from terms that are tested before any that can raise."""
    for term in terms:
        if can_raise(term):
            return
        if isinstance(term, Compare) and term.operator in _TURNED:
            sides = ((term.operator, term.left, term.right), (_TURNED[term.operator], term.right, term.left))
            for operator, column, constant in sides:
                index, most = _column(column), _number(constant)
                if index is not None and most is not None and operator in ("<", "<=", "="):
                    yield index, math.ceil(most) - 1 if operator == "<" else math.floor(most)
        elif isinstance(term, In):
            index, options = _column(term.argument), [_number(option) for option in term.options]
            known = [option for option in options if option is not None]
            if index is not None and len(known) == len(options):
                yield index, math.floor(max(known))


def _column(expression: Expression) -> int | None:
    inner = expression.argument if isinstance(expression, Cast) and expression.type.is_number else expression
    return inner.index if isinstance(inner, ColumnRef) else None


def _number(expression: Expression) -> int | None:
    value = expression.value if isinstance(expression, Literal) and expression.type.is_number else None
    return value if value is not None and math.isfinite(value) else None


FIRST_OF_PARTITIONS = Rule("first of partitions", _apply)
