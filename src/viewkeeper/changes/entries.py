"""Log entries as bytes (docs/format-store.md): a header, then operations of one kind on one table.

Many operations are one Arrow IPC record batch message without its schema, which follows from the table; a single one
is a row in `layout`'s form, a fifth of the size.  Entries are read back in bulk: all messages of one shape are put
behind one schema and read as one stream, all single rows are laid out as columns at once.

An entry in a log holds the running hash of the log before it, so each stands for all that precede it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.operation_kinds import DELETE_COLUMNS
from viewkeeper.changes.layout import from_raw
from viewkeeper.changes.operations import EarlierForm, EntryShape, Operations, TableForm

FORMAT = 1
BLOCK_BYTES_MAX = 1 << 20
"""The longest message; operations that need more become several entries (a single row may be longer)."""

HEADER = struct.Struct("<IBBBxIIIq")
"""CRC-32 of all that follows; format, kind, flags; the columns' fingerprint, table id, operations; stamp."""
_AFTER_CHECKSUM = struct.Struct("<BBBxIIIq")
_HEADER_DTYPE = np.dtype([("checksum", "<u4"), ("format", "u1"), ("kind", "u1"), ("flags", "u1"), ("", "u1"),
                          ("fingerprint", "<u4"), ("table", "<u4"), ("count", "<u4"), ("stamp", "<i8")])  # fmt: skip
_WITH_SET, _SINGLE, _CHAINED = 1, 2, 4
_SHAPE = _WITH_SET | _SINGLE | _CHAINED
HASH_BYTES = 16
EMPTY_LOG = bytes(HASH_BYTES)
"""The running hash of a log that holds nothing yet."""
_KINDS = DELETE_COLUMNS + 1


@dataclass(frozen=True)
class Body:
    """What an entry says, but for its place and time."""

    kind: int
    flags: int
    count: int
    data: bytes


def encode(form: TableForm, operations: Operations) -> list[Body]:
    """The bodies of the entries that hold `operations`, in order."""
    return list(_encode(form, operations)) if len(operations) else []


