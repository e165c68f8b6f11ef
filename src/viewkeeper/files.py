"""Rows in files, for `load`: Parquet, CSV, JSON lines and Arrow, one record batch after another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from viewkeeper.errors import InputError

FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json",
           ".arrow": "ipc", ".ipc": "ipc", ".feather": "ipc"}  # fmt: skip
BATCH_ROWS = 64 * 1024


def read_batches(file: Path) -> Iterator[pa.RecordBatch]:
    """The rows of `file`, whose format its suffix names, in batches of at most 65,536; raises InputError."""
    # Imported when used: it brings pandas with it, which takes as long as everything else together.
    from pyarrow import csv, dataset

    format_ = FORMATS.get(file.suffix.lower())
    if format_ is None:
        raise InputError(f"{file}: cannot tell the format by the suffix {file.suffix!r}; known: {', '.join(FORMATS)}")
    if not file.exists():
        raise InputError(f"{file}: there is no such file")
    # An empty field of a CSV file is NULL, and quoted it is the empty string.
    empty = csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    reader = dataset.CsvFileFormat(convert_options=empty) if format_ == "csv" else format_
    try:
        yield from dataset.dataset(file, format=reader).to_batches(batch_size=BATCH_ROWS)
    except pa.ArrowInvalid as error:
        raise InputError(f"{file} cannot be read as {format_}: {error}") from error
