"""What a foreign program finds in Cassandra of a view that is written there."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from cassandra import DriverException
from cassandra.cluster import NoHostAvailable, Session

from foreign_rows import Found
from viewkeeper.errors import StoreAway
from viewkeeper.servers import Cassandra

KEYSPACE = "views"


class CassandraPlace:
    """Views in tables whose names begin alike; `session` gives rows as dicts."""

    def __init__(self, session: Session, server: Cassandra, prefix: str, replicas: int = 1) -> None:
        self.session, self.server, self.prefix = session, server, prefix.replace("-", "_")
        session.execute(f"CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = "
                        f"{{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}")  # fmt: skip

    def table(self, view: str) -> str:
        return f"{self.prefix}_{view}"

    def using(self, view: str) -> str:
        points = ",".join(self.server.contact_points)
        return (f"USING cassandra OPTIONS (contact_points '{points}', port '{self.server.port}', keyspace "
                f"'{KEYSPACE}', table '{self.table(view)}')")  # fmt: skip

    def run(self, statement: str, view: str, *values: Any) -> list[dict[str, Any]]:
        """CQL, in which T is the view's table."""
        named = re.sub(r"\bT\b", f'{KEYSPACE}."{self.table(view)}"', statement)
        return list(self.session.execute(named, values or None))

    def rows(self, view: str, columns: list[str]) -> Found:
        found = Found()
        for row in self.run("SELECT * FROM T", view):
            values = tuple(row.get(column) for column in columns)
            found[tuple(None if each is None else str(each) for each in values)] += row.get("viewkeeper:times", 1)
        return found

    def marker(self, view: str) -> dict[str, Any]:
        rows = self.session.execute(f'SELECT * FROM {KEYSPACE}.viewkeeper_markers WHERE "table" = %s',
                                    [self.table(view)])  # fmt: skip
        return next(iter(rows), {})

    def version(self, view: str) -> int | None:
        version: int | None = self.marker(view).get("version")
        return version

    def tables(self, view: str) -> list[dict[str, Any]]:
        """The view's table, if there is one."""
        query = "SELECT id FROM system_schema.tables WHERE keyspace_name = %s AND table_name = %s"
        return list(self.session.execute(query, [KEYSPACE, self.table(view)]))


def until(do: Callable[[], object]) -> None:
    """Does it again where the store is away for long, or its client has not seen that it is there again."""
    while True:
        try:
            do()
            return
        except (StoreAway, NoHostAvailable, DriverException):
            time.sleep(0.2)
