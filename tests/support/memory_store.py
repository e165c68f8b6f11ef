"""A small store of base tables for tests: rows in dicts, one log in a list, nothing on any disk.

It differs from the embedded store as outside stores do: a batch may split a `put_many`, a put that leaves a NOT NULL
column unset is taken and rejected from the log, and nothing tells whether a log was replaced.  Other processes, Spark's
workers, have none of its memory: the slices that it cuts carry their operations.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby, takewhile
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import REJECTED, Table
from viewkeeper.catalog.operation_kinds import DELETE, PUT
from viewkeeper.catalog.types import logical_type, physical_type, to_logical
from viewkeeper.changes.operations import Operations, TableForm
from viewkeeper.changes.positions import Cut, LogPlace, Positions, Token
from viewkeeper.changes.verify import LogBatch, operation_from_bytes
from viewkeeper.errors import Damaged, InputError, StoreReplaced
from viewkeeper.jobs import ring
from viewkeeper.stores.contract import NO_HASHES, WHOLE_RING, Interval, Moment, Store, TableScan, Traits
from viewkeeper.stores.intake import TableIntake
from viewkeeper.stores.value_conversion import to_python
from viewkeeper.trace.hashing import hash_columns
from viewkeeper.trace.rows import Rows

KEY_BYTES_MAX = 1000
Values = list[Any]
"""Physical values of a row's columns."""


class Logged(NamedTuple):
    """One operation in the log: `values` are those of the columns that its kind carries."""

    sequence: int
    stamp: int
    table: int
    kind: int
    values: tuple[Any, ...]
    named: bytes


@dataclass
class State:
    """What the store holds: rows by table and encoded key, and the log, `trimmed` operations of which are gone."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    rows: dict[int, dict[bytes, Values]] = field(default_factory=dict)
    log: list[Logged] = field(default_factory=list)
    trimmed: int = 0

    @property
    def end(self) -> int:
        return self.trimmed + len(self.log)

    def logged(self, after: int, upto: int) -> tuple[Logged, ...]:
        if after < self.trimmed:
            raise Damaged(f"the log does not hold sequence {after + 1}; was it trimmed?")
        return tuple(self.log[after - self.trimmed : upto - self.trimmed])


class MemoryLog:
    """Cuts the log in the store's process; in any process reads what a slice carries."""

    def __init__(self, state: State, zone: str) -> None:
        self._state, self._zone = state, zone

    def __reduce__(self) -> tuple[Any, ...]:
        return MemoryLog, (State.__new__(State), self._zone)

    def cut(self, limit: int, after: Positions, hashes: Mapping[int, str] = NO_HASHES) -> Cut:
        with self._state.lock:
            start = after.get(0, 0)
            end = min(self._state.end, start + limit)
            stamp = self._state.log[-1].stamp if self._state.log else 0
            return Cut({0: end}, end - start, stamp, end < self._state.end, after=after)

    def slices(self, cut: Cut) -> tuple[tuple[Logged, ...], ...]:
        """Two, so that nobody counts on one."""
        start, end = cut.after.get(0, 0), cut.positions[0]
        middle = (start + end) // 2
        with self._state.lock:
            return tuple(self._state.logged(*each) for each in ((start, middle), (middle, end)) if each[0] < each[1])

    def read(
        self, slice_: tuple[Logged, ...], tables: Mapping[int, Table], interval: Interval = WHOLE_RING
    ) -> LogBatch:
        """Only what is asked for: as from a log that is sorted by key."""
        batch = LogBatch([], Rows.empty([physical_type(column.type) for column in REJECTED.columns]), {})
        for (id_, kind), group in groupby(sorted(slice_, key=_by_kind), key=_by_kind):
            logged = list(group)
            if id_ in tables:
                rows = _as_rows(TableForm(tables[id_], self._zone), kind, logged, interval)
                batch.operations += [(id_, rows)] if len(rows) else []
            elif interval[0] == 0:
                batch.skipped[id_] = batch.skipped.get(id_, 0) + len(logged)
        return batch

    def forget(self, positions: Positions, older_than_seconds: float) -> int:
        before, state = time.time_ns() // 1000 - int(older_than_seconds * 1e6), self._state
        with state.lock:
            upto = min(positions.get(0, 0), state.end - 1)
            gone = sum(1 for _ in takewhile(lambda each: each.sequence <= upto and each.stamp < before, state.log))
            state.trimmed += gone
            del state.log[:gone]
            return gone


