"""The part catalog: which parts each stream, view and helper has, with rows or without (paper 003, section 4.1).

In memory it is a `PartIndex` for each object, immutable, so that a driver stages changes on it and readers keep one for
each version; in the manifest it is the trace PARTS.  A run of equal parts, empty or all with the same pieces, is one
row of both, however long.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from threading import Lock

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import PARTS
from viewkeeper.catalog.types import physical_type
from viewkeeper.streams.work import GREATEST_HASH, Piece
from viewkeeper.trace.grouping import spread
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.snapshot import Snapshot
from viewkeeper.trace.trace import Trace, difference

_CHUNK_ROWS = 1024
_TRACES_KNOWN = 8
_PART, _LAST, _ROWS, _UPDATED, _STAMP = range(5)

Range = tuple[int, int]
"""Parts from the first to the second, both inclusive."""


@dataclass(frozen=True)
class Part:
    """What the catalog says of a part (`last` is `part`), or of each of the equal parts `part` to `last`: they are
    empty, or each has `rows` rows, the ones in `pieces`.

    `updated` is the version in which its rows were made or last changed, `stamp` the time of that in microseconds.
    `dimensions` are the versions of the dimension tables that were recorded with a stream's part, by table id.
    """

    part: int
    last: int
    rows: int
    updated: int
    stamp: int
    pieces: tuple[Piece, ...] = ()
    dimensions: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.last < self.part or (self.last > self.part and not self.can_be_run):
            said = f"parts {self.part} to {self.last} with {self.rows} rows"
            raise ValueError(f"{said} are not a run of empty parts, or of parts with the same pieces")

    @property
    def can_be_run(self) -> bool:
        """Whether other parts can be equal to this one: its rows are those of its pieces."""
        return self.rows == sum(piece.rows for piece in self.pieces)

    @property
    def count(self) -> int:
        """How many parts it says it of."""
        return self.last - self.part + 1


class _Chunk:
    """Some neighbouring rows of one object's catalog, by part: `numbers` is int64[5, n], the texts are JSON."""

    def __init__(self, numbers: np.ndarray, pieces: pa.Array, dimensions: pa.Array) -> None:
        self.numbers, self.pieces, self.dimensions = numbers, pieces, dimensions

    @staticmethod
    def of(parts: Sequence[Part]) -> _Chunk:
        numbers = [[row.part, row.last, row.rows, row.updated, row.stamp] for row in parts]
        pieces, dimensions = (
            [_pieces_text(row.pieces) for row in parts],
            [_dimensions_text(r.dimensions) for r in parts],
        )
        return _Chunk(np.array(numbers, dtype=np.int64).reshape(-1, 5).T, _texts(pieces), _texts(dimensions))

    @staticmethod
    def concat(chunks: Sequence[_Chunk]) -> _Chunk:
        if len(chunks) == 1:
            return chunks[0]
        texts = [pa.concat_arrays([getattr(chunk, name) for chunk in chunks]) for name in ("pieces", "dimensions")]
        return _Chunk(np.concatenate([chunk.numbers for chunk in chunks], axis=1), *texts)

    def __len__(self) -> int:
        return self.numbers.shape[1]

    def slice(self, start: int, stop: int) -> _Chunk:
        count = stop - start
        return _Chunk(self.numbers[:, start:stop], self.pieces.slice(start, count), self.dimensions.slice(start, count))

    def take(self, rows: np.ndarray) -> _Chunk:
        index = pa.array(rows)
        return _Chunk(self.numbers[:, rows], self.pieces.take(index), self.dimensions.take(index))

    def row(self, i: int) -> Part:
        part, last, rows, updated, stamp = self.numbers[:, i].tolist()
        pieces, dimensions = _pieces(self.pieces[i].as_py()), _dimensions(self.dimensions[i].as_py())
        return Part(part, last, rows, updated, stamp, pieces, dimensions)

    def raw(self) -> Iterator[tuple[int, tuple[object, ...]]]:
        """The rows by part, in a form that is quick to compare."""
        for row in zip(*self.numbers.tolist(), self.pieces.to_pylist(), self.dimensions.to_pylist(), strict=True):
            yield row[0], row

    @cached_property
    def filled(self) -> np.ndarray:
        """int64[2, n], ascending: from which part to which there are rows."""
        return self.numbers[: _LAST + 1, self.numbers[_ROWS] > 0]


