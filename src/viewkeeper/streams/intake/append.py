"""`append`: rows into a stream.  One call is one atomic step, however many rows it has."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from viewkeeper.catalog.model import Stream
from viewkeeper.streams.intake.conversion import Conversion
from viewkeeper.streams.intake.entries import Draft, EnteredFile
from viewkeeper.streams.intake.given import batches
from viewkeeper.streams.intake.stream_environment import Appended, AppendId, Numbered
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
    storage, stream, when = target.storage, target.stream, time.time() if now is None else now

    def made(writing: Writing, watermark: int | None) -> Draft:
        if _is_spark_frame(rows):
            return write_frame(writing, target.zone, when, rows, watermark)
        return writing.draft(batches(stream, rows), watermark)

    with StreamLog(storage.root, storage.disk) as log:
        known = log.known(stream.id, id)
        return stored(log, target, id, when, made) if known is None else known


def stored(
    log: StreamLog, target: StreamTarget, id_: AppendId, now: float, make: Callable[[Writing, int | None], Draft]
) -> Appended:
    """Stores what `make` writes, by a watermark, in one step; what that did."""
    stream = target.stream
    writing = Writing(target.storage.disk, stream, Conversion(stream, target.zone, now))
    try:
        draft = make(writing, log.watermark(stream.id))
        appended, kept = _enter(log, stream, writing, draft, id_, now)
    except BaseException:
        writing.delete_except(())
        raise
    writing.delete_except(kept)
    return appended


def _is_spark_frame(rows: Any) -> bool:
    """Whether rows are of a Spark session whose workers see the database's folder; others come by `toArrow`."""
    return hasattr(rows, "mapInArrow") and not type(rows).__module__.startswith("pyspark.sql.connect")


def _enter(
    log: StreamLog, stream: Stream, writing: Writing, draft: Draft, id_: AppendId, now: float
) -> tuple[Appended, Sequence[EnteredFile]]:
    """What the append did, and the files that the log names for it."""
    while True:
        try:
            appended = log.append(stream, draft, id_, now)
            return appended, () if appended.duplicate else draft.files
        except WatermarkMoved as moved:
            draft = writing.again(draft, moved.watermark)
