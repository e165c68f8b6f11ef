"""Rows of a table in Cassandra: all of them, one, and writing, by CQL."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from cassandra.concurrent import execute_concurrent_with_args

from viewkeeper.catalog.operation_kinds import DELETE, DELETE_COLUMNS
from viewkeeper.catalog.outside_store import NEVER
from viewkeeper.catalog.types import Type
from viewkeeper.changes.operations import Operations
from viewkeeper.errors import Error, InputError
from viewkeeper.stores.intake import TableIntake
from viewkeeper.stores.outside.cassandra.cluster import Connection, Page, StoreSchema
from viewkeeper.stores.outside.cassandra.entry_reader import EntryReader, StoredKind
from viewkeeper.stores.outside.cassandra.raw_columns import RawColumn
from viewkeeper.stores.outside.cells import stamped
from viewkeeper.stores.outside.contract import NoRow, Scanned
from viewkeeper.stores.outside.said import said_of
from viewkeeper.stores.value_conversion import to_python

ROWS_A_PAGE = 5_000
RANGES, AT_ONCE = 16, 4
"""So many pieces of the ring are scanned, so many at once."""

WRITES_AT_ONCE = 100
_EXPIRES = "has a time to live (USING TTL), at whose end no log says anything: write it without"
_LEAST, _RING = -(1 << 63), 1 << 64
_DATE_SHIFT = 1 << 31


class RowAccess:
    """Reads and writes rows of one table, as `schema` says it is."""

    def __init__(self, intake: TableIntake, connection: Connection, schema: StoreSchema) -> None:
        self._intake, self._form, self._connection = intake, intake.form, connection
        found = [schema.column(column.name) for column in intake.table.columns]
        self._names = ['"' + each.name.replace('"', '""') + '"' for each in found if each is not None]
        self._types = [each.type for each in found if each is not None]
        partition = [each for each in schema.columns if each.kind == "partition_key"]
        self._partition = ['"' + each.name.replace('"', '""') + '"' for each in partition]
        self._place = f'"{schema.told["keyspace"]}"."{schema.name}"'
        stored = StoredKind(tuple(self._types), len(partition), ())
        self._reader = EntryReader(intake, stored)

    def all(self) -> Iterator[Scanned]:
        """All rows, with the timestamps of their cells."""
        form = self._form
        selected = [self._names[i] for i in (*form.key, *form.values)]
        selected += [f"{what}({self._names[i]})" for what in ("WRITETIME", "TTL") for i in form.values]
        for page in scanned(self._connection, selected, self._place, self._partition, ROWS_A_PAGE):
            yield self._stamped(page)

    def _stamped(self, page: Page) -> Scanned:
        form, count = self._form, len(self._form.values)
        width = len(form.key)
        rows = np.flatnonzero((np.column_stack([page.column(at).lengths for at in range(width)]) >= 0).all(axis=1))
        if not len(rows):
            return Scanned([])  # a partition that has static columns alone comes as a row without clustering
        raw = [page.column(at).take(rows) for at in range(width + 3 * count)]
        keys, values, reasons = self._reader.columns(raw[:width], raw[width : width + count])
        whys = {row: f"is none that can be kept: {reason}" for row, reason in reasons.items()}
        for column in raw[width + 2 * count :]:
            whys |= dict.fromkeys(np.flatnonzero(column.lengths >= 0).tolist(), _EXPIRES)
        times = raw[width + count : width + 2 * count]
        stamps = np.column_stack([_times(each) for each in times]) if count else np.zeros((len(rows), 0), np.int64)
        made = np.maximum(stamps.max(axis=1, initial=NEVER), NEVER + 1)
        bad = [self._no_row(keys, row, why) for row, why in sorted(whys.items())]
        made[list(whys)] = NEVER  # there is nothing of these rows
        stamps[list(whys)] = NEVER
        return Scanned(list(stamped(form, keys, values, stamps, made)), bad)

    def _no_row(self, keys: Sequence[pa.Array], row: int, why: str) -> NoRow:
        key = self._shown(keys, row)
        message = said_of(self._intake.table.id, self._intake.table.name, f"the row with the key {key} {why}")
        return NoRow(message, None if None in key else key)

    def _shown(self, keys: Sequence[pa.Array], row: int) -> tuple[Any, ...]:
        return tuple(key[row].as_py() for key in keys)

    def get(self, key: Any) -> dict[str, Any] | None:
        """The row of `key`, None where there is none."""
        form = self._form
        columns = self._intake.deletes([key]).columns
        where = " AND ".join(f"{self._names[i]} = ?" for i in form.key)
        order = (*form.key, *form.values)
        query = self._connection.prepared(
            f"SELECT {', '.join(self._names[i] for i in order)} FROM {self._place} WHERE {where}"
        )
        values = [self._given(i, column)[0] for i, column in zip(form.key, columns, strict=True)]
        pages = [page for page in self._connection.session().execute(query, values) if page.count]
        if not pages:
            return None
        raw = [pages[0].column(at) for at in range(len(order))]
        keys, found, reasons = self._reader.columns(raw[: len(form.key)], raw[len(form.key) :])
        if reasons:
            raise Error(f"the row with the key {self._shown(keys, 0)} is none that can be kept: {reasons[0]}")
        shown = {}
        for i, array in zip(order, [*keys, *found], strict=True):
            value, decode = array[0].as_py(), to_python(form.types[i], form.zone)
            shown[self._intake.table.columns[i].name] = value if decode is None or value is None else decode(value)
        return {column.name: shown[column.name] for column in self._intake.table.columns}

    def write(self, operations: Operations) -> None:
        """Does `operations`: the driver's timestamps grow from one to the next."""
        form, kind = self._form, operations.kind
        given = [self._given(i, column)
                 for i, column in zip(form.carried(kind), operations.columns, strict=True)]  # fmt: skip
        rows = list(zip(*given, strict=True))
        masks = [form.everything.tobytes()] * len(rows) if operations.named is None \
            else [each.tobytes() for each in operations.named]  # fmt: skip
        begin = 0
        for end in range(1, len(rows) + 1):
            if end < len(rows) and masks[end] == masks[begin]:
                continue
            named = [i for i in form.values if masks[begin][i >> 3] >> (i & 7) & 1]
            statement, places = self._statement(kind, named)
            execute_concurrent_with_args(
                self._connection.session(), self._connection.prepared(statement),
                [[row[at] for at in places] for row in rows[begin:end]], concurrency=WRITES_AT_ONCE,
            )  # fmt: skip
            begin = end

    def _statement(self, kind: int, named: Sequence[int]) -> tuple[str, list[int]]:
        """The statement that names these columns, and which columns of the operation its values are."""
        form, carried = self._form, self._form.carried(kind)
        where = " AND ".join(f"{self._names[i]} = ?" for i in form.key)
        keys = [carried.index(i) for i in form.key]
        if kind in (DELETE, DELETE_COLUMNS):
            what = ", ".join(self._names[i] for i in named) if kind == DELETE_COLUMNS else ""
            return f"DELETE {what} FROM {self._place} WHERE {where}", keys
        columns = [*form.key, *named]
        names, marks = ", ".join(self._names[i] for i in columns), ", ".join("?" * len(columns))
        return f"INSERT INTO {self._place} ({names}) VALUES ({marks})", [carried.index(i) for i in columns]

    def _given(self, i: int, column: pa.Array) -> list[Any]:
        """Physical values as the driver takes them."""
        convert = _to_driver(self._types[i], self._form.types[i])
        try:
            return [None if value is None else convert(value) for value in column.to_pylist()]
        except ValueError as error:
            name = self._intake.table.columns[i].name
            raise InputError(f"{self._intake.table.name}: column {name}: {error}") from error


