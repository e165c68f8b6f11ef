"""Rows in files, for `load`: Parquet, CSV, JSON lines and Arrow, one record batch after another."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.errors import InputError

FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json",
           ".arrow": "ipc", ".ipc": "ipc", ".feather": "ipc"}  # fmt: skip
BATCH_ROWS = 64 * 1024


Rows: TypeAlias = pa.RecordBatch | list[dict[str, Any]]


def read_batches(file: Path, types: Mapping[str, pa.DataType]) -> Iterator[Rows]:
    """The rows of `file`, whose format its suffix names, in batches of at most 65,536; raises InputError.

    `types` are those that columns are declared with, by name in small letters: what the text of a CSV file means is not
    guessed.  Rows with values that are not of these types, and of JSON lines whose types change, come as dicts of what
    stands there.
    """
    # Imported when used: it brings pandas with it, which takes as long as everything else together.
    from pyarrow import dataset

    format_ = FORMATS.get(file.suffix.lower())
    if format_ is None:
        raise InputError(f"{file}: cannot tell the format by the suffix {file.suffix!r}; known: {', '.join(FORMATS)}")
    if not file.exists():
        raise InputError(f"{file}: there is no such file")
    rows = 0
    try:
        if format_ == "csv":
            yield from _csv(file, types)
        else:
            for batch in dataset.dataset(file, format=format_).to_batches(batch_size=BATCH_ROWS):
                yield batch
                rows += len(batch)
    except pa.ArrowInvalid as error:
        if format_ != "json":
            raise InputError(f"{file} cannot be read as {format_}: {error}") from error
        yield from _json_lines(file, rows)


def _csv(file: Path, types: Mapping[str, pa.DataType]) -> Iterator[Rows]:
    from pyarrow import csv, dataset

    # An empty field is NULL, and quoted it is the empty string.
    empty = {"strings_can_be_null": True, "quoted_strings_can_be_null": False}
    guessed = dataset.dataset(file, format=dataset.CsvFileFormat(convert_options=csv.ConvertOptions(**empty)))
    known = {name: types[name.lower()] for name in guessed.schema.names if name.lower() in types}
    told = {name: type_ for name, type_ in known.items() if _is_told(type_)}
    options = csv.ConvertOptions(column_types=dict.fromkeys(told, pa.string()), **empty)
    for batch in dataset.dataset(file, format=dataset.CsvFileFormat(convert_options=options)).to_batches(
        batch_size=BATCH_ROWS
    ):
        yield from _typed(batch, told)


def _is_told(type_: pa.DataType) -> bool:
    """Whether a type is taken as declared; times and dates are guessed well, and else converted from text later."""
    tests = (pa.types.is_string, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return any(test(type_) for test in tests)


def _typed(batch: pa.RecordBatch, types: Mapping[str, pa.DataType]) -> Iterator[Rows]:
    """A batch of texts in the declared types, and apart the rows of which some text is none."""
    columns, good = dict(zip(batch.schema.names, batch.columns, strict=True)), None
    for name, type_ in types.items():
        try:
            columns[name] = columns[name].cast(type_)
        except pa.ArrowInvalid:
            fits = pa.array([_fits(value, type_) for value in columns[name]])
            good = fits if good is None else pc.and_(good, fits)
    if good is None:
        yield pa.RecordBatch.from_pydict(columns)
        return
    kept = {name: column.filter(good) for name, column in columns.items()}
    yield pa.RecordBatch.from_pydict({name: kept[name].cast(types.get(name, kept[name].type)) for name in kept})
    yield pa.RecordBatch.from_pydict({name: column.filter(pc.invert(good)) for name, column in columns.items()}
                                     ).to_pylist()  # fmt: skip


def _fits(value: pa.Scalar, type_: pa.DataType) -> bool:
    try:
        value.cast(type_)
    except pa.ArrowInvalid:
        return False
    return True


def _json_lines(file: Path, skipped: int) -> Iterator[Rows]:
    """The lines behind the first `skipped` rows, each as it stands."""
    rows: list[dict[str, Any]] = []
    with file.open() as lines:
        for number, line in enumerate((line for line in lines if line.strip()), 1):
            if number > skipped:
                try:
                    row = json.loads(line)
                except ValueError as error:
                    raise InputError(f"{file} cannot be read as json: row {number}: {error}") from error
                if not isinstance(row, dict):
                    raise InputError(f"{file} cannot be read as json: row {number} is no object")
                rows.append(row)
            if len(rows) == BATCH_ROWS:
                yield rows
                rows = []
    if rows:
        yield rows
