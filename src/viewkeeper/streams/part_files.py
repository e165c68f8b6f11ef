"""Part files: Parquet files that hold pieces of parts, each file those of one object.

Logical Arrow types, so that Spark reads them natively, then the hidden columns `__part` and, where rows are grouped,
`__group` (the hash as its signed twin).  Between the last row group and the footer, where Parquet allows any bytes,
stands the *seal*: the CRC-32 of each row group, their number, a magic, the CRC-32 of all that and of the footer.  So a
file is known to be whole without the manifest: the footer when it is opened, a row group when a process first reads it.
"""

from __future__ import annotations

import os
import struct
import time
import zlib
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import logical_type, physical_type, to_logical, to_physical
from viewkeeper.errors import Damaged
from viewkeeper.permissions import open_new
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.work import GREATEST_HASH, Piece
from viewkeeper.trace.disk import STATE, Disk
from viewkeeper.trace.grouping import spread, stable_argsort
from viewkeeper.trace.mapping import mapped
from viewkeeper.trace.receipt import FileRef

PART, GROUP = "__part", "__group"

ROW_GROUP_ROWS = 1 << 17
"""Rows in a row group, the least that is read: 3 ms for five columns."""

SHARED_ROWS = 1 << 15
"""Smaller parts share row groups of up to twice as many rows; larger ones begin with a row group of their own."""

FILES_OPEN = 512

LOOK_SECONDS = 5.0
"""Between two looks at whether open files were deleted."""

_PARQUET = b"PAR1"
_MAGIC = b"VKPART\r\n"
_SEAL_END = struct.Struct("<I8sI")  # the number of row groups, magic, the CRC-32 of the seal before it and the footer
_FOOTER_END = struct.Struct("<I4s")  # the footer's length, Parquet's magic


class PartWriter:
    """Writes one part file; nothing is created before the first rows.  A name is never used twice: FileExistsError."""

    def __init__(self, disk: Disk, name: str, columns: Sequence[Column], zone: str, grouped: bool) -> None:
        self._disk, self._name, self._path = disk, name, disk.scratch(f"{STATE}/{name}")
        self._columns, self._zone, self._grouped = tuple(columns), zone, grouped
        self._file: pa.NativeFile | None = None
        self._pieces: dict[int, Piece] = {}
        self._rows = 0
        self._waiting: list[tuple[int, Block]] = []
        self._waiting_rows = 0
        self._last: int | None = None

    def add(self, part: int, block: Block) -> None:
        """Rows of a part; parts ascend.  Grouped rows are sorted here by hash if they are not, and come all at once;
        others may come in several blocks.  No rows: no piece."""
        if self._last is not None and (part < self._last or (part == self._last and self._grouped)):
            raise ValueError(f"{self._name}: part {part} was added after part {self._last}")
        if not len(block):
            return
        self._last = part
        low, high = 0, GREATEST_HASH
        if self._grouped:
            block = by_hash(block)
            low, high = int(block.hashes[0]), int(block.hashes[-1])
        before = self._pieces.get(part)
        offset, rows = (before.offset, before.rows) if before else (self._rows, 0)
        self._pieces[part] = Piece(self._name, offset, rows + len(block), low, high)
        self._rows += len(block)
        if len(block) >= SHARED_ROWS:
            self._flush()
        self._waiting.append((part, block))
        self._waiting_rows += len(block)
        if self._waiting_rows >= SHARED_ROWS:
            self._flush()

    def finish(self) -> tuple[FileRef | None, dict[int, Piece]]:
        """Complete the file, which is durable then: what the manifest says of it, and the piece of each part with rows.
        No rows at all: no file."""
        self._flush()
        if self._file is None:
            return None, {}
        self._writer.close()
        self._file.close()
        length, checksum = _seal(self._path)
        self._disk.upload(self._path, f"{STATE}/{self._name}")
        return FileRef(self._name, length, checksum), self._pieces

    def _flush(self) -> None:
        if not self._waiting:
            return
        block = Block.concat([block for _, block in self._waiting])
        arrays = [
            _stored(array, column, self._zone) for array, column in zip(block.columns, self._columns, strict=True)
        ]
        lengths = [len(block) for _, block in self._waiting]
        arrays.append(pa.array(np.repeat(np.array([part for part, _ in self._waiting], dtype=np.int64), lengths)))
        if self._grouped:
            arrays.append(pa.array(block.hashes.view(np.int64)))
        if self._file is None:
            self._open()
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema), row_group_size=ROW_GROUP_ROWS)
        self._waiting, self._waiting_rows = [], 0

    def _open(self) -> None:
        from pyarrow import parquet

        os.close(open_new(self._path))
        self._file = pa.OSFile(str(self._path), "wb")
        hidden = [PART, GROUP] if self._grouped else [PART]
        names = [column.name for column in self._columns]
        # LZ4 halves what users' columns take and is read nearly as fast as plain; hashes cannot be compressed.
        compression = dict.fromkeys([*names, PART], "lz4") | dict.fromkeys(hidden[1:], "none")
        self._writer = parquet.ParquetWriter(
            self._file, self._schema, compression=compression, use_dictionary=[PART], write_statistics=hidden,
            store_schema=False, store_decimal_as_integer=True,
        )  # fmt: skip

    @cached_property
    def _schema(self) -> pa.Schema:
        fields = [pa.field(column.name, _stored_type(column, self._zone)) for column in self._columns]
        hidden = [PART, GROUP] if self._grouped else [PART]
        return pa.schema(fields + [pa.field(name, pa.int64(), nullable=False) for name in hidden])


