"""Rows of a stream as part files of the state folder (`streams/part_files.py`)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Stream
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.intake.entries import EnteredFile
from viewkeeper.streams.intake.taking import MICROSECONDS
from viewkeeper.streams.part_files import PartWriter, read_part
from viewkeeper.streams.work import Piece
from viewkeeper.trace.disk import STATE, Disk
from viewkeeper.trace.grouping import stable_argsort


def write_rows(disk: Disk, stream: Stream, columns: Sequence[pa.Array], times: np.ndarray) -> EnteredFile:
    """Write rows (physical columns, at least one row) with timestamps `times` (microseconds) to a new file, which is
    durable when this returns."""
    parts = times // (stream.length * MICROSECONDS)
    if (parts[1:] < parts[:-1]).any():
        order = stable_argsort((parts - parts.min()).astype(np.uint64))
        index = pa.array(order)
        parts, columns = parts[order], [column.take(index) for column in columns]
    block = Block(list(columns), np.zeros(len(parts), np.uint64))
    starts = np.flatnonzero(np.append(True, parts[1:] != parts[:-1]))
    rows = np.diff(np.append(starts, len(parts)))
    name = f"append-{stream.id}-{secrets.token_hex(16)}.parquet"
    try:
        writer = PartWriter(disk, name, stream.columns, "UTC", grouped=False)
        for part, start, count in zip(parts[starts].tolist(), starts.tolist(), rows.tolist(), strict=True):
            piece = Block([column.slice(start, count) for column in block.columns], block.hashes[start : start + count])
            writer.add(part, piece)
        ref, _ = writer.finish()
    except BaseException:
        disk.delete([f"{STATE}/{name}"])
        raise
    assert ref is not None, "there is at least one row"
    return EnteredFile(ref, parts[starts], rows, int(times.min()), int(times.max()))


def read_rows(disk: Disk, stream: Stream, file: EnteredFile) -> list[pa.Array]:
    """The rows of a file as physical columns, in the file's order."""
    whole = Piece(file.ref.name, 0, int(file.rows.sum()))
    return read_part(disk, [whole], stream.columns).columns
