"""Rows in physical types as what users see."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import Type, logical_type, to_logical

_TYPE, _DECLARED = b"viewkeeper.type", b"viewkeeper.declared"


def logical_table(columns: Sequence[Column], physical: Sequence[pa.Array], zone: str) -> pa.Table:
    """An Arrow table of the types that users see."""
    arrays = [to_logical(array, column.type, zone) for column, array in zip(columns, physical, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema([logical_field(column, zone) for column in columns]))


def logical_field(column: Column, zone: str) -> pa.Field:
    """`column` in the type that users see; the types of intervals, of which Arrow holds several alike, stand in its
    metadata, and how long texts are."""
    metadata = {_TYPE: column.type.name.encode()} if column.type.is_interval else None
    if column.declared is not None:
        metadata = {_DECLARED: str(column.declared).encode()}
    return pa.field(column.name, logical_type(column.type, zone), column.nullable, metadata)


def interval_type(field: pa.Field) -> Type | None:
    """The type of intervals in whose `logical_field` `field` is; None for another."""
    name = (field.metadata or {}).get(_TYPE)
    return None if name is None else Type(name.decode())


def declared_text(field: pa.Field) -> str | None:
    """How the column was declared (`Column.declared`) in whose `logical_field` `field` is."""
    text: bytes | None = (field.metadata or {}).get(_DECLARED)
    return None if text is None else text.decode()
