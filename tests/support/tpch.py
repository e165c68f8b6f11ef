"""The 22 queries of TPC-H as views: with the validation's parameters, sums of dates worked out, without ORDER BY and
LIMIT; and small tables in which they find rows."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import Any

TABLES = {
    "region": "r_regionkey BIGINT, r_name STRING",
    "nation": "n_nationkey BIGINT, n_name STRING, n_regionkey BIGINT",
    "supplier": """s_suppkey BIGINT, s_name STRING, s_address STRING, s_nationkey BIGINT, s_phone STRING,
                   s_acctbal DECIMAL(15,2), s_comment STRING""",
    "customer": """c_custkey BIGINT, c_name STRING, c_address STRING, c_nationkey BIGINT, c_phone STRING,
                   c_acctbal DECIMAL(15,2), c_mktsegment STRING, c_comment STRING""",
    "part": """p_partkey BIGINT, p_name STRING, p_mfgr STRING, p_brand STRING, p_type STRING, p_size INT,
               p_container STRING""",
    "partsupp": "ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT, ps_supplycost DECIMAL(15,2)",
    "orders": """o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(15,2),
                 o_orderdate DATE, o_orderpriority STRING, o_shippriority INT, o_comment STRING""",
    "lineitem": """l_orderkey BIGINT, l_linenumber INT, l_partkey BIGINT, l_suppkey BIGINT, l_quantity DECIMAL(15,2),
                   l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag STRING,
                   l_linestatus STRING, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING,
                   l_shipmode STRING""",
}
"""The columns that the queries name."""

KEYS = {"partsupp": 2, "lineitem": 2}
"""How many columns the primary key has, where it is not one."""


def columns_of(table: str) -> list[tuple[str, str]]:
    """The name and type of each column, the key's first."""
    written = " ".join(TABLES[table].split()).split(", ")
    return [(name, type_) for name, type_ in (column.split() for column in written)]


def _created(table: str) -> str:
    keys = ", ".join(name for name, _ in columns_of(table)[: KEYS.get(table, 1)])
    return f"CREATE TABLE {table} ({TABLES[table]}, PRIMARY KEY ({keys}))"


SCHEMA = [_created(table) for table in TABLES]

_REVENUE = "sum(l_extendedprice * (1 - l_discount))"
_VOLUME = "l_extendedprice * (1 - l_discount)"

