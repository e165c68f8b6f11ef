"""Schemas of Avro as messages are read by them, kept by the ids of a registry."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_reader
from fastavro.schema import SchemaParseException, UnknownType

from viewkeeper.stores.outside.kafka.messages import Reasons
from viewkeeper.stores.outside.kafka.registry import RegisteredSchema, SchemaRegistry, UnknownSchema

HEADER_BYTES = 5
"""A zero and the schema's id, big-endian, in front of each message."""

SEVERAL = "union"

_UNREADABLE = (EOFError, IndexError, ValueError, ArithmeticError, struct.error)


@dataclass(frozen=True)
class AvroField:
    """How a field is written: `kind` is the type of Avro's that its values have which are not null, or "union" where
    there are several; `logical` its logical type, `connect` the name that Kafka Connect or Debezium give to it; `scale`
    that of a decimal."""

    kind: str
    logical: str | None = None
    connect: str | None = None
    scale: int = 0


AvroFields = Mapping[str, AvroField]


class AvroSchema:
    """One schema.  `whole` is how the value as such is written, `fields` how those of a record are (None: it is none),
    `records` how those of records are that stand in its fields, by the fields' names.

    What a column takes comes as Avro has it, without what its logical type means: columns take that many at a time.
    What stands deeper (in an array, say) comes as Python's values.  In `envelopes` columns take fields of `records`.
    """

    def __init__(self, registered: RegisteredSchema, envelopes: bool) -> None:
        self._named: dict[str, Any] = {}
        for text in registered.references:
            parse_schema(_loaded(text), self._named)
        self._parsed: Any = parse_schema(_loaded(registered.text), self._named)
        parts = self._parts(self._parsed) or []
        self.whole, self.fields = self._field(self._parsed), self._fields(self._parsed)
        self.records = {part["name"]: fields for part in parts if (fields := self._fields(part["type"])) is not None}
        columns = [each for part in parts for each in self._parts(part["type"]) or ()] if envelopes else parts
        for schema in [each["type"] for each in columns] or [self._parsed]:
            if isinstance(only := self._only(schema), dict):
                only.pop("logicalType", None)

    def read(self, messages: Sequence[bytes | None]) -> tuple[list[Any], Reasons]:
        """The values of messages that begin with this schema's id, None where one cannot be read; and why."""
        values, reasons, parsed = list[Any](), Reasons(), self._parsed
        for i, message in enumerate(messages):
            data = BytesIO(message or b"")
            data.seek(HEADER_BYTES)
            try:
                values.append(schemaless_reader(data, parsed, None))
            except _UNREADABLE as error:
                values.append(None)
                reasons[i] = f"it is not as its schema says: {str(error) or 'it ends too early'}"
            else:
                if data.tell() != len(message or b""):
                    reasons[i] = "it is longer than its schema says"
        return values, reasons

    def _parts(self, schema: Any) -> list[Any] | None:
        """The fields of a record."""
        only = self._only(schema)
        return only["fields"] if isinstance(only, dict) and only["type"] == "record" else None

    def _fields(self, schema: Any) -> AvroFields | None:
        parts = self._parts(schema)
        return None if parts is None else {part["name"]: self._field(part["type"]) for part in parts}

    def _field(self, schema: Any) -> AvroField:
        only = self._only(schema)
        if only is None:
            return AvroField(SEVERAL)
        if isinstance(only, str):
            return AvroField(only)
        return AvroField(only["type"], only.get("logicalType"), only.get("connect.name"), int(only.get("scale", 0)))

    def _only(self, schema: Any) -> Any:
        """The only type of a schema beside null; None where there are several."""
        if isinstance(schema, list):
            others = [each for each in schema if each != "null"] or schema
            return self._only(others[0]) if len(others) == 1 else None
        return self._named.get(schema, schema) if isinstance(schema, str) else schema


class AvroSchemas:
    """The schemas that messages of a topic have been written by; for any thread."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._known: dict[tuple[int, bool], AvroSchema] = {}
        self._lock = threading.Lock()

    def of(self, header: bytes, envelopes: bool) -> AvroSchema:
        """The schema of messages that begin so; raises UnknownSchema where there is none."""
        if len(header) < HEADER_BYTES or header[0]:
            raise UnknownSchema("it does not begin as messages do whose schema is in a registry")
        id_ = int.from_bytes(header[1:], "big")
        found = self._known.get((id_, envelopes))
        if found is not None:
            return found
        with self._lock:
            if (found := self._known.get((id_, envelopes))) is None:
                found = self._known[id_, envelopes] = self._asked(id_, envelopes)
        return found

    def _asked(self, id_: int, envelopes: bool) -> AvroSchema:
        try:
            return AvroSchema(self._registry.schema(id_), envelopes)
        except (SchemaParseException, UnknownType, ValueError) as error:
            raise UnknownSchema(f"schema {id_} cannot be read: {error}") from error


def by_header(messages: Sequence[bytes | None]) -> Iterator[tuple[bytes, list[int]]]:
    """What messages begin with, and which of them do."""
    found: dict[bytes, list[int]] = {}
    for i, message in enumerate(messages):
        found.setdefault((message or b"")[:HEADER_BYTES], []).append(i)
    yield from found.items()


def _loaded(text: str) -> Any:
    return json.loads(text, object_hook=_plain_uuids)


def _plain_uuids(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema by which UUIDs that are texts stay texts."""
    if schema.get("type") == "string" and schema.get("logicalType") == "uuid":
        return {name: value for name, value in schema.items() if name != "logicalType"}
    return schema
