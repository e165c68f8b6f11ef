"""The keys that a batch touches, and all rows that a state holds of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewkeeper.maintenance.operators.passed import Passed
from viewkeeper.maintenance.task import Arrived
from viewkeeper.trace.grouping import group_rows
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.keys import with_null
from viewkeeper.trace.rows import Rows
from viewkeeper.trace.trace import Trace


@dataclass(frozen=True)
class KeyedRows:
    """Rows of a bag, no two of them equal, and for each (int64) the number of its key among the touched ones; `passed`
    is what lies before the rows of each key (None: nothing)."""

    key: np.ndarray
    rows: Rows
    passed: Passed | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @staticmethod
    def of(key: np.ndarray, rows: Rows, passed: Passed | None = None) -> KeyedRows:
        """Rows as runs hold them, with the number of the key of each."""
        numbers = pa.array(key)
        index, rows = consolidated(rows, hash_columns([numbers, *rows.columns], len(rows)), [numbers])
        return KeyedRows(key[index], rows, passed)


@dataclass(frozen=True)
class KeyAnswer:
    """What a function says: rows, and where it raised: `raised` as rows, and for each the packed error (or None)."""

    rows: Rows
    raised: Rows
    errors: np.ndarray | None


@dataclass(frozen=True)
class TouchedKeys:
    """Distinct keys in the order of their hashes."""

    hashes: np.ndarray
    columns: list[pa.Array]

    def __len__(self) -> int:
        return len(self.hashes)

    def rows_of(self, trace: Trace, columns: Sequence[int] | None = None) -> KeyedRows:
        """The rows that `trace` holds of these keys."""
        return KeyedRows.of(*trace.matches(self.hashes, self.columns, columns))


def touched(arrived: Sequence[Arrived | None], *, nulls: bool) -> tuple[TouchedKeys, list[np.ndarray]]:
    """The keys of all that arrived (of at least one side), and for each group of each side its key's number (int64).

    Without `nulls` keys with a NULL are left out: their number is -1.
    """
    sides = [side for side in arrived if side is not None]
    hashes = np.concatenate([side.group_hashes for side in sides])
    columns = [pa.concat_arrays(parts) for parts in zip(*(side.group_keys for side in sides), strict=True)]
    known = ~with_null(() if nulls else columns, len(hashes))
    index = np.flatnonzero(known)
    hashes, columns = hashes[index], [column.take(pa.array(index)) for column in columns]
    groups = group_rows(hashes, columns)
    numbers = np.full(len(known), -1)
    numbers[index[groups.order]] = np.repeat(np.arange(len(groups.starts)), groups.lengths)
    ends = np.cumsum([0 if side is None else len(side.group_hashes) for side in arrived])
    keys = TouchedKeys(hashes[groups.firsts], [column.take(pa.array(groups.firsts)) for column in columns])
    return keys, np.split(numbers, ends[:-1])


def consolidated(rows: Rows, hashes: np.ndarray, more: Sequence[pa.Array] = ()) -> tuple[np.ndarray, Rows]:
    """One of each set of equal rows, with the sum of their weights where that is not 0, and where it stood.

    `hashes` are those of `more` and the columns: rows are equal where both are.
    """
    groups = group_rows(hashes, [*more, *rows.columns])
    if not len(groups.starts):
        return groups.order, rows
    sums = np.add.reduceat(rows.weights[groups.order], groups.starts)
    kept = sums != 0
    index = groups.firsts[kept]
    return index, Rows(rows.take(index).columns, sums[kept])
