"""A topic of orders in Avro, whose writers have several versions of its schema."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

from kafka_topics import Topic
from schema_registry import Registry


def record(name: str, **fields: Any) -> dict[str, Any]:
    """The schema of a record."""
    return {"type": "record", "name": name, "fields": [{"name": n, "type": type_} for n, type_ in fields.items()]}


PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 15, "scale": 2,
         "connect.name": "org.apache.kafka.connect.data.Decimal", "connect.parameters": {"scale": "2"}}  # fmt: skip
KEY = record("Key", id="long")
ROWS = (
    record("Value", id="long", customer=["null", "int"], price=["null", PRICE]),
    record("Value", price=PRICE, note={"type": "string", "default": ""}, customer=["null", "long"], id="int"),
)
"""What a row looks like, by version."""


def envelopes(row: dict[str, Any]) -> dict[str, Any]:
    """The schema of Debezium's envelopes of a row."""
    source = record("Source", db="string", ts_ms="long", lsn=["null", "long"])
    return record("Envelope", before=["null", row], after=["null", row["name"]], source=source, op="string",
                  ts_ms=["null", "long"])  # fmt: skip


def envelope(op: str, before: Any, after: Any) -> dict[str, Any]:
    """An envelope of Debezium's."""
    return {"before": before, "after": after, "source": {"db": "shop", "ts_ms": 1, "lsn": None}, "op": op, "ts_ms": 2}


class AvroTopic(Topic):
    """Each message is written by any of the schemas."""

    def __init__(self, servers: str, name: str, format_: str, registry: Registry) -> None:
        super().__init__(servers, name, format_)
        self._registry, self._chance = registry, random.Random(name)
        schemas = map(envelopes, ROWS) if format_.startswith("debezium") else ROWS
        self._values = [registry.register(f"{name}-value", schema) for schema in schemas]
        self._key = registry.register(f"{name}-key", KEY)

    def new_version(self) -> None:
        """A version of the schema that nobody has seen yet, which the writers have from now on."""
        row = {**ROWS[0], "doc": "new"}
        schema = envelopes(row) if self.format.startswith("debezium") else row
        self._values = [self._registry.register(f"{self.name}-value", schema)]

    @property
    def options(self) -> str:
        return f"{super().options[:-1]}, registry '{self._registry.url}')"

    def written(self, value: Any) -> bytes:
        if self.format.startswith("debezium"):
            value = envelope(value["op"], *(_full(value[name]) for name in ("before", "after")))
        else:
            value = _full(value)
        return self._registry.written(self._chance.choice(self._values), value)

    def written_key(self, id_: int) -> bytes:
        return self._registry.written(self._key, {"id": id_})


def _full(row: dict[str, Any] | None) -> dict[str, Any] | None:
    """A row with a value for each field of each version."""
    if row is None:
        return None
    return {"customer": None, **row, "note": "n", "price": Decimal(row.get("price") or "0.00")}
