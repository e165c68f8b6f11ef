"""Small cases that made other systems wrong, as data: what each view must hold after each step.

A step is one batch.  The numbers are those of the collection that the cases come from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from viewkeeper.catalog.model import Column
from viewkeeper.catalog.types import BIGINT, DOUBLE, FLOAT, STRING, Type, decimal

from .model import Operation, TableSchema

RAISES = "the view raises when it is read"
Expected = Mapping[str, list[tuple[Any, ...]] | str]


@dataclass(frozen=True)
class Trap:
    """`steps` are (operations, what each view named must hold after them: rows as a bag, or RAISES)."""

    name: str
    schemas: tuple[TableSchema, ...]
    views: tuple[str, ...]
    steps: tuple[tuple[list[Operation], Expected], ...]

    @property
    def tables(self) -> list[str]:
        return [schema.sql for schema in self.schemas]


def table(name: str, key: str = "", **columns: Type) -> TableSchema:
    """A table whose key columns (separated by spaces) are among `columns`."""
    names = list(columns)
    positions = tuple(names.index(part) for part in key.split())
    held = (Column(column, type_, i not in positions) for i, (column, type_) in enumerate(columns.items()))
    return TableSchema(name, tuple(held), positions)


def put(name: str, *rows: dict[str, Any]) -> Operation:
    return Operation("put_many", name, rows)


def delete(name: str, *keys: dict[str, Any]) -> Operation:
    return Operation("delete", name, keys)


def rows(names: str, *values: Sequence[Any]) -> list[dict[str, Any]]:
    """Rows as dicts: rows("a b", (1, 2), (3, 4))."""
    return [dict(zip(names.split(), row, strict=True)) for row in values]


ID_G = table("t", "id", id=BIGINT, g=STRING)
KEYED = table("t", "id", id=BIGINT, k=STRING, v=BIGINT)
FLOATS = table("t", "id", id=BIGINT, f=DOUBLE)

GROUPS = (
    Trap("19: a global aggregate keeps its only row when the table becomes empty", (table("t", "a", a=BIGINT),),
         ("CREATE VIEW v AS SELECT count(*) AS n, sum(a) AS s, min(a) AS m, avg(a) AS v FROM t",),
         (([], {"v": [(0, None, None, None)]}),
          ([put("t", {"a": 3})], {"v": [(1, 3, 3, 3.0)]}),
          ([delete("t", {"a": 3})], {"v": [(0, None, None, None)]}))),
    Trap("21: a group emptied by two deletes comes back", (ID_G,),
         ("CREATE VIEW v AS SELECT g, count(*) AS n FROM t GROUP BY g",),
         (([put("t", *rows("id g", (1, "p"), (2, "p")))], {"v": [("p", 2)]}),
          ([delete("t", {"id": 1})], {"v": [("p", 1)]}),
          ([delete("t", {"id": 2})], {"v": []}),
          ([put("t", {"id": 3, "g": "p"})], {"v": [("p", 1)]}))),
    Trap("23: sums of integers are integers, and of nothing NULL", (table("t", "a", a=BIGINT, b=BIGINT),),
         ("CREATE VIEW v AS SELECT sum(a) AS a, sum(b) AS b, avg(b) AS c FROM t",),
         (([put("t", *rows("a b", (1, None), (2, None)))], {"v": [(3, None, None)]}),)),
    Trap("25: NULL is a group, and counted apart", (table("t", x=BIGINT, y=BIGINT),),
         ("CREATE VIEW v AS SELECT x, count(*) AS n, count(y) AS c FROM t GROUP BY x",),
         (([put("t", *rows("x y", (None, 1), (None, 2), (5, None), (5, None)))], {"v": [(None, 2, 2), (5, 2, 0)]}),
          ([delete("t", {"x": None, "y": 1})], {"v": [(None, 1, 1), (5, 2, 0)]}))),
    Trap("31: minimum, maximum and average follow an update", (table("t", "a", a=BIGINT, b=BIGINT),),
         ("CREATE VIEW v AS SELECT min(b) AS lo, max(b) AS hi, avg(b) AS mid FROM t",),
         (([put("t", *rows("a b", (1, 1), (2, 5)))], {"v": [(1, 5, 3.0)]}),
          ([put("t", {"a": 2, "b": 3})], {"v": [(1, 3, 2.0)]}),
          ([put("t", {"a": 1, "b": 4})], {"v": [(3, 4, 3.5)]}))),
    Trap("33: inserts and deletes of one batch do not add up", (table("t", "a", a=BIGINT, b=STRING),),
         ("CREATE VIEW v AS SELECT b, sum(a) AS s FROM t GROUP BY b",),
         (([put("t", *rows("a b", (2, "k"), (9, "k")))], {"v": [("k", 11)]}),
          ([put("t", {"a": 1, "b": "k"}), delete("t", {"a": 2})], {"v": [("k", 10)]}))),
    Trap("49: what is below HAVING is remembered", (table("t", u=BIGINT, s=BIGINT),),
         ("CREATE VIEW v AS SELECT u, avg(s) AS m, count(s) AS n FROM t GROUP BY u HAVING count(s) > 2",),
         (([put("t", *rows("u s", (2, 70), (2, 80)))], {"v": []}),
          ([put("t", {"u": 2, "s": 90})], {"v": [(2, 80.0, 3)]}))),
    Trap("51: a group crosses the limit of HAVING both ways", (KEYED,),
         ("CREATE VIEW v AS SELECT k, sum(v) AS s FROM t GROUP BY k HAVING sum(v) > 10",),
         (([put("t", {"id": 1, "k": "k", "v": 6})], {"v": []}),
          ([put("t", {"id": 2, "k": "k", "v": 6})], {"v": [("k", 12)]}),
          ([put("t", {"id": 2, "v": -2})], {"v": []}))),
    Trap("199: a row that moves between groups is never in two, nor in none",
         (table("t", "id", id=BIGINT, area=BIGINT, lux=BIGINT),),
         ("CREATE VIEW v AS SELECT area, sum(lux) AS s FROM t GROUP BY area",),
         (([put("t", *rows("id area lux", (1, 1, 1), (2, 1, 0), (3, 2, 0)))], {"v": [(1, 1), (2, 0)]}),
          ([put("t", {"id": 1, "area": 2}), put("t", {"id": 1, "area": 1})], {"v": [(1, 1), (2, 0)]}),
          ([put("t", {"id": 1, "area": 2})], {"v": [(1, 0), (2, 1)]}))),
)  # fmt: skip

NUMBERS = (
    Trap("35: huge opposite floats cancel", (FLOATS,), ("CREATE VIEW v AS SELECT sum(f) AS s FROM t",),
         (([put("t", *rows("id f", (1, 1.1e31), (2, 0.1), (3, -1.1e31)))], {"v": [(0.1,)]}),
          ([delete("t", {"id": 2})], {"v": [(0.0,)]}))),
    Trap("37: a sum beyond the greatest double is infinite, and finite again", (FLOATS,),
         ("CREATE VIEW v AS SELECT sum(f) AS s FROM t",),
         (([put("t", *rows("id f", (1, 1.7976931348623157e308), (2, 1.7976931348623157e308)))], {"v": [(math.inf,)]}),
          ([delete("t", {"id": 2})], {"v": [(1.7976931348623157e308,)]}))),
    Trap("39: NaN and infinities go when their rows go", (FLOATS,), ("CREATE VIEW v AS SELECT sum(f) AS s FROM t",),
         (([put("t", *rows("id f", (1, math.nan), (2, 1.0), (3, 2.0)))], {"v": [(math.nan,)]}),
          ([put("t", {"id": 1, "f": 3.0})], {"v": [(6.0,)]}),
          ([put("t", *rows("id f", (1, math.inf), (2, -math.inf)))], {"v": [(math.nan,)]}),
          ([delete("t", {"id": 2})], {"v": [(math.inf,)]}),
          ([delete("t", {"id": 1})], {"v": [(2.0,)]}))),
    Trap("41: sums of FLOAT are those of its values", (table("t", "id", id=BIGINT, k=BIGINT, f=FLOAT),),
         ("CREATE VIEW v AS SELECT k, sum(f) AS s FROM t GROUP BY k",),
         (([put("t", *rows("id k f", (1, 1, 2.0), (2, 1, 2.5), (3, 1, 100.25)))], {"v": [(1, 104.75)]}),)),
    Trap("43: zeros are one group, NaNs are one group, and they join", (FLOATS,),
         ("CREATE VIEW v AS SELECT f, count(*) AS n FROM t GROUP BY f",
          "CREATE VIEW w AS SELECT a.id AS a, b.id AS b FROM t a JOIN t b ON a.f = b.f WHERE a.id < b.id"),
         (([put("t", *rows("id f", (1, 0.0), (2, -0.0), (3, math.nan), (4, -math.nan)))],
           {"v": [(0.0, 2), (math.nan, 2)], "w": [(1, 2), (3, 4)]}),)),
    Trap("47: a decimal sum that does not fit is an error, never a number; mending a row mends it",
         (table("t", "id", id=BIGINT, d=decimal(38, 18)),), ("CREATE VIEW v AS SELECT sum(d) AS s FROM t",),
         (([put("t", *rows("id d", *((i, Decimal(10**19)) for i in range(9))))], {"v": [(Decimal(9 * 10**19),)]}),
          ([put("t", *rows("id d", *((i, Decimal(10**19)) for i in range(9, 12))))], {"v": RAISES}),
          ([put("t", {"id": 0, "d": Decimal(-(10**19)) * 2})], {"v": [(Decimal(9 * 10**19),)]}))),
)  # fmt: skip

LEFT, RIGHT = table("l", "id", id=BIGINT, k=BIGINT), table("r", "k", k=BIGINT, s=STRING)

JOINS = (
    Trap("17: a row that is pointed elsewhere leaves the join", (LEFT, RIGHT),
         ("CREATE VIEW v AS SELECT l.id AS id, r.s AS s FROM l JOIN r ON l.k = r.k",),
         (([put("l", {"id": 7, "k": 1}), put("r", {"k": 1, "s": "one"})], {"v": [(7, "one")]}),
          ([put("l", {"id": 7, "k": 2})], {"v": []}),
          ([put("r", {"k": 2, "s": "two"}), delete("r", {"k": 1})], {"v": [(7, "two")]}))),
    Trap("65: a self join of rows with one key gives all pairs", (table("t", "v", v=BIGINT, m=BIGINT),),
         ("CREATE VIEW v AS SELECT a.v AS a, b.v AS b FROM t a JOIN t b ON a.m = b.m",),
         (([put("t", *rows("v m", (1, 1), (6, 1), (11, 1)))], {"v": [(a, b) for a in (1, 6, 11) for b in (1, 6, 11)]}),
          ([delete("t", {"v": 6}), put("t", {"v": 16, "m": 1})],
           {"v": [(a, b) for a in (1, 16, 11) for b in (1, 16, 11)]}))),
    Trap("123: key columns are not run together", (table("t", "a b", a=STRING, b=STRING, n=BIGINT),),
         ("CREATE VIEW v AS SELECT a, b, count(*) AS n FROM t GROUP BY a, b",
          "CREATE VIEW w AS SELECT x.n AS x, y.n AS y FROM t x JOIN t y ON x.a = y.a AND x.b = y.b"),
         (([put("t", *rows("a b n", ("d4", "12", 1), ("d41", "2", 2)))],
           {"v": [("d4", "12", 1), ("d41", "2", 1)], "w": [(1, 1), (2, 2)]}),
          ([delete("t", {"a": "d41", "b": "2"})], {"v": [("d4", "12", 1)], "w": [(1, 1)]}))),
    Trap("187: a join follows its second table", (table("a", "x", x=BIGINT), table("b", "x", x=BIGINT)),
         ("CREATE VIEW v AS SELECT a.x AS a, b.x AS b FROM a JOIN b ON a.x = b.x",),
         (([put("a", {"x": 1})], {"v": []}), ([put("b", {"x": 1})], {"v": [(1, 1)]}))),
    Trap("201: an upper view loses what its lower view lost",
         (table("t", "id", id=BIGINT, day=BIGINT, hour=BIGINT, v=BIGINT),),
         ("CREATE VIEW hourly AS SELECT day, hour, sum(v) AS s FROM t GROUP BY day, hour",
          "CREATE VIEW daily AS SELECT day, count(*) AS hours, max(s) AS most FROM hourly GROUP BY day"),
         (([put("t", *rows("id day hour v", (1, 1, 1, 5), (2, 1, 2, 7), (3, 2, 1, 1)))],
           {"daily": [(1, 2, 7), (2, 1, 1)]}),
          ([put("t", {"id": 2, "hour": 1})], {"hourly": [(1, 1, 12), (2, 1, 1)], "daily": [(1, 1, 12), (2, 1, 1)]}),
          ([delete("t", {"id": 3})], {"hourly": [(1, 1, 12)], "daily": [(1, 1, 12)]}))),
)  # fmt: skip

VALUES = table("t", "id", id=BIGINT, a=BIGINT, b=STRING)
COPY = "CREATE VIEW v AS SELECT * FROM t"

ROWS = (
    Trap("73: a key update is a delete and an insert", (table("t", "f", f=BIGINT),), (COPY,),
         (([put("t", {"f": 1})], {"v": [(1,)]}),
          ([delete("t", {"f": 1}), put("t", {"f": 2})], {"v": [(2,)]}))),
    Trap("79: a put leaves alone what it does not name", (VALUES,), (COPY,),
         (([put("t", {"id": 1, "a": 1, "b": "x" * 10_000})], {"v": [(1, 1, "x" * 10_000)]}),
          ([put("t", {"id": 1, "a": 2})], {"v": [(1, 2, "x" * 10_000)]}))),
    Trap("83: a delete and an insert of one key keep their order", (VALUES,), (COPY,),
         (([put("t", {"id": 1, "a": 1, "b": "old"})], {"v": [(1, 1, "old")]}),
          ([delete("t", {"id": 1}), put("t", {"id": 1, "b": "new"})], {"v": [(1, None, "new")]}),
          ([put("t", {"id": 1, "a": 9}), delete("t", {"id": 1})], {"v": []}))),
    Trap("87: an emptied table empties its views", (VALUES,), (COPY, "CREATE VIEW n AS SELECT count(*) AS n FROM t"),
         (([put("t", *rows("id a", (1, 1), (2, 2)))], {"v": [(1, 1, None), (2, 2, None)], "n": [(2,)]}),
          ([delete("t", {"id": 1}, {"id": 2})], {"v": [], "n": [(0,)]}))),
    Trap("93: two rows that show alike are two", (VALUES,), ("CREATE VIEW v AS SELECT b FROM t",),
         (([put("t", *rows("id b", (1, "x"), (2, "x")))], {"v": [("x",), ("x",)]}),
          ([delete("t", {"id": 2})], {"v": [("x",)]}))),
    Trap("95: all keys move by one", (table("t", "id", id=BIGINT, v=BIGINT),), (COPY,),
         (([put("t", *rows("id v", (1, 1), (2, 2), (3, 3)))], {"v": [(1, 1), (2, 2), (3, 3)]}),
          ([delete("t", {"id": 1}, {"id": 2}, {"id": 3}), put("t", *rows("id v", (2, 1), (3, 2), (4, 3)))],
           {"v": [(2, 1), (3, 2), (4, 3)]}))),
    Trap("101: a write of the same values changes nothing", (VALUES,), (COPY,),
         (([put("t", {"id": 1, "a": 1, "b": "d"})], {"v": [(1, 1, "d")]}),
          ([put("t", {"id": 1, "b": "d"})], {"v": [(1, 1, "d")]}))),
    Trap("103: a view keyed by another column follows it", (VALUES,),
         ("CREATE VIEW v AS SELECT a, id, b FROM t WHERE a IS NOT NULL",),
         (([put("t", {"id": 1, "a": 1, "b": "1"})], {"v": [(1, 1, "1")]}),
          ([put("t", {"id": 1, "b": "2"})], {"v": [(1, 1, "2")]}),
          ([put("t", {"id": 1, "a": 2})], {"v": [(2, 1, "2")]}),
          ([Operation("delete_columns", "t", ({"id": 1},), ("a",))], {"v": []}))),
    Trap("109: several updates of one row in a batch leave one row", (VALUES,),
         ("CREATE VIEW v AS SELECT a, id FROM t", "CREATE VIEW g AS SELECT a, count(*) AS n FROM t GROUP BY a"),
         (([put("t", {"id": 1, "a": 0})], {"v": [(0, 1)], "g": [(0, 1)]}),
          ([put("t", {"id": 1, "a": 1}), put("t", {"id": 1, "a": 2})], {"v": [(2, 1)], "g": [(2, 1)]}))),
    Trap("117: a deleted value does not come back with its row", (VALUES,),
         ("CREATE VIEW v AS SELECT a, id, b FROM t",),
         (([put("t", {"id": 3, "a": 1, "b": "30"})], {"v": [(1, 3, "30")]}),
          ([delete("t", {"id": 3})], {"v": []}),
          ([put("t", {"id": 3, "a": 1})], {"v": [(1, 3, None)]}))),
)  # fmt: skip

PAIR = table("l", "k", k=BIGINT, v=BIGINT), table("r", "k", k=BIGINT, v=BIGINT)
PARTS = table("l", "id", id=BIGINT), table("r", "rid", rid=BIGINT, lid=BIGINT, q=BIGINT)
SPANS = table("s", a=BIGINT, b=BIGINT), table("d", "a", a=BIGINT, c=BIGINT)

OUTER_JOINS = (
    Trap("1: a right row that came and went leaves no match behind", PAIR,
         ("CREATE VIEW v AS SELECT l.k AS a, r.k AS b FROM l FULL JOIN r ON l.k = r.k",),
         (([put("r", {"k": 8, "v": 1})], {"v": [(None, 8)]}),
          ([delete("r", {"k": 8})], {"v": []}),
          ([put("l", {"k": 8, "v": 2})], {"v": [(8, None)]}))),
    Trap("3: views of one row each meet by what their rows say", (table("t", "id", id=BIGINT, g=STRING, m=BIGINT),),
         ("CREATE VIEW a AS SELECT sum(m) AS m, max(g) AS g FROM t WHERE id = 1",
          "CREATE VIEW b AS SELECT sum(m) AS m, max(g) AS g FROM t WHERE id = 2",
          "CREATE VIEW v AS SELECT coalesce(a.g, b.g) AS g, a.m AS am, b.m AS bm FROM a FULL JOIN b ON a.g = b.g"),
         (([], {"v": [(None, None, None), (None, None, None)]}),
          ([put("t", *rows("id g m", (1, "g", 40), (2, "g", 60)))], {"v": [("g", 40, 60)]}),
          ([put("t", {"id": 2, "g": "h"})], {"v": [("g", 40, None), ("h", None, 60)]}))),
    Trap("5: an update of a match is not one more match", PARTS,
         ("CREATE VIEW v AS SELECT id, rid, q FROM l LEFT JOIN r ON id = lid",),
         (([put("l", {"id": 1}), put("r", {"rid": 10, "lid": 1, "q": 5})], {"v": [(1, 10, 5)]}),
          ([put("r", {"rid": 10, "lid": 1, "q": 6})], {"v": [(1, 10, 6)]}),
          ([delete("r", {"rid": 10})], {"v": [(1, None, None)]}))),
    Trap("13: what does not meet the whole condition comes alone", SPANS,
         ("CREATE VIEW v AS SELECT s.a AS a, b, d.a AS da, c FROM s LEFT JOIN d ON s.a = d.a AND s.b > d.c",),
         (([put("d", {"a": 5, "c": 30}), put("s", *rows("a b", (5, 20), (5, 20)))],
           {"v": [(5, 20, None, None), (5, 20, None, None)]}),
          ([put("d", {"a": 5, "c": 10})], {"v": [(5, 20, 5, 10), (5, 20, 5, 10)]}),
          ([delete("s", {"a": 5, "b": 20}), delete("d", {"a": 5})], {"v": [(5, 20, None, None)]}))),
    Trap("NULL meets nothing, and a NULL beside a key is nothing special", (*PARTS,),
         ("CREATE VIEW f AS SELECT id, rid FROM l FULL JOIN r ON id = lid",
          "CREATE VIEW s AS SELECT rid FROM r LEFT SEMI JOIN l ON lid = id",
          "CREATE VIEW n AS SELECT rid, q FROM r LEFT ANTI JOIN l ON lid = id"),
         (([put("r", *rows("rid lid q", (1, None, 7), (2, 1, None))), put("l", {"id": 1})],
           {"f": [(None, 1), (1, 2)], "s": [(2,)], "n": [(1, 7)]}),
          ([put("r", {"rid": 1, "lid": 1}), delete("r", {"rid": 2})], {"f": [(1, 1)], "s": [(1,)], "n": []}),
          ([delete("l", {"id": 1})], {"f": [(None, 1)], "s": [], "n": [(1, 7)]}))),
    Trap("57: DISTINCT has each row once, NULL too", (table("t", a=BIGINT),),
         ("CREATE VIEW v AS SELECT DISTINCT a + (-a) + 82 AS x FROM t",),
         (([put("t", *rows("a", (3,), (3,), (None,)))], {"v": [(82,), (None,)]}),
          ([delete("t", {"a": 3})], {"v": [(82,), (None,)]}),
          ([delete("t", {"a": 3}), delete("t", {"a": None})], {"v": []}))),
    Trap("a pair at which ON raises is an error for as long as both rows are there", PARTS,
         ("CREATE VIEW v AS SELECT id, rid FROM l LEFT JOIN r ON id = lid AND 10 / q > 1",),
         (([put("l", {"id": 1}), put("r", *rows("rid lid q", (1, 1, 5), (2, 2, 0)))], {"v": [(1, 1)]}),
          ([put("l", {"id": 2})], {"v": RAISES}),
          ([put("r", {"rid": 2, "q": 20})], {"v": [(1, 1), (2, None)]}))),
)  # fmt: skip

TRAPS = GROUPS + NUMBERS + JOINS + OUTER_JOINS + ROWS
