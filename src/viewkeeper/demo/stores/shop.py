"""A made-up shop: customers, products, and orders that come, change and go."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

CUSTOMERS, PRODUCTS = 2_000, 100
PROBE, PROBING = CUSTOMERS, "Probe"
"""A customer whose one order, of product 0, is written again and again to see how soon that is in Redis; and their
nation."""

NATIONS = ("Austria", "Brazil", "Chad", "Denmark", "Egypt", "France", "Ghana", "Hungary", "India", "Japan")
CATEGORIES = ("books", "flowers", "music", "shoes", "tea")


class ShopOrder(NamedTuple):
    """A row of Cassandra's table: of a customer, the partition, the order's number and what was ordered."""

    customer: int
    id: int
    product: int
    quantity: int
    price: Decimal


class Shop:
    """`count` orders before the demo begins; the same whenever it is made."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._chance = random.Random(11)

    def customers(self) -> list[dict[str, Any]]:
        """All customers."""
        usual = [{"id": id_, "name": f"Customer {id_}", "nation": NATIONS[id_ % len(NATIONS)]}
                 for id_ in range(CUSTOMERS)]  # fmt: skip
        return [*usual, {"id": PROBE, "name": "Probe", "nation": PROBING}]

    def products(self) -> list[dict[str, Any]]:
        """All products."""
        return [self.product(id_, CATEGORIES[id_ % len(CATEGORIES)]) for id_ in range(PRODUCTS)]

    @staticmethod
    def product(id_: int, category: str) -> dict[str, Any]:
        """One product, in a category."""
        return {"id": id_, "name": f"Product {id_}", "category": category}

    def orders(self) -> Iterator[ShopOrder]:
        """Those that there are when the demo begins."""
        return (self.order(number) for number in range(self.count))

    @staticmethod
    def probe(quantity: int) -> ShopOrder:
        """The order of the probe."""
        return ShopOrder(PROBE, 0, 0, quantity, Decimal("1.00"))

    def order(self, number: int) -> ShopOrder:
        """A new order."""
        chance = self._chance
        return ShopOrder(number % CUSTOMERS, number, chance.randrange(PRODUCTS), chance.randrange(1, 9), self.price())

    def price(self) -> Decimal:
        """Of one piece."""
        return Decimal(self._chance.randrange(100, 10_000)).scaleb(-2)
