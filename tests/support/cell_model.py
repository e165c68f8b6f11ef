"""A store that keeps a timestamp with each cell, as a plain model: what was written, whatever the order it came in."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Write:
    """`kind` is "insert", "update", "delete", "unset" or "range".

    `cells` are the columns that are set, or the names of those that are unset.  Of a range `key` is the partition, and
    `low` and `high` are its ends: the values of the first key columns behind it, and whether the end is in it.
    """

    kind: str
    key: Key
    stamp: int
    cells: dict[str, Any] = field(default_factory=dict)
    low: tuple[Key, bool] = ((), True)
    high: tuple[Key, bool] = ((), True)

    def covers(self, key: Key) -> bool:
        """Whether a range has a key in it."""
        if key[: len(self.key)] != self.key:
            return False
        behind = key[len(self.key) :]
        (low, low_in), (high, high_in) = self.low, self.high
        first, last = behind[: len(low)], behind[: len(high)]
        return (first > low or (low_in and first == low)) and (last < high or (high_in and last == high))


def rows_of(
    writes: Iterable[Write], columns: Sequence[str], as_bytes: Callable[[Any], bytes] | None
) -> dict[Key, Key]:  # fmt: skip
    """The rows, by key, that the store ends at: their values in `columns`.  Of two values of one time the one counts
    that is the greater `as_bytes`, or the later one where that is None."""
    writes = list(writes)
    ranges = [write for write in writes if write.kind == "range"]
    rows = {}
    for key in {write.key for write in writes if write.kind != "range"}:
        of = [write for write in writes if write.kind != "range" and write.key == key]
        gone = max([w.stamp for w in of if w.kind == "delete"] + [w.stamp for w in ranges if w.covers(key)],
                   default=-(2**63))  # fmt: skip
        made = any(write.kind == "insert" and write.stamp > gone for write in of)
        values = []
        for column in columns:
            cells = [(w.stamp, w.kind == "unset" or w.cells[column] is None, w.cells.get(column))
                     for w in of if w.kind != "delete" and column in w.cells and w.stamp > gone]  # fmt: skip
            newest = max((stamp for stamp, _, _ in cells), default=None)
            last = [(empty, value) for stamp, empty, value in cells if stamp == newest]
            is_empty = not last or any(empty for empty, _ in last)
            given = [value for _, value in last]
            values.append(None if is_empty else given[-1] if as_bytes is None else max(given, key=as_bytes))
        if made or any(value is not None for value in values):
            rows[key] = tuple(values)
    return rows


def stored_bytes(value: Any) -> bytes:
    """How the store holds a BIGINT or a STRING."""
    return struct.pack(">q", value) if isinstance(value, int) else value.encode()