class PartIndex:
    """The parts of one object.  Never changed: `put` and `drop` give another, that shares most of its memory."""

    def __init__(self, chunks: Sequence[_Chunk] = ()) -> None:
        self._chunks = tuple(chunks)
        self._firsts = [int(chunk.numbers[_PART, 0]) for chunk in self._chunks]

    @property
    def first(self) -> int | None:
        """The lowest part, with rows or without."""
        return self._firsts[0] if self._firsts else None

    @property
    def last(self) -> int | None:
        """The greatest part, with rows or without."""
        return int(self._chunks[-1].numbers[_LAST, -1]) if self._chunks else None

    def __len__(self) -> int:
        """Rows of the catalog: a run of equal parts is one."""
        return sum(len(chunk) for chunk in self._chunks)

    def __iter__(self) -> Iterator[Part]:
        for chunk in self._chunks:
            yield from map(chunk.row, range(len(chunk)))

    def at(self, part: int) -> Part | None:
        """The row that says what part `part` is: perhaps that of a run of equal parts; None where there is no part."""
        found = self._at_or_before(part)
        return found if found is not None and part <= found.last else None

    def with_rows(self, low: int, high: int) -> list[Part]:
        """The parts from `low` to `high` that have rows, ascending, each alone."""
        return [replace(run, part=part, last=part) if run.count > 1 else run
                for run in self.runs(low, high) for part in range(run.part, run.last + 1)]  # fmt: skip

    def runs(self, low: int, high: int) -> list[Part]:
        """The parts from `low` to `high` that have rows, ascending: those of a run as one."""
        found: list[Part] = []
        for chunk in self._chunks_over(low, high):
            rows = (chunk.numbers[_LAST] >= low) & (chunk.numbers[_PART] <= high) & (chunk.numbers[_ROWS] > 0)
            found += map(chunk.row, np.flatnonzero(rows).tolist())
        for end in {0, len(found) - 1} if found else ():
            run = found[end]
            if run.part < low or run.last > high:
                found[end] = replace(run, part=max(run.part, low), last=min(run.last, high))
        return found

    def filled(self, low: int, high: int) -> np.ndarray:
        """int64, ascending: the subscripts of the parts from `low` to `high` that have rows."""
        firsts, lasts = self.filled_runs(low, high)
        return spread(firsts, lasts - firsts + 1)

    def filled_runs(self, low: int, high: int) -> np.ndarray:
        """int64[2, n], ascending: the first and the last of neighbouring parts from `low` to `high` that have rows."""
        chunks = [chunk.filled for chunk in self._chunks_over(low, high)]
        whole = np.concatenate(chunks, axis=1) if chunks else np.zeros((2, 0), dtype=np.int64)
        whole = whole[:, np.searchsorted(whole[1], low) : np.searchsorted(whole[0], high, side="right")]
        return np.clip(whole, low, high)

    def count_between(self, low: int, high: int) -> int:
        """How many rows the parts from `low` to `high` have together."""
        total = 0
        for chunk in self._chunks_over(low, high):
            firsts, lasts = np.maximum(chunk.numbers[_PART], low), np.minimum(chunk.numbers[_LAST], high)
            total += int((chunk.numbers[_ROWS] * np.maximum(lasts - firsts + 1, 0)).sum())
        return total

    def alike_until(self, part: int) -> int | None:
        """The last part from `part` on up to which all have the same pieces, or all have none (also where there is no
        part); None: that goes on without end."""
        row = self.at(part)
        if row is None or not row.rows:
            filled = self.next_with_rows(part)
            return None if filled is None else filled - 1
        last = row.last
        while row.can_be_run and (after := self.at(last + 1)) is not None and after.pieces == row.pieces:
            last = after.last
        return last

    def next_with_rows(self, part: int) -> int | None:
        """The first part after `part` that has rows."""
        for chunk in self._chunks[max(0, bisect_right(self._firsts, part) - 1) :]:
            firsts, lasts = chunk.filled
            at = int(np.searchsorted(lasts, part, side="right"))
            if at < len(lasts):
                return max(int(firsts[at]), part + 1)
        return None

    def previous_with_rows(self, part: int) -> int | None:
        """The last part before `part` that has rows."""
        for chunk in reversed(self._chunks[: bisect_right(self._firsts, part)]):
            firsts, lasts = chunk.filled
            at = int(np.searchsorted(firsts, part))
            if at:
                return min(int(lasts[at - 1]), part - 1)
        return None

    def recorded(self, low: int) -> list[Mapping[int, int]]:
        """What is recorded of dimension tables with the parts from `low` on, each once."""
        texts: set[str] = set()
        for chunk in self._chunks:
            meant = chunk.dimensions.filter(pa.array(chunk.numbers[_LAST] >= low))
            texts.update(meant.unique().to_pylist())
        return [_dimensions(text) for text in sorted(texts)]

    @property
    def rows(self) -> int:
        """Rows of all parts as they stand in files: those of a run of equal parts once."""
        return sum(int(chunk.numbers[_ROWS].sum()) for chunk in self._chunks)

    def changed_since(self, version: int | None = None, *, stamp: int | None = None) -> list[Range]:
        """The parts that were made or changed after `version` (or after `stamp`, microseconds), as few ranges."""
        if (version is None) == (stamp is None):
            raise ValueError("name either a version or a time")
        after, which = (version, _UPDATED) if stamp is None else (stamp, _STAMP)
        ranges: list[Range] = []
        for chunk in self._chunks:
            found = np.flatnonzero(chunk.numbers[which] > after)
            for part, last in zip(*chunk.numbers[:2, found].tolist(), strict=True):
                if ranges and ranges[-1][1] == part - 1:
                    ranges[-1] = (ranges[-1][0], last)
                else:
                    ranges.append((part, last))
        return ranges

    def put(self, part: Part) -> PartIndex:
        """The index that says `part` of its parts, whatever this one says of them.

        A run of equal parts is cut where it must be, and neighbours of which the same is said become one run.
        """
        return self._replaced(part.part, part.last, part)

    def drop(self, low: int, high: int) -> PartIndex:
        """The index without the parts from `low` to `high`."""
        return self._replaced(low, high, None)

    def difference(self, older: PartIndex) -> tuple[list[Part], list[int]]:
        """What makes the stored rows of `older` into those of this: (rows to write, keys of rows that are gone)."""
        shared = set(map(id, self._chunks)) & set(map(id, older._chunks))
        was = {key: row for chunk in older._chunks if id(chunk) not in shared for key, row in chunk.raw()}
        changed = []
        for chunk in self._chunks:
            if id(chunk) not in shared:
                rows = enumerate(chunk.raw())
                changed += [chunk.row(i) for i, (key, row) in rows if was.pop(key, None) != row]
        return changed, sorted(was)

    def _at_or_before(self, part: int) -> Part | None:
        at = bisect_right(self._firsts, part) - 1
        if at < 0:
            return None
        chunk = self._chunks[at]
        return chunk.row(int(np.searchsorted(chunk.numbers[_PART], part, side="right")) - 1)

    def _chunks_over(self, low: int, high: int) -> tuple[_Chunk, ...]:
        """Those that can have rows with keys from `low` to `high`, or the run that covers `low`."""
        return self._chunks[max(0, bisect_right(self._firsts, low) - 1) : bisect_right(self._firsts, high)]

    def _replaced(self, low: int, high: int, new: Part | None) -> PartIndex:
        before, after = self._at_or_before(low - 1), self._at_or_before(high + 1)
        rows: list[Part] = [] if new is None else [new]
        begin, end = low, high
        if before is not None and before.last >= low - 1:
            begin = before.part
            rows.insert(0, replace(before, last=low - 1) if before.last >= low else before)
        if after is not None and after.last > high:
            end = max(high, after.part)
            rows.append(replace(after, part=high + 1) if after.part <= high else after)
        return self._spliced(begin, end, _Chunk.of(_joined(rows)))

    def _spliced(self, low: int, high: int, new: _Chunk) -> PartIndex:
        """With the rows `new` in place of those whose keys lie from `low` to `high`."""
        first = max(0, bisect_right(self._firsts, low) - 1)
        last = max(first + 1, bisect_right(self._firsts, high))  # Below the first chunk: put to it all the same.
        parts = [new]
        if self._chunks:
            left, right = self._chunks[first], self._chunks[last - 1]
            keys = right.numbers[_PART]
            parts.insert(0, left.slice(0, int(np.searchsorted(left.numbers[_PART], low))))
            parts.append(right.slice(int(np.searchsorted(keys, high, side="right")), len(right)))
        return PartIndex([*self._chunks[:first], *_cut(_Chunk.concat(parts)), *self._chunks[last:]])

    def _patched(self, gone: np.ndarray, come: _Chunk) -> PartIndex:
        """Without the rows whose keys are `gone`, with the rows `come`: taken as they are stored, not as `put` does."""
        keys = np.concatenate([gone, come.numbers[_PART]])
        low, high = int(keys.min()), int(keys.max())
        old = _Chunk.concat([*self._chunks_over(low, high), _Chunk.of([])])
        kept = (old.numbers[_PART] >= low) & (old.numbers[_PART] <= high) & ~np.isin(old.numbers[_PART], keys)
        rows = _Chunk.concat([old.take(np.flatnonzero(kept)), come])
        return self._spliced(low, high, rows.take(np.argsort(rows.numbers[_PART])))


