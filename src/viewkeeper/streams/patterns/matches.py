"""`Matches`: partial matches as columns of whole numbers, and the choice among those that say the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from viewkeeper.streams.patterns.crossing import Crossing
from viewkeeper.streams.patterns.fsm import Machine
from viewkeeper.trace.grouping import spread

GROUP, PARENT, BEGIN = 0, 1, 2
"""Rows of the table `Matches`: the group; the Helper's row of the part before from which it goes on, -1: none; and
where it began.  Rows count from the part's first, so that a group's earlier rows lie before its own first one here.
With a detailed plan row BEGIN + v - 1 is where variable v began.  Then comes a row for each of `Crossing.origins`."""

Matches = np.ndarray
"""int64, a column a match; all in one state, sorted by group."""

MOST_COMPARED = 256
"""Larger sets of one group and state are not searched for needless matches."""


@dataclass(frozen=True)
class Choice:
    """Which matches are equal, better, or needless."""

    machine: Machine
    crossing: Crossing
    dominance: bool

    @cached_property
    def begins(self) -> int:
        """How many rows of the table say where variables began."""
        return self.machine.last if self.machine.plan.detailed else 1

    @property
    def remembered(self) -> int:
        """The table's first row of positions remembered."""
        return BEGIN + self.begins

    @property
    def height(self) -> int:
        """The number of the table's rows."""
        return self.remembered + len(self.crossing.origins)

    @cached_property
    def live(self) -> tuple[tuple[int, ...], ...]:
        """The slots that count, by state."""
        return ((), *(self.machine.live(v) for v in range(1, self.machine.last + 1)))

    def preference(self, table: Matches, state: int) -> list[np.ndarray]:
        """What sorts matches of one state with the best first: who began first; then who gives more rows to earlier
        variables, that is, began later with each next one."""
        later = range(BEGIN + 1, BEGIN + min(state, self.begins))
        return [table[BEGIN], *(-table[i] for i in later)]

    def one_of_equals(self, state: int, table: Matches) -> Matches:
        """`table` sorted by group, and of matches that remember the same only the best one."""
        group = table[GROUP]
        if (group[1:] < group[:-1]).any():
            table = table[:, np.argsort(group, kind="stable")]
            group = table[GROUP]
        doubled = group[1:] == group[:-1]
        if not doubled.any():
            return table
        again = np.append(doubled, False)
        again[1:] |= doubled
        places = np.flatnonzero(again)
        some = table[:, places]
        equal = [some[GROUP], *self._values(state, some)]
        order = np.lexsort([*self.preference(some, state)[::-1], *equal[::-1]])
        first = np.ones(len(order), np.bool_)
        if len(order) > 1:
            first[1:] = False
            for values in equal:
                ranked = values[order]
                first[1:] |= ranked[1:] != ranked[:-1]
        keep = ~again
        keep[places[order[first]]] = True
        return table[:, keep]

    def _values(self, state: int, table: Matches) -> list[np.ndarray]:
        """What is remembered in a state, as numbers that are equal where the values are; NULL comes first."""
        values = []
        for k in self.live[state]:
            at = table[self.remembered + self.crossing.of_slot[k]]
            present = self.crossing.present[k]
            if present is None:
                values.append(self.crossing.codes[k][at])
            else:
                values += [present[at], np.where(present[at], self.crossing.codes[k][at], np.uint64(0))]
        return values

    def best(self, table: Matches, state: int) -> Matches:
        """Of each group the best match; of those that only differ in what they remember, that with the least values."""
        group = table[GROUP]
        if not (group[1:] == group[:-1]).any():
            return table
        order = np.lexsort([*self._values(state, table)[::-1], *self.preference(table, state)[::-1], group])
        ranked = group[order]
        first = np.append(True, ranked[1:] != ranked[:-1])
        return table[:, order[first]]

    def includes_all(self, state: int, other: int) -> bool:
        """Whether `state` includes `other` whatever is remembered."""
        return (state, other) in self.machine.includes and not self.machine.shared(state, other)

    def needed(self, blocks: Sequence[Matches | None], groups: int) -> list[Matches | None]:
        """`blocks` (by state) without the matches that another one makes needless."""
        if not self.dominance:
            return list(blocks)
        kept: list[Matches | None] = list(blocks)
        for q, block in enumerate(blocks):
            if block is None or not block.shape[1]:
                continue
            needless = np.zeros(block.shape[1], np.bool_)
            for p, other in enumerate(blocks):
                if other is None or not other.shape[1] or (p, q) not in self.machine.includes:
                    continue
                if self.machine.shared(p, q):
                    needless |= self._needless_beside(p, q, other, block)
                elif p != q:
                    needless |= self._needless_behind(p > q, other, block, groups)
            if needless.any():
                kept[q] = block[:, ~needless]
        return kept

    def _needless_behind(self, greater: bool, other: Matches, block: Matches, groups: int) -> np.ndarray:
        """Of `block`, those that began after the first of their group in `other`."""
        first = np.full(groups, np.iinfo(np.int64).max)
        group, begin = other[GROUP], other[BEGIN]
        if (group[1:] == group[:-1]).any():
            np.minimum.at(first, group, begin)
        else:
            first[group] = begin
        mine, found = block[BEGIN], first[block[GROUP]]
        return found <= mine if greater and not self.machine.plan.detailed else found < mine

    def _needless_beside(self, p: int, q: int, other: Matches, block: Matches) -> np.ndarray:
        low = np.searchsorted(other[GROUP], block[GROUP], "left")
        counts = np.searchsorted(other[GROUP], block[GROUP], "right") - low
        counts[counts > MOST_COMPARED] = 0
        b, a = np.repeat(np.arange(block.shape[1]), counts), spread(low, counts)
        holds = other[BEGIN, a] < block[BEGIN, b]
        if not self.machine.plan.detailed and p >= q:
            together = other[BEGIN, a] == block[BEGIN, b]
            holds |= together if p > q else together & (a != b)
        for k in self.machine.shared(p, q):
            row = self.remembered + self.crossing.of_slot[k]
            holds &= self._related(k, other[row, a], block[row, b])
        needless = np.zeros(block.shape[1], np.bool_)
        needless[b[holds]] = True
        return needless

    def _related(self, k: int, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        relation, codes, present = self.machine.plan.slots[k].relation, self.crossing.codes[k], self.crossing.present[k]
        a, b = codes[one], codes[other]
        holds = a == b if relation == "=" else a <= b if relation == "<=" else a >= b
        if present is None:
            return holds
        return np.where(present[one] & present[other], holds, ~present[one] & ~present[other])
