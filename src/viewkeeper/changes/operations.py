"""Operations on one table, as a client's call makes them and as zone 1 gets them.

A call makes operations of one kind on one table, and does not know their sequences yet (`Operations`).  Read back from
the logs they are `Rows` (`as_rows`), all weights 1: the declared columns in their order (physical; see `Operations`);
the hidden row id (BIGINT) where the table has no key; then `kind` (int8: one of `catalog.operation_kinds`), `set`
(fixed-size binary: bit i of byte i // 8 says that the put, or the delete of columns, names declared column i), `node`
(int32), `sequence` and `stamp` (int64).  They stand in any order; zone 1 orders them by key and sequence: a key lives
on one node.  Where a store keeps a timestamp with each cell (`catalog.outside_store.TIMESTAMPED`), `stamp` is that of
all cells of the operation, and orders them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Column, Table
from viewkeeper.catalog.operation_kinds import DELETE, DELETE_COLUMNS, PUT, UPDATE
from viewkeeper.catalog.types import BIGINT, Type, physical_type
from viewkeeper.changes.layout import RowLayout, from_raw, is_null, numbers, raw_type
from viewkeeper.trace.rows import Rows, constant

ROW_ID_NODE_BITS = 48
"""A row id is `node << 48 | sequence` of the put that made the row."""


@dataclass
class Operations:
    """Operations of one kind on one table, in order.

    `columns` are physical, those that `TableForm.carried` names for the kind.  `named` (uint8[n, set_bytes], a bit a
    declared column) says which columns a put sets or a column delete clears; None: all of them.  A column that a put
    does not name holds what it gets where the put makes a new row: its default, or NULL.
    """

    kind: int
    columns: list[pa.Array]
    named: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.columns[0])

    def take(self, indices: np.ndarray) -> Operations:
        """The operations at `indices`, in that order."""
        index = pa.array(indices)
        named = None if self.named is None else self.named[indices]
        return Operations(self.kind, [column.take(index) for column in self.columns], named)

    def slice(self, low: int, high: int) -> Operations:
        """The operations from `low` to before `high`; shares their memory."""
        named = None if self.named is None else self.named[low:high]
        return Operations(self.kind, [column.slice(low, high - low) for column in self.columns], named)


class TableForm:
    """What follows from a table's declaration for its operations and rows; made once, used for every operation.

    `key_layout` and `value_layout` are the stored form of its rows: the key's columns (or the row id), and all others.
    `everything` is the mask of all columns, `zone` the database's time zone.  `number` is that of its layout, the
    newest where none is said.
    """

    def __init__(self, table: Table, zone: str = "UTC", number: int | None = None) -> None:
        self.table, self.zone = table, zone
        self.types = tuple(column.type for column in table.columns)
        self.key = table.key
        self.keyless = not table.key
        self.values = tuple(i for i in range(len(self.types)) if i not in table.key)
        self.set_bytes = (len(self.types) + 7) // 8
        self.required = tuple(i for i in self.values if not table.columns[i].nullable)
        self.defaults = tuple(None if default is None else default.value for default in table.defaults)
        self.key_layout = RowLayout([BIGINT] if self.keyless else [self.types[i] for i in self.key], nullable=False)
        self.number = len(table.layouts) if number is None else number
        self.value_layout = RowLayout([self.types[i] for i in self.values], number=self.number)
        self.fingerprint = _fingerprint(table.columns, table.key, self.number)
        self._earlier: dict[int, EarlierForm] = {}
        # Made here, not when first asked for: until Python 3.12 `cached_property` holds a lock meanwhile, on which a
        # child that is forked just then would wait for ever.
        self.shapes = self._shapes()
        self.everything = self.mask(range(len(self.types)))

    def earlier(self, number: int) -> EarlierForm | None:
        """The form with the layout `number`; None where that is no earlier one."""
        if number >= self.number:
            return None
        if number not in self._earlier:
            self._earlier[number] = EarlierForm(self, number)
        return self._earlier[number]

    def written_by(self, fingerprint: int) -> EarlierForm | None:
        """The earlier form that has this fingerprint."""
        for number, layout in enumerate(self.table.layouts):
            if _fingerprint(layout.columns, layout.key, number) == fingerprint:
                return self.earlier(number)
        return None

    def carried(self, kind: int) -> tuple[int, ...]:
        """The declared columns that an operation of `kind` carries; for a table without a key, a delete carries the
        row id alone."""
        return tuple(range(len(self.types))) if kind in (PUT, UPDATE) else self.key

    def carried_types(self, kind: int) -> tuple[Type, ...]:
        """The types of the columns that an operation of `kind` carries."""
        return (BIGINT,) if self.keyless and kind != PUT else tuple(self.types[i] for i in self.carried(kind))

    def _shapes(self) -> dict[tuple[int, bool], EntryShape]:
        """How an entry holds operations, by their kind and whether they say which columns they name."""
        keys = [(kind, with_set) for kind in (PUT, DELETE, DELETE_COLUMNS) for with_set in (False, True)]
        return {key: EntryShape(self.carried_types(key[0]), self.set_bytes if key[1] else 0) for key in keys}

    def unnamed(self, i: int, length: int) -> pa.Array:
        """Column `i` of puts that do not name it."""
        return constant(physical_type(self.types[i]), self.defaults[i], length)

    def physical(self, i: int, column: pa.Array) -> pa.Array:
        """A raw column that is known to be right, as column `i`."""
        return from_raw(column, physical_type(self.types[i]))

    def mask(self, columns: Sequence[int]) -> np.ndarray:
        """uint8[set_bytes] with the bits of `columns`."""
        bits = np.zeros(self.set_bytes * 8, np.uint8)
        bits[list(columns)] = 1
        return np.packbits(bits, bitorder="little")

    def operation_types(self) -> list[pa.DataType]:
        """The Arrow types of the columns that `as_rows` gives."""
        hidden = [pa.int64()] if self.keyless else []
        tail = [pa.int8(), pa.binary(self.set_bytes), pa.int32(), pa.int64(), pa.int64()]
        return [*(physical_type(type_) for type_ in self.types), *hidden, *tail]

    def as_rows(self, operations: Operations, node: int, sequences: np.ndarray, stamps: np.ndarray) -> Rows:
        """`operations` as zone 1 takes them."""
        length, kind = len(operations), operations.kind
        columns = dict(zip(self.carried(kind), operations.columns, strict=False))
        block = [columns[i] if i in columns else pa.nulls(length, physical_type(type_))
                 for i, type_ in enumerate(self.types)]  # fmt: skip
        if self.keyless:
            made = np.int64(node) << ROW_ID_NODE_BITS | sequences
            block.append(pa.array(made) if kind == PUT else operations.columns[0])
        if operations.named is not None:
            named = np.ascontiguousarray(operations.named)
        else:
            named = np.tile(self.everything if kind in (PUT, UPDATE) else self.mask(()), (length, 1))
        block += [
            pa.array(np.full(length, kind, np.int8)),
            pa.Array.from_buffers(pa.binary(self.set_bytes), length, [None, pa.py_buffer(named)]),
            pa.array(np.full(length, node, np.int32)),
            pa.array(sequences),
            pa.array(stamps),
        ]
        return Rows(block, np.ones(length, np.int64))

    def from_row(self, rows: Rows, i: int) -> Operations:
        """Row `i` of `as_rows` as an operation again."""
        row = [column.slice(i, 1) for column in rows.columns]
        after = len(self.types) + self.keyless
        kind = int(numbers(row[after])[0])
        mask = row[after + 1][0].as_py()
        named: np.ndarray | None = np.frombuffer(mask, np.uint8).reshape(1, -1)
        if kind == DELETE or (kind == PUT and mask == self.everything.tobytes()):
            named = None
        columns = [row[after - 1]] if self.keyless and kind != PUT else [row[c] for c in self.carried(kind)]
        return Operations(kind, columns, named)


class EarlierForm:
    """What a table's operations and rows were like in its layout `number`, and how they become those of `newest`.

    `sources` says for each column of now which one it was, None where there was none.
    """

    def __init__(self, newest: TableForm, number: int) -> None:
        table = newest.table
        layout, details = table.layouts[number], table.details
        self.newest, self.number = newest, number
        then = replace(table, columns=layout.columns, key=layout.key, details=(), layouts=(), held=())
        self.form = TableForm(then, newest.zone, number)
        places = {id_: i for i, id_ in enumerate(layout.ids)}
        self.sources = [places.get(each.id) for each in details]
        self.before = [None if source is not None else each.before
                       for source, each in zip(self.sources, details, strict=True)]  # fmt: skip

    def brought(self, operations: Operations) -> Operations:
        """Operations in this form as ones in the newest: what they do not know, they do not name."""
        if operations.kind == DELETE:
            return operations
        length, form = len(operations), self.newest
        named = operations.named
        if named is None and not form.keyless and None in self.sources:
            named = np.tile(self.form.everything, (length, 1))
        if named is not None:
            known = [np.zeros(length, bool) if source is None else bits(named, source) for source in self.sources]
            named = np.packbits(np.column_stack(known), axis=1, bitorder="little")
        if operations.kind == DELETE_COLUMNS:
            return Operations(DELETE_COLUMNS, operations.columns, named)
        return Operations(PUT, self.columns(operations.columns, length), named)

    def columns(self, columns: Sequence[pa.Array], length: int) -> list[pa.Array]:
        """All physical columns of rows, as the newest form has them."""
        added = zip(self.sources, self.before, self.newest.types, strict=True)
        return [columns[source] if source is not None else constant(physical_type(type_), before, length)
                for source, before, type_ in added]  # fmt: skip


class EntryShape:
    """The columns of one entry: what its operations carry, and their `set` masks where `set_bytes` is not 0."""

    def __init__(self, types: Sequence[Type], set_bytes: int) -> None:
        self.types, self.set_bytes = tuple(types), set_bytes
        self.layout = RowLayout(types)
        self.arrow = [physical_type(type_) for type_ in types]
        mask = [pa.binary(set_bytes)] if set_bytes else []
        self.written = _schema([*self.arrow, *mask])
        self.read = _schema([*(raw_type(arrow) for arrow in self.arrow), *mask]).serialize().to_pybytes()


def _fingerprint(columns: Sequence[Column], key: Sequence[int], number: int) -> int:
    described = ",".join(str(column.type) for column in columns) + "/" + ",".join(map(str, key))
    return zlib.crc32((f"{number}:" * bool(number) + described).encode())


def bits(named: np.ndarray, column: int) -> np.ndarray:
    """bool[n]: whether the masks `named` hold the bit of `column`."""
    return (named[:, column >> 3] >> (column & 7) & 1).astype(bool)


def nulls_where_named(column: pa.Array, named: np.ndarray | None, position: int) -> np.ndarray:
    """bool[n]: where a put sets column `position` to NULL."""
    nulls = is_null(column)
    return nulls if named is None or not nulls.any() else nulls & bits(named, position)


def _schema(types: Sequence[pa.DataType]) -> pa.Schema:
    return pa.schema([(str(i), type_) for i, type_ in enumerate(types)])
