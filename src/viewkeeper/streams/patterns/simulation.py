"""Runs a machine over one part: the r-th rows of all groups at once; what few groups have many of, row by row."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from viewkeeper.errors import ViewBroken
from viewkeeper.streams.patterns.crossing import Crossing
from viewkeeper.streams.patterns.faults import group_text
from viewkeeper.streams.patterns.fsm import Machine
from viewkeeper.streams.patterns.long_groups import LongGroup
from viewkeeper.streams.patterns.matches import BEGIN, GROUP, PARENT, Choice, Matches
from viewkeeper.streams.patterns.sequences import Sequences

FEW_GROUPS = 24
"""So many groups or fewer are quicker one after another than together."""


@dataclass
class LiveMatches:
    """What came of a part.

    `live` are the partial matches behind each group's last row, with their states; `best` has a column for each group,
    and `best_end` the last row of its answer, -1 where there is none.
    """

    live: list[tuple[int, Matches]] = field(default_factory=list)
    best: Matches = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    best_end: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))


class Simulation:
    """One part.  `view` is named where a group has more partial matches than it may."""

    def __init__(self, machine: Machine, rows: Sequences, crossing: Crossing, view: str, dominance: bool) -> None:
        self._machine, self._rows, self._crossing, self._view = machine, rows, crossing, view
        self.choice = Choice(machine, crossing, dominance)
        self._plan, self._last = machine.plan, machine.last
        self._found = LiveMatches()
        self._found.best = np.zeros((self.choice.height, rows.groups), np.int64)
        self._found.best_end = np.full(rows.groups, -1)
        self._groups = np.arange(rows.groups)  # those that have rows left, by number

    def run(self, blocks: list[Matches | None]) -> LiveMatches:
        """From the partial matches before the part, by state (their groups all have rows here)."""
        rank = 0
        while len(self._groups):
            if rank and len(self._groups) <= FEW_GROUPS:
                self._one_by_one(blocks, rank)
                break
            blocks = self._step(blocks, self._rows.first[self._groups] + rank)
            rank += 1
            blocks = self._retire(blocks, rank)
        return self._found

    def _step(self, blocks: list[Matches | None], at: np.ndarray) -> list[Matches | None]:
        """Takes row `at[g]` of each group g."""
        after: list[Matches | None] = [None] * (self._last + 1)
        for v in range(1, self._last + 1):
            parts = []
            stay, come = blocks[v], blocks[v - 1]
            if self._machine.variable(v).plus and stay is not None:
                parts.append(self._enter(v, stay, at, False))
            if v > 1 and come is not None:
                parts.append(self._enter(v, come, at, True))
            if parts:
                table = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
                after[v] = self.choice.one_of_equals(v, table)
        self._begin(after, at)
        self._note_best(after[self._last], at)
        if not self._machine.variable(self._last).plus:
            after[self._last] = None
        after = self.choice.needed(after, len(at))
        self._check_limit(after, len(at))
        return after

    def _enter(self, v: int, block: Matches, at: np.ndarray, moved: bool) -> Matches:
        """Those of `block` whose row is one of variable v, with it."""
        rows = at[block[GROUP]]
        keep = self._rows.tests[v][rows]
        if not keep.all():
            block, rows = block[:, keep], rows[keep]
        if self._machine.variable(v).cross and len(rows):
            keep = self._crossing.holds(v, rows, block[self.choice.remembered :])
            if not keep.all():
                block, rows = block[:, keep], rows[keep]
        changed = {}
        if moved and self._plan.detailed:
            changed[BEGIN + v - 1] = rows
        if v in self._crossing.origins:
            changed[self.choice.remembered + self._crossing.origins.index(v)] = rows
        if changed:
            block = block.copy()
            for row, values in changed.items():
                block[row] = values
        return block

    def _begin(self, after: list[Matches | None], at: np.ndarray) -> None:
        """Adds the matches that begin with these rows, but for those that are needless at once."""
        can = self._rows.tests[1][at]
        if self.choice.dominance and self._last > 1:
            for v in range(1, self._last + 1):
                block = after[v]
                kept = v < self._last or self._machine.variable(v).plus
                if block is not None and kept and self.choice.includes_all(v, 1):
                    can[block[GROUP]] = False
        group = np.flatnonzero(can)
        if not len(group):
            return
        table = np.zeros((self.choice.height, len(group)), np.int64)
        table[GROUP], table[PARENT], table[BEGIN] = group, -1, at[group]
        if 1 in self._crossing.origins:
            table[self.choice.remembered] = at[group]
        block = after[1]
        whole = table if block is None else np.concatenate([block, table], axis=1)
        after[1] = self.choice.one_of_equals(1, whole)

    def _note_best(self, block: Matches | None, at: np.ndarray) -> None:
        if block is None or not block.shape[1]:
            return
        table = self.choice.best(block, self._last)
        group, end = self._groups[table[GROUP]], at[table[GROUP]]
        old = self._found.best_end[group]
        better = (old < 0) | (end - table[BEGIN] >= old - self._found.best[BEGIN, group])
        group = group[better]
        self._found.best[:, group] = table[:, better]
        self._found.best[GROUP, group] = group
        self._found.best_end[group] = end[better]

    def _check_limit(self, blocks: list[Matches | None], groups: int) -> None:
        limit = self._plan.limit
        if limit is None:
            return
        count = np.zeros(groups, np.int64)
        for block in blocks:
            if block is not None:
                count += np.bincount(block[GROUP], minlength=groups)
        over = np.flatnonzero(count > limit)
        if len(over):
            raise self._too_many(int(self._groups[over[0]]), limit)

    def _too_many(self, group: int, limit: int) -> ViewBroken:
        name = group_text(self._rows.keys, [key.type for key in self._plan.keys], group)
        return ViewBroken(f"{self._view}: the group {name} has more than {limit} partial matches, which is the view's "
                          "LIMIT; raise it, or narrow the pattern")  # fmt: skip

    def _retire(self, blocks: list[Matches | None], rank: int) -> list[Matches | None]:
        """Puts the matches of groups without a further row aside, and numbers the others anew."""
        going = self._rows.length[self._groups] > rank
        if going.all():
            return blocks
        number = np.cumsum(going) - 1
        kept: list[Matches | None] = [None] * len(blocks)
        for v, block in enumerate(blocks):
            if block is None or not block.shape[1]:
                continue
            stays = going[block[GROUP]]
            if not stays.all():
                done = block[:, ~stays]
                done[GROUP] = self._groups[done[GROUP]]
                self._found.live.append((v, done))
            if stays.any():
                kept[v] = block[:, stays]
                kept[v][GROUP] = number[kept[v][GROUP]]  # type: ignore[index]
        self._groups = self._groups[going]
        return kept

    def _one_by_one(self, blocks: list[Matches | None], rank: int) -> None:
        """The rest of the few groups that have rows left."""
        walk = LongGroup(self.choice, self._rows, self._crossing)
        for number, group in enumerate(self._groups):
            begin = []
            for v, block in enumerate(blocks):
                if block is not None:
                    low, high = np.searchsorted(block[GROUP], [number, number + 1])
                    begin += [(v, column) for column in block[:, low:high].T.tolist()]
            end = int(self._found.best_end[group])
            known = None if end < 0 else (end, self._found.best[:, group].tolist())
            first = int(self._rows.first[group])
            try:
                live, best = walk.run(begin, first + rank, first + int(self._rows.length[group]), known)
            except OverflowError as reached:
                raise self._too_many(int(group), int(str(reached))) from None
            if best is not None:
                self._found.best_end[group], self._found.best[:, group] = best
                self._found.best[GROUP, group] = group
            for v, column in live:
                table = np.array(column, np.int64).reshape(-1, 1)
                table[GROUP] = group
                self._found.live.append((v, table))