@dataclass(frozen=True)
class Selection:
    """Which rows of grouped pieces are read: those whose hash lies from `low` to `high` and, if given, is one of
    `touched` (uint64, ascending, distinct)."""

    low: int = 0
    high: int = GREATEST_HASH
    touched: np.ndarray | None = None


ALL = Selection()


def read_piece(
    disk: Disk, piece: Piece, columns: Sequence[Column], selection: Selection = ALL, *,
    wanted: Sequence[int] | None = None, grouped: bool = False, file: FileRef | None = None,
) -> Block:  # fmt: skip
    """The rows of a piece, in physical types: of a grouped one (by hash) the selected ones.  Reads only the row groups
    that may hold such rows.

    `wanted` are positions in `columns`, all by default; `file` is what the manifest says of the file.  Raises `Damaged`
    naming the file, or FileNotFoundError.
    """
    chosen = [columns[i] for i in (range(len(columns)) if wanted is None else wanted)]
    table, hashes, rows = _select(disk, piece, chosen, selection, grouped, file)
    arrays = [_physical(table.column(column.name), column) for column in chosen]
    if rows is not None:
        index = pa.array(rows)
        arrays = [array.take(index) for array in arrays]
    return Block(arrays, hashes)


def read_part(
    disk: Disk, pieces: Sequence[Piece], columns: Sequence[Column], selection: Selection = ALL, *,
    wanted: Sequence[int] | None = None, grouped: bool = False,
) -> Block:  # fmt: skip
    """`read_piece` of all pieces of a part, one after another; grouped rows are sorted by hash."""
    blocks = [
        read_piece(disk, piece, columns, selection, wanted=wanted, grouped=grouped)
        for piece in pieces
        if not grouped or (piece.low <= selection.high and selection.low <= piece.high)
    ]
    if not blocks:
        return Block.empty([columns[i] for i in (range(len(columns)) if wanted is None else wanted)])
    whole = Block.concat(blocks)
    return by_hash(whole) if grouped and len(blocks) > 1 else whole


def merged(pieces: Iterable[Piece]) -> list[Piece]:
    """The same rows in the same order, with pieces that stand behind one another in a file as one: small parts share
    row groups, and each is then read once."""
    found: list[Piece] = []
    for piece in pieces:
        last = found[-1] if found else None
        if last is not None and (last.file, last.offset + last.rows) == (piece.file, piece.offset):
            found[-1] = Piece(last.file, last.offset, last.rows + piece.rows)
        else:
            found.append(piece)
    return found


