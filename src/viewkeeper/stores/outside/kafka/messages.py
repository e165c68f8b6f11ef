"""Messages of a topic as operations on a table: envelopes of Debezium's, or rows by their keys, in JSON or Avro.

A value's type is the column's; how a message writes it is known from the message's own schema where it has one, else
from OPTIONS.  Nothing is guessed: a number for a TIMESTAMP whose unit nobody has said is refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.operation_kinds import DELETE, PUT
from viewkeeper.changes.layout import is_null
from viewkeeper.changes.operations import Operations
from viewkeeper.errors import LogLost
from viewkeeper.stores.columns import ColumnIntake
from viewkeeper.stores.outside.contract import NoOperation, ReadPart
from viewkeeper.trace.hashing import canonical
from viewkeeper.trace.keys import equal_rows

Reasons = dict[int, str]
"""Why messages are no rows, by their place among some."""


@dataclass(frozen=True)
class Messages:
    """Messages of one partition, in order; a value of None is a tombstone.  `sequences` and `stamps` (microseconds) are
    int64[n]."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    sequences: np.ndarray
    stamps: np.ndarray

    def take(self, which: np.ndarray) -> Messages:
        return Messages([self.keys[i] for i in which], [self.values[i] for i in which], self.sequences[which],
                        self.stamps[which])  # fmt: skip

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class RowShape:
    """Of what rows messages tell: those of the table or stream called `name`; `key` holds column positions, none: rows
    are only added."""

    name: str
    columns: Sequence[Column]
    key: Sequence[int]
    intakes: Sequence[ColumnIntake]

    @staticmethod
    def of(name: str, columns: Sequence[Column], key: Sequence[int], zone: str) -> RowShape:
        """That of columns, naive times in `zone`."""
        return RowShape(name, columns, key, [ColumnIntake(each.type, zone, each.declared) for each in columns])


