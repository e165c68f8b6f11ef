"""Rows that commits of a lake have put and deleted, as operations.

A commit has no order within: a key that it deletes and puts is put.  An update is a delete of the row as it was and a
put of the row as it is, so that one that changes the key leaves nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.operation_kinds import DELETE, PUT
from viewkeeper.catalog.types import Type, logical_type
from viewkeeper.changes.layout import is_null
from viewkeeper.changes.operations import Operations
from viewkeeper.errors import LogLost
from viewkeeper.files import Texts
from viewkeeper.stores.intake import TableIntake
from viewkeeper.stores.outside.contract import NoOperation, ReadPart
from viewkeeper.stores.outside.said import said_of
from viewkeeper.trace.grouping import group_rows
from viewkeeper.trace.hashing import canonical, hash_columns

ROWS_BITS = 24
"""In a table without a key the row with number i of the commit at p has the sequence p << ROWS_BITS | i."""


class CommitMark(NamedTuple):
    """A commit's position in the table's log, and when it was done (microseconds since 1970)."""

    position: int
    stamp: int


_Whole = tuple[list[pa.Array], np.ndarray, np.ndarray]
"""Columns, positions and stamps."""


@dataclass
class _Gathered:
    """Physical columns of rows, piece by piece, and of each row its commit's position and stamp."""

    columns: list[list[pa.Array]] = field(default_factory=list)
    positions: list[np.ndarray] = field(default_factory=list)
    stamps: list[np.ndarray] = field(default_factory=list)

    def add(self, columns: list[pa.Array], commit: CommitMark) -> None:
        self.columns.append(columns)
        self.positions.append(np.full(len(columns[0]), commit.position, np.int64))
        self.stamps.append(np.full(len(columns[0]), commit.stamp, np.int64))

    def whole(self) -> _Whole | None:
        """All of them, if there are any."""
        if not self.columns:
            return None
        columns = [pa.concat_arrays(pieces) for pieces in zip(*self.columns, strict=True)]
        return columns, np.concatenate(self.positions), np.concatenate(self.stamps)


