"""Rows in files, for `load`: Parquet, CSV, JSON lines and Arrow, one batch after another, in the file's order.

What stands in a file is handed on as it stands there (`FileRows`); what it means, its column's declared type says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.errors import InputError

FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json",
           ".arrow": "ipc", ".ipc": "ipc", ".feather": "ipc"}  # fmt: skip
BATCH_ROWS = 64 * 1024
_CSV_BLOCK_BYTES = 1 << 24
"""A row of a CSV file may be as long."""
_CSV_ROW = re.compile(r"Row #(\d+)")


@dataclass(frozen=True, slots=True)
class Number:
    """A number in JSON with a point or an exponent, as it stands there: a column's type says how it is read."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Texts(Sequence["str | None"]):
    """A column of texts (string) that stand for values of their column's type."""

    array: pa.Array

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, at: int) -> str | None: ...
    @overload
    def __getitem__(self, at: slice) -> Texts: ...
    def __getitem__(self, at: int | slice) -> str | None | Texts:
        found = self.array[at]
        return Texts(found) if isinstance(at, slice) else found.as_py()


@dataclass(frozen=True)
class FileRows:
    """Some rows of a file: either `columns` called `names`, or `objects`.

    `numbers` are their places in the file, counted from 1 in `unit`s: rows of data, or lines.
    """

    file: Path
    unit: str
    numbers: Sequence[int]
    names: Sequence[str] = ()
    columns: Sequence[pa.Array | Texts] = ()
    objects: list[dict[str, Any]] | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def place(self, row: int) -> str:
        """Where row `row` of these stands, for messages."""
        return f"{self.file}, {self.unit} {self.numbers[row]}"


def read_rows(file: Path, types: Mapping[str, pa.DataType], null: str | None = None) -> Iterator[FileRows]:
    """The rows of `file`, whose format its suffix names, in batches of about 65,536; raises InputError.

    `types` are the logical types of the declared columns, by name in small letters.  In CSV files an empty field
    without quotes is NULL, or with `null` a field without quotes that says so.
    """
    format_ = FORMATS.get(file.suffix.lower())
    if format_ is None:
        raise InputError(f"{file}: cannot tell the format by the suffix {file.suffix!r}; known: {', '.join(FORMATS)}")
    if not file.exists():
        raise InputError(f"{file}: there is no such file")
    if null is not None and format_ != "csv":
        raise InputError(f"{file}: what stands for NULL can be said of CSV files only")
    try:
        if format_ == "csv":
            yield from _csv(file, "" if null is None else null)
        elif format_ == "json":
            yield from _json_lines(file, types)
        else:
            yield from _arrow(file, format_, types)
    except pa.ArrowInvalid as error:
        # Arrow counts the header as a row.
        reason = _CSV_ROW.sub(lambda match: f"row {int(match[1]) - 1}", str(error)) if format_ == "csv" else error
        raise InputError(f"{file} cannot be read as {format_}: {reason}") from error


def _csv(file: Path, null: str) -> Iterator[FileRows]:
    from pyarrow import csv

    reading = csv.ReadOptions(block_size=_CSV_BLOCK_BYTES, use_threads=False)  # else errors do not say the row
    with csv.open_csv(file, reading, csv.ParseOptions(newlines_in_values=True)) as reader:
        try:
            names = reader.schema.names
        except UnicodeDecodeError as error:
            reason = f"its first line, the names of the columns, is not text in UTF-8: {error}"
            raise InputError(f"{file}: {reason}") from error
    # A blank line is a row only where it is an empty field.
    parsing = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(names) > 1)
    converting = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.binary()), null_values=[null], strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )  # fmt: skip
    read, size = 0, file.stat().st_size
    with csv.open_csv(file, reading, parsing, converting) as reader:
        for block in reader:
            for start in range(0, len(block), BATCH_ROWS):
                batch = block.slice(start, BATCH_ROWS)
                numbers = range(read + 1, read + 1 + len(batch))
                if len(batch) and _ends_in_quotes(file, size, batch.columns[-1][-1].as_py()):
                    raise InputError(f"{file}, row {numbers[-1]}: the file ends inside quotes, which row {numbers[-1]} "
                                     "opens: it was cut off, or a quote is missing")  # fmt: skip
                columns = [_texts(file, column, numbers) for column in batch.columns]
                yield FileRows(file, "row", numbers, names, columns)
                read += len(batch)


def _ends_in_quotes(file: Path, size: int, last: bytes | None) -> bool:
    """Whether a file ends with its last field `last`, in quotes that are not closed: Arrow takes the end for the
    closing one, and all rows before it for that field."""
    open_ = b'"' + (last or b"").replace(b'"', b'""')
    with file.open("rb") as raw:
        raw.seek(max(0, size - len(open_) - 1))
        end = raw.read(len(open_) + 1)
    return end.endswith(open_) and end[: -len(open_)] in (b"", b",", b"\n", b"\r")


