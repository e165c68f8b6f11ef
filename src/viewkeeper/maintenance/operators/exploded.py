"""Explode: each row once for each element of an array in it (linear)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewkeeper.functions.nested_columns import listed, physical
from viewkeeper.maintenance.task import Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.trace.rows import Rows


def run(operator: plan.Exploded, task: Task) -> None:
    """Takes rows as often as they have elements; with `outer` at least once."""
    rows = task.streams.get(operator.input)
    if rows is None or not len(rows):
        return
    below = task.program.operators[operator.input]
    held = listed(rows.columns[operator.array], below.columns[operator.array].type)
    counts = held.counts
    times = np.maximum(counts, 1) if operator.outer else counts
    places = np.repeat(np.arange(len(rows)), times)
    first = np.cumsum(times) - times
    position = np.arange(len(places)) - first[places]
    there = position < counts[places]
    elements = held.values.take(pa.array(held.offsets[places] + position, pa.int64(), mask=~there))
    kept = rows.select(operator.outputs).take(places)
    added = [pa.array(position.astype(np.int32), mask=~there), physical(elements, operator.columns[-1].type)]
    task.streams[operator.id] = Rows([*kept.columns, *added], kept.weights)
