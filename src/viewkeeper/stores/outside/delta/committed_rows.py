"""Rows that commits have put and deleted, as operations.

A commit has no order within: a key that it deletes and puts is put.  An update is a delete of the row as it was and a
put of the row as it is, so that one that changes the key leaves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
from viewkeeper.stores.outside.delta.commits import Commit
from viewkeeper.stores.outside.said import said_of
from viewkeeper.trace.grouping import group_rows
from viewkeeper.trace.hashing import canonical, hash_columns

ROWS_BITS = 24
"""In a table without a key the row with number i of version v has the sequence (v + 1) << ROWS_BITS | i."""


_Whole = tuple[list[pa.Array], np.ndarray, np.ndarray]
"""Columns, versions and stamps."""


@dataclass
class _Gathered:
    """Physical columns of rows, piece by piece, and of each row its version and stamp."""

    columns: list[list[pa.Array]] = field(default_factory=list)
    versions: list[np.ndarray] = field(default_factory=list)
    stamps: list[np.ndarray] = field(default_factory=list)

    def add(self, columns: list[pa.Array], commit: Commit) -> None:
        self.columns.append(columns)
        self.versions.append(np.full(len(columns[0]), commit.version, np.int64))
        self.stamps.append(np.full(len(columns[0]), commit.stamp, np.int64))

    def whole(self) -> _Whole | None:
        """All of them, if there are any."""
        if not self.columns:
            return None
        columns = [pa.concat_arrays(pieces) for pieces in zip(*self.columns, strict=True)]
        return columns, np.concatenate(self.versions), np.concatenate(self.stamps)


class CommittedRows:
    """What commits, told in their order, did to the rows of a table."""

    def __init__(self, intake: TableIntake) -> None:
        self._intake, self._form = intake, intake.form
        self._puts, self._deletes = _Gathered(), _Gathered()
        self._bad: list[NoOperation] = []

    def put(self, commit: Commit, rows: pa.Table, partition: Mapping[str, str | None]) -> None:
        """`commit` put `rows`: columns that it lacks have one value for all of them in `partition`, else NULL."""
        which = range(len(self._form.types))
        columns, reasons = self.converted(self._given(rows, partition, which), which)
        for row, reason in reasons.items():
            self._bad.append(NoOperation(commit.version + 1, commit.stamp, reason, _as_bytes(rows, partition, row)))
        self._puts.add(_without(columns, reasons), commit)

    def delete(self, commit: Commit, rows: pa.Table, partition: Mapping[str, str | None]) -> None:
        """`commit` deleted `rows`; one that cannot have been put is not deleted."""
        which = self._form.key
        columns, reasons = self.converted(self._given(rows, partition, which), which)
        self._deletes.add(_without(columns, reasons), commit)

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
        """All of it, as operations: of each key one a version."""
        found, puts, deletes = ReadPart(bad=self._bad), self._puts.whole(), self._deletes.whole()
        if self._form.keyless:
            if puts is not None:
                columns, versions, stamps = puts
                found.operations.append((Operations(PUT, columns), self._numbered(versions), stamps))
            return found
        kept_deletes, kept_puts = self._one_each(found, puts, deletes)
        for kind, given, rows in ((DELETE, deletes, kept_deletes), (PUT, puts, kept_puts)):
            if given is not None and len(rows):
                columns, versions, stamps = given
                operations = Operations(kind, [column.take(pa.array(rows)) for column in columns])
                found.operations.append((operations, versions[rows] + 1, stamps[rows]))
        return found

    def _one_each(
        self, found: ReadPart, puts: _Whole | None, deletes: _Whole | None
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """Which deletes and puts remain where a key has one of them a version: the put, if there is one.  A second put
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
        columns, versions, stamps = puts
        version, names = int(versions[row]), self._intake.table.columns
        key = {names[i].name: columns[i][row].as_py() for i in self._form.key}
        return NoOperation(
            version + 1, int(stamps[row]), f"its key stands in two rows of version {version}", _json(key)
        )

    def _numbered(self, versions: np.ndarray) -> np.ndarray:
        """The sequences of rows of a table without a key, of which row ids are made."""
        _, begins, counts = np.unique(versions, return_index=True, return_counts=True)
        if counts.max() > 1 << ROWS_BITS:
            number, table = versions[begins[counts.argmax()]], self._intake.table
            raise LogLost(said_of(table.id, table.name, f"version {number} adds {counts.max():,} rows, and a table "
                                  f"without PRIMARY KEY takes {1 << ROWS_BITS:,} at once: declare one"))  # fmt: skip
        return (versions + 1 << ROWS_BITS) + np.arange(len(versions)) - np.repeat(begins, counts)

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


def _without(columns: list[pa.Array], reasons: Mapping[int, str]) -> list[pa.Array]:
    if not reasons:
        return columns
    index = pa.array(np.setdiff1d(np.arange(len(columns[0])), list(reasons)))
    return [column.take(index) for column in columns]


def _as_bytes(rows: pa.Table, partition: Mapping[str, str | None], row: int) -> bytes:
    return _json({**dict(partition), **rows.slice(row, 1).to_pylist()[0]})


def _json(value: object) -> bytes:
    return json.dumps(value, default=str, ensure_ascii=False).encode()
