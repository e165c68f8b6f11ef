"""Arrow tables as users of Python take them: rows as dicts, and pandas DataFrames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from viewkeeper.catalog.types import DATE, TIMESTAMP, TIMESTAMP_NTZ
from viewkeeper.stores.value_conversion import to_python

_AT_ONCE = 10_000


def dicts(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows of a table with columns of logical types; raises Error for a time that Python has not."""
    for batch in table.to_batches(max_chunksize=_AT_ONCE):
        try:
            yield from batch.to_pylist()
        except (OverflowError, ValueError):  # Arrow reckons in UTC, where the first and last hours are not there
            columns = map(_values, batch.columns)
            yield from (dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True))


def data_frame(table: pa.Table) -> Any:
    """A pandas DataFrame, whose times show the clocks of their zone in every year.

    Arrow gives it zones of pytz where that is installed, which knows no changes after 2037.
    """
    frame = table.to_pandas()
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            frame.isetitem(at, frame.iloc[:, at].dt.tz_convert(ZoneInfo(field.type.tz)))
    return frame


def _values(column: pa.Array) -> list[Any]:
    if pa.types.is_date32(column.type):
        convert, physical = to_python(DATE, "UTC"), pa.int32()
    elif pa.types.is_timestamp(column.type):
        type_ = TIMESTAMP_NTZ if column.type.tz is None else TIMESTAMP
        convert, physical = to_python(type_, column.type.tz or "UTC"), pa.int64()
    else:
        return list(column.to_pylist())
    assert convert is not None, "times are held as numbers"
    return [None if value is None else convert(value) for value in column.view(physical).to_pylist()]
