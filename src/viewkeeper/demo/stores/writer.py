"""The writing process: orders by Cassandra's driver, products by Kafka's client, customers by viewkeeper's.

`python -m viewkeeper.demo.stores.writer FOLDER ORDERS OPERATIONS_PER_SECOND CASSANDRA_PORT BOOTSTRAP_SERVERS`
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from typing import Any

import viewkeeper
from viewkeeper.demo.process import ready, tell, told_to_stop
from viewkeeper.demo.stores.places import CassandraClient, KafkaClient
from viewkeeper.demo.stores.shop import CATEGORIES, CUSTOMERS, NATIONS, PRODUCTS, Shop

NEW, AMENDED, CANCELLED = 40, 40, 15
"""Orders a round."""


def main(folder: str, orders: int, rate: float, port: int, bootstrap_servers: str) -> None:
    """Writes until told to stop; tells how many orders, products and customers were written."""
    shop, chance = Shop(orders), random.Random(12)
    there, next_number = list(shop.orders()), orders
    products = shop.products()
    done: Counter[str] = Counter({"ordered": 0, "amended": 0, "cancelled": 0, "products": 0, "customers": 0})
    kafka = KafkaClient(bootstrap_servers)
    with viewkeeper.connect(folder) as db, CassandraClient(port) as cassandra:
        ready(**done)
        begin = time.monotonic()
        while not told_to_stop(begin + done.total() / rate - time.monotonic()):
            new = [shop.order(number) for number in range(next_number, next_number + NEW)]
            next_number += NEW
            cassandra.put(new)
            amended = [order._replace(quantity=chance.randrange(1, 9)) for order in chance.sample(there, AMENDED)]
            cassandra.amend(amended)
            gone = chance.sample(there, CANCELLED)
            cassandra.cancel(gone)
            left = chance.randrange(CUSTOMERS)  # all of this customer's orders go by one statement
            cassandra.forget(left)
            numbers = {order.id for order in gone}
            cancelled = [order for order in there if order.id in numbers or order.customer == left]
            there = [order for order in [*there, *new] if order.id not in numbers and order.customer != left]
            done.update(
                ordered=NEW, amended=AMENDED, cancelled=len(cancelled), products=_product(kafka, products, chance)
            )
            db.table("customers").put({"id": chance.randrange(CUSTOMERS), "nation": chance.choice(NATIONS)})
            done["customers"] += 1
            tell(**done)


def _product(kafka: KafkaClient, products: list[dict[str, Any]], chance: random.Random) -> int:
    """Puts a product into another category."""
    id_ = chance.randrange(PRODUCTS)
    before, products[id_] = products[id_], Shop.product(id_, chance.choice(CATEGORIES))
    kafka.send(before, products[id_])
    kafka.flush()
    return 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