def to_table(
    disk: Disk, pieces: Sequence[Piece], columns: Sequence[Column], zone: str, *, wanted: Sequence[int] | None = None
) -> pa.Table:
    """The rows of pieces as users see them: logical types, the columns named."""
    chosen = [columns[i] for i in (range(len(columns)) if wanted is None else wanted)]
    if not chosen:
        return pa.table({PART: pa.nulls(sum(piece.rows for piece in pieces))}).select([])
    schema = pa.schema([pa.field(column.name, logical_type(column.type, zone)) for column in chosen])
    tables: dict[Piece, pa.Table] = {}
    for piece in pieces:
        if piece not in tables:
            table, _, _ = _select(disk, piece, chosen)
            arrays = [table.column(field.name).cast(field.type) for field in schema]
            tables[piece] = pa.Table.from_arrays(arrays, schema=schema)
    return pa.concat_tables([schema.empty_table(), *(tables[piece] for piece in pieces)])


def narrowed(disk: Disk, piece: Piece, low: int, high: int) -> Piece | None:
    """What of a grouped piece lies from hash `low` to `high`, as a piece of the same file; None: nothing."""
    if low <= piece.low and piece.high <= high:
        return piece
    _, hashes, _ = _select(disk, piece, [], grouped=True)
    start, stop = _range(hashes, low, high)
    if start == stop:
        return None
    bounds = int(hashes[start]), int(hashes[stop - 1])
    return Piece(piece.file, piece.offset + start, stop - start, *bounds, piece.part)


def by_hash(block: Block) -> Block:
    """The rows sorted by hash, rows of equal hash as they came."""
    hashes = block.hashes
    return block if (hashes[1:] >= hashes[:-1]).all() else block.take(stable_argsort(hashes))


class PartFile:
    """An open, memory-mapped part file whose footer was found whole; may be used by several threads."""

    def __init__(self, disk: Disk, name: str, ref: FileRef | None = None) -> None:
        from pyarrow import parquet

        self._buffer = mapped(disk.local(f"{STATE}/{name}", ref))
        size, self.name = self._buffer.size, name
        if size < len(_PARQUET) + _SEAL_END.size + _FOOTER_END.size or (ref is not None and size != ref.length):
            raise Damaged(f"{name}: is {size} bytes long" + (f", not {ref.length}" if ref else ""))
        length, magic = _FOOTER_END.unpack(self._bytes(size - _FOOTER_END.size, size))
        footer = size - _FOOTER_END.size - length
        if magic != _PARQUET or footer < len(_PARQUET) + _SEAL_END.size:
            raise Damaged(f"{name}: the end is not that of a part file")
        count, magic, checksum = _SEAL_END.unpack(self._bytes(footer - _SEAL_END.size, footer))
        seal = footer - _SEAL_END.size - 4 * count
        if magic != _MAGIC or seal < len(_PARQUET) or self._bytes(0, len(_PARQUET)) != _PARQUET:
            raise Damaged(f"{name}: is not a part file")
        if zlib.crc32(self._bytes(footer, size), zlib.crc32(self._bytes(seal, footer - 4))) != checksum:
            raise Damaged(f"{name}: the footer's checksum is wrong")
        self.ref = FileRef(name, size, checksum)
        if ref is not None and self.ref != ref:
            raise Damaged(f"{name}: is another file than the one that was written")
        self._checksums = np.frombuffer(self._bytes(seal, seal + 4 * count), dtype="<u4")
        self._metadata = parquet.read_metadata(pa.BufferReader(self._buffer))
        self._bounds = [*_row_group_starts(self._metadata), seal]
        rows = [self._metadata.row_group(i).num_rows for i in range(count)]
        self.starts = np.concatenate([[0], np.cumsum(rows, dtype=np.int64)])
        """int64[row groups + 1]: the first row of each row group, and the number of rows."""
        self._whole: set[int] = set()

    def verify(self) -> None:
        """Check every byte; raises `Damaged`."""
        for group in range(len(self._checksums)):
            self._verify(group)

    def read(self, groups: Sequence[int], names: Sequence[str]) -> pa.Table:
        """The columns called `names` (and perhaps others) of some row groups."""
        from pyarrow import parquet

        for group in groups:
            if group not in self._whole:
                self._verify(group)
        # A reader is made each time: it is cheap beside the metadata, and cannot be shared by threads.
        reader = parquet.ParquetFile(
            pa.BufferReader(self._buffer), metadata=self._metadata, binary_type=pa.large_binary()
        )
        return reader.read_row_groups(list(groups), columns=list(names), use_threads=len(groups) > 1)

    @cached_property
    def hash_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """(uint64, uint64), a row group each: hashes between which all its own lie."""
        column = self._metadata.schema.names.index(GROUP)
        lows, highs = [], []
        for i in range(len(self._checksums)):
            statistics = self._metadata.row_group(i).column(column).statistics
            low, high = statistics.min, statistics.max
            if low < 0 <= high:  # Signed twins of both halves: nothing is known.
                low, high = 0, -1
            lows.append(low % 2**64)
            highs.append(high % 2**64)
        return np.array(lows, dtype=np.uint64), np.array(highs, dtype=np.uint64)

    def _verify(self, group: int) -> None:
        if zlib.crc32(self._bytes(self._bounds[group], self._bounds[group + 1])) != self._checksums[group]:
            raise Damaged(f"{self.name}: row group {group}: the checksum is wrong")
        self._whole.add(group)

    def _bytes(self, start: int, stop: int) -> memoryview:
        return memoryview(self._buffer)[start:stop]


