"""All rows of the embedded store as of one moment, in physical columns, beside the positions that they agree with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from viewkeeper.catalog.model import Table
from viewkeeper.changes import entries
from viewkeeper.changes.operations import ROW_ID_NODE_BITS
from viewkeeper.stores.access import TableAccess
from viewkeeper.stores.contract import Moment
from viewkeeper.stores.history import hash_at
from viewkeeper.stores.node_environments import Nodes
from viewkeeper.trace.hashing import hash_columns


class EmbeddedMoment(Moment):
    """See `Moment`; `txns` are read transactions of one moment, one a node."""

    def __init__(self, nodes: Nodes, txns: Sequence[Any], access: Callable[[Table], TableAccess]) -> None:
        self._pairs, self._access = list(zip(nodes.nodes, txns, strict=True)), access
        self.positions = {number: node.end(txn) for number, (node, txn) in enumerate(self._pairs)}
        self.hashes = {number: hash_at(node, txn, self.positions[number])
                       for number, (node, txn) in enumerate(self._pairs)}  # fmt: skip
        self.stamp = max(_last_stamp(node.log, txn) for node, txn in self._pairs)

    def rows(self, table: Table) -> Iterator[tuple[int, list[pa.Array]]]:
        access = self._access(table)
        for number, (node, txn) in enumerate(self._pairs):
            for columns in access.physical(node, txn):
                yield number, columns

    def found(self, table: Table, keys: Sequence[pa.Array]) -> list[pa.Array]:
        return self._access(table).decoded([pair for _, told in self._told(table, keys) for pair in told.items()])

    def _told(self, table: Table, keys: Sequence[pa.Array]) -> Iterator[tuple[list[bytes], dict[bytes, bytes]]]:
        """Of each node the stored keys that would lie there, and its rows with these keys."""
        access, length = self._access(table), len(keys[0])
        placed = hash_columns(keys, length) % np.uint64(len(self._pairs))
        stored = access.keys_bytes(keys, np.arange(length))
        for number, (node, txn) in enumerate(self._pairs):
            access.require_current(node, txn)
            here = [stored[i] for i in np.flatnonzero(placed == number)]
            yield here, dict(txn.cursor(node.rows).getmulti(here))

    def holds(self, table: Table, keys: Sequence[pa.Array]) -> np.ndarray:
        access, length = self._access(table), len(keys[0])
        held = np.zeros(length, bool)
        if access.form.keyless:
            placed = keys[0].to_numpy() >> ROW_ID_NODE_BITS
        else:
            placed = hash_columns(keys, length) % np.uint64(len(self._pairs))
        stored = access.keys_bytes(keys, np.arange(length))
        for number, (node, txn) in enumerate(self._pairs):
            here = np.flatnonzero(placed == number)
            found = dict(txn.cursor(node.rows).getmulti([stored[i] for i in here]))
            held[here] = [stored[i] in found for i in here]
        return held


def _last_stamp(log: Any, txn: Any) -> int:
    cursor = txn.cursor(log)
    counted = entries.count_and_stamp(cursor.value()) if cursor.last() else None
    return counted[1] if counted else 0