def read_index(snapshot: Snapshot) -> Mapping[int, PartIndex]:
    """The part catalog of a version, by object id; known ones are kept, and the next is made from what changed."""
    trace = snapshot.trace(PARTS)
    with _lock:
        for known, indexes in _known:
            if known is trace:
                return indexes
        runs = {id(run) for run in trace.runs}
        older, indexes = max(_known, key=lambda item: _shared(item[0], runs), default=(None, {}))
    if older is not None and _shared(older, runs):
        indexes = _with_changes(indexes, difference(older, trace))
    else:
        indexes = {id_: PartIndex(_cut(chunk)) for id_, chunk in _by_object(trace.scan())}
    with _lock:
        _known.insert(0, (trace, indexes))
        del _known[_TRACES_KNOWN:]
    return indexes


def rows_of(changes: Mapping[int, Iterable[Part]], removed: Mapping[int, Iterable[int]]) -> Rows:
    """Rows of PARTS, by object id: what is said of parts, and tombstones for the keys that are gone."""
    chunks = {id_: _Chunk.of(list(parts)) for id_, parts in changes.items()}
    gone = [(id_, key) for id_, keys in removed.items() for key in keys]
    whole = _Chunk.concat([_Chunk.of([]), *chunks.values()])
    live, dead = len(whole), len(gone)
    objects = np.repeat(np.array(list(chunks), dtype=np.int64), [len(chunk) for chunk in chunks.values()])
    keys = np.array(gone, dtype=np.int64).reshape(-1, 2)
    numbers = [np.concatenate([objects, keys[:, 0]]), np.concatenate([whole.numbers[_PART], keys[:, 1]])]
    columns = [pa.array(number) for number in numbers]
    for number in whole.numbers[_LAST:]:
        columns.append(pa.concat_arrays([pa.array(number), pa.nulls(dead, pa.int64())]))
    for text in (whole.pieces, whole.dimensions):
        columns.append(pa.concat_arrays([text, pa.nulls(dead, pa.large_string())]))
    assert [column.type for column in columns] == [physical_type(column.type) for column in PARTS.columns]
    return Rows(columns, np.repeat(np.array([1, 0]), [live, dead]))


