"""Arrow tables of logical types to plain Python rows and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from viewkeeper.catalog.arrow_tables import logical_field
from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import Type, logical_type, physical_type, to_logical, to_physical, type_of
from viewkeeper.checker.value_rules import moment

Row = tuple[Any, ...]


def rows_of(table: pa.Table) -> list[Row]:
    """Its rows as tuples; TIMESTAMPs in UTC, since Python never finds a repeated hour of two zones equal; arrays,
    structs and maps as bytes, of which each of them has its own."""
    columns = [_values(column) for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * len(table)


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_nested(column.type):
        return list(to_physical(column.combine_chunks(), type_of(column.type)).to_pylist())
    if not (pa.types.is_timestamp(column.type) and column.type.tz):
        return list(column.to_pylist())
    try:
        return list(column.cast(pa.timestamp("us", "UTC")).to_pylist())
    except OverflowError:  # a moment in a year that is not there in UTC, and is in the zone
        numbers = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
        return [None if number is None else moment(number, column.type.tz) for number in numbers]


def table_of(columns: Sequence[Column], rows: Sequence[Row], zone: str = "UTC") -> pa.Table:
    """`rows` as a table of the columns' logical types, nullability as declared."""
    fields = [logical_field(column, zone) for column in columns]
    values = zip(*rows, strict=True) if rows else [()] * len(fields)
    arrays = [_array(column, of.type, zone) for column, of in zip(values, columns, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _array(values: Sequence[Any], type_: Type, zone: str) -> pa.Array:
    if type_.is_nested:
        return to_logical(pa.array(values, physical_type(type_)), type_, zone)
    return pa.array(values, logical_type(type_, zone))
