"""How the rows of a table compare with those of the view."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from viewkeeper.stores.outside.delta.row_files import RowFile, RowFiles
from viewkeeper.stores.outside.targets import Deviation
from viewkeeper.trace.arrange import take_all
from viewkeeper.trace.grouping import spread
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.keys import equal_rows
from viewkeeper.trace.rows import Rows

_READ_AT_ONCE = 50_000


class ComparedBlock(NamedTuple):
    """What deviates, the rows of the view that have to be written, and those of the table that have to go."""

    deviations: list[Deviation]
    came: Rows
    gone: Rows


class LakeRows:
    """All rows of some files, by their keys' hashes: 28 bytes a row, and those that are looked at more closely."""

    def __init__(self, store: RowFiles, files: Sequence[RowFile]) -> None:
        self._store, self._form, self._files = store, store.form, files
        keys, whole, places = [], [], []
        for number, file in enumerate(files):
            rows = self._form.rows(store.read(file))
            keys.append(hash_columns(self._form.keys_of(rows), len(rows)))
            whole.append(hash_columns(self._form.whole(rows), len(rows)))
            places.append(np.stack([np.full(len(rows), number), np.arange(len(rows))], axis=1))
        hashes = np.concatenate([*keys, np.zeros(0, np.uint64)])
        order = np.argsort(hashes)
        self._hashes, self._whole = hashes[order], np.concatenate([*whole, np.zeros(0, np.uint64)])[order]
        self._places = np.concatenate([*places, np.zeros((0, 2), np.int64)])[order]
        self._seen = np.zeros(len(order), dtype=bool)

    def left(self) -> Iterator[ComparedBlock]:
        """What the view has not, after all of its rows have been `compared`."""
        left = np.flatnonzero(~self._seen)
        for at in range(0, len(left), _READ_AT_ONCE):
            rows = self._read(left[at : at + _READ_AT_ONCE])
            found = [Deviation(self._form.key_text(row), None, row) for row in self._form.shown(rows)]
            yield ComparedBlock(found, self._form.no_rows(), rows)

    def compared(self, block: Rows) -> ComparedBlock:
        """With some rows of the view."""
        keys = self._form.keys_of(block)
        hashes = hash_columns(keys, len(block))
        starts = np.searchsorted(self._hashes, hashes)
        counts = np.searchsorted(self._hashes, hashes, side="right") - starts
        right = counts == 1
        right[right] = self._whole[starts[right]] == hash_columns(self._form.whole(block), len(block))[right]
        self._seen[starts[right]] = True
        rest = np.flatnonzero(~right)
        if not len(rest):
            return ComparedBlock([], self._form.no_rows(), self._form.no_rows())
        # Exactly, where a key is missing, stands twice, or shares its hash with another.
        which, at = np.repeat(rest, counts[rest]), spread(starts[rest], counts[rest])
        there = self._read(at)
        index = np.arange(len(at))
        if keys:
            index = index[equal_rows(self._form.keys_of(there), take_all(keys, which))]
        which, there = which[index], there.take(index)
        self._seen[at[index]] = True
        same = equal_rows(self._form.whole(there), take_all(self._form.whole(block), which))
        right |= (np.bincount(which, minlength=len(block)) == 1) & np.isin(np.arange(len(block)), which[same])
        wrong = np.flatnonzero(~right)
        found = dict(zip(which.tolist(), self._form.shown(there), strict=True))
        came = block.take(wrong)
        deviations = [Deviation(self._form.key_text(row), row, found.get(number))
                      for number, row in zip(wrong.tolist(), self._form.shown(came), strict=True)]  # fmt: skip
        return ComparedBlock(deviations, came, self._form.no_rows())

    def _read(self, at: np.ndarray) -> Rows:
        """The rows at these places, in their order."""
        places, read, order = self._places[at], [self._form.no_rows()], [np.zeros(0, np.int64)]
        for number in np.unique(places[:, 0]).tolist():
            of_file = np.flatnonzero(places[:, 0] == number)
            table = self._store.read(self._files[number]).take(pa.array(places[of_file, 1]))
            read.append(self._form.rows(table))
            order.append(of_file)
        return Rows.concat(read).take(np.argsort(np.concatenate(order)))
