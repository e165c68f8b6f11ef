"""The views of the demo: one of each class that viewkeeper keeps."""

from __future__ import annotations

from typing import NamedTuple


class DemoView(NamedTuple):
    """A view, and in a few words what kind of view it is."""

    name: str
    kind: str
    query: str


INDEX = "orders_by_customer"

VIEWS = (
    DemoView(
        "urgent_open", "selection",
        "SELECT o_orderkey, o_custkey, o_totalprice FROM orders "
        "WHERE o_orderstatus = 'O' AND o_orderpriority = '1-URGENT'",
    ),
    DemoView(
        "order_days", "projection without key",
        "SELECT o_custkey, o_orderdate FROM orders",
    ),
    DemoView(
        "order_book", "COUNT, SUM of all",
        "SELECT count(*) AS orders, sum(o_totalprice) AS total FROM orders",
    ),
    DemoView(
        "priorities", "COUNT, SUM by priority",
        "SELECT o_orderpriority, count(*) AS orders, sum(o_totalprice) AS total FROM orders GROUP BY o_orderpriority",
    ),
    DemoView(
        "pricing_summary", "SUM, AVG (TPC-H Q1)",
        "SELECT l_returnflag, l_linestatus, count(*) AS items, sum(l_quantity) AS quantity, "
        "sum(l_extendedprice * (1 - l_discount)) AS revenue, "
        "sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charge, avg(l_discount) AS discount "
        "FROM lineitem WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus",
    ),
    DemoView(
        "customer_spend", "COUNT, SUM by customer",
        "SELECT o_custkey, count(*) AS orders, sum(o_totalprice) AS total FROM orders GROUP BY o_custkey",
    ),
    DemoView(
        "customer_range", "MIN, MAX by customer",
        "SELECT o_custkey, min(o_orderdate) AS first_order, max(o_orderdate) AS last_order, "
        "max(o_totalprice) AS largest FROM orders GROUP BY o_custkey",
    ),
    DemoView(
        "segment_revenue", "3-table join, SUM (Q3)",
        "SELECT c_mktsegment, sum(l_extendedprice * (1 - l_discount)) AS revenue, count(*) AS items "
        "FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey "
        "WHERE o_orderdate >= DATE '1997-01-01' AND l_shipdate < DATE '1998-09-01' GROUP BY c_mktsegment",
    ),
    DemoView(
        "nation_spend", "join over a view, SUM",
        "SELECT n_name, count(*) AS customers, sum(total) AS total FROM customer_spend "
        "JOIN customer ON c_custkey = o_custkey JOIN nation ON n_nationkey = c_nationkey GROUP BY n_name",
    ),
)  # fmt: skip

DECLARATIONS = ";\n".join(
    [f"CREATE VIEW {view.name} AS {view.query}" for view in VIEWS] + [f"CREATE INDEX {INDEX} ON orders (o_custkey)"]
)
"""One script, so one change of the catalog and one filling."""
