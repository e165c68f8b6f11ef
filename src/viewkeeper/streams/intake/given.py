"""What users give as rows of a stream, as batches of columns whose names are found; values are not yet looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeAlias

import pyarrow as pa

from viewkeeper.catalog.model import Stream
from viewkeeper.errors import InputError, RowError
from viewkeeper.files import FileRows
from viewkeeper.stores.columns import from_pandas, is_pandas, plainly_held
from viewkeeper.stores.intake import ColumnNames, by_column, row_mapping

BATCH_ROWS = 1 << 20
ROWS_AT_ONCE = 1 << 16
"""So many rows given as Python objects make a batch."""

Values: TypeAlias = pa.Array | Sequence[Any]


@dataclass(frozen=True)
class Given:
    """`length` rows: the values of the columns at `positions` of the stream; where they stand, if in a file."""

    positions: tuple[int, ...]
    values: tuple[Values, ...]
    length: int
    place: Callable[[int], str] | None = None


@dataclass(frozen=True)
class Pieces:
    """Rows in pieces, as files give them."""

    pieces: Iterable[FileRows]


def batches(stream: Stream, rows: Any) -> Iterator[Given]:
    """`rows` in batches: dicts or tuples (in declared order), Arrow tables, batches and readers of them, a pandas
    DataFrame, what has `toArrow`.  Raises InputError for what is none of these, and for columns that the stream has
    not."""
    reader = _Reader(stream)
    if hasattr(rows, "toArrow"):
        rows = rows.toArrow()
    if isinstance(rows, Pieces):
        return map(reader.file, rows.pieces)
    if isinstance(rows, pa.RecordBatchReader):
        return (given for batch in rows for given in reader.arrow(batch))
    if isinstance(rows, (pa.Table, pa.RecordBatch)):
        return reader.arrow(rows)
    if is_pandas(rows):
        return reader.pandas(rows)
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        raise InputError(f"{stream.name}: append takes a list of dicts or tuples, Arrow, a pandas or a Spark "
                         f"DataFrame, not {type(rows).__name__}")  # fmt: skip
    return reader.objects(rows)


def whole_positions(stream: Stream, names: Iterable[Any]) -> tuple[int, ...]:
    """The columns of a table of rows, which must have those that every row needs; raises InputError."""
    positions = ColumnNames(stream.name, stream.columns).positions(names)
    for i, column in enumerate(stream.columns):
        if i not in positions and (i == stream.time or not column.nullable):
            needed = "it is when a row happened" if i == stream.time else "it is NOT NULL"
            raise InputError(f"{stream.name}: column {column.name} is missing; {needed}")
    return positions


class _Reader:
    def __init__(self, stream: Stream) -> None:
        self._stream, self._names = stream, ColumnNames(stream.name, stream.columns)
        self._number = 0

    def arrow(self, rows: pa.Table | pa.RecordBatch) -> Iterator[Given]:
        positions = whole_positions(self._stream, rows.schema.names)
        found = rows.to_batches(max_chunksize=BATCH_ROWS) if isinstance(rows, pa.Table) else [rows]
        for batch in found:
            yield Given(positions, tuple(map(plainly_held, batch.columns)), len(batch))

    def file(self, rows: FileRows) -> Given:
        if rows.objects is None:
            positions = whole_positions(self._stream, rows.names)
            return Given(positions, tuple(rows.columns), len(rows), rows.place)
        try:
            return replace(self._objects(rows.objects), place=rows.place)
        except RowError as error:
            raise error.at(rows.place(error.row)) from None

    def pandas(self, rows: Any) -> Iterator[Given]:
        positions = whole_positions(self._stream, rows.columns)
        for start in range(0, len(rows), BATCH_ROWS):
            part = rows.iloc[start : start + BATCH_ROWS]
            values = tuple(from_pandas(part.iloc[:, at], self._stream.columns[position].type)
                           for at, position in enumerate(positions))  # fmt: skip
            yield Given(positions, values, len(part))

    def objects(self, rows: Iterable[Any]) -> Iterator[Given]:
        remaining = iter(rows)
        while block := list(islice(remaining, ROWS_AT_ONCE)):
            yield self._objects(block)
            self._number += len(block)

    def _objects(self, rows: list[Any]) -> Given:
        width = len(self._stream.columns)
        everything = tuple(range(width))
        if set(map(type, rows)) == {tuple} and set(map(len, rows)) == {width}:
            return Given(everything, tuple(zip(*rows, strict=True)), len(rows))
        mappings = (self._mapping(row, n) for n, row in enumerate(rows, self._number))
        columns, _ = by_column(mappings, len(rows), width, self._names.positions, self._number)
        return Given(everything, tuple(columns), len(rows))

    def _mapping(self, row: Any, n: int) -> Mapping[str, Any]:
        if type(row) is tuple:
            names = [column.name for column in self._stream.columns]
            if len(row) != len(names):
                raise RowError(f"{self._stream.name}, ", n, f": {len(row)} values; the stream has {len(names)} "
                                                            f"columns: {', '.join(names)}")  # fmt: skip
            return dict(zip(names, row, strict=True))
        named = row._asdict() if isinstance(row, tuple) and hasattr(row, "_asdict") else row
        return row_mapping(named, self._stream.name, n)
