"""A shop, and the queries that analysts would ask of it: written by somebody who had not seen how views are kept."""

from __future__ import annotations

import datetime
import random
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

TABLES = {
    "customers": """id BIGINT, name STRING, email STRING, country STRING, segment STRING, birth DATE, signup TIMESTAMP,
        active BOOLEAN, credit DECIMAL(12,2), PRIMARY KEY (id)""",
    "products": """id BIGINT, name STRING, category STRING, price DECIMAL(10,2), weight DOUBLE, tags STRING, stock INT,
        PRIMARY KEY (id)""",
    "orders": """id BIGINT, customer_id BIGINT, status STRING, ordered_at TIMESTAMP, shipped DATE, coupon STRING,
        total DECIMAL(12,2), priority INT, PRIMARY KEY (id)""",
    "order_lines": """order_id BIGINT, line INT, product_id BIGINT, quantity INT, price DECIMAL(10,2), discount DOUBLE,
        PRIMARY KEY (order_id, line)""",
    "refunds": "id BIGINT, order_id BIGINT, amount DECIMAL(10,2), reason STRING, refunded_on DATE, PRIMARY KEY (id)",
    "events": "user_id BIGINT, at TIMESTAMP, page STRING, kind STRING, payload STRING, duration DOUBLE",
    "employees": """id BIGINT, name STRING, manager_id BIGINT, department STRING, salary DECIMAL(10,2), hired DATE,
        bonus DOUBLE, remote BOOLEAN, PRIMARY KEY (id)""",
    "budgets": "department STRING, month DATE, amount DECIMAL(12,2), PRIMARY KEY (department, month)",
}
"""Columns of each table; `events` have no key."""

_SIZES = {"customers": 30, "products": 20, "orders": 80, "order_lines": 120, "refunds": 20, "events": 80,
          "employees": 20, "budgets": 20}  # fmt: skip
_WORDS = {
    "name": ["Anna Berg", "ben  ", "Ola-Nordmann", "", "MIA von B", "zoë", "a%b_c", "Jan 2"],
    "email": ["anna@shop.com", " Ben@MAIL.org ", "c@d@e", "broken", ""], "country": ["DE", "FR", "NO", ""],
    "segment": ["gold", "silver", "new"], "category": ["toys", "books", "food"],
    "coupon": ["", "12", "X1", " 7 ", "999"], "status": ["shipped", "cancelled", "open", "returned"],
    "tags": ["new,red", "new", "", ",", "a, bc ,new", "red,red"],
    "reason": ["late", "broken"], "kind": ["view", "buy"], "page": ["/", "/cart", "/cart/pay", "/p/7?x=1", ""],
    "payload": ['{"ref": "mail", "n": 3}', '{"ref": null}', '{"n": "x"}', "no json", "{}"],
    "department": ["sales", "it", "ops"],
}  # fmt: skip
_NAMED = {"order_id": "orders", "product_id": "products", "manager_id": "employees"}


def queries() -> dict[str, str]:
    """Each query by its name."""
    lines = Path(__file__).with_name("analyst_queries.sql").read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("--"))


def create(table: str) -> str:
    """Its CREATE TABLE statement."""
    return f"CREATE TABLE {table} ({' '.join(TABLES[table].split())})"


def keys(table: str) -> list[str]:
    """The names of its key columns."""
    return TABLES[table].split("KEY (")[1].rstrip(")").split(", ") if "KEY" in TABLES[table] else []


def rows(table: str, chance: random.Random) -> list[dict[str, Any]]:
    """Rows of few values, so that they meet; one in seven is NULL, and some keys come twice."""
    text = re.sub(r"\(\d+,2\)|,\s+PRIMARY.*", "", TABLES[table])
    columns = [part.split() for part in text.split(",")]
    return [{name: _value(name, type_, table, name in keys(table), chance) for name, type_ in columns}
            for _ in range(_SIZES[table])]  # fmt: skip


def _value(name: str, type_: str, table: str, key: bool, chance: random.Random) -> Any:
    if not key and chance.random() < 0.15:
        return None
    if name in _WORDS:
        return chance.choice(_WORDS[name])
    if name == "id" or name.endswith("_id"):
        return chance.randrange(1, _SIZES[table if name == "id" else _NAMED.get(name, "customers")])
    match type_:
        case "DATE":
            return datetime.date(2024, chance.randint(1, 3), chance.choice((1, 15, 29)))
        case "TIMESTAMP":
            minutes = datetime.timedelta(minutes=chance.choice((0, 1, 20, 29, 60, 61, 1439, 1440, 40_000, 90_000)))
            return datetime.datetime(2024, 1, chance.choice((1, 15, 31)), tzinfo=datetime.UTC) + minutes
        case "DECIMAL":
            return Decimal(chance.choice((-500, 0, 1, 1000, 1999, 4550, 9999, 15_000, 123_456))) / 100
        case "DOUBLE":
            return chance.choice((0.0, -0.0, 0.1, 2.5, -3.7, 100.0, 1e10))
        case "BOOLEAN":
            return chance.random() < 0.5
    return chance.randrange(4)
