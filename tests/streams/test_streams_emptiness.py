"""What is called certainly empty, against the answers of another engine."""

from __future__ import annotations

from itertools import chain, combinations

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import examples
from viewkeeper.compiler.part_references import read_view_query
from viewkeeper.compiler.source_text import Script
from viewkeeper.compiler.syntax import tokenize
from viewkeeper.plans.references import PartQuery
from viewkeeper.streams.emptiness import Emptiness

TABLES = ("m", "n", "o")


def read(sql: str) -> PartQuery:
    source = Script(sql)
    return read_view_query(source, tokenize(source), "j").query


def forms(sql: str) -> set[frozenset[str]]:
    """The sets of targets whose emptiness suffices."""
    query = read(sql)
    targets = {reference.name: reference.target for reference in query.references}
    return {frozenset(targets[name] for name in names) for names in Emptiness.of(query).form}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT a FROM m[j]", ["m"]), ("SELECT a FROM m[j] WHERE a > 1 ORDER BY a LIMIT 5", ["m"]),
        ("SELECT DISTINCT upper(b), CASE WHEN a > 1 THEN a END, CAST(a AS STRING) FROM m[j]", ["m"]),
        ("SELECT x.a FROM m[j] x, n[j] y", ["m", "n"]), ("SELECT a FROM m[j] x JOIN n[j] y USING (a)", ["m", "n"]),
        ("SELECT a FROM m[j] LEFT JOIN n[j] USING (a)", ["m"]), ("SELECT a FROM m[j] RIGHT JOIN n[j] USING (a)", ["n"]),
        ("SELECT a FROM m[j] FULL JOIN n[j] USING (a)", ["mn"]),
        ("SELECT a FROM m[j] LEFT SEMI JOIN n[j] USING (a)", ["m", "n"]),
        ("SELECT a FROM m[j] LEFT ANTI JOIN n[j] USING (a)", ["m"]),
        ("SELECT a FROM m[j] UNION ALL SELECT a FROM n[j]", ["mn"]),
        ("SELECT a FROM m[j] UNION SELECT a FROM n[j] UNION ALL SELECT 1", []),
        ("SELECT a FROM m[j] INTERSECT SELECT a FROM n[j]", ["m", "n"]),
        ("SELECT a FROM m[j] EXCEPT SELECT a FROM n[j]", ["m"]),
        ("SELECT a, count(*) FROM m[j] GROUP BY a HAVING count(*) > 1", ["m"]),
        ("SELECT count(*) FROM m[j]", []), ("SELECT 1 FROM m[j] HAVING count(*) >= 0", []),
        ("SELECT a + sum(a) FROM m[j] GROUP BY ALL", []), ("SELECT a FROM m[j] GROUP BY CUBE (a)", []),
        ("SELECT sum(a) FROM m[j] GROUP BY ()", []), ("SELECT a FROM m[j] GROUP BY GROUPING SETS ((a), ())", []),
        ("SELECT my_function(a) FROM m[j]", []), ("SELECT 1", []), ("VALUES (1)", []),
        ("SELECT * FROM VALUES (1) AS t", []), ("SELECT a FROM m[j] LIMIT 0", [""]),
        ("SELECT a FROM m[j] WHERE false", [""]), ("SELECT a FROM m[j] CROSS JOIN VALUES (1) AS t(b)", ["m"]),
        ("WITH c AS (SELECT a FROM m[j]), d AS (SELECT a FROM c JOIN n[j] USING (a)) SELECT * FROM d", ["m", "n"]),
        ("WITH c AS (SELECT count(*) AS a FROM m[j]) SELECT n.a FROM n[j], c", ["n"]),
        ("SELECT a FROM (SELECT a FROM m[j] UNION ALL SELECT a FROM n[j]) t JOIN o[j] USING (a)", ["mn", "o"]),
        ("SELECT a FROM m[j] x LEFT JOIN (n[j] y JOIN o[j] z USING (a)) USING (a)", ["m"]),
        ("SELECT a FROM m[j] WHERE a IN (SELECT max(a) FROM n[j])", ["m"]),
        ("SELECT (SELECT max(a) FROM n[j]) FROM m[j]", ["m"]),
        ("SELECT a FROM m[j] LATERAL VIEW explode(array(1, 2)) t AS e", ["m"]),
        ("SELECT a, sum(a) OVER (PARTITION BY a) FROM m[j]", []),
    ],
)  # fmt: skip
def test_a_result_is_empty_where_enough_of_what_it_reads_is(sql: str, expected: list[str]) -> None:
    assert forms(sql) == {frozenset(names) for names in expected}


def test_a_table_named_twice_counts_as_two_references() -> None:
    query = read("SELECT a FROM m[j] p JOIN m[j-1] q USING (a)")
    empty = Emptiness.of(query)
    first, second = (reference.name for reference in query.references)
    assert not empty(frozenset())
    assert empty(frozenset([first])) and empty(frozenset([second]))


ITEM = st.sampled_from([f"{name}[j]" for name in TABLES])
JOINS = st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])


def query_over(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Queries with one column a, over queries with one column a."""
    item = st.one_of(ITEM, below.map(lambda sql: f"({sql})"))
    return st.one_of(
        item.map(lambda one: f"SELECT t.a AS a FROM {one} t WHERE t.a > 0"),
        item.map(lambda one: f"SELECT count(*) AS a FROM {one} t"),
        item.map(lambda one: f"SELECT max(a) AS a FROM {one} t GROUP BY a"),
        st.tuples(item, JOINS, item).map(
            lambda x: f"SELECT COALESCE(t.a, u.a) AS a FROM {x[0]} t {x[1]} {x[2]} u ON t.a = u.a"
        ),  # fmt: skip
        st.tuples(item, JOINS, item, JOINS, item).map(
            lambda x: (
                f"SELECT COALESCE(t.a, u.a, v.a) AS a FROM {x[0]} t {x[1]} {x[2]} u ON t.a = u.a {x[3]} {x[4]} v "
                "ON u.a = v.a"
            )
        ),  # fmt: skip
        st.tuples(below, st.sampled_from(["UNION ALL", "INTERSECT", "EXCEPT"]), below).map(
            lambda x: f"({x[0]}) {x[1]} ({x[2]})"
        ),  # fmt: skip
        st.tuples(below, item).map(lambda x: f"WITH c AS ({x[0]}) SELECT c.a FROM c JOIN {x[1]} d ON c.a = d.a"),
    )


QUERIES = st.recursive(ITEM.map(lambda one: f"SELECT a FROM {one}"), query_over, max_leaves=5)


@settings(deadline=None, max_examples=examples(50))
@given(QUERIES)
def test_nothing_that_is_called_certainly_empty_has_a_row(sql: str) -> None:
    query = read(sql)
    empty = Emptiness.of(query)
    names = [reference.name for reference in query.references]
    with duckdb.connect() as connection:
        for name in names:
            connection.execute(f"CREATE TABLE {name} (a INT)")
        for gone in chain.from_iterable(combinations(names, size) for size in range(len(names) + 1)):
            for name in names:
                connection.execute(f"DELETE FROM {name}")
                if name not in gone:
                    connection.execute(f"INSERT INTO {name} VALUES (1), (2)")
            if empty(frozenset(gone)):
                assert connection.execute(query.sql.replace("`", '"')).fetchall() == []
