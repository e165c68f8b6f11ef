"""Deletions of ranges of keys, in tables whose cells have timestamps (`cells`).

A range lies in a partition, the rows that agree in the first columns of the key, which have one owner
(`StateSpec.together`).  It deletes what is older than it, also what is only seen later; so it is kept, and each row
that is touched is looked up among the ranges of its partition, and each new range among the rows that its partition has
had.  What a range does to a row is a deletion of that row, and goes on as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.operation_kinds import BEFORE, BEHIND, DELETE, FROM, TO
from viewkeeper.catalog.outside_store import NEVER
from viewkeeper.maintenance.task import Task
from viewkeeper.plans import maintenance as plan
from viewkeeper.trace.arrange import PREFIX, key_words
from viewkeeper.trace.grouping import group_rows
from viewkeeper.trace.keys import canonical
from viewkeeper.trace.rows import Rows, constant
from viewkeeper.trace.trace import Trace

PARTITIONS_MAX = 256
"""Of more partitions than that the rows are found by reading all."""


@dataclass
class _Ranges:
    """Ranges of keys: their partitions, lower and upper ends (columns of the key behind the partition, NULL where an
    end does not speak of one), how many columns each end speaks of, its kind, and the deletions' timestamps."""

    partition: list[pa.Array]
    lower: list[pa.Array]
    upper: list[pa.Array]
    numbers: np.ndarray
    """int64[n, 4]: columns of the lower end, its kind, columns of the upper end, its kind."""
    stamps: np.ndarray

    def __len__(self) -> int:
        return len(self.stamps)

    def columns(self) -> list[pa.Array]:
        """As the state holds them."""
        return [*self.partition, *self.lower, *self.upper, *map(pa.array, self.numbers.T.copy()), pa.array(self.stamps)]

    @staticmethod
    def of(columns: Sequence[pa.Array], partition: int) -> _Ranges:
        """The inverse of `columns`."""
        behind = (len(columns) - partition - 5) // 2
        ends = columns[partition:]
        numbers = np.column_stack([column.to_numpy() for column in ends[2 * behind : -1]])
        return _Ranges(list(columns[:partition]), list(ends[:behind]), list(ends[behind : 2 * behind]),
                       numbers.reshape(-1, 4), ends[-1].to_numpy())  # fmt: skip


def with_deletions(operator: plan.Delta, rows: Rows, hashes: np.ndarray, task: Task) -> tuple[Rows, np.ndarray]:
    """Operations with ranges as operations without: deletions of the rows that they touch."""
    assert operator.cells is not None and operator.cells.ranges is not None
    kinds = rows.columns[-5].to_numpy()
    ends = kinds >= FROM
    plain, plain_hashes = (rows.filter(~ends), hashes[~ends]) if ends.any() else (rows, hashes)
    deletions = []
    new = None
    if ends.any():
        new = _paired(operator, rows.filter(ends))
        _keep(operator, new, task)
        deletions.append(_of_rows_there(operator, new, task))
    if len(plain):
        deletions += _of_rows_named(operator, plain, plain_hashes, new, task)
    made = [_as_operations(operator, plain, *found) for found in deletions if len(found[1])]
    if not made:
        return plain, plain_hashes
    words = [key_words([each.columns[i] for i in operator.key], len(each), operator.state.together) for each in made]
    return Rows.concat([plain, *made]), np.concatenate([plain_hashes, *words])


def _of_rows_named(
    operator: plan.Delta, rows: Rows, hashes: np.ndarray, new: _Ranges | None, task: Task
) -> list[tuple[list[pa.Array], np.ndarray]]:
    """The keys of `rows` that lie in ranges, those of this batch and earlier ones, and when they were deleted."""
    columns = [canonical(rows.columns[i]) for i in operator.key]
    firsts = group_rows(hashes, columns).firsts
    keys = [column.take(pa.array(firsts)) for column in columns]
    known = _known(operator, hashes[firsts], task)
    return [_covering(operator, keys, each) for each in (known, new) if each is not None and len(each)]


def _behind(operator: plan.Delta) -> list[int]:
    """The key's columns behind the partition."""
    return list(operator.key[operator.state.together :])


def _paired(operator: plan.Delta, rows: Rows) -> _Ranges:
    """Ranges of their ends."""
    kinds, nodes, sequences = (rows.columns[i].to_numpy() for i in (-5, -3, -2))
    order = np.lexsort((kinds, sequences, nodes))
    low, high = order[::2], order[1::2]
    assert len(low) == len(high) and (sequences[low] == sequences[high]).all() and (kinds[low] < TO).all()
    masks = rows.columns[-4]
    size = masks.type.byte_width
    bytes_ = np.frombuffer(masks.buffers()[1], np.uint8)[masks.offset * size : (masks.offset + len(masks)) * size]
    bits = np.unpackbits(bytes_.reshape(-1, size), axis=1, bitorder="little")[:, _behind(operator)]
    counts = bits.sum(axis=1).astype(np.int64)
    numbers = np.column_stack([counts[low], kinds[low], counts[high], kinds[high]]).astype(np.int64)

    def ends(which: np.ndarray) -> list[pa.Array]:
        return [canonical(rows.columns[i]).take(pa.array(which, mask=bits[which, at] == 0))
                for at, i in enumerate(_behind(operator))]  # fmt: skip

    partition = [canonical(rows.columns[i]).take(pa.array(low)) for i in operator.key[: operator.state.together]]
    return _Ranges(partition, ends(low), ends(high), numbers, rows.columns[-1].to_numpy()[low])


