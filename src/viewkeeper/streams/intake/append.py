"""`append`: rows into a stream.  One call is one atomic step, however many rows it has."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from viewkeeper.catalog.model import Stream
from viewkeeper.streams.intake.conversion import Conversion
from viewkeeper.streams.intake.entries import Draft, EnteredFile
from viewkeeper.streams.intake.given import batches
from viewkeeper.streams.intake.stream_environment import Appended, Numbered
from viewkeeper.streams.intake.stream_log import StreamLog, WatermarkMoved
from viewkeeper.streams.intake.writing import Writing
from viewkeeper.streams.spark.frames import write_frame
from viewkeeper.trace.commit import Storage


@dataclass(frozen=True)
class StreamTarget:
    """A stream to write, of the database `storage`; naive times are in `zone`."""

    storage: Storage
    stream: Stream
    zone: str


def append(target: StreamTarget, rows: Any, id: str | Numbered | None = None, *, now: float | None = None) -> Appended:
    """Store the good rows of `rows` (see `given.batches`), reject the bad ones; durable when it returns.

    All of it, or after a crash nothing.  Rows of one call are never late against each other, and a reader of record
    batches, or an iterator, is one call, whatever its length.  With an `id` that has been used for the stream before,
    nothing is stored: what the first call did is returned.  `now` is the wall time (seconds).

    Raises InputError, with nothing stored, for what are no rows and for columns that the stream has not.
    """
    storage, stream = target.storage, target.stream
    with StreamLog(storage.root, storage.disk) as log:
        if (known := log.known(stream.id, id)) is not None:
            return known
        now = time.time() if now is None else now
        writing = Writing(storage.disk, stream, Conversion(stream, target.zone, now))
        watermark = log.watermark(stream.id)
        try:
            if _is_spark_frame(rows):
                draft = write_frame(writing, target.zone, now, rows, watermark)
            else:
                draft = writing.draft(batches(stream, rows), watermark)
            appended, kept = _enter(log, stream, writing, draft, id, now)
        except BaseException:
            writing.delete_except(())
            raise
        writing.delete_except(kept)
        return appended


def _is_spark_frame(rows: Any) -> bool:
    """Whether rows are of a Spark session whose workers see the database's folder; others come by `toArrow`."""
    return hasattr(rows, "mapInArrow") and not type(rows).__module__.startswith("pyspark.sql.connect")


def _enter(
    log: StreamLog, stream: Stream, writing: Writing, draft: Draft, id_: str | Numbered | None, now: float
) -> tuple[Appended, Sequence[EnteredFile]]:
    """What the append did, and the files that the log names for it."""
    while True:
        try:
            appended = log.append(stream, draft, id_, now)
            return appended, () if appended.duplicate else draft.files
        except WatermarkMoved as moved:
            draft = writing.again(draft, moved.watermark)
