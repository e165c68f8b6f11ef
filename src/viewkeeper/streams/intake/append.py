"""`append`: rows into a stream.  One call is one atomic step, however many rows it has."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from viewkeeper.catalog.model import Stream
from viewkeeper.streams.intake.conversion import Conversion, Rejects, Rows
from viewkeeper.streams.intake.entries import Draft, PartFile, rejects
from viewkeeper.streams.intake.files import read_rows, write_rows
from viewkeeper.streams.intake.given import Given, batches
from viewkeeper.streams.intake.log import Appended, Numbered, StreamLog, WatermarkMoved
from viewkeeper.trace.commit import Storage

FILE_ROWS, FILE_BYTES = 1 << 22, 1 << 28
"""What is gathered before it is written: rows of a longer append lie in several files."""


def append(
    root: str | Path, storage: Storage, stream: Stream, rows: Any, zone: str, id: str | Numbered | None = None, *,
    now: float | None = None,
) -> Appended:  # fmt: skip
    """Store the good rows of `rows` (see `given.batches`), reject the bad ones; durable when it returns.

    All of it, or after a crash nothing.  Rows of one call are never late against each other, and a reader of record
    batches, or an iterator, is one call, whatever its length.  With an `id` that has been used for the stream before,
    nothing is stored: what the first call did is returned.  `now` is the wall time (seconds).

    Raises InputError, with nothing stored, for what are no rows and for columns that the stream has not.
    """
    with StreamLog(root) as log:
        if (known := log.known(stream.id, id)) is not None:
            return known
        now = time.time() if now is None else now
        writing = Writing(storage, stream, Conversion(stream, zone, now))
        watermark = log.watermark(stream.id)
        try:
            if _is_spark_frame(rows):
                from viewkeeper.streams.spark.frames import write_frame

                draft = write_frame(writing, zone, now, rows, watermark)
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
) -> tuple[Appended, Sequence[PartFile]]:
    """What the append did, and the files that the log names for it."""
    while True:
        try:
            appended = log.append(stream, draft, id_, now)
            return appended, () if appended.duplicate else draft.files
        except WatermarkMoved as moved:
            draft = writing.again(draft, moved.watermark)


class Writing:
    """Writes the files of one append; `written` are all so far."""

    def __init__(self, storage: Storage, stream: Stream, conversion: Conversion) -> None:
        self.storage, self.stream, self._conversion = storage, stream, conversion
        self.written: list[PartFile] = []

    def draft(self, given: Iterable[Given], watermark: int | None) -> Draft:
        """Convert, judge and write rows."""
        files, rejected, gathered = list[PartFile](), [rejects([])], list[Rows]()
        for batch in given:
            good, bad = self._conversion.rows(batch, watermark)
            rejected += _tables(bad)
            gathered.append(good)
            if sum(map(len, gathered)) >= FILE_ROWS or sum(part.bytes for part in gathered) >= FILE_BYTES:
                files += self._write(gathered)
                gathered = []
        return Draft((*files, *self._write(gathered)), pa.concat_tables(rejected))

    def again(self, draft: Draft, watermark: int) -> Draft:
        """The draft as it is with a watermark that another append has moved."""
        files, rejected = list[PartFile](), [draft.rejected]
        for file in draft.files:
            good, bad = self._conversion.rows_again(read_rows(self.storage, self.stream, file), watermark)
            rejected += _tables(bad)
            files += self._write([good]) if bad else [file]
        return Draft(tuple(files), pa.concat_tables(rejected))

    def delete_except(self, kept: Sequence[PartFile]) -> None:
        """Delete what was written, but for `kept`."""
        names = {file.ref.name for file in kept}
        for file in self.written:
            if file.ref.name not in names:
                (self.storage.state / file.ref.name).unlink(missing_ok=True)

    def _write(self, gathered: list[Rows]) -> Iterator[PartFile]:
        if any(map(len, gathered)):
            rows = Rows.concat(gathered)
            file = write_rows(self.storage, self.stream, rows.columns, rows.times)
            self.written.append(file)
            yield file


def _tables(bad: Rejects) -> list[pa.Table]:
    return [rejects(bad)] if bad else []