QUERIES = {
    1: f"""SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,
        {_REVENUE} AS sum_disc_price, sum({_VOLUME} * (1 + l_tax)) AS sum_charge, avg(l_quantity) AS avg_qty,
        avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc, count(*) AS count_order
        FROM lineitem WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus""",
    2: """SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
        FROM part, supplier, partsupp, nation, region
        WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size = 15 AND p_type LIKE '%BRASS'
        AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE'
        AND ps_supplycost = (SELECT min(ps_supplycost) FROM partsupp, supplier, nation, region
            WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND s_nationkey = n_nationkey
            AND n_regionkey = r_regionkey AND r_name = 'EUROPE')""",
    3: f"""SELECT l_orderkey, {_REVENUE} AS revenue, o_orderdate, o_shippriority FROM customer, orders, lineitem
        WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
        AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
        GROUP BY l_orderkey, o_orderdate, o_shippriority""",
    4: """SELECT o_orderpriority, count(*) AS order_count FROM orders
        WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01'
        AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
        GROUP BY o_orderpriority""",
    5: f"""SELECT n_name, {_REVENUE} AS revenue FROM customer, orders, lineitem, supplier, nation, region
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
        AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA'
        AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01' GROUP BY n_name""",
    6: """SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem
        WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
        AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND l_quantity < 24""",
    7: f"""SELECT supp_nation, cust_nation, l_year, sum(volume) AS revenue
        FROM (SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation, year(l_shipdate) AS l_year, {_VOLUME} AS volume
            FROM supplier, lineitem, orders, customer, nation n1, nation n2
            WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey
            AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey
            AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY') OR (n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE'))
            AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31') AS shipping
        GROUP BY supp_nation, cust_nation, l_year""",
    8: f"""SELECT o_year, sum(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / sum(volume) AS mkt_share
        FROM (SELECT year(o_orderdate) AS o_year, {_VOLUME} AS volume, n2.n_name AS nation
            FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
            WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey AND o_custkey = c_custkey
            AND c_nationkey = n1.n_nationkey AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA'
            AND s_nationkey = n2.n_nationkey AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
            AND p_type = 'ECONOMY ANODIZED STEEL') AS all_nations
        GROUP BY o_year""",
    9: """SELECT nation, o_year, sum(amount) AS sum_profit
        FROM (SELECT n_name AS nation, year(o_orderdate) AS o_year,
            l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
            FROM part, supplier, lineitem, partsupp, orders, nation
            WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey AND p_partkey = l_partkey
            AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND p_name LIKE '%green%') AS profit
        GROUP BY nation, o_year""",
    10: f"""SELECT c_custkey, c_name, {_REVENUE} AS revenue, c_acctbal, n_name, c_address, c_phone, c_comment
        FROM customer, orders, lineitem, nation
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= DATE '1993-10-01'
        AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R' AND c_nationkey = n_nationkey
        GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment""",
    11: """SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value FROM partsupp, supplier, nation
        WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY' GROUP BY ps_partkey
        HAVING sum(ps_supplycost * ps_availqty) > (SELECT sum(ps_supplycost * ps_availqty) * 0.0001
            FROM partsupp, supplier, nation
            WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = 'GERMANY')""",
    12: """SELECT l_shipmode,
        sum(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END) AS high_line_count,
        sum(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END) AS low_line_count
        FROM orders, lineitem WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP')
        AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate AND l_receiptdate >= DATE '1994-01-01'
        AND l_receiptdate < DATE '1995-01-01' GROUP BY l_shipmode""",
    13: """SELECT c_count, count(*) AS custdist
        FROM (SELECT c_custkey, count(o_orderkey) FROM customer LEFT OUTER JOIN orders
            ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%' GROUP BY c_custkey)
            AS c_orders (c_custkey, c_count)
        GROUP BY c_count""",
    14: f"""SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN {_VOLUME} ELSE 0 END) / {_REVENUE} AS promo_revenue
        FROM lineitem, part WHERE l_partkey = p_partkey AND l_shipdate >= DATE '1995-09-01'
        AND l_shipdate < DATE '1995-10-01'""",
    15: f"""WITH revenue (supplier_no, total_revenue) AS (SELECT l_suppkey, {_REVENUE} FROM lineitem
            WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01' GROUP BY l_suppkey)
        SELECT s_suppkey, s_name, s_address, s_phone, total_revenue FROM supplier, revenue
        WHERE s_suppkey = supplier_no AND total_revenue = (SELECT max(total_revenue) FROM revenue)""",
    16: """SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS supplier_cnt FROM partsupp, part
        WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%'
        AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9)
        AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%')
        GROUP BY p_brand, p_type, p_size""",
    17: """SELECT sum(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem, part
        WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container = 'MED BOX'
        AND l_quantity < (SELECT 0.2 * avg(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)""",
    18: """SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS quantity
        FROM customer, orders, lineitem
        WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 300)
        AND c_custkey = o_custkey AND o_orderkey = l_orderkey
        GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice""",
    19: f"""SELECT {_REVENUE} AS revenue FROM lineitem, part
        WHERE (p_partkey = l_partkey AND p_brand = 'Brand#12'
            AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG') AND l_quantity >= 1 AND l_quantity <= 1 + 10
            AND p_size BETWEEN 1 AND 5 AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')
        OR (p_partkey = l_partkey AND p_brand = 'Brand#23'
            AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK') AND l_quantity >= 10
            AND l_quantity <= 10 + 10 AND p_size BETWEEN 1 AND 10 AND l_shipmode IN ('AIR', 'AIR REG')
            AND l_shipinstruct = 'DELIVER IN PERSON')
        OR (p_partkey = l_partkey AND p_brand = 'Brand#34'
            AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG') AND l_quantity >= 20
            AND l_quantity <= 20 + 10 AND p_size BETWEEN 1 AND 15 AND l_shipmode IN ('AIR', 'AIR REG')
            AND l_shipinstruct = 'DELIVER IN PERSON')""",
    20: """SELECT s_name, s_address FROM supplier, nation
        WHERE s_suppkey IN (SELECT ps_suppkey FROM partsupp
            WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%')
            AND ps_availqty > (SELECT 0.5 * sum(l_quantity) FROM lineitem
                WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey
                AND l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'))
        AND s_nationkey = n_nationkey AND n_name = 'CANADA'""",
    21: """SELECT s_name, count(*) AS numwait FROM supplier, lineitem l1, orders, nation
        WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F'
        AND l1.l_receiptdate > l1.l_commitdate
        AND EXISTS (SELECT * FROM lineitem l2 WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
        AND NOT EXISTS (SELECT * FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey
            AND l3.l_suppkey <> l1.l_suppkey AND l3.l_receiptdate > l3.l_commitdate)
        AND s_nationkey = n_nationkey AND n_name = 'SAUDI ARABIA' GROUP BY s_name""",
    22: """SELECT cntrycode, count(*) AS numcust, sum(c_acctbal) AS totacctbal
        FROM (SELECT substring(c_phone, 1, 2) AS cntrycode, c_acctbal FROM customer
            WHERE substring(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
            AND c_acctbal > (SELECT avg(c_acctbal) FROM customer WHERE c_acctbal > 0.00
                AND substring(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17'))
            AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale
        GROUP BY cntrycode""",
}  # fmt: skip