def _by_kind(logged: Logged) -> tuple[int, int]:
    return logged.table, logged.kind


def _as_rows(form: TableForm, kind: int, logged: Sequence[Logged], interval: Interval) -> Rows:
    columns = _columns(form, form.carried(kind), [each.values for each in logged])
    keys = [columns[form.carried(kind).index(i)] for i in form.key]
    mine = np.flatnonzero(ring.are_within(hash_columns(keys, len(logged)), *interval))
    named = np.frombuffer(b"".join(each.named for each in logged), np.uint8).reshape(len(logged), -1)
    sequences, stamps = (np.array([each[i] for each in logged], np.int64)[mine] for i in (0, 1))
    operations = Operations(kind, columns, None if kind == DELETE else named).take(mine)
    return form.as_rows(operations, 0, sequences, stamps)


def _columns(form: TableForm, which: Sequence[int], rows: Sequence[Sequence[Any]]) -> list[pa.Array]:
    return [pa.array([row[at] for row in rows], physical_type(form.types[i])) for at, i in enumerate(which)]


class MemoryMoment(Moment):
    """A copy of everything."""

    def __init__(self, state: State, zone: str) -> None:
        with state.lock:
            self._tables = {id_: dict(rows) for id_, rows in state.rows.items()}
            self.positions, self.hashes, self.stamp = {0: state.end}, {}, state.log[-1].stamp if state.log else 0
        self._zone = zone

    def rows(self, table: Table) -> Iterator[tuple[int, list[pa.Array]]]:
        form = TableForm(table, self._zone)
        rows = list(self._tables.get(table.id, {}).values())
        if rows:
            yield 0, _columns(form, range(len(form.types)), rows)

    def holds(self, table: Table, keys: Sequence[pa.Array]) -> np.ndarray:
        packed = TableForm(table, self._zone).key_layout.encode(keys, len(keys[0]))
        return np.array([key in self._tables.get(table.id, {}) for key in packed], bool)

    def found(self, table: Table, keys: Sequence[pa.Array]) -> list[pa.Array]:
        form = TableForm(table, self._zone)
        stored, packed = self._tables.get(table.id, {}), form.key_layout.encode(keys, len(keys[0]))
        return _columns(form, range(len(form.types)), [stored[key] for key in packed if key in stored])


