"""Greedy row pattern matching in linear time, all groups at once.

A pattern is a row of positions 1..n, each with a variable; after position k may come those in `follow[k]`, and the
lowest is preferred: the position itself where it repeats, then the next, then those behind optional ones.  So the
standard's preferred match is, from its first row on, at each row the lowest position from which the match can still be
completed.  Which ones can is known from a pass over the rows backwards; a pass forwards then follows the preferred way
and never has to turn back, whatever the pattern.  Behind a group's last row everything is still possible: a match is
decided if its preferred way ends before, since no better way was then left open.

Sets of positions are bit masks (bit k-1 for position k).  Groups are walked side by side, a row of each at a time; long
ones are cut into pieces that are walked from every state at once and then joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from viewkeeper.trace.grouping import spread

MOST_POSITIONS = 60
_LONGEST = 1024  # rows walked one after another before a group is cut
_ONE = np.uint64(1)
_LOWEST = np.append(np.arange(1, 65, dtype=np.uint8), np.uint8(0))
"""The position of a mask's lowest bit, by the number of zeros below it; 0 for the empty mask."""

Step = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""(rows, states) to (the states behind them, what is to be kept of the rows)."""


@dataclass(frozen=True)
class DecidedMatches:
    """The matches that are decided, in the order of their rows, and what is not.

    Match m takes the `lengths[m]` rows from `firsts[m]` on; `labels` has the position of each of these rows, match
    after match.  `open` is, for each group, the first row from which a match may still begin that is not decided (the
    row behind the group where there is none).  No match that is decided begins behind it: its way would meet the open
    one's, and could go on with it, which is preferred (the lower position).
    """

    firsts: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray
    open: np.ndarray


class Automaton:
    """The positions of one pattern; `positions` are (variable, may be repeated, may be left out), and the last one is
    neither of both."""

    def __init__(self, positions: Sequence[tuple[int, bool, bool]], variables: int) -> None:
        count = len(positions)
        if not 1 <= count <= MOST_POSITIONS or positions[-1][1] or positions[-1][2]:
            raise ValueError("a pattern has 1 to 60 positions, and the last one takes exactly one row")
        follow = [_follow(positions, k) for k in range(count)]
        self.count = count
        self.variables = np.array([-1, *(variable for variable, _, _ in positions)])
        self._final = np.uint64(1 << count - 1)
        self._follow = np.array([*follow, follow[0]], dtype=np.uint64)
        self._symbols = _Union([_mask(k for k in range(1, count + 1) if positions[k - 1][0] == variable)
                                for variable in range(variables)])  # fmt: skip
        self._before = _Union([_mask(k for k in range(1, count) if follow[k] >> p & 1) for p in range(count)])

    def text(self, variables: Sequence[str]) -> Iterator[str]:
        """The states, 0 before a match and k behind position k, and by which of `variables` they are left, preferred
        first."""
        for state in range(self.count):
            goes = [k for k in range(1, self.count + 1) if int(self._follow[state]) >> k - 1 & 1]
            yield f"state {state}: {', '.join(f'{variables[self.variables[k]]} -> {k}' for k in goes)}"
        yield f"state {self.count}: accepts"

    def search(self, truth: np.ndarray, starts: np.ndarray, past: bool) -> DecidedMatches:
        """The matches in groups of rows (group i begins at `starts[i]`, none is empty).

        `truth` (uint64 a row) has bit v where the row satisfies variable v.  Not `past`: a match may begin at each row.
        """
        lengths = np.diff(starts, append=len(truth))
        able = self._completable(self._symbols(truth), starts, lengths)
        return (self._disjoint if past else self._overlapping)(able, starts, lengths)

    def _completable(self, symbols: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """For each row the positions it can take in a match that is or may yet be completed."""

        def step(rows: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            able = symbols[rows] & (after | self._final)
            return self._before(able), able

        def combined(result: np.ndarray, after: np.ndarray) -> np.ndarray:
            # `result` holds what each single position, and none, leads to; a union leads to the union.
            state = result[:, -1].copy()
            for bit in range(self.count - 1):
                state |= np.where(after >> np.uint64(bit) & _ONE, result[:, bit], np.uint64(0))
            return state

        basis = np.append(_ONE << np.arange(self.count - 1, dtype=np.uint64), np.uint64(0))
        everything = np.uint64(2**64 - 1)
        return _walk(step, basis, combined, everything, starts, lengths, backwards=True, kept=np.uint64)

    def _disjoint(self, able: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> DecidedMatches:
        def step(rows: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            state = _lowest(able[rows] & self._follow[state])
            return state, state

        def combined(result: np.ndarray, state: np.ndarray) -> np.ndarray:
            return result[np.arange(len(state)), state]

        states = np.arange(self.count + 1, dtype=np.uint8)
        taken = _walk(step, states, combined, np.uint8(0), starts, lengths, backwards=False, kept=np.uint8)
        before = np.zeros_like(taken)
        before[1:] = taken[:-1]
        before[starts] = 0
        begins = np.flatnonzero((taken != 0) & ((before == 0) | (before == self.count)))
        ends = np.flatnonzero(taken == self.count)
        firsts = begins[np.searchsorted(begins, ends, side="right") - 1]
        lasts = starts + lengths - 1
        undecided = (taken[lasts] != 0) & (taken[lasts] != self.count)
        open_ = lasts + 1
        open_[undecided] = begins[np.searchsorted(begins, lasts[undecided], side="right") - 1]
        sizes = ends - firsts + 1
        return DecidedMatches(firsts, sizes, taken[spread(firsts, sizes)], open_)

    def _overlapping(self, able: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> DecidedMatches:
        firsts = np.flatnonzero(able & self._follow[0])
        group = np.searchsorted(starts, firsts, side="right") - 1
        ends = (starts + lengths)[group]
        steps: list[tuple[np.ndarray, np.ndarray]] = []
        sizes = np.zeros(len(firsts), dtype=np.int64)
        lanes, state, size = np.arange(len(firsts)), np.zeros(len(firsts), dtype=np.uint8), 0
        while len(lanes):
            state = _lowest(able[firsts[lanes] + size] & self._follow[state])
            steps.append((lanes, state))
            size += 1
            done = state == self.count
            sizes[lanes[done]] = size
            going = ~done & (firsts[lanes] + size < ends[lanes])
            lanes, state = lanes[going], state[going]
        decided = sizes > 0
        places = np.cumsum(sizes) - sizes
        labels = np.zeros(int(sizes.sum()), dtype=np.uint8)
        for n, (lanes, state) in enumerate(steps):
            within = decided[lanes]
            labels[places[lanes[within]] + n] = state[within]
        open_ = starts + lengths
        np.minimum.at(open_, group[~decided], firsts[~decided])
        return DecidedMatches(firsts[decided], sizes[decided], labels, open_)


class _Union:
    """The union of the masks that belong to a mask's bits: a table for each of its bytes."""

    def __init__(self, masks: Sequence[int]) -> None:
        self._tables = []
        for low in range(0, len(masks), 8):
            table = np.zeros(256, dtype=np.uint64)
            for bit, mask in enumerate(masks[low : low + 8]):
                table[np.arange(256) >> bit & 1 == 1] |= np.uint64(mask)
            self._tables.append(table)

    def __call__(self, sets: np.ndarray) -> np.ndarray:
        result = self._tables[0][(sets & np.uint64(255)).astype(np.intp)]
        for byte, table in enumerate(self._tables[1:], 1):
            result |= table[(sets >> np.uint64(8 * byte) & np.uint64(255)).astype(np.intp)]
        return result


