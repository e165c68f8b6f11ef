"""ByteSpans of one buffer: the rows, names and values of many cells, without an object for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewkeeper.trace.grouping import spread


@dataclass(frozen=True)
class ByteSpans:
    """Piece i is the `lengths[i]` bytes (int64) from `starts[i]` on in `data` (uint8)."""

    data: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    @staticmethod
    def of(pieces: Sequence[bytes]) -> ByteSpans:
        """`pieces`, one behind the other."""
        lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
        return ByteSpans(np.frombuffer(b"".join(pieces), np.uint8), np.cumsum(lengths) - lengths, lengths)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, at: int) -> bytes:
        start = int(self.starts[at])
        return self.data[start : start + int(self.lengths[at])].tobytes()

    def take(self, which: np.ndarray) -> ByteSpans:
        """The pieces at `which`, or where it is true."""
        return ByteSpans(self.data, self.starts[which], self.lengths[which])

    def head(self, length: int | np.ndarray) -> ByteSpans:
        """The first `length` bytes of each, which has them."""
        return ByteSpans(self.data, self.starts, np.broadcast_to(np.asarray(length, np.int64), len(self)))

    def behind(self, length: int | np.ndarray) -> ByteSpans:
        """What is behind the first `length` bytes of each, which has them."""
        return ByteSpans(self.data, self.starts + length, self.lengths - length)

    def fixed(self, width: int) -> np.ndarray:
        """uint8[n, width]: the first `width` bytes of each, which has them."""
        return self.data[self.starts[:, None] + np.arange(width)] if len(self) else np.zeros((0, width), np.uint8)

    def binary(self) -> pa.Array:
        """The pieces as large_binary."""
        offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        gathered = self.data[spread(self.starts, self.lengths)]
        return pa.Array.from_buffers(
            pa.large_binary(), len(self), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(gathered))]
        )

    def are(self, piece: bytes) -> np.ndarray:
        """bool[n]: which are `piece`."""
        same = self.lengths == len(piece)
        some = np.flatnonzero(same)
        if piece and len(some):
            expected = np.frombuffer(piece, np.uint8)
            same[some] = (self.take(some).fixed(len(piece)) == expected).all(axis=1)
        return same

    def change(self) -> np.ndarray:
        """bool[n]: which are not the same as the piece before them; the first is not."""
        changed = np.ones(len(self), bool)
        alike = np.flatnonzero(self.lengths[1:] == self.lengths[:-1]) + 1
        for width in np.unique(self.lengths[alike]).tolist():
            some = alike[self.lengths[alike] == width]
            changed[some] = (self.take(some).fixed(width) != self.take(some - 1).fixed(width)).any(axis=1)
        return changed
