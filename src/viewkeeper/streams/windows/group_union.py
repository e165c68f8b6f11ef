"""The groups of several blocks of pre-aggregated rows together, and where the rows of each stand among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewkeeper.trace.grouping import group_rows
from viewkeeper.trace.keys import equal_rows


@dataclass
class GroupUnion:
    """`hashes` and `keys` of all groups, sorted by hash.  Row `orders[k][i]` of block k (None: row i) is of the group
    `positions[k][i]`; positions ascend."""

    hashes: np.ndarray
    keys: list[pa.Array]
    positions: list[np.ndarray]
    orders: list[np.ndarray | None]


def union(hashes: Sequence[np.ndarray], keys: Sequence[Sequence[pa.Array]]) -> GroupUnion:
    """The groups of blocks (at least one) in each of which no two rows are of one group.

    Blocks sorted by hash, most of whose groups are in the largest one, are matched by binary search; else, and where
    the hashes of two groups collide, all rows are sorted.
    """
    return _matched(hashes, keys) or _sorted(hashes, keys)


def _matched(hashes: Sequence[np.ndarray], keys: Sequence[Sequence[pa.Array]]) -> GroupUnion | None:
    largest = max(range(len(hashes)), key=lambda k: len(hashes[k]))
    base, base_keys = hashes[largest], list(keys[largest])
    if not all((each[1:] > each[:-1]).all() for each in hashes):
        return None
    places: list[np.ndarray] = []
    absent: list[np.ndarray] = []
    for k, each in enumerate(hashes):
        place, missing = _places(base, base_keys, each, keys[k], same=k == largest)
        if place is None:
            return None
        places.append(place)
        absent.append(missing)
    if not any(map(len, absent)):
        return GroupUnion(base, base_keys, places, [None] * len(places))
    if 2 * sum(map(len, absent)) > len(base):
        return None
    return _widened(hashes, keys, base, base_keys, places, absent)


_NONE = np.zeros(0, np.int64)


def _places(
    base: np.ndarray, base_keys: list[pa.Array], hashes: np.ndarray, keys: Sequence[pa.Array], same: bool
) -> tuple[np.ndarray | None, np.ndarray]:
    """Where each row's group stands in the base, and the rows whose group is not there; None where hashes collide."""
    if same:
        return np.arange(len(base)), _NONE
    if np.array_equal(base, hashes):
        return (np.arange(len(base)) if _equal(base_keys, keys) else None), _NONE
    place = np.searchsorted(base, hashes)
    if not len(base):
        return place, np.arange(len(hashes))
    found = base[np.minimum(place, len(base) - 1)] == hashes
    if found.all():
        at = pa.array(place)
        here = list(keys)
    else:
        rows = pa.array(np.flatnonzero(found))
        at, here = pa.array(place[found]), [key.take(rows) for key in keys]
    if not _equal([key.take(at) for key in base_keys], here):
        return None, _NONE
    return place, np.flatnonzero(~found)


def _widened(
    hashes: Sequence[np.ndarray], keys: Sequence[Sequence[pa.Array]], base: np.ndarray, base_keys: list[pa.Array],
    places: list[np.ndarray], absent: list[np.ndarray],
) -> GroupUnion | None:  # fmt: skip
    """The base with the few groups that it lacks put in their places."""
    lacking = np.concatenate([each[rows] for each, rows in zip(hashes, absent, strict=True)])
    columns = [
        pa.concat_arrays([block[i].take(pa.array(rows)) for block, rows in zip(keys, absent, strict=True)])
        for i in range(len(base_keys))
    ]
    new, first, which = np.unique(lacking, return_index=True, return_inverse=True)
    at = pa.array(first[which])
    if not _equal([column.take(at) for column in columns], columns):
        return None
    moved = np.arange(len(base)) + np.searchsorted(new, base)
    put = np.searchsorted(base, new) + np.arange(len(new))
    source = np.empty(len(base) + len(new), np.int64)
    source[moved] = np.arange(len(base))
    source[put] = len(base) + first
    index = pa.array(source)
    positions, done = [], 0
    for place, rows in zip(places, absent, strict=True):
        if len(rows):
            position = moved[np.minimum(place, len(base) - 1)] if len(base) else np.zeros(len(place), np.int64)
            position[rows] = put[which[done : done + len(rows)]]
            done += len(rows)
        else:
            position = moved[place]
        positions.append(position)
    all_keys = [pa.concat_arrays([a, b]).take(index) for a, b in zip(base_keys, columns, strict=True)]
    merged = np.empty(len(source), np.uint64)
    merged[moved], merged[put] = base, new
    return GroupUnion(merged, all_keys, positions, [None] * len(positions))


def _sorted(hashes: Sequence[np.ndarray], keys: Sequence[Sequence[pa.Array]]) -> GroupUnion:
    every = np.concatenate(hashes)
    columns = [pa.concat_arrays([block[i] for block in keys]) for i in range(len(keys[0]))]
    groups = group_rows(every, columns)
    position = np.empty(len(every), np.int64)
    position[groups.order] = np.repeat(np.arange(len(groups.starts)), groups.lengths)
    firsts = groups.firsts
    index = pa.array(firsts)
    positions: list[np.ndarray] = []
    orders: list[np.ndarray | None] = []
    start = 0
    for each in hashes:
        mine = position[start : start + len(each)]
        start += len(each)
        order = None if (mine[1:] > mine[:-1]).all() else np.argsort(mine, kind="stable")
        orders.append(order)
        positions.append(mine if order is None else mine[order])
    return GroupUnion(every[firsts], [column.take(index) for column in columns], positions, orders)


def _equal(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> bool:
    """Whether all keys of one side are those of the other; without columns there is one group only."""
    return not left or bool(equal_rows(left, right).all())
