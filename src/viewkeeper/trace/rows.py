"""`Rows`: a block of rows with weights (a Z-set), the form in which data moves through the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa


def constant(type_: pa.DataType, value: Any, length: int) -> pa.Array:
    """A column that holds one physical value `length` times; NULLs take memory only where they are looked at."""
    if value is not None:
        return pa.repeat(pa.scalar(value, type_), length)

    def zeros(size: int) -> pa.Buffer:
        return pa.py_buffer(np.zeros(size, np.uint8))

    if pa.types.is_large_string(type_) or pa.types.is_large_binary(type_):
        return pa.Array.from_buffers(type_, length, [zeros((length + 7) // 8), zeros(8 * (length + 1)), zeros(0)])
    return pa.Array.from_buffers(type_, length, [zeros((length + 7) // 8), zeros(length * type_.bit_width // 8)])


@dataclass
class Rows:
    """Columns of equal length in physical types (never chunked), and one int64 weight a row.

    In a delta, weight +1 is a row that came and -1 one that went.  In a keyed trace, weight 1 is a live row and 0 a
    tombstone (whose columns behind the key are NULL).

    `words` (uint64) is set where the rows stand as a run of their state holds them: consolidated, with canonical keys,
    sorted by these words.  Whatever selects or joins rows gives rows without it.
    """

    columns: list[pa.Array]
    weights: np.ndarray
    words: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.weights)

    def take(self, indices: np.ndarray) -> Rows:
        """The rows at `indices` (int64), in that order."""
        index = pa.array(indices)
        return Rows([column.take(index) for column in self.columns], self.weights[indices])

    def filter(self, keep: np.ndarray) -> Rows:
        """The rows where the boolean array `keep` is True."""
        return self if keep.all() else self.take(np.flatnonzero(keep))

    def select(self, positions: Sequence[int]) -> Rows:
        """The same rows with the columns at `positions`."""
        return Rows([self.columns[i] for i in positions], self.weights)

    def repeated(self) -> Rows:
        """The same bag with each row as often as its weight says (all weights 1)."""
        if (self.weights == 1).all():
            return self
        rows = self.take(np.repeat(np.arange(len(self)), self.weights))
        return Rows(rows.columns, np.ones(len(rows), dtype=np.int64))

    @staticmethod
    def empty(types: Sequence[pa.DataType]) -> Rows:
        return Rows([pa.array([], type_) for type_ in types], np.zeros(0, dtype=np.int64))

    @staticmethod
    def concat(parts: Sequence[Rows]) -> Rows:
        """All rows of `parts` (at least one), in order."""
        if len(parts) == 1:
            return parts[0]
        columns = [pa.concat_arrays([part.columns[i] for part in parts]) for i in range(len(parts[0].columns))]
        return Rows(columns, np.concatenate([part.weights for part in parts]))
