"""What a foreign program finds in HBase of a view that is written there."""

from __future__ import annotations

import json
from typing import Any

import happybase

from foreign_rows import Found
from viewkeeper.servers import HBase

MARKER = b"viewkeeper:marker"


class HBasePlace:
    """Views in tables whose names begin alike, written through `address`; `more` are further options of some."""

    def __init__(
        self, server: HBase, prefix: str, more: dict[str, str] | None = None, address: str | None = None
    ) -> None:
        self.server, self.prefix, self._more = server, prefix, more or {}
        self._address = address or server.address
        self.connect()

    def connect(self) -> None:
        """Once more, where the gateway was away."""
        self.connection = happybase.Connection("127.0.0.1", self.server.port, timeout=60_000)

    def name(self, view: str) -> str:
        return f"{self.prefix}.{view}"

    def using(self, view: str) -> str:
        return (f"USING hbase OPTIONS (thrift '{self._address}', table '{self.name(view)}'"
                f"{self._more.get(view, '')})")  # fmt: skip

    def table(self, view: str) -> Any:
        return self.connection.table(self.name(view))

    def rows(self, view: str, columns: list[str]) -> Found:
        """What a scan of the rows' family finds; what is NULL has no cell."""
        found = Found()
        if self.name(view).encode() not in self.connection.tables():
            return found
        for _, cells in self.table(view).scan(columns=[b"f"]):
            assert b"f:viewkeeper:version" in cells
            nulls = json.loads(cells[b"f:viewkeeper:null"])
            assert not [name for name in nulls if f"f:{name}".encode() in cells]
            row = (cells.get(f"f:{name}".encode()) for name in columns)
            times = int(cells.get(b"f:viewkeeper:times", b"1"))
            found[tuple(None if value is None else value.decode() for value in row)] += times
        return found

    def marker(self, view: str) -> dict[str, Any]:
        cell = self.table(view).row(b"viewkeeper", columns=[MARKER])
        said: dict[str, Any] = json.loads(cell[MARKER])
        return said

    def version(self, view: str) -> int | None:
        said = self.marker(view)
        return None if "writing" in said else said["version"]
