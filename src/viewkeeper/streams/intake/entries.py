"""Entries of a stream's log, and their bytes.

An entry is: CRC-32 of the rest, length of the header (both big-endian, 4 bytes), the header (JSON), then int64 arrays
(little-endian): the subscripts and the numbers of rows of each file's parts, then rejected rows as an Arrow stream.
The header holds the running hash of the stream's log before the entry, so each stands for all that precede it.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.errors import Damaged
from viewkeeper.streams.work import Piece
from viewkeeper.trace.receipt import FileRef

_HEAD = struct.Struct(">II")
_INTEGER = np.dtype("<i8")

ENTRY_KEY = struct.Struct(">QQ")
"""The key of an entry in the log: stream and sequence."""

_ENTRY_BYTES, _PART_BYTES = 1_200, 350
"""What an entry takes up in memory besides its rejected rows, and what each of its parts does once it is taken."""

REJECTS = pa.schema([pa.field("reason", pa.string(), False), pa.field("operation", pa.binary(), False)])
"""Rejected rows: why, and the row as a JSON object."""

NOTHING_REJECTED = pa.Table.from_batches([], REJECTS)


@dataclass(frozen=True, eq=False)
class EnteredFile:
    """A Parquet file with rows of a stream, sorted by part: the subscripts, ascending, and how many rows each has.

    `least` and `greatest` are its timestamps' (microseconds).
    """

    ref: FileRef
    parts: np.ndarray
    rows: np.ndarray
    least: int
    greatest: int

    def pieces(self) -> Iterator[tuple[int, Piece]]:
        """Each part and where its rows stand."""
        offsets = np.cumsum(self.rows) - self.rows
        for part, offset, rows in zip(self.parts.tolist(), offsets.tolist(), self.rows.tolist(), strict=True):
            yield part, Piece(self.ref.name, offset, rows)


@dataclass(frozen=True, eq=False)
class Draft:
    """What one append stores, before it has its place in the log."""

    files: tuple[EnteredFile, ...]
    rejected: pa.Table = field(default_factory=lambda: NOTHING_REJECTED)

    @property
    def stored(self) -> int:
        """How many rows it stores."""
        return sum(int(file.rows.sum()) for file in self.files)


@dataclass(frozen=True, eq=False)
class Append:
    """One append, stored whole.  `stamp` is the wall clock's (microseconds), `hash` the log's running hash after it."""

    sequence: int
    stamp: int
    files: tuple[EnteredFile, ...]
    rejected: pa.Table
    hash: str = ""

    @property
    def greatest(self) -> int | None:
        """Its greatest timestamp; None where no row was stored."""
        return max((file.greatest for file in self.files), default=None)

    @property
    def stored(self) -> int:
        """How many rows it stored."""
        return sum(int(file.rows.sum()) for file in self.files)

    @property
    def rows(self) -> int:
        """How many rows it stored and rejected."""
        return self.stored + len(self.rejected)

    @property
    def size(self) -> int:
        """The bytes that it takes up in memory, about, with what taking it makes of it."""
        return _ENTRY_BYTES + _PART_BYTES * sum(len(file.parts) for file in self.files) + self.rejected.nbytes


@dataclass(frozen=True)
class Seal:
    """All parts up to and including `upto` are sealed, for `reason`."""

    sequence: int
    stamp: int
    upto: int
    reason: str
    hash: str = ""
    rows = 0
    size = _ENTRY_BYTES


Entry = Append | Seal


def encode_append(draft: Draft, stamp: int, rejects: str | bytes, before: str = "") -> bytes:
    """The bytes of an append; `rejects` are the bytes of its rejected rows, or the name of the file that holds them."""
    files = [[file.ref.name, file.ref.length, file.ref.checksum, len(file.parts), file.least, file.greatest]
             for file in draft.files]  # fmt: skip
    header = {"kind": "append", "stamp": stamp, "before": before, "files": files}
    arrays = [array for file in draft.files for array in (file.parts, file.rows)]
    tail = b"".join(array.astype(_INTEGER, copy=False).tobytes() for array in arrays)
    if isinstance(rejects, str):
        return _sealed({**header, "rejects": rejects}, tail)
    return _sealed(header, tail + rejects)


def encode_seal(upto: int, reason: str, stamp: int, before: str = "") -> bytes:
    """The bytes of a seal."""
    return _sealed({"kind": "seal", "stamp": stamp, "before": before, "upto": upto, "reason": reason}, b"")


def running_hash(data: bytes) -> str:
    """The running hash of a log that ends with an entry: of its bytes, which hold the one before it."""
    return blake2b(data, digest_size=16).hexdigest()


def header_of(data: bytes, name: str) -> dict[str, Any]:
    """The header of an entry; `Damaged`, naming the entry, where the bytes are not those that were written."""
    if len(data) < _HEAD.size or zlib.crc32(memoryview(data)[4:]) != _HEAD.unpack_from(data)[0]:
        raise Damaged(f"{name} is damaged: its {len(data)} bytes are not the ones written")
    header: dict[str, Any] = json.loads(data[_HEAD.size : _HEAD.size + _HEAD.unpack_from(data)[1]])
    return header


def decode(data: bytes, sequence: int, name: str) -> tuple[Entry, str | None]:
    """The entry, and the name of the file that holds its rejected rows, where they are not in it."""
    header = header_of(data, name)
    if header["kind"] == "seal":
        return Seal(sequence, header["stamp"], header["upto"], header["reason"], running_hash(data)), None
    at, files = _HEAD.size + _HEAD.unpack_from(data)[1], []
    for file, length, checksum, count, least, greatest in header["files"]:
        parts = np.frombuffer(data, _INTEGER, count, at)
        rows = np.frombuffer(data, _INTEGER, count, at + parts.nbytes)
        at += parts.nbytes + rows.nbytes
        files.append(EnteredFile(FileRef(file, length, checksum), parts, rows, least, greatest))
    rejected = rejects_from(data[at:]) if at < len(data) else NOTHING_REJECTED
    return Append(sequence, header["stamp"], tuple(files), rejected, running_hash(data)), header.get("rejects")


def rejects_bytes(rejected: pa.Table) -> bytes:
    """Rejected rows as an Arrow stream; empty where there are none."""
    if not len(rejected):
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, REJECTS) as writer:
        writer.write_table(rejected)
    return bytes(sink.getvalue().to_pybytes())


def rejects_from(data: bytes) -> pa.Table:
    """The inverse of `rejects_bytes`."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def rejects(rows: Sequence[tuple[str, bytes]]) -> pa.Table:
    """Rejected rows of (reason, row) pairs."""
    reasons, operations = zip(*rows, strict=True) if rows else ((), ())
    return pa.table([pa.array(reasons, pa.string()), pa.array(operations, pa.binary())], schema=REJECTS)


def _sealed(header: dict[str, Any], tail: bytes) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    body = struct.pack(">I", len(text)) + text + tail
    return struct.pack(">I", zlib.crc32(body)) + body
