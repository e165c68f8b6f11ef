"""Messages as foreign programs write them, and what the decoder makes of them, without a broker."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from viewkeeper.catalog.model import Catalog, Table
from viewkeeper.catalog.operation_kinds import DELETE
from viewkeeper.pipeline.declare_script import run
from viewkeeper.stores.outside.contract import ReadPart
from viewkeeper.stores.outside.kafka.messages import Messages
from viewkeeper.stores.outside.kafka.table import KafkaTable
from viewkeeper.stores.value_conversion import to_python

Message = tuple[Any, Any]
"""Key and value: bytes as they are, None, or what is written as JSON."""


def topic_table(columns: str, format_: str = "debezium-json", zone: str = "UTC", **options: str) -> KafkaTable:
    """A table over a topic that nobody asks for."""
    given = {"bootstrap_servers": "nobody:1", "topic": "t", "format": format_, **options}
    listed = ", ".join(f"`{name}` '{value}'" for name, value in given.items())
    catalog = run(Catalog(zone=zone), f"CREATE TABLE t ({columns}) USING kafka OPTIONS ({listed})").catalog
    table = catalog.find("t")
    assert isinstance(table, Table)
    return KafkaTable(table, zone)


def messages(given: Sequence[Message], first: int = 1) -> Messages:
    count = len(given)
    return Messages([_bytes(key) for key, _ in given], [_bytes(value) for _, value in given],
                    np.arange(first, first + count), np.full(count, 1_700_000_000_000_000))  # fmt: skip


def read(table: KafkaTable, given: Sequence[Message]) -> ReadPart:
    return table.decoder.read(messages(given))


def operations(table: KafkaTable, found: ReadPart) -> list[tuple[int, Any]]:
    """By sequence: a row as a dict, or ("delete", key)."""
    made: list[tuple[int, Any]] = []
    for each, sequences, _ in found.operations:
        carried = table.form.carried(each.kind)
        decoders = [to_python(table.form.types[i], table.zone) for i in carried]
        names = [table.table.columns[i].name for i in carried]
        for sequence, values in zip(
            sequences.tolist(), zip(*(c.to_pylist() for c in each.columns), strict=True), strict=True
        ):
            row = {name: value if decode is None or value is None else decode(value)
                   for name, value, decode in zip(names, values, decoders, strict=True)}  # fmt: skip
            made.append((sequence, ("delete", tuple(row.values())) if each.kind == DELETE else row))
    return sorted(made, key=lambda pair: pair[0])


def envelope(op: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, **more: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "source": {"db": "shop", "lsn": 1}, "op": op, "ts_ms": 1, **more}


def _bytes(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
