"""Parts as Spark DataFrames: few rows are handed over, of many Spark reads the files.

A file may hold rows besides those that are wanted: pieces of other parts, and dead ones.  Where it does, its rows are
taken by their numbers, exactly; the condition on `__part` beside that is for Spark to skip row groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import BIGINT, logical_type
from viewkeeper.compiler.namespace import PART_TIMESTAMP
from viewkeeper.compiler.part_references import quoted
from viewkeeper.spark.asking import ask
from viewkeeper.spark.tables import local
from viewkeeper.spark.types import schema
from viewkeeper.streams.part_files import PART, to_table
from viewkeeper.streams.spark.failures import failures, raise_unless_of_query
from viewkeeper.streams.spark.hidden import Condition
from viewkeeper.streams.spark.sessions import SMALL_ROWS
from viewkeeper.streams.work import Piece
from viewkeeper.trace.disk import STATE, Disk

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

PartPieces = Mapping[int, tuple[Piece, ...]]
"""The pieces of each part that is read."""

_PARTS = "__viewkeeper_parts"
_OPTIONS = {
    "datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED",
    # Spark's reader takes sound LZ4 dictionary pages of more than 8 KiB for malformed when it filters by them.
    "parquet.filter.dictionary.enabled": "false",
}  # fmt: skip


def rows_of(pieces: PartPieces) -> int:
    """How many rows the pieces have together."""
    return sum(piece.rows for each in pieces.values() for piece in each)


def frame(
    session: SparkSession,
    disk: Disk,
    columns: Sequence[Column],
    pieces: PartPieces,
    zone: str,
    length: int | None = None,
    part_timestamp: str | None = None,
) -> DataFrame:
    """The rows of parts; `part_timestamp` is the name of a last column with the part's start, for which `length`
    (seconds) is needed.

    Up to SMALL_ROWS rows are read at once and go with the DataFrame, as one partition.  More are read from the files
    whenever the DataFrame is: whoever holds it has to hold the files.
    """
    if part_timestamp is not None and length is None:
        raise ValueError("a part begins at its subscript times its length")
    if rows_of(pieces) <= SMALL_ROWS:
        table = _table(disk, columns, pieces, zone, length, part_timestamp)
        shape = columns if part_timestamp is None else (*columns, Column(part_timestamp, PART_TIMESTAMP.type, False))
        return local(session, table, schema(shape)).coalesce(1)
    return _from_files(session, disk, columns, pieces, length, part_timestamp)


def needed(
    session: SparkSession, pieces: PartPieces, condition: Condition, hidden: str, length: int, zone: str
) -> PartPieces:
    """The parts of which a query can need rows, where it asks `condition` of their PART_TIMESTAMP (called `hidden`).

    The condition is tried on each part, and on NULL, as which an outer join shows a part that is not there: where NULL
    passes, or the condition raises, all parts are needed.
    """
    parts = sorted(pieces)
    moments = np.array(parts, dtype=np.int64) * length * 1_000_000
    table = pa.table({
        PART: pa.array([*parts, None], pa.int64()),
        hidden: pa.array([*moments.tolist(), None], pa.int64()).cast(logical_type(PART_TIMESTAMP.type, zone)),
    })  # fmt: skip
    shape = schema((Column(PART, BIGINT), Column(hidden, PART_TIMESTAMP.type)))
    tests = " AND ".join(f"({conjunct}\n)" for conjunct in condition.conjuncts)
    try:
        session.createDataFrame(table, shape).coalesce(1).createOrReplaceTempView(_PARTS)
        left = ask(session, f"SELECT {PART} FROM {_PARTS} AS {quoted(condition.alias)} WHERE {tests}").toArrow()
    except failures() as error:
        raise_unless_of_query(error)
        return pieces
    finally:
        session.catalog.dropTempView(_PARTS)
    found = set(left.column(0).to_pylist())
    return pieces if None in found else {part: each for part, each in pieces.items() if part in found}


def _table(
    disk: Disk,
    columns: Sequence[Column],
    pieces: PartPieces,
    zone: str,
    length: int | None,
    part_timestamp: str | None,
) -> pa.Table:
    parts = sorted(pieces)
    table = to_table(disk, [piece for part in parts for piece in pieces[part]], columns, zone)
    if part_timestamp is None:
        return table
    rows = [sum(piece.rows for piece in pieces[part]) for part in parts]
    begins = np.repeat(np.array(parts, dtype=np.int64) * (length or 0) * 1_000_000, rows)
    moments = pa.array(begins, pa.int64()).view(logical_type(PART_TIMESTAMP.type, zone))
    return table.append_column(pa.field(part_timestamp, moments.type, nullable=False), moments)


def _from_files(
    session: SparkSession, disk: Disk, columns: Sequence[Column], pieces: PartPieces, length: int | None,
    part_timestamp: str | None,
) -> DataFrame:  # fmt: skip
    from pyspark.sql import functions as f

    shape = schema((*columns, Column(PART, BIGINT, False)))
    wanted = [f.col(f"`{column.name}`") for column in columns]
    if part_timestamp is not None:
        wanted.append(f.timestamp_seconds(f.col(PART) * f.lit(length)).alias(part_timestamp))

    def read(files: list[str], condition: SparkColumn | None = None) -> DataFrame:
        found = session.read.schema(shape).options(**_OPTIONS).parquet(*(_path(disk, name) for name in files))
        return (found if condition is None else found.where(condition)).select(*wanted)

    own = {part: tuple(piece for piece in each if piece.part is None) for part, each in pieces.items()}
    whole, ranges = _rows_by_file(disk, own)
    frames = [read(whole)] if whole else []
    for piece, parts in _shared(pieces).items():
        inside = f.col("_metadata.row_index").between(piece.offset, piece.offset + piece.rows - 1)
        found = session.read.schema(shape).options(**_OPTIONS).parquet(_path(disk, piece.file)).where(inside)
        numbers = reduce(lambda left, right: left.unionAll(right), [session.range(a, b) for a, b in parts])
        frames.append(found.drop(PART).crossJoin(numbers.withColumnRenamed("id", PART)).select(*wanted))
    for name, wanted_rows in ranges.items():
        number = f.col("_metadata.row_index")
        rows = [number.between(first, last) for first, last in wanted_rows.rows]
        near = f.col(PART).between(*wanted_rows.parts)
        frames.append(read([name], near & reduce(lambda left, right: left | right, rows)))
    return reduce(lambda left, right: left.unionAll(right), frames)


def _shared(pieces: PartPieces) -> dict[Piece, list[tuple[int, int]]]:
    """The pieces that equal parts share, with these parts: ranges, the second end excluded."""
    found: dict[Piece, list[tuple[int, int]]] = {}
    for part in sorted(pieces):
        for piece in pieces[part]:
            if piece.part is not None:
                ranges = found.setdefault(piece, [])
                if ranges and ranges[-1][1] == part:
                    ranges[-1] = (ranges[-1][0], part + 1)
                else:
                    ranges.append((part, part + 1))
    return found


class _Rows:
    """Which rows of a file are wanted: ranges of row numbers, both ends included; and the parts they lie between."""

    def __init__(self, pieces: Sequence[tuple[int, Piece]]) -> None:
        self.parts = min(part for part, _ in pieces), max(part for part, _ in pieces)
        self.count = sum(piece.rows for _, piece in pieces)
        self.rows: list[tuple[int, int]] = []
        for piece in sorted((piece for _, piece in pieces), key=lambda piece: piece.offset):
            last = piece.offset + piece.rows - 1
            if self.rows and self.rows[-1][1] + 1 == piece.offset:
                self.rows[-1] = self.rows[-1][0], last
            else:
                self.rows.append((piece.offset, last))


def _rows_by_file(disk: Disk, pieces: PartPieces) -> tuple[list[str], dict[str, _Rows]]:
    """The files of which every row is wanted; and of the others, which rows."""
    by_file: dict[str, list[tuple[int, Piece]]] = {}
    for part in sorted(pieces):
        for piece in pieces[part]:
            by_file.setdefault(piece.file, []).append((part, piece))
    rows = {name: _Rows(found) for name, found in by_file.items()}
    whole = [name for name, each in rows.items() if each.count == _rows_in(_path(disk, name))]
    return whole, {name: each for name, each in rows.items() if name not in set(whole)}


def _path(disk: Disk, name: str) -> str:
    """Where Spark's workers find a part file."""
    return str(disk.local(f"{STATE}/{name}"))


@lru_cache(maxsize=4096)
def _rows_in(path: str) -> int:
    from pyarrow import parquet

    return int(parquet.read_metadata(path).num_rows)
