"""Files of write-ahead logs as HBase 2 writes them (`ProtobufLogWriter`), read without Java.

A file is `PWAL`, a header, entries, and, once it is closed, a trailer.  An entry is its key, a protobuf message with
its length before it, and as many cells as the key says: each the length of what follows (4 bytes), the lengths of key
and value (4 and 4), the key, the value and, where there are any, tags.  A cell's key is the row with its length before
it (2), the family likewise (1), the qualifier, the timestamp (8) and the type (1).  All numbers are big-endian.

Only what is written out plainly is read: neither compressed nor encrypted files.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from viewkeeper.stores.outside.hbase.protobuf import fields, varint

MAGIC = b"PWAL"
_TRAILER = b"LAWP"
_CODEC = b"org.apache.hadoop.hbase.regionserver.wal.WALCellCodec"
_HEADER_BYTES = 64 * 1024
_LEAST_CELL = 20
_int = struct.Struct(">i").unpack_from


class LogUnreadable(Exception):
    """A file that cannot be read; the message says why."""


@dataclass
class Entries:
    """Entries of one table, in the order of a file: where each ends, its sequence in its region, when it was written
    (milliseconds since 1970), and how many cells it has; `cells` are where those of all begin (their first length)."""

    ends: list[int] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    cells: list[int] = field(default_factory=list)


def first_entry(head: bytes) -> int | None:
    """Where the entries of a file begin, by its first bytes; None where these are not there yet.

    Raises LogUnreadable where it is another kind of file, is compressed or encrypted.
    """
    if head[: len(MAGIC)] != MAGIC[: len(head)]:
        raise LogUnreadable(f"it begins with {head[:4]!r}, and not as a write-ahead log of HBase 2 does")
    try:
        length, at = varint(head, len(MAGIC))
    except IndexError:
        return None
    if at + length > _HEADER_BYTES:
        raise LogUnreadable(f"its header has {length} bytes")
    if at + length > len(head):
        return None
    try:
        header = dict(fields(head[at : at + length]))
    except ValueError as error:
        raise LogUnreadable(f"its header is none: {error}") from None
    for number, what in ((1, "compressed (hbase.regionserver.wal.enablecompression)"), (2, "encrypted"),
                         (6, "compressed (hbase.regionserver.wal.value.enablecompression)")):  # fmt: skip
        if header.get(number):
            raise LogUnreadable(f"it is {what}, and only plain ones are read")
    if header.get(5, _CODEC) != _CODEC:
        raise LogUnreadable(f"its cells are written by {header[5]!r}, and only those of WALCellCodec are read")
    return at + length


def without_trailer(tail: bytes, size: int) -> int:
    """Where the entries of a file of `size` bytes end, if it is closed, else `size`; `tail` are its last bytes."""
    if len(tail) < 8 or tail[-4:] != _TRAILER:
        return size
    (length,) = _int(tail, len(tail) - 8)
    return size - 8 - length if 0 <= length <= size - 8 else size


def walk(data: bytes, at: int, table: bytes | None, found: Entries) -> int:
    """Goes through the entries of `data` from `at`, where one begins, and adds those of `table` to `found`; returns
    where the last one ends that is there as a whole."""
    limit, kept = len(data), len(found.cells)
    ends, sequences, times, counts, cells = found.ends, found.sequences, found.times, found.counts, found.cells
    try:
        while at < limit:
            key, body = data[at], at + 1
            if key >= 128:
                key, body = varint(data, at)
            end = body + key
            if not key or end > limit:
                break
            count = sequence = time = 0
            ours = False
            while body < end:
                tag = data[body]
                body += 1
                if tag >= 128:
                    tag, body = varint(data, body - 1)
                kind = tag & 7
                value = data[body]
                body += 1
                if kind == 2:
                    if value >= 128:
                        value, body = varint(data, body - 1)
                    if tag == 0x12:
                        ours = data[body : body + value] == table
                    body += value
                elif kind == 0:
                    if value >= 128:
                        value, body = varint(data, body - 1)
                    if tag == 0x38:
                        count = value
                    elif tag == 0x18:
                        sequence = value
                    elif tag == 0x20:
                        time = value
                elif kind in (1, 5):
                    body += 7 if kind == 1 else 3
                else:
                    raise LogUnreadable(f"the entry at {at} has a key that is none")
            cell = end
            for _ in range(count):
                cells.append(cell)
                (length,) = _int(data, cell)
                if length < _LEAST_CELL:
                    raise LogUnreadable(f"the entry at {at} has a cell of {length} bytes")
                cell += 4 + length
            if cell > limit:
                break
            at = cell
            if ours:
                ends.append(at)
                sequences.append(sequence)
                times.append(time)
                counts.append(count)
                kept = len(cells)
            else:
                del cells[kept:]
    except (IndexError, struct.error):
        pass  # the last one is not there as a whole
    del cells[kept:]
    return at
