"""What entries of a stream's log do to the stream: which parts they seal, where their rows go.  Plain computing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import REJECTED, Stream
from viewkeeper.catalog.types import physical_type
from viewkeeper.streams.intake.entries import Append, Entry
from viewkeeper.streams.progress import StreamProgress
from viewkeeper.streams.work import Piece
from viewkeeper.trace.receipt import FileRef
from viewkeeper.trace.rows import Rows

MICROSECONDS = 1_000_000

NO_NODE = -1
"""The node in REJECTED of what a stream rejected."""


@dataclass(frozen=True)
class TakenEntries:
    """What came of the entries after one progress, which led to `progress`.

    `sealed` are the parts that exist from now on, in order; those among them without pieces are empty.  `pieces` are
    the new ones of parts that did not exist before (sealed now, or still open).  `late` are those of parts that did;
    parts from the new `first` on that lie before the old one exist from now on too (they are empty, or in `late`).
    `rejected` has the columns of REJECTED.  `rows` were stored, `late_rows` of them in parts sealed before their append
    (some of which may be in `pieces`, where both happened in these entries).  `expired_rows` are of parts that are kept
    no more: they are in no piece.
    """

    progress: StreamProgress
    sealed: range
    pieces: dict[int, tuple[Piece, ...]]
    late: dict[int, tuple[Piece, ...]]
    files: tuple[FileRef, ...]
    rejected: Rows
    rows: int
    late_rows: int
    expired_rows: int


@dataclass(frozen=True)
class Reach:
    """What all entries of a stream's log come to, the taken ones too: the last sequence, the greatest timestamp
    (microseconds), the lowest part with a row, and the lowest part that no seal among them names."""

    end: int
    watermark: int | None
    first: int | None
    unsealed: int | None


def sealed_after(stream: Stream, progress: StreamProgress, reach: Reach) -> int | None:
    """`sealed_upto` once all entries are taken: as `advance` comes to, from what is remembered of them."""
    first = reach.first
    if first is not None and progress.kept is not None:
        first = max(first, progress.kept)
    firsts = [part for part in (progress.first, first) if part is not None]
    after = replace(progress, watermark=reach.watermark, first=min(firsts, default=None), unsealed=reach.unsealed)
    return sealed_upto(stream, after)


def advance(stream: Stream, progress: StreamProgress, entries: Iterable[Entry]) -> TakenEntries:
    """Take `entries`, the next ones of the stream's log, in order."""
    before, pieces, late, files = progress, _Pieces(), _Pieces(), list[FileRef]()
    rejected, rows, late_rows, expired_rows = list[Rows](), 0, 0, 0
    for entry in entries:
        if entry.sequence != progress.position + 1:
            raise ValueError(f"entry {entry.sequence} of stream {stream.id} cannot follow {progress.position}")
        if isinstance(entry, Append):
            bound = _bound(stream, progress)
            for file in entry.files:
                files.append(file.ref)
                rows += int(file.rows.sum())
                if bound is not None:
                    late_rows += int(file.rows[file.parts < bound].sum())
                for part, piece in file.pieces():
                    if progress.kept is not None and part < progress.kept:
                        expired_rows += piece.rows
                    else:
                        (late if before.next is not None and part < before.next else pieces).add(part, piece)
            if len(entry.rejected):
                rejected.append(_rejections(stream, entry))
            progress = _after_append(progress, entry)
        else:
            progress = replace(progress, unsealed=max(entry.upto + 1, _or_least(progress.unsealed, entry.upto + 1)))
        progress = replace(progress, position=entry.sequence, hash=entry.hash)
    progress = _with_next(stream, progress)
    return TakenEntries(progress, _sealed(before, progress), pieces.tuples(), late.tuples(), tuple(files),
                 Rows.concat(rejected) if rejected else Rows.empty([physical_type(c.type) for c in REJECTED.columns]),
                 rows, late_rows, expired_rows)  # fmt: skip


def idle_seal(stream: Stream, progress: StreamProgress, last_append: float | None, now: float) -> int | None:
    """The part up to which IDLE seals at wall time `now`; None: it does not.

    `last_append` is the wall time of the last row, or of when watching for rows began, if that was later (both in
    seconds).  A stream without any row is not sealed: it has no part yet.
    """
    if stream.idle is None or last_append is None or progress.first is None or now - last_append < stream.idle:
        return None
    upto = int((now - stream.lateness) // stream.length) - 1
    bound = _bound(stream, progress)
    return upto if bound is None or upto >= bound else None


def too_late(stream: Stream, watermark: int | None) -> int | None:
    """Rows with timestamps before this (microseconds) lie outside HORIZON, or where parts may have expired."""
    behind = stream.horizon if stream.horizon is not None else stream.expire
    return None if behind is None or watermark is None else watermark - behind * MICROSECONDS


class _Pieces(dict[int, list[Piece]]):
    """Pieces by part."""

    def add(self, part: int, piece: Piece) -> None:
        self.setdefault(part, []).append(piece)

    def tuples(self) -> dict[int, tuple[Piece, ...]]:
        return {part: tuple(self[part]) for part in sorted(self)}


def _after_append(progress: StreamProgress, entry: Append) -> StreamProgress:
    if entry.greatest is None:
        return progress
    lowest = min(int(file.parts[0]) for file in entry.files)
    if progress.kept is not None:
        lowest = max(lowest, progress.kept)
    return replace(
        progress,
        watermark=entry.greatest if progress.watermark is None else max(progress.watermark, entry.greatest),
        first=lowest if progress.first is None else min(progress.first, lowest),
    )


def _bound(stream: Stream, progress: StreamProgress) -> int | None:
    """The lowest part that is not sealed, whether or not parts before it exist; None: nothing has sealed any."""
    found = [progress.unsealed, progress.next]
    if progress.watermark is not None:
        # Part i is sealed if watermark >= (i + 1) * length + lateness.
        found.append((progress.watermark - stream.lateness * MICROSECONDS) // (stream.length * MICROSECONDS))
    return max((bound for bound in found if bound is not None), default=None)


def sealed_upto(stream: Stream, progress: StreamProgress) -> int | None:
    """The first part that is not sealed; None where none is.  The driver makes sealed parts visible a few at a time, so
    `progress.next` may lie before it."""
    bound = _bound(stream, progress)
    exists = bound is not None and progress.first is not None and progress.first < bound
    return bound if exists else None


def _with_next(stream: Stream, progress: StreamProgress) -> StreamProgress:
    return replace(progress, next=sealed_upto(stream, progress))


def _sealed(before: StreamProgress, after: StreamProgress) -> range:
    if after.next is None or after.first is None:
        return range(0)
    return range(after.first if before.next is None else before.next, after.next)


def _or_least(value: int | None, other: int) -> int:
    return other if value is None else value


def _rejections(stream: Stream, entry: Append) -> Rows:
    count = len(entry.rejected)
    same = [np.full(count, value) for value in (stream.id, NO_NODE, entry.sequence, entry.stamp)]
    columns = [pa.array(values, physical_type(column.type))
               for values, column in zip(same, REJECTED.columns, strict=False)]  # fmt: skip
    given = zip(entry.rejected.columns, REJECTED.columns[4:], strict=True)
    columns += [values.combine_chunks().cast(physical_type(column.type)) for values, column in given]
    return Rows(columns, np.ones(count, np.int64))
