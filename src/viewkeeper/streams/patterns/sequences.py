"""The rows of one part, group after group, each group's in the order in which the pattern takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.plans.pattern import PatternMatches
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.patterns.shape import HelperShape, PreparedShape
from viewkeeper.trace.grouping import group_rows
from viewkeeper.trace.keys import canonical, equal_rows, order_code, valid

SortTerm = tuple[pa.Array, bool, bool]
"""A column to sort by: its values, whether ascending, whether NULL comes first."""


class Sequences:
    """`count` rows in `groups` groups; group g has rows `first[g]` to `first[g] + length[g]` (exclusive)."""

    def __init__(self, plan: PatternMatches, shape: PreparedShape, rows: Block) -> None:
        self._plan, self._shape, self._rows = plan, shape, rows
        keys = [canonical(rows.columns[i]) for i in shape.keys]
        grouped = group_rows(rows.hashes, keys)
        self.first, self.length = grouped.starts, grouped.lengths
        self.groups, self.count = len(self.first), len(rows)
        order = grouped.order
        if not plan.single and self.groups < self.count:
            order = _in_order(order, self.first, self.length, self._terms())
        self._order = pa.array(order)
        self.hashes = rows.hashes[grouped.firsts]
        self.keys = [column.take(pa.array(grouped.firsts)) for column in keys]
        tests = rows.columns[-1].to_numpy()[order]
        self.tests = [np.zeros(0, np.bool_)] + [(tests >> v & 1).astype(np.bool_) for v in range(len(plan.variables))]
        self._columns: dict[int, pa.Array] = {}
        self._before: pa.Array | None = None
        self._old: list[pa.Array] = []

    def _terms(self) -> Iterator[SortTerm]:
        plan, columns = self._plan, self._rows.columns
        if plan.time is not None:
            yield columns[self._shape.source[plan.time]], True, True
        for place, term in zip(self._shape.order, plan.order, strict=True):
            yield columns[place], term.ascending, term.nulls_first
        for i in range(plan.width):
            yield columns[self._shape.source[i]], True, True
        for i in range(plan.width):  # 0.0 and -0.0 are equal, but not the same
            if pa.types.is_floating(columns[self._shape.source[i]].type):
                yield _bits(columns[self._shape.source[i]]), True, True

    def column(self, index: int) -> pa.Array:
        """Column `index` of the rows in order; from `width` on, that of each row's row before."""
        if index not in self._columns:
            own = index % self._plan.width
            if index < self._plan.width:
                self._columns[index] = self._rows.columns[self._shape.source[own]].take(self._order)
            else:
                assert self._before is not None
                earlier = self._old[self._plan.previous.index(own)]
                self._columns[index] = pa.concat_arrays([self.column(own), earlier]).take(self._before)
        return self._columns[index]

    def follow(self, old: Block, shape: HelperShape) -> np.ndarray:
        """Says what came before: the Helper's rows of the part before.  Returns the group of each, -1 for none here."""
        group = self._group_of(old.hashes, [old.columns[i] for i in shape.keys])
        if self._plan.previous:
            here = np.flatnonzero(group >= 0)
            before = np.arange(self.count) - 1
            before[self.first] = -1
            before[self.first[group[here]]] = self.count + here
            self._before = pa.array(before, mask=before < 0)
            self._old = [old.columns[i] for i in shape.previous]
        return group

    def _group_of(self, hashes: np.ndarray, keys: Sequence[pa.Array]) -> np.ndarray:
        if not len(hashes) or not self.groups:
            return np.full(len(hashes), -1)
        alike = np.array_equal(hashes, self.hashes) and bool((hashes[1:] > hashes[:-1]).all())
        group = np.arange(self.groups) if alike else np.searchsorted(self.hashes, hashes)
        found = np.full(len(hashes), -1)
        open_ = np.flatnonzero((group < self.groups) & (self.hashes[np.minimum(group, self.groups - 1)] == hashes))
        while len(open_):
            candidates = group[open_]
            same = np.ones(len(open_), np.bool_)
            if keys:
                mine, theirs = pa.array(candidates), pa.array(open_)
                same = equal_rows([key.take(mine) for key in self.keys], [key.take(theirs) for key in keys])
            found[open_[same]] = candidates[same]
            open_ = open_[~same]  # another group with this hash may follow
            group[open_] += 1
            open_ = open_[group[open_] < self.groups]
            open_ = open_[self.hashes[group[open_]] == hashes[open_]]
        return found


def _in_order(order: np.ndarray, first: np.ndarray, length: np.ndarray, terms: Iterator[SortTerm]) -> np.ndarray:
    """`order` with the rows of each group sorted by `terms`, each of which is looked at only where those before tie."""
    order = order.copy()
    tied = np.repeat(np.arange(len(first)), length)  # for each place the number of its run of ties
    places = np.flatnonzero(np.repeat(length > 1, length))
    for column, ascending, nulls_first in terms:
        if not len(places):
            break
        run = tied[places]
        codes = _codes(column.take(pa.array(order[places])), ascending, nulls_first)
        within = np.lexsort([*codes[::-1], run])
        order[places] = order[places][within]
        new = np.zeros(len(places), np.bool_)
        for code in (run, *(code[within] for code in codes)):
            new[1:] |= code[1:] != code[:-1]
        new[0] = True
        tied[places] = np.cumsum(new)
        alone = new & np.append(new[1:], True)
        places = places[~alone]
    return order


def _codes(column: pa.Array, ascending: bool, nulls_first: bool) -> list[np.ndarray]:
    code = order_code(column).astype(np.uint64)
    if not ascending:
        code = ~code
    present = valid(column)
    if present is None:
        return [code]
    return [present if nulls_first else ~present, np.where(present, code, np.uint64(0))]


def _bits(column: pa.Array) -> pa.Array:
    return column.view(pa.int64() if column.type == pa.float64() else pa.int32())
