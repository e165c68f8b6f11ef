"""Views with aggregates that Spark computes for the touched groups, and changes of the tables that they read."""

from __future__ import annotations

import random

from viewkeeper.database import Database

TABLES = """
CREATE TABLE t (id INT, g STRING, h DOUBLE, n INT, x DOUBLE, m DECIMAL(9, 2), s STRING, PRIMARY KEY (id));
CREATE TABLE u (g STRING, name STRING);
"""

QUERIES = {
    "one": "SELECT g, approx_count_distinct(s) AS n FROM t GROUP BY g",
    "mixed": "SELECT g, h, count(*) AS c, mode(x) AS b, max_by(s, h, 2) AS k, sum(m) AS m, median(n) AS mid, "
             "count(DISTINCT s) AS d, bool_or(n > 1), approx_count_distinct(n) FROM t GROUP BY g, h",
    "filtered": "SELECT h, approx_count_distinct(n) FILTER (WHERE s <> 'a') AS f, count_if(n = 1) AS one, "
                "sum(DISTINCT n) AS s, kurtosis(0 * n) AS k FROM t GROUP BY h",
    "around": "SELECT upper(g) AS g, round(approx_count_distinct(n) / 2.0, 1) + max(n) AS v, "
              "size(collect_set(s)) AS k FROM t WHERE n IS NOT NULL GROUP BY upper(g) "
              "HAVING approx_count_distinct(n, 0.01) > 0 OR upper(g) IS NULL",
    "whole": "SELECT approx_count_distinct(s) AS n, mode(x) AS h FROM t WHERE n > 2",
    "whole_beside": "SELECT count(*) AS c, approx_count_distinct(s) AS n, median(n) AS m FROM t WHERE n > 2",
    "joined": "SELECT u.name, approx_count_distinct(n) AS n, count(*) AS c FROM t JOIN u ON t.g = u.g GROUP BY u.name",
    "sets": "SELECT g, n, approx_count_distinct(s) AS d, count(*) AS c FROM t GROUP BY ROLLUP (g, n)",
    "by": "SELECT g, max_by(array(n, s), h) AS a, min_by(array(s), x) FILTER (WHERE n > 1) AS b, max_by(s, n) AS c, "
          "min_by(levenshtein(s, g), h) AS d FROM t GROUP BY g",
    "by_over": "SELECT id, max_by(s, n) FILTER (WHERE x > 1) OVER (PARTITION BY g) AS m, soundex(s) AS o FROM t",
    "windows": "SELECT id, g, approx_count_distinct(s) OVER (PARTITION BY g) + 1 AS a, "
               "count(*) OVER (PARTITION BY h) AS c, "
               "approx_count_distinct(n) FILTER (WHERE s <> 'a') OVER () AS b FROM t WHERE n IS NOT NULL "
               "QUALIFY approx_count_distinct(n) OVER (PARTITION BY g, upper(s)) < 3",
    "running": "SELECT id, s, approx_count_distinct(n) OVER (PARTITION BY g ORDER BY id DESC NULLS LAST) AS a, "
               "approx_count_distinct(s) FILTER (WHERE n > 1) OVER (PARTITION BY g ORDER BY h, n DESC) + 1 AS b, "
               "approx_count_distinct(n) OVER (PARTITION BY g) AS c, count(*) OVER (PARTITION BY g) AS d, "
               "percentile(n, 0.3, 2) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS e FROM t",
    "ranged": "SELECT id, h, n, approx_count_distinct(s) OVER (PARTITION BY g ORDER BY n RANGE BETWEEN 1 PRECEDING AND "
              "CURRENT ROW) AS a, kurtosis(0 * n) OVER (ORDER BY m DESC RANGE BETWEEN 0.5 PRECEDING AND "
              "UNBOUNDED FOLLOWING) AS b, "
              "approx_count_distinct(n) OVER (PARTITION BY g ORDER BY h, s NULLS LAST) AS c, "
              "approx_count_distinct(n) OVER (ORDER BY date_from_unix_date(n) RANGE BETWEEN INTERVAL 1 DAY PRECEDING "
              "AND INTERVAL '1' DAY FOLLOWING) AS d FROM t",
    "bag": "SELECT g, name, approx_count_distinct(name) OVER (PARTITION BY g ORDER BY length(name) DESC) AS d, "
           "approx_count_distinct(g) OVER (ORDER BY length(name) RANGE 1 PRECEDING) AS e FROM u",
    "lists": "SELECT id, collect_list(s) OVER (PARTITION BY g ORDER BY n, id) AS a, "
             "array_agg(n) FILTER (WHERE s <> 'b') OVER (PARTITION BY g ORDER BY id DESC ROWS 1 PRECEDING) AS b "
             "FROM t",
    "floats": "SELECT g, approx_count_distinct(s) AS d, sum(x) AS x, avg(n) AS n, soundex(g) AS o, stddev(x) AS v "
              "FROM t GROUP BY g HAVING sum(x) > 0 OR g = 'a'",
    "over_groups": "SELECT h, n, approx_count_distinct(n) OVER (PARTITION BY h) AS d, max(count(*)) OVER () AS c "
                   "FROM t GROUP BY h, n",
    "over_it": "SELECT n, count(*) AS c, approx_count_distinct(g) AS g FROM one GROUP BY n",
    "again": "SELECT approx_count_distinct(s) AS n, g FROM t GROUP BY g HAVING count(*) > 1",
    "correlated": "SELECT id, n, "
                  "(SELECT approx_count_distinct(i.s) + count(*) FROM t AS i WHERE i.g = t.g AND i.n > 1) AS d, "
                  "(SELECT size(collect_set(i.n)) FROM t AS i WHERE i.g = t.s) AS k, "
                  "(SELECT kurtosis(0 * i.n) FROM t AS i WHERE i.h = t.h) AS u FROM t "
                  "WHERE coalesce(n, 2) <> (SELECT nullif(approx_count_distinct(u.name), 3) FROM u WHERE u.g = t.g)",
    "subquery": "SELECT id, n FROM t WHERE n < (SELECT approx_count_distinct(s) FROM t)",
}  # fmt: skip

GROUPS = ["a", "b", "", None, "Ä"]


def change(database: Database, chance: random.Random, count: int = 8) -> None:
    for _ in range(count):
        key = chance.randrange(12)
        if chance.random() < 0.35:
            database.table("t").delete(key)
            continue
        database.table("t").put({
            "id": key, "g": chance.choice(GROUPS), "h": chance.choice([0.0, -0.0, None, float("nan")]),
            "n": chance.choice([1, 2, 3, 4, None]), "x": chance.choice([1.0, -0.0, 2.5, None]),
            "m": chance.choice(["1.5", None, "2"]), "s": chance.choice(["a", "b", "", None]),
        })  # fmt: skip
    database.table("u").put({"g": chance.choice(GROUPS), "name": chance.choice(["x", "y", None])})
