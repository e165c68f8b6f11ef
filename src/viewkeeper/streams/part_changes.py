"""Which rows have come to the parts of a stream, or of a view over streams, and gone from them, between two versions of
the part catalog; plain data, so that a task can read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Column
from viewkeeper.streams.intake.taking import MICROSECONDS
from viewkeeper.streams.part_files import merged, read_part
from viewkeeper.streams.part_index import Part, PartIndex, Range
from viewkeeper.streams.work import Piece
from viewkeeper.trace.disk import Disk
from viewkeeper.trace.rows import Rows

_FILE, _OFFSET, _ROWS, _PART, _COUNT, _WEIGHT = range(6)


@dataclass(frozen=True, eq=False)
class SignedPieces:
    """Rows of one object's parts: `files`, and for each piece a column of int64[6, n]: its file's number, offset, rows,
    its part, how many parts from this one on have it, and the weight of its rows (1: they came, -1: they went)."""

    files: tuple[str, ...] = ()
    numbers: np.ndarray = field(default_factory=lambda: np.zeros((6, 0), np.int64))

    @property
    def rows(self) -> int:
        """How many rows come and go."""
        return int((self.numbers[_ROWS] * self.numbers[_COUNT]).sum())

    @staticmethod
    def of(pieces: Iterable[tuple[Piece, int, int, int]]) -> SignedPieces:
        """Of (piece, part, count, weight)."""
        files: dict[str, int] = {}
        numbers = [
            (files.setdefault(piece.file, len(files)), piece.offset, piece.rows, part, count, weight)
            for piece, part, count, weight in pieces
        ]
        return SignedPieces(tuple(files), np.array(numbers, np.int64).reshape(-1, 6).T)

    def read(self, disk: Disk, columns: Sequence[Column], length: int, *, timed: bool) -> Rows:
        """The rows, with their weights, those of equal parts as one; `timed`: last PART_TIMESTAMP, of parts of `length`
        seconds that are equal to none."""
        in_order = self.numbers[:, np.lexsort(self.numbers[[_OFFSET, _FILE]])]
        pieces = [Piece(self.files[file], offset, rows) for file, offset, rows in in_order[:_PART].T.tolist()]
        block = read_part(disk, merged(pieces), columns)
        repeats = in_order[_ROWS]
        weights = np.repeat(in_order[_COUNT] * in_order[_WEIGHT], repeats)
        if not timed:
            return Rows(block.columns, weights)
        times = np.repeat(in_order[_PART] * (length * MICROSECONDS), repeats)
        return Rows([*block.columns, pa.array(times)], weights)


@dataclass(frozen=True, eq=False)
class PartChanges:
    """What came to parts that are there (and went from them, where they were computed anew), and what went with parts
    that have expired; by object id."""

    came: Mapping[int, SignedPieces] = field(default_factory=dict)
    expired: Mapping[int, SignedPieces] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows come and go."""
        return sum(pieces.rows for each in (self.came, self.expired) for pieces in each.values())

    @property
    def objects(self) -> frozenset[int]:
        """Whose rows they are."""
        return frozenset((*self.came, *self.expired))


IndexOf = Callable[[int], PartIndex]
"""The part catalog of an object, by its id."""


def all_rows(objects: Iterable[int], index: IndexOf) -> PartChanges:
    """All rows that are there, as rows that come."""
    return changes_between(objects, lambda _: PartIndex(), index, lambda _: None)


def changes_between(
    objects: Iterable[int], older: IndexOf, newer: IndexOf, kept: Callable[[int], int | None]
) -> PartChanges:
    """What makes the rows of `older` those of `newer`; parts before `kept` have expired."""
    came: dict[int, SignedPieces] = {}
    gone: dict[int, SignedPieces] = {}
    for id_ in objects:
        bound = kept(id_)
        signed = list(_signed(older(id_), newer(id_)))
        for found, is_gone in ((came, False), (gone, True)):
            pieces = SignedPieces.of(each for each in signed if (bound is not None and each[1] < bound) == is_gone)
            if pieces.rows:
                found[id_] = pieces
    return PartChanges(came, gone)


def _signed(older: PartIndex, newer: PartIndex) -> Iterator[tuple[Piece, int, int, int]]:
    """The pieces that go and come: (piece, part, count, weight)."""
    for low, high in _changed(older, newer):
        for (part, last), before, after in _side_by_side(older.runs(low, high), newer.runs(low, high)):
            if before is not None and after is not None and _says_the_same(before, after):
                continue
            old = () if before is None else before.pieces
            new = () if after is None else after.pieces
            count = last - part + 1
            yield from ((piece, part, count, -1) for piece in _beside(old, new))
            yield from ((piece, part, count, 1) for piece in _beside(new, old))


def _beside(pieces: tuple[Piece, ...], others: tuple[Piece, ...]) -> Iterator[Piece]:
    """Those of `pieces` whose rows are not in `others`."""
    there = {(piece.file, piece.offset, piece.rows) for piece in others}
    return (piece for piece in pieces if (piece.file, piece.offset, piece.rows) not in there)


def _says_the_same(before: Part, after: Part) -> bool:
    """Whether a part has the rows that it had: what was rolled up has other pieces, and was not updated."""
    return (before.updated, before.rows) == (after.updated, after.rows)


def _changed(older: PartIndex, newer: PartIndex) -> list[Range]:
    """Ranges of parts that hold all of which the two say different things; none touches another."""
    changed, gone = newer.difference(older)
    rows = [*changed, *(row for key in (*gone, *(row.part for row in changed)) if (row := older.at(key)) is not None)]
    ranges: list[Range] = []
    for first, last in sorted((row.part, row.last) for row in rows):
        if ranges and first <= ranges[-1][1]:
            ranges[-1] = ranges[-1][0], max(ranges[-1][1], last)
        else:
            ranges.append((first, last))
    return ranges


def _side_by_side(older: Sequence[Part], newer: Sequence[Part]) -> Iterator[tuple[Range, Part | None, Part | None]]:
    """Both, cut so that each range is of one row at most of either; where neither has rows, nothing."""
    cuts = sorted({edge for run in (*older, *newer) for edge in (run.part, run.last + 1)})
    ways = [iter(older), iter(newer)]
    now = [next(way, None) for way in ways]
    for first, after in zip(cuts, cuts[1:], strict=False):
        for i, way in enumerate(ways):
            while (run := now[i]) is not None and run.last < first:
                now[i] = next(way, None)
        found = [run if run is not None and run.part <= first else None for run in now]
        if found != [None, None]:
            yield (first, after - 1), found[0], found[1]
