"""`append`: rows into a stream.  One call is one atomic step, however many rows it has."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from viewkeeper.catalog.model import Stream
from viewkeeper.streams.intake.conversion import Conversion, Rejects, Rows
from viewkeeper.streams.intake.entries import Draft, PartFile, rejects
from viewkeeper.streams.intake.files import read_rows, write_rows
from viewkeeper.streams.intake.given import batches
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
        return Appending(log, storage, stream, zone, time.time() if now is None else now).append(rows, id)


class Appending:
    """One append: its files are deleted again where it comes to nothing."""

    def __init__(self, log: StreamLog, storage: Storage, stream: Stream, zone: str, now: float) -> None:
        self._log, self._storage, self._stream, self._now = log, storage, stream, now
        self._conversion = Conversion(stream, zone, now)
        self._written: list[PartFile] = []

    def append(self, rows: Any, id_: str | Numbered | None) -> Appended:
        """Do it."""
        try:
            return self._enter(self._draft(rows), id_)
        except BaseException:
            self._delete(self._written)
            raise

    def _draft(self, rows: Any) -> Draft:
        watermark = self._log.watermark(self._stream.id)
        files, rejected, gathered = list[PartFile](), Tables(), list[Rows]()
        for given in batches(self._stream, rows):
            good, bad = self._conversion.rows(given, watermark)
            rejected.add(bad)
            gathered.append(good)
            if sum(map(len, gathered)) >= FILE_ROWS or sum(part.bytes for part in gathered) >= FILE_BYTES:
                files += self._write(gathered)
                gathered = []
        return Draft((*files, *self._write(gathered)), rejected.whole())

    def _enter(self, draft: Draft, id_: str | Numbered | None) -> Appended:
        while True:
            try:
                appended = self._log.append(self._stream, draft, id_, self._now)
            except WatermarkMoved as moved:
                draft = self._again(draft, moved.watermark)
                continue
            if appended.duplicate:
                self._delete(self._written)
            else:
                kept = {file.ref.name for file in draft.files}
                self._delete([file for file in self._written if file.ref.name not in kept])
            return appended

    def _again(self, draft: Draft, watermark: int) -> Draft:
        """The draft as it is with a watermark that another append has moved."""
        files, rejected = list[PartFile](), Tables([draft.rejected])
        for file in draft.files:
            columns = read_rows(self._storage, self._stream, file)
            good, bad = self._conversion.rows_again(columns, watermark)
            rejected.add(bad)
            files += self._write([good]) if bad else [file]
        return Draft(tuple(files), rejected.whole())

    def _write(self, gathered: list[Rows]) -> Iterator[PartFile]:
        if any(map(len, gathered)):
            rows = Rows.concat(gathered)
            file = write_rows(self._storage, self._stream, rows.columns, rows.times)
            self._written.append(file)
            yield file

    def _delete(self, files: list[PartFile]) -> None:
        for file in files:
            with suppress(FileNotFoundError):
                (self._storage.state / file.ref.name).unlink()


class Tables:
    """Rejected rows, gathered as Arrow tables."""

    def __init__(self, tables: list[pa.Table] | None = None) -> None:
        self._tables = [rejects([]), *(tables or [])]

    def add(self, rows: Rejects) -> None:
        """More of them."""
        if rows:
            self._tables.append(rejects(rows))

    def whole(self) -> pa.Table:
        """All."""
        return pa.concat_tables(self._tables)
