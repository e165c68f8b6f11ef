"""LEFT, RIGHT, FULL, SEMI and ANTI joins as functions of all rows of a key (see `by_key`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.types import physical_type
from viewkeeper.evaluation.evaluate import predicate
from viewkeeper.maintenance.operators.keyed_rows import KeyAnswer, KeyedRows
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.key_functions import OuterJoinRows
from viewkeeper.trace.grouping import spread, stable_argsort
from viewkeeper.trace.rows import Rows


def compute(function: OuterJoinRows, sides: list[KeyedRows], operator: plan.ByKey, zone: str) -> KeyAnswer:
    """The rows of the join of some keys.  A pair at which the condition raises is an error row, and no match."""
    left, right = sides
    mine, theirs = _pairs(left.key, right.key)
    weights = left.rows.weights[mine] * right.rows.weights[theirs]
    keep, wrong = np.ones(len(mine), dtype=bool), None
    if function.condition is not None and len(mine):
        columns = _paired(function.tested, sides, mine, theirs)
        keep, wrong = predicate(function.condition, columns, len(mine), zone=zone)
    parts = []
    if function.kind not in ("SEMI", "ANTI"):
        parts.append(Rows(_paired(function.outputs, sides, mine[keep], theirs[keep]), weights[keep]))
    met = _marked(len(left), mine[keep])
    if function.kind != "RIGHT":
        alone = np.flatnonzero(met if function.kind == "SEMI" else ~met)
        parts.append(_padded(function, operator, 0, left.rows.take(alone)))
    if function.kind in ("RIGHT", "FULL"):
        alone = np.flatnonzero(~_marked(len(right), theirs[keep]))
        parts.append(_padded(function, operator, 1, right.rows.take(alone)))
    nothing = Rows.empty([physical_type(column.type) for column in operator.columns])
    if wrong is None or not wrong.any():
        return KeyAnswer(Rows.concat(parts), nothing, None)
    raised = np.flatnonzero(wrong)
    made = Rows(_paired(function.outputs, sides, mine[raised], theirs[raised]), weights[raised])
    return KeyAnswer(Rows.concat(parts), made, wrong[raised])


def alone(function: OuterJoinRows, side: int, rows: Rows, operator: plan.ByKey) -> Rows | None:
    """What rows of one side add that meet nobody, since a NULL stands in their key."""
    kept = {"LEFT": (0,), "ANTI": (0,), "RIGHT": (1,), "FULL": (0, 1), "SEMI": ()}[function.kind]
    return _padded(function, operator, side, rows) if side in kept and len(rows) else None


def _pairs(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pairs (row of the left, row of the right) of one key number."""
    order = stable_argsort(right.astype(np.uint64))
    ranked = right[order]
    low, high = np.searchsorted(ranked, left, "left"), np.searchsorted(ranked, left, "right")
    return np.repeat(np.arange(len(left)), high - low), order[spread(low, high - low)]


def _marked(length: int, rows: np.ndarray) -> np.ndarray:
    marked = np.zeros(length, dtype=bool)
    marked[rows] = True
    return marked


def _paired(
    columns: Sequence[tuple[int, int]], sides: Sequence[KeyedRows], mine: np.ndarray, theirs: np.ndarray
) -> list[pa.Array]:
    """The `columns`, (side, position), of pairs of rows."""
    index = pa.array(mine), pa.array(theirs)
    return [sides[side].rows.columns[position].take(index[side]) for side, position in columns]


def _padded(function: OuterJoinRows, operator: plan.ByKey, side: int, rows: Rows) -> Rows:
    """The output rows of one side's rows that have no partner, or need none."""
    columns = [
        rows.columns[at] if which == side else pa.nulls(len(rows), physical_type(column.type))
        for (which, at), column in zip(function.outputs, operator.columns, strict=True)
    ]
    return Rows(columns, rows.weights)
