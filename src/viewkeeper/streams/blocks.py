"""`Block`: rows of one part, as the programs of generated views take and give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import physical_type


@dataclass
class Block:
    """Columns of equal length in physical types, never chunked.

    `hashes` (uint64, a row each) is the hash of the row's group (`trace.hashing.hash_columns` of the grouping values),
    by which rows find their view server; all zero where there are no groups.  It is not sorted unless said so.
    """

    columns: list[pa.Array]
    hashes: np.ndarray

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, indices: np.ndarray) -> Block:
        """The rows at `indices`, in that order."""
        index = pa.array(indices)
        return Block([column.take(index) for column in self.columns], self.hashes[indices])

    def filter(self, keep: np.ndarray) -> Block:
        """The rows where the boolean array `keep` is True."""
        return self if keep.all() else self.take(np.flatnonzero(keep))

    @staticmethod
    def empty(columns: Sequence[Column]) -> Block:
        """No rows of `columns`."""
        return Block([pa.array([], physical_type(column.type)) for column in columns], np.zeros(0, dtype=np.uint64))

    @staticmethod
    def concat(blocks: Sequence[Block]) -> Block:
        """All rows of `blocks` (at least one), in order."""
        if len(blocks) == 1:
            return blocks[0]
        columns = [pa.concat_arrays([block.columns[i] for block in blocks]) for i in range(len(blocks[0].columns))]
        return Block(columns, np.concatenate([block.hashes for block in blocks]))