_WORDS: dict[str, list[Any]] = {
    "r_name": ["EUROPE", "ASIA", "AMERICA"], "n_name": ["CANADA", "SAUDI ARABIA", "BRAZIL", "FRANCE", "GERMANY"],
    "c_mktsegment": ["BUILDING", "MACHINERY"], "p_name": ["forest green", "green", "blue"],
    "p_brand": ["Brand#12", "Brand#23", "Brand#34", "Brand#45"], "p_container": ["SM BOX", "MED BOX", "LG BOX"],
    "p_type": ["LARGE BRASS", "ECONOMY ANODIZED STEEL", "PROMO TIN"], "p_size": [3, 9, 15],
    "o_orderstatus": ["F", "O"], "o_orderpriority": ["1-URGENT", "2-HIGH", "3-MEDIUM"],
    "o_comment": ["special requests", "nothing"], "s_comment": ["Customer Complaints", "none"],
    "l_returnflag": ["R", "N"], "l_linestatus": ["O", "F"], "l_shipmode": ["MAIL", "AIR"],
    "l_shipinstruct": ["DELIVER IN PERSON", "NONE"], "c_phone": ["13-1", "31-2", "99-3"],
    "l_quantity": [Decimal(n) for n in (1, 2, 12, 25, 200)], "l_discount": [Decimal(f"0.0{n}") for n in (4, 5, 6)],
}  # fmt: skip
_ROWS = {"region": 9, "nation": 15, "supplier": 15, "customer": 20, "part": 15, "partsupp": 20, "orders": 60,
         "lineitem": 120}  # fmt: skip
_DAYS = [datetime.date(1993, 8, 14), datetime.date(1993, 11, 14), datetime.date(1994, 3, 14), datetime.date(1994, 8, 1),
         datetime.date(1995, 3, 14), datetime.date(1995, 9, 14), datetime.date(1996, 3, 14)]  # fmt: skip


def rows(table: str, chance: random.Random) -> list[dict[str, Any]]:
    """As many rows as the table is to have at most: keys are drawn, so that some are put twice."""
    made = [{name: _value(name, type_, chance) for name, type_ in columns_of(table)} for _ in range(_ROWS[table])]
    for row in made if table == "nation" else ():
        row["n_name"] = _WORDS["n_name"][row["n_nationkey"]]
        row["n_regionkey"] = row["n_nationkey"] % 3
    for row in made if table == "region" else ():
        row["r_name"] = _WORDS["r_name"][row["r_regionkey"]]
    return made


def _value(name: str, type_: str, chance: random.Random) -> Any:
    if name in _WORDS:
        return chance.choice(_WORDS[name])
    if name.endswith("key"):
        return chance.randrange(_KEY_ROWS[name.split("_")[1]] * (2 if name == "c_custkey" else 1))
    if type_ == "DATE":
        return chance.choice(_DAYS)
    if type_.startswith("DECIMAL"):
        return Decimal(chance.randrange(-200, 90_000)) / 100
    return chance.randrange(100) if type_ in ("INT", "BIGINT") else f"{name} {chance.randrange(3)}"


_KEY_ROWS = {"regionkey": 3, "nationkey": 5, "suppkey": 5, "custkey": 6, "partkey": 6, "orderkey": 40}
