"""One table in the embedded store: where its rows are, and their bytes (docs/format-store.md)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog import codec
from viewkeeper.catalog.arrow_tables import logical_field
from viewkeeper.catalog.model import Table
from viewkeeper.catalog.types import physical_type, to_logical
from viewkeeper.changes.layout import from_raw
from viewkeeper.changes.operations import EarlierForm, Operations, TableForm
from viewkeeper.errors import InputError, LayoutChanged, RowError
from viewkeeper.stores.intake import TableIntake
from viewkeeper.stores.node import Node
from viewkeeper.stores.value_conversion import to_python
from viewkeeper.trace.hashing import hash_columns, hash_values
from viewkeeper.trace.rows import constant

_PREFIX = struct.Struct(">I")
LAYOUT = struct.Struct(">H")
"""What a stored row begins with, and what `Node.layout` holds: the number of a layout of its table."""
_FIRST = LAYOUT.pack(0)
KEY_BYTES_MAX = 511 - _PREFIX.size
"""LMDB's limit, less the table's id."""
_SCANNED_AT_ONCE = 10_000


class TableAccess:
    """A table's rows; `zone` is where naive times are."""

    def __init__(self, table: Table, zone: str) -> None:
        self.form, self.zone = TableForm(table, zone), zone
        self.intake = TableIntake(self.form, zone)
        self.prefix = _PREFIX.pack(table.id)
        self._head = LAYOUT.pack(self.form.number)
        self.declaration = codec.dumps(table)
        self._placing = tuple(range(len(self.form.types))) if self.form.keyless else self.form.key
        self._placing_types = [self.form.types[i] for i in self._placing]
        self._decoders = [to_python(type_, zone) for type_ in self.form.types]
        self._names = [column.name for column in table.columns]
        fields = [logical_field(column, zone) for column in table.columns]
        hidden = [pa.field("row id", pa.int64(), nullable=False)] if self.form.keyless else []
        self._schema = pa.schema(fields + hidden)

    def hashes(self, operations: Operations) -> np.ndarray:
        """uint64[n]: hashes of the rows' keys (of whole rows without a key); hash % nodes is the node."""
        carried = self.form.carried(operations.kind)
        return hash_columns([operations.columns[carried.index(i)] for i in self._placing], len(operations))

    def hash(self, values: Sequence[Any]) -> int:
        """`hashes` of one row, by the physical values of its key (of the whole row without a key)."""
        return hash_values(values, self._placing_types)

    def key_bytes(self, values: Sequence[Any]) -> bytes:
        """The store's key of one row, by the physical values of its key."""
        key = self.prefix + self.form.key_layout.pack(values)
        if len(key) > KEY_BYTES_MAX + len(self.prefix):
            raise self._too_long(len(key))
        return key

    def keys_bytes(self, columns: Sequence[pa.Array], numbers: np.ndarray) -> list[bytes]:
        """The store's keys of many rows, by their key columns; `numbers` are the rows' places in the call."""
        keys = [self.prefix + key for key in self.form.key_layout.encode(columns, len(numbers))]
        longest = max(map(len, keys), default=0)
        if longest > KEY_BYTES_MAX + len(self.prefix):
            raise self._too_long(longest, next(n for n, key in zip(numbers, keys, strict=True) if len(key) == longest))
        return keys

    def _too_long(self, length: int, row: int | None = None) -> InputError:
        why = (f": the key takes {length - len(self.prefix)} bytes; the embedded store takes at most "
               f"{KEY_BYTES_MAX}")  # fmt: skip
        name = self.form.table.name
        return InputError(name + why) if row is None else RowError(f"{name}, ", row, why)

    def as_dict(self, key: Sequence[Any], value: bytes) -> dict[str, Any]:
        """One row as users get it, from its key's physical values and the stored bytes of the others."""
        values: list[Any] = [None] * len(self.form.types)
        for i, part in zip(self.form.key, key, strict=True):
            values[i] = part
        for i, part in zip(self.form.values, self.unpack(value), strict=True):
            values[i] = part
        for i, decode in enumerate(self._decoders):
            if decode is not None and values[i] is not None:
                values[i] = decode(values[i])
        return dict(zip(self._names, values, strict=True))

    def unpack(self, value: bytes) -> list[Any]:
        """The physical values behind the key of one stored row, whatever its layout."""
        if value[: LAYOUT.size] == self._head:
            return self.form.value_layout.unpack(value)
        earlier = self.form.earlier(*LAYOUT.unpack_from(value))
        if earlier is None:
            raise self.changed()
        then = dict(zip(earlier.form.values, earlier.form.value_layout.unpack(value), strict=True))
        sources = [(earlier.sources[i], earlier.before[i]) for i in self.form.values]
        return [before if source is None else then[source] for source, before in sources]

    def values(self, stored: Sequence[bytes]) -> list[pa.Array]:
        """The physical columns behind the key of stored rows, whatever their layouts."""
        if not self.has_earlier or not stored:
            return self._of_layout(stored, None)
        heads = np.frombuffer(b"".join([value[: LAYOUT.size] for value in stored]), ">u2")
        numbers = np.unique(heads).tolist()
        if numbers == [self.form.number]:
            return self._of_layout(stored, None)
        parts, order = [], []
        for number in numbers:
            rows = np.flatnonzero(heads == number)
            parts.append(self._of_layout([stored[i] for i in rows.tolist()], self.form.earlier(number)))
            order.append(rows)
        back = pa.array(np.argsort(np.concatenate(order)))
        return [pa.concat_arrays(each).take(back) for each in zip(*parts, strict=True)]

    def _of_layout(self, stored: Sequence[bytes], earlier: EarlierForm | None) -> list[pa.Array]:
        form = self.form if earlier is None else earlier.form
        raw, _ = form.value_layout.decode(stored)
        columns = {i: form.physical(i, column) for i, column in zip(form.values, raw, strict=True)}
        if earlier is None:
            return [columns[i] for i in self.form.values]
        types = [physical_type(self.form.types[i]) for i in self.form.values]
        sources = [(earlier.sources[i], earlier.before[i]) for i in self.form.values]
        return [constant(type_, before, len(stored)) if source is None else columns[source]
                for (source, before), type_ in zip(sources, types, strict=True)]  # fmt: skip

    def stored_hash(self, value: bytes) -> int:
        """The hash under which `equal` has a stored row of a table without a key."""
        earlier = self.form.earlier(*LAYOUT.unpack_from(value))
        if earlier is None:
            return self.hash(self.unpack(value))
        return hash_values(earlier.form.value_layout.unpack(value), list(earlier.form.types))

    def older_rows(self, node: Node, txn: Any) -> Iterator[list[tuple[Any, Any]]]:
        """Keys and values of the rows with an earlier layout, so many at a time; none where there is none."""
        if self.has_earlier:
            for some in self._stored(txn.cursor(node.rows)):
                yield [(key, value) for key, value in some if value[: LAYOUT.size] != self._head]

    @property
    def has_earlier(self) -> bool:
        """Whether rows may have an earlier layout."""
        return self.form.number > 0

    def require_current(self, node: Node, txn: Any) -> None:
        """Raises LayoutChanged where the table's rows on a node may have a later layout."""
        newest = txn.get(self.prefix, db=node.layout)
        if newest is not None and bytes(newest) > self._head:
            raise self.changed()

    def settle(self, node: Node, txn: Any) -> None:
        """`require_current` before a write; from then on nobody writes rows of an earlier layout on the node."""
        newest = txn.get(self.prefix, db=node.layout)
        if (newest or _FIRST) != self._head:
            if newest is not None and newest > self._head:
                raise self.changed()
            txn.put(self.prefix, self._head, db=node.layout)

    def changed(self) -> LayoutChanged:
        """The error where the store has rows of a later layout."""
        return LayoutChanged(
            f"{self.form.table.name}: the store has rows with columns of a later ALTER TABLE than this version of the "
            "database; try again, and if that does not help an older copy of the views was put back: put back the "
            "store of the same time, too"
        )

    def _stored(self, cursor: Any) -> Iterator[list[tuple[Any, Any]]]:
        """Keys and values of all rows in their order, so many at a time."""
        stored = cursor.iternext() if cursor.set_range(self.prefix) else iter(())
        while some := list(islice(stored, _SCANNED_AT_ONCE)):
            own = len(some)
            while own and some[own - 1][0][: len(self.prefix)] != self.prefix:
                own -= 1
            if own:
                yield some[:own]
            if own < len(some):  # Rows of the next table begin.
                return

    def batches(self, node: Node, txn: Any) -> Iterator[pa.RecordBatch]:
        """All rows on `node` in logical types, their row ids last where the table has no key."""
        for columns in self.physical(node, txn):
            logical = [to_logical(column, type_, self.zone)
                       for column, type_ in zip(columns, self.form.types, strict=not self.form.keyless)]  # fmt: skip
            yield pa.RecordBatch.from_arrays(logical + columns[len(logical) :], schema=self._schema)

    def physical(self, node: Node, txn: Any) -> Iterator[list[pa.Array]]:
        """The same as physical columns, so many rows at a time."""
        self.require_current(node, txn)
        return map(self.decoded, self._stored(txn.cursor(node.rows)))

    def decoded(self, stored: Sequence[tuple[Any, Any]]) -> list[pa.Array]:
        """The physical columns of rows, and their row ids last where the table has no key, from their stored keys and
        values."""
        columns: list[Any] = [None] * len(self.form.types)
        keys, _ = self.form.key_layout.decode([key for key, _ in stored], skip=len(self.prefix))
        for i, column in zip(self.form.key, keys, strict=not self.form.keyless):
            columns[i] = column
        for i in self.form.key:
            columns[i] = self.form.physical(i, columns[i])
        for i, column in zip(self.form.values, self.values([value for _, value in stored]), strict=True):
            columns[i] = column
        return columns + ([from_raw(keys[0], pa.int64())] if self.form.keyless else [])


def table_ids(cursor: Any) -> list[int]:
    """The ids of all tables that have anything in the LMDB table of `cursor`."""
    ids: list[int] = []
    more = cursor.first()
    while more:
        ids.append(_PREFIX.unpack_from(cursor.key())[0])
        more = cursor.set_range(_PREFIX.pack(ids[-1] + 1))
    return ids


def remove_some(cursor: Any, id_: int, limit: int) -> int:
    """Delete up to `limit` of the keys of the table `id_` in the LMDB table of `cursor`; how many."""
    prefix, removed = _PREFIX.pack(id_), 0
    while removed < limit and cursor.set_range(prefix) and cursor.key()[: len(prefix)] == prefix:
        cursor.delete(dupdata=True)
        removed += 1
    return removed


Apply = Callable[[Node, Any, int], None]
"""Writes the rows of one node, given its tables, its write transaction and the first sequence of the operations."""
