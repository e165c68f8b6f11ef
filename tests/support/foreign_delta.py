"""What a foreign program finds in a Delta table of a view that is written there."""

from __future__ import annotations

from pathlib import Path

import duckdb
from deltalake import DeltaTable

from foreign_rows import Found


class DeltaPlace:
    """Views in tables in one folder, written as often as there is something to write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, view: str) -> Path:
        return self.folder / view

    def using(self, view: str) -> str:
        return f"USING delta OPTIONS (path '{self.path(view)}', every_seconds '0')"

    def table(self, view: str) -> DeltaTable:
        return DeltaTable(str(self.path(view)))

    def rows(self, view: str, columns: list[str]) -> Found:
        """DuckDB's answer over the files of the newest version."""
        found = Found()
        if not DeltaTable.is_deltatable(str(self.path(view))):
            return found
        table = self.table(view).to_pyarrow_dataset()
        names = ", ".join(f'CAST("{name}" AS VARCHAR)' for name in columns)
        times = '"viewkeeper:times"' if "viewkeeper:times" in table.schema.names else "1"
        connection = duckdb.connect()
        connection.register("t", table)
        for *row, count in connection.sql(f"SELECT {names}, {times} FROM t").fetchall():
            found[tuple(row)] += count
        return found

    def version(self, view: str) -> int | None:
        return self.table(view).transaction_version("viewkeeper.version")
