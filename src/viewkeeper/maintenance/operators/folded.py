"""The operations of a batch on one table by key, and what they make of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewkeeper.plans import maintenance as plan
from viewkeeper.trace.grouping import Groups
from viewkeeper.trace.keys import valid
from viewkeeper.trace.rows import Rows, constant


@dataclass
class KeyOperations:
    """A batch's operations on one table, in sequence order, and their grouping by key.  `given` says which of their
    columns is for each that DELTA yields, None where it was dropped."""

    rows: Rows
    hashes: np.ndarray
    groups: Groups
    given: tuple[int | None, ...]

    def column(self, offset: int) -> pa.Array:
        """A column behind the table's own: 0 kind, 1 set, 2 node, 3 sequence, 4 stamp."""
        return self.rows.columns[len(self.rows.columns) - 5 + offset]

    def values(self, i: int, like: pa.DataType) -> pa.Array:
        """What the operations have for column `i` of DELTA, which is of the type `like`."""
        at = self.given[i]
        return constant(like, None, len(self.rows)) if at is None else self.rows.columns[at]

    def named(self, i: int) -> np.ndarray:
        """bool: whether the operation names column `i` of DELTA, in the order of `groups.order`."""
        bit = self.given[i]
        if bit is None:
            return np.zeros(len(self.masks), dtype=bool)
        return (self.masks[:, bit // 8] >> (bit % 8)) & 1 == 1

    def __post_init__(self) -> None:
        self.kind = self.column(0).to_numpy()[self.groups.order]
        set_ = self.column(1)
        size = set_.type.byte_width
        data = np.frombuffer(set_.buffers()[1], dtype=np.uint8)[set_.offset * size : (set_.offset + len(set_)) * size]
        self.masks = data.reshape(-1, size)[self.groups.order]

    def last(self, condition: np.ndarray) -> np.ndarray:
        """For each key the last position in `groups.order` where `condition` holds, -1 where none does."""
        return np.maximum.reduceat(np.where(condition, np.arange(len(condition)), -1), self.groups.starts)

    def next(self, condition: np.ndarray, after: np.ndarray) -> np.ndarray:
        """For each key the first position behind `after` where `condition` holds; len(condition) where none does."""
        places = np.arange(len(condition))
        behind = condition & (places > np.repeat(after, self.groups.lengths))
        return np.minimum.reduceat(np.where(behind, places, len(places)), self.groups.starts)


@dataclass
class Folded:
    """For each key: whether its row is there after the batch, and the row's columns behind the key, in state order."""

    live: np.ndarray
    columns: list[pa.Array]


def state_order(operator: plan.Delta) -> list[int]:
    """The stream's columns behind the key, in the order in which the state holds them."""
    return [i for i in range(len(operator.columns)) if i not in operator.key]


def is_null(column: pa.Array) -> np.ndarray:
    present = valid(column)
    return np.zeros(len(column), dtype=bool) if present is None else ~present
