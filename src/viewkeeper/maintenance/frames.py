"""Rows in the order of a window: where each one's partition, its equals and its frame begin and end, and what is found
in a frame.

Frames are `low` and `high` (int64[n]): the places [low[i], high[i]) are those that row i looks at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from viewkeeper.evaluation.exact_integer import differences
from viewkeeper.plans.relations import Frame
from viewkeeper.trace.keys import canonical, exact_codes, order_code
from viewkeeper.trace.ordering import OrderTerm, order_keys


@dataclass(frozen=True)
class Before:
    """For each place what lies before the first row of its partition that is here: `rows`, those in which a call's
    argument is not NULL, the states of the exact sums of these, the least or greatest, and how many of the rows the
    order tells apart (None: not asked for)."""

    rows: np.ndarray
    present: np.ndarray
    sums: list[pa.Array] | None
    extreme: pa.Array | None = None
    kinds: np.ndarray | None = None


@dataclass(frozen=True)
class Placed:
    """Rows in order: `order` (int64[n]) says which row stands at each place, `first` and `stop` where its partition
    begins and ends, `peer` and `behind` where the rows that the order finds equal to it do; `low` and `high` where its
    frame does, if that is a question of values; `passed` what lies before the first, if the partition begins before."""

    order: np.ndarray
    first: np.ndarray
    stop: np.ndarray
    peer: np.ndarray
    behind: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    passed: Before | None = None

    def __len__(self) -> int:
        return len(self.order)

    @cached_property
    def at(self) -> np.ndarray:
        """The places themselves."""
        return np.arange(len(self))

    @cached_property
    def back(self) -> np.ndarray:
        """The place of each row."""
        places = np.empty(len(self), dtype=np.int64)
        places[self.order] = self.at
        return places

    def frames(self, frame: Frame) -> tuple[np.ndarray, np.ndarray]:
        """Each row's frame; one that is empty ends where it begins."""
        low, high = self.first, self.stop
        if self.low is not None:
            low = self.low
        elif frame.start is not None:
            low = self.peer if frame.unit == "RANGE" else np.clip(self.at + frame.start, self.first, self.stop)
        if self.high is not None:
            high = self.high
        elif frame.end is not None:
            high = self.behind if frame.unit == "RANGE" else np.clip(self.at + frame.end + 1, self.first, self.stop)
        return low, np.maximum(low, high)


def placed(
    partition: np.ndarray, terms: Sequence[OrderTerm], ties: Sequence[OrderTerm], columns: Sequence[pa.Array]
) -> Placed:
    """The rows of each partition (int64: its number) in the order of `terms`, equal ones in that of `ties`.

    `columns` are all that rows consist of: what is still equal then (both zeros are one value in every order; rows may
    differ in what names their base row) stands in the same order in every batch all the same.
    """
    length = len(partition)
    keys = [partition, *order_keys(terms)]
    every = [*keys, *order_keys(ties)]
    order = np.lexsort(every[::-1])
    if columns and not _begins(every, order).all():
        every += [code for column in columns for code in exact_codes(column)]
        order = np.lexsort(every[::-1])
    bounds = []
    for part in (keys[:1], keys):
        starts = np.flatnonzero(_begins(part, order))
        lengths = np.diff(starts, append=length)
        bounds += [np.repeat(starts, lengths), np.repeat(starts + lengths, lengths)]
    first, stop, peer, behind = bounds
    return Placed(order, first, stop, peer, behind)


def places_of(values: pa.Array, rows: Placed, partition: np.ndarray, term: OrderTerm, *, behind: bool) -> np.ndarray:
    """Where in its own partition (int64: its number) each row's value of `values` would stand among those of `term`,
    the one term of the order: at the first that is equal to it, or `behind` the last.  By place."""
    column = term.column if term.column.type == values.type else term.column.cast(values.type)
    both = pa.concat_arrays([column, values])
    keys = [np.tile(partition, 2), *order_keys([term._replace(column=both)])]
    order = np.lexsort(keys[::-1])
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.cumsum(_begins(keys, order))
    own, wanted = ranks[: len(rows)][rows.order], ranks[len(rows) :][rows.order]
    return np.searchsorted(own, wanted, "right" if behind else "left")


def _begins(keys: Sequence[np.ndarray], order: np.ndarray) -> np.ndarray:
    """Where other values of `keys` begin, in `order`."""
    new = np.zeros(len(order), dtype=bool)
    new[:1] = True
    for key in keys:
        ranked = key[order]
        new[1:] |= ranked[1:] != ranked[:-1]
    return new


def counts(present: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """How many rows of each frame are `present`."""
    return differences(present.astype(np.int64), low, high)


def nth(present: np.ndarray | None, low: np.ndarray, high: np.ndarray, number: int) -> np.ndarray:
    """The place of row `number` of each frame, counted from 1, or from its end on by -1, -2 ...; -1 where there is
    none.  Only rows that are `present` are counted (None: all are)."""
    places = None
    if present is not None:
        places = np.flatnonzero(present)
        low, high = np.searchsorted(places, low), np.searchsorted(places, high)
    found = low + number - 1 if number > 0 else high + number
    found = np.where((found >= low) & (found < high), found, -1)
    if places is None or not len(places):
        return found
    return np.where(found < 0, -1, places[found])


def extremes(values: pa.Array, low: np.ndarray, high: np.ndarray, *, greatest: bool) -> pa.Array:
    """The smallest or the greatest value of each frame; NULL of none."""
    present = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    distinct, where, number = np.unique(order_code(values)[present], return_index=True, return_inverse=True)
    ranks = np.full(len(values), -1)
    ranks[present] = number if greatest else len(distinct) - 1 - number
    best = _greatest(ranks, low, high)
    if not len(distinct):
        return pa.nulls(len(low), values.type)
    of_rank = present[where if greatest else where[::-1]]
    return canonical(values.take(pa.array(of_rank[np.maximum(best, 0)], mask=best < 0)))


def outermost(one: pa.Array, other: pa.Array, *, greatest: bool) -> pa.Array:
    """Of each pair of values the smaller or the greater; where one is NULL, the other."""
    length = len(one)
    both = pa.concat_arrays([one, other])
    present = both.is_valid().to_numpy(zero_copy_only=False)
    code = order_code(both)
    farther = code[length:] > code[:length] if greatest else code[length:] < code[:length]
    chosen = present[length:] & (~present[:length] | farther)
    return canonical(both.take(pa.array(np.arange(length) + np.where(chosen, length, 0))))


def _greatest(ranks: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The greatest rank of each frame, -1 of none: of two halves that overlap, their lengths powers of two."""
    lengths = high - low
    level = np.frexp(lengths.astype(np.float64))[1] - 1
    found = np.full(len(low), -1)
    for k in range(int(level.max(initial=-1)) + 1):
        mine = np.flatnonzero(level == k)
        found[mine] = np.maximum(ranks[low[mine]], ranks[high[mine] - (1 << k)])
        ranks = np.maximum(ranks[: -(1 << k)], ranks[1 << k :])
    return found