class _OpenFiles:
    """The part files that this process has open, at most `FILES_OPEN`, by disk and name."""

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[Disk, str], PartFile] = OrderedDict()
        self._lock = Lock()
        self._looked = time.monotonic()

    def open(self, disk: Disk, name: str, ref: FileRef | None) -> PartFile:
        key = (disk, name)
        with self._lock:
            opened = self._files.get(key)
            if opened is None or (ref is not None and ref != opened.ref):
                opened = self._files[key] = PartFile(disk, name, ref)
            self._files.move_to_end(key)
            while len(self._files) > FILES_OPEN:
                self._files.popitem(last=False)
            if time.monotonic() - self._looked > LOOK_SECONDS:
                self._close_deleted()
            return opened

    def close_deleted(self) -> None:
        with self._lock:
            self._close_deleted()

    def _close_deleted(self) -> None:
        self._looked = time.monotonic()
        for disk, name in [key for key in self._files if not key[0].exists(f"{STATE}/{key[1]}")]:
            del self._files[disk, name]

    def keep(self, disk: Disk, names: Collection[str]) -> None:
        with self._lock:
            for key in [key for key in self._files if key[0] == disk and key[1] not in names]:
                del self._files[key]


_OPEN = _OpenFiles()


def close_part_files_except(disk: Disk, names: Collection[str]) -> None:
    """Let go of the open part files of `disk` that are not in `names`; what was read of them stays."""
    _OPEN.keep(disk, names)


def close_deleted_part_files() -> None:
    """Let go of the open part files that were deleted: mapped, they would go on taking room on the disk.  Whoever reads
    part files does so every LOOK_SECONDS; what was read of them stays."""
    _OPEN.close_deleted()


def verify_part_file(disk: Disk, ref: FileRef) -> None:
    """Check every byte of the file that `ref` names; raises `Damaged`, or FileNotFoundError."""
    PartFile(disk, ref.name, ref).verify()


def _select(
    disk: Disk, piece: Piece, columns: Sequence[Column], selection: Selection = ALL, grouped: bool = False,
    ref: FileRef | None = None,
) -> tuple[pa.Table, np.ndarray, np.ndarray | None]:  # fmt: skip
    """(A table with the rows, their hashes, which of the table's rows are meant: None for all)."""
    low, high, touched = selection.low, selection.high, selection.touched
    restricted = touched is not None or low > piece.low or high < piece.high
    if restricted and not grouped:
        raise ValueError(f"{piece.file}: rows without groups have no hashes to be chosen by")
    file = _OPEN.open(disk, piece.file, ref)
    start, stop = piece.offset, piece.offset + piece.rows
    if stop > file.starts[-1]:
        raise Damaged(f"{piece.file}: has {file.starts[-1]} rows, not {stop}")
    groups = np.arange(np.searchsorted(file.starts, start, side="right") - 1, np.searchsorted(file.starts, stop))
    if restricted:
        groups = groups[_may_hold(file, groups, selection)]
    names = [column.name for column in columns] + ([GROUP] if grouped else [])
    if not names or not len(groups):
        return _no_rows(columns), np.zeros(0 if grouped else piece.rows, dtype=np.uint64), None
    table = file.read(groups.tolist(), names)
    before = max(0, start - int(file.starts[groups[0]]))
    table = table.slice(before, table.num_rows - before - max(0, int(file.starts[groups[-1] + 1]) - stop))
    if not grouped:
        return table, np.zeros(table.num_rows, dtype=np.uint64), None
    hashes = table.column(GROUP).to_numpy().view(np.uint64)
    if not restricted:
        return table, hashes, None
    if touched is not None:
        touched = touched[slice(*_range(touched, low, high))]
        firsts = np.searchsorted(hashes, touched)
        rows = spread(firsts, np.searchsorted(hashes, touched, side="right") - firsts)
        return table, hashes[rows], rows
    first, last = _range(hashes, low, high)
    return table.slice(first, last - first), hashes[first:last], None


