"""Which parts exist, as a version says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from viewkeeper.catalog.model import Stream
from viewkeeper.streams.part_files import read_part
from viewkeeper.streams.part_index import read_index
from viewkeeper.streams.progress import StreamProgress
from viewkeeper.streams.view_progress import ViewProgress
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.snapshot import Snapshot

SAMPLE_ROWS = 100_000


class ExistingParts:
    """`declare.Known` of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def oldest(self, id_: int) -> int | None:
        """The first part that has not expired, None where there is no part."""
        progress = self._progress(id_)
        if progress.first is None or progress.next is None or progress.next <= progress.first:
            return None
        return progress.first if progress.kept is None else max(progress.first, progress.kept)

    def copied(self, id_: int) -> bool:
        """Whether there are copies of a table, as parts were joined with it."""
        return bool(len(read_index(self._snapshot).get(id_, ())))

    def newest(self, id_: int) -> int | None:
        """The last part that is sealed or built, None where there is none."""
        progress = self._progress(id_)
        return progress.next - 1 if self.oldest(id_) is not None and progress.next is not None else None

    def sizes(self, id_: int, columns: Sequence[int]) -> tuple[float, float] | None:
        """About how many rows a part with rows has, and how many different values of `columns`; None: no part has any.

        The values are counted in the first rows of the newest part: where most of those differ, so will the others.
        """
        newest, index = self.newest(id_), read_index(self._snapshot).get(id_)
        last = None if newest is None or index is None else index.previous_with_rows(newest + 1)
        part = None if last is None or index is None else index.at(last)
        if part is None:
            return None
        rows = 0
        pieces = []
        for piece in part.pieces:
            if rows < SAMPLE_ROWS:
                pieces.append(replace(piece, rows=min(piece.rows, SAMPLE_ROWS - rows)))
                rows += pieces[-1].rows
        columns_there = self._snapshot.catalog.source(id_).columns
        block = read_part(self._snapshot.storage.disk, pieces, columns_there, wanted=list(columns))
        groups = len(np.unique(hash_columns(block.columns, rows)))
        return part.rows, groups * (part.rows / rows if 2 * groups > rows else 1)

    def failing(self, id_: int) -> int | None:
        """The next part of a view that is stale, None of one that is not."""
        progress = self._progress(id_)
        return progress.next if isinstance(progress, ViewProgress) and progress.stale is not None else None

    def lost(self, id_: int) -> int | None:
        """The part before which all have expired, None where none has."""
        progress = self._progress(id_)
        is_first = progress.first is None or progress.kept is None or progress.kept <= progress.first
        return None if is_first else progress.kept

    def carried(self, id_: int) -> int | None:
        """The part from which on a view has what its program keeps beside it, None where it has all."""
        progress = self._progress(id_)
        return progress.carried if isinstance(progress, ViewProgress) else None

    def _progress(self, id_: int) -> StreamProgress | ViewProgress:
        data = self._snapshot.progress.get(id_)
        is_stream = isinstance(self._snapshot.catalog.by_id(id_), Stream)
        return StreamProgress.from_dict(data) if is_stream else ViewProgress.from_dict(data)
