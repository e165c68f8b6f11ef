"""Rows of a Spark DataFrame into a stream: the tasks that have them write the files, the driver enters them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from viewkeeper.catalog.model import Stream
from viewkeeper.streams.intake.conversion import Conversion
from viewkeeper.streams.intake.entries import REJECTS, Append, Draft, EnteredFile, decode, encode_append, rejects_bytes
from viewkeeper.streams.intake.given import batches, whole_positions
from viewkeeper.streams.intake.writing import Writing
from viewkeeper.trace.disk import Disk

_ENTRY = pa.schema([pa.field("entry", pa.binary())])


def write_frame(writing: Writing, zone: str, now: float, frame: Any, watermark: int | None) -> Draft:
    """Write the rows of `frame` in its tasks, of which there are at most as many as cores.

    Files of tasks that Spark ran twice, or that failed, are in no draft: they are swept up later.
    """
    whole_positions(writing.stream, frame.columns)
    context = frame.sparkSession.sparkContext
    if (context.master or "").startswith("local"):
        # Else workers run whatever python3 is on the PATH, which need not know viewkeeper.
        context.pythonExec = sys.executable
    task = _task(writing.disk, writing.stream, zone, now, watermark)
    files, rejected = list[EnteredFile](), [REJECTS.empty_table()]
    for row in frame.coalesce(context.defaultParallelism).mapInArrow(task, "entry binary").collect():
        entry, _ = decode(bytes(row.entry), 0, "what a task wrote")
        assert isinstance(entry, Append)
        files += entry.files
        rejected.append(entry.rejected)
    writing.written += files
    return Draft(tuple(files), pa.concat_tables(rejected))


def _task(
    disk: Disk, stream: Stream, zone: str, now: float, watermark: int | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writing = Writing(disk, stream, Conversion(stream, zone, now))
        draft = writing.draft((given for batch in rows for given in batches(stream, batch)), watermark)
        entry = encode_append(draft, 0, rejects_bytes(draft.rejected))
        yield pa.RecordBatch.from_arrays([pa.array([entry], pa.binary())], schema=_ENTRY)

    return write
