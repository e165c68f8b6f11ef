"""The parts of one stream, or of one view over streams, at one version: which there are, and their rows."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.arrow_tables import logical_table
from viewkeeper.catalog.model import PartView, Stream
from viewkeeper.errors import NotFound, NotReady, NotSupported
from viewkeeper.stores.value_conversion import aware
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.part_files import merged, read_part
from viewkeeper.streams.part_index import Part, PartIndex
from viewkeeper.streams.progress import StreamProgress
from viewkeeper.streams.subscripts import UNBOUNDED
from viewkeeper.streams.view_progress import ViewProgress
from viewkeeper.streams.waiting import reason
from viewkeeper.streams.work import Piece
from viewkeeper.trace.disk import Disk
from viewkeeper.trace.grouping import spread
from viewkeeper.trace.snapshot import Snapshot

PARTS_READ = 10_000_000
"""Parts with rows that are read at once, at most: equal parts take no room where they stand, but as rows they do."""


@dataclass(frozen=True)
class Changed:
    """Parts `first` to `last` were made, or last changed, by `version` of the database, at `time`."""

    first: int
    last: int
    version: int
    time: datetime.datetime


class Parts:
    """`kept` is the lowest part that has not expired and `next` the first that is not there yet; both None while there
    is none."""

    def __init__(self, snapshot: Snapshot, of: Stream | PartView, index: PartIndex) -> None:
        self.of, self._snapshot, self._index = of, snapshot, index
        self._zone = snapshot.catalog.zone
        self._moment = aware(self._zone)
        data = snapshot.progress.get(of.id)
        self.progress = StreamProgress.from_dict(data) if isinstance(of, Stream) else ViewProgress.from_dict(data)
        self.next = self.progress.next
        bounds = [bound for bound in (self.progress.first, self.progress.kept) if bound is not None]
        there = bool(bounds) and self.next is not None and max(bounds) < self.next
        self.kept = max(bounds) if there else None

    @property
    def newest(self) -> int | None:
        """The newest part that is there."""
        return None if self.kept is None or self.next is None else self.next - 1

    @property
    def stale(self) -> str | None:
        """Why a view is behind because of an error; None where all is well."""
        if isinstance(self.progress, ViewProgress) and self.progress.stale is not None:
            return f"{self.of.name} is stale: {self.progress.stale}"
        return None

    def require(self, first: int, last: int) -> None:
        """Raises NotReady or NotFound where one of the parts `first` to `last` is not there, saying why."""
        if self.next is None or last >= self.next:
            missing = last if self.next is None else max(first, self.next)
            done = "sealed" if isinstance(self.of, Stream) else "built"
            why = reason(self._snapshot.catalog, self._snapshot.progress, self.of, missing)
            raise NotReady(f"{self.of.name}[{missing}] is not {done} yet: {why}")
        begin, kept = self.progress.first, self.progress.kept
        if kept is not None and first < kept and (begin is None or first >= begin):
            raise NotFound(f"{self.of.name}[{first}] has expired: parts from {kept} on are kept")
        if begin is not None and first < begin:
            raise NotFound(f"{self.of.name}[{first}] lies before the first part, {self.of.name}[{begin}]")

    def with_rows(self, first: int | None = None, last: int | None = None) -> list[int]:
        """The subscripts of the parts that have rows, from `first` to `last` (None: to the end), ascending.  Raises
        NotSupported where they are too many to be read at once."""
        return self._index.filled(*self._readable(first, last)).tolist()

    def runs(self, first: int | None = None, last: int | None = None) -> list[Part]:
        """What the part catalog says of these parts, those of a run of equal ones as one."""
        return self._index.runs(*self._between(first, last))

    def count(self, first: int | None = None, last: int | None = None) -> int:
        """How many rows these parts have together."""
        return self._index.count_between(*self._between(first, last))

    def pieces(self, first: int | None = None, last: int | None = None) -> dict[int, tuple[Piece, ...]]:
        """Where the rows of these parts stand, for each part that has any."""
        return {part.part: part.pieces for part in self._index.with_rows(*self._readable(first, last))}

    def rows(self, parts: Iterable[int], wanted: Sequence[int] | None = None) -> tuple[Block, np.ndarray]:
        """The rows of some parts (of the columns at `wanted`, all by default), and the part (int64) of each."""
        subscripts, starts, lengths = list[int](), list[int](), list[int]()
        known, pieces, rows = dict[tuple[Piece, ...], int](), list[Piece](), 0
        row: Part | None = None
        for part in parts:
            if row is None or not row.part <= part <= row.last:
                row = self._index.at(part)
            if row is None or not row.rows:
                continue
            if row.pieces not in known:
                known[row.pieces] = rows
                pieces += row.pieces
                rows += row.rows
            subscripts.append(part)
            starts.append(known[row.pieces])
            lengths.append(row.rows)
        block = read_part(self.disk, merged(pieces), self.of.columns, wanted=wanted)
        if len(known) < len(subscripts):
            block = block.take(spread(np.array(starts), np.array(lengths)))
        return block, np.repeat(np.array(subscripts, dtype=np.int64), lengths)

    @property
    def disk(self) -> Disk:
        """Where the files of parts are."""
        return self._snapshot.storage.disk

    def table(self, parts: Iterable[int]) -> pa.Table:
        """The rows of some parts, in the types that users see."""
        return logical_table(self.of.columns, self.rows(parts)[0].columns, self._zone)

    def open(self) -> list[int]:
        """Of a stream: the subscripts of the parts that have rows and are not sealed yet."""
        after = -UNBOUNDED if self.next is None else self.next
        return self._index.filled(after, UNBOUNDED).tolist()

    def changed(self, version: int | None = None, stamp: int | None = None) -> list[Changed]:
        """The kept parts that were made or changed after a version, or after a time (microseconds), in ranges of equal
        changes."""
        found: list[Changed] = []
        if self.kept is None or self.newest is None:
            return found
        for low, high in self._index.changed_since(version, stamp=stamp):
            at = max(low, self.kept)
            while at <= min(high, self.newest):
                here = self.last_updated(at)
                before = found[-1] if found else None
                if before and (before.last + 1, before.version) == (at, here.version):
                    found[-1] = replace(before, last=here.last)
                else:
                    found.append(here)
                at = here.last + 1
        return found

    def _between(self, first: int | None, last: int | None) -> tuple[int, int]:
        """What is there of it.  (The part catalog has the open parts of streams as well.)"""
        if self.kept is None or self.newest is None:
            return 0, -1
        low = self.kept if first is None else max(first, self.kept)
        return low, self.newest if last is None else min(last, self.newest)

    def _readable(self, first: int | None, last: int | None) -> tuple[int, int]:
        low, high = self._between(first, last)
        firsts, lasts = self._index.filled_runs(low, high)
        count = int((lasts - firsts + 1).sum())
        if count > PARTS_READ:
            name = self.of.name
            raise NotSupported(
                f"{name} has {count:,} parts with rows from {name}[{low}] to {name}[{high}], of which at most "
                f"{PARTS_READ:,} are read at once: name fewer, by .at(moment), .parts(first, last), or a condition on "
                "PART_TIMESTAMP in SQL; .rows() of all gives one after another"
            )
        return low, high

    def last_updated(self, part: int) -> Changed:
        """When `part`, which is there, was last changed; and up to which part the same holds, if it is in a run of
        equal parts."""
        found = self._index.at(part)
        assert found is not None and self.newest is not None, "parts that are there stand in the part catalog"
        return Changed(part, min(found.last, self.newest), found.updated, self.moment(found.stamp))

    def begin(self, part: int) -> datetime.datetime:
        """When `part` begins."""
        return self.moment(part * self.of.length * 1_000_000)

    def moment(self, microseconds: int) -> datetime.datetime:
        """Microseconds since 1970 as a user sees them: in the database's time zone."""
        moment: datetime.datetime = self._moment(microseconds)
        return moment
