"""Three small tables, a history that gives every key rows, moves and takes them, and views kept through it."""

from __future__ import annotations

from typing import Any

from bags import bag
from memory_engine import MemoryEngine
from oracle.model import Base, Operation, TableSchema
from viewkeeper.checker.row_evaluator import Answer, evaluate

TABLES = ["CREATE TABLE a (id BIGINT, k INT, x INT, s STRING, PRIMARY KEY (id))",
          "CREATE TABLE b (id BIGINT, k INT, y BIGINT NOT NULL, s STRING, PRIMARY KEY (id))",
          "CREATE TABLE c (k INT, z DECIMAL(10,2))"]  # fmt: skip
_COLUMNS = {"a": ("id", "k", "x", "s"), "b": ("id", "k", "y", "s"), "c": ("k", "z")}


def _put(table: str, *rows: tuple[Any, ...]) -> Operation:
    return Operation("put_many", table, tuple(dict(zip(_COLUMNS[table], row, strict=True)) for row in rows))


def _delete(table: str, *rows: dict[str, Any]) -> Operation:
    return Operation("delete", table, rows)


BATCHES = (
    (),
    (_put("a", (1, 1, 1, "p"), (2, 1, 1, None), (3, None, 2, "q"), (4, 2, None, "p")),
     _put("b", (1, 1, 1, "p"), (2, 2, 2, "q"), (3, None, 3, None))),
    (_put("c", (1, 1), (1, 1), (None, 2), (3, 3)), _put("b", (5, 1, 1, "p"))),
    (_delete("b", {"id": 3}), _put("a", (2, 2, 5, "z"))),
    (_delete("a", {"id": 1}), _delete("b", {"id": 1}), _put("b", (7, None, 1, None))),
    (_delete("c", {"k": 1, "z": 1}), _delete("a", {"id": 3})),
    (_delete("b", {"id": 2}, {"id": 5}, {"id": 7}), _delete("a", {"id": 2}, {"id": 4})),
)  # fmt: skip


def kept(query: str, declared_at: int, servers: int = 2) -> MemoryEngine:
    """Keeps a view of `query`, filled while batch `declared_at` comes; it is compared after each batch from then on."""
    engine = MemoryEngine(TABLES, servers)
    base = Base([TableSchema(table.name, table.columns, table.key) for table in engine.catalog.tables])
    for number, batch in enumerate(BATCHES):
        if number == declared_at:
            engine.declare([f"CREATE VIEW v AS {query}"])
            engine.start_fill()
        for operation in batch:
            base.apply(operation)
        engine.apply(batch)
        if number == declared_at:
            engine.finish_fill()
        if number >= declared_at:
            _compare(engine, base, number)
    return engine


def _compare(engine: MemoryEngine, base: Base, batch: int) -> None:
    inputs = {table.id: Answer(base.rows(table.name)) for table in engine.catalog.tables}
    answer = evaluate(engine.relations["v"], inputs)
    assert bag(engine.rows("v")) == bag(answer.rows), f"after batch {batch}"
    found = {(code, place) for _, code, place, _ in engine.errors("v")}
    assert found == {(error.code, error.place) for error in answer.errors}, f"errors after batch {batch}"


WITH = [
    "WITH w AS (SELECT k, sum(x) AS sx FROM a GROUP BY k) SELECT w.k, v.sx FROM w JOIN w v ON w.k = v.k",
    "WITH w(p, q) AS (SELECT k, x FROM a), a AS (SELECT p FROM w WHERE q > 1) SELECT * FROM a",
    "SELECT * FROM (WITH a AS (SELECT k FROM b) SELECT * FROM a) z",
]

SETS = [
    "SELECT k, s FROM a UNION ALL SELECT k, s FROM b",
    "SELECT k, s FROM a UNION SELECT k, s FROM b",
    "SELECT k, s FROM a INTERSECT SELECT k, s FROM b",
    "SELECT k, s FROM a INTERSECT ALL SELECT k, s FROM b",
    "SELECT k, s FROM a EXCEPT SELECT k, s FROM b",
    "SELECT k, s FROM a MINUS ALL SELECT k, s FROM b",
    "SELECT x FROM a UNION ALL SELECT y FROM b UNION ALL SELECT z FROM c",
    "SELECT k, count(*) AS n FROM a GROUP BY k UNION ALL SELECT k, y FROM b",
    """SELECT k, count(*) AS n FROM a GROUP BY k UNION ALL SELECT a.k, b.y FROM a JOIN b ON a.k = b.k
       UNION SELECT count(*), sum(y) FROM b""",
    "(SELECT k FROM a UNION SELECT k FROM b) EXCEPT (SELECT k FROM c INTERSECT SELECT k FROM a)",
    "SELECT k FROM a UNION SELECT k FROM b INTERSECT SELECT k FROM c",
    "SELECT count(*) AS n, max(k) AS m FROM (SELECT k FROM a UNION ALL SELECT k FROM b UNION ALL VALUES (9)) u",
    "SELECT k FROM a EXCEPT ALL VALUES (1), (1)",
    "SELECT k FROM a UNION ALL SELECT k FROM a UNION ALL SELECT k FROM a",
    "SELECT DISTINCT x FROM (SELECT x FROM a UNION ALL SELECT y FROM b) q WHERE x > 0",
]

