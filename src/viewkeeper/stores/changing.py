"""What a change has read before it writes, and whether that still holds (`Store.change`).

Logs are read by all tables of a node, so a log that has grown says nothing yet: what counts is whether rows of a table
that was read as a whole were written, or rows that were read by key are others now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from viewkeeper.catalog.model import Table
from viewkeeper.changes import entries
from viewkeeper.stores.access import TableAccess
from viewkeeper.stores.moment import EmbeddedMoment
from viewkeeper.stores.node import SEQUENCE, Node
from viewkeeper.stores.node_environments import Nodes


class MomentRead(EmbeddedMoment):
    """A moment that remembers what it told: the tables that were read as a whole, and, of each node, the stored bytes
    of rows that were read by key, None where there was none."""

    def __init__(self, nodes: Nodes, txns: Sequence[Any], access: Callable[[Table], TableAccess]) -> None:
        super().__init__(nodes, txns, access)
        self._whole: set[int] = set()
        self._by_key: dict[int, dict[bytes, bytes | None]] = {}

    def rows(self, table: Table) -> Iterator[tuple[int, list[pa.Array]]]:
        self._whole.add(table.id)
        yield from super().rows(table)

    def _told(self, table: Table, keys: Sequence[pa.Array]) -> Iterator[tuple[list[bytes], dict[bytes, bytes]]]:
        for number, (here, told) in enumerate(super()._told(table, keys)):
            if here:
                self._by_key.setdefault(number, {}).update({key: told.get(key) for key in here})
            yield here, told

    @property
    def nodes_read(self) -> set[int]:
        """The nodes whose locks are held while it is seen whether all still holds."""
        return set(range(len(self._pairs))) if self._whole else set(self._by_key)

    def holds_still(self, nodes: Sequence[Node], txns: Mapping[int, Any]) -> bool:
        """Whether reading again, by the transactions `txns` on the nodes read, would tell the same."""
        for number in self.nodes_read:
            node, txn = nodes[number], txns[number]
            if node.end(txn) == self.positions[number]:
                continue
            if self._whole and not self._left_alone(node, txn, self.positions[number]):
                return False
            if any(txn.get(key, db=node.rows) != row for key, row in self._by_key.get(number, {}).items()):
                return False
        return True

    def _left_alone(self, node: Node, txn: Any, after: int) -> bool:
        """Whether no table that was read as a whole was written to behind a position; False where the log does not go
        back as far any more."""
        cursor = txn.cursor(node.log)
        if not cursor.set_key(SEQUENCE.pack(after + 1)):
            return False
        return not any(entries.table_of(entry) in self._whole for entry in cursor.iternext(keys=False, values=True))
