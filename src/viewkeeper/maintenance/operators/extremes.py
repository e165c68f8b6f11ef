"""MIN and MAX of groups under inserts and deletes, from an ordered state of all values.

The current extremum is known from the PRE-AGGREGATION.  A better value that came replaces it at once; only where it was
itself deleted are the values searched, from where it stood, so that a group that always loses its smallest stays cheap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewkeeper.maintenance.task import Arrived, Task
from viewkeeper.plans.kept_calls import Running
from viewkeeper.trace.keys import canonical, order_code
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.trace import Trace


@dataclass
class GroupValues:
    """The distinct (group, value) pairs of a batch, sorted: for each pair a row of `column` that holds the value, its
    order code, and its net weight (never 0)."""

    column: pa.Array
    group: np.ndarray
    row: np.ndarray
    code: np.ndarray
    weight: np.ndarray


def after(
    item: Running, arrived: Arrived, values: pa.Array, smallest: pa.Array | None, greatest: pa.Array | None,
    task: Task,
) -> list[pa.Array]:  # fmt: skip
    """The new extremes of each group, as far as they are kept; writes the ordered state.

    `values` are the argument's values in the order of the groups; `smallest` and `greatest` the extremes before.
    """
    assert item.ordered is not None
    values = canonical(values)
    known = [column for column in (smallest, greatest) if column is not None]
    codes = order_code(pa.concat_arrays([values, *known]))
    pairs = _net(values, codes[: len(values)], arrived)
    index = pa.array(pairs.group)
    columns = [*(key.take(index) for key in arrived.group_keys), values.take(pa.array(pairs.row))]
    rows = Rows(columns, pairs.weight, arrived.group_hashes[pairs.group])
    task.write(item.ordered, rows)
    now: Trace | None = None
    results = []
    for n, old in enumerate(known):
        old_codes = codes[len(values) + n * len(old) :][: len(old)]
        least = n == 0 and smallest is not None
        best, best_row = _best_that_came(pairs, len(old), least)
        deleted = _was_deleted(pairs, old, old_codes)
        better = best_row >= 0
        if len(old) - old.null_count:
            valid = old.is_valid().to_numpy(zero_copy_only=False)
            better &= ~valid | (best < old_codes if least else best > old_codes)
        search = deleted & ~better
        result = pa.concat_arrays([old, values]).take(
            pa.array(np.where(better, len(old) + best_row, np.arange(len(old))))
        )  # fmt: skip
        if search.any():
            now = now or task.context.trace(item.ordered).with_rows(rows)
            result = _search(now, arrived, old, result, np.flatnonzero(search), least)
        results.append(result)
    return results


def _net(values: pa.Array, codes: np.ndarray, arrived: Arrived) -> GroupValues:
    """The batch's values by group and value, with weights added up."""
    valid = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False)) if values.null_count else None
    group, weights = arrived.group_of, arrived.sorted_weights
    rows = np.arange(len(codes)) if valid is None else valid
    if valid is not None:
        group, weights, codes = group[valid], weights[valid], codes[valid]
    order = _pair_order(group, codes)
    group, codes, weights, rows = group[order], codes[order], weights[order], rows[order]
    if not len(group):
        return GroupValues(values, group, rows, codes, weights)
    new = np.ones(len(group), dtype=bool)
    new[1:] = (group[1:] != group[:-1]) | (codes[1:] != codes[:-1])
    starts = np.flatnonzero(new)
    total = np.add.reduceat(weights, starts)
    kept = starts[total != 0]
    return GroupValues(values, group[kept], rows[kept], codes[kept], total[total != 0])


def _pair_order(group: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The order by (group, code).  Both packed into one word where they fit: a third of the time of `lexsort`."""
    if not len(codes):
        return np.zeros(0, dtype=np.int64)
    low = codes.min()
    bits = int(codes.max() - low).bit_length()
    if bits + int(group[-1]).bit_length() <= 64:
        return np.argsort((group.astype(np.uint64) << np.uint64(bits)) | (codes - low))
    return np.lexsort((codes, group))


def _best_that_came(pairs: GroupValues, groups: int, least: bool) -> tuple[np.ndarray, np.ndarray]:
    """For each group the code and the row of the smallest (greatest) value with positive weight; row -1 where none."""
    best = np.zeros(groups, dtype=np.uint64)
    row = np.full(groups, -1, dtype=np.int64)
    came = np.flatnonzero(pairs.weight > 0)
    if not least:
        came = came[::-1]
    # Assigned from the worst to the best, so that the best stays.
    came = came[::-1]
    best[pairs.group[came]] = pairs.code[came]
    row[pairs.group[came]] = pairs.row[came]
    return best, row


def _was_deleted(pairs: GroupValues, old: pa.Array, old_codes: np.ndarray) -> np.ndarray:
    """For each group whether weight was taken from its old extremum."""
    deleted = np.zeros(len(old), dtype=bool)
    hit = pairs.group[(pairs.weight < 0) & (pairs.code == old_codes[pairs.group])]
    deleted[hit] = True
    return deleted & old.is_valid().to_numpy(zero_copy_only=False)


def _search(now: Trace, arrived: Arrived, old: pa.Array, result: pa.Array, groups: np.ndarray, least: bool) -> pa.Array:
    """`result` with the extremes of `groups` searched among the values that are there now."""
    index = pa.array(groups)
    keys = [key.take(index) for key in arrived.group_keys]
    found = now.extreme(arrived.group_hashes[groups], keys, least, old.take(index))
    place = np.arange(len(result))
    place[groups] = len(result) + np.arange(len(groups))
    return pa.concat_arrays([result, found]).take(pa.array(place))
