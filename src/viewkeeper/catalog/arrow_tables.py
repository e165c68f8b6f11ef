"""Rows in physical types as what users see."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import to_logical


def logical_table(columns: Sequence[Column], physical: Sequence[pa.Array], zone: str) -> pa.Table:
    """An Arrow table of the types that users see."""
    arrays = [to_logical(array, column.type, zone) for column, array in zip(columns, physical, strict=True)]
    fields = [pa.field(c.name, a.type, c.nullable) for c, a in zip(columns, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
