"""The machine for one group, row by row in plain numbers: for the few groups with very many rows in a part.

It gives the same partial matches as `simulation.Simulation`, which takes all groups' rows of one rank at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewkeeper.streams.patterns.crossing import Crossing, Test
from viewkeeper.streams.patterns.matches import BEGIN, MOST_COMPARED, PARENT, Choice
from viewkeeper.streams.patterns.sequences import Sequences

MatchColumn = list[int]
"""A column of `Matches`."""
State = tuple[int, MatchColumn]
MatchAnswer = tuple[int, MatchColumn]
"""The last row of an answer, and the match."""


class LongGroup:
    """Walks through groups of one part, one after another."""

    def __init__(self, choice: Choice, rows: Sequences, crossing: Crossing) -> None:
        machine = choice.machine
        self._choice, self._machine, self._last, self._plan = choice, machine, machine.last, machine.plan
        self._tests = rows.tests
        self._cross: list[list[Test]] = [[], *(crossing.tests(v) for v in range(1, machine.last + 1))]
        self._origins = {v: choice.remembered + i for i, v in enumerate(crossing.origins)}
        self._targets = [[], *(machine.targets(v) for v in range(1, machine.last + 1))]
        self._codes = [self._numbers(crossing, k) for k in range(len(self._plan.slots))]
        self._row_of = [choice.remembered + i for i in crossing.of_slot]
        self._shared = {pair: machine.shared(*pair) for pair in machine.includes}

    def _numbers(self, crossing: Crossing, k: int) -> list[int | None]:
        codes, present = crossing.codes[k].tolist(), crossing.present[k]
        if present is None:
            return list(codes)
        return [code if there else None for code, there in zip(codes, present.tolist(), strict=True)]

    def run(
        self, begin: Sequence[State], first: int, stop: int, best: MatchAnswer | None
    ) -> tuple[list[State], MatchAnswer | None]:
        """Takes rows `first` to `stop` (exclusive); raises OverflowError(limit) where there are too many matches."""
        tests = [[], *(test[first:stop].tolist() for test in self._tests[1:])]
        some = [any(row) for row in zip(*tests[1:], strict=True)]
        live = list(begin)
        fleeting = not self._machine.variable(self._last).plus
        for i in range(stop - first):
            if not some[i]:
                live = []
                continue
            after = self._step(live, tests, i, first + i)
            for (state, *_), match in after.items():
                if state == self._last and self._beats(match, first + i, best):
                    best = first + i, match
            live = [(key[0], match) for key, match in after.items() if not (fleeting and key[0] == self._last)]
            if len(live) > 1 and self._choice.dominance:
                live = self._needed(live)
            if self._plan.limit is not None and len(live) > self._plan.limit:
                raise OverflowError(self._plan.limit)
        return live, best

    def _step(self, live: Sequence[State], tests: list[list[bool]], i: int, at: int) -> dict[tuple, MatchColumn]:
        after: dict[tuple, MatchColumn] = {}
        for state, match in live:
            remembered = match[self._choice.remembered :]
            for v in self._targets[state]:
                if tests[v][i] and all(test(at, remembered) for test in self._cross[v]):
                    self._add(after, v, self._entered(match, v, at, v != state))
        if tests[1][i]:
            match = [0] * self._choice.height
            match[PARENT], match[BEGIN] = -1, at
            if 1 in self._origins:
                match[self._origins[1]] = at
            self._add(after, 1, match)
        return after

    def _entered(self, match: MatchColumn, v: int, at: int, moved: bool) -> MatchColumn:
        if not (moved and self._plan.detailed) and v not in self._origins:
            return match
        match = match.copy()
        if moved and self._plan.detailed:
            match[BEGIN + v - 1] = at
        if v in self._origins:
            match[self._origins[v]] = at
        return match

    def _add(self, after: dict[tuple, MatchColumn], v: int, match: MatchColumn) -> None:
        key = (v, *(self._codes[k][match[self._row_of[k]]] for k in self._choice.live[v]))
        other = after.get(key)
        if other is None or self._preference(match, v) < self._preference(other, v):
            after[key] = match

    def _preference(self, match: MatchColumn, state: int) -> list[int]:
        later = range(BEGIN + 1, BEGIN + min(state, self._choice.begins))
        return [match[BEGIN], *(-match[i] for i in later)]

    def _beats(self, match: MatchColumn, at: int, best: MatchAnswer | None) -> bool:
        if best is None:
            return True
        end, old = best
        if at == end:
            return self._rank(match) < self._rank(old)
        return at - match[BEGIN] >= end - old[BEGIN]

    def _rank(self, match: MatchColumn) -> tuple:
        """What sorts matches in the accepting state that end at one row, as `Choice.best` does."""
        values = (self._codes[k][match[self._row_of[k]]] for k in self._choice.live[self._last])
        return self._preference(match, self._last), [(value is not None, value or 0) for value in values]

    def _needed(self, live: list[State]) -> list[State]:
        many: dict[int, int] = {}
        for state, _ in live:
            many[state] = many.get(state, 0) + 1
        return [(q, match) for q, match in live
                if not any(self._makes_needless(p, other, q, match, many) for p, other in live)]  # fmt: skip

    def _makes_needless(self, p: int, other: MatchColumn, q: int, match: MatchColumn, many: dict[int, int]) -> bool:
        shared = self._shared.get((p, q))
        if shared is None or other[BEGIN] > match[BEGIN]:
            return False
        if p == q and (other is match or not shared):
            return False
        if shared and many[p] > MOST_COMPARED:
            return False
        if other[BEGIN] == match[BEGIN] and (self._plan.detailed or p < q):
            return False
        return all(self._related(k, other, match) for k in shared)

    def _related(self, k: int, one: MatchColumn, other: MatchColumn) -> bool:
        row = self._row_of[k]
        a, b = self._codes[k][one[row]], self._codes[k][other[row]]
        if a is None or b is None:
            return a is b
        relation = self._plan.slots[k].relation
        return a == b if relation == "=" else a <= b if relation == "<=" else a >= b