class CommittedRows:
    """What commits, told in their order, did to the rows of a table.

    `called` is what the commit at a position is called, in words.  Whatever deletes rows raises LogLost where the table
    has no key.
    """

    def __init__(self, intake: TableIntake, called: Callable[[int], str]) -> None:
        self._intake, self._form, self._called = intake, intake.form, called
        self._puts, self._deletes = _Gathered(), _Gathered()
        self._bad: list[NoOperation] = []

    def put(self, commit: CommitMark, rows: pa.Table, partition: Mapping[str, str | None]) -> None:
        """`commit` put `rows`: columns that it lacks have one value for all of them in `partition`, else NULL."""
        columns, bad = self._sound(rows, partition)
        self._reject(commit, bad)
        self._puts.add(columns, commit)

    def replace(self, commit: CommitMark, gone: pa.Table, came: pa.Table) -> None:
        """`commit` took the rows `gone` away and put the rows `came`, of which those that are the same cancel: whoever
        rewrites a file tells of all its rows."""
        if not gone.num_rows:
            self.put(commit, came, {})
            return
        (before, bad_before), (after, bad_after) = self._sound(gone, {}), self._sound(came, {})
        known = Counter(data for _, data in bad_before)
        for reason, data in bad_after:
            known[data] -= 1
            if known[data] < 0:
                self._reject(commit, [(reason, data)])
        left, new = _difference(before, after)
        if len(left):
            self._require_key(commit)
            self._deletes.add([before[i].take(left) for i in self._form.key], commit)
        self._puts.add([column.take(new) for column in after], commit)

    def delete(self, commit: CommitMark, rows: pa.Table, partition: Mapping[str, str | None]) -> None:
        """`commit` deleted `rows`; one that cannot have been put is not deleted."""
        self._require_key(commit)
        which = self._form.key
        columns, reasons = self.converted(self._given(rows, partition, which), which)
        self._deletes.add(sound(columns, reasons), commit)

    def converted(
        self, given: Sequence[pa.Array | Texts], which: Sequence[int]
    ) -> tuple[list[pa.Array], dict[int, str]]:
        """Values for the columns `which` as physical ones, and why some rows are none, by row."""
        columns, reasons = list[pa.Array](), dict[int, str]()
        for i, values in zip(which, given, strict=True):
            declared = self._intake.table.columns[i]
            logical = values if isinstance(values, Texts) else _logical(values, self._form.types[i])
            column, refused = self._intake.intakes[i].each(logical)
            for row, reason in refused.items():
                reasons.setdefault(row, f"column {declared.name}: {reason}")
            if column.null_count and (i in self._form.key or not declared.nullable):
                what = "which is in the key" if i in self._form.key else "which is NOT NULL"
                for row in np.flatnonzero(is_null(column)).tolist():
                    reasons.setdefault(row, f"NULL in column {declared.name}, {what}")
            columns.append(canonical(column) if i in self._form.key else column)
        return columns, reasons

    def as_read(self) -> ReadPart:
        """All of it, as operations: of each key one a commit."""
        found, puts, deletes = ReadPart(bad=self._bad), self._puts.whole(), self._deletes.whole()
        if self._form.keyless:
            if puts is not None:
                columns, positions, stamps = puts
                found.operations.append((Operations(PUT, columns), self._numbered(positions), stamps))
            return found
        kept_deletes, kept_puts = self._one_each(found, puts, deletes)
        for kind, given, rows in ((DELETE, deletes, kept_deletes), (PUT, puts, kept_puts)):
            if given is not None and len(rows):
                columns, positions, stamps = given
                operations = Operations(kind, [column.take(pa.array(rows)) for column in columns])
                found.operations.append((operations, positions[rows], stamps[rows]))
        return found

    def _one_each(
        self, found: ReadPart, puts: _Whole | None, deletes: _Whole | None
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """Which deletes and puts remain where a key has one of them a commit: the put, if there is one.  A second put
        is of a key that stands in two rows, and goes to `found`."""
        pieces = [[*deletes[0], pa.array(deletes[1])]] if deletes is not None else []
        if puts is not None:
            pieces.append([*(puts[0][i] for i in self._form.key), pa.array(puts[1])])
        if not pieces:
            return np.arange(0), np.arange(0)
        keys = [pa.concat_arrays(parts) for parts in zip(*pieces, strict=True)]
        groups = group_rows(hash_columns(keys, len(keys[0])), keys)
        count = 0 if deletes is None else len(deletes[1])
        is_put, places = groups.order >= count, np.arange(len(groups.order))
        first_put = np.minimum.reduceat(np.where(is_put, places, len(places)), groups.starts)
        remains = np.zeros(len(places), bool)
        remains[groups.order[np.where(first_put < len(places), first_put, groups.starts)]] = True
        if puts is not None:
            found.bad += [self._twice(puts, int(row)) for row in np.flatnonzero(~remains[count:])]
        return np.flatnonzero(remains[:count]), np.flatnonzero(remains[count:])

    def _twice(self, puts: _Whole, row: int) -> NoOperation:
        columns, positions, stamps = puts
        position, names = int(positions[row]), self._intake.table.columns
        key = {names[i].name: columns[i][row].as_py() for i in self._form.key}
        reason = f"its key stands in two rows of {self._called(position)}"
        return NoOperation(position, int(stamps[row]), reason, _json(key))

    def _numbered(self, positions: np.ndarray) -> np.ndarray:
        """The sequences of rows of a table without a key, of which row ids are made."""
        found, begins, counts = np.unique(positions, return_index=True, return_counts=True)
        if len(counts) and counts.max() > 1 << ROWS_BITS:
            raise self._lost(f"{self._called(int(found[counts.argmax()]))} adds {counts.max():,} rows, and a table "
                             f"without PRIMARY KEY takes {1 << ROWS_BITS:,} at once: declare one")  # fmt: skip
        return (positions << ROWS_BITS) + np.arange(len(positions)) - np.repeat(begins, counts)

    def _require_key(self, commit: CommitMark) -> None:
        if self._form.keyless:
            raise self._lost(f"{self._called(commit.position)} deletes or changes rows, and the table has no PRIMARY "
                             "KEY to find them by: drop the table, and create it again with a PRIMARY KEY")  # fmt: skip

    def _lost(self, message: str) -> LogLost:
        table = self._intake.table
        return LogLost(said_of(table.id, table.name, message))

    def _reject(self, commit: CommitMark, bad: Sequence[tuple[str, bytes]]) -> None:
        self._bad += [NoOperation(commit.position, commit.stamp, reason, data) for reason, data in bad]

    def _sound(
        self, rows: pa.Table, partition: Mapping[str, str | None]
    ) -> tuple[list[pa.Array], list[tuple[str, bytes]]]:
        """Physical columns of those of `rows` that can be in the table, and why the others cannot."""
        which = range(len(self._form.types))
        columns, reasons = self.converted(self._given(rows, partition, which), which)
        bad = [(reason, _as_bytes(rows, partition, row)) for row, reason in reasons.items()]
        return sound(columns, reasons), bad

    def _given(
        self, rows: pa.Table, partition: Mapping[str, str | None], which: Sequence[int]
    ) -> list[pa.Array | Texts]:
        there = {name.lower(): name for name in rows.column_names}
        values = {name.lower(): value for name, value in partition.items()}
        given: list[pa.Array | Texts] = []
        for i in which:
            name, type_ = self._intake.table.columns[i].name.lower(), self._form.types[i]
            if name in there:
                given.append(rows.column(there[name]).combine_chunks())
            elif (value := values.get(name) or None) is None:
                given.append(pa.nulls(rows.num_rows, logical_type(type_)))
            else:
                given.append(_repeated(value, type_, rows.num_rows))
        return given


def _difference(gone: Sequence[pa.Array], came: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
    """The rows of `gone` and those of `came` that are left where each row of the one cancels one of the other that is
    the same; the first ones are left."""
    columns = [pa.concat_arrays(pieces) for pieces in zip(gone, came, strict=True)]
    groups = group_rows(hash_columns(columns, len(columns[0])), columns)
    is_new = groups.order >= len(gone[0])
    news = np.add.reduceat(is_new, groups.starts, dtype=np.int64) if len(is_new) else np.zeros(0, np.int64)
    group = np.repeat(np.arange(len(groups.starts)), groups.lengths)
    # Within a group rows stand as they came: first those of `gone`.
    number = np.arange(len(group)) - groups.starts[group]
    olds = (groups.lengths - news)[group]
    left = groups.order[~is_new & (number < olds - news[group])]
    new = groups.order[is_new & (number - olds < news[group] - olds)] - len(gone[0])
    return np.sort(left), np.sort(new)


def _logical(values: pa.Array, type_: Type) -> pa.Array:
    """An array as Arrow holds `type_`: times without a zone are in UTC."""
    target = logical_type(type_)
    return values if values.type == target else values.cast(target)


def _repeated(value: str, type_: Type, length: int) -> pa.Array | Texts:
    """The value of a partition; of a time without a zone it is in UTC."""
    if type_.name == "BINARY":
        return pa.array([value.encode("latin-1", "replace")] * length, pa.binary())
    if type_.name == "TIMESTAMP" and not value.endswith("Z"):
        value += "Z"
    return Texts(pa.array([value] * length, pa.string()))


def sound(columns: list[pa.Array], reasons: Mapping[int, str]) -> list[pa.Array]:
    """The rows of `columns` that there are no reasons against."""
    if not reasons:
        return columns
    index = pa.array(np.setdiff1d(np.arange(len(columns[0])), list(reasons)))
    return [column.take(index) for column in columns]


def _as_bytes(rows: pa.Table, partition: Mapping[str, str | None], row: int) -> bytes:
    return _json({**dict(partition), **rows.slice(row, 1).to_pylist()[0]})


def _json(value: object) -> bytes:
    return json.dumps(value, default=str, ensure_ascii=False).encode()
