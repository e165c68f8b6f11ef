"""The rows of a table whose cells have timestamps, after operations in any order: the last write wins, cell by cell.

Row by row, by plain code of the checker's own.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from viewkeeper.catalog.outside_store import LAST, NEVER
from viewkeeper.catalog.types import Type
from viewkeeper.checker.delta_proof import Key, KeyedTable, LoggedOperation, Replayed
from viewkeeper.checker.value_rules import canonical

_EPOCH, _DAY = datetime.datetime(1970, 1, 1), datetime.date(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


@dataclass
class Cells:
    """What is known of a key: when its row was deleted and made, and of each column its timestamp and its value."""

    deleted: int = NEVER
    made: int = NEVER
    columns: dict[str, tuple[int, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class KeyRange:
    """A deletion of keys of one partition, behind which their ends say their first columns, and whether they are in."""

    partition: Key
    low: Key
    low_is_in: bool
    high: Key
    high_is_in: bool
    stamp: int

    def covers(self, key: Key) -> bool:
        """Whether a key lies in it."""
        if key[: len(self.partition)] != self.partition:
            return False
        behind = key[len(self.partition) :]
        first, last = behind[: len(self.low)], behind[: len(self.high)]
        above = first > self.low or (self.low_is_in and first == self.low)
        return above and (last < self.high or (self.high_is_in and last == self.high))


@dataclass(frozen=True)
class KnownCells:
    """What DELTA had seen at its version: of keys, gone ones too, and ranges.  `partition` is how many columns of the
    key are the partition key; `ties` as in `catalog.outside_store.TIMESTAMPED`."""

    ties: str
    partition: int
    keys: Mapping[Key, Cells] = field(default_factory=dict)
    ranges: Sequence[KeyRange] = ()

    def touched(self, operations: Sequence[LoggedOperation]) -> set[Key]:
        """The keys that `operations` speak of, or delete ranges of."""
        named = {_key(each) for each in operations if each.kind not in _ENDS}
        ranges = _ranges(operations, self.partition)
        return named | {key for key in self.keys if any(range_.covers(key) for range_ in ranges)}

    def replay(self, operations: Sequence[LoggedOperation], table: KeyedTable, keys: set[Key] | None) -> Replayed:
        """The rows of `keys`, of all that are named where None, after `operations`."""
        found = {key: Cells(each.deleted, each.made, dict(each.columns)) for key, each in self.keys.items()
                 if keys is None or key in keys}  # fmt: skip
        ranges = [*self.ranges, *_ranges(operations, self.partition)]
        for each in sorted(operations, key=lambda op: (op.stamp, op.node, op.sequence)):
            if each.kind not in _ENDS:
                self._apply(found.setdefault(_key(each), Cells()), each, table)
        rows = {}
        for key, cells in found.items():
            gone = max([cells.deleted, *(each.stamp for each in ranges if each.covers(key))])
            values = {name: value for name, (stamp, value) in cells.columns.items() if stamp > gone}
            if cells.made > gone or any(value is not None for value in values.values()):
                rows[key] = {**dict.fromkeys(table.names), **values, **dict(zip(table.key, key, strict=True))}
        return Replayed(rows, set())

    def _apply(self, cells: Cells, operation: LoggedOperation, table: KeyedTable) -> None:
        stamp = operation.stamp
        if operation.kind == "delete":
            cells.deleted = max(cells.deleted, stamp)
            return
        if operation.kind == "put":
            cells.made = max(cells.made, stamp)
        types = {column.name: column.type for column in table.columns}
        for name, value in operation.columns.items():
            if name in table.key:
                continue
            written = None if operation.kind == "delete_columns" else value
            had_stamp, had = cells.columns.get(name, (NEVER, None))
            wins = stamp > had_stamp
            if stamp == had_stamp and had is not None:
                wins = written is None or self.ties == LAST or _stored(written, types[name]) > _stored(had, types[name])
            if wins:
                cells.columns[name] = (stamp, written)


_ENDS = ("from", "behind", "to", "before")


def _key(operation: LoggedOperation) -> Key:
    return tuple(canonical(value) for value in operation.key)


def _ranges(operations: Iterable[LoggedOperation], partition: int) -> list[KeyRange]:
    ends: dict[tuple[int, int], dict[bool, LoggedOperation]] = {}
    for each in operations:
        if each.kind in _ENDS:
            ends.setdefault((each.node, each.sequence), {})[each.kind in ("from", "behind")] = each
    found = []
    for both in ends.values():
        low, high = both[True], both[False]
        of, *named = _key(low)[:partition], *(_key(end)[partition:][: len(end.columns)] for end in (low, high))
        found.append(KeyRange(of, named[0], low.kind == "from", named[1], high.kind == "to", low.stamp))
    return found


def _stored(value: Any, type_: Type) -> bytes:
    """The bytes of a value in the store, by which the greater of two of one time is told."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, datetime.datetime):
        naive = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo is not None else value
        return struct.pack(">q", (naive - _EPOCH) // _MICROSECOND)
    if isinstance(value, datetime.date):
        return struct.pack(">I", (value - _DAY).days + 2**31)
    if type_.is_decimal:
        unscaled = int(value.scaleb(type_.scale))
        return unscaled.to_bytes((unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1, "big", signed=True)
    if isinstance(value, float):
        return struct.pack(">f" if type_.name == "FLOAT" else ">d", value)
    if isinstance(value, int):
        return int(value).to_bytes(8, "big", signed=True)
    return bytes(value)