def scanned(
    connection: Connection, selected: Sequence[str], place: str, partition: Sequence[str], rows_a_page: int
) -> Iterator[Page]:  # fmt: skip
    """All rows of a table: what is `selected` of them, by names in CQL."""
    token = f"token({', '.join(partition)})"
    query = connection.prepared(f"SELECT {', '.join(selected)} FROM {place} WHERE {token} > ? AND {token} <= ?")
    query.fetch_size = rows_a_page
    session = connection.session()
    bounds = [_LEAST + _RING * at // RANGES for at in range(RANGES)] + [_LEAST + _RING - 1]
    waiting = [session.execute_async(query, pair) for pair in zip(bounds[:AT_ONCE], bounds[1:], strict=False)]
    for at in range(RANGES):
        pages = waiting.pop(0).result()
        if at + AT_ONCE < RANGES:
            waiting.append(session.execute_async(query, bounds[at + AT_ONCE : at + AT_ONCE + 2]))
        yield from pages


def _times(column: RawColumn) -> np.ndarray:
    """Timestamps (int64) of cells, NEVER where there is none."""
    found = np.full(len(column), NEVER, np.int64)
    rows = np.flatnonzero(column.lengths == 8)
    found[rows] = column.fixed(rows, 8).view(">i8")[:, 0]
    return found


def _to_driver(cql: str, type_: Type) -> Callable[[Any], Any]:
    if cql in ("uuid", "timeuuid"):
        return uuid.UUID
    if cql == "timestamp":
        return _milliseconds
    if cql == "date":
        return lambda days: days + _DATE_SHIFT  # as CQL has it
    if cql in _BITS:
        return lambda value: _narrow(value, _BITS[cql])
    decode = to_python(type_, "UTC")
    if cql == "varint":
        return lambda value: int(_same(value) if decode is None else decode(value))
    return decode or _same


_BITS: Mapping[str, int] = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def _same(value: Any) -> Any:
    return value


def _narrow(value: int, bits: int) -> int:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"{value} is outside what the column can hold there, {bits} bits")
    return value


def _milliseconds(microseconds: int) -> int:
    if microseconds % 1000:
        raise ValueError("the store's timestamps are whole milliseconds")
    return microseconds // 1000
