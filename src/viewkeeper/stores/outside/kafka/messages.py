"""Messages of a topic as operations on a table: Debezium's envelopes, or rows by their keys, in JSON.

A value's type is the column's; how a message writes it is known from the message's own schema where it has one, else
from OPTIONS.  Nothing is guessed: a number for a TIMESTAMP whose unit nobody has said is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.operation_kinds import DELETE, PUT
from viewkeeper.changes.layout import is_null
from viewkeeper.changes.operations import Operations
from viewkeeper.errors import LogLost
from viewkeeper.stores.intake import TableIntake
from viewkeeper.stores.outside.contract import NoOperation, ReadPart
from viewkeeper.stores.outside.kafka.fields import MessageFields, fields_of, valid_json
from viewkeeper.stores.outside.kafka.writings import EXACT_DIGITS, ValueWriting, read_writing, written_as
from viewkeeper.trace.hashing import canonical

FORMATS = ("debezium-json", "json", "json-append")
"""Envelopes with old and new row; the newest row of a key, NULL where it is deleted; rows that are only added."""


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


class Decoder:
    """Reads messages for one table; `writings` is how each column is written where a message has no schema."""

    def __init__(self, intake: TableIntake, format_: str, writings: Sequence[ValueWriting]) -> None:
        self._intake, self._format, self._writings = intake, format_, tuple(writings)
        self._names = [column.name for column in intake.table.columns]
        self._key = intake.table.key
        self._exact = [i for i, type_ in enumerate(intake.form.types)
                       if type_.is_decimal and type_.precision > EXACT_DIGITS]  # fmt: skip

    def read(self, messages: Messages) -> ReadPart:
        """The operations that `messages` are."""
        found = ReadPart()
        tombstones = np.array([value is None for value in messages.values], bool)
        if tombstones.any():
            self._deletes(messages.take(np.flatnonzero(tombstones)), found)
            messages = messages.take(np.flatnonzero(~tombstones))
        texts, valid = valid_json(messages.values)
        for i in np.flatnonzero(~valid).tolist():
            found.bad.append(_bad(messages, i, "its value is no JSON"))
        whole = np.flatnonzero(valid)
        messages, texts = messages.take(whole), texts.take(pa.array(whole))
        if self._format == "debezium-json":
            self._envelopes(messages, texts, found)
        else:
            self._rows(messages, texts, found)
        return found

    def _rows(self, messages: Messages, texts: pa.Array, found: ReadPart) -> None:
        """Puts of whole rows: what a value does not name of the key stands in the message's key, other columns are
        NULL."""
        fields = fields_of(texts, [(name,) for name in self._names], self._exact)
        columns, kinds = list(fields.texts), list(fields.kinds)
        if self._key and self._format == "json" and len(messages):
            keys = self._keys(messages)
            for at, i in enumerate(self._key):
                missing = kinds[i].is_null()
                columns[i] = pc.if_else(missing, keys.texts[at], columns[i])
                kinds[i] = pc.if_else(missing, keys.kinds[at], kinds[i])
        self._puts(messages, MessageFields(columns, kinds), self._writings, found)

    def _envelopes(self, messages: Messages, texts: pa.Array, found: ReadPart) -> None:
        """Envelopes with a schema beside their payload, and without."""
        outer = fields_of(texts, [("payload",), ("schema",)])
        is_payload = pc.equal(pc.fill_null(outer.kinds[0], ""), "OBJECT").to_numpy(zero_copy_only=False)
        bare = np.flatnonzero(~is_payload)
        self._payloads(messages.take(bare), texts.take(pa.array(bare)), (), self._writings, found)
        schemas = pc.if_else(pa.array(is_payload), pc.fill_null(outer.texts[1], ""), None).dictionary_encode()
        indices = pc.fill_null(schemas.indices, -1).to_numpy()
        for number, schema in enumerate(schemas.dictionary.to_pylist()):
            which = np.flatnonzero(indices == number)
            writings = [replace(own, **said) for own, said in zip(self._writings, self._said(schema), strict=True)]
            self._payloads(messages.take(which), texts.take(pa.array(which)), ("payload",), writings, found)

    def _said(self, schema: str) -> Iterator[dict[str, Any]]:
        """What a message's own schema says of how each column is written."""
        fields: Mapping[str, Any] = {}
        if schema:
            parts = json.loads(schema).get("fields") or []
            row: Mapping[str, Any] = next((each for each in parts if each.get("field") == "after"), {})
            fields = {each.get("field"): each for each in row.get("fields") or []}
        for name in self._names:
            yield written_as(fields[name]) if name in fields else {}

    def _payloads(
        self, messages: Messages, texts: pa.Array, under: tuple[str, ...], writings: Sequence[ValueWriting],
        found: ReadPart,
    ) -> None:  # fmt: skip
        if not len(messages):
            return
        heads = fields_of(texts, [(*under, name) for name in ("op", "before", "after")])
        ops = heads.texts[0].to_pylist()
        if "t" in ops:
            at = int(messages.sequences[ops.index("t")]) - 1
            raise LogLost(f"{self._intake.table.name} was truncated in its database (offset {at}): which rows went, no "
                          "message says; drop the table, and create it again from a new snapshot")  # fmt: skip
        has_after = pc.equal(pc.fill_null(heads.kinds[2], ""), "OBJECT").to_numpy(zero_copy_only=False)
        puts = np.array([op in ("c", "r", "u") for op in ops], bool)
        deletes = np.array([op == "d" for op in ops], bool)
        for i in np.flatnonzero(~puts & ~deletes).tolist():
            if ops[i] != "m":  # a message of the database's own, of no row
                found.bad.append(_bad(messages, i, f"op is {ops[i]!r}; expected c, r, u or d"))
        for i in np.flatnonzero(puts & ~has_after).tolist():
            found.bad.append(_bad(messages, i, "it has no row in after"))
        which = np.flatnonzero(puts & has_after)
        if len(which):
            rows = texts.take(pa.array(which))
            fields = fields_of(rows, [(*under, "after", name) for name in self._names], self._exact)
            self._require_columns(messages.take(which), fields)
            self._puts(messages.take(which), fields, writings, found)
        which = np.flatnonzero(deletes)
        if len(which):
            self._deletes_of(messages.take(which), texts.take(pa.array(which)), under, writings, found)

    def _require_columns(self, messages: Messages, fields: MessageFields) -> None:
        for name, kinds in zip(self._names, fields.kinds, strict=True):
            if kinds.null_count:
                at = int(messages.sequences[int(is_null(kinds).argmax())]) - 1
                raise LogLost(f"{self._intake.table.name}: no row has a field {name} from offset {at} on, as if "
                              "the column had been dropped or renamed there; ALTER TABLE ... DROP COLUMN, or create "
                              "the table anew")  # fmt: skip

    def _puts(
        self, messages: Messages, fields: MessageFields, writings: Sequence[ValueWriting], found: ReadPart
    ) -> None:
        columns, reasons = [], dict[int, str]()
        for i, writing in enumerate(writings):
            column = self._column(i, fields.texts[i], fields.kinds[i], writing, reasons)
            declared = self._intake.table.columns[i]
            if column.null_count and (i in self._key or not declared.nullable):
                for row in np.flatnonzero(is_null(column)).tolist():
                    what = "which is in the key" if i in self._key else "which is NOT NULL"
                    reasons.setdefault(row, f"NULL in column {declared.name}, {what}")
            columns.append(canonical(column) if i in self._key else column)
        self._deliver(PUT, columns, messages, reasons, found)

    def _deletes(self, messages: Messages, found: ReadPart) -> None:
        """Tombstones; in a topic of rows that are only added they say nothing."""
        if not self._key:
            return
        keys, reasons = self._keys(messages), dict[int, str]()
        columns = self._key_columns(keys, [self._writings[i] for i in self._key], reasons)
        if self._format == "debezium-json":  # of a delete that has said more, which may be of another table's key
            reasons = dict.fromkeys(reasons, "")
        self._deliver(DELETE, columns, messages, reasons, found)

    def _deletes_of(
        self, messages: Messages, texts: pa.Array, under: tuple[str, ...], writings: Sequence[ValueWriting],
        found: ReadPart,
    ) -> None:  # fmt: skip
        """Deletes of envelopes: the key stands in the old row, or where that is not told, in the message's key."""
        if not self._key:
            for i in range(len(messages)):
                found.bad.append(_bad(messages, i, "it deletes a row, and the table has no PRIMARY KEY"))
            return
        fields = fields_of(texts, [(*under, "before", self._names[i]) for i in self._key])
        keys = self._keys(messages)
        columns, kinds = [], []
        for at in range(len(self._key)):
            missing = pc.is_in(pc.fill_null(fields.kinds[at], "NULL"), pa.array(["NULL"]))
            columns.append(pc.if_else(missing, keys.texts[at], fields.texts[at]))
            kinds.append(pc.if_else(missing, keys.kinds[at], fields.kinds[at]))
        reasons: dict[int, str] = {}
        found_columns = self._key_columns(MessageFields(columns, kinds), [writings[i] for i in self._key], reasons)
        self._deliver(DELETE, found_columns, messages, reasons, found)

    def _key_columns(
        self, keys: MessageFields, writings: Sequence[ValueWriting], reasons: dict[int, str]
    ) -> list[pa.Array]:
        columns = []
        for at, i in enumerate(self._key):
            column = self._column(i, keys.texts[at], keys.kinds[at], writings[at], reasons)
            for row in np.flatnonzero(is_null(column)).tolist():
                reasons.setdefault(row, f"its key says nothing of {self._names[i]}")
            columns.append(canonical(column))
        return columns

    def _keys(self, messages: Messages) -> MessageFields:
        """The key columns as the messages' keys have them: fields of an object, which may stand under payload, or the
        whole of a key, where one column is the key."""
        names = [self._names[i] for i in self._key]
        texts, valid = valid_json(messages.keys)
        texts = pc.if_else(pa.array(valid), texts, "null")
        payload = fields_of(texts, [("payload",)])
        is_payload = pc.is_in(pc.fill_null(payload.kinds[0], ""), pa.array(["OBJECT", "ARRAY"]))
        texts = pc.if_else(is_payload, payload.texts[0], texts)
        if len(names) > 1:
            return fields_of(texts, [(name,) for name in names])
        whole = fields_of(texts, [(), (names[0],)])
        is_object = pc.equal(pc.fill_null(whole.kinds[0], ""), "OBJECT")
        plain = pa.array([None if key is None else key.decode(errors="replace") for key in messages.keys], pa.string())
        bare = pc.if_else(pa.array(valid), whole.texts[0], plain)
        kinds = pc.if_else(
            pa.array(valid), whole.kinds[0], pc.if_else(plain.is_null(), pa.scalar(None, pa.string()), "VARCHAR")
        )
        return MessageFields(
            [pc.if_else(is_object, whole.texts[1], bare)], [pc.if_else(is_object, whole.kinds[1], kinds)]
        )

    def _column(
        self, i: int, texts: pa.Array, kinds: pa.Array, writing: ValueWriting, reasons: dict[int, str]
    ) -> pa.Array:  # fmt: skip
        """Column `i` as physical values; why it has none is added to `reasons`, by row."""
        intake = self._intake.intakes[i]
        given, bad = read_writing(intake.type, texts, kinds, writing)
        column, refused = intake.each(given)
        for row, reason in {**refused, **bad}.items():
            reasons.setdefault(row, f"column {self._names[i]}: {reason}")
        return column

    def _deliver(
        self, kind: int, columns: list[pa.Array], messages: Messages, reasons: Mapping[int, str], found: ReadPart
    ) -> None:  # fmt: skip
        found.bad += [_bad(messages, row, reason) for row, reason in reasons.items() if reason]
        good = np.setdiff1d(np.arange(len(messages)), list(reasons))
        if len(good):
            operations = Operations(kind, columns).take(good)
            found.operations.append((operations, messages.sequences[good], messages.stamps[good]))


def _bad(messages: Messages, i: int, reason: str) -> NoOperation:
    data = b"\0".join([messages.keys[i] or b"", messages.values[i] or b""])
    return NoOperation(int(messages.sequences[i]), int(messages.stamps[i]), reason, data)