def _texts(file: Path, column: pa.Array, numbers: Sequence[int]) -> pa.Array | Texts:
    try:
        return Texts(column.cast(pa.string()))
    except pa.ArrowInvalid:
        for number, value in zip(numbers, column.to_pylist(), strict=True):
            try:
                (value or b"").decode()
            except UnicodeDecodeError as error:
                raise InputError(f"{file}, row {number} is not text in UTF-8: {error}") from error
        raise


def _json_lines(file: Path, types: Mapping[str, pa.DataType]) -> Iterator[FileRows]:
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    read = 0
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            read += 1
            try:
                row = json_object(line, types)
            except ValueError as error:
                place = f"row {read}" + (f" (line {number})" if number != read else "")
                raise InputError(f"{file} cannot be read as json: {place}: {error}") from error
            rows.append(row)
            numbers.append(number)
            if len(rows) == BATCH_ROWS:
                yield FileRows(file, "line", numbers, objects=rows)
                rows, numbers = [], []
    if rows:
        yield FileRows(file, "line", numbers, objects=rows)


def json_object(text: str | bytes, types: Mapping[str, pa.DataType]) -> dict[str, Any]:
    """A row as JSON has it: numbers with a point or exponent are `Number`, BINARY is written in hexadecimal digits.

    Raises ValueError where it is no object.
    """
    try:
        row = json.loads(text, parse_float=Number)
    except RecursionError:
        raise ValueError("its arrays or objects are nested too deep") from None
    if not isinstance(row, dict):
        raise ValueError(f"it is no object: {row!r}")
    if pa.binary() in types.values():
        for name, value in row.items():
            if isinstance(value, str) and types.get(name.lower()) == pa.binary():
                row[name] = binary(value)
    return row


def binary(text: str) -> bytes | str:
    """The bytes that hexadecimal digits stand for; a text that has others is left as it is."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return text


def _arrow(file: Path, format_: str, types: Mapping[str, pa.DataType]) -> Iterator[FileRows]:
    # Imported when used: it brings pandas with it, which takes as long as everything else together.
    from pyarrow import dataset

    moments: set[str] = set()
    form: Any = format_
    if format_ == "parquet":
        # Arrow would read INT96 in nanoseconds, which end in 2262.
        form = dataset.ParquetFileFormat(read_options={"coerce_int96_timestamp_unit": "us"})
        moments = _int96(file, types)
    read = 0
    source = dataset.dataset(file, format=form)
    by_pandas, index = _pandas(source.schema, types)
    for batch in source.to_batches(batch_size=BATCH_ROWS):
        named = {name: column for name, column in zip(batch.schema.names, batch.columns, strict=True)
                 if name not in index}  # fmt: skip
        named.update({name: _in_utc(named[name]) for name in moments & named.keys()})
        if by_pandas:
            named = {name: _whole(column, types.get(name.lower())) for name, column in named.items()}
        yield FileRows(file, "row", range(read + 1, read + 1 + len(batch)), list(named), list(named.values()))
        read += len(batch)


def _pandas(schema: pa.Schema, types: Mapping[str, pa.DataType]) -> tuple[bool, set[str]]:
    """Whether pandas wrote a file, and the columns in which it keeps a frame's index, if none such is declared."""
    said = schema.pandas_metadata
    if said is None:
        return False, set()
    names = {name for name in said.get("index_columns", ()) if isinstance(name, str)}
    return True, {name for name in names if name.lower() not in types}


def _whole(column: pa.Array, type_: pa.DataType | None) -> pa.Array:
    """Integers again, where pandas holds them as floats since some are missing (NaN)."""
    if type_ is None or not pa.types.is_integer(type_) or not pa.types.is_floating(column.type):
        return column
    try:
        return pc.if_else(pc.is_nan(column), None, column).cast(pa.int64())
    except pa.ArrowInvalid:
        return column


def _int96(file: Path, types: Mapping[str, pa.DataType]) -> set[str]:
    """The columns in INT96, which are moments where a TIMESTAMP is declared: Spark writes those so."""
    from pyarrow import parquet

    schema = parquet.read_metadata(file).schema
    return {column.path for column in map(schema.column, range(len(schema))) if column.physical_type == "INT96"
            and getattr(types.get(column.path.lower()), "tz", None) is not None}  # fmt: skip


def _in_utc(column: pa.Array) -> pa.Array:
    return pc.assume_timezone(column, "UTC") if column.type.tz is None else column
