"""A foreign program that keeps rows of orders in HBase with a connection of its own, and reads them by a scan."""

from __future__ import annotations

import random
import struct
import time
from decimal import Decimal
from typing import Any

import happybase

from viewkeeper.servers import HBase

COLUMNS = "(id BIGINT, customer INT, price DECIMAL(15,2), note STRING, PRIMARY KEY (id))"
MAPPED = "customer=f:customer:int, price=f:price:text, note=g:note:text"
Row = tuple[int | None, Decimal | None, str | None]


def key_of(id_: int) -> bytes:
    return struct.pack(">q", id_)


class HBaseRows:
    """The table `name`, with the families f and g, which keep one version of a cell."""

    def __init__(self, server: HBase, name: str, versions: int = 1, timeout: int = 60_000) -> None:
        self.server, self.name = server, name
        self.connection = happybase.Connection("127.0.0.1", server.port, timeout=timeout)
        if name.encode() not in self.connection.tables():
            family = {"max_versions": versions}
            self.connection.create_table(name, {"f": family, "g": family})
        self.table = self.connection.table(name)

    @property
    def options(self) -> str:
        return (f"OPTIONS (thrift '{self.server.address}', wal '{self.server.root.as_uri()}', table '{self.name}', "
                f"key 'long', columns '{MAPPED}')")  # fmt: skip

    def declared(self, more: str = "", columns: str = COLUMNS) -> str:
        return f"CREATE TABLE orders {columns} USING hbase {self.options}; {more}"

    def rows(self) -> dict[int, Row]:
        """What a scan finds now."""
        found = {}
        for key, cells in self.table.scan(columns=[b"f:customer", b"f:price", b"g:note"]):
            customer, price, note = (cells.get(name) for name in (b"f:customer", b"f:price", b"g:note"))
            found[struct.unpack(">q", key)[0]] = (
                None if customer is None else struct.unpack(">i", customer)[0],
                None if price is None else Decimal(price.decode()), None if note is None else note.decode(),
            )  # fmt: skip
        return found

    def fill(self, ids: range) -> None:
        """Whole rows, a thousand at once."""
        with self.table.batch(batch_size=3000) as batch:
            for id_ in ids:
                cells = {b"f:customer": struct.pack(">i", id_ % 7), b"f:price": f"{id_ % 500}.00".encode()}
                batch.put(key_of(id_), cells | {b"g:note": b"x"})

    def change(self, chance: random.Random, operations: int, keys: int = 40, at_once: int = 7, stamped: bool = False
               ) -> None:  # fmt: skip
        """Random puts of some cells, deletes of rows, families and columns, and puts again, several in one batch, of
        which several may be of one key; `stamped`: with timestamps out of order."""
        for start in range(0, operations, at_once):
            stamp = time.time_ns() // 1_000_000 + chance.randrange(-5_000, 0) if stamped else None
            with self.table.batch(timestamp=stamp) as batch:
                for _ in range(min(at_once, operations - start)):
                    self._change(batch, chance, keys)

    def _change(self, batch: Any, chance: random.Random, keys: int) -> None:
        row, kind = key_of(chance.randrange(keys)), chance.random()
        cells = {
            b"f:customer": struct.pack(">i", chance.choice([1, 2, 3])), b"f:other": b"nobody's",
            b"f:price": f"{chance.randrange(500) / 100:.2f}".encode(), b"g:note": chance.choice([b"x", b"\xc3\xa9"]),
        }  # fmt: skip
        if kind < 0.2:
            batch.delete(row)
        elif kind < 0.25:
            batch.delete(row, columns=[chance.choice([b"f", b"g"])])
        elif kind < 0.35:
            batch.delete(row, columns=chance.sample(list(cells), chance.randrange(1, 3)))
        else:
            batch.put(row, cells if kind < 0.7 else {name: cells[name] for name in chance.sample(list(cells), 1)})

    def close(self) -> None:
        self.connection.close()
