"""What the planner makes of sixty queries, word for word in `golden_plans.txt`: rules, zones, operators, states.

`python tests/plans/test_golden_plans.py` (with tests/support on the path) writes the file anew; read the difference
before you commit it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_engine import MemoryEngine
from viewkeeper.maintenance.explain import explain_view
from viewkeeper.maintenance.rules.rewriter import rewritten

GOLDEN = Path(__file__).with_name("golden_plans.txt")
RULE = "=" * 80 + "\n"

TABLES = ["CREATE TABLE o (id BIGINT, c BIGINT, x INT, price DECIMAL(12,2), day DATE, PRIMARY KEY (id))",
          "CREATE TABLE c (id BIGINT, name STRING, region STRING, y INT, PRIMARY KEY (id))",
          "CREATE TABLE i (o BIGINT, line INT, qty INT, f DOUBLE, PRIMARY KEY (o, line))",
          "CREATE TABLE l (what STRING, n INT)"]  # fmt: skip

QUERIES = [
    "SELECT id, x FROM o",
    "SELECT * FROM l",
    "SELECT id, x + 1 AS more FROM o WHERE x > 5",
    "SELECT what FROM l WHERE n BETWEEN 1 AND 3",
    "SELECT id FROM o WHERE 10 / x > 1",
    "SELECT upper(name), length(region) FROM c WHERE name IS NOT NULL",
    "SELECT id, CASE WHEN x > 0 THEN 'more' ELSE 'less' END AS s FROM o",
    "SELECT DISTINCT region FROM c",
    "SELECT DISTINCT year(day), c FROM o WHERE x IN (1, 2, 3)",
    "SELECT c, count(*), sum(x), avg(x) FROM o GROUP BY c",
    "SELECT c, min(price), max(price) FROM o GROUP BY c",
    "SELECT count(*), sum(price) FROM o",
    "SELECT region, count(name), min(y) FROM c GROUP BY region HAVING count(name) > 1",
    "SELECT c % 10 AS bucket, sum(10 / x) FROM o GROUP BY c % 10",
    "SELECT o, sum(f) FROM i GROUP BY o HAVING max(qty) > 3 AND sum(f) > 0",
    "SELECT c, s FROM (SELECT c, sum(x) AS s FROM o GROUP BY c) WHERE s > 10",
    "SELECT s, count(*) FROM (SELECT c, sum(x) AS s FROM o GROUP BY c) GROUP BY s",
    "SELECT o.id, name FROM o JOIN c ON o.c = c.id",
    "SELECT o.id, name FROM o JOIN c ON o.c = c.id WHERE o.x > 3 AND c.region = 'north'",
    "SELECT o.id, name FROM o JOIN c ON o.c = c.id AND o.x > c.y AND c.y > 1",
    "SELECT o.id, name FROM o JOIN c ON o.c = c.id WHERE 1 / o.x > 0 AND c.y > 1",
    "SELECT o.id, name FROM o JOIN c ON o.c / 2 = c.id",
    "SELECT o.id, line, name FROM o JOIN i ON o.id = i.o JOIN c ON o.c = c.id",
    "SELECT region, sum(price), count(*) FROM o JOIN c ON o.c = c.id GROUP BY region",
    "SELECT a.id, b.id AS other FROM o a JOIN o b ON a.c = b.c WHERE a.x > b.x",
    "SELECT name, s FROM c JOIN (SELECT c, sum(x) AS s FROM o GROUP BY c) t ON c.id = t.c",
    "SELECT o.id, name FROM o LEFT JOIN c ON o.c = c.id",
    "SELECT o.id, name FROM o LEFT JOIN c ON o.c = c.id AND c.region = 'north'",
    "SELECT o.id, name FROM o LEFT JOIN c ON o.c = c.id AND o.x > c.y",
    "SELECT o.id, name FROM o LEFT JOIN c ON o.c = c.id WHERE o.x > 3",
    "SELECT o.id, name FROM o LEFT JOIN c ON o.c = c.id WHERE name > 'm'",
    "SELECT o.id FROM o LEFT JOIN c ON o.c = c.id WHERE c.id IS NULL",
    "SELECT name, o.id FROM o RIGHT JOIN c ON o.c = c.id AND o.x > 0",
    "SELECT o.id, name FROM o FULL JOIN c ON o.c = c.id",
    "SELECT o.id, name FROM o FULL JOIN c ON o.c = c.id WHERE o.x > 0",
    "SELECT id FROM o LEFT SEMI JOIN c ON o.c = c.id AND c.y > 0",
    "SELECT id FROM o LEFT ANTI JOIN c ON o.c = c.id AND o.x > c.y",
    "SELECT region, count(*) FROM c LEFT JOIN o ON o.c = c.id GROUP BY region",
    "SELECT what, f FROM l LEFT JOIN i ON l.n = i.qty FULL JOIN c ON l.n = c.y",
    "SELECT DISTINCT name FROM o JOIN c ON o.c = c.id WHERE price > 100",
    "SELECT 1 AS one",
    "SELECT o.id, v.name FROM o JOIN (VALUES (1, 'one'), (2, 'two')) AS v(x, name) USING (x)",
    "SELECT id, x FROM o UNION ALL SELECT id, y FROM c",
    "SELECT c, x FROM o UNION SELECT c, count(*) FROM o GROUP BY c",
    "SELECT c, x FROM o INTERSECT SELECT id, y FROM c",
    "SELECT c, x FROM o EXCEPT ALL SELECT id, y FROM c",
    "WITH s AS (SELECT c, sum(x) AS x FROM o GROUP BY c) SELECT a.c, b.c AS d FROM s a JOIN s b ON a.x = b.x",
    "SELECT o.id, l.n FROM o, l WHERE o.x < l.n AND o.x > 1",
    "SELECT o.id, m.most FROM o CROSS JOIN (SELECT max(y) AS most FROM c) m WHERE o.x = m.most",
    "SELECT id, name FROM o FULL JOIN c USING (id)",
    "SELECT id FROM o WHERE EXISTS (SELECT * FROM c WHERE c.id = o.c AND c.region = 'north') AND x > 1",
    "SELECT id FROM o WHERE NOT EXISTS (SELECT * FROM i WHERE i.o = o.id AND i.qty > o.x)",
    "SELECT id FROM o WHERE EXISTS (SELECT * FROM l)",
    "SELECT id FROM o WHERE c IN (SELECT id FROM c WHERE y > 0) AND id NOT IN (SELECT o FROM i)",
    "SELECT id FROM o WHERE c NOT IN (SELECT y FROM c)",
    "SELECT id FROM o WHERE x IN (SELECT y FROM c) OR x > 5",
    "SELECT id FROM o WHERE price > (SELECT avg(price) FROM o b WHERE b.c = o.c)",
    "SELECT id, (SELECT count(*) FROM i WHERE i.o = o.id) AS n, (SELECT max(y) FROM c) AS most FROM o",
    "SELECT id, (SELECT name FROM c WHERE c.id = o.c) AS name FROM o",
    "SELECT o.id, c.id AS other FROM o LEFT JOIN c ON o.x <=> c.y",
    "SELECT c, sum(x) AS s FROM o GROUP BY c ORDER BY s DESC, upper('x') LIMIT 10 OFFSET 2",
    "SELECT c, count(DISTINCT x) AS d, sum(x) AS s, count(*) FILTER (WHERE x > 1) AS n FROM o GROUP BY c",
    "SELECT o.id, c.id AS other FROM o, c WHERE (o.c = c.id AND y > 1) OR (o.c = c.id AND x > 2)",
    "SELECT o.id, name FROM o JOIN c ON o.c = c.id WHERE o.x > 1 + 1 AND c.y > 10 / 4",
    "SELECT id FROM c WHERE y > (SELECT sum(x) FROM o WHERE o.c = c.id AND day < DATE '2020-1-1' + INTERVAL '1' YEAR)",
    "SELECT id, c, sum(price) OVER (PARTITION BY c ORDER BY day) AS s, rank() OVER (ORDER BY x) AS r FROM o",
    "SELECT c, sum(sum(x)) OVER (ORDER BY c) AS running FROM o GROUP BY c QUALIFY count(*) OVER () > 1",
    "SELECT id, c FROM (SELECT id, c, row_number() OVER (PARTITION BY c ORDER BY price DESC) AS r FROM o) WHERE r <= 3",
    "SELECT o.id, e FROM o JOIN c ON o.c = c.id LATERAL VIEW OUTER explode(array(x, 10 / y)) l AS e WHERE o.id > 3",
    "SELECT id, c FROM o QUALIFY 3 > rank() OVER (PARTITION BY c ORDER BY price) AND 1 / x > 0",
]


def planned(query: str) -> str:
    engine = MemoryEngine(TABLES)
    engine.declare([f"CREATE VIEW v AS {query}"])
    _, rules = rewritten(engine.relations["v"], "UTC")
    return f"{query}\nrules: {', '.join(rules) or 'none'}\n{explain_view(engine.catalog, engine.catalog.views[-1])}\n"


def golden() -> dict[str, str]:
    plans = GOLDEN.read_text().split(RULE)
    return {plan.partition("\n")[0]: plan for plan in plans}


@pytest.mark.parametrize("query", QUERIES)
def test_the_plan_is_as_it_was_read(query: str) -> None:
    assert planned(query) == golden()[query]


def test_the_file_holds_these_queries_alone() -> None:
    assert list(golden()) == QUERIES and len(QUERIES) == 70


if __name__ == "__main__":
    GOLDEN.write_text(RULE.join(map(planned, QUERIES)))
