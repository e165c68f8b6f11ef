"""More of the small cases of `traps`: subqueries, set operations, the first rows, and joins without an equality."""

from __future__ import annotations

from decimal import Decimal

from viewkeeper.catalog.types import BIGINT, STRING, decimal

from .traps import Trap, delete, put, rows, table

F = table("t", "f", f=BIGINT)
VALUES = table("a", x=BIGINT), table("b", x=BIGINT)

SUBQUERIES = (
    Trap("7: LEFT JOIN ON FALSE has its rows, and their count is 0", (F,),
         ("CREATE VIEW v AS SELECT f, c FROM t JOIN (SELECT count(r.f) AS c FROM t AS l LEFT JOIN t AS r ON FALSE) "
          "AS s ON t.f = s.c",),
         (([put("t", *rows("f", (0,), (4,)))], {"v": [(0, 0)]}),
          ([delete("t", {"f": 0})], {"v": []}))),
    Trap("9: what an outer join has filled up is not counted", (F,),
         ("CREATE VIEW v AS SELECT count(b.f) AS n, count(*) AS every FROM t AS b RIGHT JOIN t AS a ON FALSE",),
         (([], {"v": [(0, 0)]}),
          ([put("t", *rows("f", (1,), (2,), (3,)))], {"v": [(0, 3)]}))),
    Trap("11: NOT IN a list with a NULL is never true", VALUES,
         ("CREATE VIEW v AS SELECT x FROM a WHERE x NOT IN (SELECT x FROM b)",),
         (([put("a", *rows("x", (1,), (None,)))], {"v": [(1,), (None,)]}),
          ([put("b", *rows("x", (2,), (None,)))], {"v": []}),
          ([delete("b", {"x": None})], {"v": [(1,)]}),
          ([delete("b", {"x": 2})], {"v": [(1,), (None,)]}))),
    Trap("53: the group behind a scalar subquery may go", (table("h", "x", x=BIGINT), F),
         ("CREATE VIEW v AS SELECT f FROM t WHERE f > (SELECT max(x) FROM h)",),
         (([put("t", *rows("f", (5,), (20,))), put("h", {"x": 10})], {"v": [(20,)]}),
          ([delete("h", {"x": 10})], {"v": []}),
          ([put("h", {"x": 1})], {"v": [(5,), (20,)]}))),
)  # fmt: skip

SETS = (
    Trap("29: values are counted once over all batches", (table("t", k=STRING, n=BIGINT),),
         ("CREATE VIEW v AS SELECT k, count(DISTINCT n) AS n FROM t GROUP BY k",),
         (([put("t", *rows("k n", ("a", 1), ("a", 2)))], {"v": [("a", 2)]}),
          ([put("t", *rows("k n", ("a", 2), ("a", 3)))], {"v": [("a", 3)]}),
          ([delete("t", {"k": "a", "n": 2})], {"v": [("a", 3)]}),
          ([delete("t", {"k": "a", "n": 2})], {"v": [("a", 2)]}))),
    Trap("45: decimals of two scales are equal where their values are",
         (table("a", x=decimal(3, 1)), table("b", x=decimal(4, 2))),
         ("CREATE VIEW v AS SELECT x FROM a EXCEPT ALL SELECT x FROM b",),
         (([put("a", {"x": Decimal("0.1")})], {"v": [(Decimal("0.10"),)]}),
          ([put("b", {"x": Decimal("0.10")})], {"v": []}),
          ([put("a", {"x": Decimal("0.1")})], {"v": [(Decimal("0.10"),)]}))),
    Trap("55: UNION ALL keeps the rows of both sides", (F,),
         ("CREATE VIEW v AS SELECT f FROM t WHERE f % 2 = 1 UNION ALL SELECT f FROM t WHERE f % 2 = 0",),
         (([put("t", *rows("f", *((n,) for n in range(10))))], {"v": [(n,) for n in range(10)]}),
          ([delete("t", {"f": 3})], {"v": [(n,) for n in range(10) if n != 3]}))),
)  # fmt: skip

FIRST = (
    Trap("71: NULL of an outer join is first", VALUES,
         ("CREATE VIEW v AS SELECT b.x AS x FROM a LEFT JOIN b ON TRUE ORDER BY 1 NULLS FIRST LIMIT 1",),
         (([put("a", {"x": 1})], {"v": [(None,)]}),
          ([put("b", {"x": 7})], {"v": [(7,)]}),
          ([delete("b", {"x": 7})], {"v": [(None,)]}))),
)  # fmt: skip

TRAPS_OF_QUERIES = SUBQUERIES + SETS + FIRST