JOINS = [
    "SELECT k, a.k AS ak, b.k AS bk FROM a RIGHT JOIN b USING (k)",
    "SELECT * FROM a NATURAL JOIN c",
    "SELECT k, z FROM a FULL JOIN b USING (k) JOIN c USING (k)",
    "SELECT * FROM a LEFT SEMI JOIN b USING (k)",
    "SELECT a.id, c.z FROM a CROSS JOIN c",
    "SELECT a.id, c.z FROM a, c WHERE a.k < c.k",
    "SELECT a.id, b.id AS bid FROM a JOIN b ON a.x < b.y",
    "SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON a.x < b.y",
    "SELECT a.id, b.id AS bid FROM a FULL JOIN b ON a.x = 1",
    "SELECT a.id, b.id AS bid, c.z FROM a LEFT JOIN b ON a.k = b.k, c WHERE c.k = a.k",
    "SELECT a.id, b.id AS bid, c.z FROM c, a LEFT JOIN b ON a.k = b.k",
    "SELECT a.id, m.n FROM a CROSS JOIN (SELECT count(*) AS n FROM b) m",
    "SELECT a.id, m.n FROM a JOIN (SELECT max(y) AS n FROM b) m ON a.x < m.n",
    "SELECT x.k, y.k AS yk FROM a x, a y",
    "SELECT k, x, y FROM a LEFT JOIN b USING (k, s)",
    "SELECT k, x, y, z FROM a FULL JOIN b USING (k) FULL JOIN c USING (k)",
    "SELECT * FROM (SELECT k, s, x FROM a) l FULL JOIN (SELECT s, k, y FROM b) r USING (s, k)",
]

CONSTANTS_AND_GROUPS = [
    "VALUES (1, 'a'), (2, NULL), (2.5, NULL)",
    "SELECT * FROM VALUES (1), (NULL) AS v(k)",
    "SELECT k, count(*) AS n FROM VALUES (1), (NULL), (1) AS v(k) GROUP BY k",
    "SELECT a.id, v.n FROM a JOIN (VALUES (1, 'one'), (2, 'two')) v(k, n) ON a.k = v.k",
    "SELECT * FROM VALUES (1 + 1), (3) AS v(k)",
    "SELECT count(*) AS n",
    "SELECT 1 AS one, 'x' AS t",
    "SELECT 1 AS one WHERE 1 = 2",
    "SELECT 1 / 0 AS one",
    "SELECT k, x AS y, y + 1 AS w FROM a",
    "SELECT k, sum(x) AS s2, s2 + 1 AS t FROM a GROUP BY k",
    "SELECT k, s, count(*) AS n FROM a GROUP BY ALL",
    "SELECT count(*) AS n FROM a GROUP BY ALL",
    "SELECT 1 AS one FROM a HAVING 1 = 1",
]

NULL_SAFE = [
    "SELECT a.id, b.id AS bid FROM a JOIN b ON a.k <=> b.k",
    "SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON a.k <=> b.k AND a.s <=> b.s",
    "SELECT a.id, b.id AS bid FROM a FULL JOIN b ON a.k <=> b.k",
    "SELECT a.id, b.id AS bid FROM a, b WHERE a.k <=> b.k AND a.x < b.y",
    "SELECT a.id, c.z FROM a JOIN c ON a.x <=> c.z",
    "SELECT id FROM a ANTI JOIN b ON a.k <=> b.k",
]

