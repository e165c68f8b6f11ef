"""The servers of the demo, and what is in them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from viewkeeper.database import Database
from viewkeeper.demo.stores.shop import Shop, ShopOrder
from viewkeeper.errors import InputError
from viewkeeper.servers import Cassandra, Kafka, Redis
from viewkeeper.servers.cassandra_log import CassandraLog

MEMORY_MB = 3_000
KEYSPACE, TABLE, TOPIC, VIEW = "shop", "orders", "shop.products", "spend"
AT_ONCE = 200
"""So many statements wait for Cassandra's answer."""

_MISSING = "the demo of stores needs {}: pip install 'viewkeeper[{}]'"

Spend = dict[tuple[str, str], tuple[int, int, Decimal]]
"""By nation and category: orders, pieces, and what was paid for them."""


class StoresOfDemo:
    """Cassandra with the program that serves its log, Kafka and Redis, all below `folder`; `with` it they run."""

    def __init__(self, folder: Path) -> None:
        self._cassandra = Cassandra(folder / "cassandra", nodes=1)
        self._kafka, self._redis = Kafka(folder / "kafka"), Redis(folder / "redis")
        config = self._cassandra.node_folder(1) / "cassandra.yaml"
        self._log = CassandraLog(folder / "cassandra-log", config)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack as started, ThreadPoolExecutor() as pool:
            running = [pool.submit(started.enter_context, each) for each in (self._cassandra, self._kafka, self._redis)]
            for each in running:
                each.result()
            started.enter_context(self._log)
            self._stack = started.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._stack.close()

    @property
    def arguments(self) -> Sequence[str]:
        """Where they are, for other processes."""
        return str(self._cassandra.port), self._kafka.address

    @property
    def cassandra_port(self) -> int:
        return self._cassandra.port

    @property
    def bootstrap_servers(self) -> str:
        return self._kafka.address

    @property
    def log_reader(self) -> str:
        return self._log.address

    @property
    def url(self) -> str:
        return self._redis.url

    def make(self, shop: Shop) -> None:
        """The tables of Cassandra and Kafka, with what is in them when the demo begins."""
        with CassandraClient(self._cassandra.port) as orders:
            orders.make()
            orders.put(list(shop.orders()))
        products = KafkaClient(self._kafka.address)
        for each in shop.products():
            products.send(None, each)
        products.flush()

    def expected(self, db: Database) -> Spend:
        """What Redis must hold, computed row by row from what Cassandra's own client reads."""
        nations = {row["id"]: row["nation"] for row in db.sql("SELECT id, nation FROM customers")}
        categories = {row["id"]: row["category"] for row in db.sql("SELECT id, category FROM products")}
        found: dict[tuple[str, str], list[Any]] = defaultdict(lambda: [0, 0, Decimal(0)])
        with CassandraClient(self._cassandra.port) as orders:
            for order in orders.rows():
                group = found[nations[order.customer], categories[order.product]]
                group[0] += 1
                group[1] += order.quantity
                group[2] += order.quantity * order.price
        return {key: (count, pieces, amount) for key, (count, pieces, amount) in found.items()}


def declarations(places: StoresOfDemo) -> str:
    """What is declared."""
    return f"""
CREATE TABLE customers (id INT, name STRING, nation STRING, PRIMARY KEY (id));
CREATE TABLE products (id INT, name STRING, category STRING, PRIMARY KEY (id))
  USING kafka OPTIONS (bootstrap_servers '{places.bootstrap_servers}', topic '{TOPIC}', format 'debezium-json');
CREATE TABLE orders (customer INT, id INT, product INT, quantity INT, price DECIMAL(9,2), PRIMARY KEY (customer, id))
  USING cassandra OPTIONS (contact_points '127.0.0.1', port '{places.cassandra_port}', keyspace '{KEYSPACE}',
                           table '{TABLE}', log_readers '{places.log_reader}');
CREATE VIEW {VIEW} USING redis OPTIONS (url '{places.url}', prefix '{VIEW}') AS
  SELECT c.nation, p.category, count(*) AS orders, sum(o.quantity) AS pieces, sum(o.quantity * o.price) AS amount
  FROM orders o JOIN products p ON o.product = p.id JOIN customers c ON o.customer = c.id
  GROUP BY c.nation, p.category
"""


class CassandraClient:
    """Orders, as any program writes them with Cassandra's own driver."""

    def __init__(self, port: int) -> None:
        try:
            from cassandra.cluster import Cluster
        except ImportError as error:
            raise InputError(
                "the demo of stores needs Cassandra's driver: pip install 'viewkeeper[cassandra]'"
            ) from error
        self._cluster = Cluster(["127.0.0.1"], port=port)
        self._session = self._cluster.connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._cluster.shutdown()

    def make(self) -> None:
        """The keyspace, and the table whose changes are kept for readers."""
        self._session.execute(f"CREATE KEYSPACE {KEYSPACE} WITH replication = "
                              "{'class': 'SimpleStrategy', 'replication_factor': 1}")  # fmt: skip
        self._session.execute(f"CREATE TABLE {KEYSPACE}.{TABLE} (customer int, id int, product int, quantity int, "
                              "price decimal, PRIMARY KEY (customer, id)) WITH cdc = true")  # fmt: skip

    def put(self, orders: Sequence[ShopOrder]) -> None:
        """Inserts them, or writes them anew."""
        self._run(f"INSERT INTO {KEYSPACE}.{TABLE} (customer, id, product, quantity, price) VALUES (?, ?, ?, ?, ?)",
                  orders)  # fmt: skip

    def amend(self, orders: Sequence[ShopOrder]) -> None:
        """Changes how many pieces they are of."""
        self._run(f"UPDATE {KEYSPACE}.{TABLE} SET quantity = ? WHERE customer = ? AND id = ?",
                  [(order.quantity, order.customer, order.id) for order in orders])  # fmt: skip

    def cancel(self, orders: Sequence[ShopOrder]) -> None:
        """Deletes them."""
        self._run(f"DELETE FROM {KEYSPACE}.{TABLE} WHERE customer = ? AND id = ?",
                  [(order.customer, order.id) for order in orders])  # fmt: skip

    def forget(self, customer: int) -> None:
        """Deletes all orders of a customer by one statement."""
        self._run(f"DELETE FROM {KEYSPACE}.{TABLE} WHERE customer = ?", [(customer,)])

    def rows(self) -> Sequence[ShopOrder]:
        """All that are there."""
        found = self._session.execute(f"SELECT customer, id, product, quantity, price FROM {KEYSPACE}.{TABLE}")
        return [ShopOrder(*row) for row in found]

    def _run(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        from cassandra.concurrent import execute_concurrent_with_args

        execute_concurrent_with_args(self._session, self._session.prepare(statement), rows, concurrency=AT_ONCE)


class KafkaClient:
    """Products, as Debezium writes them."""

    def __init__(self, bootstrap_servers: str) -> None:
        try:
            from confluent_kafka import Producer
        except ImportError as error:
            raise InputError(_MISSING.format("Kafka's client", "kafka")) from error
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 5})

    def send(self, before: dict[str, Any] | None, after: dict[str, Any]) -> None:
        """An envelope."""
        envelope = {"before": before, "after": after, "op": "c" if before is None else "u", "source": {}}
        self._producer.produce(TOPIC, json.dumps(envelope), json.dumps({"id": after["id"]}))

    def flush(self) -> None:
        """Returns when all is acknowledged."""
        self._producer.flush()
