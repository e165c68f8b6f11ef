"""The rows of a part, behind those that are open, in the order in which they are matched."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.plans.match import MatchOrder
from viewkeeper.trace.grouping import Groups, group_sorted, stable_argsort
from viewkeeper.trace.keys import order_code, valid


def in_order(
    hashes: np.ndarray, keys: Sequence[pa.Array], places: np.ndarray, columns: Sequence[pa.Array],
    order: Sequence[MatchOrder],
) -> Groups:  # fmt: skip
    """All rows by group; within it first the open ones by `places`, then the new ones by `order`.

    The open rows are the first of `hashes` and `keys`, one for each of `places`; `columns` are those of the new rows.
    Ties are put in the order of all columns from left to right; rows that tie in that too are the same.
    """
    before = len(places)
    codes = [code for term in order for code in _codes(columns[term.column], term)]
    new = np.arange(len(hashes) - before)
    for code in reversed(codes):
        new = new[stable_argsort(code[new])]
    wanted = np.concatenate([np.argsort(places, kind="stable"), before + new])
    groups = group_sorted(hashes, keys, wanted[stable_argsort(hashes[wanted])])
    tied = _ties(groups, before, codes)
    if not tied.any():
        return groups
    return Groups(_untied(groups.order, tied, before, columns), groups.starts)


def _codes(column: pa.Array, term: MatchOrder) -> list[np.ndarray]:
    """uint64 columns whose order is that of the term."""
    codes = order_code(column).astype(np.uint64, copy=False)
    if not term.ascending:
        codes = ~codes
    present = valid(column)
    if present is None:
        return [codes]
    nulls = present if term.nulls_first else ~present
    return [nulls.astype(np.uint64), np.where(present, codes, np.uint64(0))]


def _ties(groups: Groups, before: int, codes: Sequence[np.ndarray]) -> np.ndarray:
    """Where a new row ties with the new one before it in its group."""
    rows = groups.order - before
    tied = np.zeros(len(rows), dtype=bool)
    tied[1:] = (rows[1:] >= 0) & (rows[:-1] >= 0)
    tied[groups.starts] = False
    for code in codes:
        places = np.flatnonzero(tied)
        tied[places] = code[rows[places]] == code[rows[places - 1]]
    return tied


def _untied(order: np.ndarray, tied: np.ndarray, before: int, columns: Sequence[pa.Array]) -> np.ndarray:
    """`order` with each run of ties in the order of all columns."""
    among = tied.copy()
    among[:-1] |= tied[1:]
    places = np.flatnonzero(among)
    index = pa.array(order[places] - before)
    codes: list[np.ndarray] = [np.cumsum(~tied)[places]]
    for number, column in enumerate(columns):
        codes += _codes(column.take(index), MatchOrder(number, True, True))
    result = order.copy()
    result[places] = order[places][np.lexsort(codes[::-1])]
    return result
