"""Aggregates that need all values of a window: DISTINCT ones, median and percentiles, from values with their number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewkeeper.evaluation import exact
from viewkeeper.evaluation.percentiles import percentile
from viewkeeper.maintenance.totals import sum_or_average
from viewkeeper.plans.value_functions import fraction_of
from viewkeeper.plans.window import Layout, WindowCall
from viewkeeper.streams.blocks import Block
from viewkeeper.trace.grouping import group_sorted
from viewkeeper.trace.keys import numbers, order_code


@dataclass
class DistinctValues:
    """The distinct values of a window, sorted by group and, where there is one column of them, by value; NULLs apart.

    `starts[i]` to `starts[i + 1]` are those of group i; `counts` says how often each is there.
    """

    groups: Block
    columns: list[pa.Array]
    starts: np.ndarray
    counts: np.ndarray


def values_of(layout: Layout, block: Block) -> DistinctValues:
    """The values in a merged block that keeps them, and its groups."""
    keys = block.columns[: len(layout.keys)]
    order = np.argsort(block.hashes, kind="stable")
    groups = group_sorted(block.hashes, keys, order)
    group = np.empty(len(block), np.int64)
    group[groups.order] = np.repeat(np.arange(len(groups.starts)), groups.lengths)
    columns = block.columns[len(layout.keys) : layout.key]
    there = np.ones(len(block), np.bool_)
    for column in columns:
        if column.null_count:
            there &= column.is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(there)
    by = (order_code(columns[0])[rows], group[rows]) if len(columns) == 1 else (group[rows],)
    rows = rows[np.lexsort(by)]
    index = pa.array(rows)
    starts = np.searchsorted(group[rows], np.arange(len(groups.starts) + 1))
    counts = numbers(block.columns[layout.key])[rows]
    firsts = pa.array(groups.firsts)
    heads = Block([key.take(firsts) for key in keys], block.hashes[groups.firsts])
    return DistinctValues(heads, [column.take(index) for column in columns], starts, counts)


def result(values: DistinctValues, call: WindowCall) -> tuple[pa.Array, np.ndarray | None]:
    """What `call` gives for each group, and the packed errors, 0 for none."""
    distinct = np.diff(values.starts)
    fraction = fraction_of(call.function)
    if fraction is not None:
        assert call.argument is not None
        return percentile(values.columns[0], call.argument, values.counts, values.starts, fraction), None
    if call.function == "count_distinct":
        return pa.array(distinct), None
    assert call.argument is not None
    some = np.flatnonzero(distinct)
    sums = exact.lift_reduce(
        values.columns[0], np.ones(len(values.counts), np.int64), values.starts[:-1][some], call.argument
    )
    function = call.function.removesuffix("_distinct")
    totals, errors = sum_or_average(function, sums, distinct[some], call.argument, call.type, call.place)
    row = np.full(len(distinct), -1)
    row[some] = np.arange(len(some))
    wrong = None
    if errors is not None:
        wrong = np.zeros(len(distinct), np.int64)
        wrong[some] = errors
    return totals.take(pa.array(row, mask=row < 0)), wrong