def _encode(form: TableForm, operations: Operations) -> Iterator[Body]:
    shape = form.shapes[operations.kind, operations.named is not None]
    count = len(operations)
    if count == 1:
        row = shape.layout.encode(operations.columns, 1)[0]
        yield single(operations.kind, row, None if operations.named is None else operations.named.tobytes())
        return
    columns = list(operations.columns)
    if operations.named is not None:
        mask = pa.py_buffer(np.ascontiguousarray(operations.named))
        columns.append(pa.Array.from_buffers(pa.binary(form.set_bytes), count, [None, mask]))
    message = pa.RecordBatch.from_arrays(columns, schema=shape.written).serialize().to_pybytes()
    if len(message) + HASH_BYTES > BLOCK_BYTES_MAX:
        yield from _encode(form, operations.slice(0, count // 2))
        yield from _encode(form, operations.slice(count // 2, count))
        return
    yield Body(operations.kind, _WITH_SET if operations.named is not None else 0, count, message)


def single(kind: int, row: bytes, named: bytes | None) -> Body:
    """The body of one operation: the columns that its kind carries, as `RowLayout.pack` gives them."""
    return Body(kind, _SINGLE, 1, row) if named is None else Body(kind, _SINGLE | _WITH_SET, 1, named + row)


def seal(form: TableForm, body: Body, stamp: int, before: bytes = b"") -> bytes:
    """The whole entry; in a log, behind what has the running hash `before`."""
    flags = body.flags | _CHAINED if before else body.flags
    head = _AFTER_CHECKSUM.pack(FORMAT, body.kind, flags, form.fingerprint, form.table.id, body.count, stamp) + before
    return struct.pack("<I", zlib.crc32(body.data, zlib.crc32(head))) + head + body.data


def running_hash(entry: bytes) -> bytes:
    """The running hash of a log that ends with `entry`, whatever bytes these are.

    Taken of the header and the hash before it: the header holds the checksum of the rest, so it costs the same for
    entries of any length.
    """
    return blake2b(entry[: HEADER.size + HASH_BYTES], digest_size=HASH_BYTES).digest()


def hash_before(entry: bytes) -> bytes | None:
    """The running hash of the log before `entry`; None where it does not say (another program wrote it)."""
    if count_and_stamp(entry) is None or not entry[6] & _CHAINED:
        return None
    return bytes(entry[HEADER.size : HEADER.size + HASH_BYTES])


def count_and_stamp(entry: bytes, checked: bool = False) -> tuple[int, int] | None:
    """How many operations `entry` holds, and its stamp; None if it is no entry.  `checked` verifies its checksum."""
    if len(entry) < HEADER.size:
        return None
    checksum, format_, _, _, _, _, count, stamp = HEADER.unpack_from(entry)
    if format_ != FORMAT or not count or (checked and zlib.crc32(entry[4:]) != checksum):
        return None
    return count, stamp


def table_of(entry: bytes) -> int | None:
    """The id of the table that `entry` is of; None if it is no entry."""
    return None if count_and_stamp(entry) is None else int(HEADER.unpack_from(entry)[5])


@dataclass
class Decoded:
    """Operations of one table, kind and shape out of many entries, their columns in raw types (`layout.raw_type`), in
    the form in which they were written; `earlier` where that is not the newest."""

    form: TableForm
    operations: Operations
    sequences: np.ndarray
    stamps: np.ndarray
    earlier: EarlierForm | None = None


@dataclass(frozen=True)
class BadEntry:
    """An entry that is no good as a whole; `table` and `stamp` are 0 where it does not even say that."""

    first: int
    table: int
    stamp: int
    reason: str
    entry: bytes


@dataclass
class Batch:
    """What `decode` makes of a range of a log; `skipped`: operations per table that is not (any more) declared."""

    decoded: list[Decoded]
    bad: list[BadEntry]
    skipped: dict[int, int]


def decode(entries: Sequence[bytes], firsts: np.ndarray, after_last: int,
           form_of: Callable[[int], TableForm | None]) -> Batch:  # fmt: skip
    """Decode `entries`, which hold the sequences from `firsts[i]` to before `firsts[i + 1]` (or `after_last`)."""
    batch = Batch([], [], {})
    long_enough = np.fromiter((len(entry) >= HEADER.size for entry in entries), bool, len(entries))
    blank = bytes(HEADER.size)
    heads = np.frombuffer(
        b"".join([e[: HEADER.size] if len(e) >= HEADER.size else blank for e in entries]), _HEADER_DTYPE
    )
    checksums = np.fromiter((zlib.crc32(entry[4:]) for entry in entries), np.uint32, len(entries))
    sound = long_enough & (heads["checksum"] == checksums) & (heads["format"] == FORMAT) & (heads["kind"] < _KINDS)
    counts = np.diff(np.append(firsts, after_last))
    for i in np.flatnonzero(~sound).tolist():
        batch.bad.append(
            BadEntry(int(firsts[i]), 0, 0, "not a log entry: its bytes or its checksum are wrong", entries[i])
        )
    groups = np.stack([heads["table"], heads["fingerprint"], heads["kind"], heads["flags"] & _SHAPE], axis=1)
    for table, fingerprint, kind, flags in np.unique(groups[sound], axis=0).tolist():
        of_group = np.flatnonzero(sound & (groups == (table, fingerprint, kind, flags)).all(axis=1))
        form = form_of(table)
        if form is None:
            batch.skipped[table] = batch.skipped.get(table, 0) + int(counts[of_group].sum())
            continue
        earlier = None if fingerprint == form.fingerprint else form.written_by(fingerprint)
        written = form if earlier is None else earlier.form
        group = _Group(written, kind, flags, entries, heads, firsts, counts, batch, earlier)
        if fingerprint == written.fingerprint:
            group.decode(of_group[group.counted(of_group)])
        else:
            group.reject(of_group, "its columns are not those of the table")
    return batch


@dataclass
class _Group:
    """Sound entries of one table, kind and shape; the indices below point into `entries`."""

    form: TableForm
    kind: int
    flags: int
    entries: Sequence[bytes]
    heads: np.ndarray
    firsts: np.ndarray
    counts: np.ndarray
    batch: Batch
    earlier: EarlierForm | None

    @property
    def shape(self) -> EntryShape:
        return self.form.shapes[self.kind, bool(self.flags & _WITH_SET)]

    @property
    def data_at(self) -> int:
        """Where an entry's operations begin."""
        return HEADER.size + (HASH_BYTES if self.flags & _CHAINED else 0)

    def reject(self, indices: np.ndarray, reason: str) -> None:
        for i in indices:
            self.batch.bad.append(BadEntry(int(self.firsts[i]), self.form.table.id, int(self.heads["stamp"][i]), reason,
                                           self.entries[i]))  # fmt: skip

    def counted(self, indices: np.ndarray) -> np.ndarray:
        """bool: entries that hold as many operations as the log has sequences for; the others are rejected."""
        right = self.heads["count"][indices] == self.counts[indices]
        self.reject(indices[~right], "it does not hold as many operations as its place in the log says")
        return right

    def decode(self, indices: np.ndarray) -> None:
        if not len(indices):
            return
        if self.flags & _SINGLE:
            self._decode_singles(indices)
            return
        columns = self._read_messages(indices)
        if columns is not None:
            self._deliver(indices, columns)
        elif len(indices) == 1:
            self.reject(indices, "its Arrow message cannot be read")
        else:  # Some of them are bad: halve until those are alone.
            self.decode(indices[: len(indices) // 2])
            self.decode(indices[len(indices) // 2 :])

    def _decode_singles(self, indices: np.ndarray) -> None:
        alone = self.counts[indices] == 1
        self.reject(indices[~alone], "it holds one operation, and its header says more")
        indices, start = indices[alone], self.data_at + self.shape.set_bytes
        columns, whole = self.shape.layout.decode([self.entries[i] for i in indices], skip=start)
        self.reject(indices[~whole], "its row cannot be read")
        indices = indices[whole]
        if self.shape.set_bytes:
            masks = b"".join([self.entries[i][self.data_at : start] for i in indices])
            columns.append(
                pa.Array.from_buffers(pa.binary(self.shape.set_bytes), len(indices), [None, pa.py_buffer(masks)])
            )
        self._deliver(indices, columns)

    def _read_messages(self, indices: np.ndarray) -> list[pa.Array] | None:
        """The columns of these entries, one after another; None if any is not what its header says."""
        messages = b"".join([self.shape.read, *(self.entries[i][self.data_at :] for i in indices)])
        try:
            table = pa.ipc.open_stream(pa.py_buffer(messages)).read_all()
            table.validate(full=True)
        except (pa.ArrowException, OSError, ValueError):
            return None
        lengths = [len(chunk) for chunk in table.column(0).chunks]
        if lengths != self.counts[indices].tolist():
            return None
        return [column.combine_chunks() if column.num_chunks != 1 else column.chunk(0) for column in table.columns]

    def _deliver(self, indices: np.ndarray, columns: list[pa.Array]) -> None:
        if not len(indices):
            return
        counts = self.counts[indices]
        starts = np.cumsum(counts) - counts
        sequences = np.repeat(self.firsts[indices] - starts, counts) + np.arange(counts.sum())
        stamps = np.repeat(self.heads["stamp"][indices].astype(np.int64), counts)
        named = None
        if self.shape.set_bytes:
            data = columns.pop()
            named = np.frombuffer(
                data.buffers()[1], np.uint8, data.offset * self.shape.set_bytes + len(data) * self.shape.set_bytes
            )
            named = named[data.offset * self.shape.set_bytes :].reshape(-1, self.shape.set_bytes)
        operations = Operations(self.kind, columns, named)
        self.batch.decoded.append(Decoded(self.form, operations, sequences, stamps, self.earlier))


def typed(form: TableForm, operations: Operations) -> Operations:
    """`operations` with raw columns that are known to be right, in their physical types."""
    arrow = form.shapes[operations.kind, operations.named is not None].arrow
    columns = [from_raw(column, type_) for column, type_ in zip(operations.columns, arrow, strict=True)]
    return Operations(operations.kind, columns, operations.named)