_NOTHING = PartIndex()
_known: list[tuple[Trace, Mapping[int, PartIndex]]] = []
_lock = Lock()


def _shared(trace: Trace, runs: set[int]) -> int:
    """How many runs a trace has in common: of two databases, none."""
    return sum(id(run) in runs for run in trace.runs)


def _with_changes(indexes: Mapping[int, PartIndex], changes: Rows) -> Mapping[int, PartIndex]:
    result = dict(indexes)
    gone, come = (
        dict(_by_object(changes.filter(changes.weights < 0))),
        dict(_by_object(changes.filter(changes.weights > 0))),
    )
    nothing = _Chunk.of([])
    for id_ in gone.keys() | come.keys():
        keys = gone.get(id_, nothing).numbers[_PART]
        index = result.get(id_, _NOTHING)._patched(keys, come.get(id_, nothing))
        if len(index):
            result[id_] = index
        else:
            del result[id_]
    return result


def _by_object(rows: Rows) -> Iterator[tuple[int, _Chunk]]:
    """The rows of each object, by part."""
    objects, *numbers = (column.to_numpy() for column in rows.columns[:6])
    whole = _Chunk(np.array(numbers), rows.columns[6], rows.columns[7])
    order = np.lexsort([numbers[0], objects])
    whole, objects = whole.take(order), objects[order]
    starts = np.flatnonzero(np.append(True, objects[1:] != objects[:-1])[: len(objects)])
    for start, stop in pairwise([*starts.tolist(), len(objects)]):
        yield int(objects[start]), whole.slice(start, stop)


