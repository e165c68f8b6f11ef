"""Aggregate: the rows of one GROUP BY, from the groups that changed in its PRE-AGGREGATION."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewkeeper.maintenance.regressions import Moments, moment
from viewkeeper.maintenance.task import Task
from viewkeeper.maintenance.totals import sum_or_average
from viewkeeper.plans import maintenance as plan
from viewkeeper.plans.kept_calls import KeptCall
from viewkeeper.plans.product_sums import PRODUCTS
from viewkeeper.trace.keys import equal_rows
from viewkeeper.trace.rows import Rows


def run(operator: plan.Aggregate, task: Task) -> None:
    """Old rows (-1) and new rows (+1) of the groups whose row changed; an overflowing sum is an error of its group."""
    changes = task.changes.get(operator.input)
    if changes is None or not len(changes):
        return
    below = task.program.operators[operator.input]
    assert isinstance(below, plan.PreAggregate)
    before, wrong_before = _outputs(operator, below, changes.before)
    after, wrong_after = _outputs(operator, below, changes.after)
    same = changes.existed & changes.exists & (wrong_before == wrong_after)
    if before:
        same &= equal_rows(before, after)
    gone, came = np.flatnonzero(changes.existed & ~same), np.flatnonzero(changes.exists & ~same)
    gone_index, came_index = pa.array(gone), pa.array(came)
    columns = [
        pa.concat_arrays([old.take(gone_index), new.take(came_index)])
        for old, new in zip([*changes.keys, *before], [*changes.keys, *after], strict=True)
    ]
    weights = np.ones(len(gone) + len(came), dtype=np.int64)
    weights[: len(gone)] = -1
    rows = Rows(columns, weights)
    errors = np.concatenate([wrong_before[gone], wrong_after[came]])
    if errors.any():
        wrong = np.flatnonzero(errors)
        task.raised(operator, operator, rows.take(wrong), errors[wrong])
        rows = rows.filter(errors == 0)
    task.streams[operator.id] = rows


def _outputs(
    operator: plan.Aggregate, below: plan.PreAggregate, state: list[pa.Array]
) -> tuple[list[pa.Array], np.ndarray]:
    """The value of each call for each group, and the packed error of each group, 0 for none."""
    slots = _slots(below)
    errors = np.zeros(len(state[0]), dtype=np.int64)
    outputs = []
    for call in operator.calls:
        if call.argument is None:
            outputs.append(_counts(state[0]))
            continue
        item, at = below.running[call.argument], slots[call.argument]
        counts = _counts(state[at])
        sums = state[at + 1 : at + 1 + len(item.sums)]
        if call.function == "count":
            outputs.append(counts)
        elif call.function in ("min", "max"):
            behind = at + 1 + len(item.linear)
            outputs.append(state[behind + (call.function == "max" and item.smallest)])
        elif call.function in PRODUCTS:
            outputs.append(moment(call.function, _moments(call, below, slots, state)))
        else:
            function = call.function.removeprefix("try_")
            values, wrong = sum_or_average(function, sums, counts.to_numpy(), item.type, call.type, call.place)
            outputs.append(values)
            if wrong is not None and function == call.function:
                errors = np.where(errors == 0, wrong, errors)
    return outputs, errors


def _moments(call: KeptCall, below: plan.PreAggregate, slots: list[int], state: list[pa.Array]) -> Moments:
    """What is kept for a moment of one argument or two."""
    kept = [slot for slot in (call.argument, call.second) if slot is not None]
    sums = []
    for slot in kept:
        begin = slots[slot] + 1
        sums.append(state[begin : begin + len(below.running[slot].sums)])
    products = {}
    for a, b in PRODUCTS[call.function]:
        item, other = below.running[kept[a]], below.running[kept[b]].argument
        at = slots[kept[a]] + 1 + len(item.sums) + item.products.index(other)
        products[a, b] = state[at]
    return Moments(_counts(state[slots[kept[0]]]).to_numpy(), sums, products)


def _slots(below: plan.PreAggregate) -> list[int]:
    """Where each running argument's count stands among the state's columns behind the key."""
    slots, at = [], 1
    for item in below.running:
        slots.append(at)
        at += 1 + len(item.linear) + item.smallest + item.greatest
    return slots


def _counts(column: pa.Array) -> pa.Array:
    return column.fill_null(0)