class Decoder(ABC):
    """Reads messages for one table or stream; `envelopes`: they are Debezium's, else each is a row, NULL where it is
    deleted."""

    def __init__(self, shape: RowShape, envelopes: bool) -> None:
        self._shape, self._has_envelopes = shape, envelopes
        self._names = [column.name for column in shape.columns]
        self._key = shape.key

    def read(self, messages: Messages) -> ReadPart:
        """The operations that `messages` are."""
        found = ReadPart()
        tombstones = np.array([value is None for value in messages.values], bool)
        if tombstones.any():
            self._tombstones(messages.take(np.flatnonzero(tombstones)), found)
            messages = messages.take(np.flatnonzero(~tombstones))
        if len(messages):
            self._read_values(messages, found)
        return found

    @abstractmethod
    def named_keys(self, messages: Messages) -> tuple[list[pa.Array], Reasons]:
        """The key columns (physical ones) as the keys of `messages` have them, NULL where one says nothing of it, and
        why some are none."""

    def key_columns(self, messages: Messages) -> tuple[list[pa.Array], Reasons]:
        """The same (canonical ones), and why some have none."""
        columns, reasons = self.named_keys(messages)
        return self._whole_keys(columns, reasons), reasons

    @abstractmethod
    def _read_values(self, messages: Messages, found: ReadPart) -> None:
        """Adds the operations that messages with values are."""

    def _tombstones(self, messages: Messages, found: ReadPart) -> None:
        """Deletes; in a topic of rows that are only added they say nothing."""
        if not self._key:
            return
        columns, reasons = self.key_columns(messages)
        if self._has_envelopes:  # of a delete that has said more, which may be of another table's key
            reasons = dict.fromkeys(reasons, "")
        self._deliver(DELETE, columns, messages, reasons, found)

    def _sorted_out(
        self, ops: Sequence[Any], has_after: np.ndarray, messages: Messages, found: ReadPart
    ) -> tuple[np.ndarray, np.ndarray]:
        """Which envelopes put rows, and which delete some, by what their `op` is and whether they have a row in
        `after`."""
        if "t" in ops:
            at = int(messages.sequences[ops.index("t")]) - 1
            raise LogLost(f"{self._shape.name} was truncated in its database (offset {at}): which rows went, no "
                          "message says; drop the table, and create it again from a new snapshot")  # fmt: skip
        puts = np.array([op in ("c", "r", "u") for op in ops], bool)
        deletes = np.array([op == "d" for op in ops], bool)
        for i in np.flatnonzero(~puts & ~deletes).tolist():
            if ops[i] != "m":  # a message of the database's own, of no row
                found.bad.append(bad_message(messages, i, f"op is {ops[i]!r}; expected c, r, u or d"))
        for i in np.flatnonzero(puts & ~has_after).tolist():
            found.bad.append(bad_message(messages, i, "it has no row in after"))
        return np.flatnonzero(puts & has_after), np.flatnonzero(deletes)

    def _column_gone(self, name: str, sequence: int) -> LogLost:
        return LogLost(f"{self._shape.name}: no row has a field {name} from offset {sequence - 1} on, as if the "
                       "column had been dropped or renamed there; ALTER TABLE ... DROP COLUMN, or create the table "
                       "anew")  # fmt: skip

    def _require_own_keys(
        self, columns: Sequence[pa.Array], keys: Sequence[pa.Array], bad: Mapping[int, str], reasons: Reasons
    ) -> None:
        """Adds to `reasons` which rows, whose physical columns are given, have other keys than their messages
        (`named_keys`): what deletes by such a key would not find the row."""
        for row, reason in bad.items():
            reasons.setdefault(row, f"its message's key is none of the table's: {reason}")
        for key, i in zip(keys, self._key, strict=True):
            same = equal_rows([canonical(columns[i])], [canonical(key)]) | is_null(key) | is_null(columns[i])
            for row in np.flatnonzero(~same).tolist():
                reasons.setdefault(row, f"column {self._names[i]} is not what its message's key says")

    def _put(self, columns: Sequence[pa.Array], messages: Messages, reasons: Reasons, found: ReadPart) -> None:
        """Adds puts of rows, whose physical columns are given, but for those that have `reasons`."""
        made = list[pa.Array]()
        for i, (column, declared) in enumerate(zip(columns, self._shape.columns, strict=True)):
            if column.null_count and (i in self._key or not declared.nullable):
                for row in np.flatnonzero(is_null(column)).tolist():
                    what = "which is in the key" if i in self._key else "which is NOT NULL"
                    reasons.setdefault(row, f"NULL in column {declared.name}, {what}")
            made.append(canonical(column) if i in self._key else column)
        self._deliver(PUT, made, messages, reasons, found)

    def _delete(self, columns: Sequence[pa.Array], messages: Messages, reasons: Reasons, found: ReadPart) -> None:
        """Adds deletes of rows, whose key columns are given."""
        self._deliver(DELETE, self._whole_keys(columns, reasons), messages, reasons, found)

    def _whole_keys(self, columns: Sequence[pa.Array], reasons: Reasons) -> list[pa.Array]:
        for column, i in zip(columns, self._key, strict=True):
            for row in np.flatnonzero(is_null(column)).tolist() if column.null_count else ():
                reasons.setdefault(row, f"its key says nothing of {self._names[i]}")
        return [canonical(column) for column in columns]

    def _refuse_deletes(self, messages: Messages, found: ReadPart) -> None:
        for i in range(len(messages)):
            found.bad.append(bad_message(messages, i, "it deletes a row, and the table has no PRIMARY KEY"))

    def _deliver(
        self, kind: int, columns: list[pa.Array], messages: Messages, reasons: Mapping[int, str], found: ReadPart
    ) -> None:  # fmt: skip
        found.bad += [bad_message(messages, row, reason) for row, reason in reasons.items() if reason]
        good = np.setdiff1d(np.arange(len(messages)), list(reasons))
        if len(good):
            operations = Operations(kind, columns).take(good)
            found.operations.append((operations, messages.sequences[good], messages.stamps[good]))


def bad_message(messages: Messages, i: int, reason: str) -> NoOperation:
    """The message at `i`, which is no operation for this reason."""
    data = b"\0".join([messages.keys[i] or b"", messages.values[i] or b""])
    return NoOperation(int(messages.sequences[i]), int(messages.stamps[i]), reason, data)
