"""Zone files: what one task writes in one batch, the runs of all states it touched; docs/format.md describes them."""

from __future__ import annotations

import json
import os
import re
import struct
import zlib
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import StateSpec
from viewkeeper.errors import Damaged
from viewkeeper.permissions import open_new
from viewkeeper.trace.arrange import arrange
from viewkeeper.trace.disk import STATE, Disk
from viewkeeper.trace.keys import number_type, offsets
from viewkeeper.trace.mapping import mapped
from viewkeeper.trace.receipt import FileRef, Receipt, RunRef
from viewkeeper.trace.rows import Rows

ALIGNMENT = 64
VERSION = 1
MAGIC = b"VKZONE\r\n"
HEADER = MAGIC.ljust(ALIGNMENT, b"\0")
FOOTER = struct.Struct("<QQII8s")  # directory's start, length and CRC-32; format version; magic

_TYPES = {str(type_): type_ for type_ in (
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.large_string(), pa.large_binary())
}  # fmt: skip


@dataclass(frozen=True)
class Region:
    """One region of a section: `buffers` are (start, length) within the file, None where an array has none there;
    `span` is the (start, end) that `checksum` covers, padding included."""

    name: str
    type: str
    checksum: int
    buffers: tuple[tuple[int, int] | None, ...]
    span: tuple[int, int]


@dataclass(frozen=True)
class Section:
    """One run in a file; `table` is on the words' top `bits` bits."""

    state: int
    rows: int
    bits: int
    parts: dict[str, Region]

    @property
    def columns(self) -> list[Region]:
        return [part for name, part in self.parts.items() if name.startswith("column")]


