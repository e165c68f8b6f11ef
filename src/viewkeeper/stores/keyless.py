"""Writing rows of tables without a primary key: each put adds a row under an id made of node and sequence.

The table `equal` finds equal rows: by the hash of a whole row, the ids of the rows that have it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from viewkeeper.changes.operations import ROW_ID_NODE_BITS, Operations
from viewkeeper.stores.access import Apply, TableAccess
from viewkeeper.stores.intake import canonical_value
from viewkeeper.stores.node import Node
from viewkeeper.trace.hashing import canonical

_ID = struct.Struct(">q")
_HASH = struct.Struct(">Q")


def plan(access: TableAccess, puts: Operations, number: int, hashes: np.ndarray) -> Apply:
    """How the rows of `puts`, all of node `number`, are written; `hashes` are those of the whole rows."""
    values = access.form.value_layout.encode(puts.columns, len(puts))
    index = [access.prefix + data for data in hashes.astype(">u8").view("V8").tolist()]

    def put(node: Node, txn: Any, first: int) -> None:
        ids = (
            (np.int64(number) << ROW_ID_NODE_BITS | np.arange(first, first + len(values)))
            .astype(">i8")
            .view("V8")
            .tolist()
        )
        keys = [access.prefix + id_ for id_ in ids]
        txn.cursor(node.rows).putmulti(zip(keys, values, strict=True))
        txn.cursor(node.equal).putmulti(zip(index, ids, strict=True))

    return put


def plan_one(access: TableAccess, values: Sequence[Any], number: int, hash_: int) -> Apply:
    """`plan` of a single put, of the physical values of a row."""
    row, index = access.form.value_layout.pack(values), access.prefix + _HASH.pack(hash_)

    def put(node: Node, txn: Any, first: int) -> None:
        id_ = _ID.pack(number << ROW_ID_NODE_BITS | first)
        txn.put(access.prefix + id_, row, db=node.rows)
        txn.put(index, id_, db=node.equal)

    return put


def plan_removal(access: TableAccess, deletes: Operations) -> Apply:
    """How rows that are there are removed, given by their ids."""

    def remove(node: Node, txn: Any, first: int) -> None:
        for id_ in deletes.columns[0].to_pylist():
            key = _ID.pack(id_)
            index = access.prefix + _HASH.pack(access.stored_hash(txn.pop(access.prefix + key, db=node.rows)))
            txn.delete(index, key, db=node.equal)

    return remove


def remove_one(access: TableAccess, node: Node, txn: Any, values: Sequence[Any], hash_: int) -> int | None:
    """Remove one row equal to `values` (physical), whose hash is `hash_`: its id; None if there is none."""
    cursor = txn.cursor(node.equal)
    key = access.prefix + _HASH.pack(hash_)
    wanted = _packed(access, values)
    if not cursor.set_key(key):
        return None
    for id_ in cursor.iternext_dup():
        row = txn.get(access.prefix + id_, db=node.rows)
        if _packed(access, access.unpack(row)) == wanted:
            txn.delete(key, id_, db=node.equal)
            txn.delete(access.prefix + id_, db=node.rows)
            return int(_ID.unpack(id_)[0])
    return None


def remove_older(access: TableAccess, node: Node, txn: Any, values: Sequence[Any]) -> int | None:
    """`remove_one` among rows with earlier layouts, which no hash of now finds: all of them are looked through."""
    wanted = _packed(access, values)
    for some in access.older_rows(node, txn):
        columns = [canonical(column) for column in access.values([value for _, value in some])]
        encoded = access.form.value_layout.encode(columns, len(some))
        if wanted in encoded:
            key, row = some[encoded.index(wanted)]
            id_ = key[len(access.prefix) :]
            txn.delete(access.prefix + _HASH.pack(access.stored_hash(row)), id_, db=node.equal)
            txn.delete(key, db=node.rows)
            return int(_ID.unpack(id_)[0])
    return None


def _packed(access: TableAccess, values: Sequence[Any]) -> bytes:
    return access.form.value_layout.pack([canonical_value(value) for value in values])