def _may_hold(file: PartFile, groups: np.ndarray, selection: Selection) -> np.ndarray:
    """bool: which of the row groups can have a hash that is asked for."""
    low, high, touched = selection.low, selection.high, selection.touched
    lows, highs = (bounds[groups] for bounds in file.hash_bounds)
    may = (lows <= np.uint64(high)) & (highs >= np.uint64(low))
    if touched is not None:
        may &= np.searchsorted(touched, lows) < np.searchsorted(touched, highs, side="right")
    return may


def _range(hashes: np.ndarray, low: int, high: int) -> tuple[int, int]:
    """Where the ascending `hashes` lie from `low` to `high`."""
    return int(np.searchsorted(hashes, np.uint64(low))), int(np.searchsorted(hashes, np.uint64(high), side="right"))


def _no_rows(columns: Sequence[Column]) -> pa.Table:
    return pa.table({column.name: pa.array([], _stored_type(column, "UTC")) for column in columns})


def _stored_type(column: Column, zone: str) -> pa.DataType:
    """The Arrow type of a column in a file: the logical one, but with 64-bit offsets."""
    return physical_type(column.type) if column.type.is_bytes else logical_type(column.type, zone)


def _stored(array: pa.Array, column: Column, zone: str) -> pa.Array:
    return array if column.type.is_bytes else to_logical(array, column.type, zone)


def _physical(array: pa.ChunkedArray, column: Column) -> pa.Array:
    chunks = [to_physical(chunk, column.type) for chunk in array.chunks]
    if len(chunks) == 1:
        return chunks[0]
    return pa.concat_arrays(chunks) if chunks else pa.array([], physical_type(column.type))


def _row_group_starts(metadata: object) -> list[int]:
    """The first byte of each row group."""
    starts = []
    for i in range(metadata.num_row_groups):  # type: ignore[attr-defined]
        column = metadata.row_group(i).column(0)  # type: ignore[attr-defined]
        offsets = [column.data_page_offset, column.dictionary_page_offset]
        starts.append(min(offset for offset in offsets if offset is not None))
    return starts


def _seal(path: Path) -> tuple[int, int]:
    """Put the seal before the footer of a finished Parquet file: (the file's length, the checksum for its FileRef)."""
    from pyarrow import parquet

    with path.open("r+b") as file:
        size = file.seek(0, 2)
        file.seek(size - _FOOTER_END.size)
        length, _ = _FOOTER_END.unpack(file.read())
        begin = size - _FOOTER_END.size - length
        file.seek(begin)
        footer = file.read()
        whole = mapped(path)
        bounds = [*_row_group_starts(parquet.read_metadata(pa.BufferReader(whole))), begin]
        view = memoryview(whole)
        checksums = [zlib.crc32(view[start:stop]) for start, stop in zip(bounds, bounds[1:], strict=False)]
        seal = np.array(checksums, dtype="<u4").tobytes() + _SEAL_END.pack(len(checksums), _MAGIC, 0)[:-4]
        checksum = zlib.crc32(footer, zlib.crc32(seal))
        file.seek(begin)
        file.write(seal + checksum.to_bytes(4, "little") + footer)
    return size + len(seal) + 4, checksum
