"""Messages of a topic that are written in Avro, with the ids of their schemas in front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.catalog.types import physical_type
from viewkeeper.changes.layout import is_null
from viewkeeper.stores.outside.contract import ReadPart
from viewkeeper.stores.outside.kafka.avro_schemas import AvroFields, AvroSchema, AvroSchemas, by_header
from viewkeeper.stores.outside.kafka.avro_values import given_values
from viewkeeper.stores.outside.kafka.json_messages import JsonDecoder
from viewkeeper.stores.outside.kafka.messages import Decoder, Messages, Reasons, RowShape, bad_message
from viewkeeper.stores.outside.kafka.registry import SchemaRegistry, UnknownSchema
from viewkeeper.stores.outside.kafka.writings import ValueWriting


class AvroDecoder(Decoder):
    """Reads Avro; `writing` is how columns are written where a schema does not say.  Keys may be texts,
    too, as JSON has them."""

    def __init__(self, shape: RowShape, envelopes: bool, writing: ValueWriting, registry: SchemaRegistry) -> None:
        super().__init__(shape, envelopes)
        self._writing, self._schemas = writing, AvroSchemas(registry)
        self._texts = JsonDecoder(shape, envelopes, writing)

    def named_keys(self, messages: Messages) -> tuple[list[pa.Array], Reasons]:
        order, columns, reasons = list[int](), list[list[pa.Array]](), Reasons()
        for header, which in by_header(messages.keys):
            some = messages.take(np.array(which))
            found, bad = self._texts.named_keys(some) if header[:1] != b"\0" else self._avro_keys(header, some)
            order += which
            columns.append(found)
            reasons.update((which[row], reason) for row, reason in bad.items())
        place = pa.array(np.argsort(np.array(order)))
        return [pa.concat_arrays(each).take(place) for each in zip(*columns, strict=True)], reasons

    def _avro_keys(self, header: bytes, messages: Messages) -> tuple[list[pa.Array], Reasons]:
        types = [self._shape.columns[i].type for i in self._key]
        try:
            schema = self._schemas.of(header, False)
        except UnknownSchema as unknown:
            nothing = [pa.nulls(len(messages), physical_type(type_)) for type_ in types]
            return nothing, dict.fromkeys(range(len(messages)), f"its key: {unknown}")
        values, bad = schema.read(messages.keys)
        reasons = {row: f"its key: {reason}" for row, reason in bad.items()}
        names = [self._names[i] for i in self._key]
        if schema.fields is None:  # the value itself, where one column is the key
            fields: AvroFields = {names[0]: schema.whole} if len(names) == 1 else {}
            values = [None if value is None else {names[0]: value} for value in values]
        else:
            fields = schema.fields
        return self._columns(self._key, fields, values, reasons), reasons

    def _read_values(self, messages: Messages, found: ReadPart) -> None:
        for header, which in by_header(messages.values):
            some = messages.take(np.array(which))
            try:
                schema = self._schemas.of(header, self._has_envelopes)
                if schema.fields is None:
                    raise UnknownSchema("its schema is no record")
                if self._has_envelopes and ("op" not in schema.fields or "after" not in schema.records):
                    raise UnknownSchema("its schema is no envelope of Debezium's")
            except UnknownSchema as unknown:
                found.bad += [bad_message(some, i, str(unknown)) for i in range(len(some))]
                continue
            values, reasons = schema.read(some.values)
            if reasons:
                found.bad += [bad_message(some, row, reason) for row, reason in reasons.items()]
                good = np.setdiff1d(np.arange(len(some)), list(reasons))
                some, values = some.take(good), [values[row] for row in good.tolist()]
            if len(some):
                (self._envelopes if self._has_envelopes else self._rows)(some, schema, values, found)

    def _rows(self, messages: Messages, schema: AvroSchema, values: Sequence[Any], found: ReadPart) -> None:
        """Puts of whole rows: what the schema does not name of the key stands in the message's key, other columns are
        NULL."""
        reasons, fields = Reasons(), schema.fields or {}
        columns = self._columns(range(len(self._names)), fields, values, reasons)
        if self._key:
            keys, bad = self.named_keys(messages)
            for at, i in enumerate(self._key):
                if self._names[i] not in fields:
                    columns[i] = keys[at]
            self._require_own_keys(columns, keys, bad, reasons)
        self._put(columns, messages, reasons, found)

    def _envelopes(self, messages: Messages, schema: AvroSchema, values: Sequence[Any], found: ReadPart) -> None:
        has_after = np.array([value["after"] is not None for value in values], bool)
        puts, deletes = self._sorted_out([value["op"] for value in values], has_after, messages, found)
        if len(puts):
            fields, reasons = schema.records["after"], Reasons()
            for name in self._names:
                if name not in fields:
                    raise self._column_gone(name, int(messages.sequences[puts[0]]))
            rows = [values[i]["after"] for i in puts.tolist()]
            columns = self._columns(range(len(self._names)), fields, rows, reasons)
            self._put(columns, messages.take(puts), reasons, found)
        if len(deletes):
            rows = [values[i].get("before") for i in deletes.tolist()]
            self._deletes_of(messages.take(deletes), schema.records.get("before", {}), rows, found)

    def _deletes_of(self, messages: Messages, fields: AvroFields, rows: Sequence[Any], found: ReadPart) -> None:
        """Deletes of envelopes: the key stands in the old row, or where that is not told, in the message's key."""
        if not self._key:
            self._refuse_deletes(messages, found)
            return
        reasons = Reasons()
        columns = self._columns(self._key, fields, rows, reasons)
        untold = np.logical_or.reduce([is_null(column) for column in columns])
        if untold.any():
            keys, bad = self.key_columns(messages)
            columns = [pc.if_else(column.is_valid(), column, key) for column, key in zip(columns, keys, strict=True)]
            reasons |= {row: reason for row, reason in bad.items() if untold[row]}
        self._delete(columns, messages, reasons, found)

    def _columns(
        self, positions: Sequence[int], fields: AvroFields, rows: Sequence[Mapping[str, Any] | None], reasons: Reasons
    ) -> list[pa.Array]:
        """Columns as physical values, NULL where a row (a record of `fields`) is None, or has no such field; why one
        has no value is added to `reasons`, by row."""
        columns = []
        for i in positions:
            intake, name = self._shape.intakes[i], self._names[i]
            if name not in fields:
                columns.append(pa.nulls(len(rows), physical_type(intake.type)))
                continue
            values = [None if row is None else row[name] for row in rows]
            given, bad = given_values(intake.type, fields[name], values, self._writing)
            column, refused = intake.each(given)
            for row, reason in {**refused, **bad}.items():
                reasons.setdefault(row, f"column {name}: {reason}")
            columns.append(column)
        return columns
