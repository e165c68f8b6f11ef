"""A trace: one state as of one version, a short list of immutable sorted runs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import StateSpec
from viewkeeper.catalog.types import physical_type
from viewkeeper.trace import hashing
from viewkeeper.trace.arrange import PREFIX, has_prefix, survivors, take_all, words_of
from viewkeeper.trace.grouping import group_rows
from viewkeeper.trace.keys import equal_rows
from viewkeeper.trace.lookup import gather, matching_rows, newest_rows
from viewkeeper.trace.ordered import extreme_values
from viewkeeper.trace.receipt import RunRef
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.run import Run

GREATEST_WORD = 2**64 - 1


class Trace:
    """`runs` (oldest first) of the state `spec`.  Hashes given to it ascend, and are those of canonical keys."""

    def __init__(self, spec: StateSpec, runs: Sequence[Run]) -> None:
        self.spec = spec
        self.runs = tuple(run.widened(spec) for run in runs) if spec.added else tuple(runs)

    @property
    def rows(self) -> int:
        """Stored rows: live, dead and tombstones."""
        return sum(len(run) for run in self.runs)

    @property
    def bytes(self) -> int:
        """Bytes in files."""
        return sum(run.bytes for run in self.runs)

    def with_rows(self, rows: Rows) -> Trace:
        """The same trace and one more run, in memory."""
        run = Run.of(self.spec, rows)
        return self if run is None else Trace(self.spec, [*self.runs, run])

    def lookup(
        self, hashes: np.ndarray, keys: Sequence[pa.Array], columns: Sequence[int] | None = None
    ) -> tuple[np.ndarray, list[pa.Array]]:
        """Keyed: (found: bool[n], the columns at positions `columns`, all by default); NULLs where not found.

        Probes are distinct.
        """
        found = newest_rows(self.runs, hashes, keys)
        live = np.zeros(len(hashes), dtype=bool)
        for part in found:
            live[part.probes] = True
        found = [part for part in found if len(part.probes)]
        return live, [gather(found, i, self._types[i], len(hashes)) for i in self._chosen(columns)]

    def matches(
        self, hashes: np.ndarray, keys: Sequence[pa.Array], columns: Sequence[int] | None = None
    ) -> tuple[np.ndarray, Rows]:
        """Weighted: every stored row of each key: (probe: int64[m], rows), rows[i] being one of probe[i].

        Not consolidated: equal rows of several runs come several times, with their weights.
        """
        chosen = self._chosen(columns)
        parts = matching_rows(self.runs, hashes, keys, has_prefix(self.spec), chosen)
        if not parts:
            return np.zeros(0, dtype=np.int64), Rows.empty([self._types[i] for i in chosen])
        return np.concatenate([probe for probe, _ in parts]), Rows.concat([rows for _, rows in parts])

    def extreme(
        self, hashes: np.ndarray, groups: Sequence[pa.Array], smallest: bool, start: pa.Array | None
    ) -> pa.Array:
        """Ordered: the smallest (greatest) value of each group, searched from `start` on; NULL where none."""
        return extreme_values(self.runs, hashes, groups, smallest, start, self._types[-1])

    def scan(self, columns: Sequence[int] | None = None, low: int = 0, high: int = GREATEST_WORD) -> Rows:
        """The live rows whose word lies in [low, high], in the order of their words."""
        chosen = self._chosen(columns)
        needed = range(self.spec.key) if self.spec.kind == "keyed" else range(len(self._types))
        read = [*needed, *(i for i in chosen if i not in needed)]
        words, rows = self._slices(read, low, high)
        if not len(rows):
            return Rows.empty([self._types[i] for i in chosen])
        index, weights = survivors(self.spec, words, rows.columns[: len(needed)], rows.weights)
        if self.spec.kind == "keyed":
            index, weights = index[weights > 0], weights[weights > 0]
        return Rows(take_all([rows.columns[read.index(i)] for i in chosen], index), weights)

    def _slices(self, columns: list[int], low: int, high: int) -> tuple[np.ndarray, Rows]:
        words, parts = [np.zeros(0, dtype=np.uint64)], [Rows.empty([self._types[i] for i in columns])]
        for run in self.runs:
            if run.low <= high and low <= run.high:
                start = int(np.searchsorted(run.words, np.uint64(low)))
                stop = int(np.searchsorted(run.words, np.uint64(high), side="right"))
                words.append(run.words[start:stop])
                parts.append(run.part(start, stop, columns))
        if len(parts) == 2:
            return words[1], parts[1]
        return np.concatenate(words), Rows.concat(parts)

    def get(self, values: Sequence[object]) -> list[tuple[tuple[object, ...], int]]:
        """The live rows with this key, each with its weight; all are physical values."""
        hash_ = hashing.hash_values(values, self._key_types)
        if self.spec.kind == "keyed":
            if (together := self.spec.together) != 0:
                first = hashing.hash_values(values[:together], self._key_types[:together])
                hash_ = first & int(PREFIX) | hash_ >> 32
            return self._get_newest(hash_, values)
        return self._get_all(hash_, values)

    def _get_newest(self, hash_: int, values: Sequence[object]) -> list[tuple[tuple[object, ...], int]]:
        for point in self._points:
            if point.low <= hash_ <= point.high:
                row = point.position(hash_)
                while row < point.size and point.words[row] == hash_:
                    if _same(point.columns, row, values):
                        return [(point.row(row), 1)] if point.weight(row) > 0 else []
                    row += 1
        return []

    def _get_all(self, hash_: int, values: Sequence[object]) -> list[tuple[tuple[object, ...], int]]:
        last = hash_
        if has_prefix(self.spec):
            hash_, last = hash_ & 0xFFFFFFFF00000000, hash_ | 0xFFFFFFFF
        sums: dict[object, list] = {}
        for point in self._points:
            if point.low <= last and hash_ <= point.high:
                row = point.position(hash_)
                while row < point.size and point.words[row] <= last:
                    if _same(point.columns, row, values):
                        found = point.row(row)
                        sums.setdefault(self._identity(found), [found, 0])[1] += point.weight(row)
                    row += 1
        return [(row, weight) for row, weight in sums.values() if weight > 0]

    def _identity(self, row: tuple[object, ...]) -> object:
        """What is equal for rows that are equal bit for bit (NaN and -0.0 are not what they seem to Python)."""
        if not self._has_floats:
            return row
        return tuple(struct.pack("<d", value) if isinstance(value, float) else value for value in row)

    def _chosen(self, columns: Sequence[int] | None) -> list[int]:
        return list(range(len(self._types)) if columns is None else columns)

    @cached_property
    def _types(self) -> list[pa.DataType]:
        return [physical_type(column.type) for column in self.spec.columns]

    @cached_property
    def _key_types(self) -> list:
        return [column.type for column in self.spec.columns[: self.spec.key]]

    @cached_property
    def _has_floats(self) -> bool:
        return any(column.type.is_float for column in self.spec.columns)

    @cached_property
    def _points(self) -> list:
        return [run.point for run in reversed(self.runs)]


def _same(columns: Sequence, row: int, values: Sequence[object]) -> bool:
    for read, value in zip(columns, values, strict=False):
        stored = read(row)
        if stored != value and (stored == stored or value == value):
            return False
    return True


def difference(older: Trace, newer: Trace, low: int = 0, high: int = GREATEST_WORD) -> Rows:
    """Keyed: what makes `older` into `newer`, for words in [low, high]: -1 old rows and +1 new rows.

    Only keys in runs that the other does not know are looked up.
    """
    key = list(range(newer.spec.key))
    words, rows = Trace(newer.spec, _differing(older, newer))._slices(key, low, high)
    groups = group_rows(words, rows.columns)
    hashes, keys = words[groups.firsts], take_all(rows.columns, groups.firsts)
    was, before = older.lookup(hashes, keys)
    now, after = newer.lookup(hashes, keys)
    changed = (was != now) | ~equal_rows(before, after)
    gone, come = Rows(before, np.full(len(was), -1)), Rows(after, np.full(len(now), 1))
    return Rows.concat([gone.filter(was & changed), come.filter(now & changed)])


def changed_rows(older: Trace, newer: Trace, low: int = 0, high: int = GREATEST_WORD) -> tuple[Rows, Rows]:
    """Keyed and weighted: the rows, with their weights, that are only in `older`, or with another weight there, and
    those that are so in `newer`; for words in [low, high]."""
    if newer.spec.kind == "keyed":
        signed = difference(older, newer, low, high)
        gone, come = signed.filter(signed.weights < 0), signed.filter(signed.weights > 0)
        return Rows(gone.columns, -gone.weights), come
    assert newer.spec.kind == "weighted", "ordered states are not read by people"
    key, every = list(range(newer.spec.key)), list(range(len(newer.spec.columns)))
    words, rows = Trace(newer.spec, _differing(older, newer))._slices(key, low, high)
    if has_prefix(newer.spec):
        words = hashing.hash_columns(rows.columns, len(rows))
    groups = group_rows(words, rows.columns)
    hashes, keys = words[groups.firsts], take_all(rows.columns, groups.firsts)
    (_, before), (_, after) = older.matches(hashes, keys, every), newer.matches(hashes, keys, every)
    both = Rows.concat([before, after])
    alike = group_rows(words_of(newer.spec, both.columns, len(both)), both.columns)
    is_after = np.arange(len(both)) >= len(before)
    was, now = (np.add.reduceat(np.where(side, both.weights, 0)[alike.order], alike.starts) if len(alike.starts)
                else np.zeros(0, np.int64) for side in (~is_after, is_after))  # fmt: skip
    went, came = (was != now) & (was > 0), (was != now) & (now > 0)
    return (Rows(both.take(alike.firsts[went]).columns, was[went]),
            Rows(both.take(alike.firsts[came]).columns, now[came]))  # fmt: skip


def _differing(older: Trace, newer: Trace) -> list[Run]:
    """The runs of both that hold every key in which they can differ.

    A run of `newer` that ends at a version of `older` says nothing new: it is one of `older`'s runs or a merge of such,
    which then need not be looked at either.  Other runs that `older` alone has went into a merge with later ones (the
    planner's barriers prevent that) or all their rows are dead: a deletion may have left no trace in `newer`.
    """
    last = max((run.ref.last for run in older.runs if run.ref), default=-1)
    shared = [run.ref for run in newer.runs if run.ref and run.ref.last <= last]
    fresh = [run for run in newer.runs if run.ref is None or run.ref.last > last]

    def said(ref: RunRef) -> bool:
        return any(other.first <= ref.first and ref.last <= other.last for other in shared)

    return fresh + [run for run in older.runs if run.ref is None or not said(run.ref)]
