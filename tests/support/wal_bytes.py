"""Write-ahead logs of HBase as bytes, put together here by its format alone."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

PUT, DELETE_VERSION, DELETE_FAMILY_VERSION, DELETE_COLUMN, DELETE_FAMILY = 4, 8, 10, 12, 14
TRAILER = b"\0\0\0\0LAWP"
CODEC = b"org.apache.hadoop.hbase.regionserver.wal.WALCellCodec"


class Cell(NamedTuple):
    row: bytes
    family: bytes
    qualifier: bytes
    stamp: int
    value: bytes = b""
    type: int = PUT
    tags: bytes = b""


def varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


def message(*fields: tuple[int, int | bytes]) -> bytes:
    """A protobuf message of numbers and byte strings."""
    made = b""
    for number, value in fields:
        if isinstance(value, int):
            made += varint(number << 3) + varint(value)
        else:
            made += varint(number << 3 | 2) + varint(len(value)) + value
    return made


def header(*fields: tuple[int, int | bytes]) -> bytes:
    given = message(*(fields or ((1, 0), (4, b"AsyncProtobufLogWriter"), (5, CODEC))))
    return b"PWAL" + varint(len(given)) + given


def cell_bytes(cell: Cell) -> bytes:
    key = struct.pack(">h", len(cell.row)) + cell.row + bytes([len(cell.family)]) + cell.family + cell.qualifier
    key += struct.pack(">qB", cell.stamp, cell.type)
    tags = struct.pack(">H", len(cell.tags)) + cell.tags if cell.tags else b""
    body = struct.pack(">ii", len(key), len(cell.value)) + key + cell.value + tags
    return struct.pack(">i", len(body)) + body


def entry(table: bytes, sequence: int, cells: Sequence[Cell], time: int = 1_700_000_000_000,
          more: Sequence[tuple[int, int | bytes]] = ()) -> bytes:  # fmt: skip
    key = message((1, b"0123456789abcdef0123456789abcdef"), (2, table), (3, sequence), (4, time),
                  (6, message((1, b"f"), (2, 1))), (7, len(cells)), *more)  # fmt: skip
    return varint(len(key)) + key + b"".join(map(cell_bytes, cells))