def _follow(positions: Sequence[tuple[int, bool, bool]], k: int) -> int:
    """The positions that may come after position `k` (0: at the beginning)."""
    after = [k] if k and positions[k - 1][1] else []
    for p in range(k + 1, len(positions) + 1):
        after.append(p)
        if not positions[p - 1][2]:
            break
    return _mask(after)


def _mask(positions: Iterable[int]) -> int:
    return sum(1 << k - 1 for k in set(positions))


def _lowest(masks: np.ndarray) -> np.ndarray:
    return _LOWEST[np.bitwise_count((masks & (~masks + _ONE)) - _ONE)]


def _walk(
    step: Step, basis: np.ndarray, combined: Callable[[np.ndarray, np.ndarray], np.ndarray], begin: np.generic,
    starts: np.ndarray, lengths: np.ndarray, *, backwards: bool, kept: type[np.generic],
) -> np.ndarray:  # fmt: skip
    """Walks all groups from the state `begin` on; gives what `step` keeps of each row.

    `basis` are states by which all are known, and `combined(results[pieces, basis], states)` gives the states behind
    pieces from the states before them.
    """
    out = np.zeros(int(lengths.sum()), dtype=kept)
    counts = -(-lengths // _LONGEST)
    first = np.cumsum(counts) - counts
    nth = np.arange(int(counts.sum())) - np.repeat(first, counts)
    firsts = np.repeat(starts, counts) + nth * _LONGEST
    sizes = np.minimum(_LONGEST, np.repeat(starts + lengths, counts) - firsts)
    state = np.full(len(firsts), begin)
    long = np.flatnonzero(counts > 1)
    if len(long):
        pieces = spread(first[long], counts[long])
        lanes = np.repeat(pieces, len(basis))
        behind = _side_by_side(step, firsts[lanes], sizes[lanes], np.tile(basis, len(pieces)), backwards, None)
        results = np.zeros((len(firsts), len(basis)), dtype=basis.dtype)
        results[pieces] = behind.reshape(len(pieces), len(basis))
        for n in range(int(counts.max()) - 1):
            groups = long[counts[long] > n + 1]
            here = first[groups] + (counts[groups] - 1 - n if backwards else n)
            state[here + (-1 if backwards else 1)] = combined(results[here], state[here])
    _side_by_side(step, firsts, sizes, state, backwards, out)
    return out


def _side_by_side(
    step: Step, firsts: np.ndarray, sizes: np.ndarray, state: np.ndarray, backwards: bool, out: np.ndarray | None
) -> np.ndarray:
    """Walks lanes of rows, the n-th row of every lane at once; gives the states behind them."""
    order = np.argsort(-sizes, kind="stable")
    sizes = sizes[order]
    at = firsts[order] + (sizes - 1 if backwards else 0)
    state = state[order]
    going = np.searchsorted(-sizes, -np.arange(int(sizes[0]) if len(sizes) else 0), side="left")
    for n, lanes in enumerate(going):
        rows = at[:lanes] - n if backwards else at[:lanes] + n
        state[:lanes], kept = step(rows, state[:lanes])
        if out is not None:
            out[rows] = kept
    result = np.empty_like(state)
    result[order] = state
    return result
