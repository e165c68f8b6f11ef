"""The same in stores that are clusters: Cassandra and HBase."""

from __future__ import annotations

import struct
from typing import Any

from benchmarks.support.orders_drawn import Row

KEYSPACE, FAMILY = "bench", "f"
WRITES_AT_ONCE = 1_000


class CassandraOrders:
    """A table, written by prepared statements, a hundred at once."""

    kind = "cassandra"

    def __init__(self, where: str, name: str) -> None:
        from cassandra.cluster import Cluster

        port, self._log = where.split(" ")
        self._port, self._name = int(port), name
        self._cluster = Cluster(["127.0.0.1"], port=self._port)
        self._session: Any = self._cluster.connect()
        self._session.execute(f"CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = "
                              "{'class': 'SimpleStrategy', 'replication_factor': 1}")  # fmt: skip
        self._session.execute(f"CREATE TABLE IF NOT EXISTS {KEYSPACE}.{name} (id bigint PRIMARY KEY, customer int, "
                              "price decimal) WITH cdc = true")  # fmt: skip
        self._insert = self._session.prepare(f"INSERT INTO {KEYSPACE}.{name} (id, customer, price) VALUES (?, ?, ?)")

    def declared(self) -> str:
        return (f"USING cassandra OPTIONS (contact_points '127.0.0.1', port '{self._port}', keyspace '{KEYSPACE}', "
                f"table '{self._name}', log_readers '{self._log}')")  # fmt: skip

    def published(self) -> str | None:
        return (f"USING cassandra OPTIONS (contact_points '127.0.0.1', port '{self._port}', keyspace '{KEYSPACE}', "
                f"table '{self._name}_view')")  # fmt: skip

    def write(self, rows: list[Row]) -> None:
        from decimal import Decimal

        from cassandra.concurrent import execute_concurrent_with_args

        given = [(id_, customer, Decimal(price)) for id_, customer, price in rows]
        execute_concurrent_with_args(self._session, self._insert, given, concurrency=WRITES_AT_ONCE)

    def read_log(self) -> int | None:
        return None

    def scan(self) -> int:
        return sum(1 for _ in self._session.execute(f"SELECT id, customer, price FROM {KEYSPACE}.{self._name}"))

    def close(self) -> None:
        self._cluster.shutdown()


class HBaseOrders:
    """A table, written through the Thrift gateway, a batch at once."""

    kind = "hbase"

    def __init__(self, where: str, name: str) -> None:
        import happybase

        port, self._root = where.split(" ")
        self._port, self._name = int(port), name
        self._connection = happybase.Connection("127.0.0.1", self._port, timeout=60_000)
        if name.encode() not in self._connection.tables():
            self._connection.create_table(name, {FAMILY: {"max_versions": 1}})
        self._table = self._connection.table(name)

    def declared(self) -> str:
        return (f"USING hbase OPTIONS (thrift '127.0.0.1:{self._port}', wal '{self._root}', table '{self._name}', "
                f"key 'long', columns 'customer={FAMILY}:customer:int, price={FAMILY}:price:text')")  # fmt: skip

    def published(self) -> str | None:
        return f"USING hbase OPTIONS (thrift '127.0.0.1:{self._port}', table '{self._name}_view')"

    def write(self, rows: list[Row]) -> None:
        with self._table.batch() as batch:
            for id_, customer, price in rows:
                batch.put(struct.pack(">q", id_), {f"{FAMILY}:customer".encode(): struct.pack(">i", customer),
                                                   f"{FAMILY}:price".encode(): price.encode()})  # fmt: skip

    def read_log(self) -> int | None:
        return None

    def scan(self) -> int:
        return sum(1 for _ in self._table.scan(batch_size=10_000))

    def close(self) -> None:
        self._connection.close()