def _keep(operator: plan.Delta, new: _Ranges, task: Task) -> None:
    """Writes the ranges that are not known yet: replicas tell of one each."""
    assert operator.cells is not None and operator.cells.ranges is not None
    spec, columns = operator.cells.ranges, new.columns()
    words = key_words(columns, len(new), operator.state.together)
    once = group_rows(words, columns).firsts
    index = pa.array(once)
    columns, words = [column.take(index) for column in columns], words[once]
    found, _ = task.context.trace(spec).lookup(words, columns, columns=())
    fresh = Rows(columns, np.ones(len(words), np.int64)).filter(~found)
    task.write(spec, Rows(fresh.columns, fresh.weights, words[~found]))


def _of_rows_there(operator: plan.Delta, new: _Ranges, task: Task) -> tuple[list[pa.Array], np.ndarray]:
    """The keys that the table has had in new ranges, and when they were deleted by them."""
    assert operator.cells is not None
    words = key_words(new.partition, len(new), operator.state.together)
    trace = task.context.trace(operator.cells.stamps)
    return _covering(operator, _of_partitions(trace, words, range(len(operator.key))).columns, new)


def _known(operator: plan.Delta, hashes: np.ndarray, task: Task) -> _Ranges | None:
    """The ranges of the partitions of rows with these words."""
    assert operator.cells is not None and operator.cells.ranges is not None
    trace = task.context.trace(operator.cells.ranges)
    if not trace.rows:
        return None
    return _Ranges.of(_of_partitions(trace, hashes, None).columns, operator.state.together)


def _of_partitions(trace: Trace, words: np.ndarray, columns: Sequence[int] | None) -> Rows:
    """What a state has of the partitions in which rows with these words lie, and of others whose words begin alike."""
    firsts = np.unique(words & PREFIX)
    if len(firsts) <= PARTITIONS_MAX:
        return Rows.concat([trace.scan(columns, int(first), int(first | ~PREFIX)) for first in firsts])
    rows = trace.scan(columns)
    together = trace.spec.together
    return rows.filter(np.isin(key_words(rows.columns[:together], len(rows), 0) & PREFIX, firsts))


def _covering(operator: plan.Delta, keys: Sequence[pa.Array], ranges: _Ranges) -> tuple[list[pa.Array], np.ndarray]:
    """The keys that lie in any of `ranges`, and the greatest timestamp of those."""
    together = operator.state.together
    key, range_ = _pairs(keys[:together], ranges.partition)
    inside = np.ones(len(key), bool)
    for ends, at, open_kind, sign in ((ranges.lower, 0, BEHIND, 1), (ranges.upper, 2, BEFORE, -1)):
        beyond = sign * _compared(
            [c.take(pa.array(key)) for c in keys[together:]], [c.take(pa.array(range_)) for c in ends]
        )
        # An end that speaks of fewer columns than a key has is equal to all keys that agree in these.
        inside &= np.where(ranges.numbers[range_, at + 1] == open_kind, beyond > 0, beyond >= 0)
    key, range_ = key[inside], range_[inside]
    stamps = np.full(len(keys[0]), NEVER)
    np.maximum.at(stamps, key, ranges.stamps[range_])
    hit = np.zeros(len(stamps), bool)
    hit[key] = True
    index = pa.array(np.flatnonzero(hit))
    return [column.take(index) for column in keys], stamps[hit]


def _pairs(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of rows of `left` and of `right` that are equal."""
    both = [pa.concat_arrays(pair) for pair in zip(left, right, strict=True)]
    count, width = len(left[0]), len(left[0]) + len(right[0])
    groups = group_rows(key_words(both, width, 0), both)
    group = np.empty(width, np.int64)
    group[groups.order] = np.repeat(np.arange(len(groups.starts)), groups.lengths)
    of_left, of_right = group[:count], group[count:]
    order = np.argsort(of_right, kind="stable")
    low = np.searchsorted(of_right[order], of_left, side="left")
    counts = np.searchsorted(of_right[order], of_left, side="right") - low
    first = np.repeat(low - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    return np.repeat(np.arange(count), counts), order[first + np.arange(counts.sum())]


def _compared(keys: list[pa.Array], ends: list[pa.Array]) -> np.ndarray:
    """-1, 0 or 1: whether keys stand before, at or behind ends, which are NULL in columns that they do not speak of."""
    found = np.zeros(len(keys[0]), np.int64)
    for key, end in zip(keys, ends, strict=True):
        less, more = (compare(key, end).fill_null(False).to_numpy(zero_copy_only=False)
                      for compare in (pc.less, pc.greater))  # fmt: skip
        found = np.where(found != 0, found, more.astype(np.int64) - less)
    return found


def _as_operations(operator: plan.Delta, like: Rows, keys: list[pa.Array], stamps: np.ndarray) -> Rows:
    """Deletions of rows, at `stamps`."""
    length, at = len(stamps), dict(zip(operator.key, keys, strict=True))
    types = [column.type for column in like.columns]
    columns = [at[i] if i in at else constant(type_, None, length) for i, type_ in enumerate(types[:-5])]
    columns += [constant(types[-5], DELETE, length), constant(types[-4], bytes(types[-4].byte_width), length)]
    columns += [constant(type_, 0, length) for type_ in types[-3:-1]]
    return Rows([*columns, pa.array(stamps)], np.ones(length, np.int64))
