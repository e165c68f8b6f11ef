"""Writing the files of one append: rows converted, judged, laid out by part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from viewkeeper.catalog.model import Stream
from viewkeeper.streams.intake.conversion import Conversion, ConvertedRows, Rejects
from viewkeeper.streams.intake.entries import Draft, EnteredFile, rejects
from viewkeeper.streams.intake.files import read_rows, write_rows
from viewkeeper.streams.intake.given import Given
from viewkeeper.trace.disk import STATE, Disk

FILE_ROWS, FILE_BYTES = 1 << 22, 1 << 28
"""What is gathered before it is written: rows of a longer append lie in several files."""


class Writing:
    """Writes the files of one append; `written` are all so far."""

    def __init__(self, disk: Disk, stream: Stream, conversion: Conversion) -> None:
        self.disk, self.stream, self._conversion = disk, stream, conversion
        self.written: list[EnteredFile] = []

    def draft(self, given: Iterable[Given], watermark: int | None) -> Draft:
        """Convert, judge and write rows."""
        files, rejected, gathered = list[EnteredFile](), [rejects([])], list[ConvertedRows]()
        for batch in given:
            good, bad = self._conversion.rows(batch, watermark)
            rejected += _tables(bad)
            gathered.append(good)
            if sum(map(len, gathered)) >= FILE_ROWS or sum(part.bytes for part in gathered) >= FILE_BYTES:
                files += self._write(gathered)
                gathered = []
        return Draft((*files, *self._write(gathered)), pa.concat_tables(rejected))

    def of_columns(self, columns: list[pa.Array], rejected: Rejects, watermark: int | None) -> Draft:
        """Judge and write rows that are converted (physical columns), beside `rejected` ones."""
        good, bad = self._conversion.rows_again(columns, watermark)
        return Draft(tuple(self._write([good])), pa.concat_tables([rejects([]), *_tables([*rejected, *bad])]))

    def again(self, draft: Draft, watermark: int) -> Draft:
        """The draft as it is with a watermark that another append has moved."""
        files, rejected = list[EnteredFile](), [draft.rejected]
        for file in draft.files:
            good, bad = self._conversion.rows_again(read_rows(self.disk, self.stream, file), watermark)
            rejected += _tables(bad)
            files += self._write([good]) if bad else [file]
        return Draft(tuple(files), pa.concat_tables(rejected))

    def delete_except(self, kept: Sequence[EnteredFile]) -> None:
        """Delete what was written, but for `kept`."""
        names = {file.ref.name for file in kept}
        self.disk.delete([f"{STATE}/{file.ref.name}" for file in self.written if file.ref.name not in names])

    def _write(self, gathered: list[ConvertedRows]) -> Iterator[EnteredFile]:
        if any(map(len, gathered)):
            rows = ConvertedRows.concat(gathered)
            file = write_rows(self.disk, self.stream, rows.columns, rows.times)
            self.written.append(file)
            yield file


def _tables(bad: Rejects) -> list[pa.Table]:
    return [rejects(bad)] if bad else []
