"""Select: filter and projection.  Linear: the change of the output is the operator over the change of the input.

A family of views that differ by their predicate alone is one operator.  Members of the form `column = constant AND ...`
are found through the constants, so that thousands of them cost a row no more than one; the others test every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.evaluation.evaluate import evaluate, predicate
from viewkeeper.maintenance.task import Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.expressions import ColumnRef, Compare, Expression, Literal
from viewkeeper.plans.raising import can_raise
from viewkeeper.plans.rewriting import conjunction, conjuncts
from viewkeeper.trace.rows import Rows


@dataclass
class Routes:
    """Members by the constant that column `column` must equal: `members[offsets[i]:offsets[i + 1]]` for the i-th of
    `constants`; `rest` holds what else a member tests."""

    column: int
    constants: pa.Array
    offsets: np.ndarray
    members: np.ndarray
    rest: dict[int, Expression]


def run(operator: plan.Select, task: Task) -> None:
    """Filters, then computes the outputs of what is left; errors go to the views that read the operator."""
    rows = task.streams.get(operator.input)
    if rows is None or not len(rows):
        return
    below = task.program.operators[operator.input]
    if operator.member and not below.member:
        _run_family(operator, below, rows, task)
        return
    values = rows.columns[below.member :]
    if operator.predicate is not None:
        keep, errors = predicate(operator.predicate, values, len(rows), zone=task.program.zone)
        _keep_errors(operator, below, rows, errors, task)
        rows = rows.filter(keep)
    outputs, errors = _outputs(operator.outputs, rows.columns[below.member :], len(rows), task)
    result = Rows([*rows.columns[: below.member], *outputs], rows.weights)
    if errors is not None:
        _keep_errors(operator, below, rows, errors, task)
        result = result.filter(errors == 0)
    task.streams[operator.id] = result


def _run_family(operator: plan.Select, below: plan.Operator, rows: Rows, task: Task) -> None:
    if operator.id not in task.program.compiled:
        task.program.compiled[operator.id] = _routes(task.program.members(operator))
    routes, others = task.program.compiled[operator.id]
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for route in routes:
        found += _follow(route, rows, task)
    for member in others:
        keep, errors = predicate(member.predicate, rows.columns, len(rows), zone=task.program.zone)
        _keep_errors(operator, below, rows, errors, task, member.id)
        index = np.flatnonzero(keep)
        found.append((index, np.full(len(index), member.id, dtype=np.int32)))
    index = np.concatenate([i for i, _ in found]) if found else np.zeros(0, dtype=np.int64)
    members = np.concatenate([m for _, m in found]) if found else np.zeros(0, dtype=np.int32)
    chosen = rows.take(index)
    outputs, errors = _outputs(operator.outputs, chosen.columns, len(chosen), task)
    result = Rows([pa.array(members), *outputs], chosen.weights)
    if errors is not None:
        for member in np.unique(members[errors != 0]):
            _keep_errors(operator, below, chosen, np.where(members == member, errors, 0), task, int(member))
        result = result.filter(errors == 0)
    task.streams[operator.id] = result


def _outputs(
    expressions: Sequence[Expression], columns: Sequence[pa.Array], length: int, task: Task
) -> tuple[list[pa.Array], np.ndarray | None]:
    outputs: list[pa.Array] = []
    errors: np.ndarray | None = None
    for expression in expressions:
        if isinstance(expression, ColumnRef):
            outputs.append(columns[expression.index])
            continue
        values, raised = evaluate(expression, columns, length, zone=task.program.zone)
        outputs.append(values)
        if raised is not None:
            errors = raised if errors is None else np.where(errors != 0, errors, raised)
    return outputs, errors


def _keep_errors(
    operator: plan.Operator, below: plan.Operator, rows: Rows, errors: np.ndarray | None, task: Task,
    member: int | None = None,
) -> None:  # fmt: skip
    if errors is None or not errors.any():
        return
    wrong = np.flatnonzero(errors)
    if member is None:
        task.raised(operator, below, rows.take(wrong), errors[wrong])
    else:
        task.raised_by(operator, below, rows.take(wrong), errors[wrong], member)


def _routes(members: Sequence[plan.Member]) -> tuple[list[Routes], list[plan.Member]]:
    """The members that can be found through a constant, by column, and the others."""
    by_column: dict[tuple[int, pa.DataType], list[tuple[pa.Scalar, int]]] = {}
    rest: dict[int, Expression] = {}
    others: list[plan.Member] = []
    for member in members:
        parts = conjuncts(member.predicate)
        route = _route(parts[0])
        # NULL = constant is NULL, and what stands behind it is still tested: it may raise.
        if route is None or any(can_raise(part) for part in parts[1:]):
            others.append(member)
            continue
        column, constant = route
        by_column.setdefault((column, constant.type), []).append((constant, member.id))
        remaining = conjunction(parts[1:])
        if remaining is not None:
            rest[member.id] = remaining
    routes = []
    for (column, type_), pairs in by_column.items():
        encoded = pa.array([constant.as_py() for constant, _ in pairs], type_).dictionary_encode()
        codes = encoded.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        ids = np.array([id_ for _, id_ in pairs], dtype=np.int32)[order]
        offsets = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))
        routes.append(Routes(column, encoded.dictionary, offsets, ids, rest))
    return routes, others


def _route(test: Expression) -> tuple[int, pa.Scalar] | None:
    if not isinstance(test, Compare) or test.operator != "=" or test.left.type.is_float:
        return None
    sides = (test.left, test.right)
    for column, constant in (sides, sides[::-1]):
        if isinstance(column, ColumnRef) and isinstance(constant, Literal) and constant.value is not None:
            return column.index, evaluate(constant, [], 1)[0][0]
    return None


def _follow(route: Routes, rows: Rows, task: Task) -> list[tuple[np.ndarray, np.ndarray]]:
    """(row, member) pairs whose row has the member's constant and passes its other tests."""
    place = pc.index_in(rows.columns[route.column], route.constants)
    hit = np.flatnonzero(place.is_valid().to_numpy(zero_copy_only=False))
    if not len(hit):
        return []
    code = pc.drop_null(place).to_numpy()
    counts = route.offsets[code + 1] - route.offsets[code]
    index = np.repeat(hit, counts)
    within = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)
    members = route.members[np.repeat(route.offsets[code], counts) + within]
    if not route.rest:
        return [(index, members)]
    tested = np.isin(members, np.fromiter(route.rest, np.int32))
    found = [(index[~tested], members[~tested])]
    for member in np.unique(members[tested]):
        mine = index[members == member]
        chosen = rows.take(mine)
        keep, _ = predicate(route.rest[int(member)], chosen.columns, len(chosen), zone=task.program.zone)
        found.append((mine[keep], np.full(int(keep.sum()), member, dtype=np.int32)))
    return found
