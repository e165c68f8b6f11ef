"""Where Spark's answer depends on the order of its rows, exact arithmetic is the judge.

That is SUM and AVG over FLOAT and DOUBLE, AVG over integers, and moments (`plans.order_dependence`).  `evaluate` of
`row_evaluator` gives the exact answer; this module says how far Spark's own finite answer may be off: n * 2^-52 *
sum|x| for a sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from viewkeeper.catalog.types import BIGINT, DOUBLE
from viewkeeper.checker.row_evaluator import Answer, evaluate
from viewkeeper.checker.tables import Row
from viewkeeper.plans.expressions import Case, Cast, ColumnRef, Expression, Literal, Negate, comparison
from viewkeeper.plans.order_dependence import is_order_dependent, needs_exact, plain_name
from viewkeeper.plans.product_sums import PRODUCTS
from viewkeeper.plans.relations import AggregateCall, Filter, GroupBy, Project, Relation, expressions_of
from viewkeeper.plans.subqueries import has_subquery

_EPSILON = 2.0**-52


@dataclass(frozen=True)
class ExactAnswer:
    """The answer; `slack[i][row]` is how far Spark may be off in output column i of that row.

    `slack` is None where more depends on an inexact value than an output that shows it: a filter, a join, a further
    computation; or where it is a moment.  Spark cannot be compared there.
    """

    answer: Answer
    slack: dict[int, list[float]] | None


def exact_answer(relation: Relation, inputs: Mapping[int, Answer], zone: str = "UTC") -> ExactAnswer:
    """The answer of `relation`, and how near Spark must come to it."""
    traced = _trace(relation)
    if traced is None:
        return ExactAnswer(evaluate(relation, inputs, zone), None)
    answer = evaluate(traced.relation, inputs, zone)
    visible = len(relation.columns)
    slack = {output: [cell.slack(row, output) for row in answer.rows] for output, cell in traced.cells.items()}
    return ExactAnswer(Answer([row[:visible] for row in answer.rows], answer.errors), slack)


@dataclass(frozen=True)
class _Cell:
    """Which columns hold, for a sum or average, the sum of the absolute values and the count of what was added up."""

    magnitude: int
    count: int
    average: bool

    def slack(self, row: Row, output: int) -> float:
        if row[output] is None:
            return 0.0
        if self.average:
            return _EPSILON * (row[self.magnitude] + 2 * abs(row[output]))
        return row[self.count] * _EPSILON * row[self.magnitude]


@dataclass(frozen=True)
class _Traced:
    """The relation with columns added at its end; `cells` by the position of the inexact value."""

    relation: Relation
    cells: dict[int, _Cell]


def _trace(relation: Relation) -> _Traced | None:
    if not needs_exact(relation):
        return _Traced(relation, {})
    if any(has_subquery(expression) for expression in expressions_of(relation)):
        return None
    if isinstance(relation, GroupBy):
        unbounded = any(plain_name(call.function) in PRODUCTS for call in relation.calls)
        return None if needs_exact(relation.input) or unbounded else _trace_aggregate(relation)
    if isinstance(relation, Filter):
        below = _trace(relation.input)
        if below is None or _columns_of(relation.predicate) & below.cells.keys():
            return None
        return _Traced(replace(relation, input=below.relation), below.cells)
    if isinstance(relation, Project):
        below = _trace(relation.input)
        return None if below is None else _trace_project(relation, below)
    return None


def _trace_aggregate(relation: GroupBy) -> _Traced:
    calls, names = list(relation.calls), list(relation.call_names)
    cells = {}
    for position, call in enumerate(relation.calls, len(relation.keys)):
        if call.argument is None or not is_order_dependent(call):
            continue
        cells[position] = _Cell(len(relation.keys) + len(calls), len(relation.keys) + len(calls) + 1,
                                plain_name(call.function) == "avg")  # fmt: skip
        calls.append(AggregateCall("sum", _absolute(call.argument), DOUBLE, True, call.place))
        calls.append(AggregateCall("count", call.argument, BIGINT, False, call.place))
        names += [f"|{position}|", f"#{position}"]
    return _Traced(replace(relation, calls=tuple(calls), call_names=tuple(names)), cells)


def _absolute(argument: Expression) -> Expression:
    wide = argument if argument.type == DOUBLE else Cast(DOUBLE, argument.nullable, argument.place, argument)
    negative = comparison("<", wide, Literal(DOUBLE, False, None, 0.0))
    return Case(DOUBLE, wide.nullable, None, ((negative, Negate(DOUBLE, wide.nullable, None, wide)),), wide)


def _trace_project(relation: Project, below: _Traced) -> _Traced | None:
    outputs, names, cells = list(relation.outputs), list(relation.names), {}
    for position, output in enumerate(relation.outputs):
        used = _columns_of(output) & below.cells.keys()
        if not used:
            continue
        if not isinstance(output, ColumnRef):
            return None
        cell = below.cells[output.index]
        cells[position] = _Cell(len(outputs), len(outputs) + 1, cell.average)
        outputs += [ColumnRef(DOUBLE, True, None, cell.magnitude, ""), ColumnRef(BIGINT, True, None, cell.count, "")]
        names += [f"|{position}|", f"#{position}"]
    return _Traced(replace(relation, input=below.relation, outputs=tuple(outputs), names=tuple(names)), cells)


def _columns_of(expression: Expression) -> set[int]:
    found = {expression.index} if isinstance(expression, ColumnRef) else set()
    return found.union(*(_columns_of(child) for child in expression.children()))