class ZoneFile:
    """An open, memory-mapped zone file.  Its header, directory and footer were found whole."""

    def __init__(self, disk: Disk, name: str, ref: FileRef | None = None) -> None:
        """Map `name`; with `ref`, what the manifest says of it must hold.

        Raises FileNotFoundError, or `Damaged` naming the file and the region.
        """
        self.name = name
        self._buffer = mapped(disk.local(f"{STATE}/{name}", ref))
        size, self._bytes = self._buffer.size, memoryview(self._buffer)
        if size < ALIGNMENT + FOOTER.size or (ref is not None and size != ref.length):
            raise Damaged(f"{name}: is {size} bytes long" + (f", not {ref.length}" if ref else ""))
        start, length, checksum, version, magic = FOOTER.unpack(self._bytes[-FOOTER.size :])
        if magic != MAGIC or start + length + FOOTER.size != size or version != VERSION:
            raise Damaged(f"{name}: the footer is not that of a zone file of format {VERSION}")
        directory = bytes(self._bytes[start : start + length])
        if zlib.crc32(directory) != checksum or (ref is not None and checksum != ref.checksum):
            raise Damaged(f"{name}: the directory's checksum is wrong")
        if self._bytes[:ALIGNMENT] != HEADER:
            raise Damaged(f"{name}: the header is not that of a zone file")
        self.ref = FileRef(name, size, checksum)
        self.sections = _sections(json.loads(directory))

    def verify(self, number: int) -> None:
        """Check every byte of a section; raises `Damaged`."""
        for part in self.sections[number].parts.values():
            if zlib.crc32(self._bytes[part.span[0] : part.span[1]]) != part.checksum:
                raise Damaged(f"{self.name}: section {number}, {part.name}: the checksum is wrong")

    def array(self, section: Section, part: Region) -> pa.Array:
        """A column, in the file's memory."""
        buffers = [self._buffer.slice(*place) if place else None for place in part.buffers]
        return pa.Array.from_buffers(_type(part.type), section.rows, buffers)

    def numbers(self, part: Region) -> np.ndarray:
        """The words, weights or offset table, in the file's memory."""
        assert part.buffers[0] is not None
        start, length = part.buffers[0]
        dtype = np.dtype(part.type)
        return np.frombuffer(self._bytes, dtype=dtype, count=length // dtype.itemsize, offset=start)

    @staticmethod
    def writer(disk: Disk, name: str) -> ZoneWriter:
        """Begin a file; nothing is created before the first rows."""
        return ZoneWriter(disk, name)


class ZoneWriter:
    """Writes a zone file, section by section.  A name is never used twice: FileExistsError."""

    def __init__(self, disk: Disk, name: str) -> None:
        self._disk, self._name = disk, name
        self._path = disk.scratch(f"{STATE}/{name}")
        self._file: BinaryIO | None = None
        self._at = 0
        self._directory: list[bytes] = []
        self._runs: list[RunRef] = []

    def add(self, spec: StateSpec, rows: Rows) -> None:
        """Write the run of one state: rows in any order.  Keyed: keys must be unique."""
        words, arranged = arrange(spec, rows)
        if spec.kind == "keyed" and len(words) < len(rows):
            raise ValueError(f"state {spec.id}: {len(rows) - len(words)} keys came twice in one run")
        self.add_sorted(spec, words, arranged)

    def add_sorted(self, spec: StateSpec, words: np.ndarray, rows: Rows) -> None:
        """`add` of what `arrange` gave."""
        if not len(words):
            return
        if self._file is None:
            self._file = os.fdopen(open_new(self._path), "wb", buffering=1 << 18)
            self._put([HEADER])
        start, low, high = self._at, int(words[0]), int(words[-1])
        bits, table = offset_table(words)
        parts = [["words", "uint64", *self._put([words])]]
        if not (rows.weights == 1).all():
            weights = _narrow(rows.weights)
            parts.append(["weights", weights.dtype.name, *self._put([weights])])
        parts.append(["table", "uint32", *self._put([table])])
        for i, column in enumerate(rows.columns):
            parts.append([f"column {i}", str(column.type), *self._put(_buffers(column))])
        entry = {"state": spec.id, "rows": len(words), "start": start, "bits": bits, "parts": parts}
        self._directory.append(json.dumps(entry, separators=(",", ":")).encode())
        size = self._at - start + len(self._directory[-1])
        self._runs.append(RunRef(spec.id, self._name, len(self._runs), len(words), size, low, high, 0, 0))

    def finish(self) -> Receipt:
        """Complete the file; it is durable when this returns."""
        if self._file is None:
            return Receipt(None, ())
        directory = b"[" + b",".join(self._directory) + b"]"
        checksum = zlib.crc32(directory)
        footer = FOOTER.pack(self._at, len(directory), checksum, VERSION, MAGIC)
        with self._file as file:
            file.write(directory + footer)
        self._disk.upload(self._path, f"{STATE}/{self._name}")
        length = self._at + len(directory) + len(footer)
        return Receipt(FileRef(self._name, length, checksum), tuple(self._runs))

    def _put(self, buffers: list[Any]) -> tuple[int, list[int]]:
        """Write buffers, each padded to the alignment; gives the CRC-32 of all of it, and each length (-1: None)."""
        assert self._file is not None
        checksum, lengths = 0, []
        for buffer in buffers:
            if buffer is None:
                lengths.append(-1)
                continue
            data = memoryview(buffer).cast("B") if len(buffer) else memoryview(b"")
            padding = bytes(-len(data) % ALIGNMENT)
            checksum = zlib.crc32(padding, zlib.crc32(data, checksum))
            self._file.write(data)
            self._file.write(padding)
            self._at += len(data) + len(padding)
            lengths.append(len(data))
        return checksum, lengths


def offset_table(words: np.ndarray) -> tuple[int, np.ndarray]:
    """(bits, uint32[2**bits + 1]): where the words with each value of the top `bits` bits begin; the last is their
    number.  About four words share an entry where words are spread evenly."""
    bits = max(1, (len(words) // 4).bit_length())
    tops = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    return bits, np.append(np.searchsorted(words, tops), len(words)).astype(np.uint32)


def _sections(directory: list[dict[str, Any]]) -> list[Section]:
    sections = []
    for entry in directory:
        at, parts = entry["start"], {}
        buffers: list[tuple[int, int] | None]
        for name, type_, checksum, lengths in entry["parts"]:
            begin, buffers = at, []
            for length in lengths:
                buffers.append((at, length) if length >= 0 else None)
                at += length + -length % ALIGNMENT if length >= 0 else 0
            parts[name] = Region(name, type_, checksum, tuple(buffers), (begin, at))
        sections.append(Section(entry["state"], entry["rows"], entry["bits"], parts))
    return sections


def _buffers(column: pa.Array) -> list[Any]:
    """A column's Arrow buffers, cut to what its rows need."""
    width = number_type(column.type)
    is_bytes = width is None and not pa.types.is_decimal128(column.type)
    if column.offset or (is_bytes and offsets(column)[0]):
        column = column.take(pa.array(np.arange(len(column))))
    validity, *data = column.buffers()
    present = validity.slice(0, (len(column) + 7) // 8) if column.null_count else None
    if is_bytes:
        ends = offsets(column)
        text = data[1].slice(0, int(ends[-1])) if ends[-1] else b""
        return [present, ends, text]
    return [present, data[0].slice(0, len(column) * (16 if width is None else width.itemsize))]


def _narrow(weights: np.ndarray) -> np.ndarray:
    least, greatest = int(weights.min()), int(weights.max())
    for dtype in (np.int8, np.int16, np.int32):
        if np.iinfo(dtype).min <= least and greatest <= np.iinfo(dtype).max:
            return weights.astype(dtype)
    return weights


def _type(text: str) -> pa.DataType:
    if text in _TYPES:
        return _TYPES[text]
    numbers = re.fullmatch(r"decimal128\((\d+), (-?\d+)\)", text)
    assert numbers is not None, f"no physical type is called {text}"
    return pa.decimal128(int(numbers[1]), int(numbers[2]))