def _cut(chunk: _Chunk) -> list[_Chunk]:
    """In chunks of a size at which copying one costs little."""
    if len(chunk) <= 2 * _CHUNK_ROWS:
        return [chunk] if len(chunk) else []
    starts = range(0, len(chunk), _CHUNK_ROWS)
    return [chunk.slice(start, min(start + _CHUNK_ROWS, len(chunk))) for start in starts]


def _joined(rows: Sequence[Part]) -> list[Part]:
    """Neighbouring parts of which the same is said, as one run."""
    joined: list[Part] = []
    for row in rows:
        if joined and joined[-1].last + 1 == row.part and _alike(joined[-1], row):
            joined[-1] = replace(joined[-1], last=row.last)
        else:
            joined.append(row)
    return joined


def _alike(one: Part, other: Part) -> bool:
    if (one.rows, one.pieces) != (other.rows, other.pieces) or not one.can_be_run:
        return False
    return (one.updated, one.stamp, one.dimensions) == (other.updated, other.stamp, other.dimensions)


def _texts(texts: list[str]) -> pa.Array:
    return pa.array(texts, pa.large_string())


def _pieces_text(pieces: tuple[Piece, ...]) -> str:
    return json.dumps([_fields(piece) for piece in pieces], separators=(",", ":"))


def _fields(piece: Piece) -> list[str | int]:
    """What makes the piece again; hashes, and the part in the file, only where they say something."""
    place: list[str | int] = [piece.file, piece.offset, piece.rows]
    if piece.part is not None:
        return [*place, piece.low, piece.high, piece.part]
    return place if (piece.low, piece.high) == (0, GREATEST_HASH) else [*place, piece.low, piece.high]


@lru_cache(maxsize=4096)
def _pieces(text: str) -> tuple[Piece, ...]:
    return tuple(Piece(*item) for item in json.loads(text))


def _dimensions_text(dimensions: Mapping[int, int]) -> str:
    return json.dumps({str(id_): dimensions[id_] for id_ in sorted(dimensions)}, separators=(",", ":"))


def _dimensions(text: str) -> dict[int, int]:
    return {} if text == "{}" else {int(id_): version for id_, version in json.loads(text).items()}