class MemoryStore(Store):
    """One node, in this process alone."""

    traits = Traits(
        consistent_cuts=False,
        refuses_in_transaction=False,
        keyless_tables=False,
        atomic_changes=False,
        key_bytes_max=KEY_BYTES_MAX,
    )
    nodes = 1

    def __init__(self, zone: str = "UTC") -> None:
        self.zone, self._state = zone, State()
        self.log = MemoryLog(self._state, zone)

    def _intake(self, table: Table) -> TableIntake:
        return TableIntake(TableForm(table, self.zone), self.zone)

    def _write(self, table: Table, operations: Operations) -> Token:
        form = TableForm(table, self.zone)
        if form.keyless:
            raise InputError(f"{table.name}: this store keeps only tables with a primary key")
        keys = form.key_layout.encode([operations.columns[i] for i in form.key] if operations.kind == PUT
                                      else operations.columns, len(operations))  # fmt: skip
        if longest := [len(key) for key in keys if len(key) > KEY_BYTES_MAX]:
            raise InputError(
                f"{table.name}: the key takes {longest[0]} bytes; this store takes at most {KEY_BYTES_MAX}"
            )
        rows = zip(*(column.to_pylist() for column in operations.columns), strict=True)
        everything = np.tile(form.everything if operations.kind == PUT else form.mask(()), (len(keys), 1))
        named = everything if operations.named is None else operations.named
        with self._state.lock:
            for key, values, mask in zip(keys, rows, named, strict=True):
                self._apply(form, operations.kind, key, values, mask)
                stamp = time.time_ns() // 1000
                entry = Logged(self._state.end + 1, stamp, table.id, operations.kind, values, mask.tobytes())
                self._state.log.append(entry)
            return Token({0: self._state.end}) if keys else Token()

    def _apply(self, form: TableForm, kind: int, key: bytes, values: Sequence[Any], mask: np.ndarray) -> None:
        stored = self._state.rows.setdefault(form.table.id, {})
        old = stored.get(key)
        set_ = [i for i in range(len(form.types)) if mask[i // 8] >> i % 8 & 1]
        if kind == PUT:
            new = list(values if old is None else old)
            for i in (*form.key, *set_):
                new[i] = values[i]
            stored[key] = new
        elif kind == DELETE:
            stored.pop(key, None)
        elif old is not None:
            stored[key] = [None if i in set_ else value for i, value in enumerate(old)]

    def put(self, table: Table, row: Mapping[str, Any]) -> Token:
        return self.put_many(table, [row])

    def put_many(self, table: Table, rows: Any) -> Token:
        if isinstance(rows, pa.RecordBatchReader):
            rows = rows.read_all()
        return self._write(table, self._intake(table).rows(rows))

    def delete(self, table: Table, key: Any, columns: Sequence[str] | None = None) -> Token | bool:
        intake = self._intake(table)
        return self._write(table, intake.deletes([key]) if columns is None else intake.column_deletes(key, columns))

    def delete_many(self, table: Table, keys: Iterable[Any]) -> Token:
        return self._write(table, self._intake(table).deletes(keys))

    def apply(self, table: Table, operation: bytes) -> Token:
        operations = operation_from_bytes(operation, TableForm(table, self.zone))
        if operations is None:
            raise InputError(f"{table.name}: these bytes are no operation that the table can take")
        return self._write(table, operations)

    def get(self, table: Table, key: Any) -> dict[str, Any] | None:
        form = TableForm(table, self.zone)
        row = self._state.rows.get(table.id, {}).get(form.key_layout.pack(self._intake(table).key(key)))
        if row is None:
            return None
        decoders = [to_python(type_, self.zone) for type_ in form.types]
        return {column.name: value if value is None or decode is None else decode(value)
                for column, value, decode in zip(table.columns, row, decoders, strict=True)}  # fmt: skip

    @contextmanager
    def scan(self, table: Table) -> Iterator[TableScan]:
        with self.at_one_moment() as moment:
            yield TableScan(moment.positions, (self._logical(table, columns) for _, columns in moment.rows(table)))

    def _logical(self, table: Table, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        schema = pa.schema([pa.field(column.name, logical_type(column.type, self.zone)) for column in table.columns])
        arrays = [to_logical(array, column.type, self.zone)
                  for array, column in zip(columns, table.columns, strict=True)]  # fmt: skip
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def rows(self, table: Table) -> Iterator[pa.RecordBatch]:
        with self.scan(table) as scan:
            yield from scan.batches

    @contextmanager
    def at_one_moment(self) -> Iterator[Moment]:
        yield MemoryMoment(self._state, self.zone)

    def ends(self) -> dict[int, int]:
        return {0: self._state.end}

    def stamp_after(self, node: int, position: int) -> int | None:
        with self._state.lock:
            found = self._state.log[max(0, position - self._state.trimmed) :]
            return found[0].stamp if found else None

    def compare(self, node: int, *places: tuple[int, str]) -> list[LogPlace]:
        state = self._state
        return [LogPlace.BEYOND if position > state.end else LogPlace.TRIMMED if position < state.trimmed
                else LogPlace.SAME for position, _ in places]  # fmt: skip

    def replaced(self, positions: Positions, hashes: Mapping[int, str]) -> dict[int, str]:
        (place,) = self.compare(0, (positions.get(0, 0), ""))
        return {} if place is LogPlace.SAME else {0: f"the log of node 0 is {place.value} there"}

    def require_same(self, positions: Positions, hashes: Mapping[int, str]) -> None:
        if reasons := self.replaced(positions, hashes):
            raise StoreReplaced(f"the store's log is not the one that the views have read: {reasons[0]}")

    def stored_tables(self) -> set[int]:
        return {id_ for id_, rows in self._state.rows.items() if rows}

    def forget(self, tables: Collection[int], seconds: float) -> bool:
        with self._state.lock:
            for id_ in tables:
                self._state.rows.pop(id_, None)
        return False

    def close(self) -> None:
        """It lasts as long as this object."""
