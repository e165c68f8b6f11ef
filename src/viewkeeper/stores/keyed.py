"""Writing rows of tables that have a primary key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.operation_kinds import DELETE, DELETE_COLUMNS
from viewkeeper.changes.layout import is_null
from viewkeeper.changes.operations import Operations, bits
from viewkeeper.errors import InputError, RowError
from viewkeeper.stores.access import Apply, TableAccess
from viewkeeper.stores.node import Node


def plan(access: TableAccess, operations: Operations, numbers: np.ndarray) -> Apply:
    """How the rows of `operations`, all of one node, are written; all that needs no lock is done here.

    `numbers` are the rows' places in the call.
    """
    form, length = access.form, len(operations)
    carried = form.carried(operations.kind)
    keys = access.keys_bytes([operations.columns[carried.index(i)] for i in form.key], numbers)
    if operations.kind == DELETE:
        return lambda node, txn, first: _delete(node, txn, keys)
    if operations.kind == DELETE_COLUMNS:
        return lambda node, txn, first: _clear(access, operations, node, txn, keys)
    if operations.named is None or all(bits(operations.named, i).all() for i in form.values):
        values = form.value_layout.encode([operations.columns[i] for i in form.values], length)
        return lambda node, txn, first: _put(node, txn, keys, values)
    return lambda node, txn, first: _merge(access, operations, node, txn, keys, numbers)


def plan_one(access: TableAccess, key: bytes, named: Sequence[int], values: Sequence[Any]) -> Apply:
    """`plan` of a single put, of physical values of all columns (their defaults where not named)."""
    form = access.form
    if all(i in named for i in form.values):
        row = form.value_layout.pack([values[i] for i in form.values])
        return lambda node, txn, first: _put(node, txn, [key], [row])

    def merge(node: Node, txn: Any, first: int) -> None:
        old = txn.get(key, db=node.rows)
        if old is None:
            for i in form.required:
                if values[i] is None:
                    raise _left_unset(access, i)
            merged = [values[i] for i in form.values]
        else:
            merged = access.unpack(old)
            for at, i in enumerate(form.values):
                if i in named:
                    merged[at] = values[i]
        txn.put(key, form.value_layout.pack(merged), db=node.rows)

    return merge


def _put(node: Node, txn: Any, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
    txn.cursor(node.rows).putmulti(zip(keys, values, strict=True))


def _delete(node: Node, txn: Any, keys: Sequence[bytes]) -> None:
    for key in keys:
        txn.delete(key, db=node.rows)


def _clear(access: TableAccess, operations: Operations, node: Node, txn: Any, keys: Sequence[bytes]) -> None:
    """Make the named columns NULL where the row exists."""
    assert operations.named is not None, "a column delete names columns"
    form = access.form
    for key, mask in zip(keys, operations.named, strict=True):
        old = txn.get(key, db=node.rows)
        if old is not None:
            values = access.unpack(old)
            for at, i in enumerate(form.values):
                if mask[i >> 3] >> (i & 7) & 1:
                    values[at] = None
            txn.put(key, form.value_layout.pack(values), db=node.rows)


def _merge(
    access: TableAccess, puts: Operations, node: Node, txn: Any, keys: Sequence[bytes], numbers: np.ndarray
) -> None:
    """Set the named columns; of several puts of one key the later wins, column by column.  A row that is not there yet
    begins as the first of them has its columns, named or not."""
    assert puts.named is not None, "a partial put says which columns it names"
    form, length = access.form, len(puts)
    encoded = pa.array(keys, pa.large_binary()).dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(distinct)))
    found = dict(txn.cursor(node.rows).getmulti(distinct))
    exists = np.fromiter((key in found for key in distinct), bool, len(distinct))
    for i in form.required:
        unset = ~exists & is_null(puts.columns[i])[order[starts]]
        if unset.any():
            raise _left_unset(access, i, int(numbers[order[starts][unset].min()]))
    old = access.values([found[key] for key in distinct if key in found])
    in_old = np.cumsum(exists) - 1
    columns = []
    for at, i in enumerate(form.values):
        places = np.where(bits(puts.named, i)[order], np.arange(length), -1)
        last = np.maximum.reduceat(places, starts)
        source = np.where(last >= 0, order[last], np.where(exists, length + in_old, order[starts]))
        both = pa.concat_arrays([puts.columns[i], old[at]])
        columns.append(both.take(pa.array(source)))
    _put(node, txn, distinct, form.value_layout.encode(columns, len(distinct)))


def _left_unset(access: TableAccess, i: int, row: int | None = None) -> InputError:
    table = access.form.table
    why = f": there is no such row yet, and column {table.columns[i].name}, which is NOT NULL, is missing"
    return InputError(table.name + why) if row is None else RowError(f"{table.name}, ", row, why)
