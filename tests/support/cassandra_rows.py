"""A foreign program that writes a table in Cassandra with its own client; what it reads there by CQL is right."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, Session
from cassandra.policies import RoundRobinPolicy
from cassandra.query import dict_factory

from viewkeeper.servers import Cassandra
from viewkeeper.servers.cassandra_log import CassandraLog

COLUMNS = "id bigint PRIMARY KEY, customer int, price decimal, note text, more int"
DECLARED = "(id BIGINT, customer INT, price DECIMAL(15,2), note STRING, PRIMARY KEY (id))"


@contextmanager
def connected(server: Cassandra) -> Iterator[Session]:
    """A client that is content when most replicas have answered."""
    quorum = ExecutionProfile(RoundRobinPolicy(), consistency_level=ConsistencyLevel.QUORUM, request_timeout=60,
                              row_factory=dict_factory)  # fmt: skip
    with Cluster(server.contact_points, port=server.port, execution_profiles={EXEC_PROFILE_DEFAULT: quorum},
                 protocol_version=5) as cluster:  # fmt: skip
        yield cluster.connect()


class CassandraRows:
    """The table `name` in the keyspace `shop`; `logs` serve its nodes' logs."""

    def __init__(self, session: Session, server: Cassandra, logs: list[CassandraLog], name: str,
                 columns: str = COLUMNS, more: str = "", replicas: int = 1) -> None:  # fmt: skip
        self.session, self.server, self.logs, self.name = session, server, logs, name
        session.execute("CREATE KEYSPACE IF NOT EXISTS shop WITH replication = "
                        f"{{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}")  # fmt: skip
        session.execute(f'CREATE TABLE shop."{name}" ({columns}) WITH cdc = true{more}')

    @property
    def options(self) -> str:
        readers = ",".join(each.address for each in self.logs)
        points = ",".join(self.server.contact_points)
        return (f"OPTIONS (contact_points '{points}', port '{self.server.port}', keyspace 'shop', "
                f"table '{self.name}', log_readers '{readers}')")  # fmt: skip

    def declared(self, more: str = "", columns: str = DECLARED) -> str:
        return f"CREATE TABLE orders {columns} USING cassandra {self.options}; {more}"

    def run(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """CQL, in which T is the table."""
        return list(self.session.execute(statement.replace(" T ", f' shop."{self.name}" '), values or None))

    def rows(self) -> list[dict[str, Any]]:
        return self.run("SELECT * FROM T ")

    def put(self, id_: int, **values: Any) -> None:
        names = ", ".join(["id", *values])
        marks = ", ".join(["%s"] * (1 + len(values)))
        self.run(f"INSERT INTO T ({names}) VALUES ({marks})", id_, *values.values())

    def delete(self, id_: int) -> None:
        self.run("DELETE FROM T WHERE id = %s", id_)

    def change(
        self, chance: random.Random, operations: int, keys: int = 20, timed: bool = True, updates: bool = True
    ) -> None:
        """Random inserts, updates and deletions, some of several on one key, some in one step; `timed`: half of them
        with timestamps in any order, and ties; `updates`: some make rows that nobody has inserted."""
        for _ in range(operations):
            statement, values = self._operation(chance, keys, timed, updates)
            self.run(statement, *values)

    def _operation(self, chance: random.Random, keys: int, timed: bool, updates: bool) -> tuple[str, list[Any]]:
        id_, kind = chance.randrange(keys), chance.random()
        if timed and kind < 0.1:
            steps = [self._operation(chance, keys, False, updates) for _ in range(3)]
            joined = "; ".join(statement for statement, _ in steps)
            return f"BEGIN UNLOGGED BATCH {joined}; APPLY BATCH", [value for _, values in steps for value in values]
        stamp = f" USING TIMESTAMP {chance.randrange(1, 30)}" if timed and chance.random() < 0.5 else ""
        values = {
            "customer": chance.choice([None, 1, 2, 3, -1]), "note": chance.choice([None, "x", "é\n", ""]),
            "price": chance.choice([None, Decimal(chance.randrange(-500, 500)).scaleb(-2)]),
            "more": chance.randrange(5),
        }  # fmt: skip
        if kind < 0.3:
            return f"DELETE FROM T {stamp} WHERE id = %s", [id_]
        if kind < 0.4:
            name = chance.choice(list(values))
            return f"DELETE {name} FROM T {stamp} WHERE id = %s", [id_]
        is_insert = kind < 0.7 or not updates
        if not is_insert:
            del values["more"]  # a row that has it alone is there in the table, and not here
        some = dict(chance.sample(list(values.items()), chance.randrange(1, 4)))
        given = list(some.values())
        if is_insert:
            marks = ", ".join(["%s"] * (1 + len(some)))
            return f"INSERT INTO T ({', '.join(['id', *some])}) VALUES ({marks}){stamp}", [id_, *given]
        sets = ", ".join(f"{name} = %s" for name in some)
        return f"UPDATE T {stamp} SET {sets} WHERE id = %s", [*given, id_]
