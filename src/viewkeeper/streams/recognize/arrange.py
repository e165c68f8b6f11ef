"""The rows of a part in the order in which they are matched."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.streams.recognize.plan import MatchOrder
from viewkeeper.trace.grouping import Groups, group_rows, stable_argsort
from viewkeeper.trace.keys import order_code, valid


def in_order(
    hashes: np.ndarray, keys: Sequence[int], columns: Sequence[pa.Array], order: Sequence[MatchOrder]
) -> Groups:
    """Rows by group (`keys` are positions in `columns`), within it by `order`, ties by all columns from left to right.

    Rows that tie in that too are the same, so any order of them is right.
    """
    terms = [_codes(columns[term.column], term) for term in order]
    sorted_ = np.arange(len(hashes))
    for code in [code for codes in terms for code in codes][::-1]:
        sorted_ = sorted_[stable_argsort(code[sorted_])]
    index = pa.array(sorted_)
    groups = group_rows(hashes[sorted_], [columns[i].take(index) for i in keys])
    result = sorted_[groups.order]
    tied = _ties(result, groups.starts, [code for codes in terms for code in codes])
    if tied.any():
        result = _untied(result, tied, columns)
    return Groups(result, groups.starts)


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


def _ties(rows: np.ndarray, starts: np.ndarray, codes: Sequence[np.ndarray]) -> np.ndarray:
    """Where a row ties with the one before it in its group."""
    tied = np.ones(len(rows), dtype=bool)
    tied[starts] = False
    for code in codes:
        ranked = code[rows]
        tied[1:] &= ranked[1:] == ranked[:-1]
    return tied


def _untied(rows: np.ndarray, tied: np.ndarray, columns: Sequence[pa.Array]) -> np.ndarray:
    """`rows` with each run of ties in the order of all columns."""
    among = tied.copy()
    among[:-1] |= tied[1:]
    places = np.flatnonzero(among)
    run = np.cumsum(~tied)[places]
    index = pa.array(rows[places])
    codes: list[np.ndarray] = [run]
    for number, column in enumerate(columns):
        codes += _codes(column.take(index), MatchOrder(number, True, True))
    result = rows.copy()
    result[places] = rows[places][np.lexsort(codes[::-1])]
    return result
