"""Arrow tables of logical types to plain Python rows and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import logical_type
from viewkeeper.checker.value_rules import moment

Row = tuple[Any, ...]


def rows_of(table: pa.Table) -> list[Row]:
    """Its rows as tuples; TIMESTAMPs in UTC, since Python never finds a repeated hour of two zones equal."""
    columns = [_values(column) for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * len(table)


def _values(column: pa.ChunkedArray) -> list[Any]:
    if not (pa.types.is_timestamp(column.type) and column.type.tz):
        return list(column.to_pylist())
    try:
        return list(column.cast(pa.timestamp("us", "UTC")).to_pylist())
    except OverflowError:  # a moment in a year that is not there in UTC, and is in the zone
        numbers = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
        return [None if number is None else moment(number, column.type.tz) for number in numbers]


def table_of(columns: Sequence[Column], rows: Sequence[Row], zone: str = "UTC") -> pa.Table:
    """`rows` as a table of the columns' logical types, nullability as declared."""
    fields = [pa.field(column.name, logical_type(column.type, zone), column.nullable) for column in columns]
    values = zip(*rows, strict=True) if rows else [()] * len(fields)
    arrays = [pa.array(column, f.type) for column, f in zip(values, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
