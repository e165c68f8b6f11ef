"""The rows of one part, group after group, each group's in the order in which the pattern takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.plans.pattern import PatternMatches
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.ordering import SortTerm, every, in_order
from viewkeeper.streams.patterns.block_shapes import HelperShape, PreparedShape
from viewkeeper.trace.grouping import group_rows
from viewkeeper.trace.keys import canonical, equal_rows


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
            order = in_order(order, self.length, self._terms())
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
        yield from every([columns[self._shape.source[i]] for i in range(plan.width)])

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
