"""What Spark SQL accepts and the rows settle is kept, and what raises in it is an error row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import viewkeeper
from viewkeeper import Database, DeclarationError, ViewBroken

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = [
    {"k": 1, "s": "a", "n": 2, "t": "2020-03-29 01:30:00", "j": '{"a": 5}', "st": {"x": 1, "y": "z"}},
    {"k": 2}, {"k": 3, "s": "abc", "n": -9, "t": "2020-03-30 00:00:00", "j": "[1]", "st": {"x": None, "y": ""}},
]  # fmt: skip


@pytest.fixture
def database(spark: SparkSession, tmp_path: Path) -> Iterator[Database]:
    with viewkeeper.connect(tmp_path / "db", durability="process") as database:
        database.sql("""CREATE TABLE l (k INT PRIMARY KEY, s STRING, n INT, t TIMESTAMP, j STRING,
                        st STRUCT<x: INT, y: STRING>)""")
        yield database


QUERIES = [
    "SELECT /*+ BROADCAST(a) */ a.k, b.k AS other FROM l a JOIN l b ON a.k = b.k",
    "SELECT k, n >>> 1 AS x, n >> 1 AS y FROM l",
    "SELECT k, bitmap_count(X 'FF') AS x FROM l",
    "SELECT k, r'a\\' 'b' AS x, 'c' r'\\' AS y FROM l",
    "SELECT k, t + INTERVAL 1 DAY 2 HOURS AS x FROM l",
    "SELECT k, get_json_object(j, '$.a') AS x, try_variant_get(parse_json(j):a, '$', 'int') AS y FROM l",
    "SELECT k, CAST(n AS INTERVAL DAY) AS x FROM l",
    "SELECT st.*, k FROM l",
    "SELECT struct(*) AS x FROM (SELECT k, n FROM l)",
    "SELECT a FROM VALUES (1, NULL), (2, NULL) AS v(a, b)",
    "SELECT window.start AS x, count(*) AS c FROM l GROUP BY window(t, '1 hour')",
    "SELECT session_window.end AS x, count(*) AS c FROM l GROUP BY session_window(t, '2 days')",
    "SELECT window_time(window) AS x, c FROM (SELECT window, count(*) AS c FROM l GROUP BY window(t, '1 day'))",
    "SELECT s, n, grouping__id AS x, count(*) AS c FROM l GROUP BY CUBE (s, n)",
    "SELECT w.start AS x, c FROM (SELECT window(t, '1 day') AS w, count(*) AS c FROM l GROUP BY 1)",
    "SELECT s, listagg(j, '-') WITHIN GROUP (ORDER BY n, k DESC) AS x FROM l GROUP BY s",
    "SELECT s, mode(n) AS x, mode(n / 2D) AS y FROM l GROUP BY s",
    "SELECT s, listagg(n, '-') WITHIN GROUP (ORDER BY st.x, n) AS x FROM l GROUP BY s",
    "SELECT min_by(j, n, 2) AS x, size(collect_union(array(n))) AS y FROM l",
    "SELECT theta_sketch_estimate(theta_sketch_agg(n)) AS z FROM l",
    "SELECT s, array_sort(sort_array(collect_list(n)), (a, b) -> b - a) AS x FROM l GROUP BY s",
    "SELECT k, collect_list(n) OVER (PARTITION BY s ORDER BY t, k) AS x FROM l",
    "SELECT k, negative(CAST(n AS INTERVAL DAY)) AS x FROM l",
    "SELECT k, window(t, '1 day', '12 hours').start AS x FROM l",
    "SELECT k, hex(aes_encrypt(s, 'abcdefghijklmnop', 'ECB')) AS x FROM l",
    "SELECT s, explode(sort_array(collect_set(n))) AS x FROM l GROUP BY s",
    "SELECT s, posexplode(array(min(n), max(n))) AS (p, x) FROM l GROUP BY s",
    "SELECT s, sort_array(array_distinct(transform(collect_list(n), v -> v % 2))) AS x FROM l GROUP BY s",
    "SELECT s, sort_array(filter(collect_list(n), v -> v > 1)) AS x FROM l GROUP BY s",
    "SELECT s, exists(collect_set(n), v -> v > 1) AS x FROM l GROUP BY s",
    "SELECT s, any_value(s) AS x, first(s) AS y, count(*) AS c FROM l GROUP BY s",
    "SELECT l.k, u.v FROM l, LATERAL (SELECT n AS v FROM l AS o WHERE o.s = l.s ORDER BY n LIMIT 1) AS u",
    "SELECT k, hex(aes_encrypt(s, 'abcdefghijklmnop', 'CBC', 'DEFAULT', unhex(repeat('0f', 16)))) AS x FROM l",
]


ON_THE_DELTA = [
    "SELECT k, filter(array(n, k), v -> v > k) AS x, count(*) FILTER (WHERE n > 1) OVER () AS y FROM l",
    "SELECT k, from_json(j, 'a INT, b STRUCT<c: INT>').b.c + k AS x, from_json(j, 'a INT').a AS y FROM l",
    "SELECT k, exists(array(n, 2), v -> v = k) AS x FROM l WHERE EXISTS (SELECT 1 FROM l AS m WHERE m.n = l.n)",
]


def test_functions_called_as_words_of_sql_and_fields_of_what_they_give_are_computed_on_the_delta(
    database: Database,
) -> None:
    database.sql(";".join(f"CREATE VIEW v{i} AS {query}" for i, query in enumerate(ON_THE_DELTA)))
    for row in ROWS:
        database.table("l").put(row)
    database.catch_up()
    for report in database.check_all():
        report.raise_if_wrong()
        assert "MEMO" in database.explain(report.view) and "SPARK" not in database.explain(report.view)


def test_what_spark_accepts_is_kept(database: Database) -> None:
    """All at once, beside a call that Spark computes for each value: none takes rows from another."""
    views = [*QUERIES, "SELECT k, soundex(s) AS x FROM l"]
    database.sql(";".join(f"CREATE VIEW v{i} AS {query}" for i, query in enumerate(views)))
    for row in ROWS:
        database.table("l").put(row)
        database.catch_up()
        for i, query in enumerate(views):
            kept, expected = database.view(f"v{i}").to_arrow(), database.sql(query, engine="spark").to_arrow()
            assert sorted(map(repr, kept.to_pylist())) == sorted(map(repr, expected.to_pylist())), query
    database.table("l").delete(1)
    database.catch_up()
    for report in database.check_all():
        report.raise_if_wrong()


@pytest.mark.parametrize("query, code", [
    ("SELECT k, 'a(b' RLIKE s AS x FROM l", "FUNCTION_RAISED|INVALID_PARAMETER_VALUE"),
    ("SELECT k, 'ab' LIKE s || '\\\\q' AS x FROM l", "FUNCTION_RAISED|INVALID_FORMAT"),
    ("SELECT k, format_string('%d' || s, s) AS x FROM l", "FUNCTION_RAISED"),
    ("SELECT k, is_variant_null(parse_json(s)) AS x FROM l", "FUNCTION_RAISED|MALFORMED_RECORD"),
    ("SELECT k, to_json(parse_json('[1,' || substr(s, 2))) AS x FROM l", "FUNCTION_RAISED|MALFORMED_RECORD"),
    ("SELECT max(format_string('%d' || s, s)) AS x, skewness(n) AS y FROM l HAVING count(*) > 0", "FUNCTION_RAISED"),
])  # fmt: skip
def test_what_java_raises_of_a_row_breaks_the_view_until_the_row_is_mended(
    database: Database, query: str, code: str
) -> None:
    """It stopped the pipeline: a fill could not end."""
    database.sql(f"CREATE VIEW v AS {query}")
    database.table("l").put({"k": 1, "s": "("})
    database.catch_up()
    with pytest.raises(ViewBroken, match=code):
        list(database.view("v").rows())
    database.check("v").raise_if_wrong()
    database.table("l").put({"k": 1, "s": None})
    database.catch_up()
    assert len(list(database.view("v").rows())) == 1


def test_a_scalar_subquery_of_several_rows_breaks_the_view_until_one_is_left(database: Database) -> None:
    """Spark raises it as no exception that pyspark knows: the view was stopped, as if Spark had failed."""
    database.sql("CREATE VIEW v AS SELECT session_window.end AS x, count(*) AS c, (SELECT k FROM l) AS y FROM l "
                 "GROUP BY session_window(t, '2 days')")  # fmt: skip
    for k in (1, 2):
        database.table("l").put({"k": k, "s": "", "t": f"2026-01-0{k} 00:00:00"})
    database.catch_up()
    with pytest.raises(ViewBroken, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        list(database.view("v").rows())
    database.check("v").raise_if_wrong()
    database.table("l").delete(2)
    database.catch_up()
    assert [row["y"] for row in database.view("v").rows()] == [1]


@pytest.mark.parametrize("query, message", [
    ("SELECT k, aes_encrypt(s, 'abcdefghijklmnop') AS x FROM l", "aes_encrypt.*initialization vector.*column 28"),
    ("SELECT k, aes_encrypt(s, s, 'GCM', 'DEFAULT', '') AS x FROM l", "aes_encrypt.*initialization vector"),
    ("SELECT k, IDENTIFIER(s)(n) AS x FROM l", "write the name itself.*column 28"),
    ("SELECT k, n >>> FROM l", "Spark refuses"),
    ("SELECT k, shuffle(array(n), 3) AS x FROM l", "shuffle cannot stand in a view: .*column 28"),
    ("SELECT k, name FROM l, collations() AS c WHERE c.name = l.s", "collations cannot .* version of Spark"),
    ("SELECT k FROM l JOIN sql_keywords() AS w ON w.keyword = l.s", "sql_keywords cannot .* version of Spark"),
    ("SELECT k, version() || s AS x FROM l", "version cannot .* version of Spark"),
    ("SELECT k, user = s AS x FROM l", "user cannot stand in a view: the value depends on who"),
    ("SELECT s, measure(n) AS x FROM l GROUP BY s", "measure cannot stand in a view: .*write the aggregate"),
    ("SELECT k, current_timezone() || s AS x FROM l", "current_timezone cannot stand in a view: .*who runs"),
    ("SELECT s, hll_sketch_estimate(hll_sketch_agg(n)) AS x FROM l GROUP BY s", "hll_sketch_agg cannot .*column 48"),
    ("SELECT s, listagg(j, '-') WITHIN GROUP (ORDER BY upper(j)) AS x FROM l GROUP BY s", "add the text itself"),
    ("SELECT s, array_sort(collect_list(n), (a, b) -> a - b) AS x FROM l GROUP BY s", "collect_list .*sort_array"),
    ("SELECT k, sum(n) OVER (ORDER BY n GROUPS 1 PRECEDING) AS x FROM l", "Spark has no GROUPS frames; write ROWS"),
    ("SELECT s, sort_array(transform(collect_list(n), (v, i) -> i)) AS x FROM l GROUP BY s", "collect_list .*sort"),
    ("SELECT k, sort_array(collect_set(n) OVER (PARTITION BY s)) AS x FROM l", "collect_set .*ORDER BY .*OVER"),
    ("SELECT s, any_value(n) AS x FROM l GROUP BY s", "any_value cannot .*which row it takes is chance"),
    ("SELECT s, listagg(j) AS x FROM l GROUP BY s", "listagg cannot .* chance; put WITHIN GROUP"),
    ("SELECT s, to_json(collect_union(array(n))) AS x FROM l GROUP BY s", "collect_union .*sort_array"),
    ("SELECT k, collect_list(n) OVER (PARTITION BY s ORDER BY t) AS x FROM l", "collect_list OVER .*such as k"),
    ("SELECT k, listagg(j) OVER (PARTITION BY s ORDER BY t) AS x FROM l", "listagg OVER .*such as k"),
    ("SELECT s, min_by(map(j, 1), n) AS x FROM l GROUP BY s", "map_entries"),
    ("SELECT k, counter_diff(n) OVER (ORDER BY t) AS x FROM l", "counter_diff OVER .* such as k"),
])  # fmt: skip
def test_what_is_not_settled_or_no_sql_is_refused(database: Database, query: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        database.sql(f"CREATE VIEW v AS {query}")


@pytest.mark.parametrize("call, advice", [
    ("percentile_approx(n, 0.5)", "use percentile, which is exact.*column 28"),
    ("kll_sketch_agg_bigint(n)", "use percentile"), ("kll_merge_agg_double(X '00')", "use percentile"),
    ("hll_sketch_agg(s)", "use approx_count_distinct"), ("hll_union_agg(X '00')", "use approx_count_distinct"),
    ("tuple_sketch_agg_double(n, 1.0D)", "use theta_sketch_agg"), ("tuple_union_agg_integer(X '00')", "use theta"),
    ("approx_top_k(s, 2)", "as often .* is chance"), ("approx_top_k_accumulate(s)", "as often .* is chance"),
    ("vector_sum(array(CAST(n AS FLOAT)))", "order in which the rows come"),
])  # fmt: skip
def test_an_aggregate_that_depends_on_how_rows_are_split_is_refused(database: Database, call: str, advice: str) -> None:
    """In three orders and partitionings of 20,000 rows Spark gives three answers."""
    with pytest.raises(DeclarationError, match=f"{call.split('(')[0]} cannot stand in a view: .*{advice}"):
        database.sql(f"CREATE VIEW v AS SELECT s, {call} AS x FROM l GROUP BY s")
