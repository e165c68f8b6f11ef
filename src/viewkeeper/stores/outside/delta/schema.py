"""What a Delta table's metadata says: its columns, whether it has a change data feed, and what of it we cannot read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Type,
    array_of,
    decimal,
    map_of,
    struct_of,
)  # fmt: skip
from viewkeeper.errors import NotSupported
from viewkeeper.stores.outside.lakes.lake_columns import LakeColumn, as_columns, cannot_be

FEED = "delta.enableChangeDataFeed"

_TYPES = {
    "boolean": BOOLEAN, "byte": TINYINT, "short": SMALLINT, "integer": INT, "long": BIGINT, "float": FLOAT,
    "double": DOUBLE, "string": STRING, "binary": BINARY, "date": DATE, "timestamp": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")


@dataclass(frozen=True)
class Metadata:
    """`id` tells the table from one made anew; `columns` are names and types as Delta writes them (JSON)."""

    id: str
    columns: tuple[tuple[str, Any, bool], ...]
    partitioned_by: tuple[str, ...]
    configuration: Mapping[str, str]

    @staticmethod
    def of(action: Mapping[str, Any]) -> Metadata:
        """Of the action `metaData` in a commit."""
        return Metadata.made(action["id"], action["schemaString"], action.get("partitionColumns") or (),
                             action.get("configuration") or {})  # fmt: skip

    @staticmethod
    def made(id_: str, schema: str, partitioned_by: Sequence[str], configuration: Mapping[str, str | None]) -> Metadata:
        """Of the parts of it; `schema` is JSON."""
        columns = tuple((field["name"], field["type"], bool(field["nullable"]))
                        for field in json.loads(schema)["fields"])  # fmt: skip
        given = {name: value for name, value in configuration.items() if value is not None}
        return Metadata(id_, columns, tuple(partitioned_by), given)

    @property
    def has_feed(self) -> bool:
        return self.configuration.get(FEED, "false").lower() == "true"

    @property
    def unreadable(self) -> str | None:
        """Why its changes cannot be read here, whatever the columns; None where they can."""
        if self.configuration.get("delta.columnMapping.mode", "none").lower() != "none":
            return (
                "its columns are mapped (delta.columnMapping.mode), which is not supported; copy it into another table"
            )
        if self.configuration.get("delta.enableDeletionVectors", "false").lower() == "true":
            return ("it has deletion vectors, which is not supported: ALTER TABLE ... SET TBLPROPERTIES "
                    "(delta.enableDeletionVectors = false), then REORG TABLE ... APPLY (PURGE)")  # fmt: skip
        return None

    def held(self) -> list[LakeColumn]:
        """Its columns."""
        return [_held(name, written, nullable) for name, written, nullable in self.columns]

    def as_columns(self) -> list[Column]:
        """Raises NotSupported where no column can be of a type."""
        return as_columns(self.held())


def _held(name: str, written: Any, nullable: bool) -> LakeColumn:
    try:
        return LakeColumn(name, nullable, json.dumps(written), _type(written, name))
    except NotSupported as refused:
        return LakeColumn(name, nullable, json.dumps(written), None, str(refused))


def _type(written: Any, column: str) -> Type:
    if isinstance(written, str):
        if written in _TYPES:
            return _TYPES[written]
        if found := _DECIMAL.fullmatch(written):
            return decimal(int(found[1]), int(found[2]))
        raise cannot_be(column, "Delta", written)
    if written["type"] == "array":
        return array_of(_type(written["elementType"], column))
    if written["type"] == "map":
        return map_of(_type(written["keyType"], column), _type(written["valueType"], column))
    return struct_of((field["name"], _type(field["type"], column)) for field in written["fields"])
