"""A table in a lake (`contract.OutsideTable`): its rows are in files, and its log, of one part, are its commits.

Lakes have no keys.  The declared PRIMARY KEY says which columns tell rows apart.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.operation_kinds import PUT
from viewkeeper.changes.operations import Operations
from viewkeeper.errors import Error
from viewkeeper.stores.outside.contract import NoRow, OutsideTable, OutsideTraits, Scanned
from viewkeeper.stores.outside.lakes.committed_rows import CommittedRows, sound
from viewkeeper.stores.outside.said import said_of
from viewkeeper.stores.value_conversion import to_python
from viewkeeper.trace.grouping import group_rows
from viewkeeper.trace.hashing import hash_columns

PART = "0"


class CommittedTable(OutsideTable):
    """Rows of a lake's table; `place` is where it is, for people."""

    traits: ClassVar[OutsideTraits] = OutsideTraits(
        order="key", rows=True, writable=False, partial=False, keyless=True
    )  # fmt: skip
    place: str

    @property
    def has_rows(self) -> bool:
        """A table without a key is read from its first commit: rows that are read twice would be two rows."""
        return not self.form.keyless

    def forget(self, positions: Mapping[str, int]) -> None:
        """Nothing: how long commits stay is the table's own affair."""

    @abstractmethod
    def _called(self, position: int) -> str:
        """The commit at a position, in words."""

    def _changes(self) -> CommittedRows:
        return CommittedRows(self.intake, self._called)

    def _blocks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Scanned]:
        """Rows of the table's columns, in their order, and what is no row."""
        for batch in batches:
            columns, reasons = self._changes().converted(batch.columns, range(len(self.table.columns)))
            keys = {row: tuple(columns[i][row].as_py() for i in self.table.key) for row in reasons}
            bad = [NoRow(self._told(batch, row, reason), None if None in keys[row] else keys[row])
                   for row, reason in reasons.items()]  # fmt: skip
            good = sound(columns, reasons)
            yield Scanned([(Operations(PUT, good), np.full(len(good[0]), time.time_ns() // 1000))], bad)

    def _told(self, batch: pa.RecordBatch, row: int, reason: str) -> str:
        begins = {name: batch.column(name)[row].as_py() for name in batch.schema.names[:3]}
        return f"{self.place}: the row that begins with {begins}: {reason}"

    def _require_unique(self, batches: Iterable[pa.RecordBatch], all_rows: bool) -> None:
        """Raises Error where a key stands in several rows, and, where they must be `all_rows`, in one as what no key
        can be; `batches` have the columns of the key."""
        columns, found = [self.table.columns[i] for i in self.table.key], []
        for batch in batches:
            values, reasons = self._changes().converted(batch.columns, self.table.key)
            if reasons and all_rows:
                raise Error(self._told(batch, *min(reasons.items())))
            found.append(sound(values, reasons))
        if not found:
            return
        keys = [pa.concat_arrays(column) for column in zip(*found, strict=True)]
        groups = group_rows(hash_columns(keys, len(keys[0])), keys)
        twice = np.flatnonzero(groups.lengths > 1)
        if len(twice):
            at = int(groups.firsts[twice[0]])
            decoders = [to_python(self.form.types[i], self.zone) for i in self.table.key]
            values = [value if decode is None else decode(value)
                      for decode, value in zip(decoders, (key[at].as_py() for key in keys), strict=True)]  # fmt: skip
            listed = ", ".join(f"{column.name} = {value!r}" for column, value in zip(columns, values, strict=True))
            raise Error(f"{self.place}: the key {listed} stands in {groups.lengths[twice[0]]} rows; choose a PRIMARY "
                        "KEY of which each row has its own, or leave it out")  # fmt: skip

    def _said(self, message: str) -> str:
        return said_of(self.table.id, self.table.name, message)
