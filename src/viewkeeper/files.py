"""Rows in files, for `load`: Parquet, CSV, JSON lines and Arrow, one record batch after another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset

from viewkeeper.errors import InputError

FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json",
           ".arrow": "ipc", ".ipc": "ipc", ".feather": "ipc"}  # fmt: skip
BATCH_ROWS = 64 * 1024


def read_batches(file: Path) -> Iterator[pa.RecordBatch]:
    """The rows of `file`, whose format its suffix names, in batches of at most 65,536; raises InputError."""
    format_ = FORMATS.get(file.suffix.lower())
    if format_ is None:
        raise InputError(
            f"{file}: cannot tell the format by the suffix {file.suffix!r}; known are {', '.join(FORMATS)}"
        )
    if not file.exists():
        raise InputError(f"{file}: there is no such file")
    try:
        yield from pa.dataset.dataset(file, format=_reader(format_)).to_batches(batch_size=BATCH_ROWS)
    except pa.ArrowInvalid as error:
        raise InputError(f"{file} cannot be read as {format_}: {error}") from error


def _reader(format_: str) -> str | pa.dataset.FileFormat:
    if format_ != "csv":
        return format_
    # An empty field of a CSV file is NULL, and quoted it is the empty string.
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    return pa.dataset.CsvFileFormat(convert_options=options)
