"""The rows of a part, behind those that are open, in the order in which they are matched."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.plans.match import MatchOrder
from viewkeeper.streams.ordering import every, in_order
from viewkeeper.trace.grouping import Groups, group_sorted, stable_argsort


def arranged(
    hashes: np.ndarray, keys: Sequence[pa.Array], places: np.ndarray, columns: Sequence[pa.Array],
    order: Sequence[MatchOrder],
) -> Groups:  # fmt: skip
    """All rows by group; within it first the open ones by `places`, then the new ones by `order`.

    The open rows are the first of `hashes` and `keys`, one for each of `places`; `columns` are those of the new rows.
    Ties are put in the order of all columns from left to right; rows that tie in that too are the same.
    """
    opened = len(places)
    rows = np.concatenate([np.argsort(places, kind="stable"), np.arange(opened, len(hashes))])
    groups = group_sorted(hashes, keys, rows[stable_argsort(hashes[rows])])
    terms = [(columns[term.column], term.ascending, term.nulls_first) for term in order]
    if not opened:
        return Groups(in_order(groups.order, groups.lengths, [*terms, *every(columns)]), groups.starts)
    is_new, result = groups.order >= opened, groups.order.copy()
    lengths = np.add.reduceat(is_new, groups.starts, dtype=np.int64)
    result[is_new] = opened + in_order(groups.order[is_new] - opened, lengths, [*terms, *every(columns)])
    return Groups(result, groups.starts)
