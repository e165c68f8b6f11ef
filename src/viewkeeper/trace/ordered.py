"""The smallest and greatest value of groups in an ordered trace, for MIN and MAX.

Each run holds a group's values in order.  From the old extremum on (what lies before it is gone, so nothing before it
is read), a few values of each run are read, weights of equal values are summed, and the first value with positive
weight wins if every run was read that far; else more are read.  A deletion costs a search in each run, whatever the
size of the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.trace.grouping import spread
from viewkeeper.trace.keys import number_type, order_code, valid
from viewkeeper.trace.lookup import same_keys
from viewkeeper.trace.run import Run

_FIRST_CHUNK = 4  # values read of each run at first; each further round reads eight times as many


@dataclass
class _Reach:
    """The rows [first, last) of one run in which each group's candidates lie."""

    run: Run
    first: np.ndarray
    last: np.ndarray


def extreme_values(
    runs: Sequence[Run],
    hashes: np.ndarray,
    groups: Sequence[pa.Array],
    smallest: bool,
    start: pa.Array | None,
    type_: pa.DataType,
) -> pa.Array:
    """For each group its smallest (greatest) value of positive weight, from `start` on; NULL where there is none.

    `hashes` ascend; where `start` is None or NULL the search begins at the group's end.
    """
    reaches = [_reach(run, hashes, groups, smallest, start) for run in runs]
    answers: list[tuple[np.ndarray, pa.Array]] = []
    active, chunk = np.arange(len(hashes)), _FIRST_CHUNK
    while len(active):
        done, won, values = _round(reaches, active, chunk, smallest)
        if len(won):
            answers.append((won, values))
        active, chunk = active[~done], chunk * 8
    if not answers:
        return pa.nulls(len(hashes), type_)
    place = np.full(len(hashes), -1)
    place[np.concatenate([won for won, _ in answers])] = np.arange(sum(len(won) for won, _ in answers))
    return pa.concat_arrays([values for _, values in answers]).take(pa.array(place, mask=place < 0))


def _reach(run: Run, hashes: np.ndarray, groups: Sequence[pa.Array], smallest: bool, start: pa.Array | None) -> _Reach:
    first, last = key_ranges(run, hashes, groups)
    if start is None:
        return _Reach(run, first, last)
    present = valid(start)
    begun = np.flatnonzero((last > first) if present is None else (last > first) & present)
    at = _search(run.columns[-1], start.take(pa.array(begun)), first[begun], last[begun], smallest)
    if smallest:
        first[begun] = at
    else:
        last[begun] = at
    return _Reach(run, first, last)


def key_ranges(run: Run, hashes: np.ndarray, groups: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
    """The rows [first, last) of each group, in a run whose words are the groups' hashes."""
    first = np.searchsorted(run.words, hashes)
    last = np.searchsorted(run.words, hashes, side="right")
    _settle_collisions(run, groups, first, last)
    return first, last


def _settle_collisions(run: Run, groups: Sequence[pa.Array], first: np.ndarray, last: np.ndarray) -> None:
    """Narrow [first, last), the rows of each hash, to those of the group: they stand together in a run."""
    some = np.flatnonzero(last > first)
    # Rows of a hash are sorted by group: if the first and the last are of this group, all are.
    same = same_keys(run, first[some], groups, some) & same_keys(run, last[some] - 1, groups, some)
    mixed = some[~same]
    if not len(mixed):
        return
    counts = last[mixed] - first[mixed]
    rows, probes = spread(first[mixed], counts), np.repeat(mixed, counts)
    equal = same_keys(run, rows, groups, probes)
    rows, probes = rows[equal], probes[equal]
    first[mixed] = last[mixed] = 0
    found, position = np.unique(probes, return_index=True)
    first[found] = rows[position]
    last[found] = rows[position] + np.diff(position, append=len(probes))


def _search(values: pa.Array, start: pa.Array, first: np.ndarray, last: np.ndarray, smallest: bool) -> np.ndarray:
    """Within each [first, last): the first row not smaller than `start`; else the first row greater than it."""
    low, high = first.copy(), last.copy()
    while len(active := np.flatnonzero(low < high)):
        middle = (low[active] + high[active]) >> 1
        tried, wanted = values.take(pa.array(middle)), start.take(pa.array(active))
        right = _less(tried, wanted) if smallest else ~_less(wanted, tried)
        low[active[right]] = middle[right] + 1
        high[active[~right]] = middle[~right]
    return low


def _less(left: pa.Array, right: pa.Array) -> np.ndarray:
    if number_type(left.type) is not None:
        return order_code(left) < order_code(right)
    return pc.less(left, right).to_numpy(zero_copy_only=False)


def _round(
    reaches: Sequence[_Reach], active: np.ndarray, chunk: int, smallest: bool
) -> tuple[np.ndarray, np.ndarray, pa.Array]:
    """Read up to `chunk` values of each run and active group: (done: bool[active], groups with an answer, answers)."""
    owners, columns, weights, horizons = [], [], [], []
    for reach in reaches:
        first, last = reach.first[active], reach.last[active]
        counts = np.minimum(last - first, chunk)
        begins = first if smallest else last - counts
        rows = spread(begins, counts)
        owners.append(np.repeat(np.arange(len(active)), counts))
        columns.append(reach.run.columns[-1].take(pa.array(rows)))
        weights.append(reach.run.weights(rows))
        # The outermost value read of a run that has more: nothing behind it can be decided yet.
        ends = np.cumsum(counts)
        outermost = np.zeros(len(rows), dtype=bool)
        more = np.flatnonzero(last - first > chunk)
        outermost[ends[more] - 1 if smallest else ends[more] - counts[more]] = True
        horizons.append(outermost)
    if not owners or not any(map(len, owners)):
        return np.ones(len(active), dtype=bool), active[:0], pa.nulls(0)
    owner, values, weight = np.concatenate(owners), pa.concat_arrays(columns), np.concatenate(weights)
    codes, outermost = order_code(values), np.concatenate(horizons)
    if not smallest:
        codes = ~codes
    horizon = np.full(len(active), 2**64 - 1, dtype=np.uint64)
    np.minimum.at(horizon, owner[outermost], codes[outermost])
    limited = np.zeros(len(active), dtype=bool)
    limited[owner[outermost]] = True

    order = np.lexsort((codes, owner))
    owner, codes = owner[order], codes[order]
    new = np.append(True, (owner[1:] != owner[:-1]) | (codes[1:] != codes[:-1]))
    starts = np.flatnonzero(new)
    sums = np.add.reduceat(weight[order], starts)
    wins = starts[(sums > 0) & (codes[starts] <= horizon[owner[starts]])]
    winners, position = np.unique(owner[wins], return_index=True)
    done = ~limited
    done[winners] = True
    return done, active[winners], values.take(pa.array(order[wins[position]]))
