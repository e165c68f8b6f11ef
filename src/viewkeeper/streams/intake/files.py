"""Rows of a stream as Parquet files of the state folder, sorted by part (docs/streams-interfaces.md)."""

from __future__ import annotations

import secrets
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from viewkeeper.catalog.model import Stream
from viewkeeper.catalog.types import Type, logical_type, physical_type, to_logical, to_physical
from viewkeeper.streams.intake.entries import PartFile
from viewkeeper.streams.intake.taking import MICROSECONDS
from viewkeeper.trace.commit import Storage
from viewkeeper.trace.grouping import stable_argsort
from viewkeeper.trace.receipt import FileRef

PART = "__part"
ROW_GROUP_ROWS = 1 << 17
_LARGE = (pa.large_string(), pa.large_binary())


def write_rows(storage: Storage, stream: Stream, columns: Sequence[pa.Array], times: np.ndarray) -> PartFile:
    """Write rows (physical columns, at least one row) with timestamps `times` (microseconds) to a new file.

    The file has its name, and is durable, when this returns.
    """
    parts = times // (stream.length * MICROSECONDS)
    order = stable_argsort((parts - parts.min()).astype(np.uint64))
    if (order[1:] < order[:-1]).any():
        index = pa.array(order)
        parts, columns = parts[order], [column.take(index) for column in columns]
    starts = np.flatnonzero(np.append(True, parts[1:] != parts[:-1]))
    fields = [pa.field(column.name, _written_type(column.type), column.nullable) for column in stream.columns]
    schema = pa.schema([*fields, pa.field(PART, pa.int64(), nullable=False)])
    logical = [
        values if values.type in _LARGE else to_logical(values, column.type)
        for values, column in zip(columns, stream.columns, strict=True)
    ]
    path = storage.state / f"append-{stream.id}-{secrets.token_hex(16)}.parquet"
    _write(path, pa.Table.from_arrays([*logical, pa.array(parts)], schema=schema))
    storage.publish(path)
    rows = np.diff(np.append(starts, len(parts)))
    return PartFile(file_ref(path), parts[starts], rows, int(times.min()), int(times.max()))


def read_rows(storage: Storage, stream: Stream, file: PartFile) -> list[pa.Array]:
    """The rows of a file as physical columns, as `write_rows` took them, in the file's order."""
    table = pq.read_table(storage.state / file.ref.name, columns=[column.name for column in stream.columns])
    columns = []
    for column in stream.columns:
        values = table[column.name].cast(_written_type(column.type)).combine_chunks()
        columns.append(values if values.type in _LARGE else to_physical(values, column.type))
    return columns


def file_ref(path: Path) -> FileRef:
    """A Parquet file as manifests name it: its length, and the CRC-32 of its footer."""
    with path.open("rb") as file:
        end = file.seek(0, 2)
        file.seek(end - 8)
        file.seek(end - 8 - struct.unpack("<I", file.read(4))[0])
        return FileRef(path.name, end, zlib.crc32(file.read()))


def _written_type(type_: Type) -> pa.DataType:
    physical = physical_type(type_)
    # An Arrow string holds at most 2 GiB; in Parquet both are the same.
    return physical if physical in _LARGE else logical_type(type_)


def _write(path: Path, table: pa.Table) -> None:
    # Plain numbers: finding their distinct values would take most of the time, and save little.
    texts = [field.name for field in table.schema if field.type in _LARGE]
    hidden = path.with_name(f".{path.name}")
    try:
        pq.write_table(table, hidden, row_group_size=ROW_GROUP_ROWS, compression="snappy", store_schema=False,
                       use_dictionary=[*texts, PART], store_decimal_as_integer=True, write_page_index=True)  # fmt: skip
        hidden.rename(path)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise
