"""From the rows that a statement computed to operations on its table, and what the table does not take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.arrow_tables import logical_table
from viewkeeper.catalog.model import Column, Table
from viewkeeper.catalog.operation_kinds import DELETE, PUT
from viewkeeper.catalog.text_lengths import fitted
from viewkeeper.catalog.types import physical_type
from viewkeeper.changes.layout import is_null, numbers
from viewkeeper.changes.operations import Operations, TableForm
from viewkeeper.errors import InputError
from viewkeeper.plans import changes
from viewkeeper.plans.changes import BoundChange
from viewkeeper.stores.contract import Moment
from viewkeeper.trace.keys import canonical
from viewkeeper.trace.rows import Rows

RowColumns = list[pa.Array]


@dataclass(frozen=True)
class RowOperations:
    """Operations in order, and how many rows they update, delete and insert."""

    operations: list[Operations]
    updated: int
    deleted: int
    inserted: int


def row_operations(bound: BoundChange, results: Sequence[Rows], moment: Moment, zone: str) -> RowOperations:
    """What is done on the table, given the rows of the relations of `bound`; raises InputError where it cannot be."""
    return _RowsChanged(bound.table, zone, moment).of(bound, results)


@dataclass
class _ByAction:
    """Rows by what is done with them."""

    updated: list[RowColumns] = field(default_factory=list)
    becoming: list[RowColumns] = field(default_factory=list)
    deleted: list[RowColumns] = field(default_factory=list)
    inserted: list[RowColumns] = field(default_factory=list)


class _RowsChanged:
    def __init__(self, table: Table, zone: str, moment: Moment) -> None:
        self._table, self._zone, self._moment = table, zone, moment
        self._form = TableForm(table, zone)
        self._key = [table.columns[i] for i in table.key]

    def of(self, bound: BoundChange, results: Sequence[Rows]) -> RowOperations:
        found = _ByAction()
        for rows, result in zip(bound.rows, results, strict=True):
            action = numbers(result.columns[0])
            behind = 1 + (len(self._key) or 1) * rows.of_table
            identity, written = result.columns[1:behind], result.columns[behind:]
            if rows.once:
                self._require_once(identity)
            update, delete, insert = (np.flatnonzero(action == what)
                                      for what in (changes.UPDATE, changes.DELETE, changes.INSERT))  # fmt: skip
            if rows.of_table:
                found.updated.append(_take(identity, update))
                found.deleted.append(_take(identity, delete))
            if rows.written:
                found.becoming.append(_take(written, update))
                found.inserted.append(_take(written, insert))
        return self._operations(found)

    def _operations(self, found: _ByAction) -> RowOperations:
        identity_types = [physical_type(column.type) for column in self._key] or [pa.int64()]
        updated, deleted = (_joined(each, identity_types) for each in (found.updated, found.deleted))
        row_types = [physical_type(column.type) for column in self._table.columns]
        becoming, inserted = (_joined(each, row_types) for each in (found.becoming, found.inserted))
        deleted = _take(deleted, np.unique(self._encoded(deleted), return_index=True)[1])
        written = [pa.concat_arrays(both) for both in zip(becoming, inserted, strict=True)]
        self._fit(written)
        for i in self._table.key:
            written[i] = canonical(written[i])
        self._require_values(written)
        counts = len(updated[0]), len(deleted[0]), len(inserted[0])
        removed = [pa.concat_arrays(both) for both in zip(deleted, updated, strict=True)]
        if self._key:
            removed = self._removed(deleted, updated, written)
        steps = [Operations(DELETE, removed), Operations(PUT, written)]
        return RowOperations([step for step in steps if len(step)], *counts)

    def _removed(self, deleted: RowColumns, updated: RowColumns, written: RowColumns) -> RowColumns:
        """The keys that go: those of deleted rows, and of updated ones that get another.  Raises InputError where a key
        comes that is there."""
        old, new = self._encoded(updated), self._encoded([written[i] for i in self._table.key])
        moved = np.flatnonzero(old != new[: len(old)])
        fresh = np.concatenate([moved, np.arange(len(old), len(new))])
        removed = [pa.concat_arrays(both) for both in zip(deleted, _take(updated, moved), strict=True)]
        if len(fresh):
            keys = [written[i] for i in self._table.key]
            counted = Counter(new.tolist())
            twice = [i for i in fresh if counted[new[i]] > 1]
            if twice:
                described = self._described(keys, twice[0])
                raise InputError(f"{self._table.name}: two rows would have the key {described}; a key is there once")
            self._require_free(_take(keys, fresh), set(self._encoded(removed).tolist()))
        return removed

    def _require_free(self, keys: RowColumns, gone: set[bytes]) -> None:
        """Raises InputError where there are rows with `keys` that do not go."""
        found = self._moment.found(self._table, keys)
        there = [found[i] for i in self._table.key]
        for at, key in enumerate(self._encoded(there).tolist()):
            if key not in gone:
                which = self._described(there, at)
                raise InputError(f"{self._table.name}: there is a row with the key {which} already; UPDATE it, or use "
                                 "MERGE INTO, or put, which overwrites")  # fmt: skip

    def _require_once(self, identity: RowColumns) -> None:
        encoded = self._encoded(identity)
        _, first, counts = np.unique(encoded, return_index=True, return_counts=True)
        if (counts > 1).any():
            at = int(first[counts > 1][0])
            which = f"the row {self._described(identity, at)}" if self._key else "a row"
            raise InputError(f"{self._table.name}: {which} is matched by several rows of the source "
                             "(MERGE_CARDINALITY_VIOLATION); make ON, or the source, give one for each")  # fmt: skip

    def _require_values(self, written: RowColumns) -> None:
        for i, column in enumerate(self._table.columns):
            if not column.nullable and written[i].null_count:
                at = int(is_null(written[i]).argmax())
                keys = [k for k in self._table.key if k != i]
                row = self._described([written[k] for k in keys], at, [self._table.columns[k] for k in keys])
                where = f" ({row})" if row else ""
                why = "is in the key" if i in self._table.key else "is NOT NULL"
                raise InputError(f"{self._table.name}{where}: the column {column.name} would be NULL, and {why}")

    def _fit(self, written: RowColumns) -> None:
        """Cuts off what VARCHARs do not keep, and fills up CHARs; raises InputError where more than blanks would go."""
        for i, declared in enumerate(self._table.declared):
            if declared is None:
                continue
            name = self._table.columns[i].name
            try:
                written[i], too_long = fitted(written[i], declared)
            except ValueError as reason:
                raise InputError(f"{self._table.name}: the column {name} is a {declared}, and {reason}") from None
            if too_long.any():
                at = int(too_long.argmax())
                text = logical_table([self._table.columns[i]], [written[i].slice(at, 1)], self._zone)[0][0].as_py()
                what = "a text" if isinstance(text, str) else "a text within a value"
                message = f"{self._table.name}: {what} for the column {name}, which begins with {text!r}, is longer"
                raise InputError(f"{message} than {declared}")

    def _encoded(self, identity: RowColumns) -> np.ndarray:
        """Keys as bytes, or row ids: what can be compared."""
        if not self._key:
            return identity[0].to_numpy()
        encoded = np.empty(len(identity[0]), object)
        encoded[:] = self._form.key_layout.encode([canonical(column) for column in identity], len(identity[0]))
        return encoded

    def _described(self, columns: RowColumns, at: int, of: Sequence[Column] | None = None) -> str:
        one = logical_table(self._key if of is None else of, [column.slice(at, 1) for column in columns], self._zone)
        return ", ".join(f"{name} = {value!r}" for name, value in (one.to_pylist() or [{}])[0].items())


def _joined(parts: Sequence[RowColumns], types: Sequence[pa.DataType]) -> RowColumns:
    return [pa.concat_arrays([pa.array([], type_), *(part[i] for part in parts)]) for i, type_ in enumerate(types)]


def _take(columns: RowColumns, indices: np.ndarray) -> RowColumns:
    return [column.take(pa.array(indices, pa.int64())) for column in columns]
