"""More of the small cases of `traps`: rows out of order, written twice in a batch, and their keys."""

from __future__ import annotations

from datetime import datetime, timedelta

from viewkeeper.catalog.types import BIGINT, STRING, TIMESTAMP_NTZ

from .traps import Trap, delete, put, rows, table

TIMED = table("a", "id", id=BIGINT, k=BIGINT, at=TIMESTAMP_NTZ), table("b", "id", id=BIGINT, k=BIGINT, at=TIMESTAMP_NTZ)
ROW = table("t", "id", id=BIGINT, a=STRING)
EVENTS = table("t", "id", id=BIGINT, k=STRING, at=BIGINT)


def second(at: int) -> datetime:
    return datetime(2026, 3, 8) + timedelta(seconds=at)


OUT_OF_ORDER = (
    Trap("15: a row that waits for a match in time comes alone once, whatever else its key has in the batch", TIMED,
         ("CREATE VIEW v AS SELECT a.id AS a, b.id AS b FROM a LEFT JOIN b ON a.k = b.k "
          "AND b.at BETWEEN a.at AND a.at + INTERVAL '20' SECOND",),
         (([put("a", {"id": 1, "k": 7, "at": second(10)})], {"v": [(1, None)]}),
          ([put("a", {"id": 2, "k": 7, "at": second(100)}), put("b", {"id": 5, "k": 7, "at": second(50)})],
           {"v": [(1, None), (2, None)]}),
          ([put("b", {"id": 6, "k": 7, "at": second(30)})], {"v": [(1, 6), (2, None)]}),
          ([put("b", {"id": 6, "at": second(120)})], {"v": [(1, None), (2, 6)]}))),
    Trap("141: what comes between two sessions makes them one, and what goes parts them", (EVENTS,),
         ("CREATE VIEW v AS SELECT k, min(at) AS low, max(at) AS high, count(*) AS n FROM "
          "(SELECT k, at, sum(fresh) OVER (PARTITION BY k ORDER BY at) AS session FROM "
          "(SELECT k, at, CASE WHEN at - lag(at) OVER (PARTITION BY k ORDER BY at) <= 10 THEN 0 ELSE 1 END AS fresh "
          "FROM t) AS x) AS y GROUP BY k, session",),
         (([put("t", {"id": 1, "k": "p", "at": 0})], {"v": [("p", 0, 0, 1)]}),
          ([put("t", {"id": 2, "k": "p", "at": 3})], {"v": [("p", 0, 3, 2)]}),
          ([put("t", *rows("id k at", (3, "p", 20), (4, "p", 22), (5, "q", 11)))],
           {"v": [("p", 0, 3, 2), ("p", 20, 22, 2), ("q", 11, 11, 1)]}),
          ([put("t", {"id": 6, "k": "p", "at": 11})], {"v": [("p", 0, 22, 5), ("q", 11, 11, 1)]}),
          ([delete("t", {"id": 6})], {"v": [("p", 0, 3, 2), ("p", 20, 22, 2), ("q", 11, 11, 1)]}))),
)  # fmt: skip

WRITTEN_TWICE = (
    Trap("59: a row that comes and changes in one batch is there once, as it became", (ROW,),
         ("CREATE VIEW v AS SELECT id, a FROM t", "CREATE VIEW n AS SELECT a, count(*) AS n FROM t GROUP BY a"),
         (([put("t", {"id": 1, "a": "x"}), put("t", {"id": 1, "a": "y"})], {"v": [(1, "y")], "n": [("y", 1)]}),
          ([put("t", {"id": 2, "a": "x"}), put("t", {"id": 2, "a": "y"}), delete("t", {"id": 2})],
           {"v": [(1, "y")], "n": [("y", 1)]}))),
    Trap("85: a row of NULLs is a row until it is deleted", (ROW,),
         ("CREATE VIEW v AS SELECT id, a FROM t", "CREATE VIEW n AS SELECT a, count(*) AS n FROM t GROUP BY a"),
         (([put("t", {"id": 1, "a": "x"})], {"v": [(1, "x")], "n": [("x", 1)]}),
          ([put("t", {"id": 1, "a": None})], {"v": [(1, None)], "n": [(None, 1)]}),
          ([delete("t", {"id": 1})], {"v": [], "n": []}))),
    Trap("125: an insert and a delete of one moment count in the order in which they were written", (ROW,),
         ("CREATE VIEW v AS SELECT id, a FROM t",),
         (([put("t", {"id": 1, "a": "x"}), delete("t", {"id": 1})], {"v": []}),
          ([delete("t", {"id": 1}), put("t", {"id": 1, "a": "y"})], {"v": [(1, "y")]}),
          ([delete("t", {"id": 1})], {"v": []}))),
)  # fmt: skip

KEYS = (
    Trap("27: a key of which one column is NULL is one group over all batches", (table("t", kind=STRING, what=STRING,
                                                                                     n=BIGINT),),
         ("CREATE VIEW v AS SELECT kind, what, sum(n) AS n FROM t GROUP BY kind, what",),
         (([put("t", {"kind": None, "what": "onion", "n": 5})], {"v": [(None, "onion", 5)]}),
          ([put("t", {"kind": None, "what": "onion", "n": 7})], {"v": [(None, "onion", 12)]}),
          ([put("t", {"kind": "onion", "what": None, "n": 1})], {"v": [(None, "onion", 12), ("onion", None, 1)]}))),
    Trap("63: the elements of a list are a row each, and change with their row", (ROW,),
         ("CREATE VIEW v AS SELECT id, j FROM t LATERAL VIEW explode(split(a, ',')) x AS j",),
         (([put("t", {"id": 1, "a": "a,b"})], {"v": [(1, "a"), (1, "b")]}),
          ([put("t", {"id": 1, "a": "b,b,c"})], {"v": [(1, "b"), (1, "b"), (1, "c")]}),
          ([put("t", {"id": 1, "a": None})], {"v": []}))),
    Trap("179: zero bytes are part of a value", (table("t", "id", id=STRING, n=BIGINT),),
         ("CREATE VIEW v AS SELECT id, n FROM t", "CREATE VIEW g AS SELECT substring(id, 1, 2) AS k, sum(n) AS n "
          "FROM t GROUP BY substring(id, 1, 2)"),
         (([put("t", *rows("id n", ("a", 1), ("a\0", 2), ("a\0\0", 3), ("\0", 4)))],
           {"v": [("a", 1), ("a\0", 2), ("a\0\0", 3), ("\0", 4)], "g": [("a", 1), ("a\0", 5), ("\0", 4)]}),
          ([put("t", {"id": "a\0", "n": 7}), delete("t", {"id": "a"})],
           {"v": [("a\0", 7), ("a\0\0", 3), ("\0", 4)], "g": [("a\0", 10), ("\0", 4)]}))),
)  # fmt: skip

TRAPS_OF_ROWS = OUT_OF_ORDER + WRITTEN_TWICE + KEYS
