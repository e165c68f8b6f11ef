"""Is DELTA right?  DELTA's rows at a version, plus the log from there on, must be the store's rows.

The log is replayed row by row, by plain code of the checker's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.model import Column
from viewkeeper.checker.compare import Comparison, canonical_floats, compare
from viewkeeper.checker.value_rules import canonical

Key = tuple[Any, ...]


@dataclass(frozen=True)
class LoggedOperation:
    """One operation of the log, decoded.

    `kind` is "put", "delete" or "delete_columns", of cells with timestamps also "update", and "from" or "behind" and
    "to" or "before" of ranges of keys, whose `columns` are those of the key that they speak of.  `key` holds the key
    columns' values (the hidden row id where a table has no primary key); `columns` the columns named, with their values
    where it is a put; `unnamed` what a new row gets, where a put makes one, in the others.  `stamp` is that of its
    cells where they have such.
    """

    kind: str
    key: Key
    columns: dict[str, Any]
    node: int
    sequence: int
    unnamed: dict[str, Any] = field(default_factory=dict)
    stamp: int = 0


@dataclass(frozen=True)
class Replayed:
    """`rows` by key, each with all columns; `rejected` are the keys of operations that may not be applied."""

    rows: dict[Key, dict[str, Any]]
    rejected: set[Key]


@dataclass(frozen=True)
class KeyedTable:
    """What the proof must know of a table: all its columns (a hidden row id included), and which are its key."""

    columns: tuple[Column, ...]
    key: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]


def replay(start: dict[Key, dict[str, Any]], operations: Iterable[LoggedOperation], table: KeyedTable) -> Replayed:
    """The rows after `operations`, applied in the order of their sequences (a key lives on one node)."""
    rows, rejected = dict(start), set()
    required = {column.name for column in table.columns if not column.nullable}
    for operation in sorted(operations, key=lambda op: (op.node, op.sequence)):
        key = tuple(canonical(value) for value in operation.key)
        if operation.kind == "delete":
            rows.pop(key, None)
        elif operation.kind == "delete_columns":
            if (required | set(table.key)) & set(operation.columns):
                rejected.add(key)
            elif key in rows:
                rows[key] = {**rows[key], **dict.fromkeys(operation.columns)}
        else:
            named = dict(zip(table.key, key, strict=True))
            before = rows[key] if key in rows else {**dict.fromkeys(table.names), **operation.unnamed}
            row = {**before, **operation.columns, **named}
            if any(row[name] is None for name in required):
                rejected.add(key)
            else:
                rows[key] = row
    return Replayed(rows, rejected)


@dataclass(frozen=True)
class DeltaProof:
    """`comparison` is of the rows expected in the store with those found; rows of the keys in `left_out` are in
    neither: an operation on them was rejected."""

    comparison: Comparison
    left_out: list[Key]
    replayed: int


class ReplayOfCells(Protocol):
    """What DELTA had seen at its version where cells have timestamps (`cell_replay.KnownCells`)."""

    def touched(self, operations: Sequence[LoggedOperation]) -> set[Key]:
        """The keys that `operations` speak of, or delete ranges of."""

    def replay(self, operations: Sequence[LoggedOperation], table: KeyedTable, keys: set[Key] | None) -> Replayed:
        """The rows of `keys`, of all that are named where None, after `operations`."""


def prove(
    table: KeyedTable,
    delta: pa.Table,
    operations: Sequence[LoggedOperation],
    store: pa.Table,
    rejected: Iterable[Key] = (),
    cells: ReplayOfCells | None = None,
) -> DeltaProof:
    """Compares `delta` plus `operations` with `store`; all have the columns of `table`.

    `rejected`: keys of operations known to have been rejected before.  Only keys that the log names are replayed one
    by one; the others are compared as they are.  `cells`: what DELTA knows where cells have timestamps.
    """
    if cells is not None:
        touched = cells.touched(operations)
    else:
        touched = {tuple(canonical(v) for v in op.key) for op in operations}
    known = {tuple(canonical(v) for v in key) for key in rejected}
    same, changed = _split(delta, table, touched | known)
    if cells is not None:
        replayed = cells.replay(operations, table, touched)
    else:
        replayed = replay({_key(row, table): row for row in changed.to_pylist()}, operations, table)
    left_out = replayed.rejected | known
    moved = [row for key, row in replayed.rows.items() if key not in left_out]
    expected = pa.concat_tables([same, pa.Table.from_pylist(moved, schema=delta.schema)])
    untouched, _ = _split(store, table, left_out)
    comparison = compare(expected, untouched)
    return DeltaProof(comparison, sorted(left_out, key=repr), len(operations))


def _key(row: dict[str, Any], table: KeyedTable) -> Key:
    return tuple(canonical(row[name]) for name in table.key)


def _split(rows: pa.Table, table: KeyedTable, keys: set[Key]) -> tuple[pa.Table, pa.Table]:
    """The rows whose key is not in `keys`, and those whose key is."""
    if not keys:
        return rows, rows.slice(0, 0)
    key_columns = [canonical_floats(rows[name]) for name in table.key]
    wanted = [pa.array([key[i] for key in keys], column.type) for i, column in enumerate(key_columns)]
    # One column narrows it down without Python; the few rows left are compared whole.
    maybe = pc.is_in(key_columns[0], value_set=wanted[0]).to_numpy()
    if len(key_columns) == 1:
        return rows.filter(pa.array(~maybe)), rows.filter(pa.array(maybe))
    positions = maybe.nonzero()[0]
    candidates = zip(*(column.take(pa.array(positions)).to_pylist() for column in key_columns), strict=True)
    maybe[positions] = [tuple(canonical(value) for value in candidate) in keys for candidate in candidates]
    return rows.filter(pa.array(~maybe)), rows.filter(pa.array(maybe))
