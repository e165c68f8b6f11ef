"""The tables in outside stores that a process has open."""

from __future__ import annotations

import threading

from viewkeeper.catalog.model import Table
from viewkeeper.stores.outside.contract import OutsideTable, declared
from viewkeeper.stores.outside.outside_kinds import kind_of_store


class OutsideTables:
    """Opens tables when they are first used, and again when they are declared otherwise; for any thread."""

    def __init__(self, zone: str) -> None:
        self.zone = zone
        self._lock = threading.Lock()
        self._open: dict[int, OutsideTable] = {}

    def of(self, table: Table) -> OutsideTable:
        """The open table.  Opening talks to nobody; raises InputError where a secret or a client is missing."""
        found = self._open.get(table.id)
        if found is not None and found.table is table:
            return found
        with self._lock:
            found = self._open.get(table.id)
            if found is None or declared(found.table) != declared(table):
                assert table.outside is not None
                if found is not None:
                    found.close()
                found = kind_of_store(table.outside.kind)(table, self.zone)
                self._open[table.id] = found
            found.table = table
            return found

    def close(self) -> None:
        """Closes all of them."""
        with self._lock:
            opened, self._open = self._open, {}
        for each in opened.values():
            each.close()
