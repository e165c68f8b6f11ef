"""Sorting and grouping rows by hash, exact where hashes collide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewkeeper.trace.keys import equal_rows, exact_codes, numbered


@dataclass(frozen=True)
class Groups:
    """`order` (int64[n]) puts rows of one key next to each other; `starts` (int64[g]) are the positions in `order`
    where a new key begins."""

    order: np.ndarray
    starts: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """int64[g]: the number of rows of each key."""
        return np.diff(self.starts, append=len(self.order))

    @property
    def firsts(self) -> np.ndarray:
        """int64[g]: the row that comes first in each key."""
        return self.order[self.starts]

    @property
    def lasts(self) -> np.ndarray:
        """int64[g]: the row that comes last in each key."""
        return self.order[self.starts + self.lengths - 1]


def group_rows(hashes: np.ndarray, keys: Sequence[pa.Array]) -> Groups:
    """Rows sorted by hash, then by exact key, and within a key as they came; `hashes` are those of `keys`."""
    return group_sorted(hashes, keys, stable_argsort(hashes))


def group_sorted(hashes: np.ndarray, keys: Sequence[pa.Array], order: np.ndarray) -> Groups:
    """`group_rows`, where `order` sorts `hashes` already (stably)."""
    ranked = hashes[order]
    new = np.ones(len(order), dtype=bool)
    np.not_equal(ranked[1:], ranked[:-1], out=new[1:])
    return settled(order, new, keys)


def settled(order: np.ndarray, new: np.ndarray, keys: Sequence[pa.Array]) -> Groups:
    """Rows in `order`, those between two places where `new` says that others begin put in the order of `keys`."""
    tied = np.flatnonzero(~new)
    if len(tied) and keys:
        before, after = pa.array(order[tied - 1]), pa.array(order[tied])
        compared = [_quick_to_take(key) for key in keys]
        equal = equal_rows([key.take(before) for key in compared], [key.take(after) for key in compared])
        if not equal.all():
            order = _settle(order, new, tied[~equal], keys)
    return Groups(order, np.flatnonzero(new))


def _quick_to_take(key: pa.Array) -> pa.Array:
    """A column that is equal in the rows in which `key` is: strings in no order take long to fetch."""
    key = numbered(key)
    return key.indices if pa.types.is_dictionary(key.type) else key


def _settle(order: np.ndarray, new: np.ndarray, mismatched: np.ndarray, keys: Sequence[pa.Array]) -> np.ndarray:
    """Sort the hash groups around the positions `mismatched` by exact key; sets `new` where a key begins in them."""
    group = np.cumsum(new) - 1
    hit = np.zeros(group[-1] + 1, dtype=bool)
    hit[group[mismatched]] = True
    places = np.flatnonzero(hit[group])
    rows = order[places]
    index = pa.array(rows)
    codes = [group[places]]
    for key in keys:
        codes += exact_codes(key.take(index))
    within = np.lexsort(codes[::-1])
    order = order.copy()
    order[places] = rows[within]
    differs = np.zeros(len(places), dtype=bool)
    for code in codes:
        ranked = code[within]
        differs[1:] |= ranked[1:] != ranked[:-1]
    differs[0] = True
    new[places] = differs
    return order


def stable_argsort(values: np.ndarray) -> np.ndarray:
    """int64[n]: the stable order of uint64 values.

    NumPy's stable sort (timsort) is quickest on a few sorted runs, one after another.  On random input its quick sort,
    vectorised but not stable, is six times faster; ties are put in order afterwards, as numbers (tie << 32 | row).
    """
    falls = np.count_nonzero(values[1:] < values[:-1])
    if not falls:
        return np.arange(len(values))
    if falls * 256 < len(values) or len(values) > 1 << 32:
        return np.argsort(values, kind="stable")
    order = np.argsort(values)
    ranked = values[order]
    same = ranked[1:] == ranked[:-1]
    tied = np.zeros(len(values), dtype=bool)
    tied[1:] = same
    tied[:-1] |= same
    places = np.flatnonzero(tied)
    if len(places):
        ties = np.cumsum(np.append(True, ~same))[places]
        order[places] = np.sort(ties << 32 | order[places]) & 0xFFFFFFFF
    return order


def spread(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """int64: the ranges [starts[i], starts[i] + lengths[i]), one after another."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - ends + lengths, lengths)
