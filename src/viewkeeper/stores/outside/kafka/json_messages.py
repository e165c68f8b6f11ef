"""Messages of a topic that are written in JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.changes.layout import is_null
from viewkeeper.stores.outside.contract import ReadPart
from viewkeeper.stores.outside.kafka.fields import MessageFields, fields_of, valid_json
from viewkeeper.stores.outside.kafka.messages import Decoder, Messages, Reasons, RowShape, bad_message
from viewkeeper.stores.outside.kafka.writings import EXACT_DIGITS, ValueWriting, read_writing, written_as


class JsonDecoder(Decoder):
    """Reads JSON; `writing` is how columns are written where a message has no schema."""

    def __init__(self, shape: RowShape, envelopes: bool, writing: ValueWriting) -> None:
        super().__init__(shape, envelopes)
        self._writings = (writing,) * len(shape.columns)
        self._exact = [i for i, column in enumerate(shape.columns)
                       if column.type.is_decimal and column.type.precision > EXACT_DIGITS]  # fmt: skip

    def named_keys(self, messages: Messages) -> tuple[list[pa.Array], Reasons]:
        reasons: Reasons = {}
        return self._key_columns(self._keys(messages), self._writings, reasons), reasons

    def _read_values(self, messages: Messages, found: ReadPart) -> None:
        texts, valid = valid_json(messages.values)
        for i in np.flatnonzero(~valid).tolist():
            found.bad.append(bad_message(messages, i, "its value is no JSON"))
        if not self._has_envelopes:  # an array or a number has no fields: all columns would be NULL
            begins = pc.starts_with(pc.utf8_ltrim_whitespace(texts), "{")
            plain = valid & ~pc.fill_null(begins, False).to_numpy(zero_copy_only=False)
            for i in np.flatnonzero(plain).tolist():
                found.bad.append(bad_message(messages, i, "its value is no JSON object"))
            valid = valid & ~plain
        whole = np.flatnonzero(valid)
        messages, texts = messages.take(whole), texts.take(pa.array(whole))
        if self._has_envelopes:
            self._envelopes(messages, texts, found)
        else:
            self._rows(messages, texts, found)

    def _rows(self, messages: Messages, texts: pa.Array, found: ReadPart) -> None:
        """Puts of whole rows: what a value does not name of the key stands in the message's key, other columns are
        NULL."""
        fields, reasons = fields_of(texts, [(name,) for name in self._names], self._exact), Reasons()
        columns = self._columns(fields, self._writings, reasons)
        if self._key and len(messages):
            keys, bad = self.named_keys(messages)
            for key, i in zip(keys, self._key, strict=True):
                columns[i] = pc.if_else(fields.kinds[i].is_null(), key, columns[i])
            self._require_own_keys(columns, keys, bad, reasons)
        self._put(columns, messages, reasons, found)

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
        has_after = pc.equal(pc.fill_null(heads.kinds[2], ""), "OBJECT").to_numpy(zero_copy_only=False)
        puts, deletes = self._sorted_out(heads.texts[0].to_pylist(), has_after, messages, found)
        if len(puts):
            fields = fields_of(texts.take(pa.array(puts)), [(*under, "after", name) for name in self._names],
                               self._exact)  # fmt: skip
            self._require_columns(messages.take(puts), fields)
            self._puts(messages.take(puts), fields, writings, found)
        if len(deletes):
            self._deletes_of(messages.take(deletes), texts.take(pa.array(deletes)), under, writings, found)

    def _require_columns(self, messages: Messages, fields: MessageFields) -> None:
        for name, kinds in zip(self._names, fields.kinds, strict=True):
            if kinds.null_count:
                raise self._column_gone(name, int(messages.sequences[int(is_null(kinds).argmax())]))

    def _puts(
        self, messages: Messages, fields: MessageFields, writings: Sequence[ValueWriting], found: ReadPart
    ) -> None:
        reasons: Reasons = {}
        self._put(self._columns(fields, writings, reasons), messages, reasons, found)

    def _deletes_of(
        self, messages: Messages, texts: pa.Array, under: tuple[str, ...], writings: Sequence[ValueWriting],
        found: ReadPart,
    ) -> None:  # fmt: skip
        """Deletes of envelopes: the key stands in the old row, or where that is not told, in the message's key."""
        if not self._key:
            self._refuse_deletes(messages, found)
            return
        fields = fields_of(texts, [(*under, "before", self._names[i]) for i in self._key])
        keys = self._keys(messages)
        columns, kinds = [], []
        for at in range(len(self._key)):
            missing = pc.is_in(pc.fill_null(fields.kinds[at], "NULL"), pa.array(["NULL"]))
            columns.append(pc.if_else(missing, keys.texts[at], fields.texts[at]))
            kinds.append(pc.if_else(missing, keys.kinds[at], fields.kinds[at]))
        reasons: Reasons = {}
        self._delete(self._key_columns(MessageFields(columns, kinds), writings, reasons), messages, reasons, found)

    def _key_columns(
        self, keys: MessageFields, writings: Sequence[ValueWriting], reasons: Reasons
    ) -> list[pa.Array]:  # fmt: skip
        return [self._column(i, keys.texts[at], keys.kinds[at], writings[i], reasons)
                for at, i in enumerate(self._key)]  # fmt: skip

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

    def _columns(
        self, fields: MessageFields, writings: Sequence[ValueWriting], reasons: Reasons
    ) -> list[pa.Array]:  # fmt: skip
        return [self._column(i, fields.texts[i], fields.kinds[i], writing, reasons)
                for i, writing in enumerate(writings)]  # fmt: skip

    def _column(
        self, i: int, texts: pa.Array, kinds: pa.Array, writing: ValueWriting, reasons: Reasons
    ) -> pa.Array:  # fmt: skip
        """Column `i` as physical values; why it has none is added to `reasons`, by row."""
        intake = self._shape.intakes[i]
        given, bad = read_writing(intake.type, texts, kinds, writing)
        column, refused = intake.each(given)
        for row, reason in {**refused, **bad}.items():
            reasons.setdefault(row, f"column {self._names[i]}: {reason}")
        return column
