"""Rows in physical types as what users see."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import logical_type, to_logical

_TYPE, _DECLARED = b"viewkeeper.type", b"viewkeeper.declared"


def logical_table(columns: Sequence[Column], physical: Sequence[pa.Array], zone: str) -> pa.Table:
    """An Arrow table of the types that users see."""
    arrays = [to_logical(array, column.type, zone) for column, array in zip(columns, physical, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema([logical_field(column, zone) for column in columns]))


def logical_field(column: Column, zone: str) -> pa.Field:
    """`column` in the type that users see; the types of intervals, of which Arrow holds several alike, stand in its
    metadata, and how long texts are."""
    metadata = {_TYPE: str(column.type).encode()} if column.type.has_interval else {}
    if column.declared is not None:
        metadata[_DECLARED] = str(column.declared).encode()
    return pa.field(column.name, logical_type(column.type, zone), column.nullable, metadata or None)


def type_text(field: pa.Field) -> str | None:
    """The type, as it is written, of the column in whose `logical_field` `field` is; None where Arrow says it."""
    return _text(field, _TYPE)


def declared_text(field: pa.Field) -> str | None:
    """How the column was declared (`Column.declared`) in whose `logical_field` `field` is."""
    return _text(field, _DECLARED)


def _text(field: pa.Field, name: bytes) -> str | None:
    text: bytes | None = (field.metadata or {}).get(name)
    return None if text is None else text.decode()
