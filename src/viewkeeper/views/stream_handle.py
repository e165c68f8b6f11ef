"""A stream to write: append, seal, follow, load; and its rows that are not sealed yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.arrow_tables import logical_table
from viewkeeper.catalog.model import Stream
from viewkeeper.catalog.types import logical_type
from viewkeeper.errors import Error, InputError, NotFound
from viewkeeper.files import read_rows as rows_of_file
from viewkeeper.stores.outside.outside_kinds import source_note
from viewkeeper.streams.blocks import Block
from viewkeeper.streams.intake.append import StreamTarget, append
from viewkeeper.streams.intake.entries import Append
from viewkeeper.streams.intake.files import read_rows
from viewkeeper.streams.intake.given import Pieces
from viewkeeper.streams.intake.stream_environment import Appended
from viewkeeper.streams.intake.stream_log import StreamLog
from viewkeeper.streams.progress import StreamProgress
from viewkeeper.streams.spark.follow import StreamFollow, follow
from viewkeeper.trace.commit import Storage
from viewkeeper.views.python_rows import data_frame, dicts
from viewkeeper.views.spark_frames import SparkFrames
from viewkeeper.views.stream_reader import PartsReader, whole
from viewkeeper.views.version import Version
from viewkeeper.views.version_sources import Versions

ENTRIES_AT_ONCE = 1_000


class OpenRows:
    """Rows of a stream that were stored, and that no sealed part shows yet."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __len__(self) -> int:
        return self._table.num_rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.rows()

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows as dicts."""
        return dicts(self._table)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self._table

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame."""
        return data_frame(self._table)


class StreamHandle(PartsReader):
    """What `db.stream(name)` gives.  Views over streams are read with it, too; only streams are written."""

    def __init__(self, storage: Storage, source: Versions, name: str, frames: SparkFrames) -> None:
        super().__init__(source, name, frames)
        self._storage = storage

    def append(self, rows: Any, id: str | None = None) -> Appended:
        """Stores the good rows of `rows` in one step, rejects the others, and says how many of each.

        `rows` are dicts or tuples, an Arrow table, batch or reader, a pandas or a Spark DataFrame.  Rows of one call
        are never late against each other.  An `id` that was used before stores nothing: what the first call did is
        returned.  Raises InputError, with nothing stored, for what are no rows.
        """
        return append(self._target(), rows, id)

    def seal(self, part: int) -> None:
        """Seals all parts up to and including `part`, whatever has come: rows for them are late from now on."""
        part = whole(part, f"{self.name} is sealed up to a subscript, which is an int")
        with StreamLog(self._storage.root, self._storage.disk) as log:
            log.seal(self._stream(), part)

    def follow(self, df: Any, *, name: str, trigger: dict[str, Any] | None = None) -> Any:
        """Appends what a Spark streaming DataFrame gives, each row once, until `.stop()` of what is returned.

        What was taken is remembered in the database under `name`: the next follow of that name goes on from there.
        `trigger` are the arguments of Spark's `DataStreamWriter.trigger`.  Raises Busy while another follow of the name
        is live.
        """
        return follow(StreamFollow(self._target()), df, name, trigger=trigger)

    def load(self, *files: str | Path, id: str | None = None, null: str | None = None) -> Iterator[Appended]:
        """Appends the rows of Parquet, CSV, Arrow or JSON-lines files, each file in one step.

        Yields what was stored and rejected of each file: iterate, or nothing is.  With an `id`, a file (by its absolute
        path) that was loaded under it before is not stored again.  What stands in a file is read as the columns are
        declared; in CSV, an empty field without quotes is NULL, or one that is `null`.
        """
        for file in map(Path, files):
            types = {column.name.lower(): logical_type(column.type) for column in self._stream().columns}
            yield self.append(Pieces(rows_of_file(file, types, null)), self._file_id(id, file))

    def open(self) -> OpenRows:
        """The rows that were stored and that no version shows: of parts that are not sealed yet, and what waits in the
        log for whoever maintains."""
        stream, blocks = self._stream(), None
        while blocks is None:
            with self._source.held() as version:
                blocks = self._unseen(stream, version)
        whole = Block.concat(blocks) if blocks else Block.empty(stream.columns)
        return OpenRows(logical_table(stream.columns, whole.columns, self._zone))

    def _unseen(self, stream: Stream, version: Version) -> list[Block] | None:
        """What `version` does not show; None where entries that it has not taken are in a newer one by now, and gone
        from the log."""
        parts = version.parts_of(stream)
        position = StreamProgress.from_dict(version.snapshot.progress.get(stream.id)).position
        blocks = [parts.rows([part])[0] for part in parts.open()]
        with StreamLog(self._storage.root, self._storage.disk) as log:
            try:
                for entry in _entries(log, stream, position):
                    for file in entry.files:
                        columns = read_rows(self._storage.disk, stream, file)
                        blocks.append(Block(columns, np.zeros(len(columns[0]), dtype=np.uint64)))
            except Error:
                newest = self._storage.newest().progress.get(stream.id)
                if StreamProgress.from_dict(newest).position == position:
                    raise
                return None
        return blocks

    @staticmethod
    def _file_id(id_: str | None, file: Path) -> str | None:
        return None if id_ is None else f"{id_}/{file.resolve()}"

    @property
    def _zone(self) -> str:
        return self._source.version().catalog.zone

    def _target(self) -> StreamTarget:
        stream = self._stream()
        if stream.outside is not None:
            raise InputError(
                f"{stream.name}: its rows come {source_note(stream.outside)}: let who has some write there"
            )
        return StreamTarget(self._storage, stream, self._zone)

    def _stream(self) -> Stream:
        found = self._source.version().catalog.find(self.name)
        if not isinstance(found, Stream):
            said = f"{self.name!r} is a view over streams, kept by viewkeeper" if found else f"{self.name!r} is gone"
            raise NotFound(f"{said}; only streams are written: SHOW STREAMS lists them")
        return found


def _entries(log: StreamLog, stream: Stream, position: int) -> Iterator[Append]:
    """The appends behind `position` in the log."""
    while entries := log.entries(stream.id, position, ENTRIES_AT_ONCE):
        position = entries[-1].sequence
        yield from (entry for entry in entries if isinstance(entry, Append))