SUBQUERIES = [
    "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
    "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 / 0 FROM b WHERE b.k = a.k AND b.s = a.s)",
    "SELECT id FROM a WHERE EXISTS (SELECT * FROM b WHERE b.k = a.k AND b.y > a.x)",
    "SELECT id FROM a WHERE NOT EXISTS (SELECT * FROM b WHERE b.y > a.x)",
    "SELECT id FROM a WHERE EXISTS (SELECT * FROM b)",
    "SELECT id FROM a WHERE NOT EXISTS (SELECT * FROM b WHERE y > 2) AND k > 0",
    "SELECT id FROM a WHERE EXISTS (SELECT max(y) FROM b WHERE b.k = a.k)",
    "SELECT id FROM a WHERE EXISTS (SELECT max(y) FROM b WHERE b.k = a.k HAVING count(*) > 1)",
    "SELECT id FROM a WHERE EXISTS (SELECT count(*) FROM b HAVING max(y) > 2)",
    "SELECT id FROM a WHERE k IN (SELECT k FROM b)",
    "SELECT id FROM a WHERE k NOT IN (SELECT k FROM b)",
    "SELECT id FROM a WHERE k NOT IN (SELECT k FROM b WHERE k IS NOT NULL)",
    "SELECT id FROM a WHERE id NOT IN (SELECT y FROM b)",
    "SELECT id FROM a WHERE id NOT IN (SELECT k FROM c)",
    "SELECT id FROM a WHERE x NOT IN (SELECT y FROM b)",
    "SELECT id FROM a WHERE k NOT IN (SELECT k FROM b WHERE b.s = a.s)",
    "SELECT id FROM a WHERE k IN (SELECT k FROM b WHERE b.y > a.x)",
    "SELECT id FROM a WHERE (k, s) IN (SELECT k, s FROM b)",
    "SELECT id FROM a WHERE k IN (SELECT z FROM c)",
    "SELECT id FROM a WHERE k IN (SELECT max(k) FROM b WHERE b.s = a.s)",
    "SELECT id, id IN (SELECT y FROM b) AS i, id NOT IN (SELECT y FROM b WHERE k = 1) AS n FROM a",
    "SELECT id, id IN (SELECT y FROM b WHERE b.s = a.s) AS i FROM a",
    "SELECT id FROM a WHERE k IN (SELECT k FROM b WHERE b.s = a.s) OR k NOT IN (SELECT k FROM c) AND x > 0",
    "SELECT id, EXISTS (SELECT * FROM b WHERE b.k = a.k) AS e, NOT EXISTS (SELECT * FROM c) AS n FROM a",
    "SELECT id FROM a WHERE EXISTS (SELECT * FROM b WHERE b.k = a.k) OR x > 1",
    "SELECT id FROM a WHERE x > 1 OR k IN (SELECT k FROM c)",
    "SELECT id, (SELECT max(y) FROM b) AS m FROM a",
    "SELECT id, (SELECT max(y) FROM b WHERE b.k = a.k) AS m, (SELECT count(*) FROM b WHERE b.k = a.k) AS n FROM a",
    "SELECT id, (SELECT count(*) + 1 FROM b WHERE b.k = a.k AND y > 1) AS n FROM a",
    "SELECT id, (SELECT 100 / (sum(y) - count(*)) FROM b WHERE b.k = a.k) AS n FROM a",
    "SELECT id, (SELECT 100 / (count(*) - 1) FROM b WHERE b.k = a.k) AS n FROM a",
    "SELECT id, (SELECT sum(y) FROM b WHERE b.k = a.k HAVING count(*) > 1) AS n FROM a",
    "SELECT id FROM a WHERE x > (SELECT avg(y) FROM b WHERE b.k = a.k)",
    "SELECT id FROM a WHERE x = (SELECT min(y) FROM b)",
    "SELECT id, (SELECT y FROM b WHERE b.id = a.id) AS v FROM a",
    "SELECT id, (SELECT y FROM b WHERE b.k = a.k) AS v FROM a",
    "SELECT id, (SELECT z FROM c WHERE c.k = a.k) AS v FROM a",
    "SELECT id, (SELECT 1) AS one, (SELECT 1 WHERE 1 = 2) AS none FROM a",
    "SELECT id, (SELECT k FROM c) AS v FROM a",
    "SELECT id, CASE WHEN x > 1 THEN (SELECT max(y) FROM b WHERE b.k = a.k) ELSE 0 END AS m FROM a",
    "SELECT k, sum(x) AS s FROM a GROUP BY k HAVING sum(x) > (SELECT min(y) FROM b)",
    "SELECT k, sum(x) AS s FROM a GROUP BY k HAVING k IN (SELECT k FROM b)",
    "SELECT k, (SELECT max(z) FROM c WHERE c.k = w.k) AS m FROM (SELECT k FROM a UNION SELECT k FROM b) w",
    "SELECT a.id, b.id AS bid FROM a JOIN b ON a.k = b.k AND b.y = (SELECT max(y) FROM b)",
    "SELECT a.id, b.id AS bid FROM a JOIN b ON a.k = b.k AND EXISTS (SELECT * FROM c WHERE c.k = b.k AND c.z > b.y)",
    """SELECT a.id, b.id AS bid FROM a, b WHERE a.k = b.k AND EXISTS (SELECT * FROM c WHERE c.k = a.k) AND
       a.x NOT IN (SELECT z FROM c WHERE c.k = b.k)""",
    "SELECT id FROM a WHERE k IN (SELECT k FROM b WHERE y > (SELECT min(x) FROM a a2 WHERE a2.k = b.k))",
    "SELECT id FROM a WHERE EXISTS (SELECT * FROM b WHERE b.k = a.k AND b.id IN (SELECT k FROM c))",
    "SELECT id FROM a WHERE x = (SELECT max(x) FROM a a2 WHERE a2.k = a.k)",
    "SELECT id FROM a WHERE EXISTS (SELECT * FROM a a2, b WHERE a2.k = a.k AND a2.id <> a.id AND b.k = a2.k)",
    "SELECT id FROM a WHERE EXISTS (SELECT k FROM b WHERE b.s = a.s GROUP BY k HAVING count(*) > 1)",
    "SELECT id, (SELECT max(n) FROM (SELECT count(*) AS n FROM b WHERE b.k = a.k GROUP BY s) q) AS m FROM a",
    "SELECT id FROM a WHERE EXISTS (SELECT * FROM b LEFT JOIN c ON b.k = c.k WHERE b.k = a.k AND c.z IS NULL)",
    "SELECT id, (WITH w AS (SELECT k, y FROM b) SELECT sum(y) FROM w WHERE w.k = a.k) AS m FROM a",
    "SELECT id FROM a WHERE EXISTS (SELECT * FROM b WHERE b.k <=> a.k)",
    "SELECT id FROM a WHERE (SELECT count(*) FROM b WHERE b.k = a.k) = 0",
    "SELECT id FROM a WHERE NOT (k IN (SELECT k FROM b) AND x > 1)",
    "SELECT id FROM a WHERE 10 / x > 1 AND EXISTS (SELECT * FROM b WHERE b.k = a.k) AND 10 / k > 1",
    "SELECT id FROM a WHERE (10 / k) IN (SELECT y FROM b)",
    "SELECT id, (SELECT 100 / (sum(y) - count(*)) FROM b WHERE b.k = a.k) AS n FROM a",
    "SELECT id, (SELECT 100 / (count(*) - 1) FROM b WHERE b.k = a.k) AS n FROM a",
    "SELECT id, (SELECT 100 / (count(*) - 1) FROM b) AS n FROM a",
    "SELECT id, (SELECT sum(100 / (y - 1)) FROM b) AS n FROM a",
    """SELECT id FROM a WHERE EXISTS (SELECT max(y) FROM b WHERE b.k = a.k HAVING 100 / (count(*) - 1) >
       1) AND x > 0""",
    "SELECT id, (SELECT 1 / (y - 1) FROM b WHERE id = 1) AS i FROM a",
    "SELECT id FROM a WHERE EXISTS (WITH w AS (SELECT y FROM b WHERE b.k = a.k) SELECT * FROM w WHERE y > 1)",
    "SELECT id FROM a WHERE EXISTS (SELECT * FROM (SELECT y FROM b WHERE b.k = a.k) w WHERE y > 1)",
    "SELECT id FROM a WHERE x IN (SELECT 1 / (max(y) - 3) FROM b) OR x > 4",
    "SELECT sum((SELECT max(y) FROM b WHERE b.k = a.k)) AS s FROM a",
]

WRITTEN_SHORTER = [
    "TABLE a",
    "SELECT k FROM (TABLE a) UNION ALL SELECT k FROM (TABLE b UNION ALL TABLE b)",
    "WITH w AS (TABLE c) TABLE w",
    "SELECT k, s, grouping(s) AS g, count(*) AS n FROM a GROUP BY k, s WITH ROLLUP",
    "SELECT k + 1 AS k1, s, max(x) AS m FROM a GROUP BY k + 1, (s) WITH CUBE HAVING count(*) > 0",
    "SELECT id, +k AS k, - + x AS x, +(k + +x) AS t FROM a WHERE +k > + 0",
    "SELECT s, k FROM a ORDER BY ALL DESC NULLS LAST LIMIT 2",
    "SELECT k FROM a UNION SELECT k FROM b ORDER BY all LIMIT 3 OFFSET 1",
]

QUERIES = [*WRITTEN_SHORTER, *WITH, *SETS, *JOINS, *CONSTANTS_AND_GROUPS, *NULL_SAFE, *SUBQUERIES]
